"""
Access the attributes that specify how the values of a network are stored.

- `graph.range = array<f32: MIN, MAX>`: the range that calibration observed.
- `graph.exponent = E : i64`: the scale of the value is `2**E`.
- `graph.zero_point = Z : i64`: the integer that represents 0; by default 0.
- `graph.affine = array<i64: E, Z>`: the exponent and zero point with the smallest error, if a zero
  point stores the value better.
- `graph.precision`: the bits of a value, which otherwise has 8: "i16", or "i2" to "i7". "f32" keeps
  an operation in float; quantized consumers use 8 bits, or 16 bits with "f32,i16".

The attributes are attached to the operation that defines the value, or to the argument.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, frexp, ldexp
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    f32,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.network.integer import fitting_exponent
from ceras_ir.support.diagnostics import Finding, InputError, node_name

RANGE, EXPONENT, INPUT_RANGE = "graph.range", "graph.exponent", "graph.input_range"
"""
Attributes of a value: the observed range, the exponent of its scale and, for a graph input, a
declared range.
"""

WEIGHT_EXPONENT = "graph.weight_exponent"

BITS = "graph.weight_bits"
"""The bits in which the constant weights of a layer will be stored; by default 8."""

ROW_EXPONENTS = "graph.row_exponents"
"""
The differences between the exponents of output channels and `WEIGHT_EXPONENT`; never positive.
"""

ROW_FACTORS = "graph.row_factors"
"""Factors of the scales of output channels, in [1, 2), if these are not powers of two."""

WEIGHT_SCALES = (WEIGHT_EXPONENT, ROW_EXPONENTS, ROW_FACTORS)
"""Attributes that specify the scales of constant weights."""

STORED_TYPE = "graph.stored_type"
"""The type of less than 8 bits in which the model stores the weights of a float layer."""

LAYER = "graph.layer"
"""The number of an operation, kept by quantization, to compare both forms of a layer."""

EQUALIZED = "graph.equalized"
"""Marks a function with channels that are scaled by powers of two, unlike in the model."""

ZERO_POINT = "graph.zero_point"

AFFINE = "graph.affine"

HALF_EVEN = "graph.half_even"
"""
Attribute of a quantization: integer operations round ties to even, too; by default they round up.
"""

TIES_KEY = "ceras_ir.half_even"
"""
Metadata of exported ONNX models: the QuantizeLinear nodes after layers that round ties to even, a
name per line. An import rounds ties of the other layers up.
"""

STATISTICS = (RANGE, EXPONENT, ZERO_POINT, AFFINE)
"""Attributes of a value that must follow it to another producer."""


def copy_statistics(source: Operation, target: Operation) -> None:
    """
    Replace the statistics of `target` (range, exponent, zero point) by the statistics of `source`,
    because both operations define the same value.
    """
    drop_statistics(target)
    for name in STATISTICS:
        if name in source.attributes:
            target.attributes[name] = source.attributes[name]


def drop_statistics(op: Operation) -> None:
    """
    Remove the statistics (range, exponent, zero point) of the results of `op`, because the results
    have changed.
    """
    for name in STATISTICS:
        op.attributes.pop(name, None)


def drop_value_statistics(value: SSAValue) -> None:
    """
    Remove the statistics (range, exponent, zero point) of a value, which is an argument or a
    result.
    """
    for name in STATISTICS:
        set_attribute(value, name, None)


def attributes_of(value: SSAValue) -> Mapping[str, Attribute]:
    """
    Return the attributes of the operation that defines `value`; for an argument of a function, the
    attributes of the argument.
    """
    if not isinstance(value, BlockArgument):
        assert isinstance(value.owner, Operation)
        return value.owner.attributes
    function = value.owner.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return {}
    return function.arg_attrs.data[value.index].data


def set_attribute(value: SSAValue, name: str, attribute: Attribute | None) -> None:
    """Attach an attribute to the producer of `value` or to the argument; `None` removes it."""
    if not isinstance(value, BlockArgument):
        assert isinstance(value.owner, Operation)
        if attribute is None:
            value.owner.attributes.pop(name, None)
        else:
            value.owner.attributes[name] = attribute
        return
    function = value.owner.parent_op()
    assert isinstance(function, FuncOp)
    old = function.arg_attrs or ArrayAttr([DictionaryAttr({}) for _ in value.owner.args])
    entries = [dict(entry.data) for entry in old]
    entries[value.index].pop(name, None)
    if attribute is not None:
        entries[value.index][name] = attribute
    if function.arg_attrs is not None or any(entries):
        function.arg_attrs = ArrayAttr([DictionaryAttr(entry) for entry in entries])


def interval(value: SSAValue, name: str = RANGE) -> tuple[float, float] | None:
    """
    Return the lower and upper bound that are recorded for `value` in the attribute `name`, or
    `None` without such an attribute. An attribute of another form raises `InputError`.
    """
    attribute = attributes_of(value).get(name)
    if attribute is None:
        return None
    if isinstance(attribute, DenseArrayBase):
        bounds = [float(v) for v in attribute.get_values()]
        if len(bounds) == 2 and float("-inf") < bounds[0] <= bounds[1] < float("inf"):
            return bounds[0], bounds[1]
    raise _malformed(value, f"{name} must be array<f32: MIN, MAX>, got {attribute}")


def set_range(value: SSAValue, low: float, high: float) -> None:
    """Record [`low`, `high`] as the range that calibration observed for `value`."""
    set_attribute(value, RANGE, DenseArrayBase.from_list(f32, [low, high]))


def exponent(value: SSAValue) -> int | None:
    """
    Return the exponent e of the scale 2^e that was chosen for `value`, or `None` before a choice.
    """
    return _integer(value, EXPONENT)


def _integer(value: SSAValue, name: str) -> int | None:
    attribute = attributes_of(value).get(name)
    if attribute is None or isinstance(attribute, IntegerAttr):
        return None if attribute is None else attribute.value.data
    raise _malformed(value, f"{name} must be an integer, got {attribute}")


def set_exponent(value: SSAValue, chosen: int) -> None:
    """Record the exponent chosen for `value`."""
    set_attribute(value, EXPONENT, IntegerAttr(chosen, i64))


def zero_point(value: SSAValue) -> int:
    """Return the zero point chosen for `value`, by default 0."""
    return _integer(value, ZERO_POINT) or 0


def set_zero_point(value: SSAValue, chosen: int) -> None:
    """Record the zero point chosen for `value`."""
    set_attribute(value, ZERO_POINT, IntegerAttr(chosen, i64) if chosen else None)


def affine(value: SSAValue) -> tuple[int, int] | None:
    """
    Return the exponent of the scale and the zero point that calibration recommends for `value`, or
    `None` if a zero point does not make the error smaller.
    """
    attribute = attributes_of(value).get(AFFINE)
    if not isinstance(attribute, DenseArrayBase):
        return None
    exponent, point = (int(v) for v in attribute.get_values())
    return exponent, point


def set_affine(value: SSAValue, chosen: tuple[int, int] | None) -> None:
    """
    Record the exponent of the scale and the zero point with the smallest error for `value`; `None`
    removes them.
    """
    stored = None if chosen is None else DenseArrayBase.from_list(i64, list(chosen))
    set_attribute(value, AFFINE, stored)


def weight_exponent(op: Operation) -> int | None:
    """
    Return the exponent of the scale that was chosen for the constant weights of `op`, or `None`.
    """
    attribute = op.attributes.get(WEIGHT_EXPONENT)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def weight_bits(op: Operation) -> int:
    """Return the number of bits in which the constant weights of `op` will be stored."""
    attribute = op.attributes.get(BITS)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else BYTE_BITS


def weight_type(op: Operation) -> UniformType | None:
    """Return the type of the constant integer weights of `op`, or `None` without such weights."""
    if not isinstance(op, graph.LinearOperation) or not isinstance(
        op.weights.owner, graph.ConstantOp
    ):
        return None
    return graph.quantized_element(op.weights)


def row_exponents(op: Operation) -> tuple[int, ...] | None:
    """
    Return the integers that are added to `weight_exponent` for each output channel, or `None` if
    all channels have the same scale.
    """
    attribute = op.attributes.get(ROW_EXPONENTS)
    if not isinstance(attribute, DenseArrayBase):
        return None
    return tuple(int(v) for v in attribute.get_values())


def row_factors(op: Operation) -> tuple[float, ...] | None:
    """
    Return the factors, in [1, 2), by which the powers of two of output channels are multiplied, or
    `None` if the scales are powers of two.
    """
    attribute = op.attributes.get(ROW_FACTORS)
    if not isinstance(attribute, DenseArrayBase):
        return None
    return tuple(float(v) for v in attribute.get_values())


def row_scales(op: Operation) -> list[float] | None:
    """
    Return the scale of the weights of each output channel, or `None` if all channels have the scale
    `2**weight_exponent`.
    """
    exponent, rows = weight_exponent(op), row_exponents(op)
    if exponent is None or rows is None:
        return None
    factors = row_factors(op) or (1.0,) * len(rows)
    return [ldexp(f, exponent + row) for row, f in zip(rows, factors, strict=True)]


def set_row_scales(op: Operation, scales: Sequence[float]) -> None:
    """Record the scale of the weights of each output channel; they must be float32 numbers."""
    pairs = [frexp(scale) for scale in scales]
    exponents, factors = [e - 1 for _, e in pairs], [2 * m for m, _ in pairs]
    largest = max(exponents)
    op.attributes[WEIGHT_EXPONENT] = IntegerAttr(largest, i64)
    has_factors = any(factor != 1 for factor in factors)
    if has_factors or min(exponents) < largest:
        op.attributes[ROW_EXPONENTS] = graph.integers([e - largest for e in exponents])
    if has_factors:
        op.attributes[ROW_FACTORS] = DenseArrayBase.from_list(f32, factors)


def given_type(op: Operation) -> UniformType | None:
    """
    Return the type of less than 8 bits in which the model stores the weights of a float layer, or
    `None`.
    """
    known = op.attributes.get(STORED_TYPE)
    return known if isinstance(known, UniformType) else None


def network_values(block: Block) -> Iterator[SSAValue]:
    """Yield the values of a network: the arguments, then the results of operations."""
    yield from block.args
    for op in block.ops:
        yield from op.results


def missing_range(value: SSAValue) -> InputError:
    """Return (do not raise) the error for a value for which calibration did not choose a scale."""
    return _malformed(value, f"no {EXPONENT}: run --calibrate first")


def _malformed(value: SSAValue, message: str) -> InputError:
    if isinstance(value, BlockArgument):
        return InputError([Finding(value.name_hint or f"argument {value.index}", "input", message)])
    assert isinstance(value.owner, Operation)
    return InputError([Finding(node_name(value.owner), value.owner.name, message)])


PRECISION, FLOAT = "graph.precision", "f32"

FLOAT_REASON = "graph.float_reason"
"""The reason, for the report, why `graph.precision` keeps an operation in float."""

NARROW, WIDE = BYTE_BITS, 2 * BYTE_BITS
"""The bits of stored values, in the narrow and in the wide form."""

HEADROOM_BITS = 1
"""Spare bits of 16-bit values: twice the observed range is representable."""

MAX_RIGHT_SHIFT_BITS = 31
"""The largest right shift of 32-bit words."""

EXTRA_FRACTION_BITS = WIDE - NARROW - HEADROOM_BITS
"""The number of extra fractional bits that a 16-bit value has over the 8-bit form."""


def _words(attribute: Attribute | None) -> list[str]:
    return attribute.data.split(",") if isinstance(attribute, StringAttr) else []


def is_kept_in_float(op: Operation) -> bool:
    """Return whether `graph.precision` keeps an operation in float."""
    return FLOAT in _words(op.attributes.get(PRECISION))


def keep_in_float(op: Operation, reason: str) -> None:
    """
    Mark an operation to remain in float when the network is quantized. `reason` is a text for the
    report.
    """
    words = f"{FLOAT},{_word(WIDE)}" if width(op.results[0]) == WIDE else FLOAT
    op.attributes[PRECISION] = StringAttr(words)
    op.attributes[FLOAT_REASON] = StringAttr(reason)


def copy_precision(source: Operation, target: Operation) -> None:
    """
    Give `target` the precision attributes of `source`, if it has them: float or 16 bits, and the
    reason.
    """
    for name in (PRECISION, FLOAT_REASON):
        if (known := source.attributes.get(name)) is not None:
            target.attributes[name] = known


def keep_layer_in_float(op: Operation, reason: str) -> None:
    """
    Mark a layer to remain in float, and an activation function that is the only consumer. `reason`
    is a text for the report.
    """
    keep_in_float(op, reason)
    consumers = [use.operation for use in op.results[0].uses]
    if len(consumers) == 1 and isinstance(consumers[0], graph.UnaryOp):
        keep_in_float(consumers[0], reason)


def _word(bits: int) -> str:
    return f"i{bits}"


WIDTHS = {_word(bits): bits for bits in (*range(2, NARROW + 1), WIDE)}
"""The words of `graph.precision` for bits of values."""


def width(value: SSAValue) -> int:
    """
    Return the number of bits, 2 to 8 or 16, in which a value of the float network will be stored.
    """
    words = _words(attributes_of(value).get(PRECISION))
    return next((WIDTHS[word] for word in words if word in WIDTHS), NARROW)


def set_width(value: SSAValue, bits: int) -> None:
    """Mark a value of the float network to be stored in 2 to 8, or in 16 bits."""
    if width(value) == bits:
        return
    words = [word for word in _words(attributes_of(value).get(PRECISION)) if word not in WIDTHS]
    words += [_word(bits)] if bits != NARROW else []
    set_attribute(value, PRECISION, StringAttr(",".join(words)) if words else None)


def fitting_value_exponent(value: SSAValue, bounds: tuple[float, float]) -> int:
    """
    Return the smallest exponent of the scale of `value` that clips nothing in `bounds`, for the
    bits of the value. 16 bits represent twice the bounds.
    """
    bits, magnitude = width(value), max(-bounds[0], bounds[1])
    if bits == WIDE:
        return fitting_exponent(magnitude) - EXTRA_FRACTION_BITS
    return fitting_exponent(magnitude, signed_bounds(bits)[1])


def widen(value: SSAValue) -> None:
    """
    Mark a value to be stored in 16 bits, symmetric, with a scale at which twice the observed range
    is representable. Without an observed range, the range of the 8-bit exponent is used instead.
    """
    old_width, observed, known = width(value), interval(value), exponent(value)
    set_width(value, WIDE)
    set_zero_point(value, 0)
    if observed is not None:
        set_exponent(value, fitting_value_exponent(value, observed))
    elif known is not None and old_width < WIDE:
        set_exponent(value, known - (WIDE - old_width - HEADROOM_BITS))


def narrow_exponent(value: SSAValue, exponent: int) -> int:
    """
    Return the exponent of the scale at which a 16-bit value with the scale `2**exponent` is used in
    8 bits. It is `EXTRA_FRACTION_BITS` higher. If scale alignment has already raised `exponent`,
    less may be sufficient: the exponent that the observed range needs.
    """
    if (observed := observed_range(value)) is None:
        return exponent + EXTRA_FRACTION_BITS
    needed = fitting_exponent(max(-observed[0], observed[1]))
    return min(max(exponent, needed), exponent + EXTRA_FRACTION_BITS)


def observed_range(value: SSAValue) -> tuple[float, float] | None:
    """
    Return the observed range of a value. If it has none, return that of the value from which data
    movement copied it, or `None`.
    """
    while (observed := interval(value)) is None:
        owner = value.owner
        if not isinstance(owner, GraphOperation) or not owner.keeps_scale or owner.operands[1:]:
            return None
        value = owner.operands[0]
    return observed


def max_stored_distance(value: SSAValue) -> int:
    """
    Return the largest possible distance of a stored integer of `value` from the zero point: 128 for
    8 bits without a zero point.
    """
    return (1 << width(value) - 1) + abs(zero_point(value))


def signed_bounds(bits: int) -> tuple[int, int]:
    """Return the bounds of signed integers of `bits` bits."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def factor_exponents(
    op: graph.LinearOperation, exponent_of: Callable[[SSAValue], int]
) -> tuple[int, int]:
    """
    Return the exponents of the scales of the two factors of a convolution or matrix product: input
    and weights. `exponent_of` returns the exponent of a value.

    Constant weights and the input have the recorded exponents. Two computed factors are used in 8
    bits, because most sums of products of 16 bits would overflow. The scales are raised until a
    right shift of at most 31 bits converts the sums to the result.
    """
    chosen = weight_exponent(op)
    if chosen is not None:
        return exponent_of(op.input), chosen
    source, weights = (
        narrow_exponent(v, exponent_of(v)) if width(v) == WIDE else exponent_of(v)
        for v in (op.input, op.weights)
    )
    excess = max(exponent_of(op.result) - source - weights - MAX_RIGHT_SHIFT_BITS, 0)
    return source + excess // 2, weights + excess - excess // 2


class Storage(NamedTuple):
    """
    The storage of real values as integers: `real = 2**exponent * (stored - zero_point)`, in `bits`
    signed bits.
    """

    exponent: int
    bits: int = NARROW
    zero_point: int = 0

    @property
    def element(self) -> UniformType:
        """The element type of stored tensors."""
        return UniformType(
            ldexp(1.0, self.exponent), self.zero_point, storage=IntegerType(self.bits)
        )

    @property
    def symmetric_exponent(self) -> int:
        """
        The exponent of the scale that represents the same range without a zero point. It is higher
        by 1 if the zero point is at least 64 away from 0 in 8 bits (8 in 5 bits), so that the
        integers represent 1.5 times as much on a side.
        """
        return self.exponent + (abs(self.zero_point) >= 1 << self.bits - 2)


def zero_point_of(low: float, exponent: int, bits: int = NARROW) -> int:
    """
    Return the zero point at which the lowest integer of `bits` bits, such as -128, represents `low`
    or slightly less, at the scale `2**exponent`.
    """
    return signed_bounds(bits)[0] + ceil(ldexp(-low, -exponent))


def common_storage(storages: list[Storage], bits: int) -> Storage:
    """
    Return a storage of `bits` bits that represents the ranges of all `storages`: it has the largest
    scale. It has a zero point only if all `storages` have one and `bits` is at most 8.
    """
    if bits > NARROW or any(s.zero_point == 0 for s in storages):
        return Storage(max(s.symmetric_exponent for s in storages), bits)
    exponent = max(s.exponent for s in storages)
    lowest = min(ldexp(s.element.low - s.zero_point, s.exponent) for s in storages)
    return Storage(exponent, bits, zero_point_of(lowest, exponent, bits))
