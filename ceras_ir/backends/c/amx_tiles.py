"""
Choose products in the tiles of AMX, which x86 processors have in addition to vectors.

An AMX tile has up to 16 rows of 64 bytes: 16 positions by 64 channels of the input, 64 products by
16 outputs of the weights (the layout of register tiles), or 16 positions by 16 outputs of 32-bit
sums. An instruction multiplies two tiles and adds the products to a third. Up to four tiles of sums
are computed together. They are stored in an array, to which the output stage of register tiles is
applied in vectors.

Inputs of 16 bits are copied as two planes, of low bytes (unsigned) and of high bytes (signed). Each
plane has separate sums. The sum of a product is that of the low bytes plus 256 times that of the
high bytes. If it fits 32 bits, it is exact, because both parts are exact modulo 2**32.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property

from ceras_ir.backends.c.register_tiles import (
    BYTE_LANES,
    LANES_PER_VECTOR,
    WORDS,
    Tile,
    Walk,
    strip_length,
)
from ceras_ir.backends.c.tile_nest import SLACK, Nest

AMX = "MODEL_AMX"
"""Preprocessor condition: tiles of AMX, in addition to vectors of 16 lanes."""

TILE_ROWS = 16
"""Positions, or words of four products, of a tile."""

MAX_SUMS = 4
"""Tiles of sums; the other four hold positions of the input and weights."""

STRIP_BYTES = 256 * 1024
"""
The bytes of rows of an input without border that are multiplied by all weights in turn, and of
their results and residuals.
"""

FIRST_LEVEL_BYTES = 32 * 1024
"""Bytes of a panel of weights that the first-level cache holds in addition to the input."""

MIN_PRODUCT_CYCLES = 9.5
"""The least cycles of an instruction that multiplies tiles. Otherwise it needs one per position."""

LOAD_CYCLES, FAR_LOAD_CYCLES = 0.62, 0.8
"""
Cycles to load a row of a tile, of 64 bytes, and further cycles if it is not in the first-level
cache.
"""

CALL_CYCLES, VECTOR_CYCLES, STORE_CYCLES = 60.0, 3.9, 2.4
"""
Cycles of a call that computes tiles, of the output stage of a vector of sums, and of the store of a
position.
"""

PLANE_CYCLES, SPLIT_CYCLES, COPY_CYCLES = 2.0, 0.1, 0.05
"""
Cycles to join two sums in a vector, to split an input element into two planes, and to copy a byte
of the pixels of a strided window.
"""

MASKED_FACTOR = 2.0
"""The cycles of the output stage with incomplete vectors, which are stored one by one."""

MAX_SHARE = 0.65
"""
The maximum modelled time, as a share of that of register tiles, for which AMX is chosen. Processors
with AMX need 0.5 to 0.65 of the modelled time of register tiles.
"""

CACHE_LINE_BYTES = 64


@dataclass(frozen=True)
class AmxTile:
    """
    The tiles that a call computes: `high` tiles of `positions` positions, by `blocks` tiles of 16
    outputs. `nest` has the loops around them, and `panel` is the number of outputs of a panel of
    weights. Inputs of 16 bits have two `planes`.
    """

    nest: Nest
    high: int
    positions: int
    panel: int
    planes: int = 1
    is_padded: bool = False
    """
    Whether the tiles cover a small map in lines of the padded width, of which the last positions
    are not stored.
    """

    @property
    def blocks(self) -> int:
        return self.nest.tile.blocks

    @cached_property
    def walk(self) -> Walk:
        return self.nest.walk(BYTE_LANES.step)

    @property
    def chunks(self) -> tuple[int, int, int]:
        """
        The words of four products of a tile, the number of such tiles in a contiguous part of a
        window, and the words of the last, shorter tile, or 0.
        """
        steps = self.walk.steps
        count = -(-steps // TILE_ROWS)
        if steps % count == 0:
            return steps // count, count, 0
        return TILE_ROWS, steps // TILE_ROWS, steps % TILE_ROWS

    @property
    def configuration(self) -> str:
        """The C statement with which each thread configures tiles."""
        words, _, last = self.chunks
        return f"amx_configure({self.positions}, {words}, {last or words});"

    @property
    def sums(self) -> int:
        """The sums of a call."""
        return self.planes * self.computed * self.nest.tile.width

    def multiplies_signed(self, stored: str) -> bool:
        """Return whether tiles load signed bytes, which have no offset, from the input."""
        return self.nest.in_place and stored == "int8_t"

    @property
    def computed(self) -> int:
        """The positions of a call, stored or not."""
        return self.high * self.positions

    @property
    def cycles(self) -> float:
        """The modelled cycles of the layer."""
        nest, walk, (words, count, last) = self.nest, self.walk, self.chunks
        t, parts, inputs = nest.tile, walk.runs * walk.pieces, self.planes * self.high
        sums = inputs * self.blocks
        least = max(self.positions, MIN_PRODUCT_CYCLES)
        # The order of the products loads each block of weights, then all but one again.
        reloads = self.blocks + (inputs - 1) * (self.blocks - 1)
        products = loads = 0.0
        for rows, times in ((words, count), (last, 1 if last else 0)):
            products += parts * times * (reloads * max(least, rows) + (sums - reloads) * least)
            # Each second line of interleaved panels is for other outputs.
            weights = reloads * rows * max(1, self.panel // t.width)
            if self.blocks * self.panel_bytes > FIRST_LEVEL_BYTES:
                weights *= 1 + FAR_LOAD_CYCLES / LOAD_CYCLES
            loads += LOAD_CYCLES * parts * times * (inputs * self.positions + weights)
        if nest.strip_elements > FIRST_LEVEL_BYTES:
            high = (t.rows - 1) * nest.stride[0] + nest.extent
            wide = (t.columns - 1) * nest.stride[1] + nest.kernel[1]
            lines = high * -(-wide * nest.group_channels // CACHE_LINE_BYTES)
            loads += FAR_LOAD_CYCLES * lines
        vector = VECTOR_CYCLES + (PLANE_CYCLES if self.planes > 1 else 0)
        outputs = (vector * self.blocks + STORE_CYCLES) * t.positions
        if nest.outputs % LANES_PER_VECTOR:
            outputs *= MASKED_FACTOR
        outputs += CALL_CYCLES
        calls = -(-nest.rows // t.rows) * -(-nest.columns // t.columns)
        calls *= nest.images * nest.groups * -(-nest.outputs // t.width)
        copied = nest.height * nest.width * nest.channels * nest.images
        if self.planes > 1:
            copied *= SPLIT_CYCLES
        else:
            copied *= COPY_CYCLES if nest.is_product and not nest.in_place else 0.0
        return calls * (max(products, loads) + outputs) + copied

    @property
    def plane(self) -> int:
        """The distance in bytes between the planes of an input."""
        return -(-self.strip_elements // CACHE_LINE_BYTES) * CACHE_LINE_BYTES

    @property
    def strip_elements(self) -> int:
        """The elements of a copied strip, and further elements that tiles may load."""
        further = self.computed - _padded(self.nest) if self.is_padded else 0
        return self.nest.strip_elements + further * self.nest.channels + SLACK

    @property
    def panel_bytes(self) -> int:
        """The bytes of the weights of 16 outputs."""
        return self.walk.runs * self.walk.pieces * self.walk.steps * BYTE_LANES.step * TILE_ROWS

    @property
    def fetched_lines(self) -> int:
        """
        The cache lines of the weights of the next panel that are prefetched in each step of a call,
        or 0 if they are not contiguous.
        """
        width, unit = self.nest.tile.width, self._fetched_outputs
        if unit % width or unit % self.panel or unit >= self.nest.outputs:
            return 0
        count = self.chunks[1]
        steps = self.walk.runs * self.walk.pieces * count
        lines = self._fetched_bytes // CACHE_LINE_BYTES
        return -(-lines // (steps * self.calls))

    @property
    def calls(self) -> int:
        """
        The number of calls that prefetch parts of the next weights: for the outputs of a panel, and
        a column of tiles.
        """
        return self._fetched_outputs // self.nest.tile.width * self._tiles_of_column

    @property
    def _tiles_of_column(self) -> int:
        return -(-min(self.nest.rows, self.nest.strip) // self.nest.tile.rows)

    @property
    def _fetched_outputs(self) -> int:
        """The outputs with contiguous weights."""
        return max(self.nest.tile.width, self.panel)

    @property
    def _fetched_bytes(self) -> int:
        return self._fetched_outputs // LANES_PER_VECTOR * self.panel_bytes

    def next_at(self, weights: str) -> str:
        """
        Return the C expression of the address of the weights that a call prefetches. Processors
        prefetch faster if addresses are contiguous.
        """
        size, t = self._fetched_bytes, self.nest.tile
        part = size // self.calls // CACHE_LINE_BYTES * CACHE_LINE_BYTES
        if self.panel > t.width:
            start = self._panels.panel_at(weights, BYTE_LANES.step, self._first_of_panel)
            of_panel = part * self._tiles_of_column
            start += f" + {size} + b % {self.panel} / {t.width} * {of_panel}"
        else:
            start = f"{self.panel_at(weights)} + {size}"
        return start if self._tiles_of_column == 1 else f"{start} + r / {t.rows} * {part}"

    @property
    def tile_distance(self) -> int:
        """The distance in elements between tiles of the input."""
        is_line = self._is_line or self.is_padded
        return self.positions * self.distance if is_line else self.walk.row

    @property
    def distance(self) -> int:
        """The distance in elements between positions of the input."""
        return self.walk.row if self.nest.columns == 1 else self.walk.column

    @property
    def _is_line(self) -> bool:
        """Whether all positions of a call have the same distance, in input and result."""
        t = self.nest.tile
        return t.columns == 1 or t.rows == 1

    @property
    def line(self) -> int:
        """The number of positions of a call that have the same distance, in input and result."""
        if self.is_padded:
            return self.nest.columns
        return self.computed if self._is_line else self.positions

    def panel_at(self, weights: str) -> str:
        """Return the C expression of the address of the weights from output `b` of group `g`."""
        if self.nest.tile.width % self.panel == 0:
            return self._panels.panel_at(weights, BYTE_LANES.step)
        start = self._panels.panel_at(weights, BYTE_LANES.step, self._first_of_panel)
        return f"{start} + b % {self.panel} * {BYTE_LANES.step}"

    @property
    def _first_of_panel(self) -> str:
        return f"b / {self.panel} * {self.panel}"

    @property
    def _panels(self) -> Nest:
        tile = replace(self.nest.tile, blocks=self.panel // LANES_PER_VECTOR)
        return replace(self.nest, tile=tile)

    def block_at(self, block: int) -> int:
        """Return the distance in bytes between the weights of the first block and of `block`."""
        output = block * LANES_PER_VECTOR
        size = self.walk.runs * self.walk.pieces * self.walk.steps * BYTE_LANES.step
        first = output // self.panel * self.panel
        return first * size + (output - first) * BYTE_LANES.step


def _tiles(nest: Nest, planes: int) -> Iterator[AmxTile]:
    panel, blocks = nest.tile.width, -(-nest.outputs // LANES_PER_VECTOR)
    is_column = nest.columns == 1
    length = nest.rows if is_column else nest.columns
    widths = {wide: wide * LANES_PER_VECTOR for wide in range(1, MAX_SUMS // planes + 1)}
    whole = [w for w, n in widths.items() if blocks % w == 0 and (panel % n == 0 or n % panel == 0)]
    if planes == 1 and not nest.in_place and nest.stride == (1, 1) and nest.columns > 1 < nest.rows:
        for wide in whole:
            high = MAX_SUMS // wide
            positions = -(-_padded(nest) // high)
            if positions <= TILE_ROWS:
                tile = Tile(nest.rows, nest.columns, wide)
                yield AmxTile(replace(nest, tile=tile), high, positions, panel, is_padded=True)
    # A single tile of weights at a time is slower, unless there is a single one.
    for wide in whole[1:] or whole:
        for high in range(1, MAX_SUMS // (wide * planes) + 1):
            for positions in range(1, TILE_ROWS + 1):
                line = high * positions
                if is_column or nest.rows == 1:
                    tile = Tile(line, 1, wide) if is_column else Tile(1, line, wide)
                    if line > length:
                        continue
                else:
                    tile = Tile(high, positions, wide)
                    if high > nest.rows or positions > length:
                        continue
                yield AmxTile(replace(nest, tile=tile), high, positions, panel, planes)


def _padded(nest: Nest) -> int:
    """Return the positions of a map in lines of the padded width."""
    return (nest.rows - 1) * nest.padded_width + nest.columns


@cache
def _fastest(nest: Nest, planes: int) -> AmxTile | None:
    tiles = _tiles(nest, planes)
    return min(tiles, key=lambda t: (t.cycles, t.high, t.positions), default=None)


def amx_tile(nest: Nest, max_bytes: int, output_bytes: int, *, is_wide: bool) -> AmxTile | None:
    """
    Return the fastest AMX tiles by the model of cycles for a layer of bytes, or with `is_wide` of
    16-bit inputs, or `None` if register tiles are faster. `nest` has the loops over register tiles,
    and the copy of inputs of 16 bits has at most `max_bytes` bytes. An output has `output_bytes`
    bytes, with the residual.
    """
    cycles = MAX_SHARE * nest.integer_cycles((WORDS if is_wide else BYTE_LANES).step)
    separate = _separate(nest)
    loops = [separate] if is_wide else [_in_place(nest)]
    if separate.is_product and not (is_wide or nest.is_product):
        loops.append(separate)
    found = (_fastest(nest, 1 + is_wide) for nest in loops)
    best = min(filter(None, found), key=lambda t: t.cycles, default=None)
    if best is None or best.cycles > cycles:
        return None
    nest = best.nest
    rows, strip = nest.tile.rows, nest.strip
    rows_of_strip = STRIP_BYTES // (best.planes * nest.channels + output_bytes * nest.outputs)
    if nest.is_product and not nest.in_place:
        rows_of_copy = max_bytes // (best.planes * nest.channels)
        strip = strip_length(nest.rows, rows, min(rows_of_copy, rows_of_strip))
    elif nest.in_place:
        strip = strip_length(nest.rows, rows, max(rows_of_strip // nest.columns, 1))
    elif strip < nest.rows and (strip % rows or nest.rows % strip):
        strip = strip_length(nest.rows, rows, nest.strip)
    return replace(best, nest=best.nest.with_strip(max(strip, rows)))


def _in_place(nest: Nest) -> Nest:
    """
    Return the loops over the input without a copy, if windows need no border. Tiles load multiples
    of four bytes, and multiply signed bytes without an offset.
    """
    high = (nest.rows - 1) * nest.stride[0] + nest.extent
    is_inside = high <= nest.height and nest.padded_width <= nest.width
    if nest.top or nest.left or not is_inside or nest.taps % BYTE_LANES.step:
        return nest
    return replace(nest, in_place=True)


def _separate(nest: Nest) -> Nest:
    """
    Return the loops over a copy of the input. A window of a single pixel needs only some pixels,
    which form a matrix product.
    """
    if nest.kernel != (1, 1) or nest.top or nest.left:
        return replace(nest, in_place=False)
    count = nest.rows * nest.columns
    return replace(
        nest, height=count, width=1, rows=count, columns=1, stride=(1, 1), dilation=(1, 1),
        tile=replace(nest.tile, rows=nest.tile.positions, columns=1), in_place=False,
    )  # fmt: skip
