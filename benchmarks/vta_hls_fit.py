"""
Fit models of the HLS source of VTA to the times of S3 on a ZCU102 at 333 MHz.

There are thirty times: Algorithms 2 and 3 on the ten products of Table 2, which include work of the
host, and the ten shapes of Figure 10, Algorithm 3 inside DarkNet. A model has four parameters of
the device (`HlsModel`). The terms of the host are a constant for each of the three programs, and
nanoseconds per byte of C, of A and B in Table 2, and of B in Figure 10. S3 leaves three questions
open, so both answers are tried: whether a product of 16 x 16 x 16 is a list of 16 micro-ops or a
loop around a micro-op, whether loads of Algorithm 3 overlap products, and whether Algorithm 2 loads
inputs a single time for all of N. All programs clear their sums, shift and clamp them, as VTA
stores the low eight bits.

For each choice, the terms of the host are fitted to the minimum mean relative error. Models below
`MOST` agree.

    python benchmarks/vta_hls_fit.py [--leave-out] [--write]
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from vta_layers import S3_GEMMS

from ceras_ir.backends.vta.machine.board import HlsModel
from ceras_ir.backends.vta.machine.time import ALU_INTERVAL_CYCLES

Size = tuple[int, int, int]
Vector = NDArray[np.float64]

MEGAHERTZ, STEP, TILE_BYTES = 333, 16, 256
ALU_PASSES = 3
"""The passes are a shift and two clamps."""
MOST = 0.08
"""The maximum mean relative error of a model that agrees."""
KEPT = 16
"""The number of models in the table for the choice of schedules."""
ALGORITHM_2 = (1.7, 4.9, 28.9, 184.8, 59.9, 34.5, 10.8, 39.5, 18.9, 42.5)
ALGORITHM_3 = (0.6, 2.6, 10.6, 58.4, 19.1, 10.3, 4.7, 14.2, 14.4, 28.1)
FIGURE_10: dict[Size, tuple[float, ...]] = {
    (4096, 576, 64): (9.394, 9.035, 9.002, 9.030),
    (1024, 64, 128): (1.922,),
    (1024, 576, 128): (5.065,),
    (1024, 1152, 128): (8.335, 8.507, 8.518),
    (256, 128, 256): (1.619,),
    (256, 1152, 256): (5.319,),
    (256, 2304, 256): (10.343, 10.441, 10.438),
    (64, 256, 512): (1.541,),
    (64, 2304, 512): (7.225,),
    (64, 4608, 512): (13.623, 13.580, 13.587),
}
"""The milliseconds of the layers of each shape; together 156.5."""
GRID = (
    (2, 3, 4, 6, 8, 10, 12, 15, 20, 25),
    (20, 30, 40, 50, 60, 80),
    (4, 8, 16),
    (0, 5, 10, 15, 20, 30, 40),
)
"""The values of refill, latency, bytes per cycle, and cycles of an instruction."""


@dataclass(frozen=True)
class Point:
    """A measured time."""

    program: str
    size: Size
    milliseconds: float

    @property
    def host(self) -> list[float]:
        """The factors of the terms of the host."""
        m, k, n = self.size
        alone = float(self.program != "figure 10")
        programs = [float(self.program == name) for name in ("alg2", "alg3", "figure 10")]
        megabytes = [m * n * 1e-6, m * k * 1e-6 * alone, k * n * 1e-6 * alone]
        return [*programs, *megabytes, k * n * 1e-6 * (1 - alone)]


POINTS = (
    *(Point("alg2", size, time) for size, time in zip(S3_GEMMS, ALGORITHM_2, strict=True)),
    *(Point("alg3", size, time) for size, time in zip(S3_GEMMS, ALGORITHM_3, strict=True)),
    *(Point("figure 10", size, float(np.mean(times))) for size, times in FIGURE_10.items()),
)
HOST = np.array([point.host for point in POINTS])
MEASURED = np.array([point.milliseconds for point in POINTS])
TERMS = ("ms alg2", "ms alg3", "ms figure 10", "ns/B C", "ns/B A", "ns/B B", "ns/B B figure 10")


@dataclass(frozen=True)
class Variant:
    """A possible form of the programs of S3."""

    lists: bool
    """Whether a product is a single list of micro-ops."""
    overlaps: bool
    """Whether Algorithm 3 loads during products."""
    hoists: bool
    """Whether Algorithm 2 loads inputs a single time for all of N."""
    kblock: int = 16
    """The block size of Algorithm 3, in tiles."""


VARIANTS = [Variant(*choice) for choice in product((True, False), repeat=3)]


def cycles(point: Point, model: HlsModel, variant: Variant) -> float:
    """Return the cycles of the program of S3 for a size."""
    m, k, n = (extent / STEP for extent in point.size)
    each, width = model.instruction, model.bytes_per_cycle
    entries, length = (1, STEP) if variant.lists else (STEP, 1)
    multiply = each + entries * (model.refill + length)
    block = each + model.latency + TILE_BYTES / width
    clear = each + entries * (model.refill + length)
    alu = each + entries * (model.refill + ALU_INTERVAL_CYCLES * length)
    ending = m * n * (clear + ALU_PASSES * alu)
    if point.program == "alg2":
        rows = each + STEP * (model.latency + STEP / width)
        inputs = m * k * (1 if variant.hoists else n) * rows
        return inputs + m * k * n * (2 * block + multiply) + ending
    total = 0.0
    whole, rest = divmod(k, variant.kblock)
    for count, depth in ((whole, variant.kblock), (1, rest)):
        if depth:
            load = each + model.latency + TILE_BYTES * depth / width
            rows = each + STEP * (model.latency + depth * STEP / width)
            parts = (load, depth * multiply)
            total += count * (rows + n * (max(parts) if variant.overlaps else sum(parts)))
    return total * m + m * n * TILE_BYTES / width + ending


def fit(host: NDArray[np.float64], device: Vector, measured: Vector) -> tuple[float, Vector]:
    """
    Return the mean relative error and nonnegative terms of the host, by reweighted least squares.
    """
    weights = np.ones(len(measured))
    best = (np.inf, np.zeros(host.shape[1]))
    for _ in range(6):
        scale = weights / measured
        terms = _non_negative(host * scale[:, None], (measured - device) * scale)
        errors = np.abs((host @ terms + device) / measured - 1)
        if errors.mean() < best[0]:
            best = float(errors.mean()), terms
        weights = 1 / np.sqrt(np.maximum(errors, 0.01))
    return best


def _non_negative(a: NDArray[np.float64], b: Vector) -> Vector:
    """Return nonnegative least squares, by active sets (Lawson and Hanson)."""
    x, free = np.zeros(a.shape[1]), np.zeros(a.shape[1], np.bool_)
    for _ in range(4 * a.shape[1]):
        gradient = np.where(free, -1.0, a.T @ (b - a @ x))
        if gradient.max() < 1e-9:
            break
        free[gradient.argmax()] = True
        while free.any():
            step = np.zeros_like(x)
            step[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
            negative = free & (step <= 0)
            if not negative.any():
                x = step
                break
            x += (x[negative] / (x[negative] - step[negative])).min() * (step - x)
            free &= x > 1e-12
    return x


@dataclass(frozen=True, eq=False)
class Fit:
    """A model with the times of the programs of S3, and the terms of the host that fit best."""

    model: HlsModel
    variant: Variant
    device: Vector
    error: float
    terms: Vector

    @property
    def times(self) -> Vector:
        return HOST @ self.terms + self.device


def all_fits() -> list[Fit]:
    """
    Return the fits of the grid, the best first. Omit models with a device time above the measured
    time, which includes the host.
    """
    found: list[Fit] = []
    for numbers in product(*GRID):
        model = HlsModel(*numbers)
        for variant in VARIANTS:
            device = np.array([cycles(point, model, variant) for point in POINTS])
            device /= 1000 * MEGAHERTZ
            if (device < 1.25 * MEASURED).all():
                error, terms = fit(HOST, device, MEASURED)
                found.append(Fit(model, variant, device, error, terms))
    return sorted(found, key=lambda f: (f.error, f.model))


def left_out(fits: Sequence[Fit]) -> float:
    """
    Return the mean error of sizes that are left out of the fit of the model and of the host terms.
    """
    errors: list[float] = []
    for size in dict.fromkeys(point.size for point in POINTS):
        out = np.array([point.size == size for point in POINTS])
        kept = ~out
        best = min(
            ((fit(HOST[kept], f.device[kept], MEASURED[kept]), f) for f in fits),
            key=lambda pair: pair[0][0],
        )
        (_, terms), chosen = best
        times = HOST[out] @ terms + chosen.device[out]
        errors += np.abs(times / MEASURED[out] - 1).tolist()
    return float(np.mean(errors))


def spread(models: Sequence[HlsModel], count: int) -> list[HlsModel]:
    """Return the first model, then those with the maximum distance from all chosen models."""
    places = np.log1p(np.array([list(vars(model).values()) for model in models], np.float64))
    places /= np.maximum(places.max(axis=0) - places.min(axis=0), 1e-9)
    chosen = [0]
    while len(chosen) < min(count, len(models)):
        distances = np.abs(places[:, None] - places[chosen]).sum(axis=2).min(axis=1)
        chosen.append(int(distances.argmax()))
    return [models[i] for i in chosen]


def write(models: Sequence[HlsModel]) -> None:
    """Write the table in the package."""
    path = Path(__file__).parents[1] / "ceras_ir/backends/vta/machine/hls_models.py"
    text = path.read_text(encoding="utf-8")
    head = text[: text.index("MODELS")]
    rows = "".join(
        f"    HlsModel({', '.join(map(str, vars(model).values()))}),\n" for model in models
    )
    path.write_text(f"{head}MODELS: tuple[HlsModel, ...] = (\n{rows})\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="models of VTA's HLS source for S3's times")
    parser.add_argument("--leave-out", action="store_true", help="fit again without each size")
    parser.add_argument("--write", action="store_true", help="write the table of the package")
    arguments = parser.parse_args()
    every = all_fits()
    best, good = every[0], [f for f in every if f.error <= MOST]
    models = list(dict.fromkeys(f.model for f in good))
    print(f"| program | M K N | S3 ms | model ms | |\n|{'---|' * 5}")
    for point, time in zip(POINTS, best.times, strict=True):
        size = " ".join(map(str, point.size))
        error = time / point.milliseconds - 1
        print(
            f"| {point.program} | {size} | {point.milliseconds:.2f} | {time:.2f} | {error:+.0%} |"
        )
    terms = ", ".join(f"{v:.2f} {name}" for name, v in zip(TERMS, best.terms, strict=True))
    print(f"\n{best.model}, {best.variant}: mean error {best.error:.1%}; host {terms}")
    figure = np.array([point.program == "figure 10" for point in POINTS])
    alone = min(
        fit(HOST[figure][:, [2, 3, 6]], f.device[figure], MEASURED[figure])[0] for f in every
    )
    print(f"figure 10 alone: {alone:.1%}")
    for name in vars(best.model):
        values = [getattr(model, name) for model in models]
        print(f"{name}: {min(values)} to {max(values)}")
    print(f"{len(models)} models agree, with a mean error of at most {MOST:.0%}")
    if arguments.leave_out:
        print(f"leaving one size out: {left_out([f for f in every if f.error < 1.25 * MOST]):.1%}")
    if arguments.write:
        write(spread(models, KEPT))


if __name__ == "__main__":
    main()
