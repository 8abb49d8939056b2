"""
Run a circuit in Verilator: build the simulator a single time, then pass frames through its ports.

A frame is the content of a port: rows; for each row the channels; for each channel the columns,
padded to whole beats. `open_circuit` runs the C of the host in a compiled folder, with the circuit
as its launch.
"""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.hints import isa

from ceras_ir.backends.c.runner import CompiledC
from ceras_ir.backends.dataflow.blocks import Feature
from ceras_ir.backends.dataflow.emit import ENTRY
from ceras_ir.backends.dataflow.storage import ceiling
from ceras_ir.backends.dataflow.verilog import TOP
from ceras_ir.command.output_files import MANIFEST, is_inside
from ceras_ir.support import native
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import Part, include_folder, verilate
from ceras_ir.targets.capabilities import Manifest

Frames = NDArray[np.int8]
"""[frames, rows, columns, channels], as the network has them."""

FLAGS = ("-std=c++17", "-O1", "-pthread")
"""More optimization takes longer than it saves here."""

PURPOSE = "the simulation of the circuits"


@dataclass(frozen=True)
class SimulatedRun:
    """What came out of the port, and the cycle at which each frame ended."""

    frames: Frames
    ends: list[int]

    @property
    def cycles_per_frame(self) -> int:
        """Between the last two frames: the steady state, if enough were sent."""
        return self.ends[-1] - self.ends[-2] if len(self.ends) > 1 else self.ends[-1]


def beats(feature: Feature, port_bytes: int) -> int:
    """Beats of a frame."""
    return feature.words * ceiling(feature.columns, port_bytes)


def to_port(frames: Frames, port_bytes: int) -> bytes:
    """The beats of frames."""
    ordered = frames.transpose(0, 1, 3, 2)
    ends = [(0, 0)] * 3 + [(0, -ordered.shape[-1] % port_bytes)]
    return np.pad(ordered, ends).tobytes()


def from_port(data: bytes, feature: Feature, port_bytes: int) -> Frames:
    """Frames from beats."""
    width = ceiling(feature.columns, port_bytes) * port_bytes
    words = np.frombuffer(data, np.int8).reshape(-1, feature.rows, feature.channels, width)
    return np.ascontiguousarray(words[..., : feature.columns].transpose(0, 1, 3, 2))


class Simulator:
    """The project in `folder`, compiled by Verilator."""

    def __init__(self, folder: Path, source: Feature, result: Feature, port_bytes: int):
        self.folder, self.source, self.result = folder, source, result
        self.port_bytes = port_bytes
        self._work = tempfile.TemporaryDirectory(prefix="ceras-dataflow-")
        self.program = build(folder, Path(self._work.name), port_bytes)

    def run(self, frames: Frames, *, seed: int = 0, stall: int = 0) -> SimulatedRun:
        """Send `frames` one after the other; ports wait in `stall` of 100 cycles."""
        work = Path(self._work.name)
        (work / "in.bin").write_bytes(to_port(frames, self.port_bytes))
        counts = [beats(f, self.port_bytes) for f in (self.source, self.result)]
        numbers = [*counts, len(frames), seed, stall]
        # Memories are read from the folder of the project.
        command = [str(self.program), str(work / "in.bin"), str(work / "out.bin")]
        done = _execute([*command, *map(str, numbers)], self.folder)
        output = from_port((work / "out.bin").read_bytes(), self.result, self.port_bytes)
        return SimulatedRun(output, [int(line) for line in done.splitlines()])


def build(folder: Path, work: Path, port_bytes: int) -> Path:
    """Compile the project in `folder`; the program's path."""
    objects = work / "obj"
    objects.mkdir()
    parts = verilate(TOP, sorted(folder.resolve().glob("*.sv")), objects, FLAGS)
    with as_file(files("ceras_ir.backends.dataflow") / "hdl" / "simulate.cpp") as harness:
        flags = [*FLAGS, f"-I{include_folder()}", f"-DPORT_BYTES={port_bytes}"]
        own = Part([harness], (), flags, is_shared=False)
        native.build(objects / "simulate", PURPOSE, [own, *parts])
    return objects / "simulate"


def _execute(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        shown = "\n".join(said[:12])
        raise InputError(
            f"the simulation failed with exit status {done.returncode}:\n{shown}", str(folder)
        )
    return done.stdout


class CircuitRunner:
    """The circuit of a compiled folder; the simulator is built at the first launch."""

    def __init__(self, folder: Path, manifest: Manifest, seed: int, stall: int):
        path, entry = str(folder / MANIFEST), manifest.content.get(ENTRY)
        if not isa(entry, dict[str, object]):
            raise InputError(f"has no entry '{ENTRY}'; compile again", path)
        name, ports = entry.get("folder"), [entry.get("input"), entry.get("output")]
        port_bytes, frames = entry.get("port_bytes"), entry.get("frames")
        if not isinstance(name, str) or not is_inside(folder, name):
            raise InputError(f"'folder' must name a folder inside, got {name!r}", path)
        if not isa(ports, list[list[int]]) or any(len(p) != 4 or min(p) < 0 for p in ports):
            raise InputError("'input' and 'output' are four numbers each", path)
        if not isinstance(port_bytes, int) or not isinstance(frames, int):
            raise InputError("'port_bytes' and 'frames' are numbers", path)
        if not 1 <= port_bytes <= 64 or frames < 1:
            raise InputError("'port_bytes' is in [1, 64] and 'frames' at least 1", path)
        self.folder, self.port_bytes, self.frames = folder / name, port_bytes, frames
        self.source, self.result = (_feature(port) for port in ports)
        self.places = [port[0] for port in ports]
        self.seed, self.stall = seed, stall
        self._simulator: Simulator | None = None

    def launch(self, number: int, memory: NDArray[np.uint8]) -> None:
        """Take the frames of one inference from `memory`, and put the results there."""
        if number:
            raise InputError(f"no launch {number}: a circuit is one pipeline", str(self.folder))
        source, result = self.source, self.result
        end = self.places[0] + self.frames * source.size
        if max(end, self.places[1] + self.frames * result.size) > len(memory):
            raise InputError("a port is outside of the host's memory", str(self.folder))
        if self._simulator is None:
            self._simulator = Simulator(self.folder, source, result, self.port_bytes)
        frames = memory[self.places[0] : end].view(np.int8)
        shape = (self.frames, source.rows, source.columns, source.channels)
        run = self._simulator.run(frames.reshape(shape), seed=self.seed, stall=self.stall)
        flat = run.frames.reshape(-1).view(np.uint8)
        memory[self.places[1] : self.places[1] + len(flat)] = flat


def _feature(port: list[int]) -> Feature:
    _, rows, columns, channels = port
    if min(rows, columns, channels) < 1:
        raise InputError("a port has at least one row, column and channel")
    return Feature(rows, channels, columns)


def open_circuit(folder: Path, manifest: Manifest, seed: int, stall: int) -> CompiledC:
    """The host's C with the circuit behind its launch."""
    runner = CircuitRunner(folder, manifest, seed, stall)
    return CompiledC(folder, manifest.inputs, manifest.outputs, runner.launch)
