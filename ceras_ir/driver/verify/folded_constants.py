"""
Hold constants that the importer folded to those of the reference.

A constant that differs must be within the bound of the operations of its node. The node alone is
imported again, with its float operands as inputs, so that the importer emits these operations. The
differences of the operands are known, since they were compared before.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper
from xdsl.ir import SSAValue

from ceras_ir.driver.verify.bounded_evaluation import BoundedEvaluation, lost, relative, unit_of
from ceras_ir.driver.verify.model_reference import ModelReference
from ceras_ir.driver.verify.rounding.real import UNIT, Array, Doubles
from ceras_ir.driver.verify.rounding.rules import equal
from ceras_ir.frontends.onnx import import_with_names
from ceras_ir.frontends.onnx.emission.values import NO_VALUE, Constant, TensorList, Value
from ceras_ir.network.function import input_names, main_function
from ceras_ir.support.diagnostics import InputError, UnsupportedError

GENERATED_UNITS = 8 * UNIT
"""
The rounding of tables that operators make without float operands, such as windows, relative to the
largest element.
"""


class FoldedConstants:
    """The constants that the importer has for tensors of a model."""

    def __init__(
        self, model: onnx.ModelProto, named: Mapping[str, Value], reference: ModelReference
    ):
        self.model, self.reference = model, reference
        self.constants = {
            name: value
            for name, value in named.items()
            if isinstance(value, Constant) and not isinstance(value, TensorList)
            if value is not NO_VALUE
        }
        self._apart: dict[str, Doubles] = {}
        """How far each element of a folded constant is from the reference."""

    def inputs(self) -> dict[str, Array]:
        """Inputs of the model that are constants of the graph."""
        types = self.reference.types
        return {name: v.load() for name, v in self.constants.items() if name in types}

    def compare(self, expected: Mapping[str, Array]) -> Iterator[tuple[str, Array, Array, Doubles]]:
        """
        Each constant that was folded, with the tensor of the reference and its bounds; the next
        one follows from the differences of those before.
        """
        for name, constant in self.constants.items():
            if name not in self.reference.nodes or name not in expected:
                continue
            actual, tensor = constant.load(), np.asarray(expected[name])
            if tensor.dtype.kind not in "biuf" or actual.dtype.kind not in "biuf":
                continue  # Text.
            bound = np.zeros(tensor.shape)
            if actual.shape == tensor.shape and not equal(actual, tensor).all():
                bound = self._bound(name, tensor)
            yield name, actual, tensor, bound
            apart = np.abs(actual.astype(np.float64) - tensor.astype(np.float64))
            self._apart[name] = np.nan_to_num(apart, nan=0.0)

    def relative_error(self, name: str) -> float | None:
        """The relative difference of a constant, None for names that the model does not have."""
        if (constant := self.constants.get(name)) is None:
            return None
        if constant.dtype == np.float64 or (name in self._apart and self._apart[name].any()):
            values = constant.load()
            wide = lost(values, np.dtype(np.float32))
            apart = self._apart.get(name, np.zeros(values.shape))
            return relative(apart + wide, values.astype(np.float64))
        return 0.0

    def _bound(self, name: str, expected: Array) -> Doubles:
        if expected.dtype.kind != "f":
            return np.zeros(expected.shape)
        node = self.reference.nodes[name]
        arrays = {i: self.constants[i].load() for i in node.input if i in self.constants}
        floats = {i: a for i, a in arrays.items() if a.dtype.kind == "f"}
        single = onnx.ModelProto()
        single.CopyFrom(self.model)
        graph = helper.make_graph(
            [node],
            name,
            [
                helper.make_tensor_value_info(i, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for i, a in floats.items()
            ],
            [onnx.ValueInfoProto(name=output) for output in node.output if output],
            [numpy_helper.from_array(a, i) for i, a in arrays.items() if i not in floats],
        )
        single.graph.CopyFrom(graph)
        generated = np.full(expected.shape, GENERATED_UNITS * np.abs(expected).max(initial=0.0))
        try:
            module, named = import_with_names(single)
        except (InputError, UnsupportedError):
            return generated
        if not isinstance(value := named[name], SSAValue):
            return generated
        evaluation = BoundedEvaluation(module, self.relative_error)
        main = main_function(module)
        for operand, argument in zip(input_names(main), main.body.block.args, strict=True):
            array = floats[operand]
            apart = self._apart.get(operand, np.zeros(array.shape))
            dtype = np.dtype(np.float32)
            evaluation.set(argument, array.astype(dtype), apart + lost(array, dtype))
        for op in main.body.block.ops:
            if op.results:
                evaluation.compute(op)
        evaluation.unit = unit_of([*arrays.values(), expected])
        return evaluation.error_of(value)
