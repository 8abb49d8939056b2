"""
Run a network with its circuit on a board, with Python 3.8 or later and numpy.

    network = ceras_circuit.load("out", bitstream="circuit.bit")  # memory from PYNQ
    network = ceras_circuit.load("out", udmabuf="udmabuf0")       # memory from u-dma-buf
    outputs = network.run({"image": image})
    results = network.run_circuit(frames)  # int8 frames at the ports, back to back

`out` is the compiled folder. The C code in it runs the network; make and cc build it on first use.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from ceras_device import DeviceError, Memory, build_library, checked, pointers, use_buffer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType, TracebackType

    from ceras_device import Array, Buffer

STATUSES = {
    1: "failed",
    3: "wrong bitstream",
    4: "bus error",
    5: "wrong frame",
    6: "timeout",
    7: "hangs",
    8: "rejected",
}
"""The texts for `CircuitStatus` of circuit.h."""


class CircuitError(DeviceError):
    """An error of the C driver. `status` is a `CircuitStatus` of circuit.h."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.status = status

    @property
    def kind(self) -> str:
        """The status as text, such as `bus error`."""
        return STATUSES[self.status]


class _Settings(ctypes.Structure):
    """The C struct `CircuitSettings` of circuit.h."""

    _fields_ = (
        ("registers", ctypes.c_uint64),
        ("register_file", ctypes.c_char_p),
        ("interrupt", ctypes.c_char_p),
        ("timeout_ms", ctypes.c_uint32),
    )


def load(
    folder: str | Path,
    *,
    bitstream: str | None = None,
    buffer: Buffer | None = None,
    udmabuf: str | None = None,
    frames: int = 16,
    registers: int | None = None,
    register_file: str = "/dev/mem",
    uio: str | None = None,
    timeout_ms: int | None = None,
    devices: str = "/dev",
    classes: str = "/sys/class",
) -> Network:
    """
    Load the compiled `folder`, and check that the bitstream is that of the folder.

    The streams are in the u-dma-buf `udmabuf`, in a `buffer` of bytes from `pynq.allocate`, or in a
    buffer for launches of `frames` frames that is allocated here. PYNQ loads `bitstream` first. The
    UIO device `uio` maps the registers, and its interrupts end the wait. The defaults of
    `registers` and `timeout_ms` are those of the board.
    """
    if bitstream is not None:
        importlib.import_module("pynq").Overlay(bitstream)
    folder = Path(folder)
    library = _library(folder / "driver")
    settings: _Settings = library.circuit_default_settings()
    settings.register_file = register_file.encode()
    if registers is not None:
        settings.registers = registers
    if uio is not None:
        settings.registers, settings.register_file = 0, uio.encode()
        settings.interrupt = uio.encode()
    if timeout_ms is not None:
        settings.timeout_ms = timeout_ms
    memory = Memory()
    failures: list[BaseException] = []
    kept: tuple[object, ...] = ()
    if udmabuf is not None:
        names = (text.encode() for text in (udmabuf, devices, classes))
        _check(library, library.circuit_open_udmabuf(ctypes.byref(memory), *names), failures)
    else:
        if buffer is None:
            size = library.circuit_memory_bytes(frames)
            buffer = importlib.import_module("pynq").allocate((size,), "u1")
        assert buffer is not None
        kept = use_buffer(memory, buffer, 0, failures)
    status = library.circuit_open(ctypes.byref(settings), ctypes.byref(memory))
    _check(library, status, failures)
    return Network(folder, library, memory, kept, failures, is_udmabuf=udmabuf is not None)


def _check(library: ctypes.CDLL, status: int, failures: list[BaseException]) -> None:
    """
    Raise the error of the C driver unless `status` is 0. Its cause is the exception of cache
    maintenance, if there was one.
    """
    if status == 0:
        return
    error = CircuitError(library.circuit_error().decode(), status)
    if failures:
        error.__cause__ = failures.pop()
    raise error


def _library(driver: Path) -> ctypes.CDLL:
    library = build_library(driver / "libcircuit.so")
    library.circuit_error.restype = ctypes.c_char_p
    library.circuit_memory_bytes.restype = ctypes.c_uint64
    library.circuit_default_settings.restype = _Settings
    library.circuit_nanoseconds.restype = ctypes.c_uint64
    library.circuit_cycles.restype = library.circuit_frames.restype = ctypes.c_uint32
    library.circuit_transfer.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return library


def _frames_module(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("circuit_frames", folder / "circuit_frames.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Network:
    """A network with its circuit. Only a single thread may use it at a time."""

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
        self._frames = _frames_module(folder)
        self._library, self._memory, self._kept = library, memory, kept
        self._failures = failures
        self._is_udmabuf, self._is_open = is_udmabuf, True

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """
        Execute an inference and return the outputs by name. Inputs must have the shapes and types
        in manifest.json. Raise a `CircuitError` if the circuit or the memory fails.
        """
        arrays = [checked(inputs, tensor) for tensor in self.inputs]
        results: dict[str, Array] = {
            t["name"]: np.empty(t["shape"], t["dtype"]) for t in self.outputs
        }
        status = self._library.circuit_run(pointers(arrays), pointers(list(results.values())))
        _check(self._library, status, self._failures)
        return results

    def run_circuit(self, frames: Array) -> list[Array]:
        """
        Pass int8 `frames`, [frames, rows, columns, channels], through the circuit, back to back.
        Return the frames of each output port in the same form.
        """
        streams = self.transfer(self._frames.pack_input(np.ascontiguousarray(frames, np.int8)))
        return [self._frames.unpack_output(port, stream) for port, stream in enumerate(streams)]

    def transfer(self, stream: Array) -> list[Array]:
        """
        Pass the bytes of `stream`, frames in the order of the input port, to the circuit. Return
        the bytes of each output port. An incomplete last frame raises a `CircuitError`.
        """
        _, rows, _, channels, width = self._frames.INPUT
        count = -(-stream.nbytes // (rows * channels * width))
        results: list[Array] = [
            np.empty(count * rows * channels * width, np.uint8)
            for _, rows, _, channels, width in self._frames.OUTPUTS
        ]
        sent = np.ascontiguousarray(stream)
        status = self._library.circuit_transfer(sent.ctypes.data, sent.nbytes, pointers(results))
        _check(self._library, status, self._failures)
        return results

    def times(self) -> tuple[int, int, float]:
        """Return frames, cycles and microseconds of the last launch."""
        library = self._library
        nanoseconds = library.circuit_nanoseconds()
        return library.circuit_frames(), library.circuit_cycles(), nanoseconds / 1000

    def close(self) -> None:
        """Release registers and memory."""
        if self._is_open:
            self._library.circuit_close()
            if self._is_udmabuf:
                self._library.circuit_close_udmabuf(ctypes.byref(self._memory))
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
