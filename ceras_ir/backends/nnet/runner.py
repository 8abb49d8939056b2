"""Run a compiled folder in the C++ engine: arrays by name in, arrays by name out."""

import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.nnet.circuit_size import DEFAULT, CircuitSize
from ceras_ir.backends.nnet.engine import build
from ceras_ir.backends.nnet.file import NnetFile
from ceras_ir.backends.nnet.reader import read
from ceras_ir.support.diagnostics import InputError
from ceras_ir.targets.execution import Sample, Trace

Array: TypeAlias = NDArray[np.generic]
DTYPES = {
    "f32": "<f4",
    "i8": "i1",
    "u8": "u1",
    "i16": "<i2",
    "u16": "<u2",
    "i32": "<i4",
    "i64": "<i8",
    "bool": "?",
}


@dataclass(frozen=True)
class Rtl:
    """The FPGA's layers run in the circuits in Verilog, simulated with this memory around them."""

    size: CircuitSize = DEFAULT
    stall: int = 0
    """Of 100 cycles, those in which a channel of the bus waits."""
    latency: int = 32
    """Cycles from a request to its first data."""


class NnetModel:
    """`model.nnet` of a folder, or a file, and an engine that runs it."""

    def __init__(self, path: Path, engine_flags: Sequence[str] = (), rtl: Rtl | None = None):
        self.path = path / "model.nnet" if path.is_dir() else path
        try:
            self.file: NnetFile = read(self.path.read_bytes())
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", str(self.path)) from None
        except InputError as error:
            raise InputError(error.message, str(self.path)) from None
        self.rtl = rtl
        self.cycles: list[list[int]] = []
        """
        Of each sample of the last run, the cycles of each layer of the FPGA on simulated circuits;
        0 where it ran in C++.
        """
        self.refused: list[str] = []
        """Of each such layer, why the circuits do not take it; nothing where they do."""
        if rtl is None:
            self.engine = build(engine_flags)
        else:
            from ceras_ir.backends.nnet.rtl_engine import build_engine

            self.engine = build_engine(rtl.size)

    def run(
        self, inputs: Mapping[str, Array], trace: Callable[[int, bytes], None] | None = None
    ) -> dict[str, Array]:
        """One inference. `trace` sees the number and the result of each layer, in order."""
        many = {name: np.asarray(array)[None] for name, array in inputs.items()}
        return {name: array[0] for name, array in self.run_samples(many, trace).items()}

    def run_samples(
        self,
        inputs: Mapping[str, Array],
        trace: Callable[[int, bytes], None] | None = None,
        count: int = 1,
    ) -> dict[str, Array]:
        """
        N inferences in one process, from the first state on; every array has a leading dimension
        of N. `count` is N where there is no input.
        """
        given = self.file.inputs[: len(self.file.inputs) - self.file.states]
        names = [name for _, name in given]
        if set(names) != set(inputs):
            raise InputError(f"inputs {', '.join(names)} expected, got {', '.join(inputs)}")
        counts = {np.shape(inputs[name])[0] for name in names if np.ndim(inputs[name])} or {count}
        if len(counts) != 1:
            raise InputError("the inputs have different numbers of samples")
        count = counts.pop()
        columns = [self._bytes(id, name, inputs[name], count) for id, name in given]
        with tempfile.TemporaryDirectory() as folder:
            source, target, log = (Path(folder) / n for n in ("in.bin", "out.bin", "trace.bin"))
            with source.open("wb") as stream:
                for sample in range(count):
                    for column in columns:
                        stream.write(column[sample])
            command = [str(self.engine), str(self.path), str(source), str(target)]
            command += ["--samples", str(count)]
            command += ["--trace", str(log)] if trace is not None else []
            cycles = Path(folder) / "cycles.txt"
            if self.rtl is not None:
                command += ["--rtl", str(cycles), "--stall", str(self.rtl.stall)]
                command += ["--latency", str(self.rtl.latency)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                message = done.stderr.strip() or f"the nnet engine ended with {done.returncode}"
                raise InputError(message.removeprefix(f"{self.path}: error: "), str(self.path))
            if trace is not None:
                replay(log, trace)
            if self.rtl is not None:
                lines = [line.partition(" ") for line in cycles.read_text().splitlines()]
                numbers = [int(number) for number, _, _ in lines]
                self.refused = [reason for _, _, reason in lines[: len(lines) // count]]
                each = len(numbers) // count
                self.cycles = [numbers[i : i + each] for i in range(0, len(numbers), each or 1)]
            return self._results(target.read_bytes(), count)

    def _bytes(self, id: int, name: str, array: Array, count: int) -> list[bytes]:
        tensor = self.file.tensors[id]
        if np.shape(array) != (count, *tensor.shape):
            shape = list(np.shape(array)[1:])
            raise InputError(f"input '{name}' has shape {shape}, expected {list(tensor.shape)}")
        dtype = np.dtype(DTYPES[tensor.storage])
        if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
            raise InputError(f"input '{name}' has type {array.dtype}, expected {dtype}")
        return [np.ascontiguousarray(sample, dtype).tobytes() for sample in array]

    def _results(self, data: bytes, count: int) -> dict[str, Array]:
        seen = self.file.outputs[: len(self.file.outputs) - self.file.states]
        tensors = [self.file.tensors[id] for id, _ in seen]
        sizes = [tensor.nbytes for tensor in tensors]
        rows = np.frombuffer(data, np.uint8).reshape(count, sum(sizes))
        results: dict[str, Array] = {}
        start = 0
        for (_, name), tensor, size in zip(seen, tensors, sizes, strict=True):
            part = np.ascontiguousarray(rows[:, start : start + size])
            values = part.reshape(-1).view(np.dtype(DTYPES[tensor.storage]))
            results[name] = values.reshape(count, *tensor.shape)
            start += size
        return results


def replay(log: Path, trace: Callable[[int, bytes], None]) -> None:
    """Show the records of a trace file, one at a time."""
    with log.open("rb") as stream:
        while head := stream.read(8):
            layer, size = struct.unpack("<II", head)
            trace(layer, stream.read(size))


class CompiledNnet:
    """A folder for target nnet, run in the C++ engine."""

    CHUNK = 16
    """Samples that the engine runs in one process; between two of them progress shows."""

    def __init__(self, folder: Path, rtl: Rtl | None = None):
        self.model = NnetModel(folder, rtl=rtl)

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        # States go on from sample to sample, and begin anew with the process.
        size = len(samples) if self.model.file.states else self.CHUNK
        for start in range(0, len(samples), size or 1):
            chunk = samples[start : start + size]
            stacked = {name: np.stack([s[name] for s in chunk]) for name in chunk[0]}
            results = self.model.run_samples(stacked, count=len(chunk))
            for i in range(len(chunk)):
                yield {name: array[i] for name, array in results.items()}

    def trace(self, sample: Sample, trace: Trace) -> None:
        self.model.run(sample, trace)
