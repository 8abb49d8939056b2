"""
Depthwise convolution in vectors: the rows of a window are interleaved, so that one word holds a
column of a channel and one instruction adds up a column of 16 channels.
"""

from math import prod

import numpy as np

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_tiled import STEP, fused_bias, has_byte_products
from ceras_ir.backends.c.register_tiles import CONDITION, LANES
from ceras_ir.backends.c.requant import Rescaling
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.sums import Sums
from ceras_ir.backends.c.types import int_literal, value_type, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

MOST_COLUMNS = 8
"""Columns of a window whose weights stay in registers."""


def has_columns(
    layer: Layer, op: LinearOperation, geometry: Geometry, sums: Sums, rescale: Rescaling
) -> bool:
    """Whether an operation is a depthwise convolution that can be computed by columns."""
    if not geometry.depthwise or not has_byte_products(layer, op, sums):
        return False
    _, rows, columns, _ = shape_of(op.weights)
    if rows > STEP or columns > MOST_COLUMNS:
        return False
    return fused_bias(op, sums, rescale) is not None


def print_depthwise(
    layer: Layer,
    op: LinearOperation,
    sums: Sums,
    rescale: Rescaling,
    names: tuple[str, str, str],
) -> None:
    """The body of the layer's function where there are vectors."""
    assert isinstance(op, Conv2dOp) and op.requant is not None
    extra = fused_bias(op, sums, rescale)
    assert extra is not None
    x, y, residual = names
    images, height, width, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    stride_h, stride_w = op.strides.get_values()
    dilation_h, dilation_w = op.dilations.get_values()
    top, left = op.padding.get_values()[:2]
    stored = value_type(op.input)
    offset = 128 if stored == "int8_t" else 0
    padded = -(-channels // LANES) * LANES

    def packed() -> Array:
        result = np.zeros((kernel_w, padded, STEP), np.int8)
        filters = sums.centred().reshape(channels, kernel_h, kernel_w)
        result[:, :channels, :kernel_h] = filters.transpose(2, 0, 1)
        return result

    def padded_bias() -> Array:
        result = np.zeros(padded, np.int32)
        result[:channels] = sums.bias - offset * sums.per_output + extra
        return result

    layer.kernels.use("vectors_i8")
    w = layer.constant("weights", "int8_t", prod((kernel_w, padded, STEP)), 1, packed, CONDITION)
    b = layer.constant("bias", "int32_t", padded, 4, padded_bias, CONDITION)
    words = layer.kernels.add(*_words(stored, kernel_h, bool(channels % LANES)), CONDITION)
    point = zero_point_of(sums.x)
    is_padded = top > 0 or (rows - 1) * stride_h - top + (kernel_h - 1) * dilation_h >= height
    if is_padded:
        layer.scratch(stored, "border", width * channels, 1)
        layer.line(f"memset(border, {point}, {width * channels});")
    edge = int(np.uint32((point + offset) * 0x01010101).astype(np.int32))
    requant = op.requant
    layer.line(f"const model_i32v edge = ALL_I32({int_literal(edge)});")
    layer.line(
        f"const model_i32v least = ALL_I32({requant.low.data}), "
        f"most = ALL_I32({requant.high.data});"
    )
    first = f"r * {stride_h} - {top}" if top else f"r * {stride_h}"
    lines = [f"const int32_t first = {first};"]
    for k in range(kernel_h):
        row = f"first + {k * dilation_h}" if k else "first"
        image = f"n * {height} + " if images > 1 else ""
        at = f"{x} + ({image}{row}) * {width * channels}"
        if is_padded:
            at = f"{row} >= 0 && {row} < {height} ? {at} : border"
        lines.append(f"const {stored} *r{k} = {at};")
    mask = "0xFFFF"
    lines.append(f"for (int32_t c = 0; c < {channels}; c += {LANES}) {{")
    if channels % LANES:
        mask = "mask"
        lines.append(f"  const unsigned short mask = MASK({channels} - c);")
    lines += [
        f"  const model_i32v w{k} = LOAD_I32({w} + ({k * padded} + c) * {STEP});"
        for k in range(kernel_w)
    ]
    pointers = ", ".join(f"r{k}" for k in range(kernel_h))
    part = ", mask" if channels % LANES else ""

    def column(j: str) -> str:
        return f"{words}({pointers}, {j} * {channels} + c{part})"

    # What the next window sees again is kept; the rest of its columns is loaded.
    kept = max(kernel_w - stride_w, 0) if dilation_w == 1 else 0
    for k in range(kernel_w):
        value = "edge" if k >= kept or not 0 <= k - left < width else column(str(k - left))
        lines.append(f"  model_i32v v{k} = {value};")
    image = f"n * {rows} + " if images > 1 else ""
    lines += [
        f"  int8_t *to = {y} + ({image}r) * {columns * channels} + c;",
        f"  for (int32_t i = 0; i < {columns}; ++i, to += {channels}) {{",
    ]
    for k in range(kept, kernel_w):
        tap = k * dilation_w - left
        j = "i" if stride_w == 1 else f"i * {stride_w}"
        j = f"{j} + {tap}" if tap > 0 else f"{j} - {-tap}" if tap else j
        inside = [f"{j} >= 0"] if tap < 0 else []
        if (columns - 1) * stride_w + tap >= width:
            inside.append(f"{j} < {width}")
        value = column(f"({j})")
        if inside:
            value = f"{' && '.join(inside)} ? {value} : edge"
        lines.append(f"    v{k} = {value};")
    products = f"LOAD_I32({b} + c)"
    for k in range(kernel_w):
        products = f"DOT({products}, v{k}, w{k})"
    lines.append(f"    model_i32v sum = {products};")
    if residual:
        load = f"LOAD_SOME_I8({residual} + (to - {y}), {mask})"
        lines.append(f"    sum += WIDEN({load}) << {op.residual_left_shift};")
    lines.append(f"    STORE_I8(to, CLAMP(sum >> {requant.shift.data}, least, most), {mask});")
    lines += [f"    v{k} = v{k + stride_w};" for k in range(kept)]
    lines += ["  }", "}"]
    if images > 1:
        layer.line(f"for (int32_t n = 0; n < {images}; ++n) {{")
    layer.loop("r", rows, lines, 1 if images > 1 else 0)
    if images > 1:
        layer.line("}")


def _words(stored: str, rows: int, is_masked: bool) -> tuple[str, str]:
    """A function that interleaves 16 channels of a column of a window; name and text."""
    name = f"words_{stored}_{rows}" + ("_part" if is_masked else "")
    parameters = ", ".join(f"const {stored} *r{k}" for k in range(rows)) + ", int32_t at"
    load = "LOAD_I8(r{} + at)"
    if is_masked:
        parameters += ", unsigned short mask"
        load = "LOAD_SOME_I8(r{} + at, mask)"
    terms = [f"WIDEN_U8({load.format(k)})" + (f" << {8 * k}" if k else "") for k in range(rows)]
    value = " | ".join(f"({t})" if "<<" in t else t for t in terms)
    if stored == "int8_t":
        value = f"({value}) ^ ALL_I32((int32_t)0x80808080)"
    moved = ", each moved by 128" if stored == "int8_t" else ""
    return name, (
        f"/* Words of a byte from each of {rows} rows{moved}. */\n"
        f"static inline model_i32v {name}({parameters})\n{{\n  return {value};\n}}\n"
    )
