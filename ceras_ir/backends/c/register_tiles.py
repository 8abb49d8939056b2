"""
Register tiles: how many positions and outputs a processor with vectors of 16 lanes computes at
once, chosen per shape, and how a layer's positions are cut into tiles and strips.

A tile keeps `positions * blocks` sums, `blocks` vectors of weights and one of the input in
registers. Where tiles do not divide a row, the last one starts earlier and computes some outputs
twice, so that every tile of a layer has one shape.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

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
