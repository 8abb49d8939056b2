"""
Choose lanes for the shortest latency of a frame that fits the chip.

A layer can start when the rows of its first windows exist, so the latency depends on the rows that
each layer waits for, not only on the slowest layer. `finish_cycles` estimates the cycle in which
each row of a block is complete, if no stream stalls. `fastest` starts with cheap lanes with which
all layers need about the same time. Each step applies the change of a layer that saves the most
cycles per resource, until no change fits. `cycles.model` then decides between such plans and the
plan for throughput.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from ceras_ir.backends.dataflow.blocks import (
    Block,
    Convolution,
    MaxPool,
    Pipeline,
    Repetition,
    Selection,
)
from ceras_ir.backends.dataflow.convolution_cycles import (
    BY_ROW_FETCH,
    DRAIN,
    FETCH,
    RESTART,
    group_cycles,
    lane_cycles,
    turns,
)
from ceras_ir.backends.dataflow.plan import PlannedConvolution, completed_windows
from ceras_ir.backends.dataflow.resources import Resources
from ceras_ir.backends.dataflow.storage import ceiling

Planned = Mapping[Block, PlannedConvolution]
Rows = Sequence[int]
"""The cycle in which each row of a feature map is complete."""

REGISTERS = 2
"""The cycles from a word of an operand to the word of the result, in blocks without weights."""


def finish_cycles(block: Block, operands: Sequence[Rows], planned: Planned) -> list[int]:
    """
    Estimate the cycle in which each output row of `block` is complete, for operands that are
    complete in the cycles `operands`.
    """
    match block:
        case Convolution():
            return _convolution(planned[block], operands)
        case MaxPool():
            counts = completed_windows(block)
            ends = [end for end, n in zip(operands[0], counts, strict=True) for _ in range(n)]
            return [end + REGISTERS for end in ends]
        case Repetition():
            return [end + REGISTERS for end in operands[0] for _ in range(block.factors[0])]
        case Selection():
            first = block.start.rows
            return [end + REGISTERS for end in operands[0][first : first + block.feature.rows]]
        case _:
            return [max(ends) + REGISTERS for ends in zip(*operands, strict=True)]


def _convolution(planned: PlannedConvolution, operands: Sequence[Rows]) -> list[int]:
    layer, lanes, buffer = planned.layer, planned.lanes, planned.buffer
    top, padding = layer.windows.before[0], layer.input.channels * buffer.phases
    # The window buffer writes a row after the other.
    written: list[int] = list(accumulate([padding] * top))
    for arrival in operands[0]:
        written.append(max(arrival, (written[-1] if written else 0) + padding))
    for _ in range(buffer.padded_rows - len(written)):
        written.append(written[-1] + padding)
    rows, found, end = layer.feature.rows, list[int](), -RESTART
    for group in range(buffer.groups):
        last = group == buffer.groups - 1
        needed = buffer.last_rows if last else buffer.needed_rows(group)
        count = min(lanes.rows, rows - group * lanes.rows)
        if planned.is_by_row:
            end = _by_row(planned, written[:needed], end + RESTART, _cached_cycles(planned, count))
        else:
            end = max(
                end + RESTART, (written[needed - 1] if needed else 0) + FETCH
            ) + _cached_cycles(planned, count)
        finish = end + DRAIN + min(lanes.filters, layer.feature.channels) * count * lanes.parts
        if len(operands) > 1:
            finish = max(finish, operands[1][group * lanes.rows + count - 1] + REGISTERS)
        found += [finish] * count
    return found


def _by_row(planned: PlannedConvolution, written: Rows, start: int, cycles: int) -> int:
    # The end of a group whose weights wait for the rows of the windows, one after the other, and
    # for the channels of the last row, which arrive before it is complete.
    w, input_channels = planned.layer.windows, planned.layer.input.channels
    early, ends = turns(planned)
    each = early * planned.lanes.parts // max(1, w.kernel[0] - 1)
    top = len(written) - 1 - w.reach[0]
    for row in range(w.kernel[0] - 1):
        start = max(start, written[top + row * w.dilations[0]] + BY_ROW_FETCH) + each
    block = ends[0] * planned.lanes.parts
    arrived = written[-1] + BY_ROW_FETCH
    first = max(start, arrived - input_channels * planned.buffer.phases) + block
    # Several channels at a time are multiplied faster than they arrive.
    return max(first, arrived) + cycles - each * (w.kernel[0] - 1) - block


@lru_cache(1 << 14)
def _cached_cycles(planned: PlannedConvolution, rows: int) -> int:
    return group_cycles(planned, rows, rows)


def latency_cycles(pipeline: Pipeline, planned: Planned, port_bytes: int) -> int:
    """Estimate the cycles from the first word of a frame to the last word of all results."""
    return _Schedule(pipeline, planned, port_bytes).latency


class _Schedule:
    """The completion of all rows of all blocks, which a change of a layer updates from there on."""

    def __init__(self, pipeline: Pipeline, planned: Planned, port_bytes: int):
        self.pipeline, self.planned, self.port_bytes = pipeline, dict(planned), port_bytes
        source = pipeline.source.feature
        row = source.channels * ceiling(source.columns, port_bytes)
        self.ends: dict[Block, Rows] = {
            pipeline.source: [row * (n + 1) for n in range(source.rows)]
        }
        self._extend(self.ends, self.planned, pipeline.blocks)

    def _extend(self, ends: dict[Block, Rows], planned: Planned, blocks: Sequence[Block]) -> None:
        for block in blocks:
            ends[block] = finish_cycles(block, [ends[b] for b in block.inputs], planned)

    @property
    def latency(self) -> int:
        return self._latency(self.ends)

    def _latency(self, ends: Mapping[Block, Rows]) -> int:
        return max(self._left(result, ends) for result in self.pipeline.results)

    def _left(self, result: Block, ends: Mapping[Block, Rows]) -> int:
        now, row = 0, result.feature.channels * ceiling(result.feature.columns, self.port_bytes)
        # The last words leave after the last row; earlier words overlap.
        for end in ends[result]:
            now = max(now + row, end)
        return now

    def with_choice(self, layer: Convolution, planned: PlannedConvolution) -> int:
        """Return the latency if `layer` had the lanes of `planned`."""
        blocks = self.pipeline.blocks
        ends = dict(self.ends)
        self._extend(ends, self.planned | {layer: planned}, blocks[blocks.index(layer) :])
        return self._latency(ends)

    def change(self, layer: Convolution, planned: PlannedConvolution) -> None:
        self.planned[layer] = planned
        blocks = self.pipeline.blocks
        self._extend(self.ends, self.planned, blocks[blocks.index(layer) :])


MIN_PRICE = 1e-9
"""The price of a change that needs no more resources."""

Option = tuple[PlannedConvolution, Resources]
"""Lanes of a layer, and the resources that they need."""


def fastest(
    pipeline: Pipeline,
    table: Mapping[Convolution, Sequence[Option]],
    port_bytes: int,
    price: Callable[[Resources], float],
    fits: Callable[[Planned], bool],
    cycles: float,
) -> Planned | None:
    """
    Return lanes with a short latency that fit. The search starts with the cheapest lanes of each
    layer that need at most `cycles` per frame; `None` if they do not fit, or a layer has none.

    `table` has the possible lanes of each layer, `price` is the cost of resources, and `fits`
    decides whether a plan fits the chip.
    """
    prices = {layer: [price(r) for _, r in options] for layer, options in table.items()}
    first: dict[Convolution, int] = {}
    for layer, options in table.items():
        fast = [n for n, (planned, _) in enumerate(options) if lane_cycles(planned) <= cycles]
        if not fast:
            return None
        first[layer] = min(fast, key=prices[layer].__getitem__)
    chosen: dict[Block, PlannedConvolution] = {
        layer: table[layer][n][0] for layer, n in first.items()
    }
    if not fits(chosen):
        return None
    search = _Search(_Schedule(pipeline, chosen, port_bytes), table, prices, first)
    while search.step(fits):
        pass
    return search.schedule.planned


class _Search:
    """
    The changes of lanes that save cycles, with the cycles that each saved when it was last
    estimated. Only the best changes, and those of the layer that changed, are estimated again.
    """

    def __init__(
        self,
        schedule: _Schedule,
        table: Mapping[Convolution, Sequence[Option]],
        prices: Mapping[Convolution, Sequence[float]],
        chosen: Mapping[Convolution, int],
    ):
        self.schedule, self.table, self.prices = schedule, table, prices
        self.chosen, self.rates = dict(chosen), dict[tuple[Convolution, int], float]()
        self.refused: set[tuple[Convolution, int]] = set()
        for layer in table:
            self._estimate(layer)

    def _estimate(self, layer: Convolution) -> None:
        for n in range(len(self.table[layer])):
            self.rates[layer, n] = self._rate(layer, n)

    def _rate(self, layer: Convolution, n: int) -> float:
        # The saved cycles per price. Changes that free resources without a loss are made first.
        if n == self.chosen[layer] or (layer, n) in self.refused:
            return 0.0
        saved = self.schedule.latency - self.schedule.with_choice(layer, self.table[layer][n][0])
        more = self.prices[layer][n] - self.prices[layer][self.chosen[layer]]
        if more < 0 <= saved:
            return -more / MIN_PRICE
        return saved / max(more, MIN_PRICE)

    def step(self, fits: Callable[[Planned], bool]) -> bool:
        """Try the best change, and return whether there was one."""
        while (rate := self.rates[best := max(self.rates, key=self.rates.__getitem__)]) > 0:
            now = self.rates[best] = self._rate(*best)
            if now < rate:
                continue
            layer, n = best
            planned = self.table[layer][n][0]
            if fits(self.schedule.planned | {layer: planned}):
                self.schedule.change(layer, planned)
                self.chosen[layer] = n
                self._estimate(layer)
            else:
                self.refused.add(best)
                self.rates[best] = 0.0
            return True
        return False
