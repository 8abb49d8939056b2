"""
The launches of a module as VTA programs.

One flat DRAM image serves all of them: first the arena, with activations and constants where
`mem.block` says, then the micro-op tables of the programs, one after the other.
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter
from xdsl.interpreters.arith import ArithFunctions
from xdsl.interpreters.func import FuncFunctions
from xdsl.interpreters.scf import ScfFunctions

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.isa import MemoryType
from ceras_ir.backends.vta.lowering import DramBuffer, VtaFunctions
from ceras_ir.backends.vta.program import VtaProgram
from ceras_ir.backends.vta.stream import StreamBuilder
from ceras_ir.dialects import mem
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_ir.transforms.memory.analysis.regions import refuse_regions
from ceras_ir.transforms.memory.analysis.slices import refuse_gaps

TABLE_ALIGNMENT = 64
"""Bytes; tables begin at a cache line, so that a read of one touches no other data."""


@dataclass(frozen=True, eq=False)
class LoweredLaunch:
    """A launch and the program that it runs."""

    op: mem.LaunchOp
    program: VtaProgram
    micro_op_address: int
    """Where the micro-op table must be in DRAM, in bytes."""


def launches_of(module: ModuleOp) -> list[mem.LaunchOp]:
    """The launches of the network in the order they run: the i-th is number i everywhere."""
    return [op for op in main_function(module).body.block.ops if isinstance(op, mem.LaunchOp)]


def arena_size(module: ModuleOp) -> int:
    """Bytes of the arena; refuses a module whose values have no places yet."""
    refuse_regions(main_function(module), "vta")
    refuse_gaps(main_function(module), "vta")
    arena = mem.arena_of(main_function(module))
    if arena is None:
        raise InputError("values have no places in memory yet: run allocate-blocks first")
    return arena.size.data


def lower_launches(module: ModuleOp, board: VtaBoard) -> list[LoweredLaunch]:
    """The program of every launch, with micro-op tables after the arena."""
    table = arena_size(module)
    lowered: list[LoweredLaunch] = []
    for op in launches_of(module):
        table = -(-table // TABLE_ALIGNMENT) * TABLE_ALIGNMENT
        builder = StreamBuilder(board)
        interpreter = Interpreter(module)
        for functions in (
            FuncFunctions(),
            ArithFunctions(),
            ScfFunctions(),
            VtaFunctions(builder),
        ):
            interpreter.register_implementations(functions)
        interpreter.call_op(op.kernel.string_value(), _buffers(op))
        size = board.element_bytes(MemoryType.UOP)
        program = builder.finish(table // size)
        lowered.append(LoweredLaunch(op, program, table))
        table += len(program.micro_ops) * size
    return lowered


def _buffers(op: mem.LaunchOp) -> tuple[DramBuffer, ...]:
    buffers: list[DramBuffer] = []
    for value in (*op.inputs, *op.outputs):
        block = mem.block_of(value)
        if block is None:
            raise InputError(
                f"launch '{node_name(op)}' uses a value of type {value.type} without a place in "
                "memory: run allocate-blocks first"
            )
        buffers.append(DramBuffer(block.offset.data))
    return tuple(buffers)
