"""Write TensorFlow Lite files with the `flatbuffers` package, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceras_ir.frontends.tflite.model.operator_names import OPERATOR_NAMES

flatbuffers: Any = import_module("flatbuffers")  # The package has no types.

TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7,
    "int8": 9, "resource": 13,
}  # fmt: skip

Option = tuple[int, str, Any]
"""The field, the kind of the value (such as `Int32`, or `ints` for a vector), and the value."""

OPTION_TYPES = {
    "CONV_2D": 1, "DEPTHWISE_CONV_2D": 2, "AVERAGE_POOL_2D": 5, "MAX_POOL_2D": 5, "SVDF": 6,
    "FULLY_CONNECTED": 8, "SOFTMAX": 9, "CONCATENATION": 10, "ADD": 11, "RESIZE_BILINEAR": 15,
    "RESHAPE": 17, "MUL": 21, "PAD": 22, "GATHER": 23, "TRANSPOSE": 26, "MEAN": 27, "SUB": 28,
    "DIV": 29, "SQUEEZE": 30, "STRIDED_SLICE": 32, "SPLIT": 35, "CAST": 37, "TRANSPOSE_CONV": 49,
    "PACK": 59, "UNPACK": 64, "RESIZE_NEAREST_NEIGHBOR": 74, "LEAKY_RELU": 75, "MIRROR_PAD": 77,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": 71, "CALL_ONCE": 103, "VAR_HANDLE": 111, "READ_VARIABLE": 112,
    "ASSIGN_VARIABLE": 113, "IF": 92, "GELU": 116, "SQUARED_DIFFERENCE": 76,
    "BATCH_MATMUL": 101, "MAXIMUM": 39, "MINIMUM": 39,
}  # fmt: skip
"""The number of the type of an operator's options in the schema."""


@dataclass
class FileTensor:
    name: str
    shape: Sequence[int]
    kind: str
    scales: Sequence[float] = ()
    points: Sequence[int] = ()
    axis: int = 0
    data: NDArray[np.generic] | None = None
    signature: Sequence[int] = ()
    """The shape with -1 for open dimensions, if there are any."""
    is_variable: bool = False


@dataclass
class FileOperator:
    name: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options: Sequence[Option] = ()
    intermediates: Sequence[int] = ()


@dataclass
class FileModel:
    """A model in which tensors are added one by one."""

    tensors: list[FileTensor] = field(default_factory=list[FileTensor])
    operators: list[FileOperator] = field(default_factory=list[FileOperator])
    inputs: list[int] = field(default_factory=list[int])
    outputs: list[int] = field(default_factory=list[int])
    initialization: FileModel | None = None
    """Subgraph 1, which a `CALL_ONCE` runs."""
    branches: list[FileModel] = field(default_factory=list["FileModel"])
    """The subgraphs of an `IF`, from 1 on."""

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        kind: str = "float32",
        scale: float | Sequence[float] = (),
        point: int | Sequence[int] = 0,
        *,
        axis: int = 0,
        data: NDArray[np.generic] | None = None,
    ) -> int:
        """Add a tensor and return the index."""
        scales = [float(scale)] if isinstance(scale, float | int) else list(scale)
        points = [point] * len(scales) if isinstance(point, int) else list(point)
        self.tensors.append(FileTensor(name, shape, kind, scales, points, axis, data))
        return len(self.tensors) - 1

    def input(self, *given: Any, **more: Any) -> int:
        """Add a tensor that is an input of the network."""
        self.inputs.append(self.tensor(*given, **more))
        return self.inputs[-1]

    def constant(self, name: str, data: NDArray[np.generic], *given: Any, **more: Any) -> int:
        return self.tensor(name, data.shape, data.dtype.name, *given, data=data, **more)

    def add(
        self,
        name: str,
        inputs: Sequence[int],
        outputs: int | Sequence[int],
        options: Sequence[Option] = (),
        intermediates: Sequence[int] = (),
    ) -> None:
        """Add an operator."""
        results = [outputs] if isinstance(outputs, int) else list(outputs)
        self.operators.append(FileOperator(name, inputs, results, options, intermediates))

    def data(self) -> bytes:
        """Return the bytes of the file."""
        builder = flatbuffers.Builder(1024)
        buffers = [self._table(builder, {})]
        graphs = [self, *([] if self.initialization is None else [self.initialization])]
        graphs += self.branches
        names = list(dict.fromkeys(op.name for graph in graphs for op in graph.operators))
        tables = [graph._subgraph(builder, names, buffers) for graph in graphs]
        numbers = [OPERATOR_NAMES.index(name) for name in names]
        codes = [
            self._table(builder, {0: ("Int8", min(n, 127)), 2: ("Int32", 1), 3: ("Int32", n)})
            for n in numbers
        ]
        root = self._table(
            builder,
            {
                0: ("Uint32", 3),
                1: ("Offset", self._offsets(builder, codes)),
                2: ("Offset", self._offsets(builder, tables)),
                4: ("Offset", self._offsets(builder, buffers)),
            },
        )
        builder.Finish(root, b"TFL3")
        return bytes(builder.Output())

    def _subgraph(self, builder: Any, names: Sequence[str], buffers: list[int]) -> int:
        """Write a subgraph, and add the constants to `buffers`."""
        places: list[int] = []
        for tensor in self.tensors:
            if tensor.data is None:
                places.append(0)
                continue
            raw = np.ascontiguousarray(tensor.data)
            content = builder.CreateNumpyVector(raw.view(np.uint8).reshape(-1))
            places.append(len(buffers))
            buffers.append(self._table(builder, {0: ("Offset", content)}))
        tensors = [
            self._tensor(builder, t, place) for t, place in zip(self.tensors, places, strict=True)
        ]
        operators = [self._operator(builder, op, names.index(op.name)) for op in self.operators]
        return self._table(
            builder,
            {
                0: ("Offset", self._offsets(builder, tensors)),
                1: ("Offset", self._ints(builder, self.inputs)),
                2: ("Offset", self._ints(builder, self.outputs)),
                3: ("Offset", self._offsets(builder, operators)),
            },
        )

    def _tensor(self, builder: Any, tensor: FileTensor, place: int) -> int:
        quantization = None
        if tensor.scales:
            scales = builder.CreateNumpyVector(np.array(tensor.scales, np.float32))
            points = builder.CreateNumpyVector(np.array(tensor.points, np.int64))
            fields = {2: ("Offset", scales), 3: ("Offset", points), 6: ("Int32", tensor.axis)}
            quantization = self._table(builder, fields)
        name = builder.CreateString(tensor.name)
        shape = self._ints(builder, tensor.shape)
        signature = self._ints(builder, tensor.signature) if tensor.signature else 0
        fields = {
            0: ("Offset", shape),
            1: ("Int8", TYPES[tensor.kind]),
            2: ("Uint32", place),
            3: ("Offset", name),
        }
        if quantization is not None:
            fields[4] = ("Offset", quantization)
        if tensor.is_variable:
            fields[5] = ("Bool", True)
        if tensor.signature:
            fields[7] = ("Offset", signature)
        return self._table(builder, fields)

    def _operator(self, builder: Any, op: FileOperator, code: int) -> int:
        fields: dict[int, tuple[str, Any]] = {}
        for slot, kind, value in op.options:
            if kind == "ints":
                fields[slot] = ("Offset", self._ints(builder, value))
            elif kind == "text":
                fields[slot] = ("Offset", builder.CreateString(value))
            else:
                fields[slot] = (kind, value)
        options = self._table(builder, fields)
        entries = {
            0: ("Uint32", code),
            1: ("Offset", self._ints(builder, op.inputs)),
            2: ("Offset", self._ints(builder, op.outputs)),
        }
        if op.intermediates:
            entries[8] = ("Offset", self._ints(builder, op.intermediates))
        if op.name in OPTION_TYPES:
            entries |= {3: ("Uint8", OPTION_TYPES[op.name]), 4: ("Offset", options)}
        return self._table(builder, entries)

    @staticmethod
    def _ints(builder: Any, values: Sequence[int]) -> int:
        return builder.CreateNumpyVector(np.array(values, np.int32))

    @staticmethod
    def _offsets(builder: Any, values: Sequence[int]) -> int:
        builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            builder.PrependUOffsetTRelative(value)
        return builder.EndVector()

    @staticmethod
    def _table(builder: Any, fields: Mapping[int, tuple[str, Any]]) -> int:
        builder.StartObject(max(fields, default=-1) + 1)
        for slot, (kind, value) in fields.items():
            if kind == "Offset":
                builder.PrependUOffsetTRelativeSlot(slot, value, 0)
            else:
                getattr(builder, f"Prepend{kind}Slot")(slot, value, None)
        return builder.EndObject()
