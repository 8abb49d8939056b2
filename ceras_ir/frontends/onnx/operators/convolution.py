"""
Import convolutions over up to three spatial dimensions, and read the window attributes of ONNX.

Weights may be computed at run time, as in hypernetworks and in attention over kernels. Kernels of
convolutions can pack weights only at compile time; kernels of matrix products can pack them at run
time. A convolution with computed weights therefore becomes a matrix product, with a row for each
window. Groups of a single channel become sums over taps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Conv2dOp, window_extent, window_output
from ceras_ir.frontends.onnx.emission.emitter import TO_NHWC, Emitter
from ceras_ir.frontends.onnx.emission.registry import operator
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node


@dataclass(frozen=True)
class SpatialWindow:
    """
    A window of a convolution or pooling over height and width. `padding` is
    [top, left, bottom, right], in elements.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilations: tuple[int, int]
    overhang: tuple[int, int] = (0, 0)
    """
    The part of the bottom and right padding that was added because the output size is rounded up.
    """
    depth: "SpatialWindow | None" = None
    """
    The window over the first of three dimensions, as a window over heights; None with fewer
    dimensions.
    """

    def outputs(self, height: int, width: int) -> tuple[int, int]:
        """Return the height and width of the result for an input of `height` and `width`."""
        top, left, bottom, right = self.padding
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilations
        rows = window_output(height, top, bottom, kh, sh, dh)
        return rows, window_output(width, left, right, kw, sw, dw)


def read_window(
    node: Node, extents: Sequence[int], weights: Sequence[int] | None = None
) -> SpatialWindow:
    """
    Read the window attributes of `node` for an input with the spatial `extents`. The kernel is that
    of `weights`, the shape [O, C/g, ...] of a filter, or the attribute `kernel_shape`.
    """
    rank = len(extents)
    kernel = kernel_of(node, rank, weights)
    strides = node.per_dimension("strides", rank)
    dilations = node.per_dimension("dilations", rank)
    if any(k < 1 for k in kernel):
        raise node.wrong(f"kernel of shape {list(kernel)}, expected extents >= 1")
    pads = node.integers("pads")
    auto = node.string("auto_pad", "NOTSET")
    ceil = node.flag("ceil_mode") if node.has_attribute("ceil_mode") else False
    sizes = [window_extent(k, d) for k, d in zip(kernel, dilations, strict=True)]
    if auto == "NOTSET":
        if pads is None:
            pads = (0,) * (2 * rank)
        if len(pads) != 2 * rank or any(p < 0 for p in pads):
            raise node.wrong(f"attribute 'pads' must be {2 * rank} integers >= 0, got {list(pads)}")
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
                    "ceil_mode with auto_pad=VALID, which ONNX and ONNX Runtime interpret "
                    "differently; write the padding as 'pads'"
                )
            if extents[i] + before[i] + after[i] + strides[i] <= sizes[i]:
                continue  # There is no window, even if the number is rounded up.
            outputs = -(-(extents[i] + before[i] + after[i] - sizes[i]) // strides[i]) + 1
            # A window that would start after the input does not count.
            outputs -= (outputs - 1) * strides[i] >= extents[i] + before[i]
            needed = (outputs - 1) * strides[i] + sizes[i] - extents[i] - before[i]
            overhang[i] = max(needed - after[i], 0)
            after[i] += overhang[i]
    if node.operator.endswith("Pool"):
        # The division of ONNX rounds towards 0, so a pooling window may exceed the input.
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


def _window(
    rows: Sequence[int], columns: Sequence[int], depth: SpatialWindow | None = None
) -> SpatialWindow:
    kernel, strides, dilations, before, after, overhang = zip(rows, columns, strict=True)
    return SpatialWindow(kernel, strides, (*before, *after), dilations, overhang, depth)


def kernel_of(node: Node, rank: int, weights: Sequence[int] | None = None) -> tuple[int, ...]:
    """
    Return the extents of the kernel in `rank` spatial dimensions, from `weights`, the shape
    [O, C/g, ...] of a filter, or from the attribute `kernel_shape`.
    """
    declared = node.integers("kernel_shape")
    if weights is None and (declared is None or len(declared) != rank):
        raise node.wrong(f"attribute 'kernel_shape' must be {rank} integers")
    kernel = tuple((declared if weights is None else weights[2:]) or ())
    if declared not in (None, kernel):
        raise node.wrong(f"attribute 'kernel_shape' is {list(declared)}, got {list(kernel)}")
    return kernel


@operator("Conv")
def conv(node: Node, emitter: Emitter) -> Value:
    """
    Import Conv: transpose weights to [O, KH, KW, C/g]. Weights that are computed at run time are
    multiplied by windows of the input, in a matrix product.
    """
    shape, weights = emitter.shape(0), emitter.shape(1)
    rank = len(shape)
    if len(weights) != rank or rank < 3:
        raise node.wrong(f"{list(shape)} and weights {list(weights)} must have the same rank >= 3")
    if rank > 5:
        raise node.unsupported(f"{rank - 2} spatial dimensions, expected one to three: split it")
    groups = node.integer("group", 1)
    if groups < 1 or shape[1] % groups or weights[0] % groups:
        channels = f"{shape[1]} input and {weights[0]} output channels"
        raise node.wrong(f"attribute 'group' must divide {channels}, got {groups}")
    if shape[1] != weights[1] * groups:
        expected = f"{weights[1] * groups} for weights {list(weights)} in {groups} groups"
        raise node.wrong(f"input of {shape[1]} channels, expected {expected}")
    window = read_window(node, shape[2:], weights)
    bias = None
    if node.has_input(2):
        if emitter.shape(2) != (weights[0],):
            raise node.wrong(f"bias of shape {list(emitter.shape(2))}, expected [{weights[0]}]")
        bias = emitter.tensor(2)
    if window.depth is None:
        lifted = emitter.reshaped(emitter.value(1), (*weights[:2], *window.kernel))
        x, packed = emitter.feature_map(emitter.value(0)), emitter.transposed(lifted, TO_NHWC)
        result = convolved(emitter, x, packed, bias, window, groups)
        return emitter.from_feature_map(result, rank)
    front, _, back, _ = window.depth.padding
    deep = emitter.transposed(emitter.value(0), (0, 2, 3, 4, 1))
    deep = emitter.padded(deep, (0, front, 0, 0, 0), (0, back, 0, 0, 0))
    planes = emitter.transposed(emitter.value(1), (2, 0, 3, 4, 1))
    result = convolved(emitter, deep, planes, bias, window, groups)
    return emitter.transposed(result, (0, 4, 1, 2, 3))


def convolved(
    emitter: Emitter,
    x: Value,
    weights: Value,
    bias: SSAValue | None,
    window: SpatialWindow,
    groups: int,
) -> Value:
    """
    Convolve `x` [N, H, W, C] with weights [O, KH, KW, C/g], constant or computed. With a window
    over depth, `x` is [N, D, H, W, C], padded in depth, and the weights are [KD, O, KH, KW, C/g].
    """
    if window.depth is not None:
        return _sum_of_planes(emitter, x, weights, bias, window, window.depth, groups)
    if not isinstance(weights, Constant):
        return _computed_convolution(emitter, x, weights, bias, window, groups)
    op = Conv2dOp(
        emitter.materialize(x),
        emitter.materialize(weights),
        bias,
        result_element=f32,
        strides=window.strides,
        padding=window.padding,
        dilations=window.dilations,
        groups=groups,
    )
    return emitter.emit(op)


def _sum_of_planes(
    emitter: Emitter,
    x: Value,
    weights: Value,
    bias: SSAValue | None,
    window: SpatialWindow,
    deep: SpatialWindow,
    groups: int,
) -> Value:
    flat, stride, dilation = replace(window, depth=None), deep.strides[0], deep.dilations[0]
    (n, d, h, w, c), (depth, o, *_) = shape_of_value(x), shape_of_value(weights)
    outputs = window_output(d, 0, 0, depth, stride, dilation)
    total: Value | None = None
    for k in range(depth):
        plane = emitter.sliced(
            x, (0, k * dilation, 0, 0, 0), (n, outputs, h, w, c), (1, stride, 1, 1, 1)
        )
        tap = emitter.slice_at(weights, k)
        rows = emitter.reshaped(plane, (n * outputs, h, w, c))
        part = convolved(emitter, rows, tap, bias if k == 0 else None, flat, groups)
        total = part if total is None else emitter.add(total, part)
    assert total is not None
    _, oh, ow, _ = shape_of_value(total)
    return emitter.reshaped(total, (n, outputs, oh, ow, o))


def _computed_convolution(
    emitter: Emitter,
    x: Value,
    weights: Value,
    bias: Value | None,
    window: SpatialWindow,
    groups: int,
) -> Value:
    outputs, _, _, channels = shape_of_value(weights)
    taps = taps_of(emitter, x, window)
    if channels == 1 and groups > 1:
        result = _sum_over_taps(emitter, taps, weights, groups)
    else:
        each = outputs // groups
        parts = [
            _product(
                emitter,
                [emitter.part(tap, 3, g * channels, channels) for tap in taps],
                emitter.part(weights, 0, g * each, each),
                bias if groups == 1 else None,
            )
            for g in range(groups)
        ]
        result = emitter.joined(parts, 3)
    return result if bias is None or groups == 1 else emitter.add(result, bias)


def taps_of(
    emitter: Emitter, x: Value, window: SpatialWindow, border: FloatAttr | IntegerAttr | None = None
) -> list[Value]:
    """
    Return, for each position inside the window in row-major order, the elements of `x` at that
    position for all windows, [N, OH, OW, C]. `border` is the value of the padding, by default 0.
    """
    top, left, bottom, right = window.padding
    n, h, w, c = shape_of_value(x)
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilations
    oh, ow = window.outputs(h, w)
    x = emitter.padded(x, (0, top, left, 0), (0, bottom, right, 0), value=border)
    return [
        emitter.sliced(x, (0, i * dh, j * dw, 0), (n, oh, ow, c), (1, sh, sw, 1))
        for i in range(kh)
        for j in range(kw)
    ]


def _product(emitter: Emitter, taps: list[Value], weights: Value, bias: Value | None) -> Value:
    n, oh, ow, c = shape_of_value(taps[0])
    outputs = shape_of_value(weights)[0]
    size = len(taps) * c
    rows = emitter.reshaped(emitter.joined(taps, 3), (n * oh * ow, size))
    product = emitter.product(rows, emitter.reshaped(weights, (outputs, size)), bias)
    return emitter.reshaped(product, (n, oh, ow, outputs))


def _sum_over_taps(emitter: Emitter, taps: list[Value], weights: Value, groups: int) -> Value:
    outputs, size = shape_of_value(weights)[0], prod(shape_of_value(weights)[1:])
    each = outputs // groups
    by_tap = emitter.transposed(emitter.reshaped(weights, (outputs, size)), (1, 0))
    n, oh, ow, _ = shape_of_value(taps[0])
    total: Value | None = None
    for k, tap in enumerate(taps):
        row = emitter.reshaped(emitter.part(by_tap, 0, k, 1), (groups, each))
        part = emitter.mul(emitter.reshaped(tap, (n, oh, ow, groups, 1)), row)
        total = part if total is None else emitter.add(total, part)
    assert total is not None
    return emitter.reshaped(total, (n, oh, ow, outputs))
