"""
Compare generated C on this machine with ONNX Runtime: process CPU time on a single thread, medians.

    python benchmarks/c_host.py [-o results.json] [--rounds 3] [--only NAME]
                                [--model M.onnx --calibrate DATA.npz --runs N --default]

A line appears when a network is finished; all three need about three minutes. Time depends on
shapes and on the values with 16 bits. Networks are quantized by the fastest recipe, which has only
8 bits. A trained network can be quantized by the default recipe (`--default`).

Each round runs both programs, one after the other, in separate processes, and the medians of the
rounds are compared. The share of the peak compares the products of a network in the median time
with a loop of `vpdpbusd`, or `vpmaddwd` without VNNI (float: of fused products). The share of the
3x3 layers compares the sum of their products with the sum of their times. `--model`
adds a network to the table.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path

import numpy as np
from c_host_peers import feeds, only_input, quantize, refuse
from networks import mobilenet_v2, resnet8, resnet18
from rich.console import Console
from rich.table import Table

from ceras_ir.data.array_archive import load_arrays
from ceras_ir.support.diagnostics import InputError

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Network:
    """A network of the benchmark: the builder, the number of runs, and the required ratios."""

    name: str
    build: Callable[[Path], object]
    size: int
    runs: int
    int8: str
    float32: str = ""
    data: Path | None = None
    """Samples of the only input; random samples without it."""
    by_default: bool = False
    """Whether the network is quantized by the default recipe."""


NETWORKS = (
    Network("ResNet-18", resnet18, 224, 20, "1.10", "0.9"),
    Network("ResNet-8", resnet8, 32, 2000, "2.0"),
    Network("MobileNetV2", mobilenet_v2, 224, 50, "1.7"),
)


@dataclass(frozen=True)
class Figure:
    """A network in a number format, with the medians of the rounds in milliseconds."""

    network: str
    kind: str
    ours: float
    portable: float
    peer: float
    share: float
    portable_share: float
    asked: str
    layers: float | None
    """The share of the peak of the 3x3 layers that are not depthwise."""
    portable_layers: float | None

    @property
    def ratio(self) -> float:
        return self.peer / self.ours


def run(command: Sequence[str | Path]) -> str:
    """Return the output of a command that must succeed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def peaks(folder: Path) -> dict[str, float]:
    """Return the 10^9 products per second of a core, by kind."""
    program = folder / "peak"
    run(["cc", "-O2", "-march=native", HERE / "c_host_peak.c", "-o", program])
    return json.loads(run([program]))


LAYER = re.compile(
    r"Layer (\d+): graph.conv2d .* \d+x\d+x\d+x(\d+) -> ([\dx]+), 3x3 window, (\d+) products"
)
"""Matches the title of a layer: number, input channels, shape of the result, and products."""

FEW_CHANNELS = 8
"""Layers with fewer input channels are stems with short rows of windows."""


def layer_share(folder: Path, peak: float, *flags: str) -> float | None:
    """Return the share of the peak of all 3x3 layers of a compiled network together."""
    program = folder / "layers"
    bench = folder / "bench.o"
    run(["cc", "-O3", "-march=native", "-std=c99", "-Dmain=bench_main", "-c", folder / "bench.c",
         "-o", bench])  # fmt: skip
    run(["cc", "-O3", "-march=native", "-std=c99", "-ffp-contract=off", "-DMODEL_TRACE", *flags,
         bench, HERE / "c_host_layers.c", folder / "model.c", folder / "model_weights.c", "-o",
         program])  # fmt: skip
    times = json.loads(run([program, "20"]).splitlines()[-1])
    products = taken = 0.0
    for number, channels, result, count in LAYER.findall((folder / "model.c").read_text()):
        is_depthwise = int(count) < 9 * int(channels) * prod(map(int, result.split("x")))
        if int(channels) >= FEW_CHANNELS and not is_depthwise:
            products += int(count)
            taken += times[number]
    return products / taken / 1e3 / peak if taken else None


def compiled(
    model: Path, folder: Path, calibration: Path | None, *, by_default: bool
) -> tuple[Path, Path]:
    """Compile programs that time the C code: for this processor, and with portable loops only."""
    options = ["--quantize", "none"]
    if calibration is not None:
        options = ["--quantize", "int8", "--calibrate", str(calibration)]
        options += [] if by_default else ["--recipe", "none"]
    run([BIN / "ceras-compile", model, "-o", folder, "--target", "c", *options])
    portable = folder.with_name(folder.name + "-portable")
    shutil.copytree(folder, portable)
    run(["make", "-C", folder, "model_bench"])
    run(["make", "-C", portable, "CFLAGS=-O3 -march=native -DMODEL_LANES=0", "model_bench"])
    return folder / "model_bench", portable / "model_bench"


def measure(network: Network, folder: Path, rounds: int, peak: dict[str, float]) -> list[Figure]:
    """Measure a network in both number formats."""
    model, calibration = folder / "model.onnx", folder / "model.npz"
    network.build(model)
    if network.data is None:
        rng = np.random.default_rng(7)
        shape = (4, 3, network.size, network.size)
        np.savez(calibration, input=rng.uniform(-1, 1, shape).astype(np.float32))
    else:
        shutil.copy(network.data, calibration)
    qdq = folder / "qdq.onnx"
    ((name, samples),) = np.load(calibration).items()
    quantize(model, qdq, feeds(model, name, samples))
    figures: list[Figure] = []
    for kind, peer, data, asked in (
        ("float32", model, None, network.float32),
        ("int8", qdq, calibration, network.int8),
    ):
        programs = compiled(model, folder / kind, data, by_default=network.by_default)
        times: tuple[list[float], list[float], list[float]] = ([], [], [])
        macs = 0
        for _ in range(rounds):
            command = [sys.executable, HERE / "c_host_peers.py", peer, str(network.runs)]
            times[2].append(float(run(command)))
            for program, taken in zip(programs, times[:2], strict=True):
                result = json.loads(run([program, str(network.runs)]))
                taken.append(result["median_ms"])
                macs = result["macs"]
        ours, portable, theirs = (statistics.median(t) for t in times)
        share, portable_share = (macs / t / 1e6 / peak[kind] for t in (ours, portable))
        place = folder / kind
        layers = layer_share(place, peak[kind]), layer_share(place, peak[kind], "-DMODEL_LANES=0")
        figure = Figure(
            network.name, kind, ours, portable, theirs, share, portable_share, asked, *layers
        )
        print(
            f"{network.name} {kind}: ours {ours:.3f} ms, ONNX Runtime / ours {figure.ratio:.2f} "
            f"({' '.join(f'{t / o:.2f}' for o, t in zip(times[0], times[2], strict=True))})",
            flush=True,
        )
        figures.append(figure)
    return figures


def check_samples(model: Path, data: Path | None) -> None:
    """Refuse a model and samples of the user that this benchmark does not support."""
    if data is None:
        refuse("--model needs --calibrate DATA.npz")
    for path in (model, data):
        if not path.is_file():
            refuse(f"{path}: no such file")
    name, shape = only_input(model)
    try:
        arrays = load_arrays(str(data))
    except InputError as error:
        refuse(f"{data}: {error}")
    if list(arrays) != [name]:
        refuse(f"{data} has {', '.join(arrays) or 'no arrays'}; the one input is '{name}'")
    array = arrays[name]
    if array.ndim == 0 or array[:1].size != prod(shape):
        refuse(f"{data} has shape {list(array.shape)}, samples have {list(shape)}")


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", dest="output", type=Path, help="write the figures as JSON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="only networks whose name contains this")
    parser.add_argument("--model", type=Path, help="a float model of one input, measured as well")
    parser.add_argument("--calibrate", type=Path, help="samples for --model")
    parser.add_argument("--default", action="store_true", help="quantize it as by default")
    parser.add_argument("--runs", type=int, default=10, help="runs per round of --model")
    arguments = parser.parse_args()
    networks = [n for n in NETWORKS if arguments.only is None or arguments.only in n.name]
    if arguments.model is not None:
        model: Path = arguments.model
        check_samples(model, arguments.calibrate)
        networks.append(
            Network(model.stem, lambda path: shutil.copy(model, path), 0, arguments.runs, "",
                    data=arguments.calibrate, by_default=arguments.default)
        )  # fmt: skip
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        peak = peaks(Path(name))
        for i, network in enumerate(networks):
            (folder := Path(name) / str(i)).mkdir()
            figures += measure(network, folder, arguments.rounds, peak)
    title = (
        f"one thread, ms of CPU time; peak: {peak['int8']:.0f} int8 and "
        f"{peak['float32']:.0f} float32 GMAC/s"
    )
    table = Table(title=title)
    for header in ("network", "kind", "ORT", "ours", "ratio", "asked", "of peak", "3x3",
                   "C99", "of peak", "3x3"):  # fmt: skip
        table.add_column(header, justify="left" if header in ("network", "kind") else "right")
    for f in figures:
        table.add_row(
            f.network, f.kind, f"{f.peer:.3f}", f"{f.ours:.3f}", f"{f.ratio:.2f}", f.asked,
            f"{f.share:.0%}", percent(f.layers), f"{f.portable:.3f}",
            f"{f.portable_share:.0%}", percent(f.portable_layers),
        )  # fmt: skip
    Console(width=110).print(table)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps([asdict(f) for f in figures], indent=2) + "\n")


if __name__ == "__main__":
    main()
