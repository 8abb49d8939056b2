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
"""Cycles of one step that are neither a load nor a product."""


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
    def width(self) -> int:
        """Outputs of one tile."""
        return self.blocks * LANES

    @property
    def step_cycles(self) -> float:
        """Of one step over k: a product per sum, a load per vector of weights and position."""
        sums = self.positions * self.blocks
        return max(sums, self.positions + self.blocks, LATENCY_CYCLES) + OVERHEAD_CYCLES


def _shapes(rows: int, columns: int) -> Iterator[Tile]:
    for blocks in range(1, 16):
        most = (VECTOR_REGISTERS - 1 - blocks) // blocks
        for wide in range(1, min(columns, most) + 1):
            # Only whole rows can be stacked.
            stacked = min(rows, most // wide) if wide == columns else 1
            for high in range(1, stacked + 1):
                yield Tile(high, wide, blocks)


def step_cycles(tile: Tile, rows: int, columns: int, outputs: int) -> float:
    """Of one step over k of all positions and outputs."""
    blocks = -(-outputs // LANES)
    tiles = -(-rows // tile.rows) * -(-columns // tile.columns) * -(-blocks // tile.blocks)
    return tiles * tile.step_cycles


@cache
def choose_tile(rows: int, columns: int, outputs: int, rank: int = 0) -> Tile:
    """
    The tile that needs the fewest cycles, or another by its rank; among equals the first, which is
    the smallest.
    """
    if not rank:
        return min(_shapes(rows, columns), key=lambda t: step_cycles(t, rows, columns, outputs))
    ranked = sorted(_shapes(rows, columns), key=lambda t: step_cycles(t, rows, columns, outputs))
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
