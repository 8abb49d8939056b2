"""Prove shifts that round: formulas of C, the nnet engine and its circuits, also per lane."""

from collections.abc import Callable
from typing import Any

import numpy as np
from proofs.registry import every, identity, same, solver, valid

from ceras_ir.dialects.quant import SINGLE_ROUNDINGS, Rounding
from ceras_ir.network.integer import round_shift

C_REQUANT = "ceras_ir/backends/c/values.py"
ENGINE = "ceras_ir/backends/nnet/runtime/integers.h"
FPGA = "ceras_ir/backends/nnet/runtime/fpga.h"
POOL = "ceras_ir/backends/nnet/runtime/fpga_circuits.cpp"
LINEAR = "ceras_ir/backends/nnet/runtime/fpga_epilogue.h"
PRODUCTS = "ceras_ir/backends/nnet/runtime/lane_products.h"
RULES = "ceras_ir/backends/nnet/rules.py"

MAX_SHIFT = 47
WIDE = 1 << 15


def rounded(shift: int, mode: Rounding, v: Any, z3: Any) -> Any:
    """Compute `v / 2^shift` as `#graph.requant` defines it; `v` has room for the half."""
    if shift == 0:
        return v
    half, floor = 1 << shift - 1, v >> shift
    rest = v - (floor << shift)
    assert mode is not Rounding.DOUBLE_ROUND
    match mode:
        case Rounding.HALF_UP:
            up = rest >= half
        case Rounding.HALF_AWAY:
            up = z3.Or(rest > half, z3.And(rest == half, v >= 0))
        case Rounding.HALF_EVEN:
            up = z3.Or(rest > half, z3.And(rest == half, floor & 1 == 1))
        case Rounding.FLOOR:
            return floor
    return floor + z3.If(up, z3.BitVecVal(1, v.size()), z3.BitVecVal(0, v.size()))


def _in_c(v: Any, shift: int, mode: Rounding, negative: Any) -> Any:
    """Compute the formula that the C backend prints; `negative` is 1 if v is below 0."""
    half = 1 << shift - 1
    assert mode is not Rounding.DOUBLE_ROUND
    match mode:
        case Rounding.HALF_UP:
            return (v + half) >> shift
        case Rounding.HALF_AWAY:
            return (v + half - negative) >> shift
        case Rounding.HALF_EVEN:
            return (v + (half - 1) + ((v >> shift) & 1)) >> shift
        case Rounding.FLOOR:
            return v >> shift


C_FORMULAS = {
    C_REQUANT: """
            return f"(v + {int_literal(half)}) >> {shift}"
        case Rounding.HALF_AWAY:
            return f"(v + {int_literal(half)} - (v < 0)) >> {shift}"
        case Rounding.HALF_EVEN:
            return f"(v + {int_literal(half - 1)} + ((v >> {shift}) & 1)) >> {shift}"
        case Rounding.FLOOR:
            return f"v >> {shift}"
    """
}
C_ROOM = {C_REQUANT: "max_scaled = max(max_scaled, abs(low), abs(high))"}


@identity(
    relied_on=C_FORMULAS,
    requires="v and half have room",
    checked_by=C_ROOM,
    by="all 16-bit v, shifts 1 to 20",
)
def c_rounding_16_bits() -> None:
    """C's four roundings are equal to those of `#graph.requant`."""
    v = every(16)
    for shift in range(1, 21):
        for mode in SINGLE_ROUNDINGS:
            same(_in_c(v, shift, mode, v < 0), round_shift(v, shift, mode), v)


@identity(
    relied_on=C_FORMULAS,
    requires="|v| + half + 1 <= 2^31 - 1",
    checked_by=C_ROOM,
    by="z3, 32 bits, shifts 1 to 31",
    slow=True,
)
def c_rounding_32_bits() -> None:
    """C's four roundings in 32 bits are equal to those of `#graph.requant`, without overflow."""
    z3 = solver()
    v = z3.BitVec("v", 32)
    wide = z3.SignExt(8, v)
    minus = z3.If(v < 0, z3.BitVecVal(1, 32), z3.BitVecVal(0, 32))
    for shift in range(1, 32):
        for mode in SINGLE_ROUNDINGS:
            half = 0 if mode is Rounding.FLOOR else 1 << shift - 1
            most = (1 << 31) - 2 - half
            room = [wide <= most, wide >= -most]
            claim = z3.SignExt(8, _in_c(v, shift, mode, minus)) == rounded(shift, mode, wide, z3)
            valid(claim, room)


@identity(
    relied_on={
        ENGINE: "const int64_t rest = value & ((half << 1) - 1);"
        "return floor + (rest > half || (rest == half && (floor & 1)));"
    },
    requires="|v| + half < 2^63: sums of 32 bits times multipliers of 31, shifts up to 62",
    checked_by={"ceras_ir/dialects/quant.py": "excess = [max(m.bit_length() - MULTIPLIER_BITS, 0)"},
    by="z3, 64 bits, shifts 1 to 62",
    slow=True,
)
def engine_half_even_64_bits() -> None:
    """The engine rounds to even by masks; the sum for half up does not overflow."""
    z3 = solver()
    v = z3.BitVec("v", 64)
    bound = 1 << 62
    one, none = z3.BitVecVal(1, 64), z3.BitVecVal(0, 64)
    for shift in range(1, 63):
        half, floor = z3.BitVecVal(1 << shift - 1, 64), v >> shift
        rest = v & ((half << 1) - 1)
        up = z3.Or(z3.UGT(rest, half), z3.And(rest == half, floor & 1 == 1))
        room = [v <= bound, v >= -bound]
        valid(floor + z3.If(up, one, none) == rounded(shift, Rounding.HALF_EVEN, v, z3), room)
        valid((v + half) >> shift == rounded(shift, Rounding.HALF_UP, v, z3), room)


def _circuit(acc: Any, right: int, to_even: bool, choose: Callable[[Any, Any], Any]) -> Any:
    """Compute `fpga_rescale_all` before the clamp, for shifts to the right."""
    floor, last = min(right, 31), right - 1 if right < 32 else 31
    if not to_even:
        return (acc >> floor) + ((acc >> last) & 1)
    below, whole = (1 << last) - 1, acc >> floor
    up = choose((acc & below) != 0, whole)
    return whole + ((acc >> last) & up & 1)


FPGA_FORMULAS = {
    FPGA: """
  const int floor = r.right < 31 ? r.right : 31, last = r.right < 32 ? r.right - 1 : 31;
"""
}
FPGA_EVEN = {
    FPGA: """
      const int32_t whole = acc[i] >> floor, up = (acc[i] & below) != 0 ? 1 : whole;
      acc[i] = fpga_clamp(whole + ((acc[i] >> last) & up & 1), r);
"""
}
FPGA_UP = {FPGA: "acc[i] = fpga_clamp((acc[i] >> floor) + ((acc[i] >> last) & 1), r);"}
FPGA_CHECK = {RULES: "if requant.shift.data > MAX_FPGA_SHIFT:"}


@identity(
    relied_on=FPGA_FORMULAS,
    requires="shift in [1, 47]",
    checked_by=FPGA_CHECK,
    by="all 16-bit sums",
)
def circuit_rounding_16_bits() -> None:
    """The circuits round half up and to even without the sum that needs a 33rd bit."""
    v = every(16)
    for shift in range(1, MAX_SHIFT + 1):
        for mode in (Rounding.HALF_UP, Rounding.HALF_EVEN):
            found = _circuit(v, shift, mode is Rounding.HALF_EVEN, lambda c, w: np.where(c, 1, w))
            same(found, round_shift(v, shift, mode), v)


def _circuit_32(mode: Rounding) -> None:
    z3 = solver()
    v = z3.BitVec("v", 32)
    wide = z3.SignExt(32, v)
    for shift in range(1, MAX_SHIFT + 1):
        found = _circuit(
            v, shift, mode is Rounding.HALF_EVEN, lambda c, w: z3.If(c, z3.BitVecVal(1, 32), w)
        )
        valid(z3.SignExt(32, found) == rounded(shift, mode, wide, z3))


@identity(
    relied_on=FPGA_UP,
    requires="shift in [1, 47]",
    checked_by=FPGA_CHECK,
    by="z3, all sums of 32 bits",
    slow=True,
)
def circuit_half_up_32_bits() -> None:
    """`(acc >> s) + bit s-1` is half up for all sums of 32 bits, also for shifts above 31."""
    _circuit_32(Rounding.HALF_UP)


@identity(
    relied_on=FPGA_EVEN,
    requires="shift in [1, 47]",
    checked_by=FPGA_CHECK,
    by="z3, all sums of 32 bits",
    slow=True,
)
def circuit_half_even_32_bits() -> None:
    """A guard bit and a mask of the lower bits round all sums of 32 bits to even."""
    _circuit_32(Rounding.HALF_EVEN)


@identity(
    relied_on={
        LINEAR: "right[lane] = shift < 0 ? 0 : shift < 31 ? shift : 31;",
        PRODUCTS: "sums[r * LANES + lane] = (x >> right[lane]) | last;",
    },
    requires="half up leaves 1 bit, to even 2 and a sticky one; net shift in [0, 47]",
    checked_by=FPGA_CHECK,
    by="z3, all sums of 32 bits",
    slow=True,
)
def lane_shifts_32_bits() -> None:
    """A shift per lane, and then a common register, round as a single shift does."""
    z3 = solver()
    v = z3.BitVec("v", 32)
    wide = z3.SignExt(32, v)
    one, none = z3.BitVecVal(1, 32), z3.BitVecVal(0, 32)
    for rest, mode in ((1, Rounding.HALF_UP), (2, Rounding.HALF_EVEN)):
        for shift in range(rest, MAX_SHIFT + 1):
            right = min(shift - rest, 31)
            first = v >> right
            if rest == 2:
                first = first | z3.If(v & ((1 << right) - 1) != 0, one, none)
            found = _circuit(first, rest, rest == 2, lambda c, w: z3.If(c, one, w))
            valid(z3.SignExt(32, found) == rounded(shift, mode, wide, z3))


@identity(
    relied_on={
        FPGA: "acc[i] < -FPGA_WIDE ? -FPGA_WIDE : acc[i] > FPGA_WIDE ? FPGA_WIDE : acc[i];",
        LINEAR: "(sum < -end ? -end : sum > end ? end : sum) * factor[lane];",
    },
    requires="left shift at most 8, zero point and bounds of int8",
    checked_by={RULES: "if (left := -min(requant.net_shifts)) > MAX_LEFT_SHIFT:"},
    by="z3, all sums of 32 bits",
    slow=True,
)
def circuit_left_shifts() -> None:
    """Saturation to 2^15 before a left shift, or a right shift by 1, does not change the clamp."""
    z3 = solver()
    v, low, high, zero = (z3.BitVec(name, 32) for name in ("v", "low", "high", "zero"))
    near = z3.If(v < -WIDE, z3.BitVecVal(-WIDE, 32), z3.If(v > WIDE, z3.BitVecVal(WIDE, 32), v))

    def clamped(x: Any) -> Any:
        bounds = [z3.SignExt(16, b) for b in (low, high, zero)]
        moved = x + bounds[2]
        return z3.If(moved < bounds[0], bounds[0], z3.If(moved > bounds[1], bounds[1], moved))

    int8 = [z3.And(x >= -128, x <= 127) for x in (low, high, zero)]
    for left in range(9):
        for rest, mode in ((0, None), (1, Rounding.HALF_UP), (2, Rounding.HALF_EVEN)):
            first = near << (left + rest)
            if mode is not None:
                first = _circuit(
                    first, rest, rest == 2, lambda c, w: z3.If(c, z3.BitVecVal(1, 32), w)
                )
            valid(
                clamped(z3.SignExt(16, first)) == clamped(z3.SignExt(16, v) << left),
                [*int8, low <= high],
            )
    # Also check two bits to the left, with a net shift of one bit to the right.
    found = _circuit(near << 1, 2, True, lambda c, w: z3.If(c, z3.BitVecVal(1, 32), w))
    expected = rounded(1, Rounding.HALF_EVEN, z3.SignExt(16, v), z3)
    valid(clamped(z3.SignExt(16, found)) == clamped(expected), [*int8, low <= high])


@identity(
    relied_on={POOL: "if (p.to_even && (product & (2 * half - 1)) == half) mean -= mean & 1;"},
    requires="product of 62 bits, shift in [0, 47]",
    checked_by=FPGA_CHECK,
    by="z3, 64 bits",
    slow=True,
)
def circuit_average_to_even() -> None:
    """Subtracting 1 from an odd average that was rounded up from a tie gives the even neighbor."""
    z3 = solver()
    v = z3.BitVec("product", 64)
    for shift in range(1, MAX_SHIFT + 1):
        half = 1 << shift - 1
        mean = (v + half) >> shift
        even = z3.If(v & (2 * half - 1) == half, mean - (mean & 1), mean)
        room = [v <= 1 << 62, v >= -(1 << 62)]
        valid(even == rounded(shift, Rounding.HALF_EVEN, v, z3), room)
