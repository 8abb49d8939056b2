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
from onnx import numpy_helper

from ceras_ir.frontends.onnx.model_file import DataFolder, read_external
from ceras_ir.support.diagnostics import InputError

Array: TypeAlias = NDArray[np.generic]

MAX_ELEMENTS = 1 << 28
"""Elements of the largest tensor that is taken."""

LISTS = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data")
"""Fields in which elements may be listed one by one."""

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
    elif is_packed:
        raw = np.array(tensor.int32_data, np.int64).astype(np.uint8).tobytes()
    else:
        return _listed_array(tensor, shape, dtype)
    if len(raw) != size:
        raise ValueError(
            f"{len(raw)} bytes of data, expected {size} for shape {list(shape)} of {dtype}"
        )
    if is_packed:
        return unpacked(np.frombuffer(raw, np.uint8), prod(shape)).astype(dtype).reshape(shape)
    if is_halved:  # The upper half of a float32.
        upper = np.frombuffer(raw, "<u2").astype(np.uint32)
        return (upper << np.uint32(16)).view(np.float32).reshape(shape)
    return np.frombuffer(raw, dtype).reshape(shape)


def element_type(data_type: int) -> np.dtype[np.generic] | None:
    """How the elements of an initializer are held; None for types that are not taken."""
    return DTYPES.get(data_type, PACKED.get(data_type))


def unpacked(data: NDArray[np.uint8], count: int, bits: int = 4) -> NDArray[np.uint8]:
    """`count` numbers of `bits` bits, which divide 8; those in the low bits of a byte first."""
    mask = (1 << bits) - 1
    parts = np.stack([data >> shift & mask for shift in range(0, 8, bits)], axis=-1)
    return parts.reshape(-1)[:count].astype(np.uint8)


def _listed_array(
    tensor: onnx.TensorProto, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> Array:
    """Elements stored one by one in a field of their type."""
    listed = max(len(getattr(tensor, name)) for name in LISTS)
    if listed != prod(shape):
        raise ValueError(f"{listed} elements of data, expected {prod(shape)} for {list(shape)}")
    return np.asarray(numpy_helper.to_array(tensor), dtype).reshape(shape)
