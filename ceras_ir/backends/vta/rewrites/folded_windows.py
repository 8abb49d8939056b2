"""Find the windows that gathers, a transpose and reshapes before a `mem.pack` put side by side."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from ceras_ir.dialects import graph


@dataclass(frozen=True)
class FoldedWindows:
    """`kernel` elements of `source` from every stride on, `value` around it."""

    source: SSAValue
    kernel: tuple[int, int]
    strides: tuple[int, int]
    offset: tuple[int, int] = (0, 0)
    value: int = 0


def folded_windows(value: SSAValue) -> FoldedWindows | None:
    """
    The windows [N, Y, X, KH * KW * C] that `value` consists of, where only this reads what leads to
    it: rows gathered, then columns, with padding before, or neither where every element is in one
    window.
    """
    flat = _alone(value)
    if not isinstance(flat, graph.ReshapeOp) or len(graph.shape_of(flat.result)) != 4:
        return None
    order = _alone(flat.input)
    if not isinstance(order, graph.TransposeOp):
        return None
    if tuple(order.permutation.get_values()) != (0, 1, 3, 2, 4, 5):
        return None
    split = _alone(order.input)
    if not isinstance(split, graph.ReshapeOp):
        return None
    n, rows, kh, columns, kw, channels = graph.shape_of(split.result)
    if graph.shape_of(flat.result) != (n, rows, columns, kh * kw * channels):
        return None
    if graph.shape_of(split.input) == (n, rows * kh, columns * kw, channels):
        return FoldedWindows(split.input, (kh, kw), (kh, kw))
    across = _gathered(split.input, 3)
    between = None if across is None else _alone(across.input)
    down = _gathered(between.input, 1) if isinstance(between, graph.ReshapeOp) else None
    if across is None or down is None:
        return None
    if graph.shape_of(across.input) != (n, rows, kh, graph.shape_of(down.input)[2], channels):
        return None
    strides = _stride(down, rows, kh), _stride(across, columns, kw)
    if 0 in strides:
        return None
    return _without_padding(FoldedWindows(down.input, (kh, kw), strides))


def _alone(value: SSAValue) -> Operation | None:
    """What makes `value` for one reader."""
    return value.owner if isinstance(value.owner, Operation) and value.has_one_use() else None


def _gathered(value: SSAValue, axis: int) -> graph.GatherOp | None:
    op = _alone(value)
    return op if isinstance(op, graph.GatherOp) and op.axis.value.data == axis else None


def _stride(op: graph.GatherOp, count: int, size: int) -> int:
    """Between the first elements of `count` windows of `size` neighbours; 0 if it is no such."""
    indices: Sequence[int] = op.indices.get_values()
    stride = indices[size] - indices[0] if count > 1 else 1
    regular = [y * stride + i for y in range(count) for i in range(size)]
    return stride if stride > 0 and list(indices) == regular else 0


def _without_padding(windows: FoldedWindows) -> FoldedWindows:
    """The same of what was padded in rows and columns by a number."""
    pad = _alone(windows.source)
    if not isinstance(pad, graph.PadOp) or pad.function is not graph.Pad.CONSTANT:
        return windows
    value, low, high = pad.value, pad.low.get_values(), pad.high.get_values()
    ends = (low[0], low[3], high[0], high[3], *pad.interior.get_values())
    if any(ends) or min(*low, *high) < 0 or not isa(value, IntegerAttr):
        return windows
    return replace(windows, source=pad.input, offset=(low[1], low[2]), value=value.value.data)
