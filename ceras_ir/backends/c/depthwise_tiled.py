"""
Depthwise convolution in vectors: the rows of a window are interleaved, so that one word holds a
column of a channel and one instruction adds up a column of 8 channels, 32 channels at a time.

Elements of 16 bits, and bytes of fewer channels, are interleaved as pairs of 16 bits: a word holds
two rows of a column, 16 channels at a time. The weights are the same.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.epilogue import Epilogue, padded
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.linear_tiled import has_vector_products
from ceras_ir.backends.c.register_tiles import CONDITION, LANES
from ceras_ir.backends.c.tile_nest import LEAST_SHARED
from ceras_ir.backends.c.types import int_literal, value_type, zero_point_of
from ceras_ir.dialects.graph import shape_of

MOST_COLUMNS = 8
"""Columns of a window whose weights stay in registers or next to them."""

STEP = 4
"""Rows of a window at most: bytes of a word of weights."""


@dataclass(frozen=True)
class Words:
    """How a column of a window lies in vectors of 8 words."""

    block: int
    """Channels at a time; the last block starts earlier, so that it is whole."""
    groups: int
    """Words of a column: of four bytes there is one, of two numbers of 16 bits up to two."""

    @property
    def vectors(self) -> range:
        """Of 8 sums, for the channels of a block."""
        return range(self.block // 8)

    @property
    def parts(self) -> list[str]:
        """Names of the vectors of a column, all of one group before the next."""
        return [f"{g}{j}" if g else f"{j}" for g in range(self.groups) for j in self.vectors]

    @classmethod
    def of(cls, stored: str, channels: int, rows: int) -> "Words | None":
        if stored != "int16_t" and channels >= 32:
            return cls(32, 1)
        return cls(16, -(-rows // 2)) if channels >= 16 else None

    @property
    def are_pairs(self) -> bool:
        return self.block == 16


def has_columns(of: IntegerLayer) -> bool:
    """Whether an operation is a depthwise convolution that can be computed by columns."""
    op = of.op
    if not of.geometry.depthwise or not has_vector_products(of.layer, op, of.sums):
        return False
    channels, rows, columns, _ = shape_of(op.weights)
    words = Words.of(value_type(op.input), channels, rows)
    if words is None or rows > STEP or columns > MOST_COLUMNS:
        return False
    epilogue = Epilogue.of(op, of.sums, of.rescale)
    return epilogue is not None and (words.are_pairs or epilogue.residual_bits == 8)


def print_depthwise(of: IntegerLayer) -> str:
    """The body of the layer's function where there are vectors; returns the weights' name."""
    layer, op, sums, x, y = of.layer, of.window, of.sums, of.x, of.y
    epilogue = Epilogue.of(op, sums, of.rescale)
    assert epilogue is not None
    images, height, width, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    stride_h, stride_w = op.strides.get_values()
    dilation_h, dilation_w = op.dilations.get_values()
    top, left = op.padding.get_values()[:2]
    stored = value_type(op.input)
    kind = Words.of(stored, channels, kernel_h)
    assert kind is not None
    block, parts, vectors = kind.block, kind.parts, kind.vectors
    offset = 128 if stored == "int8_t" and not kind.are_pairs else 0
    count = -(-channels // LANES) * LANES

    def packed() -> Array:
        result = np.zeros((kernel_w, count, STEP), np.int8)
        filters = sums.centred().reshape(channels, kernel_h, kernel_w)
        result[:, :channels, :kernel_h] = filters.transpose(2, 0, 1)
        return result

    def bias() -> Array:
        return padded(sums.bias - offset * sums.per_output + epilogue.extra, count)

    layer.kernels.use("vectors_256")
    w = layer.constant("weights", "int8_t", prod((kernel_w, count, STEP)), 1, packed)
    b = layer.constant("bias", "int32_t", count, 4, bias, CONDITION)
    words = layer.kernels.add(*_words(stored, kernel_h, kind), CONDITION)
    point = zero_point_of(sums.x)
    is_padded = top > 0 or (rows - 1) * stride_h - top + (kernel_h - 1) * dilation_h >= height
    if is_padded:
        layer.scratch(stored, "border", width * channels, 2 if stored == "int16_t" else 1)
        layer.loop("i", width * channels, [f"border[i] = {point};"])
    repeated = 0x00010001 if kind.are_pairs else 0x01010101
    bits = 16 if kind.are_pairs else 8
    edge = int(np.uint32(((point + offset) & ((1 << bits) - 1)) * repeated).astype(np.int32))
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
    lines.append(f"for (int32_t c = 0; c < {channels}; c += {block}) {{")
    if channels % block:
        last = channels - block
        lines[-1] = f"for (int32_t b = 0; b < {channels}; b += {block}) {{"
        lines.append(f"  const int32_t c = b < {last} ? b : {last};")
    for k in range(kernel_w):
        at = f"{w} + (c + {k * count}) * {STEP}" if k else f"{w} + c * {STEP}"
        lines += _weights(f"w{k}", at, kind)
    lines += _loads("b", f"(const int8_t *)({b} + c)", kind)
    if epilogue.scale_bits:
        lines += _loads("m", f"(const int8_t *)({of.multipliers} + c)", kind)
    if epilogue.shifts:
        s = layer.constant(
            "shifts", "int32_t", count, 4, lambda: padded(epilogue.shifts, count), CONDITION
        )
        lines += _loads("right", f"(const int8_t *)({s} + c)", kind)
    if of.factors:
        lines += _loads("f", f"(const int8_t *)({of.factors} + c)", kind)
    pointers = ", ".join(f"r{k}" for k in range(kernel_h))

    def column(j: str, k: int) -> str:
        names = ", ".join(f"&v{k}{i}" for i in parts)
        return f"{words}({pointers}, {j} * {channels} + c, {names});"

    # What the next window sees again is kept; the rest of its columns is loaded.
    kept = max(kernel_w - stride_w, 0) if dilation_w == 1 else 0
    for k in range(kernel_w):
        lines.append("  model_256 " + ", ".join(f"v{k}{i} = edge" for i in parts) + ";")
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
            edges = ", ".join(f"v{k}{i} = edge" for i in parts)
            lines += [f"    if ({' && '.join(inside)}) {load}", f"    else {edges};"]
        else:
            lines.append(f"    {load}")
    dot = "DOT_WORDS_256" if kind.are_pairs else "DOT_256"
    for i in vectors:
        products = f"b{i}"
        for k in range(kernel_w):
            for g in range(kind.groups):
                part = f"{k}{parts[g * len(vectors) + i]}"
                products = f"{dot}({products}, v{part}, w{part})"
        lines.append(f"    model_256 s{i} = {products};")
    if op.residual is not None:
        skip = layer.kernels.add(*_residual_words(value_type(op.residual), kind), CONDITION)
        names_of = ", ".join(f"&skip{i}" for i in vectors)
        lines.append("    model_256 " + ", ".join(f"skip{i}" for i in vectors) + ";")
        lines.append(f"    {skip}({of.residual}, (int32_t)(to - {y}), {names_of});")
        for i in vectors:
            term = f"_mm256_srai_epi32(skip{i}, {32 - bits})"
            if of.factors:
                term = f"_mm256_mullo_epi32({term}, f{i})"
            else:
                term = f"_mm256_slli_epi32({term}, {op.residual_shifts[0]})"
            lines.append(f"    s{i} = ADD_256(s{i}, {term});")
    for i in vectors:
        shifted = f"_mm256_srai_epi32(s{i}, {epilogue.shift})"
        if epilogue.shifts:
            shifted = f"_mm256_srav_epi32(s{i}, right{i})"
        if epilogue.scale_bits:
            numbers = f"{int_literal(epilogue.after)}, {epilogue.shift}"
            shifted = f"SCALE_{epilogue.scale_bits}_256(s{i}, m{i}, {numbers})"
        lines.append(f"    s{i} = {shifted};")
    lines += _stores(epilogue, kind)
    for k in range(kept):
        moves = ", ".join(f"v{k}{i} = v{k + stride_w}{i}" for i in parts)
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


def _stores(e: Epilogue, kind: Words) -> list[str]:
    """Statements that narrow, clamp and store the sums of a block."""
    sums = ", ".join(f"s{i}" for i in kind.vectors)
    ways = {"whole": "NARROW"} if e.bits == 8 else {"lower": "LOWER_16", "upper": "UPPER_16"}
    bits = e.bits
    if kind.are_pairs:
        ways, bits = {"whole": "_mm256_packs_epi32"}, 16
    lines: list[str] = []
    for i, (name, narrow) in enumerate(ways.items()):
        lines.append(f"    model_256 {name} = {narrow}({sums});")
        for bound, function, is_used in ((e.low, "max", e.has_low), (e.high, "min", e.has_high)):
            if is_used:
                call = f"_mm256_{function}_epi{bits}({name}, _mm256_set1_epi{bits}({bound}))"
                lines.append(f"    {name} = {call};")
        store = "STORE_NARROW_256" if bits > e.bits else "STORE_256"
        lines.append(f"    {store}(to{' + 16' if i else ''}, {name});")
    return lines


def _weights(name: str, at: str, kind: Words) -> list[str]:
    """Statements that load the weights of a column for a block's channels."""
    if not kind.are_pairs:
        return _loads(name, at, kind)
    lines = _loads(f"{name}_", at, kind)
    for g, j in ((g, j) for g in range(kind.groups) for j in kind.vectors):
        part = kind.parts[g * len(kind.vectors) + j]
        half = "UPPER" if g else "LOWER"
        lines.append(f"  const model_256 {name}{part} = {half}_I8({name}_{j});")
    return lines


def _loads(name: str, at: str, kind: Words) -> list[str]:
    """Statements that load a block's words or sums."""
    return [
        f"  const model_256 {name}{j} = "
        f"LOAD_PAIR({at}{f' + {16 * j}' if j else ''}, {2 * kind.block});"
        for j in kind.vectors
    ]


def _words(stored: str, rows: int, kind: Words) -> tuple[str, str]:
    """A function that interleaves a block's channels of a column of a window; name and text."""
    if kind.are_pairs:
        return _pairs(stored, rows, kind)
    return _bytes(stored, rows, is_moved=stored == "int8_t")


def _residual_words(stored: str, kind: Words) -> tuple[str, str]:
    """The same of a residual, whose numbers end a word."""
    return _pairs(stored, 1, Words(16, 1)) if kind.are_pairs else _bytes(stored, 1, is_moved=False)


def _function(
    name: str, title: str, stored: str, rows: int, parts: list[str], body: list[str]
) -> tuple[str, str]:
    parameters = ", ".join(f"const {stored} *r{k}" for k in range(rows)) + ", int32_t at"
    outputs = ", ".join(f"model_256 *v{part}" for part in parts)
    head = f"/* {title} */\nMODEL_INLINE void {name}({parameters}, {outputs})"
    return name, "\n".join([head, "{", *body, "}", ""])


def _bytes(stored: str, rows: int, *, is_moved: bool) -> tuple[str, str]:
    """Words of four bytes of 32 channels."""
    name = f"words_{stored}_{rows}" + ("_moved" if is_moved else "")
    flip = "_mm256_xor_si256({}, _mm256_set1_epi8(-128))" if is_moved else "{}"
    # What stands for a missing row meets weights of zero.
    a = [f"a{min(k, rows - 1)}" for k in range(STEP)]
    lines = [
        *(f"  const model_256 a{k} = {flip.format(f'LOAD_256(r{k} + at)')};" for k in range(rows)),
        f"  const model_256 l0 = _mm256_unpacklo_epi8({a[0]}, {a[1]}), "
        f"h0 = _mm256_unpackhi_epi8({a[0]}, {a[1]});",
        f"  const model_256 l1 = _mm256_unpacklo_epi8({a[2]}, {a[3]}), "
        f"h1 = _mm256_unpackhi_epi8({a[2]}, {a[3]});",
        "  *v0 = _mm256_unpacklo_epi16(l0, l1), *v1 = _mm256_unpackhi_epi16(l0, l1);",
        "  *v2 = _mm256_unpacklo_epi16(h0, h1), *v3 = _mm256_unpackhi_epi16(h0, h1);",
    ]
    title = f"Words of a byte from each of {rows} rows{', moved by 128' if is_moved else ''}."
    return _function(name, title, stored, rows, [str(j) for j in range(4)], lines)


def _pairs(stored: str, rows: int, kind: Words) -> tuple[str, str]:
    """Words of two numbers of 16 bits of 16 channels."""
    load = {
        "int16_t": "LOAD_256(r{k} + at)",
        "int8_t": "_mm256_cvtepi8_epi16(HALF_256(r{k} + at))",
        "uint8_t": "_mm256_cvtepu8_epi16(HALF_256(r{k} + at))",
    }[stored]
    lines = [f"  const model_256 a{k} = {load.format(k=k)};" for k in range(rows)]
    for g in range(kind.groups):
        low, high = kind.parts[2 * g : 2 * g + 2]
        pair = f"a{2 * g}, a{min(2 * g + 1, rows - 1)}"
        lines.append(
            f"  *v{low} = _mm256_unpacklo_epi16({pair}), *v{high} = _mm256_unpackhi_epi16({pair});"
        )
    title = f"Words of 16 bits from each of two of {rows} rows."
    return _function(f"pairs_{stored}_{rows}", title, stored, rows, kind.parts, lines)
