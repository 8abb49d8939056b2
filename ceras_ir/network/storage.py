"""
How values of a network are stored: ranges, exponents, zero points and precision, in the IR.

`graph.range = array<f32: MIN, MAX>` is what calibration saw, `graph.exponent = E : i64` the chosen
power of two: the value is stored in steps of `2**E`. `graph.zero_point = Z : i64` is the number
that stands for zero, by default 0. `graph.affine = array<i64: E, Z>` is both, where a zero point
would store the value better. `graph.precision` is "i16" for a value in 16 bits, which has 8 bits
without it. "f32", on operations only: the value stays float, and a quantized reader reads 8 bits,
or 16 of "f32,i16". The attributes belong to the result of their operation, or to their argument.
"""

from collections.abc import Callable, Iterator, Mapping
from math import ceil, ldexp
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
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.integer import fitting_exponent
from ceras_ir.support.diagnostics import Finding, InputError, node_name

RANGE, EXPONENT, INPUT_RANGE = "graph.range", "graph.exponent", "graph.input_range"
"""Names of the attributes; `graph.input_range` declares what a network's input may hold."""

WEIGHT_EXPONENT = "graph.weight_exponent"
"""The exponent of the constant weights of a convolution or matrix product."""

ROW_EXPONENTS = "graph.row_exponents"
"""By how much the exponent of each output channel's weights differs from that; not positive."""

LAYER = "graph.layer"
"""A number that an operation keeps when it is quantized, for comparing it with its float form."""

EQUALIZED = "graph.equalized"
"""On a function whose channels stand for powers of two of what those of its model do."""

ZERO_POINT = "graph.zero_point"
"""The number that stands for zero."""

AFFINE = "graph.affine"
"""The exponent and the zero point of the least error, where a zero point is worth it."""

STATISTICS = (RANGE, EXPONENT, ZERO_POINT, AFFINE)
"""What describes one value and must follow it when another operation makes it."""


def copy_statistics(source: Operation, target: Operation) -> None:
    """`target` now makes the value of `source`: what was known of its own no longer holds."""
    drop_statistics(target)
    for name in STATISTICS:
        if name in source.attributes:
            target.attributes[name] = source.attributes[name]


def drop_statistics(op: Operation) -> None:
    """Forget what was known of the results of `op`."""
    for name in STATISTICS:
        op.attributes.pop(name, None)


def forget(value: SSAValue) -> None:
    """The same of one value, which may be an argument."""
    for name in STATISTICS:
        set_attribute(value, name, None)


def attributes_of(value: SSAValue) -> Mapping[str, Attribute]:
    """The attributes that describe `value`."""
    if not isinstance(value, BlockArgument):
        assert isinstance(value.owner, Operation)
        return value.owner.attributes
    function = value.owner.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return {}
    return function.arg_attrs.data[value.index].data


def set_attribute(value: SSAValue, name: str, attribute: Attribute | None) -> None:
    """Attach an attribute to the operation or argument that makes `value`; None removes it."""
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
    """The interval recorded for `value` under `name`; a malformed one is an error."""
    attribute = attributes_of(value).get(name)
    if attribute is None:
        return None
    if isinstance(attribute, DenseArrayBase):
        ends = [float(v) for v in attribute.get_values()]
        if len(ends) == 2 and float("-inf") < ends[0] <= ends[1] < float("inf"):
            return ends[0], ends[1]
    raise _malformed(value, f"{name} must be array<f32: MIN, MAX>, got {attribute}")


def set_range(value: SSAValue, low: float, high: float) -> None:
    """Record what was seen of `value`."""
    set_attribute(value, RANGE, DenseArrayBase.from_list(f32, [low, high]))


def exponent(value: SSAValue) -> int | None:
    """The exponent recorded for `value`."""
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
    """The zero point chosen for `value`; 0 where none was."""
    return _integer(value, ZERO_POINT) or 0


def set_zero_point(value: SSAValue, chosen: int) -> None:
    """Record the zero point chosen for `value`."""
    set_attribute(value, ZERO_POINT, IntegerAttr(chosen, i64) if chosen else None)


def affine(value: SSAValue) -> tuple[int, int] | None:
    """The exponent and the zero point that calibration would give `value`."""
    attribute = attributes_of(value).get(AFFINE)
    if not isinstance(attribute, DenseArrayBase):
        return None
    exponent, point = (int(v) for v in attribute.get_values())
    return exponent, point


def set_affine(value: SSAValue, chosen: tuple[int, int] | None) -> None:
    """Record the exponent and the zero point that would store `value` best."""
    made = None if chosen is None else DenseArrayBase.from_list(i64, list(chosen))
    set_attribute(value, AFFINE, made)


def weight_exponent(op: Operation) -> int | None:
    """The exponent chosen for the constant weights of `op`."""
    attribute = op.attributes.get(WEIGHT_EXPONENT)
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def row_exponents(op: Operation) -> tuple[int, ...] | None:
    """What to add to `weight_exponent` for each output channel, if they differ."""
    attribute = op.attributes.get(ROW_EXPONENTS)
    if not isinstance(attribute, DenseArrayBase):
        return None
    return tuple(int(v) for v in attribute.get_values())


def network_values(block: Block) -> Iterator[SSAValue]:
    """Every value of a network: its arguments, then the results of its operations."""
    yield from block.args
    for op in block.ops:
        yield from op.results


def missing_range(value: SSAValue) -> InputError:
    """What is wrong when a value has no exponent although it needs one."""
    return _malformed(value, f"no {EXPONENT}: run --calibrate first")


def _malformed(value: SSAValue, message: str) -> InputError:
    if isinstance(value, BlockArgument):
        return InputError([Finding(value.name_hint or f"argument {value.index}", "input", message)])
    assert isinstance(value.owner, Operation)
    return InputError([Finding(node_name(value.owner), value.owner.name, message)])


PRECISION, FLOAT, INT16 = "graph.precision", "f32", "i16"
"""Attribute, and its values."""

FLOAT_REASON = "graph.float_reason"
"""Attribute of an operation that `graph.precision` keeps in float: why, for the report."""

NARROW, WIDE = 8, 16
"""Bits of stored values."""

HEADROOM = 1
"""Bits that a value in 16 bits has to spare above the range seen: twice of it is not clipped."""

LONGEST = 31
"""The longest shift of a shifter of 32-bit words."""

FINER = WIDE - NARROW - HEADROOM
"""By how much the exponent of a value in 16 bits is below the one that it has in 8."""


def _words(attribute: Attribute | None) -> list[str]:
    return attribute.data.split(",") if isinstance(attribute, StringAttr) else []


def stays_float(op: Operation) -> bool:
    """Whether `graph.precision` keeps an operation in float."""
    return FLOAT in _words(op.attributes.get(PRECISION))


def keep_in_float(op: Operation, reason: str) -> None:
    """Have an operation stay float."""
    both = f"{FLOAT},{INT16}"
    op.attributes[PRECISION] = StringAttr(both if width(op.results[0]) == WIDE else FLOAT)
    op.attributes[FLOAT_REASON] = StringAttr(reason)


def copy_precision(source: Operation, target: Operation) -> None:
    """Have `target` computed and stored as `source` is."""
    for name in (PRECISION, FLOAT_REASON):
        if (known := source.attributes.get(name)) is not None:
            target.attributes[name] = known


def keep_with_function_in_float(op: Operation, reason: str) -> None:
    """Have an operation, and the function that it ends with if there is one, stay float."""
    keep_in_float(op, reason)
    readers = [use.operation for use in op.results[0].uses]
    if len(readers) == 1 and isinstance(readers[0], graph.UnaryOp):
        keep_in_float(readers[0], reason)


def width(value: SSAValue) -> int:
    """In how many bits a value of the float network will be stored."""
    return WIDE if INT16 in _words(attributes_of(value).get(PRECISION)) else NARROW


def set_width(value: SSAValue, bits: int) -> None:
    """Have a value stored in 8 or 16 bits."""
    if width(value) == bits:
        return
    words = [word for word in _words(attributes_of(value).get(PRECISION)) if word != INT16]
    words += [INT16] if bits == WIDE else []
    set_attribute(value, PRECISION, StringAttr(",".join(words)) if words else None)


def widen(value: SSAValue) -> None:
    """
    Have a value stored in 16 bits, at an exponent that holds twice the range seen of it; where
    only an exponent for 8 bits is known, at one that holds twice as much as that.
    """
    was, seen, known = width(value), interval(value), exponent(value)
    set_width(value, WIDE)
    set_zero_point(value, 0)
    if seen is not None:
        set_exponent(value, fitting_exponent(max(-seen[0], seen[1])) - FINER)
    elif known is not None and was == NARROW:
        set_exponent(value, known - FINER)


def narrow_exponent(value: SSAValue, exponent: int) -> int:
    """
    The exponent at which 8 bits hold a value that is stored at `exponent` in 16: `FINER` above
    that, or where alignment has already coarsened that, the one that the range seen needs.
    """
    if (seen := seen_of_moved(value)) is None:
        return exponent + FINER
    needed = fitting_exponent(max(-seen[0], seen[1]))
    return min(max(exponent, needed), exponent + FINER)


def seen_of_moved(value: SSAValue) -> tuple[float, float] | None:
    """The range seen of a value, or of what it is moved from: a move has its only operand's."""
    while (seen := interval(value)) is None:
        owner = value.owner
        if not isinstance(owner, GraphOperation) or not owner.keeps_scale or owner.operands[1:]:
            return None
        value = owner.operands[0]
    return seen


def largest(value: SSAValue) -> int:
    """How far from its zero point what will be stored for a value can lie."""
    return (1 << width(value) - 1) + abs(zero_point(value))


def limits(bits: int) -> tuple[int, int]:
    """What so many bits hold."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def factor_exponents(
    op: graph.LinearOperation, exponent_of: Callable[[SSAValue], int]
) -> tuple[int, int]:
    """
    The exponents at which a product reads its input and its weights: their own, where weights
    are constant. Of two computed factors both are read in 8 bits, or few products would fit, and
    so coarse that the longest shift takes their sums to the result: what is finer vanishes there.
    """
    chosen = weight_exponent(op)
    if chosen is not None:
        return exponent_of(op.input), chosen
    source, weights = (
        narrow_exponent(v, exponent_of(v)) if width(v) == WIDE else exponent_of(v)
        for v in (op.input, op.weights)
    )
    excess = max(exponent_of(op.result) - source - weights - LONGEST, 0)
    return source + excess // 2, weights + excess - excess // 2


FAR = 64
"""A zero point from which int8 holds at least half as much again on one side as without."""


class Storage(NamedTuple):
    """`real = 2**exponent * (stored - zero_point)`, stored in so many signed bits."""

    exponent: int
    bits: int = NARROW
    zero_point: int = 0

    @property
    def element(self) -> UniformType:
        """The type of the stored numbers."""
        return UniformType(
            ldexp(1.0, self.exponent), self.zero_point, storage=IntegerType(self.bits)
        )

    @property
    def symmetric_exponent(self) -> int:
        """
        The exponent that holds as much without zero point. Where that is far off, int8 reaches
        half as far from zero without it, so that steps are twice as long; see `choose-zero-points`.
        """
        return self.exponent + (abs(self.zero_point) >= FAR)


def zero_point_of(low: float, exponent: int) -> int:
    """The zero point at which the least number of int8 stands for `low`, or just below it."""
    return limits(NARROW)[0] + ceil(ldexp(-low, -exponent))


def common_storage(storages: list[Storage], bits: int) -> Storage:
    """
    What holds all that any of `storages` does: the coarsest steps, and a zero point where all
    have one.
    """
    if bits != NARROW or any(s.zero_point == 0 for s in storages):
        return Storage(max(s.symmetric_exponent for s in storages), bits)
    exponent = max(s.exponent for s in storages)
    lowest = min(ldexp(s.element.low - s.zero_point, s.exponent) for s in storages)
    return Storage(exponent, bits, zero_point_of(lowest, exponent))
