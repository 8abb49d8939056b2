"""
Run an ONNX model with an implementation of ONNX that shares no code with the importer.

ONNX Runtime runs the model without graph optimizations. If it is not installed or refuses the
model, the reference evaluator of ONNX runs it. Each tensor that a node of the main graph computes
becomes an output, for the comparison node by node.

The module also compares folded constants with the reference. A difference must be within the bound
of the operations of the node. The node is imported separately with its float operands as inputs, so
that the importer emits these operations. The differences of the operands are known, because they
were compared before.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from xdsl.ir import SSAValue

from ceras_ir.driver.verify.bounded_evaluation import BoundedEvaluation, lost, relative, unit_of
from ceras_ir.driver.verify.real_values import UNIT, Doubles
from ceras_ir.driver.verify.rounding_rules import equal
from ceras_ir.driver.verify.unsigned_weights import with_unsigned_weights
from ceras_ir.frontends.onnx import import_with_names
from ceras_ir.frontends.onnx.emission.values import NO_VALUE, Constant, TensorList, Value
from ceras_ir.network.function import input_names, main_function
from ceras_ir.support.diagnostics import InputError, UnsupportedError

Array: TypeAlias = NDArray[np.generic]
Result: TypeAlias = Array | np.generic | Sequence[Array] | None
"""A tensor; a sequence of tensors, or an absent optional value."""
RunModel: TypeAlias = Callable[[Mapping[str, Array]], Sequence[Result]]
Started: TypeAlias = tuple[str, RunModel]
"""The version of an implementation, and the function that runs the model."""

RUNTIME, EVALUATOR = "ONNX Runtime", "ONNX's reference evaluator"

MAX_MODEL_BYTES = (1 << 31) - 1
"""The largest model in a protobuf message, in bytes."""


MAX_TREE_NODES = 1 << 14
"""The largest number of tree nodes for ONNX Runtime."""

MAX_CALLS = 10_000
"""The largest number of function calls for the evaluator, each with a copy of the body."""


class NoReferenceError(Exception):
    """No reference can run the model; the message is the reason in a line."""


class ModelReference:
    """
    An ONNX model that an independent implementation (ONNX Runtime or the reference evaluator) runs,
    to check the importer.
    """

    def __init__(self, model: onnx.ModelProto, wanted: Collection[str], folder: Path | None):
        """
        Use `model` with the outputs and the tensors `wanted` that nodes of the graph compute.
        `folder` has the external data. Raises `NoReferenceError`.
        """
        graph = model.graph
        self.nodes = {name: node for node in graph.node for name in node.output if name}
        """The node that computes each tensor."""
        self.outputs = [value.name for value in graph.output]
        inner = [name for name in self.nodes if name in wanted and name not in self.outputs]
        constants = {tensor.name for tensor in graph.initializer}
        constants.update(tensor.values.name for tensor in graph.sparse_initializer)
        inputs = (value for value in graph.input if value.name not in constants)
        self.types = dict(_input_types(inputs))
        """The numpy types of the inputs that callers provide."""
        self._model, self._folder, self._names = model, folder, (*self.outputs, *inner)
        self._left = [(RUNTIME, _onnxruntime), (EVALUATOR, _evaluator)]
        self._reasons: list[str] = []
        self.name, self._run = self._next()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """
        Return all outputs and wanted tensors by name. Values that are no tensors, such as
        sequences, are omitted. If an implementation fails, the next is used; raise
        `NoReferenceError` after the last.
        """
        feeds = {name: np.asarray(inputs[name]).astype(kind) for name, kind in self.types.items()}
        while True:
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    # NumPy warns about means of no elements.
                    warnings.simplefilter("ignore", RuntimeWarning)
                    found = self._run(feeds)
                break
            except Exception as error:  # Operators of an implementation raise any exception.
                self._reasons.append(f"{self.name}: {_first_line(error)}")
                self.name, self._run = self._next()
        tensors: dict[str, Array] = {}
        for name, value in zip(self._names, found, strict=True):
            if value is not None and not isinstance(value, Sequence):
                tensors[name] = np.asarray(value)
        return tensors

    def _next(self) -> tuple[str, RunModel]:
        while self._left:
            name, start = self._left.pop(0)
            extended = onnx.ModelProto()
            extended.CopyFrom(self._model)
            known = {value.name for value in extended.graph.output}
            added = (name for name in self._names if name not in known)
            extended.graph.output.extend(onnx.ValueInfoProto(name=name) for name in added)
            try:
                version, run = start(extended, self._names, self._folder)
            except ModuleNotFoundError:
                self._reasons.append(f"{name}: not installed")
            except Exception as error:  # Operators of an implementation raise any exception.
                self._reasons.append(f"{name}: {_first_line(error)}")
            else:
                return f"{name} {version}", run
        raise NoReferenceError("; ".join(self._reasons))


def _input_types(
    inputs: Iterable[onnx.ValueInfoProto],
) -> Iterable[tuple[str, np.dtype[np.generic]]]:
    for value in inputs:
        kind = value.type.tensor_type.elem_type
        if not value.type.HasField("tensor_type") or kind == onnx.TensorProto.STRING:
            raise NoReferenceError(f"input '{value.name}' is no tensor of numbers")
        yield value.name, np.dtype(helper.tensor_dtype_to_np_dtype(kind))


class _RuntimeSession(Protocol):
    def run(
        self, output_names: Sequence[str], input_feed: Mapping[str, Array], /
    ) -> list[Result]: ...


class _Options(Protocol):
    graph_optimization_level: object
    intra_op_num_threads: int
    log_severity_level: int

    def add_session_config_entry(self, key: str, value: str, /) -> None: ...


class _Levels(Protocol):
    ORT_DISABLE_ALL: object


class _Runtime(Protocol):
    """The parts of the package onnxruntime that are used here; the package has no types."""

    __version__: str
    GraphOptimizationLevel: _Levels

    def SessionOptions(self) -> _Options: ...

    def InferenceSession(
        self, path_or_bytes: bytes, options: _Options, *, providers: Sequence[str]
    ) -> _RuntimeSession: ...


def _onnxruntime(model: onnx.ModelProto, names: Sequence[str], folder: Path | None) -> Started:
    runtime: _Runtime = import_module("onnxruntime")  # pyright: ignore[reportAssignmentType]
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    # Threads change the order of sums, and the ranges of DynamicQuantizeLSTM.
    options.intra_op_num_threads = 1
    if folder is not None:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(folder.resolve()))
    if (size := model.ByteSize()) > MAX_MODEL_BYTES:
        raise ValueError(f"{size} bytes exceed the 2 GiB of a protobuf message")
    for node in model.graph.node:
        # ONNX Runtime visits trees by recursion, and crashes if the stack is exhausted.
        ids = (a.ints for a in node.attribute if a.name == "nodes_nodeids")
        if any(max(found, default=0) >= MAX_TREE_NODES for found in ids):
            raise ValueError(f"a tree of more than {MAX_TREE_NODES} nodes")
    session = runtime.InferenceSession(
        with_unsigned_weights(model).SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )
    return runtime.__version__, lambda feeds: session.run(names, feeds)


class _Evaluator(Protocol):
    def run(
        self, output_names: list[str], feed_inputs: dict[str, Array], /
    ) -> dict[str, Result] | list[Result]: ...


FIRST_TRAINING_MODE_OPSET = 14
"""The first operator set in which an attribute of BatchNormalization selects the training mode."""

WRONG_IN_EVALUATOR = frozenset({"LRN"})
"""
Operators that the evaluator of ONNX computes differently from ONNX's definition: LRN sums each
window of channels over the batch.
"""


def _evaluator(model: onnx.ModelProto, names: Sequence[str], folder: Path | None) -> Started:
    from onnx.external_data_helper import load_external_data_for_model

    if wrong := WRONG_IN_EVALUATOR.intersection(node.op_type for node in model.graph.node):
        raise ValueError(f"{', '.join(sorted(wrong))} is not computed as ONNX defines it")
    if folder is not None:
        load_external_data_for_model(model, str(folder))
    _bind_functions(model)
    evaluator = _started(model)

    def run(feeds: Mapping[str, Array]) -> Sequence[Result]:
        found = evaluator.run(list(names), dict(feeds))
        return list(found.values()) if isinstance(found, dict) else found

    return str(onnx.__version__), run


def _started(model: onnx.ModelProto) -> _Evaluator:
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):
        """
        Normalize with the given mean and variance. Before operator set 14, the evaluator uses the
        statistics of the batch, which ONNX defines only for nodes with more than one output.
        """

        def _run(
            self, x: Array, scale: Array, bias: Array, mean: Array, var: Array, **attributes: object
        ) -> tuple[Array]:
            epsilon = next((a.f for a in self.onnx_node.attribute if a.name == "epsilon"), 1e-5)
            shape = (-1, *(1,) * (x.ndim - 2))
            factor, offset, center, spread = (
                np.asarray(a, np.float64).reshape(shape) for a in (scale, bias, mean, var)
            )
            centered = np.asarray(x, np.float64) - center
            return ((factor * centered / np.sqrt(spread + epsilon) + offset).astype(x.dtype),)

    versions = {entry.domain: entry.version for entry in model.opset_import}
    is_old = versions.get("", versions.get("ai.onnx", 0)) < FIRST_TRAINING_MODE_OPSET
    trains = any(n.op_type == "BatchNormalization" and len(n.output) > 1 for n in model.graph.node)
    replaces = is_old and not trains
    return ReferenceEvaluator(model, new_ops=[BatchNormalization] if replaces else None)


def _bind_functions(model: onnx.ModelProto) -> None:
    """
    Replace the attributes in the functions of `model` by the values of each call or the declared
    defaults; each call gets a copy of the function. The evaluator does not do this for all
    operators.
    """
    bodies = {(function.domain, function.name): function for function in model.functions}
    instances: list[onnx.FunctionProto] = []

    def call(nodes: Iterable[onnx.NodeProto]) -> None:
        for node in nodes:
            for attribute in node.attribute:
                call(attribute.g.node)
            if (body := bodies.get((node.domain, node.op_type))) is None:
                continue
            if len(instances) >= MAX_CALLS:
                raise ValueError(f"more than {MAX_CALLS} calls of functions")
            copy = onnx.FunctionProto()
            copy.CopyFrom(body)
            given = {attribute.name: attribute for attribute in body.attribute_proto}
            given.update({attribute.name: attribute for attribute in node.attribute})
            _bind(copy.node, given)
            call(copy.node)
            copy.name = node.op_type = f"{body.name}__{len(instances)}"
            del copy.attribute[:], copy.attribute_proto[:], node.attribute[:]
            instances.append(copy)

    call(model.graph.node)
    del model.functions[:]
    model.functions.extend(instances)


def _bind(nodes: Iterable[onnx.NodeProto], given: Mapping[str, onnx.AttributeProto]) -> None:
    for node in nodes:
        attributes = list(node.attribute)
        del node.attribute[:]
        for attribute in attributes:
            _bind(attribute.g.node, given)
            if not attribute.ref_attr_name:
                node.attribute.append(attribute)
            elif (value := given.get(attribute.ref_attr_name)) is not None:
                node.attribute.append(value)
                node.attribute[-1].name = attribute.name


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


GENERATED_UNITS = 8 * UNIT
"""
The rounding of tables that operators compute without float operands, such as windows, relative to
the largest element.
"""


class FoldedConstants:
    """The tensors of a model that the importer has computed and replaced by constants."""

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
        """The difference of each element of a folded constant from the reference."""

    def inputs(self) -> dict[str, Array]:
        """Return the inputs of the model that are constants in the imported graph, by name."""
        types = self.reference.types
        return {name: v.load() for name, v in self.constants.items() if name in types}

    def compare(self, expected: Mapping[str, Array]) -> Iterator[tuple[str, Array, Array, Doubles]]:
        """
        Yield, for each folded constant, the name, the array of the importer, that of the reference
        (in `expected`), and the bound of each element. Bounds depend on differences of earlier
        constants.
        """
        for name, constant in self.constants.items():
            if name not in self.reference.nodes or name not in expected:
                continue
            actual, tensor = constant.load(), np.asarray(expected[name])
            if tensor.dtype.kind not in "biuf" or actual.dtype.kind not in "biuf":
                continue  # Text is compared without a bound.
            bound = np.zeros(tensor.shape)
            if actual.shape == tensor.shape and not equal(actual, tensor).all():
                bound = self._bound(name, tensor)
            yield name, actual, tensor, bound
            apart = np.abs(actual.astype(np.float64) - tensor.astype(np.float64))
            self._apart[name] = np.nan_to_num(apart, nan=0.0)

    def relative_error(self, name: str) -> float | None:
        """
        Return the largest relative difference of the constant `name` from the reference, with the
        rounding to float32; `None` if there is no such constant.
        """
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
            module, named, _ = import_with_names(single)
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
