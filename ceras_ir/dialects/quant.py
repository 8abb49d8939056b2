"""
Quantized elements: the type `!quant.uniform`, and the attribute of each requantization.

The type is written as in upstream MLIR, which refuses other attributes of `quant`. The attribute is
therefore `#graph.requant`.
"""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    ArrayAttr,
    Float16Type,
    Float32Type,
    FloatData,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    f32,
    i8,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    Dialect,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.str_enum import StrEnum

BYTE_BITS = 8
"""The bits of a byte, of narrow values, and of weights unless a layer has fewer."""

_WIDTHS = (*range(1, BYTE_BITS + 1), 16, 32)

MULTIPLIER_BITS = 31
"""The bits of a multiplier of a requantization."""


def decimal(value: float) -> str:
    """Return the shortest decimal that parses back to `value`, with the decimal point of MLIR."""
    text = repr(value)
    return text if "inf" in text or "." in text else text.replace("e", ".0e")


def stored_dtype(storage: Attribute) -> np.dtype[np.generic]:
    """Return the numpy type of stored elements. An element below 8 bits occupies a byte."""
    if isinstance(storage, Float16Type | Float32Type):
        return np.dtype(f"float{storage.bitwidth}")
    assert isa(storage, IntegerType)
    unsigned = storage.signedness.data == Signedness.UNSIGNED
    if storage.width.data == 1 and not unsigned:
        return np.dtype(np.bool_)
    return np.dtype(f"{'u' if unsigned else ''}int{max(storage.width.data, BYTE_BITS)}")


def packed(array: NDArray[np.generic], width: int) -> NDArray[np.uint8]:
    """
    Pack integers of `width` bits, 1 to 8, as target memory stores them: [R, ...] -> [R, bytes]. The
    elements of a row (an output channel) follow each other without gaps, the low bits of a byte
    first, and zeros fill the last byte of the row. A bit is 1 for the integer 1, and 0 for 0 or -1.
    """
    rows = array.reshape(*(array.shape[:1] or (1,)), -1).view(np.uint8)
    if width == 1:
        rows = rows & (rows != 255)
    bits = np.unpackbits(rows[:, :, None], axis=2, count=width, bitorder="little")
    return np.packbits(bits.reshape(len(rows), -1), axis=1, bitorder="little")


def unpacked(data: NDArray[np.uint8], count: int, bits: int) -> NDArray[np.uint8]:
    """
    Return the first `count` integers of `bits` bits (1, 2, 4 or 8) in `data`. The low bits of a
    byte are first.
    """
    mask = (1 << bits) - 1
    parts = np.stack([data >> shift & mask for shift in range(0, 8, bits)], axis=-1)
    return parts.reshape(-1)[:count].astype(np.uint8)


@irdl_attr_definition
class UniformType(ParametrizedAttribute, TypeAttribute):
    """
    An element that is stored as an integer: `real = scale * (stored - zero_point)`.

    `!quant.uniform<i8:f32, 0.5>`, `!quant.uniform<i8:f32, 0.5:-3>`, or per channel of dimension
    `axis`: `!quant.uniform<i8:f32:0, {0.5, 0.25:1}>`.

    The storage has 1 to 8 bits, signed (i1 to i8) or unsigned (u1 to u8), or 16 or 32 bits. i1 is
    bipolar: the integers are -1 and 1, as in binary networks, and the zero point is 0.
    """

    name = "quant.uniform"

    storage: IntegerType
    expressed: Float32Type
    axis: IntAttr | NoneAttr
    scales: ArrayAttr[FloatData]
    zero_points: ArrayAttr[IntAttr]

    def __init__(
        self,
        scales: float | Sequence[float],
        zero_points: int | Sequence[int] = 0,
        *,
        storage: IntegerType = i8,
        axis: int | None = None,
    ):
        scale_list = [scales] if isinstance(scales, int | float) else list(scales)
        points = (
            [zero_points] * len(scale_list) if isinstance(zero_points, int) else list(zero_points)
        )
        super().__init__(
            storage,
            f32,
            NoneAttr() if axis is None else IntAttr(axis),
            ArrayAttr([FloatData(float(s)) for s in scale_list]),
            ArrayAttr([IntAttr(int(z)) for z in points]),
        )

    @property
    def is_per_axis(self) -> bool:
        return isinstance(self.axis, IntAttr)

    @property
    def scale(self) -> float:
        """The scale of a per-tensor type."""
        assert not self.is_per_axis
        return self.scales.data[0].data

    @property
    def zero_point(self) -> int:
        """The zero point of a per-tensor type."""
        assert not self.is_per_axis
        return self.zero_points.data[0].data

    @property
    def width(self) -> int:
        """The number of bits of a stored integer."""
        return self.storage.width.data

    @property
    def is_signed(self) -> bool:
        return self.storage.signedness.data != Signedness.UNSIGNED

    @property
    def is_bipolar(self) -> bool:
        """Whether the stored integers are -1 and 1, in a bit."""
        return self.width == 1 and self.is_signed

    @property
    def unit(self) -> int:
        """The distance between neighboring stored integers."""
        return 2 if self.is_bipolar else 1

    @property
    def low(self) -> int:
        """The lowest stored integer."""
        return -(1 << self.width - 1) if self.is_signed else 0

    @property
    def high(self) -> int:
        """The highest stored integer."""
        return 1 if self.is_bipolar else (1 << self.width - int(self.is_signed)) - 1

    @property
    def reach(self) -> int:
        """
        The largest distance of a stored integer from the zero point of a per-tensor type: 128 for
        int8 without a zero point.
        """
        return max(self.high - self.zero_point, self.zero_point - self.low)

    def packed_bytes(self, shape: Sequence[int]) -> int:
        """
        Return the bytes of a tensor of `shape` in target memory: see `packed` for less than 8 bits.
        """
        bits = prod(shape[1:]) * self.width
        return prod(shape[:1]) * -(-bits // BYTE_BITS)

    def _changed(
        self,
        scales: Sequence[float],
        *,
        times: int = 1,
        storage: IntegerType | None = None,
        axis: int | None = None,
    ) -> "UniformType":
        """
        Return the type with these `scales` instead, and all scales and zero points `times` times.
        """
        if axis is None and isinstance(self.axis, IntAttr):
            axis = self.axis.data
        points = [point.data for point in self.zero_points] * times
        storage = storage or self.storage
        return UniformType([*scales] * times, points, storage=storage, axis=axis)

    @property
    def _scales(self) -> list[float]:
        return [scale.data for scale in self.scales]

    def widened(self, width: int) -> "UniformType":
        """Return the type with the same scales and integers, which are stored in `width` bits."""
        storage = IntegerType(width, self.storage.signedness.data)
        return self._changed(self._scales, storage=storage)

    def rescaled(self, factor: float, axis: int | None = None) -> "UniformType":
        """
        Return the type with all scales multiplied by `factor`. `axis` replaces the axis with a
        scale per index, if given.
        """
        return self._changed([scale * factor for scale in self._scales], axis=axis)

    def repeated(self, times: int, axis: int) -> "UniformType":
        """
        Return the type for a tensor that is repeated `times` times along `axis`, the axis with a
        scale per index: the list of scales is repeated.
        """
        return self._changed(self._scales, times=times, axis=axis)

    def verify(self) -> None:
        if self.width not in _WIDTHS:
            raise VerifyException(
                f"storage must be i1 to i8, u1 to u8, or 16 or 32 bits wide, got {self.storage}"
            )
        if not self.scales.data or len(self.scales) != len(self.zero_points):
            raise VerifyException("expected scales, and a zero point for each")
        if not self.is_per_axis and len(self.scales) != 1:
            raise VerifyException(f"a type without an axis has one scale, got {len(self.scales)}")
        for scale in self.scales:
            if not 0.0 < scale.data < float("inf"):
                raise VerifyException(f"scale must be positive and finite, got {scale.data}")
        for point in self.zero_points:
            if self.is_bipolar and point.data:
                raise VerifyException(f"the zero point of i1 must be 0, got {point.data}")
            if not self.low <= point.data <= self.high:
                raise VerifyException(
                    f"zero point must be in [{self.low}, {self.high}], got {point.data}"
                )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            start = parser.pos
            # Upstream writes unsigned storage as `u8`, which is not a type elsewhere.
            width = next((w for w in _WIDTHS if parser.parse_optional_keyword(f"u{w}")), None)
            if width is None:
                storage = parser.parse_type()
            else:
                storage = IntegerType(width, Signedness.UNSIGNED)
            if not isa(storage, IntegerType):
                parser.raise_error(
                    f"integer storage type expected, got {storage}", start, parser.pos
                )
            parser.parse_punctuation(":")
            if parser.parse_type() != f32:
                parser.raise_error("f32 is the only expressed type")
            axis = parser.parse_integer() if parser.parse_optional_punctuation(":") else None
            parser.parse_punctuation(",")

            def entry() -> tuple[float, int]:
                scale = float(parser.parse_number())
                has_zero_point = parser.parse_optional_punctuation(":") is not None
                return scale, parser.parse_integer() if has_zero_point else 0

            entries = (
                [entry()]
                if axis is None
                else parser.parse_comma_separated_list(parser.Delimiter.BRACES, entry)
            )
        scales, points = [scale for scale, _ in entries], [point for _, point in entries]
        return UniformType(scales, points, storage=storage, axis=axis).parameters

    def print_parameters(self, printer: Printer) -> None:
        entries = ", ".join(
            decimal(s.data) + (f":{z.data}" if z.data else "")
            for s, z in zip(self.scales, self.zero_points, strict=True)
        )
        with printer.in_angle_brackets():
            if self.is_signed:
                printer.print_attribute(self.storage)
            else:
                printer.print_string(f"u{self.width}")
            printer.print_string(":f32")
            if isinstance(self.axis, IntAttr):
                printer.print_string(f":{self.axis.data}, {{{entries}}}")
            else:
                printer.print_string(f", {entries}")


class Rounding(StrEnum):
    """The rounding of `v / 2**s`. The modes with `HALF` differ only on ties."""

    HALF_UP = "half_up"
    """Ties towards plus infinity: `(v + (1 << (s - 1))) >> s`, as a shifter computes."""
    HALF_AWAY = "half_away"
    """Ties away from zero."""
    HALF_EVEN = "half_even"
    """Ties to the even neighbor, as in IEEE 754 and ONNX."""
    FLOOR = "floor"
    """Towards minus infinity: `v >> s`."""
    DOUBLE_ROUND = "double_round"
    """
    Two roundings, as in the reference kernels of TensorFlow Lite and `double_round` of TOSA: half
    up by 31 bits, then half away from zero by `s - 31` bits; half up if `s` is at most 31.
    """


SINGLE_ROUNDINGS = tuple(mode for mode in Rounding if mode is not Rounding.DOUBLE_ROUND)
"""The modes in which a shift does not depend on the multiplier."""


@irdl_attr_definition
class RoundingAttr(EnumAttribute[Rounding], SpacedOpaqueSyntaxAttribute):
    name = "graph.rounding"


@irdl_attr_definition
class RequantAttr(ParametrizedAttribute):
    """
    The requantization of an integer accumulator to a stored value:

    `clamp(round(acc * multiplier / 2**shift) + zero_point, low, high)`

    The product has 64 bits, and `round` is a `Rounding`. A rescaling by a power of two has
    multiplier 1, or shift 0 if it scales up.

    Linear operations may have `multiplier = [M0, M1, ...]`, one per output channel, with a common
    shift. Multipliers are below 2^31. For `double_round` and `half_up` they may be wide: below
    2^62, of which only the upper 31 bits are not zero. These are the multiplier of the channel, and
    the shift is shorter by the number of other bits.
    """

    name = "graph.requant"

    multiplier: IntAttr
    shift: IntAttr
    rounding: RoundingAttr
    zero_point: IntAttr
    low: IntAttr
    high: IntAttr
    channels: ArrayAttr[IntAttr]
    """A multiplier per output channel, or empty; then `multiplier` is the maximum."""

    MAX_SHIFT: ClassVar = 62

    def __init__(
        self,
        shift: int,
        *,
        multiplier: int | Sequence[int] = 1,
        rounding: Rounding = Rounding.HALF_UP,
        zero_point: int = 0,
        low: int = -128,
        high: int = 127,
    ):
        channels = () if isinstance(multiplier, int) else tuple(multiplier)
        super().__init__(
            IntAttr(multiplier if isinstance(multiplier, int) else max(channels, default=1)),
            IntAttr(shift),
            RoundingAttr(rounding),
            IntAttr(zero_point),
            IntAttr(low),
            IntAttr(high),
            ArrayAttr([IntAttr(m) for m in channels]),
        )

    @property
    def is_per_channel(self) -> bool:
        """Whether each output channel has a separate multiplier."""
        return len(self.channels) > 0

    @property
    def multipliers(self) -> tuple[int, ...]:
        """The multipliers of output channels, or the common multiplier."""
        if not self.is_per_channel:
            return (self.multiplier.data,)
        return tuple(m.data for m in self.channels)

    @property
    def is_normalized(self) -> bool:
        """
        Whether the requantization rounds twice, or has wide multipliers (more than 31 bits, of
        which only the upper 31 are not zero).
        """
        return (
            self.rounding.data is Rounding.DOUBLE_ROUND
            or self.multiplier.data >= 1 << MULTIPLIER_BITS
        )

    @property
    def factors(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """
        Two lists: a multiplier of at most 31 bits, and a right shift. Each has an entry per output
        channel, or a single entry for all channels.
        """
        shift = self.shift.data
        excess = [max(m.bit_length() - MULTIPLIER_BITS, 0) for m in self.multipliers]
        return (
            tuple(m >> e for m, e in zip(self.multipliers, excess, strict=True)),
            tuple(shift - e for e in excess),
        )

    @property
    def net_shifts(self) -> tuple[int, ...]:
        """
        The right shift that has the same effect as multiplier and shift, for each output channel or
        for all. The multipliers must be powers of two.
        """
        return tuple(self.shift.data - (m.bit_length() - 1) for m in self.multipliers)

    @property
    def channel_shifts(self) -> tuple[int, ...]:
        """
        The right shift of each output channel that has the same effect as multiplier and shift;
        empty if all are equal. The multipliers must be powers of two.
        """
        shifts = self.net_shifts
        return shifts if len(set(shifts)) > 1 else ()

    @property
    def mode(self) -> Rounding:
        return self.rounding.data

    @property
    def is_shift(self) -> bool:
        """
        Whether a shifter, an adder and a clamp can compute the requantization: it has no multiplier
        and no zero point.
        """
        return self.multipliers == (1,) and self.zero_point.data == 0

    def clamped(self, low: int, high: int) -> "RequantAttr":
        """
        Return a copy that clamps to the intersection of the present clamp range with `[low, high]`.
        """
        return self.replaced(low=max(self.low.data, low), high=min(self.high.data, high))

    def replaced(
        self,
        *,
        multiplier: int | Sequence[int] | None = None,
        rounding: Rounding | None = None,
        **changed: int,
    ) -> "RequantAttr":
        """
        Return a copy with other values of the given fields: `multiplier`, `rounding`, `shift`,
        `zero_point`, `low` or `high`.
        """
        if multiplier is None:
            multiplier = self.multipliers if self.is_per_channel else self.multiplier.data
        names = ("shift", "zero_point", "low", "high")
        fields: dict[str, int] = {name: getattr(self, name).data for name in names}
        rounding = rounding or self.mode
        return RequantAttr(**{**fields, **changed}, multiplier=multiplier, rounding=rounding)

    def verify(self) -> None:
        if not 0 <= self.shift.data <= self.MAX_SHIFT:
            raise VerifyException(f"shift must be in [0, {self.MAX_SHIFT}], got {self.shift.data}")
        may_be_wide = self.mode in (Rounding.DOUBLE_ROUND, Rounding.HALF_UP)
        bits = 2 * MULTIPLIER_BITS if may_be_wide else MULTIPLIER_BITS
        for multiplier in self.multipliers:
            if not 1 <= multiplier < 1 << bits:
                raise VerifyException(f"multiplier must be in [1, 2^{bits}), got {multiplier}")
        if self.multiplier.data != max(self.multipliers):
            raise VerifyException(f"multiplier must be the maximum, got {self.multiplier.data}")
        if self.low.data > self.high.data:
            raise VerifyException(f"empty clamp range [{self.low.data}, {self.high.data}]")
        if not self.is_normalized:
            return
        for m, multiplier, shift in zip(self.multipliers, *self.factors, strict=True):
            if m.bit_length() > MULTIPLIER_BITS and m & (1 << m.bit_length() - MULTIPLIER_BITS) - 1:
                raise VerifyException(f"multiplier {m} must have at most 31 significant bits")
            if not 1 <= shift <= self.MAX_SHIFT:
                raise VerifyException(
                    f"the shift of multiplier {multiplier} must be in [1, {self.MAX_SHIFT}], "
                    f"got {shift}"
                )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        integers: dict[str, int] = {"multiplier": 1, "zero_point": 0}
        channels: list[int] = []
        rounding: Rounding | None = None
        required = ("shift", "rounding", "low", "high")
        parsed: set[str] = set()
        with parser.in_angle_brackets():
            while True:
                key = parser.parse_identifier()
                if key in parsed or key not in (*required, *integers):
                    parser.raise_error(f"unknown or repeated field '{key}' of #graph.requant")
                parsed.add(key)
                parser.parse_punctuation("=")
                if key == "rounding":
                    rounding = parser.parse_str_enum(Rounding)
                elif key == "multiplier" and (
                    listed := parser.parse_optional_comma_separated_list(
                        parser.Delimiter.SQUARE, parser.parse_integer
                    )
                ):
                    channels = listed
                else:
                    integers[key] = parser.parse_integer()
                if not parser.parse_optional_punctuation(","):
                    break
            if missing := [key for key in required if key not in parsed]:
                parser.raise_error(f"#graph.requant needs {', '.join(missing)}")
        assert rounding is not None
        factor = integers.pop("multiplier")
        return RequantAttr(**integers, multiplier=channels or factor, rounding=rounding).parameters

    def print_parameters(self, printer: Printer) -> None:
        fields: list[str] = []
        if self.is_per_channel:
            fields.append(f"multiplier = [{', '.join(map(str, self.multipliers))}]")
        elif self.multiplier.data != 1:
            fields.append(f"multiplier = {self.multiplier.data}")
        fields.append(f"shift = {self.shift.data}, rounding = {self.rounding.data}")
        if self.zero_point.data:
            fields.append(f"zero_point = {self.zero_point.data}")
        fields.append(f"low = {self.low.data}, high = {self.high.data}")
        printer.print_string(f"<{', '.join(fields)}>")


Quant = Dialect("quant", [], [UniformType])
