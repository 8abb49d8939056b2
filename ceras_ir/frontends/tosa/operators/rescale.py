"""Import rescale, if possible as a part of the operation that computes the integers."""

from __future__ import annotations

from xdsl.dialects.builtin import i32

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary
from ceras_ir.frontends.tosa.operation import Operation, operation
from ceras_ir.frontends.tosa.rescaling import Rescaling
from ceras_ir.frontends.tosa.values import (
    STORAGE,
    Pending,
    Scaled,
    Sums,
    Value,
    as_plain,
    stored_type,
)


@operation("rescale")
def rescale(op: Operation) -> Value:
    """
    Import rescale: multiply integers by a factor for the tensor, or for each channel of the last
    dimension. If possible, it becomes the requantization of the operation that computes the
    integers.
    """
    scaling, unsigned = _scaling(op)
    emitter, value, source = op.emitter, op.value(0), op.element(0)
    if not any(unsigned):
        found = None
        if isinstance(value, Pending):
            found = _of_pending(op, value, scaling)
        elif source in STORAGE and len(scaling.multipliers) == 1:
            found = _of_stored(op, scaling)
        if found is not None:
            return found
    x = as_plain(emitter, value)
    if unsigned[0]:
        mask = 255 if source == "i8" else 65535
        x = emitter.cast(x, i32)
        x = emitter.binary(Binary.AND, x, emitter.number(mask, x))
    return op.plain_result(scaling.emitted(emitter, x))


def _of_pending(op: Operation, value: Pending, scaling: Rescaling) -> Value | None:
    """
    Return the result of a rescaling as part of the operation that computes `value`, sums that are
    not emitted yet. Return `None` if it cannot be part of that operation.
    """
    requant, target = scaling.requant(), op.result_element
    if requant is None or scaling.input_zp:
        return None
    if target == "i32" and isinstance(value, Scaled):
        return value.rescaled(scaling)
    if target not in STORAGE or (requant.is_per_channel and not isinstance(value, Sums)):
        return None
    element = stored_type(STORAGE[target], scaling.output_zp)
    return value.requantized(op.emitter, requant, element)


def _of_stored(op: Operation, scaling: Rescaling) -> Value | None:
    """
    Return the result of a rescaling of stored integers, or `None` if no single operation computes
    it. A result of 32 bits is not emitted before the consumer is known.
    """
    target = op.result_element
    x = op.stored(0, scaling.input_zp)
    if target == "i32" and not scaling.output_zp:
        return Scaled.of(x, scaling)
    requant = scaling.requant()
    if requant is None or target not in STORAGE:
        return None
    element = stored_type(STORAGE[target], scaling.output_zp)
    return op.emitter.emit(graph.RequantizeOp(x, element, requant))


def _scaling(op: Operation) -> tuple[Rescaling, tuple[bool, bool]]:
    """
    Return the parameters of a rescaling, and whether operand and result are unsigned although the
    types in the text have no sign.
    """
    multipliers, shifts = _list(op, "multiplier", 1), _list(op, "shift", 2)
    input_zp, output_zp = op.zero_point(3, "input_zp"), op.zero_point(4, "output_zp")
    source, target = op.element(0), op.result_element
    unsigned_in = op.flag("input_unsigned") and not source.startswith("u")
    unsigned_out = op.flag("output_unsigned") and not target.startswith("u")
    narrow = ("i8", "i16")
    if (unsigned_in and source not in narrow) or (unsigned_out and target not in narrow):
        raise op.wrong(f"unsigned {source} to {target}")
    channels = op.shape(0)[-1] if op.shape(0) else 1
    per_channel = op.flag("per_channel")
    count = channels if per_channel else 1
    if len(multipliers) != count or len(shifts) != count:
        raise op.wrong(f"{len(multipliers)} multipliers and {len(shifts)} shifts for {count}")
    most = 31 if op.flag("scale32", True) else 15
    if any(not 0 <= m < 1 << most for m in multipliers):
        raise op.wrong(f"multipliers must have at most {most} bits")
    if any(not 2 <= s <= 62 for s in shifts):
        raise op.wrong("shifts must be in [2, 62]")
    if len(set(zip(multipliers, shifts, strict=True))) == 1:
        multipliers, shifts = multipliers[:1], shifts[:1]
    mode = op.word("rounding_mode", "DOUBLE_ROUND" if op.flag("double_round") else "SINGLE_ROUND")
    if mode not in ("DOUBLE_ROUND", "SINGLE_ROUND", "INEXACT_ROUND"):
        raise op.unsupported(f"rounding_mode {mode}; use SINGLE_ROUND or DOUBLE_ROUND")
    width = {"i8": 8, "ui8": 8, "i16": 16, "i32": 32, "i48": 48}.get(target)
    if width is None or source not in ("i8", "ui8", "i16", "i32", "i48"):
        raise op.unsupported(f"from {source} to {target}; use i8, i16 or i32")
    signed = not (target.startswith("u") or unsigned_out)
    low = -(1 << width - 1) if signed else 0
    high = (1 << width - int(signed)) - 1
    mask = (1 << width) - 1
    if not signed:
        output_zp &= mask
    if unsigned_in or source.startswith("u"):
        input_zp &= 65535 if source == "i16" else 255
    if not low <= output_zp <= high:
        raise op.wrong(f"output zero point {output_zp} of {target}")
    twice = mode == "DOUBLE_ROUND"
    scaling = Rescaling(multipliers, shifts, twice, input_zp, output_zp, low, high)
    return scaling, (unsigned_in, unsigned_out)


def _list(op: Operation, name: str, index: int) -> tuple[int, ...]:
    """
    Return the multipliers or shifts of a rescaling: the attribute `name`, or operand `index`, a
    constant list of any length.
    """
    found = op.entries(name)
    if found is None:
        array = op.array(index)
        if array.dtype.kind not in "iu" or array.ndim != 1:
            raise op.wrong(f"operand {index} must be a list of integers")
        found = tuple(array.tolist())
    return found
