"""Build circuits with their shells, and run commands on them in Verilator."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from dataflow_circuits import Integers, convolution, expected, max_pool, plan_of
from numpy.typing import NDArray

from ceras_ir.backends.dataflow.blocks import Block, Feature, Pipeline, Source
from ceras_ir.backends.dataflow.board import load_board
from ceras_ir.backends.dataflow.circuit import Circuit
from ceras_ir.backends.dataflow.cycles import PipelineTiming, model
from ceras_ir.backends.dataflow.emit import from_port, project_files, to_port
from ceras_ir.backends.dataflow.frames import PortFrames
from ceras_ir.backends.dataflow.shell import (
    REGISTER_PACKAGE,
    board_files,
    bus_core,
    configuration,
    constant,
    registers,
    registers_header,
)
from ceras_ir.support import native
from ceras_ir.support.native import Part, include_folder, verilate

HERE = Path(__file__).parent
BENCH = HERE / "shell_bench.cpp"
DEVICE = HERE.parent / "device"
BUS_BYTES = 8
BASE = 0x310000000
FLAGS = ("-std=c++17", "-O1")
UNUSED = 0x55

Bytes = NDArray[np.uint8]


def bit(name: str) -> int:
    """Return the mask of a bit that the package of registers declares."""
    return 1 << next(c.value for c in registers()[1] if c.name == name)


def shell_modules(folder: Path) -> list[Path]:
    """Return the sources of the folders `board` and `hdl`; the package of registers is first."""
    package = folder / "board" / REGISTER_PACKAGE
    others = {*folder.glob("board/*.sv"), *folder.glob("board/*.v")} - {package}
    return [package, *sorted(others), *sorted(folder.glob("hdl/*.sv"))]


def build_bench(folder: Path, source: Path, work: Path) -> Path:
    """Build the C++ program `source` with the circuit and the shell of `folder`, in `work`."""
    objects = work / "objects"
    objects.mkdir(parents=True)
    (objects / "circuit_registers.h").write_text(registers_header())
    parts = verilate("circuit_axi", shell_modules(folder), objects, FLAGS)
    flags = [*FLAGS, f"-I{include_folder()}", f"-I{DEVICE}", f"-I{objects}"]
    own = Part([source], (), flags, is_shared=False)
    native.build(objects / source.stem, "the bench of a circuit", [own, *parts])
    return objects / source.stem


@dataclass(frozen=True, eq=False)
class Shell:
    """A circuit with its shell in Verilator, and the reference of its results."""

    folder: Path
    program: Path
    pipeline: Pipeline
    timing: PipelineTiming

    @property
    def features(self) -> list[Feature]:
        return [block.feature for block in (self.pipeline.source, *self.pipeline.results)]

    @property
    def frame_bytes(self) -> list[int]:
        """The bytes of a frame at the input and at each output."""
        return [f.words * -(-f.columns // BUS_BYTES) * BUS_BYTES for f in self.features]

    def frames(self, count: int, seed: int) -> Integers:
        f = self.features[0]
        shape = (count, f.rows, f.columns, f.channels)
        return np.random.default_rng(seed).integers(-128, 128, shape)

    def results(self, frames: Integers) -> list[Integers]:
        """Compute the frames at the output ports in NumPy."""
        values: dict[Block, Integers] = {self.pipeline.source: frames}
        for block in self.pipeline.blocks:
            values[block] = expected(block, [values[operand] for operand in block.inputs])
        return [values[block] for block in self.pipeline.results]


def make_shell(folder: Path) -> Shell:
    """
    Build a circuit with two outputs. The first rows of an output consist of padding only, so the
    circuit offers them before the input.
    """
    rng = np.random.default_rng(1)
    source = Source("input", Feature(6, 3, 9))
    first = convolution(source, 5, (2, 2), rng, padding=(3, 0, 1, 0), pad=3)
    second = convolution(max_pool(first, 2, 2), 4, (1, 1), rng)
    pool = second.inputs[0]
    pipeline = Pipeline(source, [first, pool, second], [first, second])
    plan, board = plan_of(pipeline, {}), load_board("zedboard")
    assert board.port_bytes == BUS_BYTES
    project = project_files(Circuit(pipeline, plan), board)
    ports = [
        PortFrames(0, block.feature, 1, BUS_BYTES, is_turned=False)
        for block in (source, first, second)
    ]
    core = bus_core(configuration(project), ports[0], ports[1:])
    for name, found in {"hdl": project, "board": board_files(board, core)}.items():
        (folder / name).mkdir(parents=True)
        for file, text in found.items():
            (folder / name / file).write_text(text)
    program = build_bench(folder, BENCH, folder / "bench")
    return Shell(folder, program, pipeline, model(pipeline, plan, BUS_BYTES))


@dataclass
class Session:
    """Commands for the bench, and the text that each must print."""

    shell: Shell
    work: Path
    lines: list[str] = field(default_factory=list[str])
    wanted: list[str | None] = field(default_factory=list[str | None])
    files: int = 0

    def set(self, **settings: int) -> None:
        self.lines += [f"set {name} {value}" for name, value in settings.items()]

    def write(self, word: str | int, value: int, response: int = 0) -> None:
        number = constant(word) if isinstance(word, str) else word
        self.lines.append(f"write {number} {value}")
        self.wanted.append(str(response))

    def read(self, word: str | int, value: int | None = None, response: int = 0) -> int:
        """Read a register, and return the number of the printed line; None accepts any value."""
        number = constant(word) if isinstance(word, str) else word
        self.lines.append(f"read {number}")
        self.wanted.append(None if value is None else f"{response} {value}")
        return len(self.wanted) - 1

    def wait(self, cycles: int = 200000, result: int = 1) -> None:
        self.lines.append(f"wait {cycles}")
        self.wanted.append(str(result))

    def irq(self, value: int) -> None:
        self.lines.append("irq")
        self.wanted.append(str(value))

    def ticks(self, cycles: int) -> None:
        self.lines.append(f"ticks {cycles}")

    def load(self, offset: int, data: bytes) -> None:
        path = self.work / f"{self.files}.bin"
        self.files += 1
        path.write_bytes(data)
        self.lines.append(f"load {offset} {path}")

    def save(self, offset: int, size: int) -> Path:
        path = self.work / f"{self.files}.bin"
        self.files += 1
        self.lines.append(f"save {offset} {size} {path}")
        return path

    def begin(self, source: int, size: int, results: Sequence[int]) -> None:
        """Start a launch with `size` bytes at `source`; the outputs are at `results`."""
        self.write("INPUT_ADDRESS", (BASE + source) & 0xFFFFFFFF)
        self.write("INPUT_ADDRESS_HIGH", BASE + source >> 32)
        self.write("INPUT_BYTES", size)
        for port, offset in enumerate(results):
            word = constant("OUTPUTS") + constant("OUTPUT_WORDS") * port
            self.write(word, (BASE + offset) & 0xFFFFFFFF)
            self.write(word + 1, BASE + offset >> 32)
        self.write("CONTROL", bit("START"))

    def run(self) -> list[str]:
        """Execute the commands and compare the printed text. Return the lines."""
        done = subprocess.run(
            [self.shell.program],
            cwd=self.shell.folder / "hdl",
            input="\n".join(self.lines) + "\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        found = done.stdout.splitlines()
        assert len(found) == len(self.wanted)
        asked = [line for line in self.lines if line.split()[0] in ("write", "read", "wait", "irq")]
        for line, wanted, text in zip(asked, self.wanted, found, strict=True):
            assert wanted is None or wanted == text, f"{line}: {text}, expected {wanted}"
        return found


INPUT_AT, OUTPUT_AT, OUTPUT_STEP = 0, 0x40000, 0x40000
"""Offsets in the memory of the bench."""


@dataclass
class Launch:
    """Frames of a session, and the files with the results."""

    frames: Integers
    outputs: list[Path]
    margin: int
    checks: Mapping[str, int] = field(default_factory=dict[str, int])

    def compare(self, shell: Shell, complete: int | None = None) -> None:
        """
        Compare the first `complete` frames of each output, or all, with NumPy. Bytes around the
        outputs are unchanged.
        """
        count = len(self.frames) if complete is None else complete
        wanted, sizes = shell.results(self.frames), shell.frame_bytes[1:]
        parts = zip(self.outputs, wanted, shell.features[1:], sizes, strict=True)
        for path, values, feature, size in parts:
            data = path.read_bytes()
            end = self.margin + len(self.frames) * size
            assert set(data[: self.margin]) | set(data[end:]) == {UNUSED}
            found = from_port(data[self.margin : end], feature, BUS_BYTES)
            assert np.array_equal(found[:count], values[:count])


def prepare(session: Session, frames: Integers, *, shift: int = 0, margin: int = 64) -> Launch:
    """
    Load the frames, fill the memory of the results, and start a launch. All streams begin `shift`
    bytes after a page.
    """
    shell = session.shell
    data = to_port(frames.astype(np.int8), BUS_BYTES)
    session.load(INPUT_AT + shift, data)
    starts: list[int] = []
    sizes: list[int] = []
    for port, size in enumerate(shell.frame_bytes[1:]):
        start, room = OUTPUT_AT + port * OUTPUT_STEP + 4096 + shift, len(frames) * size
        session.load(start - margin, bytes([UNUSED]) * (room + 2 * margin))
        starts.append(start)
        sizes.append(room + 2 * margin)
    session.begin(INPUT_AT + shift, len(data), starts)
    return Launch(frames, [Path()] * len(starts), margin, {"shift": shift})


def finish(session: Session, launch: Launch, status: int = 0) -> Launch:
    """Wait for the end of a launch, check the status, and save the results."""
    session.wait()
    session.read("STATUS", status)
    sizes = session.shell.frame_bytes[1:]
    for port, size in enumerate(sizes):
        start = OUTPUT_AT + port * OUTPUT_STEP + 4096 + launch.checks["shift"]
        room = len(launch.frames) * size + 2 * launch.margin
        launch.outputs[port] = session.save(start - launch.margin, room)
    return launch
