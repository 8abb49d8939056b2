"""
Which operations of a network become the pipeline: one run of them with one value in and one out.

A circuit has two ports. Between two places where a single value is alive, all operations are on
the device or none; of several such runs the one with the most products is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.dataflow.rules import DATAFLOW
from ceras_ir.dialects.graph import ConstantOp, LinearOperation
from ceras_ir.dialects.mem import device_of
from ceras_ir.transforms.memory.analysis.liveness import steps


@dataclass(frozen=True)
class Run:
    """Consecutive operations with one value before and one behind them."""

    value: SSAValue
    operations: Sequence[Operation]
    result: SSAValue

    @property
    def macs(self) -> int:
        return sum(op.macs for op in self.operations if isinstance(op, LinearOperation))


def runs(main: FuncOp) -> list[Run]:
    """All runs of operations placed on the device, each as long as it can be."""
    operations = steps(main)
    cuts = _cuts(main, operations)
    found: list[Run] = []
    start: int | None = None
    for place in sorted(cuts):
        if start is not None and all(device_of(op) == DATAFLOW for op in operations[start:place]):
            if found and found[-1].operations[-1] is operations[start - 1] and start > 0:
                before = found.pop()
                run = [*before.operations, *operations[start:place]]
                found.append(Run(before.value, run, cuts[place]))
            else:
                found.append(Run(cuts[start], operations[start:place], cuts[place]))
        start = place
    return found


def _cuts(main: FuncOp, operations: Sequence[Operation]) -> dict[int, SSAValue]:
    """Places before operations, or behind the last, where one value is alive, and which."""
    position = {op: n for n, op in enumerate(operations)}
    alive: dict[SSAValue, tuple[int, int]] = {}
    values = [*main.body.block.args, *(r for op in operations for r in op.results)]
    for value in values:
        made = position.get(value.owner, -1) if isinstance(value.owner, Operation) else -1
        used = max((position.get(u.operation, len(operations)) for u in value.uses), default=-1)
        alive[value] = (made, used)
    found: dict[int, SSAValue] = {}
    for place in range(len(operations) + 1):
        live = [v for v, (made, used) in alive.items() if made < place <= used]
        if len(live) == 1 and not isinstance(live[0].owner, ConstantOp):
            found[place] = live[0]
    return found


def pipeline_run(main: FuncOp) -> Run | None:
    """The run that becomes the circuit: the one with the most products, or None without any."""
    best = max(runs(main), key=lambda run: run.macs, default=None)
    return best if best is not None and best.macs else None
