"""
Compare estimates of dataflow circuits with counts of yosys, and fit the tables per part.

    python benchmarks/dataflow_estimates.py                      compare with the stored counts
    python benchmarks/dataflow_estimates.py --count 40 [--first 0]  count circuits, store the counts
    python benchmarks/dataflow_estimates.py --fit                fit the `tables` of `board.py`

The circuits are those of `test/dataflow_samples.py`. `--fit` also prints the error for each fitted
circuit if it is left out of the fit. Seeds from 32 on are never fitted. A count takes 10 to 60 s,
and minutes if a layer has many lanes or the table of a function.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

from dataflow_circuits import write_circuit
from dataflow_samples import KINDS, PORT_BYTES, counted, keep, sample

from ceras_ir.backends.dataflow.board import CHIP_FAMILIES, LogicPart
from ceras_ir.backends.dataflow.circuit import Circuit
from ceras_ir.backends.dataflow.resources import (
    Resources,
    Usage,
    estimate,
    synthesize,
    total,
    usage,
)

FITTED_SEEDS = 32
KNOWN = (
    LogicPart.SUM, LogicPart.FUNCTION, LogicPart.PRODUCT, LogicPart.DIGIT, LogicPart.LAST_DIGIT,
    LogicPart.LIMIT,
)  # fmt: skip
"""
A bit of a sum is an adder after a choice of two: a table of six inputs, or two tables of four. The
tables of a function and of products were counted separately.
"""
FITTED = [part for part in LogicPart if part not in KNOWN]


def is_check(seed: int) -> bool:
    """Whether a circuit checks the fit."""
    return seed >= FITTED_SEEDS


def count(seeds: Sequence[int]) -> None:
    """Count circuits with yosys. Stored counts are kept."""
    for seed in seeds:
        for family, port_bytes in PORT_BYTES.items():
            found = counted()
            if seed in found.setdefault(family, {}):
                continue
            with tempfile.TemporaryDirectory() as work:
                write_circuit(Circuit(*sample(seed, family)), Path(work), port_bytes)
                found[family][seed] = synthesize(Path(work), family)
            keep(found)
            print(family, seed, found[family][seed], flush=True)


def compare(family: str) -> None:
    """Print a line for each circuit."""
    errors: dict[bool, list[float]] = {False: [], True: []}
    for seed, found in counted()[family].items():
        pipeline, plan = sample(seed, family)
        guess = total(estimate(pipeline, plan, CHIP_FAMILIES[family]))
        error = guess.lut / found.lut - 1
        errors[is_check(seed)].append(error)
        cells = [family, str(seed), KINDS[seed % len(KINDS)]]
        cells += [f"{g:,} of {f:,}" for g, f in zip(_counts(guess), _counts(found), strict=True)]
        print(f"| {' | '.join(cells)} | {error:+.1%} |")
    for checks, found in errors.items():
        if not found:
            continue
        name = "checks" if checks else "fitted"
        mean = np.sqrt(np.mean(np.square(found)))
        print(
            f"{family}, {len(found)} {name}: LUT {mean:.1%} off, {max(map(abs, found)):.1%} at most"
        )


def _counts(r: Resources) -> tuple[int, int, int]:
    return r.dsp, r.ram18, r.lut


def fit(family: str) -> None:
    """
    Print the tables of each part: the least squares of relative errors without negative values.
    """
    rows: list[list[float]] = []
    wanted: list[float] = []
    for seed, found in counted()[family].items():
        if is_check(seed):
            continue
        parts = Usage(CHIP_FAMILIES[family])
        for used in usage(*sample(seed, family), CHIP_FAMILIES[family]).values():
            parts.parts += used.parts
            parts.memory_tables += used.memory_tables
        known = sum(CHIP_FAMILIES[family].tables[part] * parts.parts[part] for part in KNOWN)
        given = parts.memory_tables + known
        rows.append([parts.parts[part] / found.lut for part in FITTED])
        wanted.append((found.lut - given) / found.lut)
    a, b = np.array(rows), np.array(wanted)
    values = _least_squares(a, b)
    print(family, {part.name: float(f"{v:.3g}") for part, v in zip(FITTED, values, strict=True)})
    each = np.arange(len(b))
    left_out = [a[i] @ _least_squares(a[each != i], b[each != i]) - b[i] for i in each]
    mean, most = np.sqrt(np.mean(np.square(left_out))), np.abs(left_out).max()
    print(f"{family}: each of {len(b)} left out is {mean:.1%} off, {most:.1%} at most")


def _least_squares(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """
    Return the least-squares solution of `a x = b` with x >= 0, by descent along each component of
    x.
    """
    scale = np.sqrt((a**2).sum(0))
    a = a / scale
    gram, right, x = a.T @ a, a.T @ b, np.zeros(a.shape[1])
    for _ in range(5000):
        for j in range(len(x)):
            x[j] = max(0.0, x[j] + (right[j] - gram[j] @ x) / gram[j, j])
    return x / scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--fit", action="store_true")
    args = parser.parse_args()
    count(range(args.first, args.first + args.count))
    for family in CHIP_FAMILIES:
        (fit if args.fit else compare)(family)


if __name__ == "__main__":
    main()
