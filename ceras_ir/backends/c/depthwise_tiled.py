"""
Print depthwise convolutions for processors with vectors, 32 channels at a time.

The input is arranged in 32-bit words (`column_words.py`): bytes from four rows in the same column
and channel. A vector instruction multiplies the words of 8 channels by weights and adds the
products. Inputs of 16 bits, and layers with fewer than 32 channels, have two rows in a word, 16
channels at a time. Both use the same packed weights.

Vectors of 512 bits hold 32 channels in both cases. Four rows of the input then contribute to two
rows of results.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ceras_ir.backends.c.column_words import STEP, Words
from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.integer_layer import Epilogue, IntegerLayer, padded
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_tiled import has_vector_products
from ceras_ir.backends.c.packed_weights import WeightPanels, smaller_bits
from ceras_ir.backends.c.register_tiles import CONDITION, HAS_16_LANES, LANES_PER_VECTOR, TILES
from ceras_ir.backends.c.tile_loops import is_shared
from ceras_ir.backends.c.values import int_literal, value_type, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, shape_of

MAX_COLUMN_WORDS = 16
"""The maximum number of words of the columns of a window, which should fit in registers."""

SMALL_MAP = 256
"""
The number of positions of a feature map up to which a block of channels remains in the first-level
cache.
"""


@dataclass(frozen=True)
class Windows:
    """
    The sizes of a depthwise convolution in elements, each as a pair (height, width). An input and
    result of a single row are treated as a column: the pairs are (width, height).
    """

    size: tuple[int, int]
    result: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    before: tuple[int, int]
    """The rows of padding above the input, and the columns to the left of it."""

    @classmethod
    def of(cls, op: Conv2dOp) -> "Windows":
        pairs = [
            (pair[0], pair[1])
            for pair in (
                shape_of(op.input)[1:3], shape_of(op.result)[1:3], shape_of(op.weights)[1:3],
                op.strides.get_values(), op.dilations.get_values(), op.padding.get_values()[:2],
            )
        ]  # fmt: skip
        if pairs[0][0] == pairs[1][0] == pairs[2][0] == 1:
            pairs = [(across, down) for down, across in pairs]
        return cls(*pairs)


@dataclass(frozen=True)
class PackedFilters:
    """The constants of a depthwise layer that all vectors share."""

    panel: WeightPanels
    """The filters in a single panel, as [columns][rows / 4][channels][4]."""
    count: int
    """The number of channels, padded to complete vectors."""
    multipliers: str = ""
    shifts: str = ""
    """This and the previous name are "" if the output stage has no such array."""

    def expanded(self, layer: Layer) -> str:
        """
        Print the code that expands the filters to the workspace, unless they are stored as bytes.
        Return the C expression of the address of the bytes.
        """
        self.panel.expand_all(layer)
        return self.panel.whole


def has_columns(of: IntegerLayer) -> bool:
    """
    Return whether a layer is a depthwise convolution that vectors compute from words of columns: a
    32-bit word holds elements of a channel from several rows (see `column_words.py`).
    """
    op = of.op
    if not of.geometry.is_depthwise or not has_vector_products(of.layer, op, of.sums):
        return False
    rows, columns = Windows.of(of.window).kernel
    words = Words.narrow(value_type(op.input), shape_of(op.weights)[0], rows)
    if words is None or -(-rows // STEP) * columns > MAX_COLUMN_WORDS:
        return False
    epilogue = Epilogue.of(op, of.sums, of.rescale)
    return epilogue is not None and (words.are_pairs or epilogue.residual_bits == 8)


def pack_filters(of: IntegerLayer) -> PackedFilters:
    """Add the constants that all vectors share to the layer. `has_columns` must hold."""
    layer, sums = of.layer, of.sums
    epilogue = Epilogue.of(of.op, sums, of.rescale)
    assert epilogue is not None
    channels, (kernel_h, kernel_w) = shape_of(of.op.input)[3], Windows.of(of.window).kernel
    count = -(-channels // LANES_PER_VECTOR) * LANES_PER_VECTOR
    shape = kernel_w, -(-kernel_h // STEP), count, STEP

    def packed() -> Array:
        filters = np.zeros((count, shape[1] * STEP, kernel_w), np.int8)
        filters[:channels, :kernel_h] = sums.centred().reshape(channels, kernel_h, kernel_w)
        split = filters.reshape(count, shape[1], STEP, kernel_w)
        return np.ascontiguousarray(split.transpose(3, 1, 0, 2))

    size = prod(shape)
    panel = WeightPanels.add(layer, smaller_bits(layer, sums, size), 1, size, packed)
    multipliers = of.multiplier_array(count, TILES) if epilogue.scale_bits else ""
    shifts = of.shift_array(epilogue, count, TILES) if epilogue.shifts else ""
    return PackedFilters(panel, count, multipliers, shifts)


def print_depthwise(of: IntegerLayer, filters: PackedFilters) -> None:
    """
    Print the statements of a depthwise layer that use vector instructions of x86. `has_columns`
    must hold.
    """
    layer, op, sums = of.layer, of.window, of.sums
    epilogue = Epilogue.of(op, sums, of.rescale)
    assert epilogue is not None
    windows, channels, stored = Windows.of(op), shape_of(op.input)[3], value_type(op.input)
    (height, width), kernel_h = windows.size, windows.kernel[0]
    rows, stride_h, dilation_h = windows.result[0], windows.strides[0], windows.dilations[0]
    top = windows.before[0]
    narrow = Words.narrow(stored, channels, kernel_h)
    assert narrow is not None
    are_stacked = stride_h == dilation_h == 1 and rows > 1
    wide = None
    if op.residual is None:
        wide = Words.wide(stored, channels, kernel_h, are_stacked=are_stacked)
    offset = 128 if stored == "int8_t" and not narrow.are_pairs else 0
    count, w = filters.count, filters.expanded(layer)

    def bias() -> Array:
        return padded(sums.bias - offset * sums.per_output + epilogue.extra, count)

    b = layer.constant("bias", "int32_t", count, 4, bias, CONDITION)
    arrays = {"b": b}
    if filters.multipliers:
        arrays["m"] = filters.multipliers
    if filters.shifts:
        arrays["right"] = filters.shifts
    if of.factors:
        arrays["f"] = of.factors
    is_padded = top > 0 or (rows - 1) * stride_h - top + (kernel_h - 1) * dilation_h >= height
    if is_padded:
        point = zero_point_of(sums.x)
        layer.scratch(stored, "border", width * channels, 2 if stored == "int16_t" else 1)
        layer.loop("i", width * channels, [f"border[i] = {point};"])
    if wide is not None:
        layer.lines.append(f"#if {HAS_16_LANES}")
        _print(of, epilogue, wide, w, arrays, offset, is_padded=is_padded)
        layer.lines.append("#else")
    _print(of, epilogue, narrow, w, arrays, offset, is_padded=is_padded)
    if wide is not None:
        layer.lines.append("#endif")


def _print(
    of: IntegerLayer,
    epilogue: Epilogue,
    kind: Words,
    weights: str,
    arrays: Mapping[str, str],
    offset: int,
    *,
    is_padded: bool,
) -> None:
    """
    Print the loops of a depthwise layer in vectors of the layout `kind`. `arrays` maps names of C
    vectors to constants with a value for each channel, such as the bias. `offset` (0 or 128) is
    added to each byte of the input to make it unsigned. `is_padded` is whether windows contain rows
    of padding.
    """
    layer, op, x, y = of.layer, of.window, of.x, of.y
    images, _, _, channels = shape_of(op.input)
    windows = Windows.of(op)
    (height, width), (rows, columns) = windows.size, windows.result
    (stride_h, stride_w), (dilation_h, dilation_w) = windows.strides, windows.dilations
    (kernel_h, kernel_w), (top, left) = windows.kernel, windows.before
    stored, bits, block, parts = value_type(op.input), kind.bits, kind.block, kind.parts
    count = -(-channels // LANES_PER_VECTOR) * LANES_PER_VECTOR
    layer.kernels.use(f"vectors_{bits}")
    condition = HAS_16_LANES if bits == 512 else CONDITION
    words = layer.kernels.add(*kind.interleaving(stored), condition)
    repeated = 0x00010001 if kind.are_pairs else 0x01010101
    word = 16 if kind.are_pairs else 8
    point = zero_point_of(of.sums.x) + offset
    edge = int(np.uint32((point & ((1 << word) - 1)) * repeated).astype(np.int32))
    layer.line(f"const model_{bits} edge = ALL_{bits}({int_literal(edge)});")
    step = f"r += {kind.result_rows}" if kind.result_rows > 1 else "++r"
    by_rows = [f"for (int32_t r = 0; r < {rows}; {step}) {{"]
    if rows % kind.result_rows:
        last = rows - kind.result_rows
        by_rows = [f"for (int32_t p = 0; p < {rows}; p += {kind.result_rows}) {{"]
        by_rows.append(f"const int32_t r = p < {last} ? p : {last};")
    start = f"r * {stride_h} - {top}" if top else f"r * {stride_h}"
    by_rows.append(f"const int32_t first = {start};")
    for k in range(kind.input_rows):
        source = f"first + {k * dilation_h}" if k else "first"
        image = f"n * {height} + " if images > 1 else ""
        at = f"{x} + ({image}{source}) * {width * channels}"
        if is_padded:
            at = f"{source} >= 0 && {source} < {height} ? {at} : border"
        by_rows.append(f"const {stored} *r{k} = {at};")
    by_blocks = [f"for (int32_t c = 0; c < {channels}; c += {block}) {{"]
    if channels % block:
        last = channels - block
        by_blocks = [f"for (int32_t b = 0; b < {channels}; b += {block}) {{"]
        by_blocks.append(f"const int32_t c = b < {last} ? b : {last};")
    for k in range(kernel_w):
        fours = -(-kernel_h // STEP)
        starts = ((k * fours + i) * count for i in range(fours))
        places = [
            f"{weights} + (c + {s}) * {STEP}" if s else f"{weights} + c * {STEP}" for s in starts
        ]
        by_blocks += kind.weights(f"w{k}", places)
    for name, array in arrays.items():
        by_blocks += kind.loads(name, f"(const int8_t *)({array} + c)")
    pointers = ", ".join(f"r{k}" for k in range(kind.input_rows))

    def column(j: str, k: int) -> str:
        names = ", ".join(f"&v{k}{i}" for i in parts)
        return f"{words}({pointers}, {j} * {channels} + c, {names});"

    # Columns that the next window shares are kept. The other columns are loaded, one window ahead
    # if there are enough registers.
    is_ahead = bits == 512 and not kind.are_pairs and dilation_w == 1 and stride_w <= kernel_w <= 3
    is_ahead = is_ahead and kind.groups == 1
    column_count = kernel_w + stride_w if is_ahead else kernel_w
    kept = max(column_count - stride_w, 0) if dilation_w == 1 else 0
    image = f"n * {rows} + " if images > 1 else ""
    lines: list[str] = []
    for k in range(column_count):
        lines.append(f"model_{bits} " + ", ".join(f"v{k}{i} = edge" for i in parts) + ";")
        if k < kept and 0 <= k - left < width:
            lines.append(column(str(k - left), k))
    lines += [
        f"{value_type(op.result)} *to = {y} + ({image}r) * {columns * channels} + c;",
        f"for (int32_t i = 0; i < {columns}; ++i, to += {channels}) {{",
    ]
    for k in range(kept, column_count):
        tap = k * dilation_w - left
        j = "i" if stride_w == 1 else f"i * {stride_w}"
        j = f"{j} + {tap}" if tap > 0 else f"{j} - {-tap}" if tap else j
        inside = [f"{j} >= 0"] if tap < 0 else []
        if (columns - 1) * stride_w + tap >= width:
            inside.append(f"{j} < {width}")
        load = column(f"({j})", k)
        if inside:
            edges = ", ".join(f"v{k}{i} = edge" for i in parts)
            lines += [f"  if ({' && '.join(inside)}) {load}", f"  else {edges};"]
        else:
            lines.append(f"  {load}")
    for below in ("below" * q for q in range(kind.result_rows)):
        for i in kind.vectors:
            products = f"b{i}"
            for k, part in product(range(kernel_w), parts[i :: len(kind.vectors)]):
                products = f"{kind.dot}({products}, v{k}{part}, w{k}{part}{below})"
            lines.append(f"  model_{bits} s{i}{below} = {products};")
        lines += _residual(of, kind, word)
        lines += [f"  s{i}{below} = {_shifted(epilogue, kind, i, below)};" for i in kind.vectors]
    lines += kind.stores(epilogue, columns * channels)
    for k in range(kept):
        moves = ", ".join(f"v{k}{i} = v{k + stride_w}{i}" for i in parts)
        lines.append(f"  {moves};")
    lines.append("}")
    # The head of each loop, and the statements that all inner loops share.
    loops = [by_rows, by_blocks]
    if height * width <= SMALL_MAP and channels > block:
        loops.reverse()
    if images > 1:
        loops.insert(0, [f"for (int32_t n = 0; n < {images}; ++n) {{"])
    for depth, (head, *shared) in enumerate(loops):
        if depth == len(loops) - 2 and is_shared(layer):
            layer.line("MODEL_THREADS(1)", depth)
        layer.line(head, depth)
        layer.block(shared, depth + 1)
    layer.block(lines, len(loops))
    for depth in reversed(range(len(loops))):
        layer.line("}", depth)


def _residual(of: IntegerLayer, kind: Words, word: int) -> list[str]:
    layer, op = of.layer, of.window
    if op.residual is None:
        return []
    skip = layer.kernels.add(*kind.residual(value_type(op.residual)), CONDITION)
    names_of = ", ".join(f"&skip{i}" for i in kind.vectors)
    lines = [
        "  model_256 " + ", ".join(f"skip{i}" for i in kind.vectors) + ";",
        f"  {skip}({of.residual}, (int32_t)(to - {of.y}), {names_of});",
    ]
    for i in kind.vectors:
        term = f"_mm256_srai_epi32(skip{i}, {32 - word})"
        if of.factors:
            term = f"_mm256_mullo_epi32({term}, f{i})"
        else:
            term = f"_mm256_slli_epi32({term}, {op.residual_shifts[0]})"
        lines.append(f"  s{i} = ADD_256(s{i}, {term});")
    return lines


def _shifted(epilogue: Epilogue, kind: Words, i: int, below: str) -> str:
    if epilogue.scale_bits:
        numbers = f"{int_literal(epilogue.after)}, {epilogue.shift}"
        return f"SCALE_{epilogue.scale_bits}_{kind.bits}(s{i}{below}, m{i}, {numbers})"
    if epilogue.shifts:
        return kind.call("srav_epi32", f"s{i}{below}", f"right{i}")
    return kind.call("srai_epi32", f"s{i}{below}", epilogue.shift)
