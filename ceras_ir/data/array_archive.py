"""
Read `.npz` archives that are not trusted: each header is checked before memory is allocated.

Python objects are never loaded. All that can be wrong with an archive or with an array in it is an
`InputError` or, in functions that have no path, a `ValueError` of one line.
"""

import lzma
import struct
import warnings
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pickle import HIGHEST_PROTOCOL
from tokenize import TokenError
from typing import IO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.support.diagnostics import InputError, printable

Array: TypeAlias = NDArray[np.generic]

SUFFIX = ".npy"

MAX_REASON = 120
"""Characters of a reason that numpy or zipfile gives."""

VERSIONS = ((1, 0), (2, 0), (3, 0))
"""Versions of the `.npy` format."""

PICKLE_MARK = 0x80
"""The first byte of a pickle; the protocol's number follows."""

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
    """Read the header at the position of `stream`; ValueError if it is not valid."""
    try:
        # numpy warns about headers of Python 2, which it reads correctly.
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


def read_array(stream: IO[bytes], size: int) -> Array:
    """Read the array in a stream of `size` bytes; ValueError if it is not complete."""
    header = read_header(stream)
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


def load_arrays(path: str) -> dict[str, Array]:
    """Return all arrays of an `.npz` file by name, in the order of the file."""
    arrays: dict[str, Array] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(SUFFIX)
                if name in arrays:
                    raise InputError(f"two arrays of the file are called '{printable(name)}'", path)
                with archive.open(member) as stream:
                    try:
                        arrays[name] = read_array(stream, member.file_size)
                    except ValueError as error:
                        message = f"not a readable .npz file: '{printable(name)}': {_reason(error)}"
                        raise InputError(message, path) from None
    except FileNotFoundError:
        raise InputError("no such file", path) from None
    except IsADirectoryError:
        raise InputError("a folder, not an .npz file", path) from None
    except (OSError, *UNREADABLE) as error:
        raise InputError(_wrong_file(path, error), path) from None
    return arrays


def _wrong_file(path: str, error: Exception) -> str:
    """Why a file is not an archive, by the first bytes."""
    if isinstance(error, OSError) and error.strerror:
        return f"cannot read: {error.strerror}"
    head = b""
    with suppress(OSError), open(path, "rb") as stream:
        head = stream.read(6)
    if head == np.lib.format.MAGIC_PREFIX:
        return "not an .npz file: it holds one array without a name"
    if len(head) > 1 and head[0] == PICKLE_MARK and head[1] <= HIGHEST_PROTOCOL:
        return (
            "not a readable .npz file: it holds Python objects, which are not loaded: they could "
            "run anything"
        )
    if head and not head.startswith(b"PK"):
        return "not an .npz file"
    return f"not a readable .npz file: {_reason(error) if head else 'it is empty'}"


def _reason(error: Exception) -> str:
    """The first line of an exception of another library, of bounded length."""
    text = first if error.args and isinstance(first := error.args[0], str) else str(error)
    return printable(text.splitlines()[0], MAX_REASON) if text else "damaged"
