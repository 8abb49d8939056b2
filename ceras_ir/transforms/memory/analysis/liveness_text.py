"""Lifetimes and interference as text: a table with one row per buffer and a bar over the steps."""

from collections.abc import Iterator

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.network.function import input_names
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.terminal import aligned
from ceras_ir.transforms.memory.analysis.colouring import interference
from ceras_ir.transforms.memory.analysis.liveness import Liveness, analyse, steps


def describe(main: FuncOp, *, include_io: bool, alignment: int) -> str:
    """The table of `main`, and above it the most bytes alive and when that is."""
    liveness = analyse(main, include_io=include_io)
    order = steps(main)
    rows = list(_rows(main, liveness, len(order)))
    bound = liveness.lower_bound(alignment)
    heads = ("buffer", "bytes", "alive", "steps", "meets", "values")
    lines = [
        f"liveness of @{main.sym_name.data}: {len(order)} steps, {len(rows)} buffers, at most "
        f"{bound} bytes alive{_when(liveness, order, alignment)}"
    ]
    lines += aligned([heads, *rows], right=(0, 1))
    return "\n".join(lines) + "\n"


def _when(liveness: Liveness, order: list[Operation], alignment: int) -> str:
    bound = liveness.lower_bound(alignment)
    for step, op in enumerate(order):
        alive = [b for b in liveness.buffers if b.lower <= step < b.upper]
        if alive and sum(-(-b.size // alignment) * alignment for b in alive) == bound:
            return f" at step {step} '{node_name(op)}'"
    return ""


def _rows(main: FuncOp, liveness: Liveness, count: int) -> Iterator[tuple[str, ...]]:
    graph = interference(liveness.buffers)
    names = input_names(main)

    def name(value: SSAValue) -> str:
        match value.owner:
            case Operation() as op:
                return node_name(op)
            case _:
                return names[main.body.block.args.index(value)]

    for number, buffer in enumerate(liveness.buffers):
        bar = "".join("#" if buffer.lower <= i < buffer.upper else "." for i in range(count))
        meets = ",".join(map(str, sorted(graph[number]))) or "-"
        values = " = ".join(map(name, buffer.values))
        alive = f"[{buffer.lower}, {buffer.upper})"
        yield str(number), str(buffer.size), alive, bar, meets, values
