"""
What layers take, roughly, in products of 8 bits that share what they read.

Enough to weigh one precision against another before anything is placed or scheduled. The rates of a
host are of measured layers; `benchmarks/predicted_times.py` says how far the sums are off. Those of
an accelerator's host are guesses that agree with the boards' files within a factor of two.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import (
    has_quantized_form,
    is_copy,
    quantized_operations,
    uses_after_moves,
)
from ceras_ir.network.integer import row_exponents_within
from ceras_ir.network.storage import WIDE, width
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.quantization.analysis.function_forms import is_table


@dataclass(frozen=True)
class Rates:
    """Times in units of one product of 8 bits, of those that share what they read."""

    alone: float
    """A product that shares nothing, as in depthwise layers."""
    element: float
    """An element of 8 bits that is stored, or two bytes more of one."""
    finer_table: float
    """An element, more, whose table reads 16 bits."""
    moved: float = 1.0
    """A product of 16 bits, for which an accelerator of 8 bits leaves the layer to its host."""


HOST = Rates(alone=2.5, element=10.0, finer_table=30.0)
"""Of C with vector instructions: 232 products a nanosecond."""

BESIDE = Rates(alone=64.0, element=128.0, finer_table=360.0, moved=64.0)
"""Of the host beside an accelerator, in products of the accelerator."""

FLOAT, FLOAT_ALONE = 4, 32
"""What a product of floats takes on a host, with others and alone."""

STATE, GATE = 2, 300
"""What a product of a recurrent layer's state, in 16 bits, takes on a host, and a gate in float."""


@dataclass(frozen=True)
class TimeModel:
    """
    Of a machine that takes 16 bits, or, if `narrow`, of an accelerator that leaves them to its
    host, but for what `split-wide{results}` and `split-wide{inputs}` make of two layers.
    """

    narrow: bool = False
    residual_spread: int = 0
    """By how many bits more the residual of one channel may be shifted than of another."""
    _spreads: dict[SSAValue, int | None] = field(
        default_factory=dict[SSAValue, int | None], repr=False, compare=False
    )
    """Octaves between the rows of weights that were looked at; None where all are zero."""

    @property
    def _rates(self) -> Rates:
        return BESIDE if self.narrow else HOST

    def network(self, main: FuncOp) -> float:
        """
        A float network that will be quantized, with what stays float; beside an accelerator, whose
        host has its own budget, without.
        """
        total, inside = 0.0, quantized_operations(main)
        for op in main.body.block.ops:
            if isinstance(op, graph.RecurrenceOp):
                total += self._rates.moved * _recurrence(op, STATE)
            elif op not in inside and not self.narrow:
                total += time_of_operation(op)
            if op not in inside:
                continue
            size = prod(graph.shape_of(op.results[0]))
            if isinstance(op, graph.LinearOperation):
                total += self._layer(op) + HOST.element * size
            elif has_quantized_form(op):
                total += self._rates.element * size
        return total

    def widening(self, value: SSAValue) -> float:
        """16 bits instead of 8 for a value: more for those who read it, and for who writes it."""
        size = prod(graph.shape_of(value))
        more = self._rates.element * size / 2
        if any(is_table(use.operation) for use in value.uses):
            more = self._rates.finer_table * size
        if any(is_copy(use.operation) for use in value.uses):
            more += self._rates.element * size  # The copy becomes an operation of its own.
        table = value.owner
        if isinstance(table, graph.UnaryOp) and is_table(table) and width(table.input) != WIDE:
            more += self._rates.element * size  # Two tables of bytes instead of one.
        is_split = False
        for op in _readers(value):
            if self.narrow and self._splits_input(op):
                more += op.macs + HOST.element * prod(graph.shape_of(op.results[0]))
                is_split = True
            else:
                # On the host already it takes twice as long, elsewhere it comes to the host.
                more += (
                    self._layer(op) if op.has_single_channel_groups else self._rates.moved * op.macs
                )
        if is_split:
            more += 2 * self._rates.element * size
        if self.narrow and isinstance(op := value.owner, graph.LinearOperation):
            if op.has_single_channel_groups or self.splits(op):
                # A residual is an addition then.
                made = 1 if op.residual is None else 2
                more += self._layer(op) + made * self._rates.element * size
            else:
                more += self._rates.moved * op.macs
        return more

    def splits(self, op: graph.LinearOperation) -> bool:
        """Whether `split-wide{results}` can make 16 bits of a layer that will be quantized."""
        return width(op.input) != WIDE and self._is_simple(op)

    def _splits_input(self, op: graph.LinearOperation) -> bool:
        """Whether `split-wide{inputs}` can have a layer that will be quantized read 16 bits."""
        return width(op.results[0]) != WIDE and op.residual is None and self._is_simple(op)

    def _is_simple(self, op: graph.LinearOperation) -> bool:
        """Whether two layers of 8 bits can do what one does."""
        weights = graph.constant_array(op.weights)
        if weights is None or op.has_single_channel_groups:
            return False
        if op.weights not in self._spreads:
            rows = row_exponents_within(weights.astype("float32", copy=False), ROW_SPREAD)
            self._spreads[op.weights] = None if rows is None else max(rows) - min(rows)
        spread = self._spreads[op.weights]
        return spread is not None and spread <= self.residual_spread

    def _layer(self, op: graph.LinearOperation) -> float:
        """The products of a layer; accelerators leave those that share nothing to the host."""
        return op.macs * self._rates.alone if op.has_single_channel_groups else op.macs


def time_of(main: FuncOp, *, narrow: bool = False) -> float:
    """
    What a quantized network takes on a machine that takes 16 bits, and floats; if `narrow`, on an
    accelerator of 8 bits and its host.
    """
    return sum(time_of_operation(op, narrow=narrow) for op in main.body.block.ops)


def time_of_operation(op: Operation, *, narrow: bool = False) -> float:
    """What one operation of it takes."""
    if not op.results or isinstance(op, graph.ConstantOp):
        return 0.0
    rates, size = BESIDE if narrow else HOST, prod(graph.shape_of(op.results[0]))
    total = rates.element * size
    if isinstance(op, graph.LoopOp):
        total += op.counted_steps * time_of(op.functions[0], narrow=narrow)
    elif isinstance(op, graph.BranchOp):
        total += max(time_of(function, narrow=narrow) for function in op.functions)
    elif isinstance(op, graph.RecurrenceOp):
        total += rates.moved * _recurrence(op, STATE if op.is_integer else FLOAT)
    elif isinstance(op, graph.LinearOperation):
        element = graph.quantized_element(op.input)
        if element is None:
            total += (
                rates.moved * op.macs * (FLOAT_ALONE if op.has_single_channel_groups else FLOAT)
            )
        elif op.has_single_channel_groups:
            total += op.macs * element.storage.width.data // 8 * rates.alone
        elif element.storage.width.data == WIDE:
            total += op.macs * (1 + rates.moved)
        else:
            total = op.macs + HOST.element * size  # On the device, which stores as fast.
    elif isinstance(op, graph.LookupOp):
        element = graph.quantized_element(op.input)
        if element is not None and element.storage.width.data == WIDE:
            total += rates.finer_table * size
    return total


def _recurrence(op: graph.RecurrenceOp, product: float) -> float:
    """A recurrent layer on a host, whose products take so much."""
    return product * op.macs + GATE * prod(graph.shape_of(op.input))


def _readers(value: SSAValue) -> Iterator[graph.LinearOperation]:
    """Products that read a value, moved by poolings and the like or not."""
    for use in uses_after_moves(value, joined=True):
        if isinstance(use.operation, graph.LinearOperation) and use.index == 0:
            yield use.operation
