"""
Read a model: the `.onnx` file, the external data that it names, and tensors as numpy arrays.

External data is read only from regular files below the folder of the model, after all links are
followed, and only as many bytes as the declared shape of the tensor needs. So a model cannot cause
other files to be read. Two more folders are allowed, because caches and users link models: the
folder of the file that the model is a link to, and the cache of Hugging Face around the model.

Declared sizes of tensors are checked against the data before an array is created. Raw data is
viewed, not copied. A `SparseTensorProto`, in which ONNX stores pruned weights, becomes dense: all
elements without an index are 0. (The C target finds the zeros again and chooses an encoding for
each layer.) Errors of tensors are `ValueError`s, to which the caller adds the node.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from shlex import quote
from typing import TypeAlias

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from ceras_ir.dialects.quant import unpacked
from ceras_ir.support.diagnostics import InputError, printable, with_remedy
from ceras_ir.support.user_files import read_bytes

LFS_PREFIX = b"version https://git-lfs.github.com/spec/"
"""The first bytes of files that Git LFS has not fetched."""

TEXT_BYTES = 200
"""The number of bytes that decide whether a file is text."""

MAX_FILE_BYTES = (1 << 31) - 1
"""The maximum size of a protobuf message."""


def read_model(path: str | Path) -> onnx.ModelProto:
    """
    Parse the ONNX file `path`. Raise an `InputError` if it is not a protobuf message of this type.
    The model is not checked further.
    """
    file = Path(path)
    try:
        if file.is_dir():
            raise InputError("a folder, expected an ONNX file", str(path))
        if (size := file.stat().st_size) > MAX_FILE_BYTES:
            raise InputError(
                f"{size} bytes exceed the 2 GiB of a protobuf file; "
                "save the model with external data",
                str(path),
            )
        data = read_bytes(file)
    except OSError as error:
        raise InputError(f"cannot read: {with_remedy(error, str(path))}", str(path)) from None
    if not data:
        raise InputError("empty file, expected an ONNX model", str(path))
    if data.startswith(LFS_PREFIX):
        raise InputError("a pointer of Git LFS to a model: fetch it by git lfs pull", str(path))
    try:
        return onnx.ModelProto.FromString(data)
    except DecodeError:
        raise InputError(_not_a_model(data, str(path)), str(path)) from None


def _not_a_model(data: bytes, path: str) -> str:
    """Return the reason why `data` is not an ONNX model, such as an HTML page, and a remedy."""
    head = data[:TEXT_BYTES]
    if head.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return "not an ONNX model but an HTML page: download the file itself, not the page about it"
    if head.isascii() and all(byte >= ord(" ") or byte in b"\t\r\n" for byte in head):
        first = printable(head.decode().strip().partition("\n")[0], 40)
        return (
            f"not an ONNX model but text ('{first}'): export the model again, or give IR text a "
            "name that ends in .mlir"
        )
    return (
        f"not an ONNX model, or a truncated one: {len(data)} bytes do not decode; copy, download "
        f'or export the file again, and check it: python -c "import onnx; '
        f"onnx.load('{path}')\""
    )


@dataclass(frozen=True)
class DataFolder:
    """
    The folder from which external data of a model may be read; locations in the model are relative
    to it.
    """

    path: Path
    linked: Path | None = None
    """The folder of the model itself, if the user gave a link to the model."""

    @classmethod
    def of_model(cls, model: Path) -> DataFolder:
        """Return the folder of the file `model`, which may be a link."""
        return cls(model.parent, model.resolve().parent)

    def file(self, location: str) -> Path:
        """
        Return the file at `location`. Raise a `ValueError` if it is outside of the allowed folders.
        """
        inside = "a path below the model's folder"
        parts = PurePosixPath(location).parts
        if not parts or ".." in parts or "\0" in location:
            raise ValueError(f"external data at '{location}', expected {inside}")
        if location.startswith("/") or PureWindowsPath(location).anchor or "\\" in location:
            raise ValueError(f"external data at '{location}', expected {inside}")
        # Path.resolve raises an error at a link that leads to itself.
        path = Path(os.path.realpath(self.path / location))
        if not any(path.is_relative_to(folder) for folder in self._allowed()):
            raise ValueError(
                f"external data '{location}' leads out by a link, expected {inside}; replace links "
                f"by files: cp -rL {quote(str(self.path))} COPY"
            )
        if not path.is_file():
            raise ValueError(f"external data file '{location}' is missing")
        return path

    def _allowed(self) -> list[Path]:
        folder = self.path.resolve()
        allowed = [folder, *([self.linked] if self.linked else [])]
        for parent in folder.parents:
            # Files of a snapshot of Hugging Face are links to files in blobs.
            if parent.name == "snapshots" and (blobs := parent.parent / "blobs").resolve() == blobs:
                allowed += [parent, blobs]
        return allowed


def read_external(tensor: onnx.TensorProto, folder: DataFolder | None, size: int) -> bytes:
    """
    Return the bytes of `tensor` from the external file. Raise a `ValueError` if there are not
    exactly `size` bytes.
    """
    entries = {str(entry.key): str(entry.value) for entry in tensor.external_data}
    if folder is None:
        raise ValueError("external data, but the model was not read from a file")
    path = folder.file(entries.get("location", ""))
    offset = _count(entries, "offset", 0)
    if (length := _count(entries, "length", size)) != size:
        raise ValueError(f"external data of {length} bytes, expected {size} for its shape")
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) != size:
        raise ValueError(f"'{path.name}' has {offset + len(data)} bytes, expected {offset + size}")
    return data


def _count(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not text.isdecimal() or len(text) > 18:
        raise ValueError(f"external data {key} must be a count of bytes, got '{text}'")
    return int(text)


Array: TypeAlias = NDArray[np.generic]

MAX_TENSOR_ELEMENTS = 1 << 28
"""Maximum number of elements of a supported tensor."""

LISTS = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data", "string_data")
"""Fields that list elements."""

ELEMENT_FIELDS: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float_data",
    onnx.TensorProto.DOUBLE: "double_data",
    onnx.TensorProto.INT64: "int64_data",
    onnx.TensorProto.UINT32: "uint64_data",
    onnx.TensorProto.UINT64: "uint64_data",
}
"""The field that lists elements of a type; `int32_data` for all other types."""

TENSOR_DTYPES: dict[int, np.dtype[np.generic]] = {
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
"""Element types of constants and their numpy types; bfloat16 is loaded as float32."""

PACKED_TYPES: dict[int, str] = {
    number: name.lower()
    for name, number in onnx.TensorProto.DataType.items()
    if name in ("INT2", "UINT2", "INT4", "UINT4")
}
"""
Types of initializers only, with several elements per byte: weights of `DequantizeLinear`. The names
are those of `ml_dtypes`, and end with the bits.
"""


def text(value: object) -> str:
    """
    Return a string of the model. Raise an `InputError` for bytes, which protobuf returns for text
    that is not UTF-8.
    """
    if not isinstance(value, str):
        raise InputError("not an ONNX model, or a damaged one: a name is not UTF-8 text")
    return value


def type_name(data_type: int) -> str:
    """Return the name of an ONNX element type, for diagnostics."""
    names = {number: name for name, number in onnx.TensorProto.DataType.items()}
    return names.get(data_type, f"element type {data_type}").lower()


def initializer_names(graph: onnx.GraphProto) -> list[str]:
    """Return the names of the dense and the sparse initializers of `graph`."""
    tensors = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    return [text(tensor.name) for tensor in tensors]


def tensor_shape(tensor: onnx.TensorProto) -> tuple[int, ...]:
    return bounded_shape(tensor.dims)


def bounded_shape(dims: Sequence[int]) -> tuple[int, ...]:
    """
    Return `dims` as a shape. Raise a `ValueError` for a negative extent, or for more than 2^28
    elements.
    """
    shape = tuple(dims)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"shape {list(shape)} has a negative extent")
    if prod(shape) > MAX_TENSOR_ELEMENTS:
        raise ValueError(f"shape {list(shape)} has more than 2^28 elements")
    return shape


def string_array(tensor: onnx.TensorProto) -> Array:
    """Return the texts of a tensor of strings."""
    texts = [t.decode("utf-8", "replace") for t in tensor.string_data]
    shape = tensor_shape(tensor)
    if prod(shape) != len(texts):
        raise ValueError(f"has {len(texts)} strings for shape {list(shape)}")
    return np.array(texts, np.str_).reshape(shape)


def tensor_array(tensor: onnx.TensorProto, folder: DataFolder | None) -> Array:
    """
    Return the elements of `tensor`, from the model or from `folder`, as a read-only array. Raise a
    `ValueError` if they do not match the shape and type.
    """
    shape, dtype = tensor_shape(tensor), element_type(tensor.data_type)
    assert dtype is not None
    is_halved = tensor.data_type == onnx.TensorProto.BFLOAT16
    packed = PACKED_TYPES.get(tensor.data_type)
    bits = 16 if is_halved else 8 * dtype.itemsize if packed is None else int(packed[-1])
    size = -(-prod(shape) * bits // 8)
    is_external = tensor.data_location == onnx.TensorProto.EXTERNAL
    listed = [name for name in LISTS if len(getattr(tensor, name))]
    if len(listed) + bool(tensor.raw_data) + is_external > 1:
        raise ValueError("the elements are stored more than once")
    if is_external:
        raw = read_external(tensor, folder, size)
    elif tensor.HasField("raw_data"):
        raw = tensor.raw_data
    else:
        field = ELEMENT_FIELDS.get(tensor.data_type, "int32_data")
        if listed not in ([], [field]):
            raise ValueError(f"the elements are in field {listed[0]}, expected {field}")
        stored = np.dtype("u1") if packed else np.dtype("<u2") if is_halved else dtype
        raw = _listed_bytes(getattr(tensor, field), stored)
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes, expected {size} for shape {list(shape)} of {dtype}")
    if packed:
        integers = unpacked(np.frombuffer(raw, np.uint8), prod(shape), bits)
        return integers.astype(dtype).reshape(shape)
    if is_halved:  # The upper half of a float32.
        upper = np.frombuffer(raw, "<u2").astype(np.uint32)
        return (upper << np.uint32(16)).view(np.float32).reshape(shape)
    if dtype.kind == "b" and (np.frombuffer(raw, np.uint8) > 1).any():
        raise ValueError("a boolean is stored as a value other than 0 and 1")
    return np.frombuffer(raw, dtype).reshape(shape)


def element_type(data_type: int) -> np.dtype[np.generic] | None:
    """Return the numpy type of an ONNX element type, or `None` if it is not supported."""
    if (packed := PACKED_TYPES.get(data_type)) is not None:
        import ml_dtypes  # A second import would load it, see `lazy_modules.py`.

        return np.dtype(getattr(ml_dtypes, packed))
    return TENSOR_DTYPES.get(data_type)


def _listed_bytes(elements: Sequence[float], dtype: np.dtype[np.generic]) -> bytes:
    """
    Return the elements of a list field of a tensor as raw bytes of `dtype`. Elements of float16 and
    packed types are listed as bit patterns.
    """
    if dtype.kind == "f" and dtype.itemsize > 2:
        return np.array(elements, dtype).tobytes()
    stored = np.dtype(f"u{dtype.itemsize}") if dtype.kind in "fb" else dtype
    is_unsigned = stored.kind == "u" and stored.itemsize >= 4
    given = np.array(elements, np.uint64 if is_unsigned else np.int64)
    bounds = np.iinfo(stored.str)
    if (wrong := (given < bounds.min) | (given > bounds.max)).any():
        raise ValueError(f"element {given[wrong][0]} is not in the range of {dtype}")
    return given.astype(stored).tobytes()


def sparse_shape(sparse: onnx.SparseTensorProto) -> tuple[int, ...]:
    if not sparse.dims:
        raise ValueError("the shape of a sparse tensor is missing")
    return bounded_shape(sparse.dims)


def sparse_array(sparse: onnx.SparseTensorProto, folder: DataFolder | None) -> Array:
    """
    Return a sparse tensor as a dense array, with zeros where it has no values.

    Indices are int64, in ascending order and without duplicates: linear indices of shape [N], or
    coordinates of shape [N, rank], for N values.
    """
    shape = sparse_shape(sparse)
    count = tensor_shape(sparse.values)
    if len(count) != 1:
        raise ValueError(f"sparse values of shape {list(count)}, expected a list")
    places = _linear_indices(sparse.indices, shape, count[0], folder)
    dtype = element_type(sparse.values.data_type)
    assert dtype is not None
    result = np.zeros(shape, dtype)
    result.reshape(-1)[places] = tensor_array(sparse.values, folder)
    return result


def _linear_indices(
    indices: onnx.TensorProto, shape: tuple[int, ...], count: int, folder: DataFolder | None
) -> NDArray[np.int64]:
    if not count and not indices.data_type:
        return np.zeros(0, np.int64)
    if indices.data_type != onnx.TensorProto.INT64:
        raise ValueError(f"sparse indices are {type_name(indices.data_type)}, expected int64")
    given = tensor_shape(indices)
    if given not in ((count,), (count, len(shape))):
        raise ValueError(
            f"sparse indices of shape {list(given)}, expected [{count}] or [{count}, {len(shape)}]"
        )
    array = tensor_array(indices, folder).astype(np.int64)
    # A coordinate beyond its extent could have a linear index inside the tensor.
    extents = np.array([np.prod(shape, dtype=np.int64)] if array.ndim == 1 else shape)
    table = array.reshape(count, -1) if count else array.reshape(0, len(extents))
    if (outside := ((table < 0) | (table >= extents)).any(axis=1)).any():
        first = int(np.argmax(outside))
        raise ValueError(
            f"sparse index {table[first].tolist()} is outside the tensor of shape {list(shape)}"
        )
    places = array if array.ndim == 1 else np.ravel_multi_index(tuple(table.T), shape)
    if (unordered := np.diff(places) <= 0).any():
        first = int(np.argmax(unordered)) + 1
        raise ValueError(
            f"sparse index {table[first].tolist()} is not above the index before it; indices must "
            "be in ascending order without duplicates"
        )
    return places.astype(np.int64)
