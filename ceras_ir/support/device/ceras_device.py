"""
Share memory between Python and the C driver of a device, and pass arrays to it; for Python 3.8 or
later.

The memory is a buffer of PYNQ, or of u-dma-buf, which the C driver opens.
"""

from __future__ import annotations

import ctypes
import subprocess
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Protocol

    from numpy.typing import NDArray

    Array = NDArray[np.generic]

    class Buffer(Protocol):
        """
        The members of the result of `pynq.allocate` that are used: bytes of contiguous memory.
        """

        @property
        def ctypes(self) -> _Address: ...
        @property
        def nbytes(self) -> int: ...
        @property
        def device_address(self) -> int: ...
        def __getitem__(self, part: slice) -> Buffer: ...
        def flush(self) -> None: ...
        def invalidate(self) -> None: ...

    class _Address(Protocol):
        @property
        def data(self) -> int: ...


_Maintain = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)


class Memory(ctypes.Structure):
    """The C struct `DeviceMemory` of device.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("clean", _Maintain),
        ("invalidate", _Maintain),
    )


class DeviceError(RuntimeError):
    """An error that the C driver reports, or that occurs when it is built."""


def build_library(path: Path) -> ctypes.CDLL:
    """Load a shared library; if the file does not exist, make builds it in its folder first."""
    if not path.exists():
        done = subprocess.run(
            ["make", "-C", str(path.parent), path.name],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DeviceError(f"cannot build {path}:\n{done.stderr}")
    return ctypes.CDLL(str(path.resolve()))


def use_buffer(
    memory: Memory, buffer: Buffer, offset: int, failures: list[BaseException]
) -> tuple[object, ...]:
    """
    Fill in the C struct `memory` for `buffer`, and return the objects that must live as long as it.
    Exceptions of cache maintenance are appended to `failures`, because no exception can pass
    through C. The device uses `offset` plus the device address.
    """

    def maintain(action: str) -> object:
        def call(_context: int, start: int, size: int) -> int:
            try:
                part = buffer[start : start + size]
                part.flush() if action == "flush" else part.invalidate()
            except BaseException as error:
                failures.append(error)
                return 1
            return 0

        return _Maintain(call)

    clean, invalidate = maintain("flush"), maintain("invalidate")
    memory.data, memory.size = buffer.ctypes.data, buffer.nbytes
    memory.address = buffer.device_address + offset
    memory.clean, memory.invalidate = clean, invalidate
    return buffer, clean, invalidate


def pointers(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    """Return a C array of pointers to the data of `arrays`."""
    return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))


def checked(inputs: Mapping[str, Array], tensor: Mapping[str, object]) -> Array:
    """
    Return the input that `tensor`, an entry of manifest.json, describes. Raise a `ValueError` for
    another shape or type.
    """
    name = str(tensor["name"])
    if name not in inputs:
        raise ValueError(f"input '{name}' is missing; got {', '.join(sorted(inputs))}")
    array = np.ascontiguousarray(inputs[name])
    if list(array.shape) != tensor["shape"] or array.dtype.name != tensor["dtype"]:
        raise ValueError(
            f"input '{name}' is {array.dtype} {list(array.shape)}, "
            f"expected {tensor['dtype']} {tensor['shape']}"
        )
    return array
