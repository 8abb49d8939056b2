"""
Measure time and memory of the compiler: start-up, ResNet-18 for all targets, and growth.

    python benchmarks/compile_time.py [-o results.json] [--runs 3] [--only NAME]

The figures are those of the operating system for entire processes: CPU seconds (user and system,
children included) and the peak resident memory of the largest process. The median run is printed.
Modules have bytecode, as after an installation.
Networks have the real topology and seeded weights. Int8 figures of ResNet-18 are measured without
calibration data, so they exclude inference; those of MobileNetV2 use 64 samples.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

BIN = Path(sys.executable).parent
SMALL = "examples/block.mlir"


@dataclass(frozen=True)
class Figure:
    """The median run of a command."""

    name: str
    wall: float
    cpu: float
    mebibytes: float
    aim: str


def keep_bytecode(folder: Path) -> None:
    """
    Let commands write bytecode of modules to `folder` at their first run, and read it later, even
    if the environment forbids bytecode. pip compiles modules when it installs a package, but not
    those of an editable installation.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def measure(command: Sequence[str | Path], runs: int) -> tuple[float, float, float]:
    """Return the median wall seconds, CPU seconds and peak MiB of `command`, which must succeed."""
    taken: list[tuple[float, float, float]] = []
    for _ in range(runs):
        start = time.perf_counter()
        # Only wait4 returns the usage of this process and the processes that it waited for.
        null = os.open(os.devnull, os.O_WRONLY)
        actions = [(os.POSIX_SPAWN_DUP2, null, 1)]
        words = [str(word) for word in command]
        child = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
        os.close(null)
        _, status, usage = os.wait4(child, 0)
        if status:
            raise SystemExit(f"{' '.join(map(str, command))} failed")
        wall = time.perf_counter() - start
        taken.append((wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    return tuple(statistics.median(column) for column in zip(*taken, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="output", type=Path, help="write the figures as JSON")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", help="only figures whose name contains this")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keep_bytecode(folder / "bytecode")
        # Run in a separate process: the peak memory of a child includes that of its parent.
        builder = Path(__file__).with_name("networks.py")
        subprocess.run([sys.executable, builder, folder], check=True)
        model, inputs = folder / "resnet18.onnx", folder / "resnet18.npz"
        compile_ = [BIN / "ceras-compile", model, "-o"]
        commands: list[tuple[str, str, list[str | Path]]] = [
            ("ceras-opt --fuse, small file", "0.25 s wall", [BIN / "ceras-opt", "--fuse", SMALL]),
            ("ResNet-18 to float C", "6 s, 400 MiB (aim 2 s, 200)",
             [*compile_, folder / "c", "--target", "c"]),
            ("ResNet-18 to int8 C", "10 s without calibration",
             [*compile_, folder / "c8", "--target", "c", "--quantize", "int8"]),
            ("ResNet-18 to nnet", "10 s without calibration",
             [*compile_, folder / "nnet", "--target", "nnet"]),
            ("ResNet-18 to VTA", "60 s", [*compile_, folder / "vta", "--target", "vta"]),
            ("MobileNetV2 to int8 C, 64 samples", "20 s, 300 MiB",
             [*compile_[:1], folder / "mobilenet_v2.onnx", "-o", folder / "m8", "--target", "c",
              "--calibrate", folder / "mobilenet_v2.npz"]),
            ("ResNet-18 on the VTA simulator", "120 s",
             [BIN / "ceras-run", folder / "vta", "--inputs", inputs, "--outputs",
              folder / "o.npz"]),
            *((f"chain of {depth} layers to C", "grows linearly",
               [BIN / "ceras-compile", folder / f"chain{depth}.onnx", "-o", folder / f"n{depth}",
                "--target", "c"]) for depth in (50, 100, 200)),
            ("ceras-opt --fuse, 10,000 functions", "6 s",
             [BIN / "ceras-opt", "--fuse", folder / "functions.onnx", "-o", folder / "f.mlir"]),
        ]  # fmt: skip
        for command in commands[0][2], commands[2][2]:
            measure(command, 1)  # Writes bytecode.
        for title, aim, command in commands:
            if arguments.only is None or arguments.only in title:
                runs = arguments.runs if "VTA" not in title else 1
                wall, cpu, mebibytes = measure(command, runs)
                figures.append(Figure(title, wall, cpu, mebibytes, aim))
    table = Table(title="whole processes, median")
    for header in ("what", "wall s", "CPU s", "peak MiB", "asked"):
        table.add_column(header, justify="left" if header in ("what", "asked") else "right")
    for f in figures:
        table.add_row(f.name, f"{f.wall:.2f}", f"{f.cpu:.2f}", f"{f.mebibytes:.0f}", f.aim)
    Console().print(table)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps([asdict(f) for f in figures], indent=2) + "\n")


if __name__ == "__main__":
    main()
