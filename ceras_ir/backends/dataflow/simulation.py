"""
Run a hardware project in Verilator: build the simulator once, then frames through its ports.

A frame is what the ports carry: rows, of each row its channels, of each channel its columns,
filled up to whole beats.
"""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.dataflow.blocks import Feature
from ceras_ir.backends.dataflow.verilog import TOP
from ceras_ir.backends.dataflow.window import ceiling
from ceras_ir.support import native
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import Part
from ceras_ir.support.verilator import include_folder, verilate

Frames = NDArray[np.int8]
"""[frames, rows, columns, channels], as the network has them."""

FLAGS = ("-std=c++17", "-O1", "-pthread")
"""More optimization takes longer than it saves here."""

PURPOSE = "the simulation of the circuits"


@dataclass(frozen=True)
class Run:
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

    def run(self, frames: Frames, *, seed: int = 0, stall: int = 0) -> Run:
        """Send `frames` one after the other; ports wait in `stall` of 100 cycles."""
        work = Path(self._work.name)
        (work / "in.bin").write_bytes(to_port(frames, self.port_bytes))
        counts = [beats(f, self.port_bytes) for f in (self.source, self.result)]
        numbers = [*counts, len(frames), seed, stall]
        # Memories are read from the folder of the project.
        command = [str(self.program), str(work / "in.bin"), str(work / "out.bin")]
        done = _execute([*command, *map(str, numbers)], self.folder)
        output = from_port((work / "out.bin").read_bytes(), self.result, self.port_bytes)
        return Run(output, [int(line) for line in done.splitlines()])


def build(folder: Path, work: Path, port_bytes: int) -> Path:
    """Compile the project in `folder`; the program's path."""
    objects = work / "obj"
    objects.mkdir()
    parts = verilate(TOP, sorted(folder.resolve().glob("*.sv")), objects, FLAGS)
    with as_file(files("ceras_ir.backends.dataflow") / "hdl" / "simulate.cpp") as harness:
        flags = [*FLAGS, f"-I{include_folder()}", f"-DPORT_BYTES={port_bytes}"]
        own = Part([harness], (), flags, kept=False)
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
