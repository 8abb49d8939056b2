"""
Sliding windows as ONNX describes them (`pads`, `auto_pad`, `ceil_mode`), resolved to numbers.

One spatial dimension becomes two, the first of extent 1.
"""

from dataclasses import dataclass

from ceras_ir.dialects.graph import window_extent, window_output
from ceras_ir.frontends.onnx.node import Node


@dataclass(frozen=True)
class Window:
    """A window over height and width; `padding` is [top, left, bottom, right]."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilations: tuple[int, int]
    overhang: tuple[int, int]
    """How much rounding the output extents up added to the padding that the model says."""

    @property
    def declared(self) -> tuple[int, int, int, int]:
        """The padding that the model says."""
        top, left, bottom, right = self.padding
        return top, left, bottom - self.overhang[0], right - self.overhang[1]

    def outputs(self, height: int, width: int) -> tuple[int, int]:
        """How many windows fit an input, down and across."""
        top, left, bottom, right = self.padding
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilations
        rows = window_output(height, top, bottom, kh, sh, dh)
        return rows, window_output(width, left, right, kw, sw, dw)


def read_window(
    node: Node, kernel: tuple[int, ...], extents: tuple[int, ...], part: int | None = None
) -> Window:
    """
    The window of `kernel` taps that `node` moves over spatial `extents`. Of three dimensions
    `part` 0 is the depth, as a window over heights, and 1 what moves over height and width.
    """
    rank = len(extents)
    strides = per_dimension(node, "strides", rank)
    dilations = per_dimension(node, "dilations", rank)
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
    if part is not None:
        taken = slice(0, 1) if part == 0 else slice(1, 3)
        kernel, strides, dilations = kernel[taken], strides[taken], dilations[taken]
        before, after, overhang = before[taken], after[taken], overhang[taken]
    one, zero = (1,) * (2 - len(kernel)), (0,) * (2 - len(kernel))
    k, s, d = one + kernel, one + strides, one + dilations
    b, a, o = (*zero, *before), (*zero, *after), (*zero, *overhang)
    if part == 0:
        k, s, d, b, a, o = (tuple(reversed(v)) for v in (k, s, d, b, a, o))
    return Window((k[0], k[1]), (s[0], s[1]), (b[0], b[1], a[0], a[1]), (d[0], d[1]), (o[0], o[1]))


def _rounded_up(extent: int, before: int, after: int, window: int, stride: int) -> int:
    """The padding behind that makes room for a last window that the floor would drop."""
    outputs = -(-(extent + before + after - window) // stride) + 1
    # A window that would start behind the input does not count.
    if (outputs - 1) * stride >= extent + before:
        outputs -= 1
    return (outputs - 1) * stride + window - extent - before


def per_dimension(
    node: Node, name: str, rank: int, default: int = 1, least: int = 1
) -> tuple[int, ...]:
    """A list of integers with one for each spatial dimension."""
    values = node.integers(name)
    if values is None:
        return (default,) * rank
    if len(values) != rank or any(v < least for v in values):
        raise node.wrong(
            f"attribute '{name}' must be {rank} integers of at least {least}, got {list(values)}"
        )
    return values
