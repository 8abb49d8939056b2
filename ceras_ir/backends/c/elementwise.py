"""
Print elementwise operations, table lookup, softmax, and conversions between scales.

Elementwise operations are unary and binary functions with broadcasting, comparison, selection, and
casts between plain element types. Scales and zero points of conversions are per-tensor or
per-channel.
"""

from math import frexp, gcd, lcm, prod

import numpy as np
from xdsl.dialects.builtin import Float32Type, IntAttr, IntegerType, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.layer import Layer, broadcast_nest, from_row, prints
from ceras_ir.backends.c.register_tiles import LANES_PER_VECTOR
from ceras_ir.backends.c.values import (
    RELATIONS,
    SYMBOLS,
    Refused,
    Rescaling,
    apply,
    centred_bound,
    combine,
    int_literal,
    less,
    quantized,
    rescaling,
    sum_bound,
    value_type,
    zero_point_of,
)
from ceras_ir.backends.c.vector_functions import apply_to_all, vector_function
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import LookupOp, QuantizeOp, shape_of
from ceras_ir.dialects.quant import Rounding, UniformType
from ceras_ir.interpreters.float_text import float_literal
from ceras_ir.network import integer

MAX_TABLE_PARTS = 24
"""The maximum number of lookup instructions for 64 elements; beyond, a gather is as fast."""

MIN_PERIOD = 16
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
    result = apply(layer.kernels, op.function, "v")
    if factors is None:
        layer.line("MODEL_EACH_ALIKE" if layer.shares(size) else "MODEL_ALIKE")
        layer.loop("i", size, [f"const float v = {x}[i];", f"{y}[i] = {result};"])
        return
    # Channels are repeated to fill vectors: an index modulo the channels prevents vectorization.
    channels = factors[0].size
    period = _period(channels, size) if layer.options.vectors else channels
    numbers = [np.resize(side, period) for side in factors]
    names = layer.array("up", numbers[0], "float"), layer.array("down", numbers[1], "float")
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
        rescale = _rescaling(op)
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


def _rescaling(op: graph.BinaryOp) -> Rescaling:
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
    return rescaling(op.requant, bound, value_type(op.result))


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


@prints(LookupOp)
def lookup(layer: Layer, op: LookupOp) -> None:
    entries = op.tables.shape[1]
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    source, target = value_type(op.input), value_type(op.result)
    if target == "float":
        _lookup_floats(layer, op, x, y)
        return
    if source == "int8_t" and target == "int16_t" and not op.has_pixel_input:
        _lookup_halves(layer, op, x, y)
        return
    tables = op.tables
    if op.has_pixel_input:
        # Unsigned bytes are indices as signed bytes, into tables with exchanged halves.
        tables, source = np.roll(tables, entries // 2, axis=1), "int8_t"
    name = layer.constant("table", target, tables.size, tables.itemsize, lambda: tables)
    size = prod(shape_of(op.result))
    if op.has_pixel_input:
        layer.line(f"const int8_t *const bytes = (const int8_t *){x};")
        x = "bytes"
    if op.channel_rows is None and source == target == "int8_t":
        kernel = _lookup_kernel(layer)
        layer.rows(
            size,
            size,
            lambda first, count: (
                f"{kernel}({from_row(y, first, 1)}, {from_row(x, first, 1)}, {name}, {count});"
            ),
            LANES_PER_VECTOR * 4,
        )
        return
    first, channels = _first_entries(layer, op)
    if source == target == "int8_t":
        _lookup_channels(layer, size, (y, x, target), (name, "0"), (first, channels))
        return
    kernel = layer.kernels.use("lookup_rows", NAME=f"{source}_{target}", X=source, Y=target)
    rest = f"{name}, {first}, {entries // 2}, {channels}"
    if op.has_pixel_input or target == "int16_t" or _max_table_parts(op) > MAX_TABLE_PARTS:
        whole = size % channels == 0
        layer.rows(
            size // channels if whole else 1,
            size,
            lambda at, count: (
                f"{kernel}({from_row(y, at, channels)}, {from_row(x, at, channels)}, {rest}, "
                f"{f'{count} * {channels}' if whole else size});"
            ),
        )
        return
    layer.line(
        f"const int32_t done = {layer.kernels.use('lookup_finer')}({y}, {x}, {rest}, {size});"
    )
    layer.line(f"{kernel}({y} + done, {x} + done, {rest}, {size} - done);")


def _lookup_kernel(layer: Layer) -> str:
    if not layer.options.helium:
        return layer.kernels.use("lookup")
    from ceras_ir.backends.c.helium_elementwise import lookup_kernel

    return lookup_kernel(layer)


def _lookup_floats(layer: Layer, op: LookupOp, x: str, y: str) -> None:
    rows, entries = op.tables.shape
    half = entries // 2
    name = layer.constant("table", "float", rows * entries, 4, lambda: op.tables)
    at = f"{x}[i]"
    if not op.has_pixel_input:
        if value_type(op.input) == "int16_t":
            at = f"(v < {-half} ? {-half} : v >= {half} ? {half - 1} : v)".replace("v", at)
        at = f"{at} + {half}"
    if op.channel_rows is not None:
        starts = np.array(op.channel_rows, np.int32) * entries
        at = f"{layer.array('first', starts, 'int32_t')}[i % {len(starts)}] + {at}"
    layer.each(prod(shape_of(op.result)), [f"{y}[i] = {name}[{at}];"])


def _max_table_parts(op: LookupOp) -> int:
    """
    Return an upper bound of the number of table parts, of 128 entries each, in which a vector of 64
    elements must look up entries. Channels with different tables need more parts.
    """
    entries = op.tables.shape[1]
    rows = np.array(op.channel_rows or [0])
    lanes = np.resize(rows, (lcm(len(rows), 64) // 64, 64))
    return max(len(set(group)) for group in lanes.tolist()) * max(entries // 128, 1)


def _first_entries(layer: Layer, op: LookupOp) -> tuple[str, int]:
    """
    Add an array with the index of the table entry for input 0 of each channel, and return its C
    name and its length. If all channels have the same table, the index is repeated to fill a
    vector.
    """
    entries = op.tables.shape[1]
    starts = np.array(op.channel_rows or [0] * LANES_PER_VECTOR, np.int32) * entries + entries // 2
    return layer.array("first", starts, "int32_t"), len(starts)


LOOKUP_ROWS = 64
"""
The unit of rows for threads, of elements of all channels: a multiple of the 16 rows that
`lookup_blocks.c` looks up together, after it has collected the tables of the channels.
"""


def _lookup_halves(layer: Layer, op: LookupOp, x: str, y: str) -> None:
    """
    Print a table lookup from 8 to 16 bits for vector instructions: the low and the high bytes of
    the results are looked up in two tables.
    """
    entries = op.tables.astype(np.int16)
    low, high = (
        layer.constant(
            name, ctype, entries.size, 1, lambda n=shift: (entries >> n).astype(np.uint8)
        )
        for name, ctype, shift in (("low", "uint8_t", 0), ("high", "int8_t", 8))
    )
    size, starts = prod(shape_of(op.result)), _first_entries(layer, op)
    _lookup_channels(layer, size, (y, x, "int16_t"), (low, high), starts)


def _lookup_channels(
    layer: Layer,
    size: int,
    values: tuple[str, str, str],
    tables: tuple[str, str],
    starts: tuple[str, int],
) -> None:
    """
    Print a lookup of `size` bytes in tables of channels. `values` are the result, the input, and
    the C type of the result; `starts` is the result of `_first_entries`.
    """
    (y, x, target), (first, channels) = values, starts
    low = "int8_t" if target == "int8_t" else "uint8_t"
    kernel = layer.kernels.use("lookup_channels", NAME=target, Y=target, LOW=low)
    if layer.options.vectors:
        kernel = layer.kernels.use("lookup_blocks", NAME=target, Y=target, LOW=low)
    arguments = f"{', '.join(tables)}, {first}, {channels}"
    whole = size % channels == 0
    layer.rows(
        size // channels if whole else 1,
        size,
        lambda at, count: (
            f"{kernel}({from_row(y, at, channels)}, {from_row(x, at, channels)}, {arguments}, "
            f"{f'{count} * {channels}' if whole else size});"
        ),
        LOOKUP_ROWS,
    )


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


def _tables(layer: Layer, value: SSAValue) -> tuple[UniformType, str, str, str]:
    """
    Return the type of a value with per-channel scales, and C text: the name of the array of scales,
    the name of the array of zero points, and the declaration of `c`, the channel of element `i`.
    """
    element, shape = graph.element_of(value), shape_of(value)
    assert isinstance(element, UniformType) and isinstance(element.axis, IntAttr)
    axis = element.axis.data
    inner = prod(shape[axis + 1 :])
    scales = np.array([scale.data for scale in element.scales]).astype(np.float32)
    points = np.array([point.data for point in element.zero_points], np.int32)
    if element.storage.width.data > 16 and points.any():
        raise Refused("32-bit numbers with zero points; use zero point 0")
    index = "i" if inner == 1 else f"i / {inner}"
    return (
        element,
        layer.array("scales", scales, "float"),
        layer.array("points", points, "int32_t"),
        f"const int32_t c = {index} % {shape[axis]};",
    )


def _quantize_channels(layer: Layer, op: QuantizeOp) -> None:
    """Print `graph.quantize` with per-channel scales. A result of 32 bits raises `Refused`."""
    element, scales, points, channel = _tables(layer, op.result)
    if element.storage.width.data > 16:
        raise Refused("a 32-bit result with a scale per channel; use one for the tensor")
    if op.mode is not Rounding.HALF_EVEN:
        raise Refused("ties away from zero with a scale per channel; use one for the tensor")
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    rint = layer.kernels.use("rint_f32")
    low, high = int_literal(element.low), int_literal(element.high)
    body = [
        channel,
        f"float v = {x}[i] / {scales}[c];",
        "v = v == v ? v : 0.0f;",
        # Larger values remain out of range with any zero point.
        "v = v < -131072.0f ? -131072.0f : v > 131072.0f ? 131072.0f : v;",
        f"const int32_t q = (int32_t){rint}(v) + {points}[c];",
        f"{y}[i] = ({value_type(op.result)})(q < {low} ? {low} : q > {high} ? {high} : q);",
    ]
    layer.each(prod(shape_of(op.result)), body)


def _dequantize_channels(layer: Layer, op: graph.DequantizeOp) -> None:
    _, scales, points, channel = _tables(layer, op.input)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    body = [channel, f"{y}[i] = (float)({x}[i] - {points}[c]) * {scales}[c];"]
    layer.each(prod(shape_of(op.result)), body)


ROUNDED = 0x4B400000
"""The bits of 1.5 * 2^23 in float32. The bits of the sum with an integer differ by this integer."""


def _is_per_axis(value: SSAValue) -> bool:
    element = graph.element_of(value)
    return isinstance(element, UniformType) and element.is_per_axis


def _divided(scale: float) -> str:
    """
    Return the C text `/ scale`. If `scale` is a power of two, return the equal but faster `*
    inverse`.
    """
    fraction, exponent = frexp(scale)
    if fraction == 0.5 and abs(exponent) < 120:
        return f"* {float_literal(1.0 / scale)}"
    return f"/ {float_literal(scale)}"


@prints(QuantizeOp)
def quantize(layer: Layer, op: QuantizeOp) -> None:
    (_quantize_channels if _is_per_axis(op.result) else _quantize)(layer, op)


@prints(graph.ScaledQuantizeOp)
def scaled_quantize(layer: Layer, op: graph.ScaledQuantizeOp) -> None:
    _quantize(layer, op, f" * {float_literal(op.factor.value.data)}")


def _quantize(layer: Layer, op: QuantizeOp | graph.ScaledQuantizeOp, factor: str = "") -> None:
    element = quantized(op.result, "result")
    storage, point = value_type(op.result), element.zero_point
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    low, high = element.low - point, element.high - point
    head = [f"float v = {x}[i]{factor} {_divided(element.scale)};"]
    if isinstance(op, QuantizeOp) and op.mode is Rounding.HALF_AWAY:
        body = _rounded_away(head, element, f"{y}[i] = ({storage})")
    elif element.storage.width.data < 32:
        # 1.5 * 2^23 leaves no bits for a fraction. The bits of the sum are an integer in the order
        # of the values, including infinities. The bounds are integers, so the clamp may follow the
        # rounding.
        body = [
            *head,
            "v = (v == v ? v : 0.0f) + 12582912.0f; /* ties to even */",
            "int32_t q;",
            "(void)memcpy(&q, &v, sizeof q);",
            f"q = q < {ROUNDED + low} ? {ROUNDED + low} : q > {ROUNDED + high} ? {ROUNDED + high} "
            ": q;",
            f"{y}[i] = ({storage})(q - {ROUNDED - point});",
        ]
    else:
        rint = layer.kernels.use("rint_f32")
        body = [
            *head,
            "v = v == v ? v : 0.0f;",
            "v = v < -2147483648.0f ? -2147483648.0f : v > 2147483648.0f ? 2147483648.0f : v;",
            f"int64_t q = (int64_t){rint}(v);",
            f"q = (q > INT32_MAX ? INT32_MAX : q){less('', -point) if point else ''};",
            f"{y}[i] = ({storage})(q < {int_literal(element.low)} ? {int_literal(element.low)} "
            f": q > {int_literal(element.high)} ? {int_literal(element.high)} : q);",
        ]
    layer.each(prod(shape_of(op.result)), body)


def _rounded_away(head: list[str], element: UniformType, assignment: str) -> list[str]:
    """
    Return the C lines `head`, followed by lines that round `v` half away from zero and clamp it.
    `assignment` is the C text before the parenthesized result.
    """
    if element.storage.width.data > 16:
        raise Refused("a 32-bit result with ties away from zero; use 8 or 16 bits")
    point = element.zero_point
    low, high = (f"{bound - point}.0f" for bound in (element.low, element.high))
    return [
        *head,
        "v = v == v ? v : 0.0f;",
        f"v = v < {low} ? {low} : v > {high} ? {high} : v;",
        "int32_t q = (int32_t)v;",
        "const float rest = v - (float)q; /* exact */",
        "q += (rest >= 0.5f) - (rest <= -0.5f);",
        f"{assignment}(q{less('', -point) if point else ''});",
    ]


@prints(graph.DequantizeOp)
def dequantize(layer: Layer, op: graph.DequantizeOp) -> None:
    if _is_per_axis(op.input):
        _dequantize_channels(layer, op)
        return
    element = quantized(op.input, "input")
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    if centred_bound(element) > 1 << 31:
        raise Refused("a 32-bit input with a zero point; use zero point 0")
    value = less(f"{x}[i]", element.zero_point)
    layer.each(
        prod(shape_of(op.result)),
        [f"{y}[i] = (float)({value}) * {float_literal(element.scale)};"],
    )


@prints(graph.RequantizeOp)
def requantize(layer: Layer, op: graph.RequantizeOp) -> None:
    element = quantized(op.input, "input")
    rescale = rescaling(op.requant, centred_bound(element), value_type(op.result))
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    if layer.options.helium and value_type(op.input) == value_type(op.result) == "int8_t":
        # A gather looks up 16 elements, which takes fewer instructions than the arithmetic.
        values = np.arange(-128, 128) - zero_point_of(element)
        table = integer.requantize(values, op.requant, quantized(op.result, "result"))
        name = layer.array("table", table, "int8_t")
        layer.line(f"{_lookup_kernel(layer)}({y}, {x}, {name}, {prod(shape_of(op.result))});")
        return
    terms = [less(f"{x}[i]", zero_point_of(element))]
    layer.each(prod(shape_of(op.result)), rescale.lines(terms, f"{y}[i]"))
