"""
What caches must not hold around a launch, where hardware does not keep them coherent.

The host writes and reads the shared image through its caches, VTA beside them. Before a launch,
bytes that the host wrote must be in memory: those that the launch reads, and those that it
writes, or they would be written back over its results. After it, what the host reads of its
results must not come from the cache. Values begin at cache lines, so that a line is of one value.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.vta.board import CACHE_LINE
from ceras_ir.backends.vta.launches import arena_size
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.graph.traits import viewed
from ceras_ir.network.function import main_function
from ceras_ir.transforms.memory.analysis.liveness import byte_size, steps
from ceras_ir.transforms.memory.analysis.starts import starts_of

Range = tuple[int, int]
"""Offset and size, in bytes."""


@dataclass
class Maintenance:
    """Of one launch: ranges to write back before it, and to forget after it."""

    clean: list[Range] = field(default_factory=list[Range])
    invalidate: list[Range] = field(default_factory=list[Range])


def cache_maintenance(module: ModuleOp) -> list[Maintenance]:
    """
    The least for every launch, whole values at a time. The network is followed twice, as the
    second run finds the caches as the first leaves them.
    """
    caches = _Caches(module)
    for _ in range(2):
        for argument in main_function(module).body.block.args:
            if (place := _range(argument)) is not None:
                caches.host_writes(place)
        for op in steps(main_function(module)):
            caches.visit(op)
        caches.read_results(module)
    return caches.found


def _range(value: SSAValue) -> Range | None:
    block = mem.block_of(value)
    return None if block is None else (block.offset.data, byte_size(value))


def _lines(place: Range) -> slice:
    return slice(place[0] // CACHE_LINE, -(-(place[0] + place[1]) // CACHE_LINE))


class _Caches:
    """Which lines the host wrote since they were clean, and which result of VTA is in others."""

    def __init__(self, module: ModuleOp):
        size = -(-arena_size(module) // CACHE_LINE)
        self.starts = starts_of(main_function(module))
        self.numbers = {launches[0]: i for i, launches in enumerate(self.starts)}
        self.found = [Maintenance() for _ in self.starts]
        self.dirty = np.zeros(size, np.bool_)
        self.writer: NDArray[np.int32] = np.full(size, -1, np.int32)
        """The result that the host may have an older copy of, an index of `results`, or -1."""
        self.results = [
            (number, place)
            for number, launches in enumerate(self.starts)
            for op in launches
            for place in map(_range, op.outputs)
            if place is not None
        ]

    def visit(self, op: Operation) -> None:
        if isinstance(op, mem.LaunchOp):
            # Those that start with the one before have been visited with it.
            if op in self.numbers:
                self.launch(self.numbers[op])
            return
        if viewed(op) is not None and _range(op.operands[0]) == _range(op.results[0]):
            return
        for operand in op.operands:
            self.host_reads(operand)
        for result in op.results:
            if (place := _range(result)) is not None:
                self.host_writes(place)

    def host_reads(self, value: SSAValue) -> None:
        place = _range(value)
        if place is None or isinstance(value.owner, graph.ConstantOp):
            return
        writers = self.writer[_lines(place)]
        for index in map(int, np.unique(writers[writers >= 0])):
            number, result = self.results[index]
            if result not in self.found[number].invalidate:
                self.found[number].invalidate.append(result)
        self.writer[_lines(place)] = -1

    def host_writes(self, place: Range) -> None:
        self.dirty[_lines(place)] = True
        self.writer[_lines(place)] = -1

    def launch(self, number: int) -> None:
        found = self.found[number]
        values = [v for op in self.starts[number] for v in (*op.inputs, *op.outputs)]
        places = {place for place in map(_range, values) if place is not None}
        # The largest first: results of one start may lie over each other.
        for place in sorted(places, key=lambda p: (-p[1], p[0])):
            if self.dirty[_lines(place)].any():
                self.dirty[_lines(place)] = False
                if place not in found.clean:
                    found.clean.append(place)
        found.clean.sort()
        # Where one result lies over another, the later one is what the host finds.
        for index, (of, result) in enumerate(self.results):
            if of == number:
                self.writer[_lines(result)] = index

    def read_results(self, module: ModuleOp) -> None:
        last = main_function(module).body.block.last_op
        assert isinstance(last, ReturnOp)
        for value in last.operands:
            self.host_reads(value)
