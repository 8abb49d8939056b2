"""
Hold the imported graph to the ONNX model that it was made of, node by node.

1. An implementation of ONNX that shares no code with ours runs the model (`model_reference.py`).
2. The interpreter runs the imported graph in the layouts of the model. The importer has recorded
   which value it made of each tensor; a wrong record shows as a difference.
3. As soon as such a value is computed, it is compared with the tensor of the reference and replaced
   by it. So the operations of each node are computed from the operands of the reference.
4. A tensor that the importer fused away is covered by the next one that both have. Constants that
   the importer folded are compared too.

Integers and truth values must be equal. Floats must be within the bounds of `rounding/`, which
follow from the operations, the operands and the types. An integer that is rounded from a float may
differ by a step if the bound of the float reaches a tie.
"""

from collections.abc import Mapping
from math import inf

import numpy as np
import onnx
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.driver.verify.bounded_evaluation import BoundedEvaluation, lost, unit_of
from ceras_ir.driver.verify.folded_constants import FoldedConstants
from ceras_ir.driver.verify.model_reference import ModelReference
from ceras_ir.driver.verify.rounding.operators import term_of
from ceras_ir.driver.verify.rounding.real import Array, Doubles
from ceras_ir.driver.verify.rounding.rules import equal, within
from ceras_ir.frontends.onnx.emission.values import Value
from ceras_ir.network.function import input_names, main_function
from ceras_ir.network.states import initial_state, states_of

SIZED_BY_DATA = frozenset({"NonMaxSuppression"})
"""Operators whose results have as many rows as data decide."""


class MismatchError(Exception):
    """An element that is out of its bound; the message names it."""


class AsImported:
    """A model, and the graph that was imported of it."""

    def __init__(
        self,
        model: onnx.ModelProto,
        module: ModuleOp,
        named: Mapping[str, Value],
        reference: ModelReference,
    ):
        self.module, self.reference = module, reference
        self.main = main_function(module)
        self.names: dict[SSAValue, list[str]] = {}
        for name in reference.nodes:
            if isinstance(value := named.get(name), SSAValue):
                self.names.setdefault(value, []).append(name)
        self.reset()
        self.constants = FoldedConstants(model, named, reference)
        self._sized = set[SSAValue]()
        """Values of the sample that depend on a number of rows that data decide."""
        self.samples = 0
        self.compared: set[str] = set()
        """The tensors of the model that were compared."""
        self.unbounded = 0
        """Elements of all samples that differ and have no bound."""

    def reset(self) -> None:
        """Begin again with the first states."""
        self.states = {state.name: initial_state(state) for state in states_of(self.main)}

    def reference_results(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """The tensors of the reference. Raises `NoReferenceError`."""
        return self.reference.run({**self.constants.inputs(), **sample, **self.states})

    def compare(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """
        Run both on one sample; the outputs of the reference. Raises `MismatchError` at the first
        element that is out of its bound, and `NoReferenceError`.
        """
        inputs = {**self.constants.inputs(), **sample, **self.states}
        expected = self.reference_results(sample)
        for state in states_of(self.main):
            self.states[state.name] = expected[state.result_name]
        known = {**inputs, **expected}
        with np.errstate(all="ignore"):
            if not self.samples:
                for name, actual, tensor, bound in self.constants.compare(expected):
                    self.compared.add(name)
                    self._check_shape(name, actual, tensor)
                    self._judge(name, known, actual, tensor, bound)
            self._walk(known)
        self.samples += 1
        return {name: expected[name] for name in self.reference.outputs if name in expected}

    def _walk(self, known: Mapping[str, Array]) -> None:
        evaluation = BoundedEvaluation(self.module, self.constants.relative_error)
        self._sized = set[SSAValue]()
        block, types = self.main.body.block, self.reference.types
        for name, argument in zip(input_names(self.main), block.args, strict=True):
            given = np.asarray(known[name]).astype(types[name])
            dtype = graph.numpy_dtype(graph.element_of(argument))
            evaluation.set(argument, given.astype(dtype), lost(given, dtype))
            self._check(argument, evaluation, known)
        for op in block.ops:
            if isinstance(op, ReturnOp):
                return
            (result,) = op.results
            if result in self.names or result.uses.get_length():
                evaluation.compute(op)
                if self._sized.isdisjoint(op.operands):
                    self._check(result, evaluation, known)
                else:
                    self._sized.add(result)

    def _check(
        self, value: SSAValue, evaluation: BoundedEvaluation, known: Mapping[str, Array]
    ) -> None:
        """Compare a value with the tensors that the model has of it, and replace it."""
        for name in self.names.get(value, ()):
            actual = evaluation.values[value]
            if name not in known or known[name].dtype.kind not in "biuf":
                continue  # Text and sequences.
            expected = np.asarray(known[name])
            self.compared.add(name)
            if (rows := self._common_rows(name, actual, expected)) is not None:
                self._sized.add(value)
                self._judge(name, known, actual[:rows], expected[:rows], np.zeros(()))
                continue
            if actual.shape != expected.shape or not equal(actual, expected).all():
                self._check_shape(name, actual, expected)
                operands = self._operands(name, known)
                evaluation.unit = unit_of([*operands, expected])
                term = term_of(self.reference.nodes[name], operands, expected.ndim)
                bound = evaluation.error_of(value)
                if (other := term + lost(expected, actual.dtype)).any():
                    bound = bound + other
                if expected.dtype.kind == "f":
                    rounding = np.abs(expected, dtype=np.float64)
                    rounding *= evaluation.unit
                    rounding += bound
                    bound = rounding
                self._judge(name, known, actual, expected, bound)
            dtype = actual.dtype
            evaluation.set(value, expected.astype(dtype, copy=False), lost(expected, dtype))

    def _common_rows(self, name: str, actual: Array, expected: Array) -> int | None:
        """
        If data decide the number of rows, which is fixed in the imported graph, the number of rows
        that both have. Later rows have no counterpart, and neither do values that are computed of
        them.
        """
        is_sized = self.reference.nodes[name].op_type in SIZED_BY_DATA
        if not is_sized or actual.shape[1:] != expected.shape[1:] or actual.shape == expected.shape:
            return None
        return min(len(actual), len(expected))

    def _judge(
        self,
        name: str,
        known: Mapping[str, Array],
        actual: Array,
        expected: Array,
        bound: Doubles,
    ) -> None:
        bound = np.broadcast_to(bound, actual.shape)
        if (close := within(actual, expected, bound)).all() and bound.max(initial=0.0) < inf:
            return
        floats = [a for a in self._operands(name, known) if a.dtype.kind == "f"]
        if not all(np.isfinite(array).all() for array in floats):
            # ONNX does not say what operators make of NaN.
            bound = np.where(np.isnan(actual) | np.isnan(expected), inf, bound)
            close = within(actual, expected, bound)
        self.unbounded += int(np.count_nonzero(np.isinf(bound) & (actual != expected)))
        # Infinity is no difference that a bound of infinity could cover.
        close |= np.isinf(bound)
        if not close.all():
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            raise MismatchError(
                f"{self._title(name)}{list(at)}: the imported graph computes {actual[at]}, "
                f"the reference {expected[at]}; bound {bound[at]:.2g}"
            )

    def _check_shape(self, name: str, actual: Array, expected: Array) -> None:
        if actual.shape != expected.shape:
            shapes = f"{list(actual.shape)}, the reference {list(expected.shape)}"
            raise MismatchError(f"{self._title(name)}: the imported graph has shape {shapes}")

    def _title(self, name: str) -> str:
        node = self.reference.nodes[name]
        return f"node '{node.name or name}' ({node.op_type}), tensor '{name}'"

    def _operands(self, name: str, known: Mapping[str, Array]) -> list[Array]:
        """The tensors that the node of `name` reads; none for what is no tensor or not given."""
        found: list[Array] = []
        for operand in self.reference.nodes[name].input:
            constant = self.constants.constants.get(operand)
            if operand in known:
                found.append(np.asarray(known[operand]))
            else:
                found.append(np.zeros(0) if constant is None else constant.load())
        return found
