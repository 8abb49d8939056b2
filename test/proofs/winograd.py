"""Prove Winograd's F(2x2, 3x3) in integers: 16 products instead of 36, and 4 times the sum."""

import numpy as np
from proofs.registry import Integers, identity, same, solver, valid

from ceras_ir.backends.c.dsp_windows import G2, WINOGRAD_SCALE

PYTHON = "ceras_ir/backends/c/dsp_windows.py"
INPUT = "ceras_ir/backends/c/runtime/dsp_winograd_input.c"
OUTPUT = "ceras_ir/backends/c/runtime/dsp_winograd_output.c"
WEIGHTS = "ceras_ir/backends/c/runtime/dsp_winograd_weights.c"

BT = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.int64)
AT = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.int64)
IN_C = {
    INPUT: """
        at[4 * odd] = dsp_sub(d0, d2);
        at[4 * odd + 4 * @WORDS@] = dsp_add(d1, d2);
        at[4 * odd + 8 * @WORDS@] = dsp_sub(d2, d1);
        at[4 * odd + 12 * @WORDS@] = dsp_sub(d1, d3);
""",
    OUTPUT: """
  *upper = (uint32_t)m[0] + m1 + m2;
  *lower = m1 - m2 - (uint32_t)m[96];
""",
    PYTHON: "G2 = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int32)",
}
WINDOWS = {
    PYTHON: "is_3x3 = shape_of(op.weights)[1:3] == (3, 3) and op.strides.get_values() == (1, 1)"
}


def _units(size: int) -> Integers:
    """Return all matrices with a single 1."""
    return np.eye(size * size, dtype=np.int64).reshape(-1, size, size)


@identity(
    relied_on=IN_C,
    requires="windows of 3x3, stride 1",
    checked_by=WINDOWS,
    by="all 16 x 9 unit patches and filters: both sides are bilinear",
)
def winograd_is_four_times_the_sum() -> None:
    """`A^T ((2G) g (2G)^T * B^T d B) A` is four times the window of g at four positions of d."""
    patches, filters, g2 = _units(4), _units(3), G2.astype(np.int64)
    u = np.einsum("ia,fab,jb->fij", g2, filters, g2)
    v = np.einsum("ia,pab,jb->pij", BT, patches, BT)
    products = u[:, None] * v[None]
    found = np.einsum("ia,fpab,jb->fpij", AT, products, AT)
    expected = np.zeros_like(found)
    for r in range(2):
        for c in range(2):
            window = patches[:, r : r + 3, c : c + 3]
            expected[:, :, r, c] = np.einsum("fab,pab->fp", filters, window)
    same(found, WINOGRAD_SCALE * expected)


@identity(
    relied_on={
        INPUT: "results are within [-512, 512]",
        WEIGHTS: "results are within [-1152, 1152]",
    },
    requires="inputs and weights of int8",
    checked_by={
        "ceras_ir/backends/c/linear_dsp.py": 'narrow = value_type(op.input) == "int8_t" and '
        'sums.weight_type == "int8_t"'
    },
    by="the norm of each row of the transforms",
)
def winograd_fits_16_bits() -> None:
    """Transformed patches and filters, and intermediate values, have 16 bits."""
    rows, filters = np.abs(BT).sum(axis=1), np.abs(G2.astype(np.int64)).sum(axis=1)
    assert 128 * int(rows.max()) ** 2 == 512
    assert 128 * int(filters.max()) ** 2 == 1152


@identity(
    relied_on={OUTPUT: "y[0] = bias + ((int32_t)left >> 2), y[1] = bias + ((int32_t)right >> 2);"},
    requires="|4 r| < 2^31",
    checked_by={PYTHON: "and WINOGRAD_SCALE * sums.bound < LIMIT"},
    by="z3, 32 bits",
)
def winograd_division_after_wrapping() -> None:
    """A sum that is 4 r modulo 2^32, shifted by 2, is r."""
    z3 = solver()
    r, wraps = z3.BitVec("r", 64), z3.BitVec("wraps", 64)
    total = z3.Extract(31, 0, 4 * r + (wraps << 32))
    valid(z3.SignExt(32, total >> 2) == r, [r < 1 << 29, r >= -(1 << 29)])


@identity(
    relied_on={PYTHON: "WINOGRAD_SCALE * sums.bound < LIMIT"},
    requires="the bound of centred inputs",
    checked_by={
        "ceras_ir/backends/c/sums.py": "products = total * max(abs(x.low), abs(x.high), "
        "centred_bound(x))"
    },
    by="all zero points of int8",
)
def raw_sums_are_bounded_by_centred_ones() -> None:
    """A stored int8 value is no further from 0 than the farther bound is from any zero point."""
    points = np.arange(-128, 128)
    centred = np.maximum(127 - points, points + 128)
    assert (centred >= 128).all()
