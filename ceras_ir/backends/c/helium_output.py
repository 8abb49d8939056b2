"""
Convert sums of products to stored values in vectors of Helium.

Four vectors of sums are narrowed together to 16 bytes. Narrowing writes even or odd bytes, so the
sums of a block are stored in the order of `channel_of`. Layers with results of 16 bits, and outputs
after the last full block, are converted in vectors of four.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.helium_tiles import BLOCK, MAX_OUTPUTS
from ceras_ir.backends.c.integer_layer import Epilogue, has_ties
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.sums import LIMIT, Geometry, Sums
from ceras_ir.backends.c.values import half_of, quantized, rescaling, value_type, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, element_of
from ceras_ir.dialects.quant import Rounding, UniformType

ITEMS = {"int8_t": 1, "int16_t": 2}
"""The C types of inputs and outputs, with the bytes of an element."""

MAX_RIGHT = 31
"""The maximum right shift of a 32-bit element, in bits."""


@dataclass(frozen=True)
class Cost:
    """The modelled instructions and cycles on a Cortex-M55."""

    instructions: float
    cycles: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.instructions + other.instructions, self.cycles + other.cycles)

    def __mul__(self, count: int) -> "Cost":
        return Cost(self.instructions * count, self.cycles * count)


OUTPUT_CYCLES = 1.6
"""
Modelled cycles of an instruction of the output stage: most are arithmetic, which needs two cycles.
"""


@dataclass(frozen=True)
class OutputStage:
    """
    The conversion of sums to stored values, all exact:

    1. Add `bias` and the residual.
    2. Without multipliers, shift right by `shifts`, one for all outputs or one for each. If
       `is_even`, first add the lowest bit of the result, so that ties are rounded to even.
    3. With multipliers, shift left by `left`, take the high 32 bits of the product with the
       multiplier, shift right by `shifts` and round half up, or down if not `rounds`; add
       `zero_point`.
    4. Clamp.
    """

    bias: NDArray[np.int64]
    shifts: tuple[int, ...]
    multipliers: tuple[int, ...]
    left: int
    rounds: bool
    zero_point: int
    low: int
    high: int
    item: int
    """The bytes of an element of the result."""
    is_even: bool = False

    @property
    def in_blocks(self) -> bool:
        """
        Whether 16 results are converted to 8 bits together. Their sums are then stored in the order
        of `channel_of`.
        """
        return self.item == 1

    def cost(self, n: int, *, has_residual: bool) -> Cost:
        """Return the cost of the output stage for a position with `n` output channels."""
        each = 4 + (len(set(self.shifts)) > 1) + 2 * bool(self.multipliers) + 2 * has_residual
        each += bool(self.zero_point) + 3 * self.is_even
        blocks = n // BLOCK if self.in_blocks else 0
        vectors = -(-(n - blocks * BLOCK) // 4)
        instructions = blocks * (4 * each + 16) + vectors * (each + 9) + 12
        return Cost(instructions, OUTPUT_CYCLES * instructions)

    @classmethod
    def of(cls, op: LinearOperation, sums: Sums) -> "OutputStage | None":
        """
        Return the output stage of a layer, or `None` if Helium cannot compute it exactly, because
        of a type, the rounding, or a sum that exceeds 32 bits.
        """
        requant, result = op.requant, element_of(op.result)
        assert requant is not None and isinstance(result, UniformType)
        if requant.is_normalized:
            return None
        item = ITEMS.get(value_type(op.result))
        residual = None if op.residual is None else ITEMS.get(value_type(op.residual), 0)
        if item is None or residual == 0 or (np.abs(sums.bias) >= LIMIT).any():
            return None
        low, high, point = requant.low.data, requant.high.data, requant.zero_point.data
        rescale = rescaling(
            requant, sums.bound, value_type(op.result), half_folded=sums.half_folded
        )
        shifted = Epilogue.of(op, sums, rescale, even=True)
        if shifted is not None and not shifted.scale_bits:
            bias = sums.bias + shifted.extra
            shifts = shifted.shifts or (shifted.shift,)
            return cls(bias, shifts, (), 0, False, 0, low, high, item, shifted.is_even)
        return cls._scaled(op, sums, (low, high), point, item)

    @classmethod
    def _scaled(
        cls, op: LinearOperation, sums: Sums, limits: tuple[int, int], point: int, item: int
    ) -> "OutputStage | None":
        requant = op.requant
        assert requant is not None
        extra = np.zeros(1, np.int64)
        if op.residual is not None:
            stored = zero_point_of(quantized(op.residual, "residual"))
            extra = -np.left_shift(stored, np.array(op.residual_shifts, np.int64))
        shift = requant.shift.data
        has_half = not sums.half_folded and half_of(requant) > 0
        multipliers = np.resize(np.array(requant.multipliers, np.int64), len(sums.bounds))
        if has_half and requant.mode is not Rounding.HALF_UP and has_ties(sums, requant):
            return None
        raised = [min(31 - int(m).bit_length(), MAX_RIGHT + 32 - shift) for m in multipliers]
        right = [shift + more - 32 for more in raised]
        left = max(1 - min(right), 0)
        shifts = tuple(r + left for r in right)
        if max(shifts) > MAX_RIGHT or sums.bound << left >= LIMIT:
            return None
        if not sums.has_room(int(np.abs(extra).max())):
            return None
        factors = tuple(int(m) << more for m, more in zip(multipliers, raised, strict=True))
        bias = sums.bias + extra
        return cls(bias, shifts, factors, left, has_half, point, *limits, item)


@dataclass(frozen=True)
class HeliumLayer:
    """
    A layer that is printed for Helium, with its output stage, and the C names of the pointers to
    the input `x`, the result `y` and the residual.
    """

    layer: Layer
    op: LinearOperation
    geometry: Geometry
    sums: Sums
    stage: OutputStage
    x: str
    y: str
    residual: str
    """The C name of the pointer to the residual, or an empty string without a residual."""

    @classmethod
    def of(cls, layer: Layer, op: LinearOperation, geometry: Geometry, sums: Sums) -> "HeliumLayer":
        stage = OutputStage.of(op, sums)
        assert stage is not None
        x, y = layer.read(op.input, "x"), layer.write(op.result)
        residual = layer.read_if(op.residual, "residual") or ""
        return cls(layer, op, geometry, sums, stage, x, y, residual)

    @property
    def window(self) -> Conv2dOp:
        """The operation `op` as a convolution; an assertion fails for a matrix product."""
        assert isinstance(self.op, Conv2dOp)
        return self.op


@dataclass(frozen=True)
class Finish:
    """
    The C function that converts sums to stored results, and the C names of its array arguments.
    """

    function: str
    y: str
    residual: str
    arrays: Sequence[str]

    def call(self, at: str, offset: str, rows: int | str, count: str) -> str:
        """
        Return the C call that converts `rows` rows of `count` sums. All arguments are C
        expressions: results are stored from index `at`, and `offset` (such as ` + o`) is added to
        the arrays of channels.
        """
        residual = [f"{self.residual} + {at}"] if self.residual else []
        arrays = [f"{name}{offset}" for name in self.arrays]
        arguments = [f"{self.y} + {at}", "sums", str(rows), count, *residual, *arrays]
        return f"{self.function}({', '.join(arguments)});"

    @classmethod
    def of(
        cls,
        of: HeliumLayer,
        order: NDArray[np.int64],
        width: int = MAX_OUTPUTS,
        *,
        in_blocks: bool,
        is_padded: bool = False,
    ) -> "Finish":
        """
        Add the C function of the output stage and its arrays to the layer. `order` is the channel
        of each sum in memory, and `width` is the distance between two rows of sums.

        If `in_blocks`, complete blocks of 16 sums are in the order of `channel_of`; if `is_padded`,
        the last block is too.
        """
        layer, op, stage = of.layer, of.op, of.stage
        text = _Text(of, in_blocks=in_blocks, is_padded=is_padded)
        count, total = -(-len(order) // BLOCK) * BLOCK, of.geometry.n * of.geometry.groups
        places = np.arange(count)
        places[: len(order)] = order

        def ordered(name: str, values: Sequence[int] | NDArray[np.int64], bits: int) -> str:
            padded = np.zeros(count, np.int64)
            padded[:total] = np.resize(np.array(values, np.int64), total)
            return layer.array(name, padded[places].astype(f"int{bits}"), f"int{bits}_t")

        arrays = [ordered("bias", stage.bias, 32)]
        if stage.multipliers:
            arrays.append(ordered("multipliers", stage.multipliers, 32))
        if text.has_shifts:
            arrays.append(ordered("shifts", [-shift for shift in stage.shifts], 8))
        if text.has_factors:
            arrays.append(ordered("factors", op.residual_shifts, 8))
        return cls(text.function(layer, width), of.y, of.residual, arrays)


class _Text:
    """The writer of the body of the C function of an output stage."""

    def __init__(self, of: HeliumLayer, *, in_blocks: bool, is_padded: bool):
        self.stage, self.op = of.stage, of.op
        self.in_blocks, self.is_padded = in_blocks, is_padded
        self.total = of.geometry.n * of.geometry.groups
        self.out = value_type(of.op.result)
        self.has_shifts = len(set(of.stage.shifts)) > 1
        residual = of.op.residual
        self.residual = "" if residual is None else value_type(residual)
        shifts = of.op.residual_shifts if residual is not None else ()
        self.has_factors = len(set(shifts)) > 1
        self.factor = shifts[0] if shifts else 0

    def function(self, layer: Layer, width: int) -> str:
        stage = self.stage
        kind = f"{stage.shifts[0]}" if not self.has_shifts else "n"
        if stage.multipliers:
            kind = f"m{stage.left}_{kind}_{stage.zero_point}_{int(stage.rounds)}"
        kind += "_even" if stage.is_even else ""
        kind += f"_{stage.low}_{stage.high}".replace("-", "m")
        if self.residual:
            kind += f"_{self.residual[:-2]}_{'n' if self.has_factors else self.factor}"
        parameters = {
            f"const {self.residual} *restrict residual": bool(self.residual),
            "const int32_t *restrict bias": True,
            "const int32_t *restrict multipliers": bool(stage.multipliers),
            "const int8_t *restrict shifts": self.has_shifts,
            "const int8_t *restrict factors": self.has_factors,
        }
        declared = "".join(f", {name}" for name, is_used in parameters.items() if is_used)
        blocks = "_padded" if self.is_padded else "_blocks" if self.in_blocks else ""
        return layer.kernels.use(
            "helium_finish",
            NAME=f"{self.out[:-2]}_{self.total}_{width}_{kind}{blocks}".replace("-", "m"),
            OUT=self.out,
            TOTAL=str(self.total),
            WIDTH=str(width),
            NEXT=f", residual += {self.total}" if self.residual else "",
            PARAMETERS=declared,
            BLOCKS="\n".join(self._blocks()) + "\n" if self.in_blocks else "",
            REST="" if self.is_padded else "\n".join(self._rest()),
            COUNT="(n + 15) / 16 * 16" if self.is_padded else "n",
            CHANNEL=self._channel(),
            PORTABLE="\n".join(f"      {line}" for line in self._portable()),
        )

    def _channel(self) -> str:
        if not self.in_blocks:
            return "i"
        block = f"i / {BLOCK} * {BLOCK} + helium_channel(i % {BLOCK})"
        return block if self.is_padded else f"i < n / {BLOCK} * {BLOCK} ? {block} : i"

    def _vector(self, name: str, at: str, residual: str) -> list[str]:
        """
        Return the C statements that declare the vector `name` with four results before the clamp,
        computed from the sums at index `at`. `residual` is the C expression of the vector of the
        residual.
        """
        stage = self.stage
        lines = [f"int32x4_t {name} = vaddq_s32(vldrwq_s32(sums + {at}), vldrwq_s32(bias + {at}));"]
        if self.residual:
            value = residual
            if self.has_factors:
                value = f"vshlq_s32({value}, vldrbq_s32(factors + {at}))"
            elif self.factor:
                value = f"vshlq_n_s32({value}, {self.factor})"
            lines.append(f"{name} = vaddq_s32({name}, {value});")
        if stage.multipliers:
            value = f"vshlq_n_s32({name}, {stage.left})" if stage.left else name
            lines.append(f"{name} = vmulhq_s32({value}, vldrwq_s32(multipliers + {at}));")
        rounded, shifted = "r" if stage.rounds else "", ""
        if self.has_shifts:
            shifted = f"shlq_s32({name}, vldrbq_s32(shifts + {at}))"
        elif shift := stage.shifts[0]:
            shifted = f"shrq_n_s32({name}, {shift})"
        if stage.is_even:
            lowest = f"vandq_s32(v{shifted}, vdupq_n_s32(1))"
            lines.append(f"{name} = vaddq_s32({name}, {lowest});")
        if shifted:
            lines.append(f"{name} = v{rounded}{shifted};")
        if stage.zero_point:
            lines.append(f"{name} = vaddq_n_s32({name}, {stage.zero_point});")
        return lines

    def _blocks(self) -> list[str]:
        """Return the C loop that converts 16 sums at a time to 8 bits."""
        low, high = self.stage.low, self.stage.high
        body: list[str] = []
        residuals = {"a": "ra", "b": "rb", "c": "rc", "d": "rd"}
        if self.residual == "int8_t":
            body += [
                "const int8x16_t r8 = vldrbq_s8(residual + o);",
                "const int16x8_t even = vmovlbq_s8(r8), odd = vmovltq_s8(r8);",
            ]
            residuals = {
                name: f"vmovl{half}q_s16({part})"
                for name, part, half in zip(
                    "abcd", ("even", "even", "odd", "odd"), ("b", "t", "b", "t"), strict=True
                )
            }
        elif self.residual:
            body.append("const uint32x4_t four = vidupq_n_u32(0, 4);")
            residuals = {
                name: f"vldrhq_gather_shifted_offset_s32(residual + o + {first}, four)"
                for name, first in zip("abcd", (0, 2, 1, 3), strict=True)
            }
        for i, name in enumerate("abcd"):
            at = f"o + {4 * i}" if i else "o"
            body += self._vector(name, at, residuals[name])
        body += [
            "const int16x8_t low = vqmovntq_s32(vqmovnbq_s32(vuninitializedq_s16(), a), b);",
            "const int16x8_t high = vqmovntq_s32(vqmovnbq_s32(vuninitializedq_s16(), c), d);",
            "int8x16_t v = vqmovntq_s16(vqmovnbq_s16(vuninitializedq_s8(), low), high);",
        ]
        if low > -128:
            body.append(f"v = vmaxq_s8(v, vdupq_n_s8({low}));")
        if high < 127:
            body.append(f"v = vminq_s8(v, vdupq_n_s8({high}));")
        if self.is_padded and self.total % BLOCK:
            body.append("vstrbq_p_s8(y + o, v, vctp8q((uint32_t)(n - o)));")
        else:
            body.append("vstrbq_s8(y + o, v);")
        head = "o < n" if self.is_padded else f"o + {BLOCK} <= n"
        return [f"    for (; {head}; o += {BLOCK}) {{", *(f"      {t}" for t in body), "    }"]

    def _rest(self) -> list[str]:
        """Return the C loop that converts four sums at a time, and the last incomplete vector."""
        stage, letter = self.stage, "b" if self.out == "int8_t" else "h"
        residual = ""
        if self.residual:
            kind = "b" if self.residual == "int8_t" else "h"
            residual = f"vldr{kind}q_z_s32(residual + o, p)"
        lines = [
            "    for (; o < n; o += 4) {",
            "      const mve_pred16_t p = vctp32q((uint32_t)(n - o));",
        ]
        lines += [f"      {text}" for text in self._vector("v", "o", residual)]
        lines += [
            f"      v = vmaxq_s32(v, vdupq_n_s32({stage.low}));",
            f"      v = vminq_s32(v, vdupq_n_s32({stage.high}));",
            f"      vstr{letter}q_p_s32(y + o, v, p);",
            "    }",
        ]
        return lines

    def _portable(self) -> list[str]:
        stage = self.stage
        lines = ["if (o >= n) continue;"] if self.is_padded else []
        lines.append("int32_t v = (int32_t)((uint32_t)sums[i] + (uint32_t)bias[i]);")
        if self.residual:
            factor = "(1 << factors[i])" if self.has_factors else str(1 << self.factor)
            lines.append(f"v += residual[o] * {factor};")
        if stage.multipliers:
            value = f"(int64_t)v * {1 << stage.left}" if stage.left else "(int64_t)v"
            lines.append(f"v = (int32_t)({value} * multipliers[i] >> 32);")
        shift = "-shifts[i]" if self.has_shifts else str(stage.shifts[0])
        if stage.rounds:
            half = "(1 << (-shifts[i] - 1))" if self.has_shifts else str(1 << stage.shifts[0] - 1)
            lines.append(f"v = (v + {half}) >> {shift};")
        elif self.has_shifts or stage.shifts[0]:
            lowest = f" + (v >> {shift} & 1)" if stage.is_even else ""
            lines.append(f"v = (v{lowest}) >> {shift};" if lowest else f"v >>= {shift};")
        if stage.zero_point:
            lines.append(f"v += {stage.zero_point};")
        low, high = stage.low, stage.high
        lines.append(f"y[o] = ({self.out})(v < {low} ? {low} : v > {high} ? {high} : v);")
        return lines
