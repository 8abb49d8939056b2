"""
Run a hardware project in Verilator: build the simulator once, then frames through its ports.

A frame is what the ports carry: rows, of each row its channels, of each channel its columns,
filled up to whole beats.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.dataflow.blocks import Feature
from ceras_ir.backends.dataflow.verilog import TOP
from ceras_ir.backends.dataflow.window import ceiling
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import cache_folder, digest

Frames = NDArray[np.int8]
"""[frames, rows, columns, channels], as the network has them."""

COMMAND = "verilator"
OPTIMIZATION = "-O1"
"""Of the C++ that Verilator makes; more takes longer than it saves here."""


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
        done = _execute([*command, *map(str, numbers)], self.folder, "the simulation")
        output = from_port((work / "out.bin").read_bytes(), self.result, self.port_bytes)
        return Run(output, [int(line) for line in done.splitlines()])


@cache
def _runtime() -> Path:
    """
    Where Verilator's own objects are kept, which are the same for all circuits: half of the time of
    a build.
    """
    done = subprocess.run([COMMAND, "--version"], capture_output=True, check=False)
    parts = [done.stdout, OPTIMIZATION.encode(), os.environ.get("CXX", "").encode()]
    return cache_folder() / f"verilated-{digest(parts)[:24]}"


def _copy_runtime(source: Path, target: Path) -> None:
    for path in source.glob("verilated*.o"):
        shutil.copy2(path, target)


def _keep_runtime(objects: Path) -> None:
    """Keep what a build has made; renamed when complete, because others may build as well."""
    kept = _runtime()
    if kept.exists():
        return
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        made = Path(folder) / "made"
        made.mkdir()
        _copy_runtime(objects, made)
        with suppress(OSError):
            made.rename(kept)


def build(folder: Path, work: Path, port_bytes: int) -> Path:
    """Compile the project in `folder`; the program's path."""
    if shutil.which(COMMAND) is None:
        raise InputError(
            f"cannot run '{COMMAND}', which simulates the circuit: install it (apt-get install "
            "verilator)"
        )
    sources = sorted(str(path.resolve()) for path in folder.glob("*.sv"))
    harness = work / "simulate.cpp"
    harness.write_bytes((files("ceras_ir.backends.dataflow") / "hdl" / "simulate.cpp").read_bytes())
    objects = work / "obj"
    objects.mkdir()
    _copy_runtime(_runtime(), objects)
    command = [COMMAND, "--cc", "--exe", "--build", "-j", "1", "--top-module", TOP]
    command += ["-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"]
    command += ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--Mdir", str(objects)]
    command += ["-CFLAGS", f"-DPORT_BYTES={port_bytes} {OPTIMIZATION}", "-o", "simulate"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    _execute([*command, str(harness), *sources], work, COMMAND, environment)
    _keep_runtime(objects)
    return objects / "simulate"


def _execute(
    command: Sequence[str], folder: Path, what: str, environment: dict[str, str] | None = None
) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        shown = "\n".join(said[:12])
        raise InputError(f"{what} failed with exit status {done.returncode}:\n{shown}", str(folder))
    return done.stdout
