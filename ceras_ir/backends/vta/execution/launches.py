"""
Lower the launches of a module to VTA programs.

The loops of a kernel are executed, and each tile operation is passed to the stream builder:
scratchpads get addresses, boxes (rectangles of vectors in a tensor) get padding, and loop nests
become micro-ops and affine factors. The two outermost loops of an operation are loops of the
hardware, the other loops are unrolled into micro-ops. All launches share a DRAM image: first the
arena, with activations and constants at their `mem.block`, then the tables of micro-ops.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.interpreters.arith import ArithFunctions
from xdsl.interpreters.func import FuncFunctions
from xdsl.interpreters.scf import ScfFunctions
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import MicroOps, VtaProgram
from ceras_ir.backends.vta.machine.isa import AluOpcode, MemoryType
from ceras_ir.backends.vta.machine.scratchpads import (
    MEMORIES,
    Clip,
    Flags,
    Place,
    Scratchpads,
    WeightTiles,
    constant_tiles,
    matrix_at,
    row_major,
    shift_steps,
    unrolled,
)
from ceras_ir.backends.vta.machine.stream import StreamBuilder
from ceras_ir.dialects import mem, tile
from ceras_ir.support.diagnostics import InputError, UnsupportedError, node_name

OPCODES = {
    tile.AluFunction.ADD: AluOpcode.ADD,
    tile.AluFunction.MAX: AluOpcode.MAX,
    tile.AluFunction.MIN: AluOpcode.MIN,
    tile.AluFunction.SHR: AluOpcode.SHR,
}


@dataclass(eq=False)
class DramBuffer:
    """A tensor in DRAM that starts at byte `address`: an argument of a kernel."""

    address: int
    tiles: Flags | None = None
    """
    A mask for constant weights with zero tiles: whether each tile has a nonzero element. Otherwise
    `None`.
    """


@dataclass(eq=False)
class ChipBuffer:
    """
    A buffer in the on-chip `memory`: `prod(shape)` consecutive vectors (tiles, for weights), the
    first of which has the index `base`. Of a ring of buffers, `rotations` counts the number of
    times that the next buffer was selected.
    """

    memory: MemoryType
    base: int
    shape: tuple[int, ...]
    rotations: int = 0

    def position(self, indices: tuple[int, ...]) -> int:
        return self.base + row_major(self.shape, indices)


@register_impls
class VtaFunctions(InterpreterFunctions):
    """
    Interprets a kernel in the tile dialect: each operation that is executed appends an instruction
    to the stream of `builder`. `places` has the on-chip address of each buffer.
    """

    def __init__(self, builder: StreamBuilder, places: Mapping[memref.AllocOp, Place]):
        self.builder, self.places = builder, places
        self.weights = WeightTiles(builder.board)

    @property
    def board(self) -> VtaBoard:
        return self.builder.board

    @impl(memref.AllocOp)
    def alloc(self, interpreter: Interpreter, op: memref.AllocOp, args: PythonValues):
        memory = MEMORIES[tile.space_of(op.memref)]
        shape, vector = tile.vectors_in(op.memref), tile.vector_of(op.memref)
        rows = self.board.block if memory is MemoryType.WGT else self.board.batch
        if vector != (expected := (rows, self.board.block)):
            raise UnsupportedError(
                f"unsupported kernel: vectors of {memory.name.lower()} are {vector}, the "
                f"board's {expected}; convert the graph for this board"
            )
        place = self.places[op]
        return (ChipBuffer(memory, place.base, shape, place.stage),)

    @impl(tile.ViewOp)
    def view(self, interpreter: Interpreter, op: tile.ViewOp, args: PythonValues):
        return args

    @impl(tile.RotateOp)
    def rotate(self, interpreter: Interpreter, op: tile.RotateOp, args: PythonValues):
        ring: ChipBuffer = args[0]
        stages, *shape = ring.shape
        base = ring.base + ring.rotations % stages * prod(shape)
        ring.rotations += 1
        return (ChipBuffer(ring.memory, base, tuple(shape)),)

    @impl(tile.LoadOp)
    def load(self, interpreter: Interpreter, op: tile.LoadOp, args: PythonValues):
        count = len(op.source_indices)
        target: ChipBuffer = args[1 + count]
        sram = target.position(args[2 + count :])
        outer, (row, column), (height, width) = matrix_at(op.source, args[1 : 1 + count])
        rows, columns = op.extents
        step = op.row_step.value.data
        y, x = Clip.of(row, rows, height, step), Clip.of(column, columns, width)
        if not y.inside or not x.inside:
            raise _refusal(op, f"a box at {[row, column]} is outside of {op.source.type}")
        vectors = (outer * height + row + y.before * step) * width + column + x.before
        dram = self._element(op, target.memory, args[0], vectors)
        x_size, y_size, stride = x.inside, y.inside, step * width
        pad = (y.before, y.after, x.before, x.after)
        if target.memory is MemoryType.WGT:
            steps = np.arange(y_size)[:, None] * stride + np.arange(x_size)
            self.weights.load(sram, args[0].tiles, vectors + steps)
        if not any(pad) and (y_size == 1 or stride == x_size):
            x_size, y_size, stride = x_size * y_size, 1, x_size * y_size
        try:
            self.builder.load(target.memory, sram, dram, x_size, y_size, stride, pad=pad)
        except ValueError as error:
            raise _refusal(op, str(error)) from error
        return ()

    @impl(tile.StoreOp)
    def store(self, interpreter: Interpreter, op: tile.StoreOp, args: PythonValues):
        count = len(op.source_indices)
        source: ChipBuffer = args[0]
        sram = source.position(args[1 : 1 + count])
        outer, (row, column), (height, width) = matrix_at(op.target, args[2 + count :])
        rows, columns = op.extents
        y, x = Clip.of(row, rows, height), Clip.of(column, columns, width)
        if y.before or x.before or not y.inside or not x.inside:
            raise _refusal(op, f"a box at {[row, column]} begins outside of {op.target.type}")
        vectors = (outer * height + row) * width + column
        dram = self._element(op, MemoryType.OUT, args[1 + count], vectors)
        try:
            if x.after:
                # On chip, rows are as wide as the box: a narrower store can have only a single row.
                for r in range(y.inside):
                    self.builder.store(sram + r * columns, dram + r * width, x.inside)
            elif x.inside == width:
                self.builder.store(sram, dram, y.inside * width)
            else:
                self.builder.store(sram, dram, x.inside, y.inside, width)
        except ValueError as error:
            raise _refusal(op, str(error)) from error
        return ()

    @impl(tile.ClearOp)
    def clear(self, interpreter: Interpreter, op: tile.ClearOp, args: PythonValues):
        target: ChipBuffer = args[0]
        (count,) = op.loops
        uops = unrolled((target.position(args[1:]),), [])
        self._run(op, uops, [(count, 1)], reset=True)
        return ()

    @impl(tile.GemmOp)
    def gemm(self, interpreter: Interpreter, op: tile.GemmOp, args: PythonValues):
        a, i = len(op.acc_indices), len(op.inp_indices)
        first = (
            args[0].position(args[1 : 1 + a]),
            args[1 + a].position(args[2 + a : 2 + a + i]),
            args[2 + a + i].position(args[3 + a + i :]),
        )
        strides = (op.acc_strides, op.inp_strides, op.wgt_strides)
        loops = list(zip(op.loops, *(s.get_values() for s in strides), strict=True))
        for uops, nest in self.weights.nests(first, loops):
            self._run(op, uops, nest)
        return ()

    @impl(tile.AluOp)
    def alu(self, interpreter: Interpreter, op: tile.AluOp, args: PythonValues):
        count = len(op.target_indices)
        dst = args[0].position(args[1 : 1 + count])
        dst_strides = op.target_strides.get_values()
        if op.source_strides is not None:
            source: ChipBuffer = args[1 + count]
            src = source.position(args[2 + count :])
            loops = list(zip(op.loops, dst_strides, op.source_strides.get_values(), strict=True))
            if op.uniform is None:
                self._run(op, unrolled((dst, src), loops[2:]), loops[:2])
                return ()
            first, (extent, step, _) = src - source.base, loops[0]
            known = op.uniform.get_values()[first : first + extent]
            done = 0
            for number, run in groupby(known):
                length = len(list(run))
                part = [(length, step, 1), *loops[1:]]
                start = dst + done * step
                if number < 0:
                    uops = unrolled((start, src + done), part[2:])
                    self._run(op, uops, part[:2])
                else:
                    self._immediate(op, start, [loop[:2] for loop in part], number)
                done += length
            return ()
        assert op.immediate is not None
        loops = list(zip(op.loops, dst_strides, strict=True))
        self._immediate(op, dst, loops, op.immediate.value.data)
        return ()

    def _immediate(
        self, op: tile.AluOp, dst: int, loops: Sequence[tuple[int, int]], number: int
    ) -> None:
        amounts = shift_steps(number) if op.function is tile.AluFunction.SHR else (number,)
        for amount in amounts:
            self._run(op, unrolled((dst,), loops[2:]), loops[:2], imm=amount)

    def _element(self, op: Operation, memory: MemoryType, start: DramBuffer, count: int) -> int:
        element, rest = divmod(start.address, size := self.board.element_bytes(memory))
        if rest:
            raise _refusal(
                op, f"the operand at byte {start.address} is not aligned to {size} bytes"
            )
        return element + count

    def _run(
        self,
        op: Operation,
        uops: MicroOps,
        loops: Sequence[tuple[int, ...]],
        *,
        reset: bool = False,
        imm: int | None = None,
    ) -> None:
        """
        Append a GEMM or ALU instruction with the micro-ops `uops`. `loops` has (extent, stride of
        each operand) of at most two loops, outermost first. `reset` sets the accumulators to 0;
        `imm` is the second operand of an ALU instruction, if it is a constant.
        """
        # A loop with a single iteration has no factor; the hardware always has two loops.
        nest = [(1, 0, 0, 0)] * (2 - len(loops))
        nest += [(e, *(s if e > 1 else 0 for s in steps), 0, 0)[:4] for e, *steps in loops]
        (outer, *outer_steps), (inner, *inner_steps) = nest
        dst, src, wgt = zip(outer_steps, inner_steps, strict=True)
        iterations = (outer, inner)
        try:
            if isinstance(op, tile.AluOp):
                opcode = OPCODES[op.function]
                self.builder.alu(opcode, uops, iter=iterations, dst=dst, src=src, imm=imm)
            else:
                self.builder.gemm(uops, iter=iterations, dst=dst, src=src, wgt=wgt, reset=reset)
        except ValueError as error:
            raise _refusal(op, str(error)) from error


def _refusal(op: Operation, message: str) -> InputError:
    return UnsupportedError(f"unsupported '{op.name}' on VTA: {message}")


TABLE_ALIGNMENT_BYTES = 64
"""
The alignment of tables of micro-ops: a cache line, so that a read of a table accesses no other
data.
"""


@dataclass(frozen=True, eq=False)
class LoweredLaunch:
    """
    The layers that a single start of VTA executes, as launch operations, and the program for all of
    them.
    """

    ops: Sequence[mem.LaunchOp]
    program: VtaProgram
    micro_op_address: int
    """The address of the table of micro-ops in the DRAM image, in bytes."""
    skipped: Sequence[float]
    """The share of products, for each layer, that are omitted because tiles of weights are zero."""

    @property
    def name(self) -> str:
        first, last = node_name(self.ops[0]), node_name(self.ops[-1])
        return first if len(self.ops) == 1 else f"{first} to {last}"


def lower_launches(
    starts: Sequence[Sequence[mem.LaunchOp]], table: int, board: VtaBoard
) -> list[LoweredLaunch]:
    """
    Return a program for each element of `starts`, the launch operations that start together. Tables
    of micro-ops are placed from byte `table` of the DRAM image on.
    """
    lowered: list[LoweredLaunch] = []
    for ops in starts:
        table = -(-table // TABLE_ALIGNMENT_BYTES) * TABLE_ALIGNMENT_BYTES
        builder, scratchpads = StreamBuilder(board), Scratchpads(board)
        skipped: list[float] = []
        for op in ops:
            builder.begin_kernel()
            skipped.append(_run_kernel(op, builder, scratchpads))
        size = board.element_bytes(MemoryType.UOP)
        program = builder.finish(table // size)
        lowered.append(LoweredLaunch(ops, program, table, skipped))
        table += len(program.micro_ops) * size
    return lowered


def _run_kernel(op: mem.LaunchOp, builder: StreamBuilder, scratchpads: Scratchpads) -> float:
    """
    Append the instructions of a launch to the stream of `builder`. Return the share of products
    that are omitted because weights are zero.
    """
    name = op.kernel.string_value()
    kernel = SymbolTable.lookup_symbol(op, name)
    assert isinstance(kernel, FuncOp)
    module = kernel.parent_op()
    assert isinstance(module, ModuleOp)
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
                f"launch '{node_name(op)}' uses a value of type {value.type} without an address: "
                "run allocate-blocks first"
            )
        buffers.append(DramBuffer(block.offset.data, constant_tiles(value)))
    return tuple(buffers)
