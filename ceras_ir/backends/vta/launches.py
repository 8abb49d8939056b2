"""
The launches of a module as VTA programs.

One flat DRAM image serves all of them: first the arena, with activations and constants where
`mem.block` says, then the micro-op tables of the programs, one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter
from xdsl.interpreters.arith import ArithFunctions
from xdsl.interpreters.func import FuncFunctions
from xdsl.interpreters.scf import ScfFunctions
from xdsl.traits import SymbolTable

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.isa import MemoryType
from ceras_ir.backends.vta.lowering import DramBuffer, VtaFunctions
from ceras_ir.backends.vta.program import VtaProgram
from ceras_ir.backends.vta.scratchpads import Scratchpads
from ceras_ir.backends.vta.stream import StreamBuilder
from ceras_ir.backends.vta.zero_tiles import constant_tiles
from ceras_ir.dialects import mem
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_ir.transforms.memory.analysis.regions import refuse_regions
from ceras_ir.transforms.memory.analysis.slices import refuse_gaps
from ceras_ir.transforms.memory.analysis.starts import starts_of

TABLE_ALIGNMENT = 64
"""Bytes; tables begin at a cache line, so that a read of one touches no other data."""


@dataclass(frozen=True, eq=False)
class LoweredLaunch:
    """Launches that start together, a layer each, and the program that runs them."""

    ops: Sequence[mem.LaunchOp]
    program: VtaProgram
    micro_op_address: int
    """Where the micro-op table must be in DRAM, in bytes."""
    skipped: Sequence[float]
    """Of each layer: the share of its products that tiles of zeros save."""

    @property
    def name(self) -> str:
        """The layers, from the first to the last."""
        first, last = node_name(self.ops[0]), node_name(self.ops[-1])
        return first if len(self.ops) == 1 else f"{first} to {last}"


def arena_size(module: ModuleOp) -> int:
    """Bytes of the arena; refuses a module whose values have no places yet."""
    refuse_regions(main_function(module), "vta")
    refuse_gaps(main_function(module), "vta")
    arena = mem.arena_of(main_function(module))
    if arena is None:
        raise InputError("values have no places in memory yet: run allocate-blocks first")
    return arena.size.data


def lower_launches(module: ModuleOp, board: VtaBoard) -> list[LoweredLaunch]:
    """
    The programs of all launches, with micro-op tables after the arena: one for those that start
    together. The i-th is launch number i everywhere.
    """
    table = arena_size(module)
    lowered: list[LoweredLaunch] = []
    for ops in starts_of(main_function(module)):
        table = -(-table // TABLE_ALIGNMENT) * TABLE_ALIGNMENT
        builder, scratchpads = StreamBuilder(board), Scratchpads(board)
        skipped: list[float] = []
        for op in ops:
            builder.begin_kernel()
            skipped.append(_run_kernel(module, op, builder, scratchpads))
        size = board.element_bytes(MemoryType.UOP)
        program = builder.finish(table // size)
        lowered.append(LoweredLaunch(ops, program, table, skipped))
        table += len(program.micro_ops) * size
    return lowered


def _run_kernel(
    module: ModuleOp, op: mem.LaunchOp, builder: StreamBuilder, scratchpads: Scratchpads
) -> float:
    """Append the operations of a launch; the share of its products that are left out."""
    name = op.kernel.string_value()
    kernel = SymbolTable.lookup_symbol(module, name)
    assert isinstance(kernel, FuncOp)
    interpreter = Interpreter(module)
    emitting = VtaFunctions(builder, scratchpads.places(kernel))
    for functions in (FuncFunctions(), ArithFunctions(), ScfFunctions(), emitting):
        interpreter.register_implementations(functions)
    interpreter.call_op(name, _buffers(op))
    scratchpads.record(builder.kernel)
    return emitting.weights.skipped_share


def _buffers(op: mem.LaunchOp) -> tuple[DramBuffer, ...]:
    buffers: list[DramBuffer] = []
    for value in (*op.inputs, *op.outputs):
        block = mem.block_of(value)
        if block is None:
            raise InputError(
                f"launch '{node_name(op)}' uses a value of type {value.type} without a place in "
                "memory: run allocate-blocks first"
            )
        buffers.append(DramBuffer(block.offset.data, constant_tiles(value)))
    return tuple(buffers)
