"""
The parts of a TensorFlow Lite model: tensors with their quantization, operators, subgraphs.

Subgraphs are read when they are used. Shapes, sizes of buffers, scales and indices are checked
here; operators check the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.graph import plain_element
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.tflite.model.flatbuffer import Flatbuffer, Table, damaged
from ceras_ir.frontends.tflite.model.operator_names import CUSTOM, OPERATOR_NAMES
from ceras_ir.frontends.tflite.model.sparse import dense_array
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError, with_remedy
from ceras_ir.support.user_files import read_bytes

IDENTIFIER = b"TFL3"
"""Bytes 4 to 7 of a file."""

SCHEMA_VERSION = 3

MAX_ELEMENTS = 1 << 28
"""Maximum number of elements of a tensor."""

ABSENT = -1
"""The index of an operand that is not given."""

PLACEHOLDER = 127
"""The old 8-bit field of an operator contains this if the number is larger."""

DTYPES = {
    0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16",
    9: "int8", 10: "float64", 12: "uint64", 13: "resource", 15: "uint32", 16: "uint16", 17: "int4",
}  # fmt: skip
"""The names of element types by their number in the schema; a resource is a variable."""

RESOURCE, FOUR_BITS = "resource", "int4"

STORED_AS = {FOUR_BITS: "int8", RESOURCE: "int32"}
"""The numpy types of elements that numpy does not have."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a TensorFlow Lite model: a constant, or a value that an operator computes."""

    name: str
    shape: tuple[int, ...]
    open_dimensions: tuple[int, ...]
    """The dimensions that a caller may choose; their extent in `shape` is 1."""
    kind: str
    """An entry of `DTYPES`."""
    data: NDArray[np.uint8] | None
    """The bytes of the elements if the tensor is a constant."""
    scales: tuple[float, ...]
    points: tuple[int, ...]
    axis: int
    is_variable: bool
    """Whether the tensor keeps the value between calls."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype(STORED_AS.get(self.kind, self.kind))

    @cached_property
    def element(self) -> Attribute:
        """
        The element type in the IR: `!quant.uniform` if the tensor has scales, otherwise a plain
        type.
        """
        plain = plain_element(np.dtype("float32") if self.dtype.kind == "f" else self.dtype)
        assert plain is not None
        if not self.has_quantized_element:
            return plain
        unsigned = self.dtype.kind == "u"
        storage = IntegerType(
            8 * self.dtype.itemsize, Signedness.UNSIGNED if unsigned else Signedness.SIGNLESS
        )
        is_listed = len(self.scales) > 1
        # Converters write wrong axes for biases, which no kernel reads.
        if is_listed and self.shape[self.axis : self.axis + 1] != (len(self.scales),):
            raise damaged(f"tensor '{self.name}' has {len(self.scales)} scales along {self.axis}")
        try:
            return UniformType(
                self.scales if is_listed else self.scales[0],
                self.points if is_listed else self.points[0],
                storage=storage,
                axis=self.axis if is_listed else None,
            )
        except VerifyException as error:
            raise damaged(f"tensor '{self.name}': {error}") from None

    @property
    def is_quantized(self) -> bool:
        return bool(self.scales)

    @property
    def has_quantized_element(self) -> bool:
        """
        Whether `element` is a quantized type. A tensor with scales and more than 32 bits, such as a
        bias of 64 bits, has a plain type.
        """
        return self.is_quantized and self.dtype.kind in "iu" and self.dtype.itemsize <= 4

    def array(self) -> NDArray[np.generic]:
        """Return the elements of a constant as they are stored, without their scale."""
        assert self.data is not None
        if self.kind == FOUR_BITS:
            packed = self.data.view(np.int8)
            halves = np.stack([packed << 4 >> 4, packed >> 4], axis=1).reshape(-1)
            return halves[: prod(self.shape)].reshape(self.shape)
        stored = self.dtype.newbyteorder("<") if self.dtype.itemsize > 1 else self.dtype
        return self.data.view(stored).astype(self.dtype, copy=False).reshape(self.shape)


@dataclass(frozen=True)
class Operator:
    """An operator, with the indices of the tensors in the subgraph (-1 for an omitted operand)."""

    name: str
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table
    custom_options: bytes
    """The options of a custom operator, in a separate format."""
    intermediates: tuple[int, ...]
    """Tensors that only specify the scales of values inside the operator."""


@dataclass(frozen=True)
class Subgraph:
    tensors: list[Tensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[Operator]


class Model:
    """A TensorFlow Lite model."""

    def __init__(self, data: bytes):
        if not data:
            raise InputError("empty file, expected a TensorFlow Lite model")
        if data[4:8] != IDENTIFIER:
            raise damaged("the identifier TFL3 is missing")
        self._root = Flatbuffer(data).root()
        if (version := self._root.integer(0, "I")) != SCHEMA_VERSION:
            raise UnsupportedError(
                f"unsupported version {version} of the schema, expected {SCHEMA_VERSION}; convert "
                "the network again"
            )
        self._codes = [self._operator_name(code) for code in self._root.entries(1)]
        self._known: dict[int, Subgraph] = {}

    @classmethod
    def read(cls, path: str) -> Model:
        """Read the TensorFlow Lite file at `path`."""
        try:
            data = read_bytes(path)
        except OSError as error:
            raise InputError(f"cannot read: {with_remedy(error, path)}", path) from None
        return cls(data)

    def subgraph(self, index: int) -> Subgraph:
        """Return subgraph `index`; subgraph 0 is the network."""
        if index not in self._known:
            self._known[index] = self._read_subgraph(self._root.entry(2, index))
        return self._known[index]

    @staticmethod
    def _operator_name(code: Table) -> tuple[str, bool]:
        old, number = code.integer(0, "b"), code.integer(3, "i")
        number = max(old, number) if old != PLACEHOLDER else max(number, PLACEHOLDER)
        name = OPERATOR_NAMES[number] if 0 <= number < len(OPERATOR_NAMES) else str(number)
        return (code.text(1) or name, True) if name == CUSTOM else (name, False)

    def _read_subgraph(self, table: Table) -> Subgraph:
        tensors = [self._read_tensor(each, i) for i, each in enumerate(table.entries(0))]
        found = Subgraph(
            tensors,
            table.integers(1),
            table.integers(2),
            [self._read_operator(each) for each in table.entries(3)],
        )
        used = [*found.inputs, *found.outputs]
        used += [i for op in found.operators for i in (*op.inputs, *op.outputs, *op.intermediates)]
        if wrong := [i for i in used if not ABSENT <= i < len(tensors)]:
            raise damaged(f"tensor {wrong[0]} of {len(tensors)} is used")
        if ABSENT in (*found.inputs, *found.outputs):
            raise damaged("an input or output of the network is absent")
        return found

    def _read_operator(self, table: Table) -> Operator:
        index = table.integer(0, "I")
        if index >= len(self._codes):
            raise damaged(f"operator {index} of {len(self._codes)} is used")
        name, is_custom = self._codes[index]
        options = table.table(4) or Table.empty()
        return Operator(
            name,
            is_custom,
            table.integers(1),
            table.integers(2),
            options,
            table.vector(5, "u1").tobytes(),
            table.integers(8),
        )

    def _read_tensor(self, table: Table, index: int) -> Tensor:
        name = table.text(3) or f"tensor{index}"
        kind = DTYPES.get(number := table.integer(1, "b"))
        if kind is None:
            message = f"unsupported element type {number}; export the model without it"
            raise UnsupportedError([Finding(name, "tensor", message)])
        declared = table.integers(0)
        signature = table.integers(7) or declared
        if len(signature) != len(declared):
            raise damaged(f"tensor '{name}' has two shapes of different rank")
        dynamic = tuple(i for i, n in enumerate(signature) if n < 0)
        shape = tuple(1 if i in dynamic and n < 1 else n for i, n in enumerate(declared))
        if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS:
            raise damaged(f"tensor '{name}' has shape {list(declared)}")
        tensor = Tensor(
            name,
            shape,
            dynamic,
            kind,
            self._read_buffer(table.integer(2, "I"), shape),
            *self._read_quantization(table.table(4), name),
            table.flag(5),
        )
        if (sparsity := table.table(6)) is not None and tensor.data is not None:
            return self._densified(tensor, sparsity)
        if tensor.data is not None:
            bits = 4 if kind == FOUR_BITS else 8 * tensor.dtype.itemsize
            if tensor.data.size != (expected := -(-prod(shape) * bits // 8)):
                raise damaged(f"tensor '{name}' has {tensor.data.size} bytes, expected {expected}")
        return tensor

    @staticmethod
    def _densified(tensor: Tensor, sparsity: Table) -> Tensor:
        """Return a sparse constant, which stores only some elements, with all elements."""
        data = tensor.data
        assert data is not None
        if tensor.kind == FOUR_BITS or data.size % tensor.dtype.itemsize:
            raise damaged(f"the sparse tensor '{tensor.name}' has {data.size} bytes")
        full = dense_array(sparsity, data.view(tensor.dtype), tensor.shape, tensor.name)
        return replace(tensor, data=np.ascontiguousarray(full).view(np.uint8).reshape(-1))

    def _read_buffer(self, index: int, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
        if not index:
            return None
        buffer = self._root.entry(4, index)
        data = buffer.vector(0, "u1").astype(np.uint8, copy=False)
        # An empty constant, such as the shape of a scalar, has an empty buffer.
        if data.size or not prod(shape):
            return data
        offset, size = buffer.integer(1, "Q"), buffer.integer(2, "Q")
        if offset < 2 or not size:
            return None
        whole = self._root.buffer.data
        if offset + size > len(whole):
            raise damaged(f"a buffer ends at byte {offset + size} of {len(whole)}")
        return np.frombuffer(whole, np.uint8, size, offset)

    @staticmethod
    def _read_quantization(
        table: Table | None, name: str
    ) -> tuple[tuple[float, ...], tuple[int, ...], int]:
        if table is None:
            return (), (), 0
        vector = table.vector(2, "<f4")
        table.buffer.spend(vector.size)
        scales, points = tuple(map(float, vector.tolist())), table.integers(3, "<i8")
        if not scales:
            return (), (), 0
        points = points or (0,) * len(scales)
        if len(points) == 1:
            points *= len(scales)
        axis = table.integer(6, "i")
        if len(points) != len(scales) or not all(isfinite(s) and s >= 0 for s in scales):
            raise damaged(f"the scales of tensor '{name}' are not valid")
        if max(map(abs, points)) >= 1 << 31:
            raise damaged(f"a zero point of tensor '{name}' has more than 32 bits")
        return scales, points, axis
