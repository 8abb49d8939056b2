"""
What layers take, roughly, in products of 8 bits that share what they read.

Enough to weigh one precision against another before anything is placed or scheduled. Hosts compute
about 100 such products in a nanosecond by vector instructions; the other numbers are ratios to
that, measured there (`benchmarks/c_host.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.precision import WIDE, width
from ceras_ir.network.quantizable import computes, quantized_operations, uses_behind_moves
from ceras_ir.transforms.quantization.analysis.function_forms import is_table

ALONE, HOST = 8, 8
"""What a product takes that shares nothing, as in depthwise layers; and what anything takes on the
host of an accelerator."""

FLOAT = 4
"""What a product of floats takes."""

ELEMENT, FINER_TABLE = 16, 45
"""What an element takes that is stored or whose table has two bytes, and one more whose table reads
16 bits."""


@dataclass(frozen=True)
class TimeModel:
    """Of a machine that takes 16 bits, or, if `narrow`, of an accelerator that leaves them."""

    narrow: bool = False

    @property
    def _host(self) -> int:
        """What anything takes that is no product of many channels."""
        return HOST if self.narrow else 1

    def network(self, main: FuncOp) -> float:
        """A float network that will be quantized."""
        total = 0.0
        for op in quantized_operations(main):
            size = prod(graph.shape_of(op.results[0]))
            if isinstance(op, graph.LinearOperation):
                total += self._layer(op) + ELEMENT * size
            elif computes(op):
                total += self._host * ELEMENT * size
        return total

    def widening(self, value: SSAValue) -> float:
        """16 bits instead of 8 for a value: more for those who read it, and for who writes it."""
        size = prod(graph.shape_of(value))
        more = self._host * ELEMENT * size / 2
        if any(is_table(use.operation) for use in value.uses):
            more = self._host * FINER_TABLE * size
        table = value.owner
        if isinstance(table, graph.UnaryOp) and is_table(table) and width(table.input) != WIDE:
            more += self._host * ELEMENT * size  # Two tables of bytes instead of one.
        touched = list(_readers(value))
        if self.narrow and isinstance(value.owner, graph.LinearOperation):
            touched.append(value.owner)
        for op in touched:
            # On the host already it takes twice as long, elsewhere it comes to the host.
            more += self._layer(op) if _is_alone(op) or not self.narrow else HOST * op.macs
        return more

    def _layer(self, op: graph.LinearOperation) -> int:
        """The products of a layer; accelerators leave those that share nothing to the host."""
        return op.macs * ALONE * self._host if _is_alone(op) else op.macs


def time_of(main: FuncOp) -> float:
    """What a quantized network takes on a machine that takes 16 bits, and floats."""
    return sum(map(time_of_operation, main.body.block.ops))


def time_of_operation(op: Operation) -> float:
    """What one operation of it takes."""
    if not op.results or isinstance(op, graph.ConstantOp):
        return 0.0
    total = float(ELEMENT * prod(graph.shape_of(op.results[0])))
    if isinstance(op, graph.LinearOperation):
        element = graph.quantized_element(op.input)
        bits = FLOAT if element is None else element.storage.width.data // 8
        total += op.macs * bits * (ALONE if _is_alone(op) else 1)
    elif isinstance(op, graph.LookupOp):
        element = graph.quantized_element(op.input)
        if element is not None and element.storage.width.data == WIDE:
            total += FINER_TABLE * prod(graph.shape_of(op.result))
    return total


def _is_alone(op: graph.LinearOperation) -> bool:
    """Whether every channel is computed of one other, as in depthwise convolutions."""
    return isinstance(op, graph.Conv2dOp) and graph.shape_of(op.weights)[3] == 1


def _readers(value: SSAValue) -> Iterator[graph.LinearOperation]:
    """Products that read a value, moved by poolings and the like or not."""
    for use in uses_behind_moves(value, joined=True):
        if isinstance(use.operation, graph.LinearOperation) and use.index == 0:
            yield use.operation
