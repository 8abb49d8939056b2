"""Prove folds into a bias or past a clamp: halves, zero points, powers of two."""

from typing import Any

from proofs.registry import every, identity, same, solver, valid

from ceras_ir.dialects.quant import SINGLE_ROUNDINGS, Rounding
from ceras_ir.network.integer import round_shift

VTA = "ceras_ir/backends/vta/rules/channel_constants.py"
VTA_RULES = "ceras_ir/backends/vta/rules/admission.py"
EPILOGUE = "ceras_ir/backends/c/integer_layer.py"
TILES = "ceras_ir/backends/c/tile_functions.py"
NEON = "ceras_ir/backends/c/neon_tiles.py"
HELIUM = "ceras_ir/backends/c/helium_output.py"
SUMS = "ceras_ir/backends/c/sums.py"
QUANT = "ceras_ir/dialects/quant.py"
SCALES = "ceras_ir/transforms/quantization/analysis/rescaling.py"
BOXES = "ceras_ir/backends/vta/machine/scratchpads.py"
VECTORS = "ceras_ir/backends/c/runtime/vectors_256.c"
WORDS = "ceras_ir/backends/c/column_words.py"


@identity(
    relied_on={
        VTA: "(point << s) + (half << s >> 1) if s > 0",
        EPILOGUE: "half + (requant.zero_point.data << shift)",
        SUMS: "bias, bounds = bias + half, bounds + half",
    },
    requires="sum, bias, half and moved zero point have 32 bits",
    checked_by={
        VTA_RULES: "if accumulator_bound(op) >= 1 << 31:",
        EPILOGUE: "if not sums.has_room(int(np.abs(extra).max())):",
        SUMS: "can_fold_half(op.requant) and int(bounds.max()) + half < LIMIT",
    },
    by="z3, 32 bits, shifts 0 to 31",
    slow=True,
)
def half_and_zero_point_in_the_bias() -> None:
    """Rounding half up and then adding z is one floor shift of the sum plus half plus z << s."""
    z3 = solver()
    v, point = z3.BitVec("v", 32), z3.BitVec("point", 32)
    wide, far = z3.SignExt(40, v), z3.SignExt(40, point)
    limit = 1 << 31
    for shift in range(32):
        half = 1 << shift - 1 if shift else 0
        constant = (far << shift) + half
        room = [wide + constant < limit, wide + constant >= -limit, constant < limit]
        room += [constant >= -limit, point >= -(1 << 15), point < 1 << 15]
        bias = z3.Extract(31, 0, constant)
        found = z3.SignExt(40, (v + bias) >> shift)
        valid(found == ((wide + half) >> shift) + far, room)


@identity(
    relied_on={
        EPILOGUE: "half -= is_even",
        TILES: 'f"({s} + ({s} >> {right} & 1)) >> {right}"',
        NEON: "vaddq_s32({v}, vandq_s32({shifted}, vdupq_n_s32(1)))",
        HELIUM: 'lowest = f"vandq_s32(v{shifted}, vdupq_n_s32(1))"',
    },
    requires="the zero point is even",
    checked_by={EPILOGUE: "if requant.zero_point.data % 2:"},
    by="all 16-bit sums, shifts 1 to 15, four zero points",
)
def ties_to_even_by_the_lowest_bit() -> None:
    """
    The sum plus half less 1 is rounded to the nearest, and down at ties. The lowest bit of that
    result, added to the sum, rounds to even.
    """
    v = every(16)
    for shift in range(1, 16):
        for point in (-128, -2, 0, 126):
            moved = v + (1 << shift - 1) - 1 + (point << shift)
            even = (moved + (moved >> shift & 1)) >> shift
            same(even, round_shift(v, shift, Rounding.HALF_EVEN) + point, v)


@identity(
    relied_on={VTA: "else point >> -s for s in requant.net_shifts"},
    requires="the zero point is a multiple of 2^k",
    checked_by={VTA: "if low < 0 and requant.zero_point.data % (1 << -low):"},
    by="all 16-bit sums and zero points of int8, k up to 8",
    slow=True,
)
def zero_point_before_a_left_shift() -> None:
    """`(v << k) + z` is `(v + (z >> k)) << k`."""
    v, points = every(16)[:, None], every(8)[None, :]
    for left in range(9):
        whole = points[:, points[0] % (1 << left) == 0]
        same((v + (whole >> left)) << left, (v << left) + whole, v, whole)


@identity(
    relied_on={
        QUANT: "return tuple(self.shift.data - (m.bit_length() - 1) for m in self.multipliers)",
        VTA: "low, high = min(requant.net_shifts), max(requant.net_shifts)",
        EPILOGUE: "shifts = requant.net_shifts",
    },
    requires="the multiplier is a power of two",
    checked_by={
        VTA: "if multiplier & (multiplier - 1):",
        EPILOGUE: "if any(m & (m - 1) for m in requant.multipliers):",
        "ceras_ir/backends/nnet/rules.py": "if multiplier & (multiplier - 1):",
    },
    by="all 16-bit sums, shifts 0 to 24, multipliers 1 to 2^24",
)
def powers_of_two_are_net_shifts() -> None:
    """A multiplier 2^m and a shift by s round as a single shift by s - m, in all modes."""
    v = every(16)
    for shift in range(25):
        for power in range(0, 25, 2):
            net = shift - power
            for mode in SINGLE_ROUNDINGS:
                once = round_shift(v, net, mode) if net > 0 else v << -net
                same(round_shift(v << power, shift, mode), once, v)


@identity(
    relied_on={BOXES: "which round down, have the result of a single shift by the sum"},
    requires="none",
    by="all 16-bit v, shifts up to 16 and 16",
)
def floors_compose() -> None:
    """Two floor shifts are equal to a single shift by the sum."""
    v = every(16)
    for first in range(17):
        for second in range(17):
            same((v >> first) >> second, v >> (first + second), v)


@identity(
    relied_on={SCALES: "return floor(bound / target.scale + 0.5) + point"},
    requires="rounding half up; for others up to the rounding of the bound itself",
    by="z3, 32 bits, shifts 1 to 31",
    slow=True,
)
def clamp_after_rounding() -> None:
    """Clipping and then rounding half up is rounding and then clamping to the rounded bounds."""
    z3 = solver()
    v, low, high = (z3.SignExt(8, z3.BitVec(name, 32)) for name in ("v", "low", "high"))

    def clip(x: Any, least: Any, most: Any) -> Any:
        return z3.If(x < least, least, z3.If(x > most, most, x))

    for shift in range(1, 32):
        half = 1 << shift - 1
        ends = ((low + half) >> shift, (high + half) >> shift)
        valid(
            (clip(v, low, high) + half) >> shift == clip((v + half) >> shift, *ends), [low <= high]
        )


@identity(
    relied_on={WORDS: 'return "packus_epi16" if e.lowest == 0 else "packs_epi16"'},
    requires="bounds lie within the stored type",
    checked_by={"ceras_ir/dialects/graph/operation.py": "def expect_storable("},
    by="z3, 32 bits",
)
def narrowing_in_two_steps() -> None:
    """Saturating to 16 and then to 8 bits before a clamp to bounds of a byte has no effect."""
    z3 = solver()
    v, low, high = (z3.BitVec(name, 32) for name in ("v", "low", "high"))

    def clip(x: Any, least: Any, most: Any) -> Any:
        return z3.If(x < least, least, z3.If(x > most, most, x))

    for least, most in ((-128, 127), (0, 255)):
        packed = clip(clip(v, -(1 << 15), (1 << 15) - 1), least, most)
        bounds = [low >= least, low <= high, high <= most]
        valid(clip(packed, low, high) == clip(v, low, high), bounds)


@identity(
    relied_on={
        VECTORS: "_mm256_srai_epi32(_mm256_srli_epi64(PRODUCT_256(v, m, after), 32), (shift) - 32)"
    },
    requires="the shifted product has 32 bits",
    checked_by={EPILOGUE: "if largest >> shift >= LIMIT or largest >= 1 << 62:"},
    by="z3, 64 bits, shifts 0 to 63",
)
def logical_shifts_of_64_bits() -> None:
    """
    The low 32 bits of a logical shift of 64 are equal to those of an arithmetic shift. Above 32,
    the upper 32 bits are shifted arithmetically.
    """
    z3 = solver()
    v = z3.BitVec("v", 64)
    for shift in range(33):
        low = z3.Extract(31, 0, z3.LShR(v, shift))
        limit = 1 << 31
        valid(z3.SignExt(32, low) == v >> shift, [v >> shift < limit, v >> shift >= -limit])
    for shift in range(33, 64):
        upper = z3.Extract(31, 0, z3.LShR(v, 32))
        valid(z3.SignExt(32, upper >> (shift - 32)) == v >> shift)
