"""
Run an ONNX model by an implementation of ONNX that shares no code with the importer.

ONNX Runtime runs the model without graph optimizations. If it is not installed or refuses the
model, ONNX's reference evaluator runs it. Every tensor that a node of the model's own graph
computes becomes an output, so that the importer can be compared node by node.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

Array: TypeAlias = NDArray[np.generic]
Result: TypeAlias = Array | np.generic | Sequence[Array] | None
"""A tensor; a sequence of tensors, or an optional value that is absent."""
Run: TypeAlias = Callable[[Mapping[str, Array]], Sequence[Result]]
Started: TypeAlias = tuple[str, Run]
"""The version of an implementation, and what runs the model."""

RUNTIME, EVALUATOR = "ONNX Runtime", "ONNX's reference evaluator"

MAX_BYTES = (1 << 31) - 1
"""Bytes of a model that protobuf can hold in one message."""


MAX_TREE_NODES = 1 << 14
"""Nodes of a tree that ONNX Runtime is given."""

MAX_CALLS = 10_000
"""Calls of functions that the evaluator runs, each with a copy of the body."""


class NoReferenceError(Exception):
    """No reference can run the model; the message is the reason in one line."""


class ModelReference:
    """A model that can be run, and the tensors that it returns."""

    def __init__(self, model: onnx.ModelProto, wanted: Collection[str], folder: Path | None):
        """
        Of `model`, with its outputs and those of `wanted` that nodes of its graph compute. `folder`
        has the external data. Raises `NoReferenceError`.
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
        """The numpy types of the inputs that callers give."""
        self._model, self._folder, self._names = model, folder, (*self.outputs, *inner)
        self._left = [(RUNTIME, _onnxruntime), (EVALUATOR, _evaluator)]
        self._reasons: list[str] = []
        self.name, self._run = self._next()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """
        The tensors by name; values that are no tensors, such as sequences, are left out. If one
        implementation cannot run the model, the next one does.
        """
        feeds = {name: np.asarray(inputs[name]).astype(kind) for name, kind in self.types.items()}
        while True:
            try:
                with np.errstate(all="ignore"):
                    found = self._run(feeds)
                break
            except Exception as error:  # Implementations raise any exception of their operators.
                self._reasons.append(f"{self.name}: {_first_line(error)}")
                self.name, self._run = self._next()
        tensors: dict[str, Array] = {}
        for name, value in zip(self._names, found, strict=True):
            if value is not None and not isinstance(value, Sequence):
                tensors[name] = np.asarray(value)
        return tensors

    def _next(self) -> tuple[str, Run]:
        """The next implementation that takes the model."""
        while self._left:
            name, start = self._left.pop(0)
            whole = onnx.ModelProto()
            whole.CopyFrom(self._model)
            known = {value.name for value in whole.graph.output}
            added = (name for name in self._names if name not in known)
            whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in added)
            try:
                version, run = start(whole, self._names, self._folder)
            except ModuleNotFoundError:
                self._reasons.append(f"{name}: not installed")
            except Exception as error:  # As above.
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


class _Session(Protocol):
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
    """What is used of the package onnxruntime, which has no types."""

    __version__: str
    GraphOptimizationLevel: _Levels

    def SessionOptions(self) -> _Options: ...

    def InferenceSession(
        self, path_or_bytes: bytes, options: _Options, *, providers: Sequence[str]
    ) -> _Session: ...


def _onnxruntime(model: onnx.ModelProto, names: Sequence[str], folder: Path | None) -> Started:
    runtime: _Runtime = import_module("onnxruntime")  # pyright: ignore[reportAssignmentType]
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    # Threads change the order of sums, and the ranges that DynamicQuantizeLSTM quantizes by.
    options.intra_op_num_threads = 1
    if folder is not None:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(folder.resolve()))
    if (size := model.ByteSize()) > MAX_BYTES:
        raise ValueError(f"{size} bytes exceed the 2 GiB of a protobuf message")
    for node in model.graph.node:
        # ONNX Runtime walks trees by recursion, and crashes without stack.
        ids = (a.ints for a in node.attribute if a.name == "nodes_nodeids")
        if any(max(found, default=0) >= MAX_TREE_NODES for found in ids):
            raise ValueError(f"a tree of more than {MAX_TREE_NODES} nodes")
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return runtime.__version__, lambda feeds: session.run(names, feeds)


class _Evaluator(Protocol):
    def run(
        self, output_names: list[str], feed_inputs: dict[str, Array], /
    ) -> dict[str, Result] | list[Result]: ...


WRONG_IN_EVALUATOR = frozenset({"LRN"})
"""Operators that ONNX's evaluator computes otherwise than ONNX defines them: it sums each window
of channels over the batch."""


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

    return ReferenceEvaluator(model)


def _bind_functions(model: onnx.ModelProto) -> None:
    """
    Give each call of a function of the model a copy of the body that has the attributes of the
    call, or the defaults that the function declares: the evaluator binds neither for all operators.
    """
    bodies = {(function.domain, function.name): function for function in model.functions}
    made: list[onnx.FunctionProto] = []

    def call(nodes: Iterable[onnx.NodeProto]) -> None:
        for node in nodes:
            for attribute in node.attribute:
                call(attribute.g.node)
            if (body := bodies.get((node.domain, node.op_type))) is None:
                continue
            if len(made) >= MAX_CALLS:
                raise ValueError(f"more than {MAX_CALLS} calls of functions")
            copy = onnx.FunctionProto()
            copy.CopyFrom(body)
            given = {attribute.name: attribute for attribute in body.attribute_proto}
            given.update({attribute.name: attribute for attribute in node.attribute})
            _bind(copy.node, given)
            call(copy.node)
            copy.name = node.op_type = f"{body.name}__{len(made)}"
            del copy.attribute[:], copy.attribute_proto[:], node.attribute[:]
            made.append(copy)

    call(model.graph.node)
    del model.functions[:]
    model.functions.extend(made)


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
