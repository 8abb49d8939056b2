"""
Measure what a second thread gains in the layers of a network in C.

    python benchmarks/threads.py [NETWORK ...] [--int8 | --float] [--threads 2] [--layers 12]

The time of a layer is the processor time of the first thread, which waits for the others without
sleep, so it is the elapsed time without other programs: the time of the longest thread. Work that
threads repeat, and data from the cache of another core, are part of it. `--layers` lists the layers
that are the furthest from an even share of their time on one thread. Times of layers are the
smallest of all runs, as are elapsed times (`wall`), which are meaningful on a quiet machine only.
Results must be equal for all numbers of threads, bit for bit.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
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
    layers: list[float]
    checksum: int


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
    environment = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "active"}
    done = subprocess.run(
        [program, str(runs)], env=environment, check=True, capture_output=True, text=True
    )
    return Run(**json.loads(done.stdout))


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


@dataclass(frozen=True, order=True)
class Loss:
    """The layers with a C function: milliseconds above an even share, alone, and shared."""

    lost: float
    alone: float
    shared: float
    name: str


def losses(alone: Run, run: Run, threads: int, names: list[str]) -> list[Loss]:
    times: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, one, several in zip(names, alone.layers, run.layers, strict=False):
        times[name].append((one, several))
    found: list[Loss] = []
    for name, rows in times.items():
        one, several = (sum(column) for column in zip(*rows, strict=True))
        found.append(Loss(several - one / threads, one, several, name))
    return sorted(found, reverse=True)


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
    headers = "network", "layers: 1", f"{threads}", "ratio", "wall: 1", f"{threads}", "ratio"
    for header in headers:
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
            one, several = sum(alone.layers), sum(run.layers)
            figures = one, several, one / several, alone.wall, run.wall, alone.wall / run.wall
            table.add_row(title, *(f"{figure:.2f}" for figure in figures))
            found = losses(alone, run, threads, names_of(program.parent))
            for loss in found[: arguments.layers]:
                print(
                    f"{title}: {loss.name} {loss.alone:.3f} ms, {threads} threads "
                    f"{loss.shared:.3f} ms, {loss.lost:.3f} ms above an even share"
                )
    Console().print(table)
    if not is_equal:
        print("results differ between numbers of threads")
    return 0 if is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
