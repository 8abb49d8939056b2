"""
Read and write arrays in `.npz` files.

Archives are not trusted: each header is checked before memory is allocated, the bytes of all arrays
are limited, and Python objects are never loaded. Each error in an archive or array is an
`InputError` or, in functions without a path, a `ValueError` of one line.
"""

import lzma
import struct
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from pickle import HIGHEST_PROTOCOL
from tokenize import TokenError
from typing import IO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.data.array_remedies import saving
from ceras_ir.support.diagnostics import (
    InputError,
    cannot_write,
    missing_file_remedy,
    printable,
    with_remedy,
)
from ceras_ir.support.limits import MEMORY_FLAG, memory_limit
from ceras_ir.support.private_files import replacing, resolved
from ceras_ir.support.user_files import regular

Array: TypeAlias = NDArray[np.generic]

SUFFIX = ".npy"

MAX_REASON = 160
"""The maximum number of characters of an error message of numpy or zipfile that is repeated."""

VERSIONS = ((1, 0), (2, 0), (3, 0))
"""The supported versions of the `.npy` format."""

PICKLE_MARK = 0x80
"""The first byte of a pickle, before the number of the protocol."""

UNREADABLE = (
    *(ValueError, EOFError, KeyError, OverflowError, MemoryError, SyntaxError, TypeError),
    *(NotImplementedError, RuntimeError, TokenError, IndexError, AttributeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
)
"""Exceptions of numpy, zipfile and the decompressors for archives that are damaged or wrong."""


@dataclass(frozen=True)
class ArrayHeader:
    """The header of an array in the `.npy` format."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    is_fortran: bool

    @property
    def byte_count(self) -> int:
        """The size of the elements in bytes."""
        return prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes]) -> ArrayHeader:
    """
    Read the header of an `.npy` array at the position of `stream`. Raise a `ValueError` if it is
    not valid.
    """
    try:
        # numpy warns about headers of Python 2, which it parses correctly.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            version = np.lib.format.read_magic(stream)
            if version not in VERSIONS:
                raise ValueError(f"version {version[0]}.{version[1]} of the .npy format")
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, is_fortran, dtype = read(stream)
    except UNREADABLE as error:
        raise ValueError(_reason(error)) from None
    if any(type(extent) is not int or extent < 0 for extent in shape):
        raise ValueError(f"shape {shape} has an extent that is not a count")
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not loaded: they could run anything")
    if dtype.subdtype is not None:
        raise ValueError(f"element type {dtype} is an array")
    return ArrayHeader(shape, dtype, is_fortran)


def read_array(stream: IO[bytes], size: int, limit: int | None = None) -> Array:
    """
    Read the `.npy` array in a stream of `size` bytes. Raise a `ValueError` if it is not complete,
    or if the elements have more than `limit` bytes (default: `memory_limit`).
    """
    header = read_header(stream)
    limit = memory_limit() if limit is None else limit
    # A small archive can be decompressed to any size.
    if header.byte_count > limit:
        raise ValueError(
            f"{header.byte_count:,} bytes, where {limit:,} bytes are left for samples in memory: "
            f"use fewer samples, or set another limit with {MEMORY_FLAG}"
        )
    if (found := size - stream.tell()) != header.byte_count:
        raise ValueError(
            f"{found} bytes of elements, expected {header.byte_count} for shape "
            f"{list(header.shape)} of {header.dtype}"
        )
    data = np.empty(header.byte_count, np.uint8)
    filled = 0
    while filled < len(data):
        # A member of an archive can end before the size that the archive declares.
        if not (part := stream.read(min(1 << 24, len(data) - filled))):
            raise ValueError(f"it ends after {filled} of {len(data)} bytes of elements")
        data[filled : filled + len(part)] = np.frombuffer(part, np.uint8)
        filled += len(part)
    if header.dtype == np.bool_ and (data > 1).any():
        raise ValueError("a boolean is stored as a value other than 0 and 1")
    array = np.ndarray(prod(header.shape), header.dtype, data.data)
    return array.reshape(header.shape, order="F" if header.is_fortran else "C")


def load_arrays(path: str, name: str = "NAME") -> dict[str, Array]:
    """
    Return all arrays of an `.npz` file by name, in the order of the file. If `path` is a single
    `.npy` array, which has no name, the error proposes `name`.
    """
    arrays: dict[str, Array] = {}
    left = memory_limit()
    try:
        with zipfile.ZipFile(regular(path)) as archive:
            for member in archive.infolist():
                key = member.filename.removesuffix(SUFFIX)
                if key in arrays:
                    raise InputError(f"two arrays of the file are called '{printable(key)}'", path)
                with archive.open(member) as stream:
                    try:
                        arrays[key] = read_array(stream, member.file_size, left)
                        left -= arrays[key].nbytes
                    except ValueError as error:
                        message = f"not a readable .npz file: '{printable(key)}': {_reason(error)}"
                        raise InputError(message, path) from None
    except FileNotFoundError:
        raise InputError(f"no such file{missing_file_remedy(path)}", path) from None
    except IsADirectoryError:
        raise InputError("a folder, not an .npz file", path) from None
    except (OSError, *UNREADABLE) as error:
        raise InputError(_wrong_file(path, error, name), path) from None
    return arrays


def _wrong_file(path: str, error: Exception, name: str) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"cannot read: {with_remedy(error, path)}"
    head = b""
    with suppress(OSError), open(regular(path), "rb") as stream:
        head = stream.read(6)
    if head == np.lib.format.MAGIC_PREFIX:
        archive = f"{path.removesuffix(SUFFIX)}.npz"
        code = saving(archive, name, f"np.load('{path}')")
        return (
            "not an .npz file: it holds an array without a name; store it with the name of the "
            f"input: {code}"
        )
    if len(head) > 1 and head[0] == PICKLE_MARK and head[1] <= HIGHEST_PROTOCOL:
        return (
            "not a readable .npz file: it holds Python objects, which are not loaded: they could "
            "run anything"
        )
    if head and not head.startswith(b"PK"):
        return f"not an .npz file; write it with {saving('data.npz', name, 'array')}"
    return f"not a readable .npz file: {_reason(error) if head else 'it is empty'}"


def _reason(error: Exception) -> str:
    text = first if error.args and isinstance(first := error.args[0], str) else str(error)
    return printable(text.splitlines()[0], MAX_REASON) if text else "damaged"


def save_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """
    Write `arrays` to an `.npz` file by their names. If writing fails, the file at `path` does not
    change.
    """
    destination = Path(resolved(path))
    try:
        if destination.exists() and not destination.is_file():
            # A pipe or device can neither be replaced by a rename nor be written in pieces.
            buffer = BytesIO()
            write_arrays(buffer, arrays)
            destination.write_bytes(buffer.getvalue())
            return
        with replacing(destination) as stream:
            write_arrays(stream, arrays)
    except OSError as error:
        raise cannot_write(error, path) from None


def write_arrays(stream: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """
    Write `arrays` as an `.npz` archive to `stream`. Names such as `file`, which are parameters of
    `numpy.savez`, are permitted.
    """
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            # A fixed date, so that equal results are equal files.
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
