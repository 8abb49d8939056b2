"""
Choose register tiles: the positions and outputs that are computed at once.

The model describes a processor with vectors of 16 lanes. A tile keeps `positions * blocks` sums,
`blocks` vectors of weights and a vector of the input in registers. If tiles do not divide a row,
the last tile starts earlier and computes some outputs twice, so that all tiles have the same shape.
`Walk` and `Stores` have the distances between the elements that a tile loads and stores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ceras_ir.backends.c.integer_layer import Epilogue
from ceras_ir.backends.c.packed_words import Format

LANES_PER_VECTOR = 16
"""The number of outputs of a vector: 32-bit sums in 512 bits."""

CONDITION, HAS_16_LANES = "MODEL_LANES", "MODEL_LANES == 16"
"""Preprocessor conditions: x86 vectors, and x86 vectors of 16 lanes."""

RVV, NEON, TILES = "MODEL_RVV", "MODEL_NEON", "MODEL_TILES"
"""
Preprocessor conditions: RISC-V vectors, vectors of 64-bit Arm (3 with matrix products, 2 with dot
products, else 1), and register tiles for integers.
"""

FLOAT_LANES = "MODEL_F32"
"""Preprocessor expression: lanes of float vectors, or 0, independent of integer vectors."""

FLOAT_VECTORS = f"{FLOAT_LANES} && !{RVV}"
"""Float vectors other than RISC-V, for which compilers vectorize the portable loops."""

EIGHT_LANES, FLOAT_TILES = f"{FLOAT_LANES} == 8", f"{FLOAT_LANES} && {FLOAT_LANES} != 8"
"""
Preprocessor conditions: float vectors of 8 lanes, which `float_blocks` prints, and vectors of other
lengths, for which layers have register tiles.
"""

VECTOR_REGISTERS = 32

MULTIPLY_LATENCY_CYCLES = 4
"""Cycles until the result of a multiply-accumulate is available: fewer sums leave gaps."""

OVERHEAD_CYCLES = 1.0
"""Cycles of a float step in addition to loads and products."""

CALL_CYCLES, SUM_CYCLES, ODD_CYCLES = 8.0, 0.6, 0.6
"""
Cycles per tile, per sum, and further cycles per sum for an odd number of vectors of outputs, which
are stored in quarters.
"""

MAX_FREE_POSITIONS, FURTHER_POSITION_CYCLES = 8, 4.0
"""Positions without further cost, and cycles of a tile for each further position."""

LARGEST_WORD = (1 << 15) - 1

MIN_SHARING_POSITIONS = 5
"""The minimum number of positions at which compilers keep vectors of weights in registers."""


@dataclass(frozen=True)
class Tile:
    """
    A register tile: the sums of `rows` by `columns` output positions and `blocks` vectors of output
    channels, which are computed together.
    """

    rows: int
    columns: int
    blocks: int

    @property
    def positions(self) -> int:
        return self.rows * self.columns

    @property
    def equidistant(self) -> list[int]:
        """
        The numbers of equidistant positions: the length of each row, or of the only column.
        """
        return [self.rows] if self.columns == 1 else [self.columns] * self.rows

    @property
    def vectors(self) -> int:
        return self.positions * self.blocks

    @property
    def width(self) -> int:
        return self.blocks * LANES_PER_VECTOR

    @property
    def step_cycles(self) -> float:
        """
        The modelled cycles in which a float kernel adds a product to each sum of the tile, with the
        loads of weights and inputs.
        """
        return (
            max(self.vectors, self.positions + self.blocks, MULTIPLY_LATENCY_CYCLES)
            + OVERHEAD_CYCLES
        )

    def cycles(self, steps: int) -> float:
        """
        Return the modelled cycles of an integer kernel for a tile in which each sum has `steps`
        products. The constants were measured on Zen 4.
        """
        weights = self.blocks if self.positions >= MIN_SHARING_POSITIONS else self.vectors
        step = max(self.vectors, self.positions + weights, MULTIPLY_LATENCY_CYCLES)
        each = SUM_CYCLES + (ODD_CYCLES if self.blocks % 2 and self.blocks > 1 else 0)
        crowd = FURTHER_POSITION_CYCLES * max(self.positions - MAX_FREE_POSITIONS, 0)
        return steps * step + CALL_CYCLES + each * self.vectors + crowd


def _shapes(rows: int, columns: int) -> Iterator[Tile]:
    for blocks in range(1, 16):
        max_positions = (VECTOR_REGISTERS - 1 - blocks) // blocks
        for wide in range(1, min(columns, max_positions) + 1):
            # Only complete rows can be stacked.
            stacked = min(rows, max_positions // wide) if wide == columns else 1
            for high in range(1, stacked + 1):
                yield Tile(high, wide, blocks)


def _tiles(tile: Tile, rows: int, columns: int, outputs: int) -> int:
    blocks = -(-outputs // LANES_PER_VECTOR)
    return -(-rows // tile.rows) * -(-columns // tile.columns) * -(-blocks // tile.blocks)


def integer_cycles(tile: Tile, rows: int, columns: int, outputs: int, steps: int) -> float:
    """
    Return the modelled cycles of an integer layer with `rows` by `columns` output positions of
    `outputs` channels, and `steps` products in each sum.
    """
    return _tiles(tile, rows, columns, outputs) * tile.cycles(steps)


def step_cycles(tile: Tile, rows: int, columns: int, outputs: int) -> float:
    """
    Return the modelled cycles in which a float layer adds a product to each sum: `rows` by
    `columns` output positions of `outputs` channels.
    """
    return _tiles(tile, rows, columns, outputs) * tile.step_cycles


@cache
def choose_tile(rows: int, columns: int, outputs: int, steps: int = 0, rank: int = 0) -> Tile:
    """
    Return the register tile with the fewest modelled cycles for a layer with `rows` by `columns`
    output positions and `outputs` output channels.

    `steps` is the number of products in each integer sum; the default 0 selects the cost model of
    float kernels. `rank` 0 returns the best tile, 1 the second best, and so on. Among tiles with
    equal cycles, the smallest is first.
    """

    def cycles(tile: Tile) -> float:
        each = tile.cycles(steps) if steps else tile.step_cycles
        return _tiles(tile, rows, columns, outputs) * each

    if not rank:
        return min(_shapes(rows, columns), key=cycles)
    ranked = sorted(_shapes(rows, columns), key=cycles)
    return ranked[min(rank, len(ranked) - 1)]


MANY = 1 << 14
"""A number of positions or outputs at which the best tile does not depend on the remainder."""


def common_tile(
    rows: int, columns: int, outputs: int, steps: int, rank: int, *, is_computed: bool
) -> Tile:
    """
    Return a tile that layers of different lengths share: the tile of `choose_tile` for many
    positions, or for the next smaller power of two if the layer has too few. If the weights
    `is_computed`, the number of outputs may also depend on the length.
    """
    blocks = -(-outputs // LANES_PER_VECTOR)
    few = 1 << (columns if columns > 1 else rows).bit_length() - 1
    for count in (MANY, few):
        shape = (1, count) if columns > 1 else (count, 1)
        for wide in (MANY, outputs) if is_computed else (outputs,):
            tile = choose_tile(*shape, wide, steps, rank)
            if tile.rows <= rows and tile.columns <= columns and tile.blocks <= blocks:
                return tile
    return choose_tile(rows, columns, outputs, steps, rank)


def whole_tiles(rows: int, outputs: int) -> list[Tile]:
    """
    Return the tiles of a float matrix product that divide the `outputs` into complete tiles: for
    each possible tile width, the tile with the fewest cycles.
    """
    best: dict[int, Tile] = {}
    for tile in _shapes(rows, 1):
        if outputs % tile.width == 0:
            kept = best.setdefault(tile.blocks, tile)
            best[tile.blocks] = min(kept, tile, key=lambda t: step_cycles(t, rows, 1, outputs))
    return list(best.values())


def strip_length(total: int, step: int, max_rows: int) -> int:
    """
    Return the number of rows of the strips into which `total` rows are divided, at most about
    `max_rows`.

    If there are several strips, it is a multiple of `step`, and the last strip has at least `step`
    rows.
    """
    tiles = -(-total // step)
    strips = -(-tiles * step // max(max_rows, step))
    length = -(-tiles // strips) * step
    while length < total and 0 < total % length < step:
        length += step
    return min(length, total)


@dataclass(frozen=True)
class Walk:
    """
    The order in which a tile loads input elements: nested loops over the rows of a window and the
    steps of a row. Distances are in elements.
    """

    tile: Tile
    runs: int
    """The number of rows of a window, each contiguous in the input."""
    steps: int
    """The number of steps in which a row is multiplied."""
    pitch: int
    """The distance between rows of a window."""
    row: int
    """The distance between output rows."""
    column: int
    """The distance between adjacent output positions of a row."""
    ends_in_half: bool = False
    """Whether the outputs of the last vector fit in its lower half."""
    pieces: int = 1
    """The number of contiguous pieces of a row of a window; `steps` counts the steps of a piece."""
    piece: int = 0
    """The distance between pieces."""
    joins_ends: bool = False
    """Whether the single bytes at the ends of rows, at most four, form a step."""
    fetches_next: bool = False
    """Whether the tile prefetches a part of the next panel of weights, which its arguments name."""
    is_long: bool = False
    """Whether the tile is only for 64-bit Arm, which computes many positions in parts."""
    is_ordered: bool = False
    """Whether arguments name the order of steps without a dot-product instruction (`quads.py`)."""

    @property
    def all_steps(self) -> int:
        return self.runs * self.pieces * self.steps

    @property
    def offsets(self) -> list[int]:
        t = self.tile
        return [r * self.row + c * self.column for r in range(t.rows) for c in range(t.columns)]


@dataclass(frozen=True)
class Stores:
    """
    The addresses at which a tile stores the results, as distances in elements from the first
    result, and the conversion of the sums to the stored type.
    """

    row: int
    column: int
    has_residual: bool
    is_masked: bool
    """Whether the last vector of outputs may be incomplete."""

    low: bool = True
    """Whether integers have a lower bound other than saturation; `high` is the upper bound."""
    high: bool = True
    bits: int = 8
    """The width of a stored integer: 8 (signed or unsigned) or 16."""
    is_signed: bool = True
    residual_bits: int = 8
    has_factors: bool = False
    """Whether the residual has a factor per output; otherwise all share a shift."""
    has_word_factors: bool = False
    """Whether these factors fit 16 bits, so that an instruction multiplies and adds."""
    has_shifts: bool = False
    """Whether each output has a separate right shift."""
    is_even: bool = False
    """Whether the right shift rounds ties to even, as in `Epilogue`."""
    scale_bits: int = 0
    """The width of products of sums with multipliers per output; 0 without multipliers."""

    @property
    def alignment(self) -> tuple[str, str]:
        """
        The type and the name of the C parameter that multiplies residuals to the scale of the sums:
        an array of factors, or a common left shift.
        """
        array = "const int32_t *restrict ", "factors"
        return array if self.has_factors else ("int32_t ", "left_shift")

    @property
    def shift(self) -> tuple[str, str]:
        """
        The type and the name of the C parameter of the right shift of sums: an array with a shift
        for each output, or a common shift.
        """
        array = "const int32_t *restrict ", "shifts"
        return array if self.has_shifts else ("int32_t ", "shift")

    @property
    def residual_kind(self) -> str:
        """The suffix in names of C functions that load a residual, such as `8` or `16_each`."""
        return f"{self.residual_bits}{'_each' if self.has_factors else ''}"

    def with_epilogue(self, e: Epilogue, factors: Sequence[int]) -> "Stores":
        """Add an output stage. `factors` are those of the residual for each output, if any."""
        return replace(
            self, low=e.has_low, high=e.has_high, bits=e.bits, is_signed=e.lowest < 0,
            residual_bits=e.residual_bits, scale_bits=e.scale_bits, has_factors=bool(factors),
            has_word_factors=max(factors, default=LARGEST_WORD + 1) <= LARGEST_WORD,
            has_shifts=bool(e.shifts), is_even=e.is_even,
        )  # fmt: skip

    @property
    def kind(self) -> str:
        """The stored type in names of C macros: I8, U8 or I16."""
        return f"{'I' if self.is_signed else 'U'}{self.bits}"

    @property
    def result(self) -> str:
        """The stored type in names of C types, such as `int8`."""
        return f"{'' if self.is_signed else 'u'}int{self.bits}"

    @property
    def packed(self) -> int:
        """The vectors of 32-bit sums that are narrowed together to a vector; 0 if none are."""
        return 0 if self.is_masked else 32 // self.bits

    def clamped(self, value: str, kind: str) -> str:
        """
        Return the C expression `value`, clamped to the lower and the upper bound if these are
        needed. `kind` is the type of the elements in names of C macros: I32, I16, I8 or U8.
        """
        low, high = f"least_{kind.lower()}", f"most_{kind.lower()}"
        match self.low, self.high:
            case True, True:
                return f"CLAMP_{kind}({value}, {low}, {high})"
            case True, False:
                return f"MAX_{kind}({value}, {low})"
            case False, True:
                return f"MIN_{kind}({value}, {high})"
            case _:
                return value

    def offset(self, tile: Tile, position: int) -> int:
        """
        Return the distance in elements from the first result of a tile to the results of the output
        position with index `position` in the tile.
        """
        return position // tile.columns * self.row + position % tile.columns * self.column


@dataclass(frozen=True)
class Lanes:
    """
    The names of the C macros and types with which a kernel loads, multiplies and adds elements of a
    type in vectors.
    """

    vector: str
    element: str
    step: int
    """Products that a lane adds in an instruction."""
    load: str
    load_weights: str
    splat: str
    dot: str
    suffix: str = ""
    has_halves: bool = False
    """
    Whether a step has two products of half as many elements: `load_weights` is the start of the
    names of two macros, for the lower and for the upper elements.
    """
    is_unsigned: bool = False
    """Whether bytes are unsigned on all processors, not signed on 64-bit Arm as in strips."""
    is_full: bool = False
    """Whether a weight can be -128: the sum of two products of bytes may then exceed 16 bits."""
    packed: Format | None = None
    """The bits of weights that vectors unpack in registers; `None` for bytes."""


BYTE_LANES = Lanes("model_i32v", "uint8_t", 4, "LOAD_I32", "LOAD_BYTES", "SPLAT", "DOT")
MOVED_BYTES = replace(BYTE_LANES, element="int8_t", splat="SPLAT_MOVED", suffix="_moved")
"""Signed bytes, to which 128 is added as they are loaded."""
WORDS = Lanes("model_i32v", "int16_t", 2, "LOAD_I32", "LOAD_WORDS", "SPLAT", "DOT_WORDS", "_words")
"""Elements of 16 bits, two at a time. The bytes of weights are widened as they are loaded."""
WORDS_BY_FOUR = replace(WORDS, step=4, load_weights="LOAD_", suffix="_by_four", has_halves=True)
"""The same, with weights in the layout of bytes, which the tiles of AMX share."""
FLOATS = Lanes("model_f32v", "float", 1, "LOAD_F32", "LOAD_F32", "SPLAT_F32", "FMA")


def lanes_of(stored: str) -> Lanes:
    """Return the vector operations that multiply inputs of the C type `stored` by int8 weights."""
    return WORDS if stored == "int16_t" else BYTE_LANES
