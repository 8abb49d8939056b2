"""Prove zero points: around an input, in a bias, and after a shift of the stored values."""

from itertools import combinations

import numpy as np
from proofs.registry import every, identity, same

SUMS = "ceras_ir/backends/c/sums.py"
FPGA = "ceras_ir/backends/nnet/runtime/fpga.h"
BORDERS = "ceras_ir/backends/vta/rules/channel_constants.py"
SIGNED = "ceras_ir/transforms/quantization/qdq_rules.py"


@identity(
    relied_on={
        SUMS: "bias = bias - point * per_output",
        FPGA: "(bias != nullptr ? bias[o] : 0) - input_zero * sum",
    },
    requires="what is around the input is stored as its zero point",
    checked_by={"ceras_ir/backends/c/dsp_windows.py": "{height}, {width}, {channels}, {point});"},
    by="all x, zero points and weights of int8; linear in the products",
)
def zero_point_in_the_bias() -> None:
    """`x w - z w` is `(x - z) w`, and it is 0 for padding, which has the value z."""
    x = every(8)[:, None, None]
    z, w = every(8)[None, :, None], np.array([-128, -127, -1, 0, 1, 3, 127])[None, None, :]
    same(x * w - z * w, (x - z) * w, x, z, w)
    same(z * w - z * w, 0 * z * w, z, w)


@identity(
    relied_on={BORDERS: "kinds += [-rows[:, :, run] for rows in down for run in across]"},
    requires="loads pad with zeros",
    by="all sets of rows and columns outside of windows up to 4x4, random taps",
)
def border_by_rows_columns_and_corners() -> None:
    """The taps outside are the sum over rows and over columns outside, minus the corners."""
    taps = np.random.default_rng(0).integers(-128, 128, (4, 4))
    subsets = [s for n in range(5) for s in combinations(range(4), n)]
    for rows in subsets:
        for columns in subsets:
            outside = np.zeros((4, 4), bool)
            outside[list(rows)] = True
            outside[:, list(columns)] = True
            parts = taps[list(rows)].sum() + taps[:, list(columns)].sum()
            corner = taps[np.ix_(list(rows), list(columns))].sum()
            assert taps[outside].sum() == parts - corner


@identity(
    relied_on={SIGNED: "[point.data - half for point in element.zero_points]"},
    requires="8 or 16 unsigned bits",
    checked_by={SIGNED: "element.is_signed or element.high >= 1 << 16"},
    by="all numbers of 8 and 16 bits",
)
def unsigned_as_signed() -> None:
    """Subtracting half the range from values, zero points and bounds keeps `q - z` and clamps."""
    for bits in (8, 16):
        half, q = 1 << bits - 1, np.arange(1 << bits, dtype=np.int64)
        moved = (q - half).astype(f"int{bits}").astype(np.int64)
        for z in (0, 1, half - 1, half, 2 * half - 1):
            same(moved - (z - half), q - z, q)
            raw = np.arange(-3 * half, 3 * half, 7)
            clamped = np.clip(raw + z, 0, 2 * half - 1)
            same(np.clip(raw + z - half, -half, half - 1), clamped - half, raw)
