"""
Run a network that was compiled for VTA on the board, with Python 3.8 or later and numpy.

    network = ceras_vta.load("out", bitstream="vta.bit")  # memory from PYNQ
    network = ceras_vta.load("out", udmabuf="udmabuf0")   # memory from u-dma-buf
    outputs = network.run({"image": image})

`out` is the compiled folder. The C code in it runs the network; make and cc build it on first use.
"""

from __future__ import annotations

import ctypes
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from ceras_device import DeviceError, Memory, build_library, checked, pointers, use_buffer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from ceras_device import Array, Buffer

FLOWS = {"hls": 0, "chisel": 1}


class _Settings(ctypes.Structure):
    """The C struct `VtaSettings` of vta.h."""

    _fields_ = (
        ("flow", ctypes.c_int),
        ("registers", ctypes.c_uint64),
        ("register_file", ctypes.c_char_p),
        ("timeout_ms", ctypes.c_uint32),
    )


VtaError = DeviceError
"""An error of the C driver."""


def load(
    folder: str | Path,
    *,
    bitstream: str | None = None,
    buffer: Buffer | None = None,
    udmabuf: str | None = None,
    flow: str | None = None,
    registers: int | None = None,
    register_file: str = "/dev/mem",
    timeout_ms: int | None = None,
    devices: str = "/dev",
    classes: str = "/sys/class",
) -> Network:
    """
    Load the compiled `folder` into the u-dma-buf `udmabuf`, into a `buffer` of bytes from
    `pynq.allocate`, or into a buffer that is allocated here.

    PYNQ loads `bitstream` first. The board has the defaults of `flow` and `registers`; the
    default of `timeout_ms` is ten times the predicted time of the longest launch, at least a
    second.
    """
    if bitstream is not None:
        importlib.import_module("pynq").Overlay(bitstream)
    folder = Path(folder)
    library = _library(folder / "driver")
    settings: _Settings = library.vta_default_settings()
    settings.register_file = register_file.encode()
    if timeout_ms is not None:
        settings.timeout_ms = timeout_ms
    if flow is not None:
        settings.flow = FLOWS[flow]
    if registers is not None:
        settings.registers = registers
    config = json.loads((folder / "vta_config.json").read_text())
    offset = int(config.get("DRIVER_ADDRESS_OFFSET", "0"), 0)
    memory = Memory()
    failures: list[BaseException] = []
    kept: tuple[object, ...] = ()
    if udmabuf is not None:
        names = (text.encode() for text in (udmabuf, devices, classes))
        if library.vta_open_udmabuf(ctypes.byref(memory), *names, ctypes.c_uint64(offset)):
            raise VtaError(library.vta_error().decode())
    else:
        if buffer is None:
            size = library.vta_memory_bytes()
            buffer = importlib.import_module("pynq").allocate((size,), "u1")
        assert buffer is not None
        kept = use_buffer(memory, buffer, offset, failures)
    if library.vta_open(str(folder).encode(), ctypes.byref(settings), ctypes.byref(memory)):
        raise _error(library, failures)
    return Network(folder, library, memory, kept, failures, is_udmabuf=udmabuf is not None)


def _error(library: ctypes.CDLL, failures: list[BaseException]) -> VtaError:
    """
    Return the error of the C driver. Its cause is the exception of cache maintenance, if there was
    one.
    """
    error = VtaError(library.vta_error().decode())
    if failures:
        error.__cause__ = failures.pop()
    return error


def _library(driver: Path) -> ctypes.CDLL:
    library = build_library(driver / "libvta.so")
    library.vta_error.restype = ctypes.c_char_p
    library.vta_memory_bytes.restype = ctypes.c_uint64
    library.vta_default_settings.restype = _Settings
    library.vta_launch_nanoseconds.restype = ctypes.c_uint64
    library.vta_launch_cycles.restype = ctypes.c_uint32
    return library


class Network:
    """A network in the memory of VTA. Only a single thread may use it at a time."""

    def __init__(
        self,
        folder: Path,
        library: ctypes.CDLL,
        memory: Memory,
        kept: tuple[object, ...],
        failures: list[BaseException],
        *,
        is_udmabuf: bool,
    ):
        manifest = json.loads((folder / "manifest.json").read_text())
        self.inputs, self.outputs = manifest["inputs"], manifest["outputs"]
        self._names = [launch["name"] for launch in manifest["vta"]["launches"]]
        self._library, self._memory, self._kept = library, memory, kept
        self._failures = failures
        self._is_udmabuf, self._is_open = is_udmabuf, True

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """
        Execute an inference and return the outputs by name. Inputs must have the shapes and types
        in manifest.json.
        """
        arrays = [checked(inputs, tensor) for tensor in self.inputs]
        results: dict[str, Array] = {
            t["name"]: np.empty(t["shape"], t["dtype"]) for t in self.outputs
        }
        ends = (pointers(arrays), pointers(list(results.values())))
        if self._library.vta_run(*ends):
            raise _error(self._library, self._failures)
        return results

    def times(self) -> list[tuple[str, float, int]]:
        """
        Return for each launch of the last run: the name, the microseconds, and the cycles (0 if VTA
        does not count them).
        """
        return [
            (
                name,
                self._library.vta_launch_nanoseconds(i) / 1000,
                self._library.vta_launch_cycles(i),
            )
            for i, name in enumerate(self._names)
        ]

    def close(self) -> None:
        """Release registers and memory."""
        if self._is_open:
            self._library.vta_close()
            if self._is_udmabuf:
                self._library.vta_close_udmabuf(ctypes.byref(self._memory))
        self._is_open, self._kept = False, ()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
