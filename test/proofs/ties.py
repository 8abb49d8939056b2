"""Prove constants with which ONNX's rounding to even computes half up."""

import numpy as np
from proofs.registry import every, identity, same, solver, valid
from proofs.rounding import rounded

from ceras_ir.dialects.quant import Rounding
from ceras_ir.network.integer import round_shift
from ceras_ir.transforms.quantization.analysis.qdq import tie_break_bounds

DROP = "ceras_ir/transforms/quantization/qdq_rules.py"
TIES = "ceras_ir/backends/onnx/movement.py"
UNIT = "ceras_ir/transforms/quantization/analysis/qdq.py"


@identity(
    relied_on={
        DROP: "np.where(rooms > 0, (flat > 0) & (flat < rooms), flat == 0)",
        TIES: "tie_break_bounds(units, requant.multipliers, requant.shift.data) / 2",
    },
    requires="0 < c < half a unit, divided by the odd part m of the multiplier",
    checked_by={UNIT: "np.where(has_ties, units / (2 * odd), 0.0)"},
    by="all 16-bit sums, odd m up to 15, shifts 1 to 16, c in 64ths of its room",
    slow=True,
)
def tie_breakers() -> None:
    """Rounding `(n + c) m / 2^s` to even is rounding `n m / 2^s` half up."""
    n = every(16)
    for m in range(1, 16, 2):
        for shift in range(1, 17):
            (room,) = tie_break_bounds(np.ones(1), [m], shift)
            assert room * 2 * m == 1
            expected = round_shift(n * m, shift, Rounding.HALF_UP)
            for c in (1, 32, 63):
                # Both sides are multiplied by 128 m, to obtain integers.
                total = n * 128 * m + c
                same(round_shift(total, shift + 7, Rounding.HALF_EVEN), expected, n)


@identity(
    relied_on={DROP: "(flat < rooms)"},
    requires="0 < c < half a unit, and a shift",
    checked_by={UNIT: "units / (2 * odd)"},
    by="z3, 32-bit sums, c in 1024ths, shifts 0 to 31",
    slow=True,
)
def tie_breakers_of_shifts() -> None:
    """The same holds for sums of 32 bits with a multiplier of 1."""
    z3 = solver()
    n, c = z3.SignExt(24, z3.BitVec("n", 32)), z3.ZeroExt(46, z3.BitVec("c", 10))
    for shift in range(32):
        found = rounded(shift + 10, Rounding.HALF_EVEN, (n << 10) + c, z3)
        valid(found == rounded(shift, Rounding.HALF_UP, n, z3), [c > 0, c < 512])
