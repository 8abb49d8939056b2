"""
Generate hard instances of memory planning, as minimalloc does, and measure the time of the search.

    python benchmarks/hard_plans.py [--count 12] [--seconds 60] [--folder DIR]

A square of time and addresses is cut into rectangles, so that a plan exists at the capacity with
almost no byte to spare. A few rectangles are then left out. `--folder` writes the instances for
`ceras-plan`.
"""

import argparse
import csv
import random
import resource
from pathlib import Path

from ceras_ir.transforms.memory.offsets import Span, max_live_bytes, place_quickly

UNIT = 1024
SIDE = 1024
"""The units of the capacity, and of time."""


def cut(seed: int) -> list[Span]:
    """Return 150 to 300 requests, which are rectangles of a dissection of the square."""
    source = random.Random(seed)
    count, bias = source.randint(150, 300), source.uniform(0.3, 0.7)
    dropped = source.choice((0.0, 0.0, 0.01, 0.03))
    pieces = [(0, SIDE, 0, SIDE)]
    while len(pieces) < count:
        # Prefer large pieces, but not always the largest.
        left, right, low, high = pieces.pop(
            max(
                source.sample(range(len(pieces)), min(3, len(pieces))),
                key=lambda i: _area(pieces[i]),
            )
        )
        if right - left >= 24 and high - low >= 12 and source.random() < 0.35:
            pieces += _pinwheel(source, left, right, low, high)
        elif right - left > 4 and (source.random() < bias or high - low <= 4):
            middle = source.randint(left + 1, right - 1)
            pieces += [(left, middle, low, high), (middle, right, low, high)]
        elif high - low > 4:
            middle = source.randint(low + 1, high - 1)
            pieces += [(left, right, low, middle), (left, right, middle, high)]
        else:
            pieces.append((left, right, low, high))
    source.shuffle(pieces)
    kept = pieces[int(dropped * len(pieces)) :]
    return [Span((d - c) * UNIT, a * UNIT, b * UNIT) for a, b, c, d in kept]


def _area(piece: tuple[int, int, int, int]) -> int:
    return (piece[1] - piece[0]) * (piece[3] - piece[2])


def _pinwheel(
    source: random.Random, left: int, right: int, low: int, high: int
) -> list[tuple[int, int, int, int]]:
    """Return five pieces that no straight cut separates."""
    a, b = sorted(source.sample(range(left + 1, right), 2))
    c, d = sorted(source.sample(range(low + 1, high), 2))
    return [
        (left, b, low, c), (b, right, low, d), (a, right, d, high), (left, a, c, high),
        (a, b, c, d),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    for seed in range(arguments.first, arguments.first + arguments.count):
        spans = cut(seed)
        if arguments.folder is not None:
            _save(arguments.folder / f"{seed}.csv", spans)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        answer = place_quickly(spans, SIDE * UNIT, seconds=arguments.seconds)
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        load = max_live_bytes(spans) / (SIDE * UNIT)
        print(
            f"{seed}: {len(spans)} requests, load {load:.3f}: {answer.outcome.value} in "
            f"{seconds:.1f} s",
            flush=True,
        )


def _save(path: Path, spans: list[Span]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("id", "lower", "upper", "size"))
        writer.writerows((i, s.lower, s.upper, s.size) for i, s in enumerate(spans))


if __name__ == "__main__":
    main()
