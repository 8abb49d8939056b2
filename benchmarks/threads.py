"""
Measure how evenly two threads share the work of a network in C, also on a busy machine.

    python benchmarks/threads.py [NETWORK ...] [--int8 | --float] [--threads 2] [--layers 12]

Threads that wait sleep, so the processor time of a thread is its work. The sum of all threads
divided by the longest is the bound of the speed-up: layers that run on a single thread, and tiles
that do not divide evenly, lower it. `--layers` lists the layers with the most time in which another
thread has no work. Wall times of one thread and of all threads are meaningful on a quiet machine.
The figures of each layer are the smallest of the runs. Results must be equal for all numbers of
threads, bit for bit.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from networks import mobilenet_v2, resnet18, resnet50
from peer_networks import vit_tiny
from rich.console import Console
from rich.table import Table
from yolox import yolox

NETWORKS: dict[str, Callable[[Path], None]] = {
    "resnet18": resnet18,
    "resnet50": resnet50,
    "vit_tiny": vit_tiny,
    "yolox_s": yolox,
    "mobilenet_v2": mobilenet_v2,
}
BIN = Path(sys.executable).parent
DRIVER = Path(__file__).with_name("threads.c")
FLAGS = ("-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-fopenmp")


@dataclass(frozen=True)
class Run:
    """The result of `threads.c`: milliseconds, and a checksum of the outputs."""

    wall: float
    first: list[float]
    """The processor time of the first thread in each layer; the other threads have at most this."""
    all: list[float]
    """The processor time of all threads in each layer."""
    checksum: int

    @property
    def bound(self) -> float:
        """The speed-up if threads never waited for a processor."""
        return sum(self.all) / sum(self.first)


def compiled(network: str, folder: Path, *, is_int8: bool) -> Path:
    """Compile a network with threads, and return the program that measures it."""
    model, output = folder / f"{network}.onnx", folder / f"{network}-{is_int8}"
    NETWORKS[network](model)
    options = ["--quantize", "int8" if is_int8 else "none"]
    command = [BIN / "ceras-compile", model, "-o", output, "--target", "c", "--weights", "incbin"]
    subprocess.run([*command, *options], check=True, capture_output=True)
    return build(output)


def build(folder: Path) -> Path:
    """Compile the C in `folder` with a trace of layers."""
    program = folder / "threads"
    sources = ["model.c", "model_weights.c", DRIVER.resolve()]
    header = (folder / "model.h").read_text(encoding="ascii")
    # The input is first.
    (size, *_) = re.findall(r"\bMODEL_(?!ARENA)\w+_SIZE\b", header)
    flags = [*FLAGS, "-DMODEL_TRACE", f"-DINPUT_SIZE={size}", "-I."]
    command = ["gcc", *flags, *sources, "-o", program.resolve(), "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return program


def measured(program: Path, threads: int, runs: int) -> Run:
    # With sleeping threads, processor time is work.
    environment = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(
        [program, str(runs)], env=environment, check=True, capture_output=True, text=True
    )
    found = json.loads(done.stdout)
    return Run(found["wall"], found["first"], found["all"], found["checksum"])


def names_of(folder: Path) -> list[str]:
    """Return the C functions of layers by their index in traces."""
    text = (folder / "model.c").read_text(encoding="ascii").partition("\nint model_run_in(")[2]
    names: list[str] = []
    last = "-"
    for line in text.splitlines():
        if line.startswith("  layer_"):
            last = line.strip().partition("(")[0]
        elif line.startswith("  TRACE("):
            number = int(line.partition("(")[2].partition(",")[0])
            names += ["-"] * (number + 1 - len(names))
            names[number], last = last, "-"
    return names


def lost(run: Run, threads: int, names: list[str]) -> list[tuple[float, str]]:
    """List the milliseconds that each C function is longer than an even share of its work."""
    found: dict[str, float] = {}
    for name, first, total in zip(names, run.first, run.all, strict=False):
        found[name] = found.get(name, 0.0) + first - total / threads
    return sorted(((ms, name) for name, ms in found.items()), reverse=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=list(NETWORKS)[:4])
    parser.add_argument("--int8", dest="types", action="store_const", const=[True])
    parser.add_argument("--float", dest="types", action="store_const", const=[False])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--layers", type=int, default=0, metavar="N")
    parser.add_argument("--built", type=Path, metavar="DIR", help="a folder of ceras-compile")
    arguments = parser.parse_args()
    threads, is_equal = arguments.threads, True
    table = Table(title=f"{threads} threads, milliseconds")
    for header in ("network", "work", "longest thread", "bound", "wall: 1", f"{threads}", "ratio"):
        table.add_column(header, justify="left" if header == "network" else "right")
    with tempfile.TemporaryDirectory() as name:
        if arguments.built is not None:
            cases = [(arguments.built.name, lambda: build(arguments.built))]
        else:
            cases = [
                (
                    f"{network}, {'int8' if is_int8 else 'float'}",
                    lambda network=network, is_int8=is_int8: compiled(
                        network, Path(name), is_int8=is_int8
                    ),
                )
                for network in arguments.networks
                for is_int8 in arguments.types or [False, True]
            ]
        for title, make in cases:
            program = make()
            alone, run = (measured(program, count, arguments.runs) for count in (1, threads))
            is_equal &= alone.checksum == run.checksum
            figures = (sum(run.all), sum(run.first), run.bound, alone.wall, run.wall)
            row = [f"{figure:.2f}" for figure in (*figures, alone.wall / run.wall)]
            table.add_row(title, *row)
            named = names_of(program.parent)
            for milliseconds, function in lost(run, threads, named)[: arguments.layers]:
                print(f"{title}: {function} is {milliseconds:.2f} ms longer than an even share")
    Console().print(table)
    if not is_equal:
        print("results differ between numbers of threads")
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
