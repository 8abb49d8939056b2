"""The contraction of a kernel before it is split into blocks, and the maximum over windows."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from ceras_ir.dialects.definition import irdl_op_definition
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import window_output
from ceras_ir.dialects.tile.memory import DRAM, ScheduleAttr, memref_type, packed_vector, space_of


@dataclass(frozen=True)
class WindowMaximum:
    """
    The maximum over windows of `kernel` elements, `strides` elements from each other; the first
    window starts `before` elements before the first element. All pairs are rows and columns.

    `fits` is true if maxima can be computed in place: no window contains the first element of the
    next window or exceeds the extent.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    before: tuple[int, int]

    @classmethod
    def of(cls, values: Sequence[int]) -> "WindowMaximum":
        kh, kw, sh, sw, top, left = values
        return cls((kh, kw), (sh, sw), (top, left))

    @property
    def values(self) -> tuple[int, ...]:
        return (*self.kernel, *self.strides, *self.before)

    @property
    def merged(self) -> int:
        """The number of sums of a convolution for each maximum: the product of the strides."""
        return self.strides[0] * self.strides[1]

    def results(self, rows: int, columns: int) -> tuple[int, int]:
        return rows // self.strides[0], columns // self.strides[1]

    def offsets(self, axis: int) -> list[int]:
        """
        Return the other elements of a window along `axis` (0 for rows, 1 for columns), as distances
        from the element at which the maximum is stored, a multiple of the stride.
        """
        kernel, before = self.kernel[axis], self.before[axis]
        return [offset for offset in range(-before, kernel - before) if offset]

    def fits(self, rows: int, columns: int) -> bool:
        """Return whether the maxima of `rows` x `columns` sums can be computed in place."""
        return all(
            stride > 1 and 0 <= before < stride and before < kernel <= before + stride
            for kernel, stride, before in zip(self.kernel, self.strides, self.before, strict=True)
        ) and not (rows % self.strides[0] or columns % self.strides[1])


@irdl_op_definition
class Conv2dOp(IRDLOperation):
    """
    Convolve packed buffers in DRAM, with `o`, `c` blocks of channels:

    `acc[n, o, y, x] = bias[o] + sum over c, i, j of
       input[n, g(o) + c, y*sh + i*dh - top, x*sw + j*dw - left] . transpose(weights[o, c, i, j])`
    `acc += (residual[n, o, y, x] . transpose(residual_weights)) << residual_shift`
    `q = clamp(acc >> shift >> shifts[o], low, high)`
    `output = q`, or the int8 result of `graph.shift_swish` for `q` and constants, rescaled half
       up by `swish = [shift, low, high]`

    A matrix product is the convolution of an image with one row.

    1. Positions outside `input` contribute `outside` in each lane. Rounding is in `bias`. `shifts`
       are in [0, 15], by default 0. The sums must be proven to fit 32 bits. Blocks of channels are
       in `groups` groups; g(o) is the first input block of the group of block o.
    2. Types: weights [O/B, C/B/groups, KH, KW, B out, B in], residual_weights [B, B], or [O/B, B,
       B] with a tile for each block o, bias and shifts [O/B, B], bends [7, O/B, B]: the constants
       -k0 to -k4, then k2 and k3.
    3. `border` [n, O/B, B] is required if `outside` is not zero: its contribution to the sums at
       the border, in the order of `backends/vta/schedule/contraction.py`.
    4. Bias and border may be digits, int8 [.., T, B out, B in] instead of [.., B]. The addend is
       the sum over t of `radix . transpose(digits[.., t])`, with `radix` [B], or [R, B] of equal
       rows.
    5. With `never_below` or `never_above`, no shifted sum is below `low` or above `high`.
    6. With `maximum = [kh, kw, sh, sw, top, left]`, `output` has the maximum `q` of each window of
       kh x kw results, sh and sw apart; the first starts top and left before the first result.
       Positions outside are ignored; see `WindowMaximum`.
    7. All lanes hold `uniform_bias` or `uniform_bends` if given. All lanes of block o of `shifts`
       hold `uniform_shifts[o]` if it is not -1.

        tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
            dilations = array<i64: 1, 1>, shift = 7, low = 0, high = 127}
            : memref<1x4x1x9x16xi8, "dram">, memref<4x4x1x1x16x16xi8, "dram">,
            memref<4x16xi32, "dram"> to memref<1x4x1x9x16xi8, "dram">
    """

    name = "tile.conv2d"

    input = operand_def(MemRefType)
    weights = operand_def(MemRefType)
    bias = operand_def(MemRefType)
    radix = opt_operand_def(MemRefType)
    residual = opt_operand_def(MemRefType)
    residual_weights = opt_operand_def(MemRefType)
    bends = opt_operand_def(MemRefType)
    border = opt_operand_def(MemRefType)
    shifts = opt_operand_def(MemRefType)
    output = operand_def(MemRefType)
    strides = prop_def(DenseArrayBase.constr(i64))
    padding = prop_def(DenseArrayBase.constr(i64))
    dilations = prop_def(DenseArrayBase.constr(i64))
    groups = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(1, i64))
    outside = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(0, i64))
    residual_shift = prop_def(IntegerAttr[IntegerType], default_value=IntegerAttr(0, i64))
    shift = prop_def(IntegerAttr[IntegerType])
    low = prop_def(IntegerAttr[IntegerType])
    high = prop_def(IntegerAttr[IntegerType])
    never_below = opt_prop_def(UnitAttr)
    never_above = opt_prop_def(UnitAttr)
    uniform_bias = opt_prop_def(IntegerAttr[IntegerType])
    uniform_shifts = opt_prop_def(DenseArrayBase.constr(i64))
    swish = opt_prop_def(DenseArrayBase.constr(i64))
    uniform_bends = opt_prop_def(DenseArrayBase.constr(i64))
    maximum = opt_prop_def(DenseArrayBase.constr(i64))
    schedule = opt_prop_def(ScheduleAttr)

    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$input `,` $weights `,` $bias (`radix` $radix^ `:` type($radix))? "
        "(`residual` $residual^ `,` $residual_weights `:` type($residual) `,` "
        "type($residual_weights))? (`swish` $bends^ `:` type($bends))? "
        "(`border` $border^ `:` type($border))? (`shifts` $shifts^ `:` type($shifts))? "
        "`to` $output attr-dict `:` type($input) `,` type($weights) `,` type($bias) `to` "
        "type($output)"
    )

    def __init__(
        self,
        input: SSAValue,
        weights: SSAValue,
        bias: SSAValue,
        residual: tuple[SSAValue, SSAValue] | None,
        output: SSAValue,
        *,
        strides: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0, 0, 0),
        dilations: Sequence[int] = (1, 1),
        groups: int = 1,
        radix: SSAValue | None = None,
        border: SSAValue | None = None,
        shifts: SSAValue | None = None,
        outside: int = 0,
        residual_shift: int = 0,
        shift: int = 0,
        low: int = -128,
        high: int = 127,
        proven: tuple[bool, bool] = (False, False),
        uniform_bias: int | None = None,
        uniform_shifts: Sequence[int] | None = None,
        bends: SSAValue | None = None,
        swish: Sequence[int] | None = None,
        uniform_bends: Sequence[int] | None = None,
        maximum: Sequence[int] | None = None,
    ):
        properties: dict[str, Attribute | None] = {
            "strides": integers(strides),
            "padding": integers(padding),
            "dilations": integers(dilations),
            "groups": IntegerAttr(groups, i64),
            "outside": IntegerAttr(outside, i64),
            "residual_shift": IntegerAttr(residual_shift, i64),
            "shift": IntegerAttr(shift, i64),
            "low": IntegerAttr(low, i64),
            "high": IntegerAttr(high, i64),
            "never_below": UnitAttr() if proven[0] else None,
            "never_above": UnitAttr() if proven[1] else None,
            "uniform_bias": None if uniform_bias is None else IntegerAttr(uniform_bias, i64),
            "uniform_shifts": None if uniform_shifts is None else integers(uniform_shifts),
            "swish": None if swish is None else integers(swish),
            "uniform_bends": None if uniform_bends is None else integers(uniform_bends),
            "maximum": None if maximum is None else integers(maximum),
        }
        super().__init__(
            operands=[
                *(input, weights, bias, radix, *(residual or (None, None))),
                *(bends, border, shifts, output),
            ],
            properties=properties,
        )

    @property
    def bias_tiles(self) -> int:
        """
        The number of tiles (int8 matrices) of digits in which the bias of a block of output
        channels is stored; 0 for a bias in int32.
        """
        return _tiles_of(self.bias)

    @property
    def border_tiles(self) -> int:
        """
        The number of tiles (int8 matrices) of digits in which each constant of the border is
        stored; 0 for constants in int32, and without a border.
        """
        return 0 if self.border is None else _tiles_of(self.border)

    @property
    def residual_tiles(self) -> int:
        """
        The number of weight tiles that add the residual to the sums: 0 without a residual, 1 for
        all blocks of output channels, or a tile for each block.
        """
        if self.residual_weights is None:
            return 0
        shape = memref_type(self.residual_weights).get_shape()
        return shape[0] if len(shape) == 3 else 1

    @property
    def window_maximum(self) -> WindowMaximum | None:
        return None if self.maximum is None else WindowMaximum.of(self.maximum.get_values())

    @property
    def plane(self) -> tuple[int, int]:
        """The number of rows and columns of sums, before the maximum over windows."""
        _, _, h, w, *_ = memref_type(self.input).get_shape()
        _, _, kh, kw, *_ = memref_type(self.weights).get_shape()
        (sh, sw), (dh, dw) = self.strides.get_values(), self.dilations.get_values()
        top, left, bottom, right = self.padding.get_values()
        rows = window_output(h, top, bottom, kh, sh, dh)
        return rows, window_output(w, left, right, kw, sw, dw)

    def verify_(self) -> None:
        constants = (self.bends, self.shifts)
        added = (self.bias, self.border)
        for value in self.operands:
            if space_of(value) != DRAM:
                raise VerifyException(f"operands must be in memory dram, got {value.type}")
            if value in added and _tiles_of(value):
                continue
            expected = i32 if value in constants or value in added else i8
            if memref_type(value).element_type != expected:
                raise VerifyException(f"elements must be {expected}, got {value.type}")
        vector = packed_vector(self.input)
        for name, length in (("strides", 2), ("padding", 4), ("dilations", 2)):
            values = getattr(self, name).get_values()
            if len(values) != length or min(values) < (name != "padding"):
                raise VerifyException(f"{name} must be {length} integers, got {list(values)}")
        if len(memref_type(self.weights).get_shape()) != 6:
            raise VerifyException(
                f"weights must be [O/B, C/B, KH, KW, B, B], got {self.weights.type}"
            )
        n, c, *_ = memref_type(self.input).get_shape()
        o, _, kh, kw, _, _ = memref_type(self.weights).get_shape()
        groups = self.groups.value.data
        if groups < 1 or c % groups or o % groups:
            raise VerifyException(
                f"groups must divide {c} input and {o} output blocks, got {groups}"
            )
        oh, ow = rows, columns = self.plane
        if self.maximum is not None:
            if len(self.maximum) != 6:
                raise VerifyException(
                    f"maximum must be kernel, strides and padding before, got {self.maximum}"
                )
            maximum = WindowMaximum.of(self.maximum.get_values())
            if not maximum.fits(rows, columns) or self.residual or self.swish or groups > 1:
                raise VerifyException(
                    f"a maximum {list(maximum.values)} of {rows} x {columns} results cannot be "
                    "computed in place; residual, swish and groups are not supported"
                )
            oh, ow = maximum.results(rows, columns)
        lanes = vector[-1]
        bias, border = (
            (tiles, lanes, lanes) if tiles else tuple(vector)
            for tiles in (self.bias_tiles, self.border_tiles)
        )
        shapes: list[tuple[str, SSAValue, tuple[int, ...]]] = [
            ("weights", self.weights, (o, c // groups, kh, kw, lanes, lanes)),
            ("bias", self.bias, (o, *bias)),
            ("output", self.output, (n, o, oh, ow, *vector)),
        ]
        if (self.residual is None) != (self.residual_weights is None):
            raise VerifyException("a residual and its weights belong together")
        if self.residual is not None and self.residual_weights is not None:
            shapes.append(("residual", self.residual, (n, o, oh, ow, *vector)))
            blocks = (o,) if memref_type(self.residual_weights).get_num_dims() == 3 else ()
            shapes.append(("residual_weights", self.residual_weights, (*blocks, lanes, lanes)))
        if (self.bends is None) != (self.swish is None):
            raise VerifyException("bends and 'swish' belong together")
        if self.bends is not None and self.swish is not None:
            shapes.append(("bends", self.bends, (7, o, *vector)))
            if len(self.swish) != 3:
                raise VerifyException(f"swish must be shift, low, high, got {self.swish}")
        if not -128 <= (outside := self.outside.value.data) <= 127:
            raise VerifyException(f"outside must be int8, got {outside}")
        if (self.border is None) != (outside == 0):
            raise VerifyException("a border and an 'outside' other than 0 belong together")
        if self.border is not None:
            kinds = memref_type(self.border).get_shape()[0]
            shapes.append(("border", self.border, (kinds, o, *border)))
        if (self.radix is None) == bool(self.bias_tiles or self.border_tiles):
            raise VerifyException("a radix and digits of a bias or a border belong together")
        if self.radix is not None:
            shapes.append(("radix", self.radix, tuple(vector)))
        if self.shifts is not None:
            shapes.append(("shifts", self.shifts, (o, *vector)))
        if self.uniform_shifts is not None and (
            self.shifts is None or len(self.uniform_shifts) != o
        ):
            raise VerifyException(f"uniform_shifts must be of {o} blocks of shifts")
        for name, value, shape in shapes:
            if (got := memref_type(value).get_shape()) != shape:
                raise VerifyException(f"{name} must have shape {shape}, got {got}")
        if not -31 <= self.shift.value.data <= 31:
            raise VerifyException(f"shift must be in [-31, 31], got {self.shift.value.data}")
        if not 0 <= self.residual_shift.value.data <= 31:
            raise VerifyException(
                f"residual_shift must be in [0, 31], got {self.residual_shift.value.data}"
            )
        bits = 8 if self.swish is None else 16
        limit = 1 << bits - 1
        if not -limit <= self.low.value.data <= self.high.value.data < limit:
            raise VerifyException(
                f"[low, high] must be a range of int{bits}, got "
                f"[{self.low.value.data}, {self.high.value.data}]"
            )


def _tiles_of(constants: SSAValue) -> int:
    """
    Return the number of tiles (int8 matrices) of digits in which each constant is stored, or 0 if
    the constants are int32.
    """
    kind = memref_type(constants)
    return kind.get_shape()[-3] if kind.element_type == i8 and kind.get_num_dims() > 3 else 0
