"""Run operations in the order that needs the least memory."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.dialects.graph.attributes import viewed
from ceras_ir.dialects.mem import ARENA
from ceras_ir.network.function import result_values
from ceras_ir.transforms.memory.analysis.in_place import may_overwrite
from ceras_ir.transforms.memory.analysis.liveness import BufferOptions, analyse, byte_size, steps
from ceras_ir.transforms.memory.analysis.ordering import Job, Problem, best_order
from ceras_ir.transforms.network_pass import NetworkPass


@dataclass(frozen=True)
class ReorderForMemoryPass(BufferOptions, NetworkPass):
    """
    Reorder operations so that the most bytes alive at one time are fewest. The order there is stays
    unless the new one needs less. Changes no value: every operand is still computed before its
    users.
    """

    name = "reorder-for-memory"

    states: int = 20_000
    """
    The search is exact while it needs at most so many sets of finished operations, and greedy
    beyond.
    """

    def change(self, main: FuncOp) -> None:
        if ARENA in main.attributes:
            # Its blocks are right for the order they were made for.
            return
        before = steps(main)
        peak = analyse(main, include_io=self.io).lower_bound(self.alignment)
        order = best_order(problem_of(main, include_io=self.io), self.states)
        if order == sorted(order):
            return
        end = main.body.block.last_op
        assert end is not None
        for number in order:
            before[number].detach()
            main.body.block.insert_op_before(before[number], end)
        if analyse(main, include_io=self.io).lower_bound(self.alignment) >= peak:
            for operation in before:
                operation.detach()
                main.body.block.insert_op_before(operation, end)


def problem_of(main: FuncOp, *, include_io: bool) -> Problem:
    """The operations of `main` as jobs, and the memory of its values as buffers."""
    numbers: dict[SSAValue, int] = {}
    sizes: list[int] = []
    kept: set[int] = set()
    outside: set[SSAValue] = set()
    if not include_io:
        outside.update(main.body.block.args, result_values(main))

    def buffer(value: SSAValue) -> int:
        if value not in numbers:
            owner = value.owner
            source = viewed(owner) if isinstance(owner, Operation) else None
            if source is not None and value not in outside:
                numbers[value] = buffer(source)
            else:
                numbers[value] = len(sizes)
                is_free = value in outside or isinstance(owner, ConstantOp)
                sizes.append(0 if is_free else byte_size(value))
        return numbers[value]

    jobs = [
        Job(
            frozenset(map(buffer, op.operands)),
            frozenset(map(buffer, op.results)),
            frozenset(buffer(v) for v in op.operands if may_overwrite(op, v)),
        )
        for op in steps(main)
    ]
    kept.update(buffer(value) for value in result_values(main))
    given = frozenset(map(buffer, main.body.block.args))
    return Problem(jobs, sizes, given, frozenset(kept))
