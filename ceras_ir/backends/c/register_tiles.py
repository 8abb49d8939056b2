"""
Register tiles: how many positions and outputs a processor with vectors of 16 lanes computes at
once, chosen per shape, how a layer's positions are cut into tiles and strips, and the distances
between the elements that a tile reads and writes.

A tile keeps `positions * blocks` sums, `blocks` vectors of weights and one of the input in
registers. Where tiles do not divide a row, the last one starts earlier and computes some outputs
twice, so that every tile of a layer has one shape.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from ceras_ir.backends.c.integer_layer import Epilogue

LANES = 16
"""Outputs of one vector: 32-bit sums in 512 bits."""

CONDITION, WIDE = "MODEL_LANES", "MODEL_LANES == 16"
"""What the preprocessor tests: whether there are x86's vectors, and whether they are this wide."""

RVV, TILES = "MODEL_RVV", "MODEL_TILES"
"""Whether there are RISC-V's vectors, and whether there are register tiles for integers at all."""

FLOAT_LANES = "MODEL_F32"
"""Lanes of float vectors, or 0: there may be some where there are none for integers."""

FLOAT_VECTORS = f"{FLOAT_LANES} && !{RVV}"
"""Where there are some, but not RISC-V's, whose compilers make vectors of loops as they are."""

VECTOR_REGISTERS = 32

LATENCY_CYCLES = 4
"""Cycles until a multiply-accumulate's result can be added to: fewer sums leave gaps."""

OVERHEAD_CYCLES = 1.0
"""Cycles of one step of floats that are neither a load nor a product."""

CALL_CYCLES, SUM_CYCLES, ODD_CYCLES = 8.0, 0.6, 0.6
"""
Cycles of a tile beside its steps: of each, of each sum, and more of those where vectors of outputs
are odd, which are stored by quarters.
"""

MOST_AHEAD, CROWD_CYCLES = 8, 4.0
"""Positions that cost nothing beside their sums, and cycles of a tile for each further one."""

LEAST_SHARING = 5
"""Positions from which on compilers keep vectors of weights in registers."""


@dataclass(frozen=True)
class Tile:
    """`rows` by `columns` output positions times `blocks` vectors of outputs."""

    rows: int
    columns: int
    blocks: int

    @property
    def positions(self) -> int:
        return self.rows * self.columns

    @property
    def vectors(self) -> int:
        """Of sums."""
        return self.positions * self.blocks

    @property
    def width(self) -> int:
        """Outputs of one tile."""
        return self.blocks * LANES

    @property
    def step_cycles(self) -> float:
        """Of one step over k: a product per sum, a load per vector of weights and position."""
        return max(self.vectors, self.positions + self.blocks, LATENCY_CYCLES) + OVERHEAD_CYCLES

    def cycles(self, steps: int) -> float:
        """Of all, as measured for integers on Zen 4."""
        weights = self.blocks if self.positions >= LEAST_SHARING else self.vectors
        step = max(self.vectors, self.positions + weights, LATENCY_CYCLES)
        each = SUM_CYCLES + (ODD_CYCLES if self.blocks % 2 and self.blocks > 1 else 0)
        crowd = CROWD_CYCLES * max(self.positions - MOST_AHEAD, 0)
        return steps * step + CALL_CYCLES + each * self.vectors + crowd


def _shapes(rows: int, columns: int) -> Iterator[Tile]:
    for blocks in range(1, 16):
        most = (VECTOR_REGISTERS - 1 - blocks) // blocks
        for wide in range(1, min(columns, most) + 1):
            # Only whole rows can be stacked.
            stacked = min(rows, most // wide) if wide == columns else 1
            for high in range(1, stacked + 1):
                yield Tile(high, wide, blocks)


def _tiles(tile: Tile, rows: int, columns: int, outputs: int) -> int:
    """How many there are of all positions and outputs."""
    blocks = -(-outputs // LANES)
    return -(-rows // tile.rows) * -(-columns // tile.columns) * -(-blocks // tile.blocks)


def step_cycles(tile: Tile, rows: int, columns: int, outputs: int) -> float:
    """Of one step over k of all positions and outputs, in floats."""
    return _tiles(tile, rows, columns, outputs) * tile.step_cycles


@cache
def choose_tile(rows: int, columns: int, outputs: int, steps: int = 0, rank: int = 0) -> Tile:
    """
    The tile that needs the fewest cycles for so many steps over k, or for one of floats without
    any; or another by its rank. Among equals the first, which is the smallest.
    """

    def cycles(tile: Tile) -> float:
        each = tile.cycles(steps) if steps else tile.step_cycles
        return _tiles(tile, rows, columns, outputs) * each

    if not rank:
        return min(_shapes(rows, columns), key=cycles)
    ranked = sorted(_shapes(rows, columns), key=cycles)
    return ranked[min(rank, len(ranked) - 1)]


def whole_tiles(rows: int, outputs: int) -> list[Tile]:
    """For each width that divides the outputs, the best tile of a matrix product."""
    best: dict[int, Tile] = {}
    for tile in _shapes(rows, 1):
        if outputs % tile.width == 0:
            kept = best.setdefault(tile.blocks, tile)
            best[tile.blocks] = min(kept, tile, key=lambda t: step_cycles(t, rows, 1, outputs))
    return list(best.values())


def strip_length(total: int, step: int, most: int) -> int:
    """
    Into how long strips `total` rows (or positions) are cut, none longer than about `most`: a
    multiple of `step` if there are several, and the last no shorter than `step`.
    """
    tiles = -(-total // step)
    strips = -(-tiles * step // max(most, step))
    length = -(-tiles // strips) * step
    while length < total and 0 < total % length < step:
        length += step
    return min(length, total)


@dataclass(frozen=True)
class Walk:
    """What a tile reads: distances in elements of the input, and how many."""

    tile: Tile
    runs: int
    """Rows of a window, each contiguous in the input."""
    steps: int
    """Steps of a row."""
    pitch: int
    """From one row of a window to the next."""
    row: int
    """From one output row to the next."""
    column: int
    """From one output position to the next."""
    ends_in_half: bool = False
    """Whether the lower half of the last vector holds all outputs that are left for it."""
    pieces: int = 1
    """Of a row of a window, each contiguous; the steps are those of one."""
    piece: int = 0
    """From one of them to the next."""
    joins_ends: bool = False
    """Whether rows end in a step of one byte, and the ends of all, at most four, are one step."""

    @property
    def offsets(self) -> list[int]:
        """Where each position starts."""
        t = self.tile
        return [r * self.row + c * self.column for r in range(t.rows) for c in range(t.columns)]


@dataclass(frozen=True)
class Stores:
    """Where a tile's results go: distances in elements of the result."""

    row: int
    column: int
    has_residual: bool
    is_masked: bool
    """Whether the last vector of outputs may not be whole."""

    low: bool = True
    """Whether there is a lower bound beside that of the stored type; of integers."""
    high: bool = True
    bits: int = 8
    """Of a stored integer: 8, which may be unsigned, or 16."""
    is_signed: bool = True
    residual_bits: int = 8
    has_factors: bool = False
    """Whether the residual of each output has a factor of its own; else one shift is for all."""
    has_shifts: bool = False
    """Whether each output goes right by bits of its own."""
    scale_bits: int = 0
    """Of products of sums with multipliers, of which each output has its own; 0 without."""

    @property
    def alignment(self) -> tuple[str, str]:
        """Type and name of the parameter that brings residuals to the scale of sums."""
        return ("const int32_t *", "factors") if self.has_factors else ("int32_t ", "left_shift")

    @property
    def shift(self) -> tuple[str, str]:
        """Type and name of the parameter by which sums go right."""
        return ("const int32_t *", "shifts") if self.has_shifts else ("int32_t ", "shift")

    @property
    def residual_kind(self) -> str:
        """Ends the names of functions that read a residual."""
        return f"{self.residual_bits}{'_each' if self.has_factors else ''}"

    def ending_in(self, e: Epilogue, *, has_factors: bool) -> "Stores":
        """The same of what an epilogue computes."""
        return replace(
            self, low=e.has_low, high=e.has_high, bits=e.bits, is_signed=e.least < 0,
            residual_bits=e.residual_bits, scale_bits=e.scale_bits, has_factors=has_factors,
            has_shifts=bool(e.shifts),
        )  # fmt: skip

    @property
    def kind(self) -> str:
        """What macros call a stored integer: I8, U8 or I16."""
        return f"{'I' if self.is_signed else 'U'}{self.bits}"

    @property
    def result(self) -> str:
        """What types call it, such as `int8`."""
        return f"{'' if self.is_signed else 'u'}int{self.bits}"

    @property
    def is_packed(self) -> bool:
        """Whether vectors become bytes several at once."""
        return self.bits == 8 and not self.is_masked

    def clamped(self, value: str, kind: str) -> str:
        """An expression between the bounds of this kind of number, I32, I8 or U8."""
        least, most = f"least_{kind.lower()}", f"most_{kind.lower()}"
        match self.low, self.high:
            case True, True:
                return f"CLAMP_{kind}({value}, {least}, {most})"
            case True, False:
                return f"MAX_{kind}({value}, {least})"
            case False, True:
                return f"MIN_{kind}({value}, {most})"
            case _:
                return value

    def offset(self, tile: Tile, position: int) -> int:
        """Where the outputs of one position of a tile start."""
        return position // tile.columns * self.row + position % tile.columns * self.column


@dataclass(frozen=True)
class Lanes:
    """What the vectors of a kind of number are called."""

    vector: str
    element: str
    step: int
    """Products that one lane adds up in one instruction."""
    load: str
    load_weights: str
    splat: str
    dot: str
    suffix: str = ""
    """Of the names of tiles."""


BYTES = Lanes("model_i32v", "uint8_t", 4, "LOAD_I32", "LOAD_BYTES", "SPLAT", "DOT")
MOVED_BYTES = replace(BYTES, element="int8_t", splat="SPLAT_MOVED", suffix="_moved")
"""Signed bytes, moved by 128 as they are read."""
WORDS = Lanes("model_i32v", "int16_t", 2, "LOAD_I32", "LOAD_WORDS", "SPLAT", "DOT_WORDS", "_words")
"""Elements of 16 bits, two at a time; the bytes of weights are widened as they are read."""
FLOATS = Lanes("model_f32v", "float", 1, "LOAD_F32", "LOAD_F32", "SPLAT_F32", "FMA")


def lanes_of(stored: str) -> Lanes:
    """How elements of a stored type are multiplied by bytes."""
    return WORDS if stored == "int16_t" else BYTES


def inner_loops(element: str, *, has_pieces: bool) -> tuple[list[str], list[str]]:
    """What opens and closes the loops over the pieces and steps of a row, but for the last line."""
    if not has_pieces:
        return [f"    const {element} *at = x;"], ["    }"]
    return [
        f"    const {element} *part = x;",
        "    for (int32_t p = 0; p < pieces; ++p, part += piece) {",
        f"    const {element} *at = part;",
    ], ["    }", "    }"]


def pieces_parameters(*, has_pieces: bool) -> str:
    """The parameters for the pieces of a row, which end with a comma."""
    return "int32_t pieces, int32_t piece, " if has_pieces else ""
