"""A layer as the array sees it, and the blocks that it is computed in."""

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of
from ceras_systolic.board import Board


class Tile(NamedTuple):
    """So many rows and columns of the result at once, over `depth` vectors of input channels."""

    rows: int
    columns: int
    depth: int


@dataclass(frozen=True)
class Layer:
    """A convolution of images; a matrix product is one of 1x1 windows on a single row."""

    batch: int
    height: int
    width: int
    channels: int
    rows: int
    columns: int
    outputs: int
    residual: bool
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, ...] = (1, 1)
    dilations: tuple[int, ...] = (1, 1)
    before: tuple[int, int] = (0, 0)
    """Padding above and to the left; what is below and to the right follows."""

    @classmethod
    def of(cls, op: LinearOperation) -> "Layer":
        residual = op.residual is not None
        if not isinstance(op, Conv2dOp):
            (m, k), (n, _) = shape_of(op.input), shape_of(op.weights)
            return cls(1, 1, m, k, 1, m, n, residual)
        top, left, _, _ = op.padding.get_values()
        return cls(
            *shape_of(op.input),
            *shape_of(op.result)[1:],
            residual,
            shape_of(op.weights)[1:3],
            op.strides.get_values(),
            op.dilations.get_values(),
            (top, left),
        )

    def window(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of the input that a block of the result reads."""
        (h, w), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilations
        return (rows - 1) * sh + (h - 1) * dh + 1, (columns - 1) * sw + (w - 1) * dw + 1

    def misfit(self, tile: Tile, board: Board) -> str | None:
        """Why a tile does not fit the memories of the array, or None."""
        if min(tile) < 1:
            return f"a tile has at least 1 of everything, got {list(tile)}"
        pixels = prod(self.window(tile.rows, tile.columns))
        rows = tile.depth * (pixels + prod(self.kernel) * board.size)
        if rows > board.scratchpad_rows:
            return f"{rows} rows of the scratchpad are needed, {board.scratchpad_rows} are there"
        if (rows := tile.rows * tile.columns) > board.accumulator_rows:
            return f"{rows} rows of accumulators are needed, {board.accumulator_rows} are there"
        return None

    def cycles(self, tile: Tile, board: Board) -> int:
        """About how long the loops of `stream.py` take with this tile."""
        size, taps, vectors = board.size, prod(self.kernel), -(-self.channels // board.size)
        blocks, chunks = -(-self.outputs // size), -(-vectors // tile.depth)
        pieces = -(-self.rows // tile.rows) * -(-self.columns // tile.columns)
        tiles = self.batch * pieces
        height, width = self.window(tile.rows, tile.columns)
        # One chunk of the input stays where it is for all outputs; one of the weights forever.
        inputs = tiles * (1 if chunks == 1 else blocks * chunks)
        weights = 1 if blocks == chunks == 1 else tiles * blocks * chunks
        runs = -(-self.columns // tile.columns) * -(-min(tile.columns, self.columns) // size)
        moved = board.dma(tile.rows * tile.columns * size) * (1 + self.residual)
        return (
            inputs * tile.depth * height * board.dma(width * size)
            + weights * board.dma(tile.depth * taps * size * size)
            + tiles * blocks * (board.dma(4 * size) + tile.rows * tile.columns + moved)
            + self.batch * self.rows * runs * blocks * vectors * taps * size
        )


def best_tile(layer: Layer, board: Board) -> Tile | None:
    """The tile of the fewest cycles; None if not even one result of one vector fits."""
    vectors = -(-layer.channels // board.size)
    widths = {layer.columns, 1, *range(board.size, layer.columns, board.size)}
    candidates = product(_parts(layer.rows), sorted(widths, reverse=True), _parts(vectors))
    fitting = [tile for each in candidates if not layer.misfit(tile := Tile(*each), board)]
    return min(fitting, key=lambda tile: layer.cycles(tile, board), default=None)


def _parts(extent: int) -> list[int]:
    """The sizes of equal parts of `extent`, the largest first."""
    return sorted({-(-extent // count) for count in range(1, extent + 1)}, reverse=True)
