"""
Windows of convolutions and poolings as ONNX describes them (`pads`, `auto_pad`, `ceil_mode`).

They are resolved to numbers. One spatial dimension becomes two, the first of extent 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ceras_ir.dialects.graph import window_extent, window_output
from ceras_ir.frontends.onnx.model.node import Node


@dataclass(frozen=True)
class SpatialWindow:
    """A window over height and width; `padding` is [top, left, bottom, right]."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilations: tuple[int, int]
    overhang: tuple[int, int] = (0, 0)
    """How much rounding the output extents up added to the padding that the model says."""
    depth: "SpatialWindow | None" = None
    """Of three dimensions the first one, as a window over heights."""

    def outputs(self, height: int, width: int) -> tuple[int, int]:
        """How many windows fit an input, down and across."""
        top, left, bottom, right = self.padding
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilations
        rows = window_output(height, top, bottom, kh, sh, dh)
        return rows, window_output(width, left, right, kw, sw, dw)


_Side: TypeAlias = tuple[int, int, int, int, int, int]
"""Of a window along a dimension: kernel, stride, dilation, padding before and after, overhang."""


def read_window(
    node: Node, extents: Sequence[int], weights: Sequence[int] | None = None
) -> SpatialWindow:
    """
    The window that `node` moves over spatial `extents`. The taps are those of weights
    [O, C/g, ...], which the node may state too; without weights, the node states them.
    """
    rank = len(extents)
    kernel = kernel_of(node, rank, weights)
    strides = node.per_dimension("strides", rank)
    dilations = node.per_dimension("dilations", rank)
    if any(k < 1 for k in kernel):
        raise node.wrong(f"kernel of shape {list(kernel)}, expected extents of at least 1")
    pads = node.integers("pads")
    auto = node.string("auto_pad", "NOTSET")
    ceil = node.flag("ceil_mode") if node.has_attribute("ceil_mode") else False
    sizes = [window_extent(k, d) for k, d in zip(kernel, dilations, strict=True)]
    if auto == "NOTSET":
        if pads is None:
            pads = (0,) * (2 * rank)
        if len(pads) != 2 * rank or any(p < 0 for p in pads):
            raise node.wrong(
                f"attribute 'pads' must be {2 * rank} integers of at least 0, got {list(pads)}"
            )
        before, after = list(pads[:rank]), list(pads[rank:])
    elif auto == "VALID":
        before, after = [0] * rank, [0] * rank
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        total = [
            max((-(-n // s) - 1) * s + size - n, 0)
            for n, s, size in zip(extents, strides, sizes, strict=True)
        ]
        less, more = [t // 2 for t in total], [t - t // 2 for t in total]
        before, after = (less, more) if auto == "SAME_UPPER" else (more, less)
        ceil = False
    else:
        raise node.wrong(
            f"attribute 'auto_pad' must be NOTSET, SAME_UPPER, SAME_LOWER or VALID, got '{auto}'"
        )
    overhang = [0] * rank
    if ceil:
        for i in range(rank):
            if auto == "VALID" and (extents[i] - sizes[i]) % strides[i]:
                raise node.unsupported(
                    "ceil_mode with auto_pad=VALID, which ONNX and ONNX Runtime read "
                    "differently; write the padding as 'pads'"
                )
            if extents[i] + before[i] + after[i] + strides[i] <= sizes[i]:
                continue  # Not even rounded up is there a window.
            needed = _rounded_up(extents[i], before[i], after[i], sizes[i], strides[i])
            overhang[i] = max(needed - after[i], 0)
            after[i] += overhang[i]
    if node.operator.endswith("Pool"):
        # ONNX's division rounds towards 0: a pooling window may stick out by less than a stride.
        for i in range(rank):
            missing = sizes[i] - (extents[i] + before[i] + after[i])
            if 0 < missing < strides[i]:
                overhang[i] += missing
                after[i] += missing
    for i in range(rank):
        if extents[i] + before[i] + after[i] < sizes[i]:
            raise node.wrong(
                f"a window of {sizes[i]} does not fit an input of {extents[i]} "
                f"with padding {before[i]} and {after[i]}"
            )
    sides = [*zip(kernel, strides, dilations, before, after, overhang, strict=True)]
    none = (1, 1, 1, 0, 0, 0)
    depth = _window(sides[0], none) if rank == 3 else None
    return _window(*([none] * (2 - rank) + sides)[-2:], depth=depth)


def _window(rows: _Side, columns: _Side, depth: SpatialWindow | None = None) -> SpatialWindow:
    """The window over two dimensions."""
    kernel, strides, dilations, before, after, overhang = zip(rows, columns, strict=True)
    return SpatialWindow(kernel, strides, (*before, *after), dilations, overhang, depth)


def kernel_of(node: Node, rank: int, weights: Sequence[int] | None = None) -> tuple[int, ...]:
    """The extents of the window, which are those of weights [O, C/g, ...] if there are any."""
    declared = node.integers("kernel_shape")
    if weights is None and (declared is None or len(declared) != rank):
        raise node.wrong(f"attribute 'kernel_shape' must be {rank} integers")
    kernel = tuple((declared if weights is None else weights[2:]) or ())
    if declared not in (None, kernel):
        raise node.wrong(f"attribute 'kernel_shape' is {list(declared)}, got {list(kernel)}")
    return kernel


def _rounded_up(extent: int, before: int, after: int, window: int, stride: int) -> int:
    """The padding behind that makes room for a last window that the floor would drop."""
    outputs = -(-(extent + before + after - window) // stride) + 1
    # A window that would start behind the input does not count.
    if (outputs - 1) * stride >= extent + before:
        outputs -= 1
    return (outputs - 1) * stride + window - extent - before
