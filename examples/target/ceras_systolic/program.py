"""
The memory that host and array share, as one file: the arena, constants, streams.

The host's arena begins at address 0; behind it nothing is written while the network runs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.dialects.mem import arena_of, block_of
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_systolic.board import Board
from ceras_systolic.isa import Instruction, encode
from ceras_systolic.stream import Addresses, layer_stream, packed_constants
from ceras_systolic.tile_for_array import array_operations, tile_of

ALIGNMENT = 16
"""Bytes; where values, constants and streams begin."""


@dataclass(frozen=True)
class Launch:
    """The stream of one layer, and where it is."""

    name: str
    offset: int
    instructions: list[Instruction]

    def cycles(self, board: Board) -> int:
        return sum(i.cycles(board) for i in self.instructions)


@dataclass(frozen=True)
class ArrayProgram:
    """What the array needs to run a network: a flat image of memory, and the launches."""

    image: bytes
    arena_bytes: int
    launches: list[Launch]

    @classmethod
    def of(cls, module: ModuleOp, board: Board) -> "ArrayProgram":
        """The program of a module whose layers have tiles and whose values have places."""
        arena = arena_of(main_function(module))
        if arena is None:
            raise InputError("values have no places in memory yet: run allocate-blocks first")
        image = bytearray(arena.size.data)

        def put(data: bytes | NDArray[np.generic]) -> int:
            image.extend(bytes(-len(image) % ALIGNMENT))
            image.extend(data if isinstance(data, bytes) else data.tobytes())
            return len(image) - (len(data) if isinstance(data, bytes) else data.nbytes)

        launches: list[Launch] = []
        for op in array_operations(module):
            if (tile := tile_of(op)) is None:
                raise InputError(f"'{node_name(op)}' has no tile: run tile-for-array first")
            places = [_place(v) for v in (op.input, op.residual or op.input, op.result)]
            constants = [put(each) for each in packed_constants(op, board.size)]
            stream = [*layer_stream(op, tile, Addresses(*places, *constants), board.size)]
            launches.append(Launch(node_name(op), put(encode(stream)), stream))
        return cls(bytes(image), arena.size.data, launches)

    def text(self) -> str:
        """The streams to read, one instruction a line."""
        return "".join(
            "\n".join([f"# {each.name}", *map(str, each.instructions), ""])
            for each in self.launches
        )


def _place(value: SSAValue) -> int:
    block = block_of(value)
    if block is None:
        raise InputError("what the array reads and writes must be in the arena: allocate with io")
    return block.offset.data
