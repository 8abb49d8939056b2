"""
`TensorProto` as numpy arrays: declared sizes are checked against the data before anything is made.

Raw data is viewed, not copied. The errors are `ValueError`s, to which the caller adds the node.
"""

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.model_file import DataFolder, read_external
from ceras_ir.support.diagnostics import InputError

Array: TypeAlias = NDArray[np.generic]

MAX_ELEMENTS = 1 << 28
"""Elements of the largest tensor that is taken."""

LISTS = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data", "string_data")
"""Fields in which elements may be listed one by one."""

FIELDS: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float_data",
    onnx.TensorProto.DOUBLE: "double_data",
    onnx.TensorProto.INT64: "int64_data",
    onnx.TensorProto.UINT32: "uint64_data",
    onnx.TensorProto.UINT64: "uint64_data",
}
"""The field that lists elements of a type; `int32_data` for all other types."""

DTYPES: dict[int, np.dtype[np.generic]] = {
    onnx.TensorProto.FLOAT: np.dtype("<f4"),
    onnx.TensorProto.DOUBLE: np.dtype("<f8"),
    onnx.TensorProto.FLOAT16: np.dtype("<f2"),
    onnx.TensorProto.BFLOAT16: np.dtype("<f4"),
    onnx.TensorProto.INT8: np.dtype("i1"),
    onnx.TensorProto.UINT8: np.dtype("u1"),
    onnx.TensorProto.INT16: np.dtype("<i2"),
    onnx.TensorProto.UINT16: np.dtype("<u2"),
    onnx.TensorProto.INT32: np.dtype("<i4"),
    onnx.TensorProto.UINT32: np.dtype("<u4"),
    onnx.TensorProto.INT64: np.dtype("<i8"),
    onnx.TensorProto.UINT64: np.dtype("<u8"),
    onnx.TensorProto.BOOL: np.dtype("?"),
}
"""Element types that constants may have, and how they are held; bfloat16 as float32 at once."""

PACKED: dict[int, np.dtype[np.generic]] = {
    onnx.TensorProto.INT4: np.dtype(ml_dtypes.int4),
    onnx.TensorProto.UINT4: np.dtype(ml_dtypes.uint4),
}
"""Types that only initializers have, with two elements per byte: weights of `DequantizeLinear`."""


def text(value: object) -> str:
    """A string of the model. Protobuf returns bytes if they are not UTF-8."""
    if not isinstance(value, str):
        raise InputError("not an ONNX model, or a damaged one: a name is not UTF-8 text")
    return value


def type_name(data_type: int) -> str:
    """The name of an ONNX element type, for diagnostics."""
    names = {number: name for name, number in onnx.TensorProto.DataType.items()}
    return names.get(data_type, f"element type {data_type}").lower()


def initializer_names(graph: onnx.GraphProto) -> list[str]:
    """Return the names of the dense and the sparse initializers of `graph`."""
    tensors = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    return [text(tensor.name) for tensor in tensors]


def tensor_shape(tensor: onnx.TensorProto) -> tuple[int, ...]:
    """The declared shape, known to be of bounded size."""
    return bounded_shape(tensor.dims)


def bounded_shape(dims: Sequence[int]) -> tuple[int, ...]:
    """Return `dims` as a shape; ValueError for a negative extent or too many elements."""
    shape = tuple(dims)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"shape {list(shape)} has a negative extent")
    if prod(shape) > MAX_ELEMENTS:
        raise ValueError(f"shape {list(shape)} has more than 2^28 elements")
    return shape


def string_array(tensor: onnx.TensorProto) -> Array:
    """The texts of a tensor of strings, which no operation computes with."""
    texts = [t.decode("utf-8", "replace") for t in tensor.string_data]
    shape = tensor_shape(tensor)
    if prod(shape) != len(texts):
        raise ValueError(f"has {len(texts)} strings for shape {list(shape)}")
    return np.array(texts, np.str_).reshape(shape)


def tensor_array(tensor: onnx.TensorProto, folder: DataFolder | None) -> Array:
    """The elements of one of the types in `DTYPES`, read-only."""
    shape, dtype = tensor_shape(tensor), element_type(tensor.data_type)
    assert dtype is not None
    is_halved, is_packed = tensor.data_type == onnx.TensorProto.BFLOAT16, tensor.data_type in PACKED
    size = prod(shape) * (2 if is_halved else dtype.itemsize)
    if is_packed:
        size = -(-size // 2)
    is_external = tensor.data_location == onnx.TensorProto.EXTERNAL
    listed = [name for name in LISTS if len(getattr(tensor, name))]
    if len(listed) + bool(tensor.raw_data) + is_external > 1:
        raise ValueError("its elements are stored more than once")
    if is_external:
        raw = read_external(tensor, folder, size)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        field = FIELDS.get(tensor.data_type, "int32_data")
        if listed not in ([], [field]):
            raise ValueError(f"its elements are in field {listed[0]}, expected {field}")
        stored = np.dtype("u1") if is_packed else np.dtype("<u2") if is_halved else dtype
        raw = _listed_bytes(getattr(tensor, field), stored)
    if len(raw) != size:
        raise ValueError(
            f"{len(raw)} bytes of data, expected {size} for shape {list(shape)} of {dtype}"
        )
    if is_packed:
        return unpacked(np.frombuffer(raw, np.uint8), prod(shape)).astype(dtype).reshape(shape)
    if is_halved:  # The upper half of a float32.
        upper = np.frombuffer(raw, "<u2").astype(np.uint32)
        return (upper << np.uint32(16)).view(np.float32).reshape(shape)
    if dtype.kind == "b" and (np.frombuffer(raw, np.uint8) > 1).any():
        raise ValueError("a boolean is stored as a value other than 0 and 1")
    return np.frombuffer(raw, dtype).reshape(shape)


def element_type(data_type: int) -> np.dtype[np.generic] | None:
    """How the elements of an initializer are held; None for types that are not taken."""
    return DTYPES.get(data_type, PACKED.get(data_type))


def unpacked(data: NDArray[np.uint8], count: int, bits: int = 4) -> NDArray[np.uint8]:
    """`count` numbers of `bits` bits, which divide 8; those in the low bits of a byte first."""
    mask = (1 << bits) - 1
    parts = np.stack([data >> shift & mask for shift in range(0, 8, bits)], axis=-1)
    return parts.reshape(-1)[:count].astype(np.uint8)


def _listed_bytes(elements: Sequence[float], dtype: np.dtype[np.generic]) -> bytes:
    """Elements of a list field as raw data; float16 and packed types are listed as bit patterns."""
    if dtype.kind == "f" and dtype.itemsize > 2:
        return np.array(elements, dtype).tobytes()
    stored = np.dtype(f"u{dtype.itemsize}") if dtype.kind in "fb" else dtype
    is_unsigned = stored.kind == "u" and stored.itemsize >= 4
    given = np.array(elements, np.uint64 if is_unsigned else np.int64)
    bounds = np.iinfo(stored.str)
    if (wrong := (given < bounds.min) | (given > bounds.max)).any():
        raise ValueError(f"element {given[wrong][0]} is not in the range of {dtype}")
    return given.astype(stored).tobytes()
