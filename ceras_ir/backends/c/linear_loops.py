"""
Quantized convolution and matrix product in portable loops over the constants of register tiles.

The input of a row of windows is laid out by columns, so that each window is contiguous; filters
are taken out of their panel a few at a time. What remains are dot products of two contiguous
arrays of known length, which compilers turn into the processor's own.
"""

from dataclasses import dataclass

from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.register_tiles import LANES, TILES, strip_length
from ceras_ir.backends.c.rows import ROW_TYPES, row_type, window
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.types import value_type, zero_point_of
from ceras_ir.backends.c.walk import lanes_of
from ceras_ir.dialects.graph import Conv2dOp

MOST_FILTERS = 64 * 1024
"""Bytes of filters taken out of a panel at a time: few enough for the second-level cache."""

WHOLE = 32
"""Lengths of dot products are multiples of this many, so that no rest follows the vectors."""

SHORT = 320
"""Products of a dot product up to which vectors of half the width are faster."""

MOST_POSITIONS = 64
"""Positions at a time where rows lie in the input as they are."""


@dataclass(frozen=True)
class Loops:
    """How a layer is cut: `count` windows of `length` elements, `stride` apart, for each row."""

    nest: Nest
    is_direct: bool
    is_gathered: bool
    """Whether each window is copied by itself: those of a row do not overlap as they lie."""
    count: int
    group: int
    """Windows that share a filter."""
    length: int
    stride: int
    filters: int
    """Filters at a time."""

    @classmethod
    def of(cls, nest: Nest) -> "Loops":
        is_direct = nest.is_product and nest.images == 1 and nest.groups == 1
        k = nest.runs * nest.taps
        length = -(-k // WHOLE) * WHOLE if k > WHOLE // 2 else k
        width = nest.tile.width
        few = [n for n in range(LANES, width + 1, LANES) if width % n == 0]
        filters = max((n for n in few if n * length <= MOST_FILTERS), default=LANES)
        total = nest.rows if is_direct else nest.columns
        group = min(range(1, min(total, 8) + 1), key=lambda g: -(-total // g) * (g + 1))
        count = strip_length(total, group, MOST_POSITIONS) if is_direct else total
        stride = nest.channels if is_direct else nest.stride[1] * nest.kernel[0] * nest.channels
        is_gathered = nest.groups > 1 or nest.is_apart
        if is_gathered:
            stride = length
        return cls(nest, is_direct, is_gathered, count, group, length, stride, filters)

    @property
    def row_elements(self) -> int:
        """Elements of the input of a row of windows; the last one's length may pass its end."""
        return (self.count - 1) * self.stride + self.length


def print_loops(of: IntegerLayer, nest: Nest, weights: str) -> None:
    """The body of the layer's function where there are no vectors."""
    layer, op, x = of.layer, of.op, of.x
    loops = Loops.of(nest)
    stored = value_type(op.input)
    row, shift = row_type(op.input)
    total, width, length = nest.outputs, nest.tile.width, loops.length
    layer.scratch("int8_t", "filters", loops.filters * length, 1)
    layer.scratch(row, "row", loops.row_elements, 2)
    layer.scratch("int32_t", "sums", loops.count * loops.filters, 4)
    step = lanes_of(stored).step
    unit = step if nest.taken % step == 0 else 1
    unpack = layer.kernels.use("unpack", NAME=f"{step}_{unit}", STEP=str(step), UNIT=str(unit))
    if row == "model_row":
        layer.kernels.use("dots_neon")
    dots = layer.kernels.add(*_dots(loops.group, length, row), f"!{TILES}")
    at = nest.panel_at(weights, step)
    if loops.filters < width:
        at = nest.panel_at(weights, step, f"b / {width} * {width}") + f" + b % {width} * {step}"
    here = f"{loops.filters}"
    if total % loops.filters:
        here = "here"
    layer.line(f"/* {loops.filters} filters at a time, {loops.group} windows for each. */")
    if nest.groups > 1:
        layer.line(f"for (int32_t g = 0; g < {nest.groups}; ++g) {{")
    layer.line(f"for (int32_t b = 0; b < {total}; b += {loops.filters}) {{")
    if here == "here":
        rest = f"{total} - b"
        layer.line(f"const int32_t here = {rest} < {loops.filters} ? {rest} : {loops.filters};", 1)
    layer.line(
        f"{unpack}(filters, {length}, {at}, {here}, {width}, {nest.runs}, "
        f"{nest.taps // nest.taken}, {nest.taken});",
        1,
    )
    count = str(loops.count)
    if loops.is_direct:
        layer.line(f"for (int32_t first = 0; first < {nest.rows}; first += {loops.count}) {{", 1)
        if nest.rows % loops.count:
            rest, count = f"{nest.rows} - first", "count"
            text = f"const int32_t count = {rest} < {loops.count} ? {rest} : {loops.count};"
            layer.line(text, 2)
        widen = layer.kernels.use(
            "widen", IN=stored, ROW=row, SHIFT=shift, NAME=f"{stored}_to_{ROW_TYPES[row][0]}"
        )
        size = f"{count} * {nest.channels}"
        layer.line(f"{widen}(row, {size}, {x} + first * {nest.channels}, {size});", 2)
        start = "first"
    else:
        layer.line(f"for (int32_t r = 0; r < {nest.images * nest.rows}; ++r) {{", 1)
        fill = _gather if loops.is_gathered else _fill
        fill(layer, loops, x, (stored, row, shift), zero_point_of(of.sums.x))
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


def _gather(layer: Layer, loops: Loops, x: str, types: tuple[str, str, str], point: int) -> None:
    """Lay out each window of row `r` by itself."""
    nest, (stored, row, shift) = loops.nest, types
    assert isinstance(layer.op, Conv2dOp)
    gather = layer.kernels.use(
        "gather", IN=stored, ROW=row, SHIFT=shift, NAME=f"{stored}_to_{ROW_TYPES[row][0]}"
    )
    place = window(layer, layer.op)
    source = f"{x} + g * {nest.taken}" if nest.groups > 1 else x
    border = f"{point}{shift}" if shift else str(point)
    layer.line(f"for (int32_t p = 0; p < {loops.count}; ++p) {{", 2)
    layer.line(
        f"{gather}(row + p * {loops.length}, {loops.length}, {source}, {place}, "
        f"r * {nest.columns} + p, {nest.taken}, {border});",
        3,
    )
    layer.line("}", 2)


def _fill(layer: Layer, loops: Loops, x: str, types: tuple[str, str, str], point: int) -> None:
    """Lay out the input of row `r` of windows."""
    nest, (stored, row, shift) = loops.nest, types
    columns = layer.kernels.use(
        "columns", IN=stored, ROW=row, SHIFT=shift, NAME=f"{stored}_to_{ROW_TYPES[row][0]}"
    )
    image, line = x, "r"
    if nest.images > 1:
        size = nest.height * nest.width * nest.channels
        image, line = f"{x} + r / {nest.rows} * {size}", f"r % {nest.rows}"
    first = f"{line} * {nest.stride[0]}" if nest.stride[0] > 1 else line
    first = f"{first} - {nest.top}" if nest.top else first
    border = f"{point}{shift}" if shift else str(point)
    layer.line(
        f"{columns}(row, {image}, {nest.kernel[0]}, {first}, {nest.dilation[0]}, {nest.left}, "
        f"{nest.padded_width}, {nest.height}, {nest.width}, {nest.channels}, {border});",
        2,
    )


def _dots(group: int, length: int, row: str) -> tuple[str, str]:
    """A function of dot products of known length; name and text."""
    name = f"dots_{group}x{length}_{ROW_TYPES[row][0]}"
    each = range(group)
    call = f"  dots_neon(count, stride, x, n, {length}, filters, sums);"
    neon = ("#if MODEL_NEON", call, "#else")
    text = [
        f"/* sums[p][o] of window p and filter o, {length} products each; {group} windows share "
        "a filter. */",
        *(["MODEL_HALF_VECTORS"] if length <= SHORT and row == "model_row" else []),
        f"MODEL_TILE void {name}(int32_t count, int32_t stride, const {row} *restrict x, "
        "int32_t n, const int8_t *restrict filters, int32_t *restrict sums)",
        "{",
        *(neon if row == "model_row" else ()),
        f"  for (int32_t o = 0; o < n; ++o, filters += {length}) {{",
        f"    for (int32_t i = 0; i < count; i += {group}) {{",
        f"      const int32_t p = i < count - {group} ? i : count - {group};",
        f"      const {row} *x0 = x + p * stride"
        + "".join(f", *x{i} = x{i - 1} + stride" for i in each[1:])
        + ";",
        "      int32_t " + ", ".join(f"s{i} = 0" for i in each) + ";",
        f"      for (int32_t k = 0; k < {length}; ++k) {{",
        "        const int32_t w = filters[k];",
        "        " + ", ".join(f"s{i} += x{i}[k] * w" for i in each) + ";",
        "      }",
        "      int32_t *to = sums + p * n + o;",
        "      " + ", ".join(f"to[{i} * n] = s{i}" for i in each) + ";",
        "    }",
        "  }",
        *(["#endif"] if row == "model_row" else []),
        "}",
        "",
    ]
    return name, "\n".join(text)
