"""
Print the loops of a layer around a register tile, which threads share.

A layer with enough products is a single parallel block. A unit of work is a panel of outputs with a
row of tiles, and each thread computes a contiguous part of them. It copies the input rows that it
reads to memory of its own, because a core reads the cache of another core several times more slowly
than its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.backends.c.values import steps_left
from ceras_ir.dialects.graph import LinearOperation, shape_of

MIN_SHARED_WEIGHTS = 1 << 17
"""Weights of a layer from which several threads are worthwhile, because each reads a part."""

MIN_WEIGHTS_PER_INPUT = 8
"""
Weights per element of the input from which threads read different weights. Below that, rows that
remain in the cache of a core from the previous layer save more: the layers of ResNet-50 in int8
need 3.54 ms on two threads, and 3.62 ms with a bound of 16 (`benchmarks/threads.py --int8`).
"""

MIN_SHARED_PRODUCTS = 1 << 20
"""Products of a layer from which several threads are worthwhile."""


def is_shared(layer: Layer) -> bool:
    """Return whether several threads are worthwhile for a layer with products."""
    op = layer.op
    if not isinstance(op, LinearOperation):
        return False
    has_weights = prod(shape_of(op.weights)) >= MIN_SHARED_WEIGHTS
    return op.macs >= MIN_SHARED_PRODUCTS or has_weights or layer.shares(prod(shape_of(op.input)))


@dataclass(frozen=True)
class Strip:
    """A copy of input rows in the workspace, of each thread if threads share the layer."""

    declaration: tuple[str, ...]
    """C statements that declare the pointer, unless it is declared already."""
    copy: Callable[[Nest, str, str], str]
    """
    Returns the C call that copies what output rows of the current strip read, for the loops, the
    number of rows, and the first of them in the strip ("" is 0).
    """

    @classmethod
    def of(
        cls,
        layer: Layer,
        pointer: tuple[str, str],
        size: int,
        itemsize: int,
        copy: Callable[[Nest, str, str], str],
    ) -> "Strip":
        """
        Reserve `size` elements of `itemsize` bytes, for a pointer with the C type and the name
        `pointer`.
        """
        if is_shared(layer):
            return cls(tuple(layer.own_scratch(*pointer, size, itemsize)), copy)
        layer.scratch(*pointer, size, itemsize)
        return cls((), copy)


def from_strip_row(nest: Nest, top: str, name: str = "strip") -> tuple[str, str]:
    """
    Return C expressions for output row `top` of the current strip ("" is 0): the address of its
    input in the copy `name`, and its number in the map.
    """
    if not top:
        return name, "first"
    return f"{name} + {top} * {nest.stride[0] * nest.pitch}", f"(first + {top})"


def copied_rows(nest: Nest, row: str, count: str) -> str:
    """
    Return the C arguments that select the input of `count` output rows from row `row` of the map:
    the number of input rows and the first of them, and the columns, border included.
    """
    first = row if nest.stride[0] == 1 else f"{row} * {nest.stride[0]}"
    first = f"{first} - {nest.top}" if nest.top else first
    return (
        f"{nest.input_rows(count)}, {first}, {nest.left}, {nest.padded_width}, {nest.height}, "
        f"{nest.width}, {nest.channels}"
    )


def halo_of(halo: str, x: str, border: str) -> Callable[[Nest, str, str], str]:
    """Return the `copy` of a `Strip` with the C function `halo`, and `border` around the map."""

    def copy(nest: Nest, count: str, top: str) -> str:
        to, row = from_strip_row(nest, top)
        image, k = nest.image_at(x), nest.channels
        if nest.is_product:
            return f"{halo}({to}, {image} + {row} * {k}, 1, 0, 0, {count}, 1, {count}, {k}, 0);"
        return f"{halo}({to}, {image}, {copied_rows(nest, row, count)}, {border});"

    return copy


class _Block:
    """Lines of C, indented by the number of open blocks."""

    def __init__(self, depth: int):
        self.lines: list[tuple[int, str]] = []
        self.depth = depth

    def line(self, text: str) -> None:
        self.lines.append((self.depth, text))

    def open(self, head: str = "") -> None:
        self.line(f"{head} {{".lstrip())
        self.depth += 1

    def close(self, depth: int) -> None:
        while self.depth > depth:
            self.depth -= 1
            self.line("}")

    def loop(self, index: str, total: int, step: int, end: str = "", start: str = "0") -> None:
        """
        Print the head of a loop over `index` from `start` to the C expression `end`, or to `total`.
        """
        if total <= step:
            self.line(f"const int32_t {index} = 0;")
        else:
            end = end or str(total)
            self.open(f"for (int32_t {index} = {start}; {index} < {end}; {index} += {step})")

    def tiles(
        self, index: str, total: int, step: int, count: str, end: str = "", start: str = "0"
    ) -> None:
        """
        Print the head of a loop over tiles of `step` among `count` rows or columns, at most
        `total`, from tile `start` to the C expression `end`. The last tile starts earlier if it
        would pass `count`.
        """
        if total <= step or total % step == 0:
            self.loop(index, total, step, end or count, start)
        else:
            self.loop("i", total, step, end or count, start)
            last = str(total - step) if count == str(total) else f"{count} - {step}"
            self.line(f"const int32_t {index} = i < {last} ? i : {last};")


def print_loops(
    layer: Layer,
    nest: Nest,
    strip: Strip | None,
    body: Sequence[str],
    each_thread: tuple[Sequence[str], Sequence[str]] = ((), ()),
    depth: int = 0,
    declarations: Sequence[str] = (),
    each_panel: Sequence[str] = (),
) -> None:
    """
    Print the C loops over the tiles of a layer at the indentation `depth`, with copies of the input
    to `strip`, and the lines of `body` for each tile. In `body`, the C variables `g`, `b`, `r` and
    `c` are the group, and the first output, row and column of the tile, and `first` is the first
    row of the strip. `each_thread` are statements that each thread executes before and after its
    tiles, `declarations` statements before them. `each_panel` are statements before the tiles of a
    panel of outputs in a strip.
    """
    t = nest.tile
    shape = f"{t.rows} x {t.columns}" if nest.columns > 1 else str(t.rows)
    unit = "rows" if nest.columns > 1 else "positions"
    block = _Block(depth)
    block.line(
        f"/* Strips of {nest.strip} {unit}, panels of {t.width} outputs, tiles of {shape} "
        "positions. */"
    )
    loops = _SharedLoops(nest, block) if is_shared(layer) else _Loops(nest, block)
    if is_shared(layer):
        layer.kernels.use("share")
        block.line("MODEL_TEAM")
    if is_shared(layer) or any(each_thread):
        block.open()
    inner = block.depth
    for text in (*declarations, *(strip.declaration if strip else ())):
        block.line(text)
    for text in each_thread[0]:
        block.line(text)
    loops.print(strip, body, each_panel)
    block.close(inner)
    for text in each_thread[1]:
        block.line(text)
    block.close(depth)
    for at, text in block.lines:
        layer.line(text, at)


@dataclass(frozen=True)
class _Loops:
    """Prints the loops of a layer for a single thread."""

    nest: Nest
    block: _Block

    def print(self, strip: Strip | None, body: Sequence[str], each_panel: Sequence[str]) -> None:
        nest, block = self.nest, self.block
        count = self.strips()
        if strip:
            block.line(strip.copy(nest, count, ""))
        if nest.groups > 1:
            block.loop("g", nest.groups, 1)
        block.loop("b", nest.outputs, nest.tile.width)
        for text in each_panel:
            block.line(text)
        block.tiles("r", self.most_rows, nest.tile.rows, count)
        self.columns()
        for text in body:
            block.line(text)

    @property
    def most_rows(self) -> int:
        # The last strip has at least the rows of a tile, but not always a multiple.
        return self.nest.rows if self.nest.has_remainder else self.nest.strip

    def strips(self) -> str:
        """Print the loops over strips, and return the C expression of the number of their rows."""
        nest = self.nest
        if nest.images > 1:
            self.block.loop("image", nest.images, 1)
        self.block.loop("first", nest.rows, nest.strip)
        if not nest.has_remainder:
            return str(nest.strip)
        self.block.line(f"const int32_t count = {steps_left(nest.rows, 'first', nest.strip)};")
        return "count"

    def columns(self) -> None:
        nest = self.nest
        if nest.columns > 1:
            self.block.tiles("c", nest.columns, nest.tile.columns, str(nest.columns))


@dataclass(frozen=True)
class _SharedLoops(_Loops):
    """
    Prints the loops of a layer that threads share: all rows of tiles, or the panels of each strip.
    If there is a single row, they share columns of tiles.
    """

    @property
    def by_panels(self) -> bool:
        """
        Whether threads share panels, so that they read different weights but the same input.
        Otherwise they read different rows of the input but the same weights. All read the smaller
        of both.
        """
        nest = self.nest
        inputs = nest.images * nest.height * nest.width * nest.channels
        return nest.panels > 1 and prod(nest.panel_shape(1)) > MIN_WEIGHTS_PER_INPUT * inputs

    def print(self, strip: Strip | None, body: Sequence[str], each_panel: Sequence[str]) -> None:
        nest, block, panels = self.nest, self.block, self.nest.panels
        step = nest.tile.rows
        of_strip = -(-nest.strip // step)
        last = (nest.rows - 1) % nest.strip + 1
        of_image = nest.rows // nest.strip * of_strip
        if nest.has_remainder:
            of_image += -(-last // step)
        has_row = nest.images * of_image == 1
        if has_row:
            step = nest.tile.columns
            of_strip = of_image = -(-nest.columns // step)
        if not self.by_panels:
            block.line(f"const struct share share = share_of({nest.images * of_image * panels});")
        count = self.strips()
        tiles = str(of_strip)
        if nest.has_remainder:
            tiles = "tiles"
            block.line(f"const int32_t tiles = {_up('count', step)};")
        units = _times(tiles, panels)
        if self.by_panels:
            block.line(f"const struct share own = share_of({units});")
        else:
            block.line(
                f"const struct share own = share_within(share, {self.before(of_image, of_strip)}, "
                f"{units});"
            )
        block.open("if (own.first < own.end)")
        starts = "own.first", "own.end"
        by_rows = not self.by_panels and of_strip > 1
        if strip and by_rows and not has_row:
            self.own_rows(count)
            block.line(strip.copy(nest, "rows", "top"))
        elif strip:
            block.line(strip.copy(nest, count, ""))
        if panels > 1 and by_rows:
            block.loop("panel", panels, 1)
            starts = (
                f"(own.first + {panels - 1} - panel) / {panels}",
                f"(own.end + {panels - 1} - panel) / {panels}",
            )
        elif panels > 1:
            first, end = starts
            if of_strip > 1:
                first, end = f"own.first / {tiles}", _up("own.end", tiles)
            block.loop("panel", panels, 1, end, first)
            if of_strip > 1:
                start = _times("panel", tiles)
                block.line(f"const struct share part = share_within(own, {start}, {tiles});")
                starts = "part.first", "part.end"
            else:
                starts = "0", "1"
        self.panel()
        for text in each_panel:
            block.line(text)
        bounds = {"start": _times(starts[0], step), "end": _times(starts[1], step)}
        if has_row:
            block.line("const int32_t r = 0;")
            if nest.columns > 1:
                block.tiles("c", nest.columns, step, str(nest.columns), **bounds)
        else:
            block.tiles("r", self.most_rows, step, count, **bounds)
            self.columns()
        for text in body:
            block.line(text)

    def before(self, of_image: int, of_strip: int) -> str:
        """Return the C expression of the number of units before the current strip."""
        nest = self.nest
        terms = [f"image * {of_image * nest.panels}"] if nest.images > 1 else []
        if nest.rows > nest.strip:
            terms.append(f"first / {nest.strip} * {of_strip * nest.panels}")
        return " + ".join(terms) or "0"

    def own_rows(self, count: str) -> None:
        """Print the first output row and the number of output rows of the tiles of a thread."""
        step, panels, block = self.nest.tile.rows, self.nest.panels, self.block
        first, end = "own.first", "own.end"
        if panels > 1:
            first, end = f"own.first / {panels}", _up("own.end", panels)
        if self.most_rows % step == 0:
            block.line(f"const int32_t top = {_times(first, step)};")
            block.line(f"const int32_t rows = {_times(end, step)} - top;")
            return
        last = str(int(count) - step) if count.isdecimal() else f"{count} - {step}"
        block.line(f"const int32_t top = share_bound({_times(first, step)}, {last});")
        block.line(f"const int32_t rows = share_bound({_times(end, step)}, {count}) - top;")

    def panel(self) -> None:
        """Print the group and the first output of the current panel."""
        nest, block = self.nest, self.block
        each, width = nest.panels // nest.groups, nest.tile.width
        if nest.groups > 1:
            block.line(f"const int32_t g = {'panel' if each == 1 else f'panel / {each}'};")
        if each == 1:
            block.line("const int32_t b = 0;")
        else:
            of_group = f"panel % {each}" if nest.groups > 1 else "panel"
            block.line(f"const int32_t b = {_times(of_group, width)};")


def _times(value: str, factor: int | str) -> str:
    if value in "01":
        return str(factor) if value == "1" else value
    return value if str(factor) == "1" else f"{value} * {factor}"


def _up(value: str, divisor: int | str) -> str:
    """Return the C expression of a quotient, rounded up."""
    if str(divisor) == "1":
        return value
    more = int(divisor) - 1 if str(divisor).isdecimal() else f"{divisor} - 1"
    return f"({value} + {more}) / {divisor}"
