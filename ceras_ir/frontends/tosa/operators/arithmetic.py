"""Import elementwise arithmetic, comparisons, selection, casts and clamp."""

from __future__ import annotations

from math import inf, isnan, prod

import numpy as np
from xdsl.dialects.builtin import f32, i1, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Function, quantized_element
from ceras_ir.dialects.graph.operation import broadcast_shape
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.frontends.onnx.emission.values import Constant, dtype_of_value
from ceras_ir.frontends.onnx.emission.values import Value as EmittedValue
from ceras_ir.frontends.tosa.operation import PLAIN, Operation, operation
from ceras_ir.frontends.tosa.rescaling import floor_quotient
from ceras_ir.frontends.tosa.values import (
    Combined,
    Scaled,
    Value,
    alike,
    shape_of,
)

BINARY = {
    "add": Binary.ADD, "sub": Binary.SUB, "maximum": Binary.MAX, "minimum": Binary.MIN,
    "pow": Binary.POW, "intdiv": Binary.DIV, "int_div": Binary.DIV, "div": Binary.DIV,
    "bitwise_and": Binary.AND, "bitwise_or": Binary.OR, "bitwise_xor": Binary.XOR,
    "logical_and": Binary.AND, "logical_or": Binary.OR, "logical_xor": Binary.XOR,
}  # fmt: skip


@operation(*BINARY)
def binary(op: Operation) -> Value:
    """
    Import an elementwise function of two operands, such as add. Integers wrap around. The sum of
    two rescaled operands becomes part of the rescaling that follows.
    """
    kind = BINARY[op.name]
    if kind in (Binary.ADD, Binary.SUB) and (combined := _combined(op, kind)) is not None:
        return combined
    a, b = op.plain(0), op.plain(1)
    if kind in (Binary.MAX, Binary.MIN) and op.is_float and op.word("nan_mode", "") == "IGNORE":
        return _without_nan(op, kind, a, b)
    if op.is_float and kind in (Binary.MAX, Binary.MIN):
        for index, bound in ((0, b), (1, a)):
            if (value := _scalar(bound)) is not None and len(op.shape(index)) >= len(
                shape_of(bound)
            ):
                bounds = (value, inf) if kind is Binary.MAX else (-inf, value)
                return _clipped(op, index, *bounds)
    return op.emitter.binary(kind, a, b)


def _combined(op: Operation, kind: Binary) -> Combined | None:
    """Return the function of rescaled integers, or of rescaled integers and a constant."""
    values = op.value(0), op.value(1)
    shape = broadcast_shape(*map(shape_of, values))
    if not any(isinstance(value, Scaled) for value in values):
        return None
    lhs, rhs = (Scaled.of_constant(op.emitter, value) for value in values)
    return Combined.of(kind, lhs, rhs, shape)


def _scalar(value: EmittedValue) -> float | None:
    """
    Return the number of a constant with a single element, or `None` for other values and for NaN.
    """
    if not isinstance(value, Constant) or prod(value.shape) != 1:
        return None
    number = float(value.load().reshape(-1)[0])
    return None if isnan(number) else number


def _clipped(op: Operation, index: int, low: float, high: float) -> SSAValue:
    """
    Clip operand `index`, a float value, to [low, high]. If the operand is a clip without other
    uses, both become a single clip.
    """
    emitter, x = op.emitter, op.real(index)
    producer = x.owner if isinstance(x, SSAValue) else None
    if isinstance(producer, graph.UnaryOp) and op.is_only_use(index):
        known = producer.function.clip_range
        # Clips in a row are a single one unless their ranges are disjoint.
        if known and known[0] <= high and low <= known[1]:
            x, low, high = producer.input, max(low, known[0]), min(high, known[1])
            emitter.block.erase_op(producer)
    if (low, high) == (0.0, inf):
        return emitter.unary(Function.RELU, x)
    return emitter.unary(Function.CLIP, x, low, high)


def _without_nan(op: Operation, kind: Binary, a: EmittedValue, b: EmittedValue) -> Value:
    """
    Return the maximum or minimum (`kind`) of two floats. If one of them is NaN, the result is the
    other.
    """
    emitter = op.emitter
    both = emitter.binary(kind, a, b)
    known = emitter.select(emitter.compare(Compare.EQUAL, b, b), both, a)
    return emitter.select(emitter.compare(Compare.EQUAL, a, a), known, b)


@operation("mul")
def multiply(op: Operation) -> Value:
    """Import mul. A product of 32-bit integers may be shifted right, rounded half up."""
    shift = op.integer("shift", 0)
    if op.has(2):
        array = op.array(2)
        if array.size != 1:
            raise op.wrong("a single shift expected")
        shift = int(array.reshape(-1)[0])
    if op.is_float:
        return op.emitter.mul(op.real(0), op.real(1))
    if not 0 <= shift <= 62:
        raise op.wrong(f"shift {shift}, expected at most 62")
    if not shift and (combined := _combined(op, Binary.MUL)) is not None:
        return combined
    emitter, kind = op.emitter, PLAIN[op.result_element]
    if not shift:
        return emitter.mul(*(emitter.cast(op.plain(i), kind) for i in range(2)))
    product = emitter.mul(*(emitter.cast(op.plain(i), i64) for i in range(2)))
    product = emitter.add(product, emitter.number(1 << shift - 1, product))
    divisor = emitter.number(1 << shift, product)
    return emitter.cast(floor_quotient(emitter, product, divisor), kind)


COMPARISONS = {
    "equal": Compare.EQUAL,
    "greater": Compare.LESS,
    "greater_equal": Compare.LESS_OR_EQUAL,
}


@operation(*COMPARISONS)
def compare(op: Operation) -> Value:
    """Import equal, greater or greater_equal."""
    a, b = op.plain(0), op.plain(1)
    if op.name != "equal":
        a, b = b, a
    return op.emitter.compare(COMPARISONS[op.name], a, b)


@operation("select")
def select(op: Operation) -> Value:
    """
    Import select: for each element, operand 1 if the condition (operand 0) is true, else operand 2.
    """
    chosen = alike(op.emitter, [op.value(1), op.value(2)])
    return op.emitter.select(op.plain(0), *chosen)


def _power_of_two(op: Operation, exponent: EmittedValue) -> EmittedValue:
    """Return `2 ** exponent` as i64, for exponents from 0 to 62."""
    if isinstance(exponent, Constant):
        array = exponent.load().astype(np.int64)
        if array.size and not 0 <= array.min() <= array.max() <= 62:
            raise op.wrong("a shift outside of [0, 62]")
        return op.emitter.constant(np.int64(1) << array, "powers")
    powers = (np.int64(1) << np.arange(63, dtype=np.int64)).reshape(-1, 1)
    table = op.emitter.constant(powers, "powers")
    return op.emitter.lookup(table, op.emitter.cast(exponent, i64))


@operation("arithmetic_right_shift", "logical_right_shift", "logical_left_shift")
def shift(op: Operation) -> Value:
    """
    Import shifts of integers. An arithmetic right shift divides and rounds down, or half up with
    the attribute `round`. A logical right shift inserts zeros, also for negative integers.
    """
    emitter = op.emitter
    x, by = emitter.cast(op.plain(0), i64), _power_of_two(op, op.plain(1))
    width = {"i8": 8, "i16": 16, "i32": 32}.get(op.element(0))
    if width is None:
        raise op.unsupported(f"of {op.element(0)}; use i8, i16 or i32")
    if op.name == "logical_left_shift":
        return op.plain_result(emitter.mul(x, by))
    if op.name == "logical_right_shift":
        x = emitter.binary(Binary.AND, x, emitter.number((1 << width) - 1, x))
        return op.plain_result(emitter.binary(Binary.DIV, x, by))
    if op.flag("round"):
        # Half of the divisor, which is 0 for a shift of 0.
        half = emitter.binary(Binary.DIV, by, emitter.number(2, by))
        x = emitter.add(x, half)
    return op.plain_result(floor_quotient(emitter, x, by))


@operation("cast")
def cast(op: Operation) -> Value:
    """
    Import cast. Floats become the nearest integers, with ties to even, and are clamped to the
    range.
    """
    emitter, x = op.emitter, op.plain(0)
    target = PLAIN[op.result_element]
    if op.is_float and target not in (f32, i1):
        x = emitter.unary(Function.ROUND, x)
    if isinstance(x, Constant) and op.is_float and target == f32:
        return x
    if target == i1 and op.is_float:
        zero = emitter.compare(Compare.EQUAL, x, emitter.number(0, x))
        return emitter.binary(Binary.XOR, zero, emitter.constant(np.array([True]), "true"))
    return emitter.cast(x, target)


@operation("clamp")
def clamp(op: Operation) -> Value:
    """Import clamp of floats or integers to constant bounds."""
    emitter = op.emitter
    old = "fp" if op.is_float else "int"
    low, high = _bound(op, "min_val", f"min_{old}"), _bound(op, "max_val", f"max_{old}")
    if not low <= high:
        raise op.wrong(
            f"the lower bound, min_val = {low}, exceeds the upper bound, max_val = {high}"
        )
    if op.is_float:
        bounds = _float_bounds(low, high)
        if op.word("nan_mode", "PROPAGATE") != "IGNORE":
            return _clipped(op, 0, *bounds)
        x = op.real(0)
        known = emitter.compare(Compare.EQUAL, x, x)
        result = emitter.unary(Function.CLIP, x, *bounds)
        return emitter.select(known, result, emitter.number(low))
    limits = int(low), int(high)
    value = op.value(0)
    known = quantized_element(value) if isinstance(value, SSAValue) else None
    if known is None or not isinstance(value, SSAValue):
        x = op.plain(0)
        info = np.iinfo(dtype_of_value(x).name)
        return emitter.bounded(x, max(limits[0], int(info.min)), min(limits[1], int(info.max)))
    limits = max(limits[0], known.low), min(limits[1], known.high)
    producer = value.owner
    if isinstance(producer, graph.GraphOperation) and op.is_only_use(0):
        requant = producer.properties.get("requant")
        if isinstance(requant, RequantAttr):
            low_now, high_now = requant.low.data, requant.high.data
            producer.properties["requant"] = requant.replaced(
                low=min(max(low_now, limits[0]), limits[1]),
                high=max(min(high_now, limits[1]), limits[0]),
            )
            return value
    if limits == (known.low, known.high):
        return value
    requant = RequantAttr(0, zero_point=known.zero_point, low=limits[0], high=limits[1])
    return emitter.emit(graph.RequantizeOp(value, known, requant))


def _bound(op: Operation, name: str, old: str) -> float:
    """Return the attribute `name`, or the attribute `old` of older MLIR."""
    for each in (name, old):
        if (value := op.number(each)) is not None:
            return value
    raise op.missing(name)


def _float_bounds(low: float, high: float) -> tuple[float, float]:
    """
    Return the bounds of a float clip; a bound that is not within the range of float32 becomes
    infinite.
    """
    largest = float(np.finfo(np.float32).max)
    low = -inf if low <= -largest else low
    high = inf if high >= largest else high
    return low, high


@operation("negate")
def negate(op: Operation) -> Value:
    """Import negate. Stored integers are negated around the zero points, and saturated."""
    if op.is_float:
        x = op.real(0)
        return op.emitter.mul(x, op.emitter.number(-1.0))
    emitter, element = op.emitter, op.element(0)
    points = op.zero_point(1, "input1_zp", "input_zp"), op.zero_point(2, "output_zp")
    x = emitter.cast(op.plain(0), i64)
    total = emitter.sub(emitter.number(points[0] + points[1], x), x)
    width = {"i8": 8, "i16": 16, "i32": 32}.get(element)
    if width is None:
        raise op.unsupported(f"of {element}; use i8, i16 or i32")
    bounded = emitter.bounded(total, -(1 << width - 1), (1 << width - 1) - 1)
    return op.plain_result(bounded)


@operation("identity")
def identity(op: Operation) -> Value:
    """Import identity, which returns the operand."""
    return op.value(0)
