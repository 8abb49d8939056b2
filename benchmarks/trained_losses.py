"""
Measure the loss from int8 on the networks of `trained_networks.py`, for several draws of 64
calibration samples.

    python benchmarks/trained_losses.py FOLDER [--only NAME,...] [--draws 3] [--tests N]
        [--variants 'target=c' 'target=vta budget=1' ...] [--peers 'MinMax per-channel' ...]

A line per network and variant has the metric minus that of the float network as a mean over draws,
the standard error over test inputs, the standard deviation over draws, and the mean signal-to-noise
ratio (except of classes as integers) and agreement. `target=c int16=*` is a variant as in
`quantization.py`. PSNR is in dB.
"""

import argparse
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx_runtime import runtime_module
from quantization import Samples, of_runtime, of_target, peer, quantized

from ceras_ir.network.function import main_function, output_names
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.analysis.output_noise import Outputs, ratio_of

CALIBRATED = 64
VARIANTS = ("target=c", "target=nnet", "target=vta")
PEERS = (
    "MinMax per-channel",
    "MinMax per-channel float-tail",
    "MinMax per-channel convolutions",
    "Percentile per-channel",
    "Entropy per-channel",
)

Numbers = NDArray[np.float64]
UNKNOWN = 5
"""The class of pixels that do not count."""


@dataclass(frozen=True)
class Judged:
    """A metric of all test inputs, and the influence of each input on it, for standard errors."""

    value: float
    influences: Numbers


def mean_judged(each: Numbers) -> Judged:
    return Judged(float(each.mean()), each - each.mean())


def shares_judged(inside: Numbers, union: Numbers) -> Judged:
    """Judge intersections and unions [N, classes] of all test inputs."""
    ratio = inside.sum(axis=0) / union.sum(axis=0)
    influences = (inside - ratio * union) / union.mean(axis=0)
    return Judged(float(ratio.mean()), influences.mean(axis=1))


def intersections(found: NDArray[np.generic], wanted: NDArray[np.generic]) -> Judged:
    """Judge classes of pixels [N, ...]."""
    n, known = len(found), wanted.reshape(len(found), -1) != UNKNOWN
    mine, theirs = found.reshape(n, -1), wanted.reshape(n, -1)
    classes = [c for c in np.unique(theirs[known]) if c or theirs.max() > 1]
    both = [((mine == c) & (theirs == c) & known).sum(axis=1) for c in classes]
    either = [(((mine == c) | (theirs == c)) & known).sum(axis=1) for c in classes]
    return shares_judged(np.stack(both, 1).astype(float), np.stack(either, 1).astype(float))


def decibels_of_images(found: NDArray[np.generic], wanted: NDArray[np.generic]) -> Judged:
    """Judge images from 0 to 1 [N, ...] by the mean of their PSNR."""
    errors = np.clip(found.astype(float), 0, 1) - wanted
    squares = np.square(errors).reshape(len(found), -1).mean(axis=1)
    return mean_judged(-10 * np.log10(squares))


def _are_integers(outputs: Sequence[Outputs]) -> bool:
    return next(iter(outputs[0].values())).dtype.kind == "i"


def _classes(found: NDArray[np.generic]) -> NDArray[np.generic]:
    return found.reshape(len(found)) if found.ndim < 3 and found[0].size == 1 else found.argmax(-1)


METRICS: dict[str, Callable[[NDArray[np.generic], NDArray[np.generic]], Judged]] = {
    "IoU": lambda found, wanted: intersections(found.astype(float) > 0.5, wanted),
    "mean IoU": intersections,
    "PSNR": decibels_of_images,
    "top-1": lambda found, wanted: mean_judged((_classes(found) == wanted).astype(float)),
}


class Network:
    """A trained network with its data."""

    def __init__(self, folder: Path, name: str, tests: int | None) -> None:
        self.name, path = name, folder / f"{name}.onnx"
        self.floats = read_network(str(path))
        self.samples: Samples = [
            {"input": x[None]} for x in np.load(folder / f"{name}-test.npz")["input"][:tests]
        ]
        targets = np.load(folder / f"{name}-targets.npz")
        self.targets, self.metric = targets["targets"][:tests], str(targets["metric"])
        self.calibration = np.load(folder / f"{name}-calibration.npz")["input"]
        self.names = output_names(main_function(self.floats))
        self.expected = of_runtime(path.read_bytes(), self.samples, self.names)
        FusePass().apply(load_context(), self.floats)

    def judged(self, outputs: Sequence[Outputs]) -> Judged:
        found = np.concatenate([next(iter(each.values())) for each in outputs])
        return METRICS[self.metric](found, self.targets)

    def found(self, variant: str, data: Path, *, is_peer: bool) -> Sequence[Outputs]:
        """Return the outputs of the network, quantized with the samples of `data`."""
        if is_peer:
            return of_runtime(peer(self.floats, str(data), variant), self.samples, self.names)
        module, _ = quantized(self.floats, f"calibration={data} {variant}")
        return of_target(module, self.samples)

    def line(self, variant: str, draws: int, *, is_peer: bool) -> list[str]:
        """Return the cells of a variant."""
        real = self.judged(self.expected)
        judged, ratios, agreeing = list[Judged](), list[float](), list[float]()
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(draws):
                chosen = np.random.default_rng(seed).permutation(len(self.calibration))[:CALIBRATED]
                data = Path(folder) / "draw.npz"
                np.savez(data, allow_pickle=False, input=self.calibration[np.sort(chosen)])
                outputs = self.found(variant, data, is_peer=is_peer)
                judged.append(self.judged(outputs))
                ratios.append(ratio_of(self.expected, outputs))
                agreeing.append(self.agreement(outputs))
        changes = np.array([each.value - real.value for each in judged])
        influence = np.mean([each.influences for each in judged], axis=0) - real.influences
        error = influence.std(ddof=1) / np.sqrt(len(influence))
        spread = changes.std(ddof=1) if draws > 1 else 0.0
        digits = 3 if self.metric == "PSNR" else 4
        return [
            self.name,
            f"{self.metric} {real.value:.{digits}f}",
            f"ONNX Runtime {variant}" if is_peer else variant,
            f"{changes.mean():+.{digits}f}",
            f"{error:.{digits}f}",
            f"{spread:.{digits}f}",
            "" if _are_integers(self.expected) else f"{np.mean(ratios):.1f}",
            f"{np.mean(agreeing):.4f}",
        ]

    def agreement(self, outputs: Sequence[Outputs]) -> float:
        """Return the share of equal classes, of inputs or pixels; 1 for images."""
        if self.metric == "PSNR":
            return 1.0
        shares = list[float]()
        for mine, theirs in zip(outputs, self.expected, strict=True):
            a, b = next(iter(mine.values())), next(iter(theirs.values()))
            if self.metric == "IoU":
                a, b = a.astype(float) > 0.5, b.astype(float) > 0.5
            elif a.dtype.kind == "f":
                a, b = a.argmax(-1), b.argmax(-1)
            shares.append(float((a == b).mean()))
        return float(np.mean(shares))


def lines(arguments: argparse.Namespace) -> Iterator[list[str]]:
    chosen = arguments.only.split(",") if arguments.only else None
    known = sorted(path.stem for path in arguments.folder.glob("*.onnx"))
    for name in chosen or known:
        network = Network(arguments.folder, name, arguments.tests)
        for kinds, is_peer in ((arguments.variants, False), (arguments.peers, True)):
            for kind in kinds:
                yield network.line(kind, arguments.draws, is_peer=is_peer)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="names of networks, separated by commas")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--tests", type=int, help="the number of test inputs (default: all)")
    parser.add_argument("--variants", nargs="*", default=VARIANTS)
    parser.add_argument("--peers", nargs="*", default=PEERS)
    arguments = parser.parse_args()
    runtime_module()
    logging.disable()
    print("| network | float | variant | change | error | spread | dB | agreement |")
    print(f"{'|---' * 8}|")
    for cells in lines(arguments):
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
