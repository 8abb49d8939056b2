"""
Build the C++ engine, and execute networks in it.

The engine is built from the sources of this package at the first use. Variants drive a board, or
simulate the circuits in SystemVerilog with Verilator. The generated header `functions.h` contains
all functions of floats; their C text is that of the interpreters.
"""

import struct
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.nnet.circuits import (
    CORE_MODULE,
    DEFAULT,
    CircuitSize,
    circuit_sources,
    registers_header,
)
from ceras_ir.backends.nnet.circuits import HEADER as REGISTERS
from ceras_ir.backends.nnet.encoding import FUNCTION_NUMBERS
from ceras_ir.backends.nnet.file import NnetFile
from ceras_ir.backends.nnet.reader import read
from ceras_ir.interpreters.float_text import expression, float_text, needed, strict_floats
from ceras_ir.support.diagnostics import InputError, with_remedy
from ceras_ir.support.native import (
    DEVICE_SOURCES,
    STANDARD,
    Part,
    build_program,
    host_flags,
    include_folder,
    verilate,
)
from ceras_ir.support.native import compiler as native_compiler
from ceras_ir.support.programs import run_program
from ceras_ir.support.user_files import read_bytes
from ceras_ir.targets.capabilities import Sample, Trace

SIMULATION_FLAGS = ("-O2", "-fno-tree-pre", "-fno-schedule-insns2")
"""Flags that give the simulation speed of -O3 in half of the compile time."""


def functions_header() -> str:
    """
    Return the text of the C++ header with the float functions of a network. Its function
    `apply_all` applies the function with a given number to each element of an array.
    """
    names = ["exp_f32", "sum_f32", "power_f32"]  # used by softmax and binary
    cases: list[str] = []
    for function, number in FUNCTION_NUMBERS.items():
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
        f"constexpr uint8_t LAST_FUNCTION = {len(FUNCTION_NUMBERS)};\n\n"
        "// A separate loop for each function, which compilers vectorize.\n"
        "inline void apply_all(Function function, const float* parameters, float* values,\n"
        "                      int64_t count) {\n"
        "  const float p[] = {parameters[0], parameters[1]};\n"
        "  switch (static_cast<int>(function)) {\n"
        f"{''.join(cases)}"
        "    default:\n      return;\n  }\n}\n"
    )


SOURCES = Path(__file__).parent / "runtime"
ENGINE_FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
"""
The flags of the compiler. Contraction to fused multiply-add would change the bits of float
operations.
"""

PURPOSE = "the nnet engine"
CORE, LINUX, PLANNER, RTL = (
    Path(__file__).parent / name for name in ("core", "linux", "planner", "rtl")
)


def compiler() -> list[str]:
    """
    Return the command (program and arguments) of the C++ compiler that builds the engine: `CXX`, or
    an installed compiler.
    """
    return native_compiler(PURPOSE)


def generated_headers() -> dict[str, str]:
    """Return the text of the C++ headers that are generated for the engine, by file name."""
    return {
        "functions.h": functions_header(),
        REGISTERS: registers_header(),
        "strict_floats.h": strict_floats(),
    }


def runtime_part(only: Collection[str] = (), extra_flags: Sequence[str] = ()) -> Part:
    """
    Return the C++ sources of the engine with their compiler flags, as a part of a program for this
    machine. `only` selects sources by file name; if it is empty, all are used.
    """
    files = sorted(SOURCES.iterdir())
    sources = [p for p in files if p.suffix == ".cpp" and (not only or p.name in only)]
    headers = [path for path in files if path.suffix != ".cpp"]
    flags = (*ENGINE_FLAGS, *host_flags(PURPOSE), *extra_flags)
    return Part(sources, headers, flags, generated_headers())


def _hardware_part(sources: Sequence[Path], folders: Collection[Path]) -> Part:
    # The host flags must be those of the engine: they select how weights are packed.
    included = sorted({SOURCES, CORE, *folders})
    headers = [path for folder in included for path in sorted(folder.glob("*.h"))]
    flags = [*ENGINE_FLAGS, *host_flags(PURPOSE), "-DCERAS_HARDWARE", *(f"-I{f}" for f in included)]
    return Part(sources, headers, flags, generated_headers())


def _core() -> Part:
    return _hardware_part(sorted(CORE.glob("*.cpp")), ())


def planner() -> Path:
    """
    Build the shared library that plans launches for the core in Verilog, and return its path. It
    contains the code with which the engine plans them.
    """
    sources = [*sorted(CORE.glob("*.cpp")), *sorted(PLANNER.glob("*.cpp"))]
    headers = [path for folder in (CORE, SOURCES) for path in sorted(folder.glob("*.h"))]
    flags = [*ENGINE_FLAGS, "-O1", "-fPIC", "-shared", f"-I{CORE}", f"-I{SOURCES}"]
    sources = [path for path in sources if path.name not in ("circuits.cpp", "core.cpp")]
    part = Part(sources, headers, flags, generated_headers())
    return build_program("nnet_planner", "the plan of the nnet core", [part])


def _shared_and_own(sources: Sequence[Path]) -> tuple[set[str], list[Path]]:
    # The names of sources with objects that all engines share, and the sources of the program.
    shared = {path.name for path in sources if path.parent == SOURCES} - {"main.cpp"}
    return shared, [path for path in sources if path.parent != SOURCES or path.name not in shared]


def build(extra_flags: Sequence[str] = ()) -> Path:
    """
    Build the program `ceras_engine`, which executes all layers in C++, unless it is cached, and
    return its path.
    """
    return build_program("ceras_engine", PURPOSE, [runtime_part(extra_flags=extra_flags)])


def load_in_engine(path: Path) -> None:
    """
    Check that the engine of this machine accepts an nnet file; no layer is executed. Raise an
    `InputError` with the reason if the engine refuses the file.
    """
    _executed([str(build()), str(path), "--check"], path)


def _executed(command: Sequence[str], path: Path) -> None:
    done = run_program(command)
    if done.returncode:
        message = done.stderr.strip() or f"the nnet engine exited with {done.returncode}"
        raise InputError(message.removeprefix(f"{path}: error: "), str(path))


def build_board_engine() -> Path:
    """
    Build `ceras_engine` with the driver of an FPGA board, unless it is cached, and return its path.
    Object files that `build` also needs are shared.
    """
    shared, own = _shared_and_own(sorted(SOURCES.glob("*.cpp")))
    own += [*sorted(LINUX.glob("*.cpp")), *(p for p in DEVICE_SOURCES if p.suffix == ".c")]
    folders = {LINUX, *(path.parent for path in DEVICE_SOURCES)}
    parts = [runtime_part(shared), _core(), _hardware_part(own, folders)]
    return build_program("ceras_engine_board", PURPOSE, parts)


def write_sources(folder: Path) -> None:
    """
    Write the C++ sources of the engine and of the driver of a board to `folder`, so that
    `CMakeLists.txt` in it can build the engine without this package.
    """
    driver = folder / "board"
    driver.mkdir(parents=True, exist_ok=True)
    for path in sorted(SOURCES.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
    for name, text in generated_headers().items():
        (folder / name).write_text(text, encoding="ascii")
    for path in (*sorted(CORE.iterdir()), *sorted(LINUX.iterdir()), *DEVICE_SOURCES):
        (driver / path.name).write_bytes(path.read_bytes())


RTL_PURPOSE = "the nnet engine with its circuits in Verilog"


def build_engine(size: CircuitSize) -> Path:
    """
    Build `ceras_engine` with a simulation of the circuits (option `--rtl`), unless it is cached,
    and return its path.
    """
    return build_simulation("ceras_engine_rtl", sorted(SOURCES.glob("*.cpp")), size)


def build_simulation(
    name: str, sources: Sequence[Path], size: CircuitSize, folders: Collection[Path] = ()
) -> Path:
    """
    Build the program `name` from the C++ `sources`, a simulation of the circuits of `size`, and a
    model of the memory; return its path. Sources can include headers of their own folders and of
    `folders`.
    """
    modules = circuit_sources()
    shared, own = _shared_and_own(sources)
    own += sorted(RTL.glob("*.cpp"))
    driving = [path for path in own if f'"V{CORE_MODULE}.h"' in path.read_text("utf-8")]
    own = [path for path in own if path not in driving]
    simulation = _hardware_part(driving, {RTL, *folders, *(path.parent for path in driving)})
    # The output of Verilator does not compile without warnings.
    quiet = [flag for flag in simulation.flags if not flag.startswith("-W")]
    simulation = replace(simulation, flags=[*quiet, f"-I{include_folder()}"], is_shared=False)
    parts = [
        _core(),
        _hardware_part(own, {RTL, *folders, *(path.parent for path in own)}),
        simulation,
    ]
    sizes = [f"-G{k}={v}" for k, v in size.parameters().items()]
    flags = [STANDARD, *SIMULATION_FLAGS, *host_flags(RTL_PURPOSE)]
    return build_program(
        name,
        RTL_PURPOSE,
        [*([runtime_part(shared)] if shared else []), *parts],
        lambda folder: verilate(CORE_MODULE, modules, folder, flags, sizes, is_shared=True),
        [*(path.read_bytes() for path in modules), "".join(sizes).encode()],
    )


Array: TypeAlias = NDArray[np.generic]
STORAGE_DTYPES = {
    "f32": "<f4", "i8": "i1", "u8": "u1", "i16": "<i2", "u16": "<u2", "i32": "<i4", "i64": "<i8",
    "bool": "?",
}  # fmt: skip


@dataclass(frozen=True)
class Rtl:
    """The size of the simulated circuits (RTL), and the timing of the simulated memory."""

    size: CircuitSize = DEFAULT
    stall: int = 0
    """The percentage of cycles, selected at random, in which a channel of the bus waits."""
    latency: int = 32
    """Cycles from a request to the first data."""


class NnetModel:
    """
    An nnet file (`path`, or `model.nnet` in the folder `path`) that the engine executes. With
    `rtl`, layers of the FPGA are executed in a simulation of the circuits.
    """

    def __init__(self, path: Path, engine_flags: Sequence[str] = (), rtl: Rtl | None = None):
        self.path = path / "model.nnet" if path.is_dir() else path
        try:
            self.file: NnetFile = read(read_bytes(self.path))
        except OSError as error:
            shown = str(self.path)
            raise InputError(f"cannot be read: {with_remedy(error, shown)}", shown) from None
        except InputError as error:
            raise InputError(error.message, str(self.path)) from None
        self.rtl = rtl
        self.cycles: list[list[int]] = []
        """
        The simulated cycles of each FPGA layer, for each sample of the last run; 0 for a layer that
        was executed in C++.
        """
        self.refused: list[str] = []
        """The reason why the circuits refuse each FPGA layer; empty for accepted layers."""
        self.engine = build(engine_flags) if rtl is None else build_engine(rtl.size)

    def run(
        self, inputs: Mapping[str, Array], trace: Callable[[int, bytes], None] | None = None
    ) -> dict[str, Array]:
        """
        Execute an inference and return the outputs by name. `trace` is called for each layer, in
        order, with the number of the layer and the bytes of the result.
        """
        samples = {name: np.asarray(array)[None] for name, array in inputs.items()}
        return {name: array[0] for name, array in self.run_samples(samples, trace).items()}

    def run_samples(
        self,
        inputs: Mapping[str, Array],
        trace: Callable[[int, bytes], None] | None = None,
        count: int = 1,
    ) -> dict[str, Array]:
        """
        Execute N inferences in a process, and return the outputs by name. The arrays of inputs and
        outputs have a leading dimension of N. States are reset before the first inference, and then
        kept. `count` is N if the network has no inputs. `trace` is as in `run`.
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
            _executed(command, self.path)
            if trace is not None:
                _replay(log, trace)
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
        dtype = np.dtype(STORAGE_DTYPES[tensor.storage])
        if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
            raise InputError(f"input '{name}' has type {array.dtype}, expected {dtype}")
        return [np.ascontiguousarray(sample, dtype).tobytes() for sample in array]

    def _results(self, data: bytes, count: int) -> dict[str, Array]:
        outputs = self.file.outputs[: len(self.file.outputs) - self.file.states]
        tensors = [self.file.tensors[id] for id, _ in outputs]
        sizes = [tensor.nbytes for tensor in tensors]
        rows = np.frombuffer(data, np.uint8).reshape(count, sum(sizes))
        results: dict[str, Array] = {}
        start = 0
        for (_, name), tensor, size in zip(outputs, tensors, sizes, strict=True):
            part = np.ascontiguousarray(rows[:, start : start + size])
            values = part.reshape(-1).view(np.dtype(STORAGE_DTYPES[tensor.storage]))
            results[name] = values.reshape(count, *tensor.shape)
            start += size
        return results


def _replay(log: Path, trace: Callable[[int, bytes], None]) -> None:
    with log.open("rb") as stream:
        while head := stream.read(8):
            layer, size = struct.unpack("<II", head)
            trace(layer, stream.read(size))


class CompiledNnet:
    """A compiled folder of target nnet. The C++ engine executes the network."""

    CHUNK_SAMPLES = 16
    """
    The number of samples that a process of the engine executes. Progress is shown after each
    process.
    """

    def __init__(self, folder: Path, rtl: Rtl | None = None):
        self.model = NnetModel(folder, rtl=rtl)

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        # States are kept from sample to sample, and are reset with each process.
        size = len(samples) if self.model.file.states else self.CHUNK_SAMPLES
        for start in range(0, len(samples), size or 1):
            chunk = samples[start : start + size]
            stacked = {name: np.stack([s[name] for s in chunk]) for name in chunk[0]}
            results = self.model.run_samples(stacked, count=len(chunk))
            for i in range(len(chunk)):
                yield {name: array[i] for name, array in results.items()}

    def trace(self, sample: Sample, trace: Trace) -> None:
        self.model.run(sample, trace)
