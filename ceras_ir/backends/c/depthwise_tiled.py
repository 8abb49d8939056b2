"""
Depthwise convolution in vectors: the rows of a window are interleaved, so that one word holds a
column of a channel and one instruction adds up a column of 8 channels, 32 channels at a time.
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
from ceras_ir.backends.c.tile_nest import LEAST_SHARED
from ceras_ir.backends.c.types import int_literal, value_type, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of
from ceras_ir.dialects.quant import RequantAttr

MOST_COLUMNS = 8
"""Columns of a window whose weights stay in registers or next to them."""

BLOCK = 32
"""Channels at a time; the last block starts earlier, so that it is whole."""

VECTORS = range(4)
"""Of 8 sums, for the channels of a block."""


def has_columns(
    layer: Layer, op: LinearOperation, geometry: Geometry, sums: Sums, rescale: Rescaling
) -> bool:
    """Whether an operation is a depthwise convolution that can be computed by columns."""
    if not geometry.depthwise or not has_byte_products(layer, op, sums):
        return False
    channels, rows, columns, _ = shape_of(op.weights)
    if rows > STEP or columns > MOST_COLUMNS or channels < BLOCK:
        return False
    return fused_bias(op, sums, rescale) is not None


def print_depthwise(
    layer: Layer,
    op: LinearOperation,
    sums: Sums,
    rescale: Rescaling,
    names: tuple[str, str, str],
) -> str:
    """The body of the layer's function where there are vectors; returns the weights' name."""
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

    layer.kernels.use("vectors_256")
    w = layer.constant("weights", "int8_t", prod((kernel_w, padded, STEP)), 1, packed)
    b = layer.constant("bias", "int32_t", padded, 4, padded_bias, CONDITION)
    words = layer.kernels.add(*_words(stored, kernel_h), CONDITION)
    point = zero_point_of(sums.x)
    is_padded = top > 0 or (rows - 1) * stride_h - top + (kernel_h - 1) * dilation_h >= height
    if is_padded:
        layer.scratch(stored, "border", width * channels, 1)
        layer.line(f"memset(border, {point}, {width * channels});")
    edge = int(np.uint32((point + offset) * 0x01010101).astype(np.int32))
    requant = op.requant
    layer.line(f"const model_256 edge = ALL_256({int_literal(edge)});")
    first = f"r * {stride_h} - {top}" if top else f"r * {stride_h}"
    lines = [f"const int32_t first = {first};"]
    for k in range(kernel_h):
        row = f"first + {k * dilation_h}" if k else "first"
        image = f"n * {height} + " if images > 1 else ""
        at = f"{x} + ({image}{row}) * {width * channels}"
        if is_padded:
            at = f"{row} >= 0 && {row} < {height} ? {at} : border"
        lines.append(f"const {stored} *r{k} = {at};")
    lines.append(f"for (int32_t c = 0; c < {channels}; c += {BLOCK}) {{")
    if channels % BLOCK:
        last = channels - BLOCK
        lines[-1] = f"for (int32_t b = 0; b < {channels}; b += {BLOCK}) {{"
        lines.append(f"  const int32_t c = b < {last} ? b : {last};")
    for k in range(kernel_w):
        at = f"{w} + (c + {k * padded}) * {STEP}" if k else f"{w} + c * {STEP}"
        lines += _loads(f"w{k}", at)
    lines += _loads("b", f"(const int8_t *)({b} + c)")
    pointers = ", ".join(f"r{k}" for k in range(kernel_h))

    def column(j: str, k: int) -> str:
        vectors = ", ".join(f"&v{k}{i}" for i in VECTORS)
        return f"{words}({pointers}, {j} * {channels} + c, {vectors});"

    # What the next window sees again is kept; the rest of its columns is loaded.
    kept = max(kernel_w - stride_w, 0) if dilation_w == 1 else 0
    for k in range(kernel_w):
        lines.append("  model_256 " + ", ".join(f"v{k}{j} = edge" for j in VECTORS) + ";")
        if k < kept and 0 <= k - left < width:
            lines.append("  " + column(str(k - left), k))
    image = f"n * {rows} + " if images > 1 else ""
    lines += [
        f"  {value_type(op.result)} *to = {y} + ({image}r) * {columns * channels} + c;",
        f"  for (int32_t i = 0; i < {columns}; ++i, to += {channels}) {{",
    ]
    for k in range(kept, kernel_w):
        tap = k * dilation_w - left
        j = "i" if stride_w == 1 else f"i * {stride_w}"
        j = f"{j} + {tap}" if tap > 0 else f"{j} - {-tap}" if tap else j
        inside = [f"{j} >= 0"] if tap < 0 else []
        if (columns - 1) * stride_w + tap >= width:
            inside.append(f"{j} < {width}")
        load = column(f"({j})", k)
        if inside:
            edges = ", ".join(f"v{k}{i} = edge" for i in VECTORS)
            lines += [f"    if ({' && '.join(inside)}) {load}", f"    else {edges};"]
        else:
            lines.append(f"    {load}")
    for i in VECTORS:
        products = f"b{i}"
        for k in range(kernel_w):
            products = f"DOT_256({products}, v{k}{i}, w{k}{i})"
        lines.append(f"    model_256 s{i} = {products};")
    if residual:
        skip = layer.kernels.add(*_words("int8_t", 1, is_signed=True), CONDITION)
        vectors = ", ".join(f"&skip{i}" for i in VECTORS)
        lines.append("    model_256 " + ", ".join(f"skip{i}" for i in VECTORS) + ";")
        lines.append(f"    {skip}({residual}, (int32_t)(to - {y}), {vectors});")
        lines += [
            f"    s{i} = ADD_256(s{i}, _mm256_slli_epi32(_mm256_srai_epi32(skip{i}, 24), "
            f"{op.residual_left_shift}));"
            for i in VECTORS
        ]
    lines += [f"    s{i} = _mm256_srai_epi32(s{i}, {requant.shift.data});" for i in VECTORS]
    lines += _stores(requant, 16 if value_type(op.result) == "int16_t" else 8)
    for k in range(kept):
        moves = ", ".join(f"v{k}{i} = v{k + stride_w}{i}" for i in VECTORS)
        lines.append(f"    {moves};")
    lines += ["  }", "}"]
    if images > 1:
        layer.line(f"for (int32_t n = 0; n < {images}; ++n) {{")
    if op.macs >= LEAST_SHARED:
        layer.line("MODEL_THREADS(1)", 1 if images > 1 else 0)
    layer.loop("r", rows, lines, 1 if images > 1 else 0)
    if images > 1:
        layer.line("}")
    return w


def _stores(requant: RequantAttr, bits: int) -> list[str]:
    """Statements that clamp and store the sums of a block."""
    parts = {"bytes": "NARROW"} if bits == 8 else {"lower": "LOWER_16", "upper": "UPPER_16"}
    low, high = requant.low.data, requant.high.data
    end = 1 << (bits - 1)
    lines: list[str] = []
    for i, (name, narrow) in enumerate(parts.items()):
        lines.append(f"    model_256 {name} = {narrow}(s0, s1, s2, s3);")
        for bound, function, is_used in (
            (low, "max", low > -end),
            (high, "min", high < end - 1),
        ):
            if is_used:
                call = f"_mm256_{function}_epi{bits}({name}, _mm256_set1_epi{bits}({bound}))"
                lines.append(f"    {name} = {call};")
        lines.append(f"    STORE_256(to{' + 16' if i else ''}, {name});")
    return lines


def _loads(name: str, at: str) -> list[str]:
    """Statements that load a block's words or sums."""
    loads = [f"{name}{j} = LOAD_PAIR({at}{f' + {16 * j}' if j else ''})" for j in VECTORS]
    return [
        f"  const model_256 {loads[0]}, {loads[1]};",
        f"  const model_256 {loads[2]}, {loads[3]};",
    ]


def _words(stored: str, rows: int, *, is_signed: bool = False) -> tuple[str, str]:
    """A function that interleaves 32 channels of a column of a window; name and text."""
    name = f"words_{stored}_{rows}" + ("_signed" if is_signed else "")
    parameters = ", ".join(f"const {stored} *r{k}" for k in range(rows)) + ", int32_t at"
    outputs = ", ".join(f"model_256 *v{j}" for j in VECTORS)
    moved = stored == "int8_t" and not is_signed
    flip = "_mm256_xor_si256({}, _mm256_set1_epi8(-128))" if moved else "{}"
    lines = [
        f"  const model_256 a{k} = {flip.format(f'LOAD_256(r{k} + at)')};" for k in range(rows)
    ]
    # What stands for a missing row meets weights of zero.
    a = [f"a{min(k, rows - 1)}" for k in range(STEP)]
    lines += [
        f"  const model_256 l0 = _mm256_unpacklo_epi8({a[0]}, {a[1]}), "
        f"h0 = _mm256_unpackhi_epi8({a[0]}, {a[1]});",
        f"  const model_256 l1 = _mm256_unpacklo_epi8({a[2]}, {a[3]}), "
        f"h1 = _mm256_unpackhi_epi8({a[2]}, {a[3]});",
        "  *v0 = _mm256_unpacklo_epi16(l0, l1), *v1 = _mm256_unpackhi_epi16(l0, l1);",
        "  *v2 = _mm256_unpacklo_epi16(h0, h1), *v3 = _mm256_unpackhi_epi16(h0, h1);",
    ]
    title = f"/* Words of a byte from each of {rows} rows{', moved by 128' if moved else ''}. */\n"
    body = "\n".join(lines)
    return name, f"{title}MODEL_INLINE void {name}({parameters}, {outputs})\n{{\n{body}\n}}\n"
