"""Prove averages that use a multiplier and a shift."""

import numpy as np
from proofs.registry import every, identity, same

from ceras_ir.backends.vta.rules.addition_pooling import LOW_BITS, MAX_MULTIPLIER, averaging
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.network.integer import requantize

ALL = "ceras_ir/network/integer.py"
VTA = "ceras_ir/backends/vta/rules/addition_pooling.py"
POOL = "ceras_ir/dialects/graph/pooling.py"
C = "ceras_ir/backends/c/reduction.py"


def reciprocal(window: int, ratio: float) -> RequantAttr:
    """Compute the requantization as `reciprocal_requant` does."""
    shift = 0
    while ratio * 2.0 ** (shift + 1) < 1 << 30 and shift < 40:
        shift += 1
    return RequantAttr(shift, multiplier=int(ratio / window * 2.0**shift + 0.5))


@identity(
    relied_on={VTA: "return (average.multiplier >> LOW_BITS, average.multiplier & 127)"},
    requires="multiplier in [1, 2^14)",
    checked_by={ALL: "multiplier * window << 7 >= product_limit:"},
    by="all multipliers, sums up to 2^15",
)
def two_digits_of_a_multiplier() -> None:
    """The product is that with the high digit, shifted left, plus that with the low digit."""
    multipliers = np.arange(1, MAX_MULTIPLIER + 1)[:, None]
    sums = every(16)[None, ::997]
    digits = multipliers >> LOW_BITS, multipliers & 127
    assert int(digits[0].max()) <= 127
    same((sums * digits[0] << LOW_BITS) + sums * digits[1], sums * multipliers, multipliers, sums)


@identity(
    relied_on={ALL: "return Averaging(multiplier, max(low, min(0, high)), shift)"},
    requires="sums of int8; a small multiplier exists, else the layer stays on the CPU",
    checked_by={"ceras_ir/backends/vta/rules/addition_pooling.py": "if average is None:"},
    by="all sums of windows of 1 to 49, seven ratios, two zero points, two roundings",
    slow=True,
)
def averages_by_small_multipliers() -> None:
    """`(sum m + a) >> s` is the average for all sums, and has 32 bits."""
    for window in (1, 2, 3, 4, 6, 9, 16, 25, 36, 49):
        for ratio in (2.0**-6, 0.3, 0.5, 1.0, 1.7, 2.0, 8.0):
            for mode, point in ((Rounding.HALF_UP, 0), (Rounding.HALF_EVEN, -128)):
                plain = reciprocal(window, ratio)
                wanted = RequantAttr(
                    plain.shift.data, multiplier=plain.multiplier.data, rounding=mode, zero_point=3
                )
                found = averaging(window, wanted, point)
                if found is None:
                    continue
                sums = np.arange(-128 * window, 127 * window + 1, dtype=np.int64)
                raw = sums * found.multiplier + found.addend
                assert int(np.abs(raw).max()) < 1 << 31
                expected = requantize(sums - window * point, wanted, UniformType(1.0))
                clamped = np.clip(raw >> found.shift, -128, 127)
                same(clamped, expected.astype(np.int64), sums)


@identity(
    relied_on={
        POOL: "op.requant.replaced(multiplier=(2 * full * window + count) // (2 * count))",
        C: "2 * full * size",
    },
    requires="the multiplier of one element is below 2^31",
    checked_by={POOL: "not self.includes_padding and largest >= 1 << 31:"},
    by="all counts of windows up to 64 elements, corner multipliers",
)
def multipliers_of_partial_windows() -> None:
    """The multiplier of a partial window has 31 bits if the multiplier of a single element has."""
    for window in range(1, 65):
        for full in (1, 2, 3, ((1 << 30) - 1) // window, ((1 << 31) - 1) // window):
            for count in range(1, window + 1):
                assert 1 <= (2 * full * window + count) // (2 * count) < 1 << 31


@identity(
    relied_on={POOL: "the error of sums of int8 is below 2^-11 units of the result,"},
    requires="windows up to 2^12 elements, equal scales",
    by="all windows",
)
def reciprocals_are_near() -> None:
    """The reciprocal of a window changes sums of int8 by less than 2^-11, of int16 by 2^-3."""
    for window in range(1, (1 << 12) + 1):
        found = reciprocal(window, 1.0)
        off = abs(found.multiplier.data * window - (1 << found.shift.data))
        # The change is off / (window 2^shift), times a sum of up to 2^7 window.
        assert off << 7 + 11 <= 1 << found.shift.data
