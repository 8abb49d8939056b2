"""
Print elementwise operations and softmax.

Elementwise operations are unary and binary functions with broadcasting, comparison, selection, and
casts between plain element types.
"""

from math import gcd, prod

import numpy as np
from xdsl.dialects.builtin import Float32Type, IntegerType, i32

from ceras_ir.backends.c.layer import Layer, broadcast_nest, from_row, prints
from ceras_ir.backends.c.values import (
    RELATIONS,
    SYMBOLS,
    Refused,
    Rescaling,
    apply,
    centred_bound,
    combine,
    less,
    quantized,
    rescaling,
    sum_bound,
    value_type,
    zero_point_of,
)
from ceras_ir.backends.c.vector_functions import apply_to_all, vector_function
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.float_text import float_literal
from ceras_ir.network import integer

MIN_PERIOD = 32
"""The elements of a vector; loops over channels have a multiple of this length, if possible."""


SOFTMAX_ROWS = 8
"""The rows whose softmax `softmax_rows` computes together."""


@prints(graph.UnaryOp)
def unary(layer: Layer, op: graph.UnaryOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    size = prod(shape_of(op.result))
    factors = op.channel_factors
    if factors is None and (function := vector_function(layer, op.function)) is not None:
        apply_to_all(layer, function, x, y, size)
        return
    function = op.function.of_channel(0)
    result = apply(layer.kernels, function, "v")
    if factors is None:
        layer.line("MODEL_EACH_ALIKE" if layer.shares(size) else "MODEL_ALIKE")
        layer.loop("i", size, [f"const float v = {x}[i];", f"{y}[i] = {result};"])
        return
    # Channels are repeated to fill vectors: an index modulo the channels prevents vectorization.
    channels = factors[0].size
    period = _period(channels, size) if layer.options.vectors else channels
    numbers = [np.resize(side, period) for side in factors]
    names = layer.array("up", numbers[0], "float"), layer.array("down", numbers[1], "float")
    if (slopes := op.function.slopes) is not None:
        slope = layer.array("slope", np.resize(np.array(slopes, np.float32), period), "float")
        result = apply(layer.kernels, function, "v", (f"{slope}[i]",))
    layer.line(f"for (int32_t n = 0; n < {size}; n += {period}) {{")
    layer.line("MODEL_ALIKE", 1)
    body = [
        f"const float v = {x}[n + i] * {names[0]}[i];",
        f"{y}[n + i] = {result} * {names[1]}[i];",
    ]
    layer.loop("i", period, body, 1)
    layer.line("}")


def _period(channels: int, size: int) -> int:
    """
    Return the number of elements, a multiple of `channels`, that an iteration of the loop over
    `size` elements processes. It is the least common multiple of `channels` and `MIN_PERIOD` if
    that divides `size`, so that iterations fill vectors; otherwise it is `channels`.
    """
    times = MIN_PERIOD // gcd(channels, MIN_PERIOD)
    return channels * times if size % (channels * times) == 0 else channels


@prints(graph.BinaryOp)
def binary(layer: Layer, op: graph.BinaryOp) -> None:
    a, b = layer.read(op.lhs, "a"), layer.read(op.rhs, "b")
    if op.is_quantized:
        rescale = _rescaling(op, in_words=layer.options.vectors)
        y = layer.write(op.result)
        if layer.options.helium:
            from ceras_ir.backends.c.helium_elementwise import fits_vectors, print_vectors

            if fits_vectors(op, rescale):
                print_vectors(layer, op, (a, b, y))
                return
        body = _quantized_body(op, rescale, (a, b, y))
    else:
        y = layer.write(op.result)

        def body(at: list[str]) -> list[str]:
            ctype, left, right = value_type(op.result), f"{a}[{at[1]}]", f"{b}[{at[2]}]"
            value = combine(layer.kernels, op.function, ctype, left, right)
            if op.activation is None:
                return [f"{y}[{at[0]}] = {value};"]
            result = apply(layer.kernels, op.activation, "v")
            return [f"const float v = {value};", f"{y}[{at[0]}] = {result};"]

    broadcast_nest(layer, op, body)


SUMS = UniformType(1.0, storage=i32)
"""The type of addends that are requantized before their sum."""


def _rescaling(op: graph.BinaryOp, *, in_words: bool) -> Rescaling:
    assert op.requant is not None
    operands = zip((op.lhs, op.rhs), op.factors, strict=True)
    bounds = [sum_bound(value) * factor for value, factor in operands]
    if op.addends is not None:
        bounds = [
            max(abs(int(v)) for v in integer.requantize(np.array([-b, b]), r, SUMS))
            for b, r in zip(bounds, op.addends, strict=True)
        ]
    bound = bounds[0] * bounds[1] if op.function is graph.Binary.MUL else bounds[0] + bounds[1]
    if bound >= 1 << 63:
        raise Refused("a product of two 32-bit operands; requantize one to 8 or 16 bits")
    return rescaling(op.requant, bound, value_type(op.result), in_words=in_words)


def _quantized_body(op: graph.BinaryOp, rescale: Rescaling, pointers: tuple[str, str, str]):
    elements = quantized(op.lhs, "first operand"), quantized(op.rhs, "second operand")
    wide, (a, b, y) = rescale.type == "int64_t", pointers

    def operand(pointer: str, at: str, side: int) -> str:
        centred = less(f"{pointer}[{at}]", zero_point_of(elements[side]))
        # Convert to 64 bits before the subtraction, for 32-bit storage.
        text = f"((int64_t){centred})" if wide else f"({centred})"
        return f"{text} * {op.factors[side]}" if op.factors[side] != 1 else text

    def body(at: list[str]) -> list[str]:
        left, right = operand(a, at[1], 0), operand(b, at[2], 1)
        lines: list[str] = []
        if op.addends is not None:
            for name, text, side in (("left", left, 0), ("right", right, 1)):
                bound = centred_bound(elements[side]) * op.factors[side]
                addend = rescaling(op.addends[side], bound, "int32_t")
                lines += [f"int32_t {name};", "{", *addend.lines([text], name), "}"]
            left, right = ("(int64_t)left", "right") if wide else ("left", "right")
        value = f"({left} {SYMBOLS[op.function]} {right})"
        return [*lines, *rescale.lines([value], f"{y}[{at[0]}]")]

    return body


@prints(graph.ShiftSwishOp)
def shift_swish(layer: Layer, op: graph.ShiftSwishOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    bends = np.array(op.channel_bends, np.int32)
    name = layer.array("bends", bends, "int32_t")
    bound = centred_bound(quantized(op.input, "input"))
    rescale = rescaling(op.requant, bound, value_type(op.result))
    assert rescale.type == "int32_t"
    kernel = layer.kernels.use("shift_swish")
    channels, size = len(bends), prod(shape_of(op.result))
    layer.line(f"for (int32_t i = 0; i < {size // channels}; ++i) {{")
    layer.line(f"for (int32_t c = 0; c < {channels}; ++c) {{", 1)
    at = f"i * {channels} + c" if channels > 1 else "i"
    layer.block(rescale.lines([f"{kernel}({x}[{at}], {name} + 5 * c)"], f"{y}[{at}]"), 2)
    layer.line("}", 1)
    layer.line("}")


@prints(graph.SoftmaxOp)
def softmax(layer: Layer, op: graph.SoftmaxOp) -> None:
    shape, axis = shape_of(op.result), op.axis.value.data
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    row = shape[axis] * inner
    has_vectors = inner == 1 and layer.options.vectors
    kernel = layer.kernels.use("softmax_rows" if has_vectors else "softmax")
    further = "" if has_vectors else f", {inner}"
    layer.rows(
        outer,
        outer * row,
        lambda first, count: (
            f"{kernel}({from_row(x, first, row)}, {from_row(y, first, row)}, {count}, "
            f"{shape[axis]}{further});"
        ),
        SOFTMAX_ROWS if has_vectors else 1,
    )


@prints(graph.CompareOp)
def compare(layer: Layer, op: graph.CompareOp) -> None:
    a, b = layer.read(op.lhs, "a"), layer.read(op.rhs, "b")
    y, sign = layer.write(op.result), RELATIONS[op.function]
    broadcast_nest(
        layer, op, lambda at: [f"{y}[{at[0]}] = (uint8_t)({a}[{at[1]}] {sign} {b}[{at[2]}]);"]
    )


@prints(graph.SelectOp)
def select(layer: Layer, op: graph.SelectOp) -> None:
    c, a, b = (layer.read(v, n) for v, n in zip(op.operands, "cab", strict=True))
    y = layer.write(op.result)
    broadcast_nest(
        layer, op, lambda at: [f"{y}[{at[0]}] = {c}[{at[1]}] ? {a}[{at[2]}] : {b}[{at[3]}];"]
    )


@prints(graph.CastOp)
def cast(layer: Layer, op: graph.CastOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    source, target = graph.element_of(op.input), graph.element_of(op.result)
    storage, v = value_type(op.result), f"{x}[i]"
    if target == IntegerType(1):
        value = f"(uint8_t)({v} != 0)"
    elif isinstance(target, Float32Type) or not isinstance(source, Float32Type):
        value = f"({storage}){v}"
    else:
        layer.each(prod(shape_of(op.result)), [f"const float v = {v};", *_clamped(op, y)])
        return
    layer.each(prod(shape_of(op.result)), [f"{y}[i] = {value};"])


def _clamped(op: graph.CastOp, y: str) -> list[str]:
    """
    Return the C statement that converts the float `v` to an integer with saturation, because C
    leaves the conversion of larger values undefined. NaN becomes 0.
    """
    dtype, storage = graph.numpy_dtype(graph.element_of(op.result)), value_type(op.result)
    name = dtype.name.upper()
    is_unsigned = dtype.kind == "u"
    bits = 8 * dtype.itemsize - (not is_unsigned)
    low, high = float_literal(-1.0 if is_unsigned else -(2.0**bits)), float_literal(2.0**bits)
    minimum = "0" if is_unsigned else f"{name}_MIN"
    return [
        f"{y}[i] = v != v ? 0 : v <= {low} ? {minimum} : v >= {high} ? {name}_MAX : ({storage})v;"
    ]
