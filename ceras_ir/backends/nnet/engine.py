"""
Build the C++ engine, and run networks in it: arrays by name in, arrays by name out.

The engine is built from the sources of this package at the first use. Variants drive a board, or
contain the circuits in SystemVerilog, simulated by Verilator. The header `functions.h` has all
functions of floats, printed from the C text of the interpreters.
"""

import struct
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.nnet.circuits import (
    DEFAULT,
    TOP,
    CircuitSize,
    circuit_sources,
    registers_header,
)
from ceras_ir.backends.nnet.circuits import HEADER as REGISTERS
from ceras_ir.backends.nnet.encoding import FUNCTIONS
from ceras_ir.backends.nnet.file import NnetFile
from ceras_ir.backends.nnet.reader import read
from ceras_ir.interpreters.float_text import expression, float_text, needed, strict_floats
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import (
    DEVICE_SOURCES,
    SIMULATION_FLAGS,
    STANDARD,
    Part,
    build_program,
    host_flags,
    include_folder,
    verilate,
)
from ceras_ir.support.native import compiler as native_compiler
from ceras_ir.targets.capabilities import Sample, Trace

HEADER, STRICT = "functions.h", "strict_floats.h"


def functions_header() -> str:
    """
    `apply_all`, which replaces values by those of a function, taken by its number, and what it
    calls.
    """
    names = ["exp_f32", "sum_f32", "power_f32"]  # of softmax and binary
    cases: list[str] = []
    for function, number in FUNCTIONS.items():
        parameters = [f"p[{i}]" for i in range(len(function.facts.parameters))]
        called, text = expression(function, "x", parameters)
        names += called
        each = f"const float x = values[i];\n        values[i] = {text};\n"
        loop = f"for (int64_t i = 0; i < count; ++i) {{\n        {each}      }}\n"
        cases.append(f"    case {number}:\n      {loop}      return;\n")
    bodies = [text.body for name in dict.fromkeys(needed(names)) if (text := float_text(name))]
    functions = "\n".join(bodies).replace("static inline ", "static ").replace("static ", "inline ")
    return (
        f"{functions}\n"
        f"constexpr uint8_t LAST_FUNCTION = {len(FUNCTIONS)};\n\n"
        "// A loop for each function, which compilers make vectors of.\n"
        "inline void apply_all(Function function, const float* parameters, float* values,\n"
        "                      int64_t count) {\n"
        "  const float p[] = {parameters[0], parameters[1]};\n"
        "  switch (static_cast<int>(function)) {\n"
        f"{''.join(cases)}"
        "    default:\n      return;\n  }\n}\n"
    )


SOURCES = Path(__file__).parent / "runtime"
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
"""Contraction to fused multiply-add would change the bits of float operators."""

PURPOSE = "the nnet engine"
CORE, LINUX, PLANNER = (Path(__file__).parent / name for name in ("core", "linux", "planner"))
BOARD = [CORE, LINUX]
"""What an engine has more that drives a board, besides `DEVICE_SOURCES`."""


def compiler() -> list[str]:
    """The C++ compiler for the engine."""
    return native_compiler(PURPOSE)


def made_headers() -> dict[str, str]:
    """Headers that are made of other sources, by name."""
    made = {HEADER: functions_header(), REGISTERS: registers_header()}
    return {**made, STRICT: strict_floats()}


def runtime(only: Collection[str] = (), extra_flags: Sequence[str] = ()) -> Part:
    """The sources of the engine for this machine, all or those of some names."""
    files = sorted(SOURCES.iterdir())
    sources = [p for p in files if p.suffix == ".cpp" and (not only or p.name in only)]
    headers = [path for path in files if path.suffix != ".cpp"]
    return Part(sources, headers, (*FLAGS, *host_flags(PURPOSE), *extra_flags), made_headers())


def hardware_part(sources: Sequence[Path], folders: Collection[Path]) -> Part:
    """
    Sources that see the engine's headers, those of circuits in hardware, and those of `folders`.
    What packs weights goes by what the processor has, as the engine's own objects do.
    """
    places = sorted({SOURCES, CORE, *folders})
    headers = [path for folder in places for path in sorted(folder.glob("*.h"))]
    flags = [*FLAGS, *host_flags(PURPOSE), "-DCERAS_HARDWARE", *(f"-I{f}" for f in places)]
    return Part(sources, headers, flags, made_headers())


def core() -> Part:
    """What prepares a launch of the circuits in hardware, on a board or simulated."""
    return hardware_part(sorted(CORE.glob("*.cpp")), ())


def planner() -> Path:
    """The shared library that plans layers for the core in Verilog, as the engine does."""
    sources = [*sorted(CORE.glob("*.cpp")), *sorted(PLANNER.glob("*.cpp"))]
    headers = [path for folder in (CORE, SOURCES) for path in sorted(folder.glob("*.h"))]
    flags = [*FLAGS, "-O1", "-fPIC", "-shared", f"-I{CORE}", f"-I{SOURCES}"]
    part = Part([p for p in sources if p.name != "circuits.cpp"], headers, flags, made_headers())
    return build_program("nnet_planner", "the plan of the nnet core", [part])


def shared_and_own(sources: Sequence[Path]) -> tuple[set[str], list[Path]]:
    """Names of sources whose objects any engine may have, and what is compiled for a program."""
    shared = {path.name for path in sources if path.parent == SOURCES} - {"main.cpp"}
    return shared, [path for path in sources if path.parent != SOURCES or path.name not in shared]


def build(extra_flags: Sequence[str] = ()) -> Path:
    """The program `ceras_engine`, built if it is not in the cache."""
    return build_program("ceras_engine", PURPOSE, [runtime(extra_flags=extra_flags)])


def build_board_engine() -> Path:
    """`ceras_engine` with the driver of a board; but for `main`, its objects are the engine's."""
    shared, own = shared_and_own(sorted(SOURCES.glob("*.cpp")))
    linux = [path for path in sorted(LINUX.iterdir()) if path.suffix == ".cpp"]
    own += [*linux, *(path for path in DEVICE_SOURCES if path.suffix == ".c")]
    places = {LINUX, *(path.parent for path in DEVICE_SOURCES)}
    parts = [runtime(shared), core(), hardware_part(own, places)]
    return build_program("ceras_engine_board", PURPOSE, parts)


def write_sources(folder: Path) -> None:
    """All that `runtime/CMakeLists.txt` builds the engine of, in a folder of its own."""
    driver = folder / "board"
    driver.mkdir(parents=True, exist_ok=True)
    for path in sorted(SOURCES.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    for name, text in made_headers().items():
        (folder / name).write_text(text, encoding="ascii")
    for path in [*(p for source in BOARD for p in sorted(source.iterdir())), *DEVICE_SOURCES]:
        (driver / path.name).write_bytes(path.read_bytes())


RTL = Path(__file__).parent / "rtl"
SIMULATION = RTL / "simulation.cpp"
"""The one source that includes what Verilator makes."""
RTL_PURPOSE = "the nnet engine with its circuits in Verilog"


def build_engine(size: CircuitSize) -> Path:
    """`ceras_engine` that has the option --rtl."""
    return build_simulation("ceras_engine_rtl", sorted(SOURCES.glob("*.cpp")), size)


def build_simulation(name: str, sources: Sequence[Path], size: CircuitSize) -> Path:
    """
    The program `name` of `sources`, the circuits and the memory around them; headers beside a
    source are its own.
    """
    modules = circuit_sources()
    shared, own = shared_and_own(sources)
    own += [path for path in sorted(RTL.glob("*.cpp")) if path != SIMULATION]
    around = hardware_part([SIMULATION], {RTL})
    # What Verilator makes is not ours to warn about.
    quiet = [flag for flag in around.flags if not flag.startswith("-W")]
    around = replace(around, flags=[*quiet, f"-I{include_folder()}"], is_shared=False)
    parts = [core(), hardware_part(own, {RTL, *(path.parent for path in own)}), around]
    sizes = [f"-G{k}={v}" for k, v in size.parameters().items()]
    flags = [STANDARD, *SIMULATION_FLAGS, *host_flags(RTL_PURPOSE)]
    return build_program(
        name,
        RTL_PURPOSE,
        [*([runtime(shared)] if shared else []), *parts],
        lambda folder: verilate(TOP, modules, folder, flags, sizes, is_shared=True),
        [*(path.read_bytes() for path in modules), "".join(sizes).encode()],
    )


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
