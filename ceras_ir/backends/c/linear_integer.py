"""
Print quantized convolutions and matrix products: rows of windows as integers, dot products with
contiguous k, and a requantization per output.

Zero points do not occur in the inner loop. The border of a window is the zero point of the input,
so a raw sum differs by a constant per output, which is part of the bias. The bias also corrects the
128 that is added to 8-bit rows for processors that multiply unsigned by signed bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.depthwise_rows import ROWS, print_depthwise_rows
from ceras_ir.backends.c.depthwise_tiled import (
    PackedFilters,
    Windows,
    has_columns,
    pack_filters,
    print_depthwise,
)
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.linear_sparse import fits_sparse, sparse_integer, sparse_planes
from ceras_ir.backends.c.linear_tiled import print_tiles, tiled_nest
from ceras_ir.backends.c.packed_weights import WeightPanels, smaller_bits, stored_bits
from ceras_ir.backends.c.register_tiles import (
    CONDITION,
    LANES_PER_VECTOR,
    TILES,
    lanes_of,
    strip_length,
)
from ceras_ir.backends.c.sums import (
    LIMIT,
    ROW_TYPES,
    UNSIGNED_OFFSET,
    Geometry,
    Sums,
    analyse,
    dot_rows,
    open_row_loop,
    row_type,
    rows_at_once,
    window,
)
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.tile_panels import PANEL, Panels
from ceras_ir.backends.c.values import steps_left, value_type, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of
from ceras_ir.dialects.quant import BYTE_BITS

# Portable loops use the constants of register tiles. The input of a row of windows is copied by
# columns, so that each window is contiguous. A few filters at a time are copied from their panel.
# The dot products have two contiguous operands of known length, for which compilers use dot-product
# instructions.


MAX_FILTER_BYTES = 64 * 1024
"""The maximum bytes of filters copied from a panel, for the second-level cache."""

DOT_MULTIPLE = 32
"""The multiple to which dot products are padded, so that no elements remain after the vectors."""

MAX_HALF_PRODUCTS = 320
"""The maximum length of a dot product for which vectors of half the width are faster."""

EXPANDED_FILTERS = 4
"""The number of rows of packed weights that are expanded together."""

MAX_DIRECT_POSITIONS = 64
"""
The maximum number of positions that are computed at a time if rows are contiguous in the input.
"""


@dataclass(frozen=True)
class Loops:
    """
    The loops of an integer layer without vectors. Each iteration computes a row of `count` windows,
    which are copied to the workspace: windows of `length` elements at a distance of `stride`
    elements. `filters` filters are multiplied at a time.
    """

    nest: Nest
    is_direct: bool
    is_gathered: bool
    """Whether each window is copied separately, because windows do not overlap in memory."""
    count: int
    group: int
    """The number of windows that are multiplied by a filter at a time."""
    length: int
    stride: int
    filters: int

    @classmethod
    def of(cls, nest: Nest) -> "Loops":
        is_direct = nest.is_product and nest.images == 1 and nest.groups == 1
        k = nest.runs * nest.taps
        length = -(-k // DOT_MULTIPLE) * DOT_MULTIPLE if k > DOT_MULTIPLE // 2 else k
        width = nest.tile.width
        few = [n for n in range(LANES_PER_VECTOR, width + 1, LANES_PER_VECTOR) if width % n == 0]
        filters = max((n for n in few if n * length <= MAX_FILTER_BYTES), default=LANES_PER_VECTOR)
        total = nest.rows if is_direct else nest.columns
        group = min(range(1, min(total, 8) + 1), key=lambda g: -(-total // g) * (g + 1))
        count = strip_length(total, group, MAX_DIRECT_POSITIONS) if is_direct else total
        stride = nest.channels if is_direct else nest.stride[1] * nest.kernel[0] * nest.channels
        is_gathered = nest.groups > 1 or nest.has_gaps
        if is_gathered:
            stride = length
        return cls(nest, is_direct, is_gathered, count, group, length, stride, filters)

    @property
    def row_elements(self) -> int:
        """The number of elements of the copied row of windows, up to the end of the last window."""
        return (self.count - 1) * self.stride + self.length


def print_loops(of: IntegerLayer, nest: Nest, panels: Panels) -> None:
    """
    Print the loops of an integer layer for processors without vectors. `panels` are the weights in
    the layout of register tiles.
    """
    layer, op, x = of.layer, of.op, of.x
    loops = Loops.of(nest)
    stored = value_type(op.input)
    row, shift = row_type(op.input)
    holes = {"IN": stored, "ROW": row, "SHIFT": shift, "NAME": f"{stored}_to_{ROW_TYPES[row][0]}"}
    total, width, length = nest.outputs, nest.tile.width, loops.length
    layer.scratch("int8_t", "filters", loops.filters * length, 1)
    layer.scratch(row, "row", loops.row_elements, 2)
    layer.scratch("int32_t", "sums", loops.count * loops.filters, 4)
    step = lanes_of(stored).step
    unit = step if nest.group_channels % step == 0 else 1
    unpack = layer.kernels.use("unpack", NAME=f"{step}_{unit}", STEP=str(step), UNIT=str(unit))
    dots = layer.kernels.add(*_dots(loops.group, length, row), f"!{TILES}")
    first = "b" if loops.filters == width else f"b / {width} * {width}"
    panels.reserve(layer, each_thread=False)
    panels.expand_whole(layer)
    expand = panels.expand_panel(layer, nest)
    at = PANEL if expand else nest.panel_at(panels.bytes, step, first)
    if loops.filters < width:
        at += f" + b % {width} * {step}"
    here = "here" if total % loops.filters else str(loops.filters)
    layer.line(f"/* {loops.filters} filters at a time, {loops.group} windows for each. */")
    if nest.groups > 1:
        layer.line(f"for (int32_t g = 0; g < {nest.groups}; ++g) {{")
    layer.line(f"for (int32_t b = 0; b < {total}; b += {loops.filters}) {{")
    if here == "here":
        layer.line(f"const int32_t here = {steps_left(total, 'b', loops.filters)};", 1)
    if expand:
        is_first = f"if (b % {width} == 0) " if loops.filters < width else ""
        layer.line(is_first + expand[0], 1)
        layer.line(expand[1], 1)
    layer.line(
        f"{unpack}(filters, {length}, {at}, {here}, {width}, {nest.runs}, "
        f"{nest.taps // nest.group_channels}, {nest.group_channels});",
        1,
    )
    count = str(loops.count)
    if loops.is_direct:
        layer.line(f"for (int32_t first = 0; first < {nest.rows}; first += {loops.count}) {{", 1)
        if nest.rows % loops.count:
            count = "count"
            layer.line(f"const int32_t count = {steps_left(nest.rows, 'first', loops.count)};", 2)
        widen = layer.kernels.use("widen", **holes)
        elements = str(loops.count * nest.channels)
        size = elements if count != "count" else f"count * {nest.channels}"
        layer.line(f"{widen}(row, {size}, &{x}[first * {nest.channels}], {size});", 2)
        start = "first"
    else:
        layer.line(f"for (int32_t r = 0; r < {nest.images * nest.rows}; ++r) {{", 1)
        fill = _gather if loops.is_gathered else _fill
        fill(layer, loops, x, holes, f"{zero_point_of(of.sums.x)}{shift}")
        start = f"r * {nest.columns}"
    lines = of.epilogue(f"sums[p * {here} + o - b]", f"{of.bias}[{nest.first_output('o')}]")
    group = f" + {nest.first_output()}" if nest.groups > 1 else ""
    layer.block(
        [
            f"{dots}({count}, {loops.stride}, row, {here}, filters, sums);",
            f"for (int32_t p = 0; p < {count}; ++p) {{",
            f"  const int32_t at = ({start} + p) * {nest.all_outputs}{group};",
            f"  for (int32_t o = b; o < b + {here}; ++o) {{",
            *(f"    {text}" for text in lines),
            "  }",
            "}",
        ],
        2,
    )
    layer.line("}", 1)
    layer.line("}")
    if nest.groups > 1:
        layer.line("}")


def _gather(layer: Layer, loops: Loops, x: str, holes: dict[str, str], border: str) -> None:
    nest = loops.nest
    assert isinstance(layer.op, Conv2dOp)
    gather = layer.kernels.use("gather", **holes)
    place = window(layer, layer.op)
    source = f"{x} + g * {nest.group_channels}" if nest.groups > 1 else x
    call = (
        f"{gather}(row + p * {loops.length}, {loops.length}, {source}, {place}, "
        f"r * {nest.columns} + p, {nest.group_channels}, {border});"
    )
    layer.loop("p", loops.count, [call], 2)


def _fill(layer: Layer, loops: Loops, x: str, holes: dict[str, str], border: str) -> None:
    nest, columns = loops.nest, layer.kernels.use("columns", **holes)
    image, line = x, "r"
    if nest.images > 1:
        size = nest.height * nest.width * nest.channels
        image, line = f"{x} + r / {nest.rows} * {size}", f"r % {nest.rows}"
    first = f"{line} * {nest.stride[0]}" if nest.stride[0] > 1 else line
    first = f"{first} - {nest.top}" if nest.top else first
    layer.line(
        f"{columns}(row, {image}, {nest.kernel[0]}, {first}, {nest.dilation[0]}, {nest.left}, "
        f"{nest.padded_width}, {nest.height}, {nest.width}, {nest.channels}, {border});",
        2,
    )


def _dots(group: int, length: int, row: str) -> tuple[str, str]:
    """
    Return the name and the text of a C function that computes the dot products of `length` elements
    of windows with filters. `group` windows share each loaded filter, and `row` is the C type of
    window elements.
    """
    name = f"dots_{group}x{length}_{ROW_TYPES[row][0]}"
    each = range(group)
    text = [
        f"/* sums[p][o] of window p and filter o, {length} products each; {group} windows share "
        "a filter. */",
        *(["MODEL_HALF_VECTORS"] if length <= MAX_HALF_PRODUCTS and row == "model_row" else []),
        f"MODEL_TILE void {name}(int32_t count, int32_t stride, const {row} *restrict x, "
        "int32_t n, const int8_t *restrict filters, int32_t *restrict sums)",
        "{",
        "  for (int32_t o = 0; o < n; ++o) {",
        f"    const int8_t *const filter = &filters[o * {length}];",
        f"    for (int32_t i = 0; i < count; i += {group}) {{",
        f"      const int32_t p = (i < (count - {group})) ? i : (count - {group});",
        f"      const {row} *x0 = &x[p * stride];",
        *(f"      const {row} *x{i} = &x{i - 1}[stride];" for i in each[1:]),
        *(f"      int32_t s{i} = 0;" for i in each),
        f"      for (int32_t k = 0; k < {length}; ++k) {{",
        "        const int32_t w = filter[k];",
        *(f"        s{i} += x{i}[k] * w;" for i in each),
        "      }",
        "      int32_t *to = &sums[(p * n) + o];",
        "      to[0] = s0;",
        *(f"      to[{i} * n] = s{i};" if i > 1 else "      to[n] = s1;" for i in each[1:]),
        "    }",
        "  }",
        "}",
        "",
    ]
    return name, "\n".join(text)


ROWS_SIGNED, ROWS_UNSIGNED = "!MODEL_UNSIGNED_ROWS", "MODEL_UNSIGNED_ROWS"

ROW_MULTIPLE = 32
"""The multiple to which rows are padded with zeros: three times faster for odd k."""


def integer_linear(layer: Layer, op: LinearOperation) -> None:
    """Print `graph.conv2d` and `graph.matmul` on quantized tensors with constant weights."""
    geometry, sums = Geometry.of(op), analyse(op)
    planes = sparse_planes(layer, op, geometry) if fits_sparse(op, sums) else None
    if planes is None and layer.options.helium:
        from ceras_ir.backends.c.linear_helium import fits_helium, helium_linear

        if fits_helium(op, geometry, sums):
            helium_linear(layer, op, geometry, sums)
            return
    nest = None if planes is not None else tiled_nest(layer, op, geometry, sums)
    padded = nest.padded_outputs if nest else geometry.groups * geometry.n
    if nest is not None:
        geometry = geometry.with_merged_groups(nest.merged_groups)
    of = IntegerLayer.of(layer, op, geometry, sums, padded)
    if planes is not None:
        sparse_integer(of, planes)
        return
    if layer.options.dsp:
        # Hosts do not need these modules; the import costs some milliseconds.
        from ceras_ir.backends.c.linear_dsp import dsp_linear, fits_dsp

        if fits_dsp(op, geometry, sums):
            dsp_linear(of)
            return
    if nest is None and not has_columns(of):
        if geometry.is_depthwise and sums.weight_type != "int32_t":
            (_depthwise_rows if _has_rows(of) else _depthwise)(of)
        else:
            _rows(of)
        return
    with layer.variants(TILES if nest is not None else CONDITION) as otherwise:
        if nest is not None:
            panels = print_tiles(of, nest)
            otherwise()
            bias = _row_bias(layer, sums, row_type(op.input)[0], f"!{TILES}")
            print_loops(replace(of, bias=bias), nest, panels)
        else:
            filters = pack_filters(of)
            print_depthwise(of, filters)
            otherwise()
            with layer.variants(ROWS) as portable:
                print_depthwise_rows(of, filters)
                portable()
                _depthwise(of, filters)


def _row_bias(layer: Layer, sums: Sums, row: str, condition: str = "") -> str:
    """
    Add the bias of a layer to the constants and return its C name. It matches inputs that are
    copied as elements of the C type `row`.

    For `model_row` there are two variants for the preprocessor: for unsigned bytes, to which 128 is
    added, and for signed bytes. `condition` applies to both.
    """
    if row != "model_row":
        return layer.integers("bias", sums.bias, condition)
    also = f"{condition} && " if condition else ""
    signed = sums.bias + (0 if sums.x.is_signed else UNSIGNED_OFFSET) * sums.per_output
    layer.integers("bias", signed - 128 * sums.per_output, also + ROWS_UNSIGNED)
    return layer.integers("bias", signed, also + ROWS_SIGNED)


def _depthwise(of: IntegerLayer, filters: PackedFilters | None = None) -> None:
    """
    Print an integer depthwise convolution, a window at a time. `filters` are constants in the
    layout of vector kernels, if the layer has them.
    """
    layer, op, geometry, sums = of.layer, of.window, of.geometry, of.sums
    place = window(layer, op)
    condition = f"!{TILES}" if filters else ""
    channels, point = geometry.groups, zero_point_of(sums.x)
    stored = value_type(op.input)
    kernel = layer.kernels.use(
        "depthwise",
        NAME=f"{stored}_{sums.weight_type}" + ("_centred" if point else ""),
        SUM="int32_t",
        IN=stored,
        WEIGHT=sums.weight_type,
        WIDE="int16_t" if stored in ("int8_t", "uint8_t") else "int32_t",
        CENTRE=" - zero_point" if point else "",
    )
    item = int(sums.weight_type[3:-2]) // 8

    def packed() -> Array:
        return np.ascontiguousarray(sums.centred().T).astype(f"int{item * 8}")

    size = channels * geometry.k
    if filters is not None:
        packed_weights = filters.expanded(layer)
        w = layer.scratch("int8_t", "filters", size, 1)
        unpack = layer.kernels.use("unpack_columns")
        rows, columns = Windows.of(op).kernel
        padded = -(-channels // LANES_PER_VECTOR) * LANES_PER_VECTOR
        layer.line(f"{unpack}({w}, {packed_weights}, {rows}, {columns}, {channels}, {padded});")
    elif item == 1:
        panel = WeightPanels.add(layer, smaller_bits(layer, sums, size), 1, size, packed)
        panel.expand_all(layer)
        w = panel.whole
    else:
        w = layer.constant("weights", sums.weight_type, size, item, packed)
    # The kernel subtracts the zero point from each element, so the bias must not correct it.
    bias = layer.integers("bias", sums.bias + point * sums.per_output, condition)
    layer.scratch("int32_t", "sums", channels, 4)
    body = [
        f"const int32_t at = p * {channels};",
        f"for (int32_t o = 0; o < {channels}; ++o) sums[o] = 0;",
        f"{kernel}(sums, {of.x}, {w}, {place}, p, {point});",
        f"for (int32_t o = 0; o < {channels}; ++o) {{",
        *(f"  {t}" for t in of.epilogue("sums[o]", f"{bias}[o]")),
        "}",
    ]
    layer.loop("p", geometry.positions, body)


MAX_REPEATED_BYTES = 32 << 10
"""The maximum size of depthwise weights that are repeated for each position of a row."""


def _has_rows(of: IntegerLayer) -> bool:
    """
    Return whether a depthwise layer is computed a row of the result at a time: it has too few
    channels for a vector and stride 1, so that the positions of a row fill the vectors.
    """
    op, sums = of.window, of.sums
    columns, channels = shape_of(op.result)[2:]
    return (
        of.layer.options.vectors
        and value_type(op.input) in ("int8_t", "uint8_t")
        and sums.weight_type == "int8_t"
        and channels < LANES_PER_VECTOR
        and op.strides.get_values()[1] == 1
        and of.geometry.k * columns * channels <= MAX_REPEATED_BYTES
    )


def _depthwise_rows(of: IntegerLayer) -> None:
    """Print a depthwise convolution for which `_has_rows` holds, a row of the result at a time."""
    layer, op, sums = of.layer, of.window, of.sums
    images, rows, columns, channels = shape_of(op.result)
    place, stored, point = window(layer, op), value_type(op.input), zero_point_of(sums.x)
    kernel = layer.kernels.use(
        "depthwise_row",
        NAME=stored + ("_centred" if point else ""),
        IN=stored,
        CENTRE=" - zero_point" if point else "",
    )
    w = _repeated_taps(of)
    bias = layer.integers("bias", sums.bias + point * sums.per_output)
    layer.scratch("int32_t", "sums", columns * channels, 4)
    body = [
        f"{kernel}(sums, {of.x}, {w}, {place}, r, {point});",
        f"for (int32_t p = 0; p < {columns}; ++p) {{",
        f"  const int32_t at = (r * {columns} + p) * {channels};",
        f"  for (int32_t o = 0; o < {channels}; ++o) {{",
        *(f"    {t}" for t in of.epilogue(f"sums[p * {channels} + o]", f"{bias}[o]")),
        "  }",
        "}",
    ]
    layer.loop("r", images * rows, body)


def _repeated_taps(of: IntegerLayer) -> str:
    """
    Add the weights of a layer for which `_has_rows` holds, repeated for each position of a row:
    [taps][columns][channels]. Packed weights are expanded and repeated at run time. Return the C
    expression of the address.
    """
    layer, sums, taps = of.layer, of.sums, of.geometry.k
    columns, channels = shape_of(of.op.result)[2:]
    size, count = taps * channels, taps * columns * channels

    def weights() -> NDArray[np.int8]:
        return np.ascontiguousarray(sums.centred().astype(np.int8).T)

    def repeated() -> Array:
        return np.tile(weights().reshape(taps, 1, channels), (1, columns, 1))

    bits = smaller_bits(layer, sums, size)
    if bits == BYTE_BITS:
        return layer.constant("weights", "int8_t", count, 1, repeated)
    panel = WeightPanels.add(layer, bits, 1, size, weights)
    panel.expand_all(layer)
    w = layer.scratch("int8_t", "filters", count, 1)
    source = f"{panel.whole} + i / {columns} * {channels}"
    copy = f"(void)memcpy({w} + i * {channels}, {source}, {channels}U);"
    layer.loop("i", taps * columns, [copy])
    return w


def _rows(of: IntegerLayer) -> None:
    layer, op, geometry, sums = of.layer, of.op, of.geometry, of.sums
    place = window(layer, op) if isinstance(op, Conv2dOp) and not geometry.is_direct else ""
    stored = value_type(op.input)
    row, shift = row_type(op.input)
    if row == "model_row" and (sums.raw_bound >= LIMIT or sums.weight_type != "int8_t"):
        row, shift = "int16_t", ""
    if row == "int32_t" or sums.weight_type == "int32_t":
        row = "int32_t"
    point = zero_point_of(sums.x)
    multiple = ROW_MULTIPLE if geometry.k > ROW_MULTIPLE // 2 else 1
    length = -(-geometry.k // multiple) * multiple
    item = int(sums.weight_type[3:-2]) // 8

    def packed() -> Array:
        weights = sums.centred()
        result = np.zeros((weights.shape[0], length), f"int{item * 8}")
        result[:, : geometry.k] = weights
        return result

    n, total = geometry.n, geometry.groups * geometry.n
    expanded: tuple[int, Sequence[str]] | None = None
    if (bits := stored_bits(sums)) < BYTE_BITS and item == 1:
        count = -(-n // EXPANDED_FILTERS)

        def by_panels() -> Array:
            rows = np.zeros((geometry.groups, count * EXPANDED_FILTERS, length), np.int8)
            rows[:, :n] = packed().reshape(geometry.groups, n, length)
            return rows

        panels = WeightPanels.add(
            layer, bits, geometry.groups * count, EXPANDED_FILTERS * length, by_panels
        )
        group = f"g * {count} + " if geometry.groups > 1 else ""
        w, lines = panels.expanded(layer, f"({group}b / {EXPANDED_FILTERS})")
        expanded = EXPANDED_FILTERS, lines
    else:
        w = layer.constant("weights", sums.weight_type, total * length, item, packed)
    bias = _row_bias(layer, sums, row)
    holes = {"IN": stored, "ROW": row, "SHIFT": shift}
    holes["NAME"] = f"{stored}_to_{ROW_TYPES[row][0]}"
    if geometry.is_direct:
        widen = layer.kernels.use("widen", **holes)
        k = geometry.k
        fill = f"{widen}(&rows[r * {length}], {length}, &{of.x}[(first + r) * {k}], {k});"
    else:
        gather = layer.kernels.use("gather", **holes)
        source = f"{of.x} + g * {geometry.group_channels}" if geometry.groups > 1 else of.x
        fill = (
            f"{gather}(&rows[r * {length}], {length}, {source}, {place}, first + r, "
            f"{geometry.group_channels}, {point}{shift});"
        )
    channel = f"g * {n} + o" if geometry.groups > 1 else "o"
    print_rows(
        of, row, length, fill, (w, sums.weight_type), f"{bias}[{channel}]", expanded=expanded
    )


def print_rows(
    of: IntegerLayer,
    row: str,
    length: int,
    fill: str,
    weights: tuple[str, str],
    *values: str,
    expanded: tuple[int, Sequence[str]] | None = None,
) -> None:
    """
    Print the products of input rows of `length` elements with the rows of `weights` (C name, C
    type), for a block of rows at a time.

    `row` is the C type of input rows. `fill` is C code that writes row `r` of the block, for output
    position `first + r`. `values` are C expressions that are added to each sum, such as the bias.
    If `expanded` has statements, these write to `weights` the given number of rows from output `b`.
    """
    layer, geometry, (name, weight_type) = of.layer, of.geometry, weights
    n, total = geometry.n, geometry.groups * geometry.n
    item = ROW_TYPES[row][1]
    dot = dot_rows(layer, row, weight_type)
    step, expand = expanded or (n, ())
    rows = rows_at_once(layer, geometry, item * length + 4 * step)
    layer.scratch(row, "rows", rows * length, item)
    layer.scratch("int32_t", "sums", rows * step, 4)
    depth = open_row_loop(layer, geometry, rows)
    grouped = geometry.groups > 1
    panel = f"{name} + g * {n * length}" if grouped and not expand else name
    start = f"(first + r) * {total}" + (f" + g * {n}" if grouped else "")
    first, end, at = "0", str(n), "o"
    if expand:
        first, at = "b", "o - b"
        end = f"b + ({steps_left(n, 'b', step)})"
    body = [
        f"{dot}(count, {step}, {length}, rows, {panel}, sums);",
        "for (int32_t r = 0; r < count; ++r) {",
        f"  const int32_t at = {start};",
        f"  for (int32_t o = {first}; o < {end}; ++o) {{",
        *(f"    {t}" for t in of.epilogue(f"sums[r * {step} + {at}]", *values)),
        "  }",
        "}",
    ]
    if expand:
        inner = (f"  {text}" for text in (*expand, *body))
        body = [f"for (int32_t b = 0; b < {n}; b += {step}) {{", *inner, "}"]
    body = [f"for (int32_t r = 0; r < count; ++r) {fill}", *body]
    if grouped:
        layer.loop("g", geometry.groups, body, depth)
    else:
        layer.block(body, depth)
    layer.line("}")
