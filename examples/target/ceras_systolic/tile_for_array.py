"""Choose the blocks in which the array computes each layer."""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of
from ceras_ir.dialects.mem import device_of
from ceras_ir.support.diagnostics import Finding, InputError, node_name
from ceras_systolic.board import Board, load_board

ARRAY = "array"
"""The name of the array in `#mem.device`."""
ROWS = "systolic.rows"
"""The attribute with the number of rows that a layer computes at a time."""


@dataclass(frozen=True)
class Layer:
    """A convolution on the array; a matrix product is a convolution of 1x1 on a single row."""

    input: tuple[int, ...]
    result: tuple[int, ...]
    kernel: tuple[int, ...] = (1, 1)
    strides: tuple[int, ...] = (1, 1)
    dilations: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)

    @classmethod
    def of(cls, op: LinearOperation) -> "Layer":
        shapes = shape_of(op.input), shape_of(op.result)
        if not isinstance(op, Conv2dOp):
            return cls(*((1, 1, *shape) for shape in shapes))
        windows = (op.strides, op.dilations, op.padding)
        return cls(*shapes, shape_of(op.weights)[1:3], *(w.get_values() for w in windows))

    def window(self, rows: int) -> tuple[int, int]:
        """Return the rows and columns of the padded input that so many rows of the result need."""
        steps = zip((rows, self.result[2]), self.kernel, self.strides, self.dilations, strict=True)
        height, width = ((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in steps)
        return height, width

    def misfit(self, rows: int, board: Board) -> str | None:
        """Explain why so many rows of the result exceed the memories; None if they fit."""
        vectors, taps = -(-self.input[3] // board.size), prod(self.kernel)
        scratchpad = vectors * (prod(self.window(rows)) + taps * board.size)
        sums = rows * self.result[2]
        if rows > 0 and scratchpad <= board.scratchpad_rows and sums <= board.accumulator_rows:
            return None
        return f"{rows} rows of the result take {scratchpad} of scratchpad, {sums} of accumulators"

    def cycles(self, rows: int, board: Board) -> int:
        """Estimate the cycles of the loops of `stream.py`."""
        (batch, height, width, outputs), size = self.result, board.size
        vectors, blocks = -(-self.input[3] // size), -(-outputs // size)
        (lines, pixels), products = self.window(rows), prod(self.kernel) * vectors * size
        block = board.dma(4 * size) + board.dma(products * size) + board.dma(rows * width * size)
        tile = vectors * lines * board.dma(pixels * size) + blocks * block
        return batch * (-(-height // rows) * tile + height * -(-width // size) * blocks * products)

    def best(self, board: Board) -> int:
        """Return the number of rows with the fewest cycles; 1 if no number of rows fits."""
        height = self.result[1]
        fitting = [rows for rows in range(height, 0, -1) if not self.misfit(rows, board)]
        return min(fitting, key=lambda rows: self.cycles(rows, board), default=1)


def array_operations(module: ModuleOp) -> list[LinearOperation]:
    """Return the operations on the array, in order."""
    found = [op for op in module.walk() if device_of(op) == ARRAY]
    return [op for op in found if isinstance(op, LinearOperation)]


def rows_of(op: Operation) -> int | None:
    """Return the number of rows that an operation computes at a time; None if not set."""
    rows = op.attributes.get(ROWS)
    return rows.value.data if isinstance(rows, IntegerAttr) else None


@dataclass(frozen=True)
class TileForArrayPass(ModulePass):
    """
    Set `systolic.rows` of each operation on the array to the number of rows to compute at a time.

    The number of rows minimizes the modelled cycles within the memories of `board`. An existing
    attribute is kept. Exact: the order of summands does not change integer sums.
    """

    name = "tile-for-array"

    board: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        board, findings = load_board(self.board), list[Finding]()
        for operation in array_operations(op):
            layer, rows = Layer.of(operation), rows_of(operation)
            rows = layer.best(board) if rows is None else rows
            if reason := layer.misfit(rows, board):
                findings.append(Finding(node_name(operation), operation.name, reason))
            operation.attributes[ROWS] = IntegerAttr(rows, i64)
        if findings:
            raise InputError(findings)
