"""Choose the blocks in which the array computes each layer."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.dialects.mem import device_of
from ceras_ir.support.diagnostics import Finding, InputError, node_name
from ceras_systolic.board import load_board
from ceras_systolic.layer import Layer, Tile, best_tile
from ceras_systolic.rules import ARRAY

TILE = "systolic.tile"
"""The attribute: rows, columns and depth, see `Tile`."""


@dataclass(frozen=True)
class TileForArrayPass(ModulePass):
    """
    Every operation on the array gets `systolic.tile`, the blocks of the fewest modelled cycles
    that fit the memories of `board`. One that has a tile already keeps it, if it fits.

    Exact: integer sums are the same in any order.
    """

    name = "tile-for-array"

    board: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        board = load_board(self.board)
        findings: list[Finding] = []
        for operation in array_operations(op):
            layer = Layer.of(operation)
            tile = tile_of(operation) or best_tile(layer, board)
            assert tile is not None, "placement admits what fits"
            if reason := layer.misfit(tile, board):
                findings.append(Finding(node_name(operation), operation.name, reason))
            operation.attributes[TILE] = DenseArrayBase.from_list(i64, tile)
        if findings:
            raise InputError(findings)


def array_operations(module: ModuleOp) -> list[LinearOperation]:
    """What runs on the array, in order."""
    found = [op for op in module.walk() if device_of(op) == ARRAY]
    return [op for op in found if isinstance(op, LinearOperation)]


def tile_of(op: Operation) -> Tile | None:
    """The tile that an operation has, if it has one."""
    match op.attributes.get(TILE):
        case DenseArrayBase() as array if len(array) == 3:
            return Tile(*(int(extent) for extent in array.get_values()))
        case _:
            return None
