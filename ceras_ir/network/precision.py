"""
How precisely values are kept: `graph.precision` on the operation or argument that makes them.

"i16": the value is stored in 16 bits, 8 without. "f32", on operations only: it stays float, and
what reads it quantized reads 8 bits, or 16 of "f32,i16".
"""

from collections.abc import Callable

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.network.exponents import fitting_exponent
from ceras_ir.network.ranges import (
    attributes_of,
    exponent,
    interval,
    set_attribute,
    set_exponent,
    set_zero_point,
    weight_exponent,
    zero_point,
)

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
