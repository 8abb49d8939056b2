"""
Elementwise operations: unary, binary with broadcasting, table lookup, softmax, comparison,
selection, and casts between plain element types.
"""

from math import gcd, lcm, prod

import numpy as np
from xdsl.dialects.builtin import Float32Type, IntegerType

from ceras_ir.backends.c.kernels import RELATIONS, SYMBOLS, apply, combine
from ceras_ir.backends.c.layer import Layer, broadcast_nest, prints
from ceras_ir.backends.c.register_tiles import LANES
from ceras_ir.backends.c.values import (
    Refused,
    centred_bound,
    less,
    quantized,
    rescaling,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects.graph import (
    Binary,
    BinaryOp,
    CastOp,
    CompareOp,
    LookupOp,
    SelectOp,
    ShiftSwishOp,
    SoftmaxOp,
    UnaryOp,
    element_of,
    numpy_dtype,
    shape_of,
)
from ceras_ir.interpreters.float_text import float_literal

MOST_PARTS = 24
"""Instructions that look up 64 elements before gathering each by itself is as fast."""

LEAST_PERIOD = 16
"""Numbers of a vector, of which loops over channels are multiples where they can be."""


@prints(UnaryOp)
def unary(layer: Layer, op: UnaryOp) -> None:
    """`graph.unary`."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    result = apply(layer.kernels, op.function, "v")
    size = prod(shape_of(op.result))
    if (factors := op.channel_factors) is None:
        layer.line("MODEL_ALIKE")
        layer.loop("i", size, [f"const float v = {x}[i];", f"{y}[i] = {result};"])
        return
    # As often as fills vectors: an index modulo the channels would keep compilers from them.
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
    """Elements after which channels repeat: vectors' worth, if `size` is a multiple of it."""
    times = LEAST_PERIOD // gcd(channels, LEAST_PERIOD)
    return channels * times if size % (channels * times) == 0 else channels


@prints(BinaryOp)
def binary(layer: Layer, op: BinaryOp) -> None:
    """`graph.binary`."""
    a, b = layer.read(op.lhs, "a"), layer.read(op.rhs, "b")
    if op.is_quantized:
        body = _quantized_body(layer, op, a, b)
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


def _quantized_body(layer: Layer, op: BinaryOp, a: str, b: str):
    assert op.requant is not None
    elements = quantized(op.lhs, "first operand"), quantized(op.rhs, "second operand")
    bounds = [centred_bound(e) * f for e, f in zip(elements, op.factors, strict=True)]
    bound = bounds[0] * bounds[1] if op.function is Binary.MUL else bounds[0] + bounds[1]
    if bound >= 1 << 63:
        raise Refused("a product of two 32-bit operands; requantize one to 8 or 16 bits")
    rescale = rescaling(op.requant, bound, value_type(op.result))
    y = layer.write(op.result)
    wide = rescale.type == "int64_t"

    def operand(pointer: str, at: str, side: int) -> str:
        centred = less(f"{pointer}[{at}]", zero_point_of(elements[side]))
        # 64 bits before the subtraction, for what is stored in 32.
        text = f"((int64_t){centred})" if wide else f"({centred})"
        return f"{text} * {op.factors[side]}" if op.factors[side] != 1 else text

    def body(at: list[str]) -> list[str]:
        left, right = operand(a, at[1], 0), operand(b, at[2], 1)
        value = f"({left} {SYMBOLS[op.function]} {right})"
        return rescale.lines([value], f"{y}[{at[0]}]")

    return body


@prints(LookupOp)
def lookup(layer: Layer, op: LookupOp) -> None:
    """`graph.lookup`."""
    rows, entries = op.tables.shape
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    source, target = value_type(op.input), value_type(op.result)
    if target == "float":
        _lookup_floats(layer, op, x, y)
        return
    if op.has_pixel_input:
        _lookup_pixels(layer, op, x, y)
        return
    if source == "int8_t" and target == "int16_t":
        _lookup_halves(layer, op, x, y)
        return
    bytes_each = op.tables.itemsize
    name = layer.constant("table", target, rows * entries, bytes_each, lambda: op.tables)
    size = prod(shape_of(op.result))
    if op.channel_rows is None and source == target == "int8_t":
        kernel = layer.kernels.use("lookup")
        layer.line(f"{kernel}({y}, {x}, {name}, {size});")
        return
    first, channels = _first_entries(layer, op)
    if source == target == "int8_t":
        kernel = layer.kernels.use("lookup_channels")
        layer.line(f"{kernel}({y}, {x}, {name}, {first}, {channels}, {size});")
        return
    kernel = layer.kernels.use("lookup_rows", NAME=f"{source}_{target}", X=source, Y=target)
    tables = f"{name}, {first}, {entries // 2}, {channels}"
    if target == "int16_t" or _most_parts(op) > MOST_PARTS:
        layer.line(f"{kernel}({y}, {x}, {tables}, {size});")
        return
    layer.line(
        f"const int32_t done = {layer.kernels.use('lookup_finer')}({y}, {x}, {tables}, {size});"
    )
    layer.line(f"{kernel}({y} + done, {x} + done, {tables}, {size} - done);")


def _lookup_floats(layer: Layer, op: LookupOp, x: str, y: str) -> None:
    """To floats, one element at a time."""
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
    layer.loop("i", prod(shape_of(op.result)), [f"{y}[i] = {name}[{at}];"])


def _lookup_pixels(layer: Layer, op: LookupOp, x: str, y: str) -> None:
    """
    Plain bytes: what they are as signed ones is the place in a table whose halves are exchanged.
    """
    tables = np.roll(op.tables, op.tables.shape[1] // 2, axis=1)
    target, size = value_type(op.result), prod(shape_of(op.result))
    name = layer.constant("table", target, tables.size, tables.itemsize, lambda: tables)
    layer.line(f"const int8_t *const bytes = (const int8_t *){x};")
    if target != "int8_t":
        first, channels = _first_entries(layer, op)
        kernel = layer.kernels.use("lookup_rows", NAME=f"int8_t_{target}", X="int8_t", Y=target)
        entries = op.tables.shape[1] // 2
        layer.line(f"{kernel}({y}, bytes, {name}, {first}, {entries}, {channels}, {size});")
    elif op.channel_rows is None:
        layer.line(f"{layer.kernels.use('lookup')}({y}, bytes, {name}, {size});")
    else:
        first, channels = _first_entries(layer, op)
        kernel = layer.kernels.use("lookup_channels")
        layer.line(f"{kernel}({y}, bytes, {name}, {first}, {channels}, {size});")


def _most_parts(op: LookupOp) -> int:
    """The most that 64 elements in a row look up in, in parts of 128 entries."""
    entries = op.tables.shape[1]
    rows = np.array(op.channel_rows or [0])
    lanes = np.resize(rows, (lcm(len(rows), 64) // 64, 64))
    return max(len(set(group)) for group in lanes.tolist()) * max(entries // 128, 1)


def _first_entries(layer: Layer, op: LookupOp) -> tuple[str, int]:
    """
    Where the tables of channels are as the index 0 sees them, so that a stored number is the index;
    and of how many. One table for all is said of a whole vector of elements.
    """
    entries = op.tables.shape[1]
    starts = np.array(op.channel_rows or [0] * LANES, np.int32) * entries + entries // 2
    return layer.array("first", starts, "int32_t"), len(starts)


def _lookup_halves(layer: Layer, op: LookupOp, x: str, y: str) -> None:
    """Of bytes, to 16 bits: two tables of bytes, which vector instructions look up."""
    entries = op.tables.astype(np.int16)
    low, high = (
        layer.constant(
            name, ctype, entries.size, 1, lambda n=shift: (entries >> n).astype(np.uint8)
        )
        for name, ctype, shift in (("low", "uint8_t", 0), ("high", "int8_t", 8))
    )
    first, channels = _first_entries(layer, op)
    size, kernel = prod(shape_of(op.result)), layer.kernels.use("lookup_halves")
    layer.line(f"{kernel}({y}, {x}, {low}, {high}, {first}, {channels}, {size});")


@prints(ShiftSwishOp)
def shift_swish(layer: Layer, op: ShiftSwishOp) -> None:
    """`graph.shift_swish`."""
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


@prints(SoftmaxOp)
def softmax(layer: Layer, op: SoftmaxOp) -> None:
    """`graph.softmax`."""
    shape, axis = shape_of(op.result), op.axis.value.data
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    kernel = layer.kernels.use("softmax")
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    layer.line(f"{kernel}({x}, {y}, {outer}, {shape[axis]}, {inner});")


@prints(CompareOp)
def compare(layer: Layer, op: CompareOp) -> None:
    """`graph.compare`."""
    a, b = layer.read(op.lhs, "a"), layer.read(op.rhs, "b")
    y, sign = layer.write(op.result), RELATIONS[op.function]
    broadcast_nest(
        layer,
        op,
        lambda at: [f"{y}[{at[0]}] = (uint8_t)({a}[{at[1]}] {sign} {b}[{at[2]}]);"],
    )


@prints(SelectOp)
def select(layer: Layer, op: SelectOp) -> None:
    """`graph.select`."""
    c, a, b = (layer.read(v, n) for v, n in zip(op.operands, "cab", strict=True))
    y = layer.write(op.result)
    broadcast_nest(
        layer,
        op,
        lambda at: [f"{y}[{at[0]}] = {c}[{at[1]}] ? {a}[{at[2]}] : {b}[{at[3]}];"],
    )


@prints(CastOp)
def cast(layer: Layer, op: CastOp) -> None:
    """`graph.cast`."""
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    source, target = element_of(op.input), element_of(op.result)
    storage, v = value_type(op.result), f"{x}[i]"
    if target == IntegerType(1):
        value = f"(uint8_t)({v} != 0)"
    elif isinstance(target, Float32Type) or not isinstance(source, Float32Type):
        value = f"({storage}){v}"
    else:
        layer.loop("i", prod(shape_of(op.result)), [f"const float v = {v};", *_clamped(op, y)])
        return
    layer.loop("i", prod(shape_of(op.result)), [f"{y}[i] = {value};"])


def _clamped(op: CastOp, y: str) -> list[str]:
    """C leaves undefined what the type does not hold; powers of two are exact float bounds."""
    dtype, storage = numpy_dtype(element_of(op.result)), value_type(op.result)
    name = dtype.name.upper()
    is_unsigned = dtype.kind == "u"
    bits = 8 * dtype.itemsize - (not is_unsigned)
    low, high = float_literal(-1.0 if is_unsigned else -(2.0**bits)), float_literal(2.0**bits)
    least = "0" if is_unsigned else f"{name}_MIN"
    return [
        f"{y}[i] = v != v ? 0 : v <= {low} ? {least} : v >= {high} ? {name}_MAX : ({storage})v;"
    ]
