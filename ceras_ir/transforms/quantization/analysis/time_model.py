"""
Estimate the execution time of layers, in units of an 8-bit product with shared operands.

The estimate compares precisions before placement and scheduling. The rates of a host are measured
on layers, and `benchmarks/predicted_times.py` prints the error of the sums. The rates of the host
of an accelerator are assumptions; they agree with the board files within a factor of two.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import (
    has_quantized_form,
    is_aligned_sum,
    is_copy,
    quantized_operations,
    uses_after_moves,
)
from ceras_ir.network.integer import row_exponents_within
from ceras_ir.network.storage import NARROW, WIDE, is_kept_in_float, weight_bits, width
from ceras_ir.targets.protocol import ROW_SPREAD
from ceras_ir.transforms.quantization.analysis.function_forms import Form, is_table


@dataclass(frozen=True)
class TableTimes:
    """The times of a lookup of an element, in units of an 8-bit product, by operand and result."""

    narrow: float
    """8 bits to 8 bits."""
    wide_result: float
    """8 bits to 16 bits."""
    wide_operand: float
    """16 bits to 8 bits."""
    wide: float
    """16 bits to 16 bits."""

    def of(self, operand: int, result: int) -> float:
        """Return the time for an operand and a result with these numbers of bits."""
        if operand == WIDE:
            return self.wide if result == WIDE else self.wide_operand
        return self.wide_result if result == WIDE else self.narrow


@dataclass(frozen=True)
class Rates:
    """
    The execution times of kinds of work on a machine, in units of an 8-bit product that shares
    operands with other products.
    """

    unshared: float
    """A product without shared operands, as in depthwise layers."""
    element: float
    """Storing an element of 8 bits, or the additional two bytes of a wider element."""
    table: TableTimes
    """A lookup in a single table."""
    channel_tables: TableTimes
    """A lookup in tables of channels."""
    slopes: float
    """A function with a slope per channel, of a 16-bit operand, in floats."""
    softmax: tuple[float, float]
    """
    An element of a softmax with operand and result of 8 bits, for which hosts have vector
    instructions, and of a softmax with 16 bits in either.
    """
    wider: float
    """The additional share of the time of a layer on the host if the operand has 16 bits."""
    wider_unshared: float
    """The same for a layer without shared operands."""
    moved: float = 1.0
    """A product on the host. An accelerator with 8 bits leaves 16-bit layers to the host."""

    def lookup(self, operand: int, result: int, *, by_channel: bool) -> float:
        """Return the time of a lookup of an element for numbers of bits of operand and result."""
        return (self.channel_tables if by_channel else self.table).of(operand, result)


HOST = Rates(
    unshared=2.5,
    element=10.0,
    table=TableTimes(narrow=10.0, wide_result=46.0, wide_operand=50.0, wide=70.0),
    channel_tables=TableTimes(narrow=55.0, wide_result=80.0, wide_operand=70.0, wide=77.0),
    slopes=50.0,
    softmax=(40.0, 800.0),
    wider=0.7,
    wider_unshared=0.7,
)
"""
The rates of C with vector instructions: 232 products per nanosecond. If all values have 16 bits,
networks take 0 to 19% longer, because stores and loads have a large share.
"""

ACCELERATOR_HOST = Rates(
    unshared=64.0,
    element=128.0,
    table=TableTimes(narrow=128.0, wide_result=333.0, wide_operand=435.0, wide=435.0),
    channel_tables=TableTimes(narrow=282.0, wide_result=333.0, wide_operand=435.0, wide=435.0),
    slopes=inf,
    softmax=(1280.0, 1280.0),
    wider=1.0,
    wider_unshared=0.2,
    moved=64.0,
)
"""
The rates of the host of an accelerator, in products of the accelerator. Tables are in proportion to
the instructions of C per element, 5 to 17, counted in an emulator. Depthwise layers need 18 to 24%
more instructions with 16-bit operands.
"""

FLOAT_PRODUCT_TIME, FLOAT_UNSHARED_PRODUCT = 4, 8
"""The time of a float product on a host, with shared and without shared operands."""

STATE_PRODUCT, GATE = 2, 300
"""The time of a 16-bit product with a recurrent state, and of a float gate, on a host."""


@dataclass(frozen=True)
class TimeModel:
    """
    Estimates the time of a network, in units of an 8-bit product, on a machine with 16-bit
    arithmetic. If `narrow`, it is an 8-bit accelerator, which leaves 16-bit layers to the host,
    unless `split-wide` can convert them to 8-bit layers.
    """

    narrow: bool = False
    residual_spread: int = 0
    """The maximum difference of the residual shifts of two channels, in bits."""
    _spreads: dict[SSAValue, int | None] = field(
        default_factory=dict[SSAValue, int | None], repr=False, compare=False
    )
    """The octaves between output channels of known weights; None if all are zero."""

    @property
    def _rates(self) -> Rates:
        return ACCELERATOR_HOST if self.narrow else HOST

    def network(self, main: FuncOp) -> float:
        """
        Return the estimated time of a float network after quantization, including operations that
        remain float, in units of an 8-bit product.
        """
        total, inside = 0.0, quantized_operations(main)
        for op in main.body.block.ops:
            if isinstance(op, graph.RecurrenceOp):
                total += self._rates.moved * _recurrence(op, STATE_PRODUCT)
            elif op not in inside and not isinstance(op, graph.ReshapeOp):
                total += time_of_operation(op, narrow=self.narrow)
            if op not in inside:
                continue
            size = prod(graph.shape_of(op.results[0]))
            if isinstance(op, graph.LinearOperation):
                total += self._layer(op) + HOST.element * size
            elif isinstance(op, graph.UnaryOp) and is_table(op):
                total += self.lookup(op, width(op.input), width(op.result)) * size
            elif isinstance(op, graph.SoftmaxOp):
                total += self._rates.softmax[_is_wide(op)] * size
            elif has_quantized_form(op):
                rates = HOST if self._is_accelerated(op) else self._rates
                total += rates.element * size
        return total

    def widening(self, value: SSAValue) -> float:
        """
        Return the additional time, in units of an 8-bit product, if `value` is stored in 16 instead
        of 8 bits. It includes the consumers and the producer.
        """
        size = prod(graph.shape_of(value))
        more = self._rates.element * size / 2
        for op in {use.operation: None for use in value.uses}:
            if isinstance(op, graph.UnaryOp) and is_table(op):
                more += self.lookup(op, WIDE, width(op.result)) * size
                more -= self.lookup(op, NARROW, width(op.result)) * size
        uses = uses_after_moves(value, joined=False)
        for op in {use.operation: None for use in uses} | {value.owner: None}:
            if isinstance(op, graph.SoftmaxOp) and not is_kept_in_float(op):
                narrow, wide = self._rates.softmax
                more += 0.0 if _is_wide(op) else (wide - narrow) * prod(graph.shape_of(op.result))
        if any(is_copy(use.operation) for use in value.uses):
            more += self._rates.element * size  # The copy becomes a separate operation.
        more += self._moved_operations(value)
        table = value.owner
        if isinstance(table, graph.UnaryOp) and is_table(table):
            more += self.lookup(table, width(table.input), WIDE) * size
            more -= self.lookup(table, width(table.input), NARROW) * size
        is_split = False
        for op in _consuming_layers(value):
            is_plain = width(op.results[0]) != WIDE and op.residual is None
            if self.narrow and is_plain and self._is_simple(op):
                more += op.macs + HOST.element * prod(graph.shape_of(op.results[0]))
                is_split = True
            else:
                more += self._on_host(op)
        if is_split:
            more += 2 * self._rates.element * size
        if self.narrow and isinstance(op := value.owner, graph.LinearOperation):
            if _is_unshared(op, narrow=True) or self.splits(op):
                # A residual becomes a separate addition.
                results = 1 if op.residual is None else 2
                more += self._layer(op) + results * self._rates.element * size
            else:
                more += self._rates.moved * op.macs
        return more

    def lookup(self, op: graph.UnaryOp, operand: int, result: int) -> float:
        """Return the time per element of a function that becomes a lookup table."""
        if operand == WIDE and self.fine_form(op) is Form.FLOAT:
            return self._rates.slopes
        return self._rates.lookup(operand, result, by_channel=op.channel_exponents is not None)

    def fine_form(self, op: graph.UnaryOp) -> Form:
        """
        Return the form for a 16-bit operand of a function that becomes a table: a slope per channel
        takes less time in vectors of floats than a lookup, and does not round the operand.
        """
        is_faster = self._rates.slopes < self._rates.channel_tables.wide_operand
        return Form.FLOAT if op.function.slopes is not None and is_faster else Form.TABLE16

    def _on_host(self, op: graph.LinearOperation) -> float:
        """
        Return the additional time of a layer with a 16-bit operand. A host needs more time for each
        product; an accelerator leaves the layer to the host.
        """
        if _is_unshared(op, narrow=self.narrow):
            return self._rates.wider_unshared * self._layer(op)
        return self._rates.wider * self._rates.moved * op.macs

    def _moved_operations(self, value: SSAValue) -> float:
        """
        Return the additional time of operations that an accelerator leaves to the host if `value`
        has 16 bits: additions, poolings, and the addition of the value as a residual.
        """
        if not self.narrow:
            return 0.0
        neighbors = {use.operation: use.index for use in uses_after_moves(value, joined=True)}
        if isinstance(value.owner, Operation):
            neighbors[value.owner] = -1
        more = 0.0
        for op, index in neighbors.items():
            if self._is_accelerated(op):
                size = prod(graph.shape_of(op.results[0]))
                more += (self._rates.element - HOST.element) * size
            elif isinstance(op, graph.LinearOperation) and index > 0 and op.residual is not None:
                more += self._rates.element * prod(graph.shape_of(op.results[0]))
        return more

    def _is_accelerated(self, op: Operation) -> bool:
        """
        Return whether `op` is an addition, subtraction or pooling that an 8-bit accelerator
        computes; False for a machine without accelerator.
        """
        return self.narrow and (isinstance(op, graph.Pool2dOp) or is_aligned_sum(op))

    def splits(self, op: graph.LinearOperation) -> bool:
        """
        Return whether the pass `split-wide{results}` can compute the 16-bit result of a layer by
        two 8-bit layers.
        """
        return width(op.input) != WIDE and self._is_simple(op)

    def _is_simple(self, op: graph.LinearOperation) -> bool:
        """Return whether two 8-bit layers can replace a layer with a 16-bit result."""
        weights = graph.constant_array(op.weights)
        if weights is None or op.has_single_channel_groups:
            return False
        if op.weights not in self._spreads:
            floats = weights.astype("float32", copy=False)
            rows = row_exponents_within(floats, ROW_SPREAD, weight_bits(op))
            self._spreads[op.weights] = None if rows is None else max(rows) - min(rows)
        spread = self._spreads[op.weights]
        return spread is not None and spread <= self.residual_spread

    def _layer(self, op: graph.LinearOperation) -> float:
        return op.macs * (self._rates.unshared if _is_unshared(op, narrow=self.narrow) else 1)


def time_of(main: FuncOp, *, narrow: bool = False) -> float:
    """
    Return the estimated time of a quantized network, in units of an 8-bit product, on a machine
    with 16-bit and float arithmetic. If `narrow`, it is an 8-bit accelerator and the host.
    """
    return sum(time_of_operation(op, narrow=narrow) for op in main.body.block.ops)


def time_of_operation(op: Operation, *, narrow: bool = False) -> float:
    """
    Return the estimated time of an operation of a quantized network, in units of an 8-bit product
    with shared operands. `narrow` means an 8-bit accelerator, which leaves 16-bit layers to the
    host.
    """
    if not op.results or isinstance(op, graph.ConstantOp):
        return 0.0
    rates, size = ACCELERATOR_HOST if narrow else HOST, prod(graph.shape_of(op.results[0]))
    total = rates.element * size
    if isinstance(op, graph.LoopOp):
        total += op.counted_steps * time_of(op.functions[0], narrow=narrow)
    elif isinstance(op, graph.BranchOp):
        total += max(time_of(function, narrow=narrow) for function in op.functions)
    elif isinstance(op, graph.RecurrenceOp):
        total += rates.moved * _recurrence(
            op, STATE_PRODUCT if op.is_integer else FLOAT_PRODUCT_TIME
        )
    elif isinstance(op, graph.LinearOperation):
        element = graph.quantized_element(op.input)
        if element is None:
            is_unshared = op.has_single_channel_groups
            product = FLOAT_UNSHARED_PRODUCT if is_unshared else FLOAT_PRODUCT_TIME
            total += rates.moved * op.macs * product
        elif _is_unshared(op, narrow=narrow):
            is_wide = element.storage.width.data == WIDE
            total += op.macs * rates.unshared * (1 + rates.wider_unshared * is_wide)
        elif element.storage.width.data == WIDE:
            total += op.macs * (1 + rates.wider * rates.moved)
        else:
            total = op.macs + HOST.element * size  # On the device, which stores as fast.
    elif isinstance(op, graph.LookupOp):
        bits = [
            NARROW
            if (element := graph.quantized_element(v)) is None
            else element.storage.width.data
            for v in (op.input, op.result)
        ]
        total = rates.lookup(*bits, by_channel=op.channel_rows is not None) * size
    return total


def _recurrence(op: graph.RecurrenceOp, product: float) -> float:
    return product * op.macs + GATE * prod(graph.shape_of(op.input))


def _is_unshared(op: graph.LinearOperation, *, narrow: bool) -> bool:
    """
    Return whether the products of a layer share no operands, as in depthwise layers. An accelerator
    (`narrow`) computes a layer with a single input channel like other dense layers.
    """
    is_dense = isinstance(op, graph.Conv2dOp) and op.group_count == 1
    return op.has_single_channel_groups and not (narrow and is_dense)


def _is_wide(op: graph.SoftmaxOp) -> bool:
    return WIDE in (width(op.input), width(op.result))


def _consuming_layers(value: SSAValue) -> Iterator[graph.LinearOperation]:
    for use in uses_after_moves(value, joined=True):
        if isinstance(use.operation, graph.LinearOperation) and use.index == 0:
            yield use.operation
