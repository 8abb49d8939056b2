"""
How many taps of a convolution's window become channels of one position, and what that costs.

All taps make a matrix of windows (im2col), as many as the stride is space to depth. In between, a
convolution by fewer taps on more channels is left. The host makes the channels; its time counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from xdsl.ir import Operation

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.rules.admission import graph_contraction, why_not
from ceras_ir.backends.vta.rules.placement import cycles_of, transfer
from ceras_ir.backends.vta.schedule.blocks import longest_row
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.backends.vta.schedule.cost import estimate
from ceras_ir.backends.vta.schedule.search import best_blocks
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem.packing import packed_shape


@dataclass(frozen=True)
class WindowAxis:
    """One direction: parts of `taps` taps, `step` taps apart, of which the first reader counts."""

    kernel: int
    stride: int
    taps: int
    step: int

    @property
    def parts(self) -> int:
        """The extent of the convolution that is left, over parts as channels."""
        return 1 + -(-(self.kernel - self.taps) // self.step)

    @property
    def dilation(self) -> int:
        """Positions between the parts that one result reads."""
        return self.step // self.stride if self.parts > 1 else 1

    def positions(self, results: int) -> int:
        """Parts along the axis, of which one begins at every stride."""
        return results + (self.parts - 1) * self.dilation

    def tap(self, part: int, place: int) -> int | None:
        """Which tap a part has at a place; None where that is past the end, or in another part."""
        if part and place < self.taps - self.step:
            return None
        tap = part * self.step + place
        return tap if tap < self.kernel else None


@dataclass(frozen=True)
class Windows:
    """Both directions."""

    down: WindowAxis
    across: WindowAxis

    @classmethod
    def whole(cls, kernel: tuple[int, int], strides: tuple[int, int]) -> "Windows":
        """All taps of a window, side by side."""
        down, across = (WindowAxis(k, s, k, s) for k, s in zip(kernel, strides, strict=True))
        return cls(down, across)

    @classmethod
    def of(cls, kernel: tuple[int, int], strides: tuple[int, int]) -> "Iterator[Windows]":
        """All ways to take a window apart, but for single taps."""
        axes = [list(_axes(k, s)) for k, s in zip(kernel, strides, strict=True)]
        for down, across in product(*axes):
            if down.taps * across.taps > 1:
                yield cls(down, across)

    @property
    def size(self) -> tuple[int, int]:
        """Taps of a part."""
        return self.down.taps, self.across.taps

    @property
    def kernel(self) -> tuple[int, int]:
        """Of the convolution that is left."""
        return self.down.parts, self.across.parts

    @property
    def dilations(self) -> tuple[int, int]:
        """Of the convolution that is left."""
        return self.down.dilation, self.across.dilation

    def plane(self, results: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of parts."""
        return self.down.positions(results[0]), self.across.positions(results[1])


def _axes(kernel: int, stride: int) -> Iterator[WindowAxis]:
    for taps in range(stride, kernel):
        yield WindowAxis(kernel, stride, taps, taps // stride * stride)
    yield WindowAxis(kernel, stride, kernel, stride)


MAX_COMPARED = 4
"""Ways, the best by products and bytes alone, whose schedules are searched for."""


def best_windows(op: graph.Conv2dOp, board: VtaBoard) -> Windows | None:
    """
    The parts of its windows with which `op` takes the least time, the host's work included; None
    where it takes less as it is.
    """
    _, kh, kw, channels = graph.shape_of(op.weights)
    if prod(op.dilations.get_values()) != 1 or why_not(op, board) is not None:
        return None
    shape = graph_contraction(op, board)
    ways: list[tuple[float, int, Windows]] = []
    for windows in Windows.of((kh, kw), (shape.strides[0], shape.strides[1])):
        fewer = _with(windows, shape, channels, board)
        if fewer.taps * fewer.kblocks < shape.taps * shape.kblocks:
            cycles = fewer.taps * fewer.kblocks * shape.nblocks * shape.rows * shape.columns
            rough = shape.batch * cycles / board.clock + host_microseconds(op, windows, board)
            ways.append((rough, len(ways), windows))
    if not ways:
        return None
    producer = op.input.owner
    here = isinstance(producer, Operation) and why_not(producer, board) is None
    plain = packed_shape(graph.shape_of(op.input), board.vector)
    moved = prod(graph.shape_of(op.input)) + prod(plain)
    best, least = None, cycles_of(op, board) / board.clock
    least += (not here) * moved / board.host_bytes_per_us
    for _, _, windows in sorted(ways)[:MAX_COMPARED]:
        time = product_microseconds(op, windows, board)
        if time is None:
            continue
        time += host_microseconds(op, windows, board) + here * transfer(op.input, board)
        if time < least:
            best, least = windows, time
    return best


def product_microseconds(op: graph.Conv2dOp, windows: Windows, board: VtaBoard) -> float | None:
    """Of the convolution that is left on VTA; None if it does not fit."""
    channels = graph.shape_of(op.weights)[-1]
    shape = _with(windows, graph_contraction(op, board), channels, board)
    shape = shape.flattened(longest_row(board))
    blocks = best_blocks(shape, board)
    return None if blocks is None else estimate(shape, blocks, board) / board.clock


def _with(windows: Windows, shape: Contraction, channels: int, board: VtaBoard) -> Contraction:
    """The convolution that is left of `shape`."""
    height, width = windows.plane((shape.rows, shape.columns))
    return replace(
        shape,
        kblocks=-(-prod(windows.size) * channels // board.block),
        height=height,
        width=width,
        kernel=windows.kernel,
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilations=windows.dilations,
        outside=False,
        border_tiles=0,
    )


def host_microseconds(op: graph.Conv2dOp, windows: Windows, board: VtaBoard) -> float:
    """Of packing the parts: every element of them is read, every lane written."""
    n, _, _, channels = graph.shape_of(op.input)
    _, rows, columns, _ = graph.shape_of(op.result)
    parts = (n, *windows.plane((rows, columns)), prod(windows.size) * channels)
    return (prod(parts) + prod(packed_shape(parts, board.vector))) / board.host_bytes_per_us
