"""
Convolution over one to three spatial dimensions, and windows of convolutions and poolings.

Windows are as ONNX describes them (`pads`, `auto_pad`, `ceil_mode`), resolved to numbers. One
spatial dimension becomes two, the first of extent 1.

Weights may be computed, as in hypernetworks and in attention over kernels. Kernels of convolutions
pack weights at compile time, those of matrix products at run time too. Windows side by side are the
rows of such a product; groups of one channel are sums over taps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Conv2dOp, window_extent, window_output
from ceras_ir.frontends.onnx.emission.emitter import TO_NHWC, Emitter
from ceras_ir.frontends.onnx.emission.registry import operator
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node


@dataclass(frozen=True)
class Window:
    """A window over height and width; `padding` is [top, left, bottom, right]."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilations: tuple[int, int]
    overhang: tuple[int, int] = (0, 0)
    """How much rounding the output extents up added to the padding that the model says."""
    depth: "Window | None" = None
    """Of three dimensions the first one, as a window over heights."""

    def outputs(self, height: int, width: int) -> tuple[int, int]:
        """How many windows fit an input, down and across."""
        top, left, bottom, right = self.padding
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilations
        rows = window_output(height, top, bottom, kh, sh, dh)
        return rows, window_output(width, left, right, kw, sw, dw)


_Side: TypeAlias = tuple[int, int, int, int, int, int]
"""Of a window along a dimension: kernel, stride, dilation, padding before and after, overhang."""


def read_window(node: Node, kernel: tuple[int, ...], extents: tuple[int, ...]) -> Window:
    """The window of `kernel` taps that `node` moves over spatial `extents`."""
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
    sides = [*zip(kernel, strides, dilations, before, after, overhang, strict=True)]
    none = (1, 1, 1, 0, 0, 0)
    depth = _window(sides[0], none) if rank == 3 else None
    return _window(*([none] * (2 - rank) + sides)[-2:], depth=depth)


def _window(rows: _Side, columns: _Side, depth: Window | None = None) -> Window:
    """The window over two dimensions."""
    kernel, strides, dilations, before, after, overhang = zip(rows, columns, strict=True)
    return Window(kernel, strides, (*before, *after), dilations, overhang, depth)


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


@operator("Conv")
def conv(node: Node, emitter: Emitter) -> Value:
    """Weights [O, C/g, KH, KW] become [O, KH, KW, C/g]; computed ones make it a matrix product."""
    shape, weights = emitter.shape(0), emitter.shape(1)
    rank = len(shape)
    if len(weights) != rank or rank < 3:
        raise node.wrong(
            f"input {list(shape)} and weights {list(weights)} must have the same rank, at least 3"
        )
    if rank > 5:
        raise node.unsupported(
            f"{rank - 2} spatial dimensions; one to three are taken: split the convolution"
        )
    groups = node.integer("group", 1)
    if groups < 1 or shape[1] % groups or weights[0] % groups:
        raise node.wrong(
            f"attribute 'group' must divide {shape[1]} input and {weights[0]} output channels, "
            f"got {groups}"
        )
    if shape[1] != weights[1] * groups:
        raise node.wrong(
            f"input of {shape[1]} channels, expected {weights[1] * groups} for weights "
            f"{list(weights)} in {groups} groups"
        )
    kernel = kernel_of(node, weights)
    bias = None
    if node.has_input(2):
        if emitter.shape(2) != (weights[0],):
            raise node.wrong(f"bias of shape {list(emitter.shape(2))}, expected [{weights[0]}]")
        bias = emitter.tensor(2)
    window = read_window(node, kernel, shape[2:])
    if window.depth is not None:
        return _deep_conv(emitter, window, window.depth, bias, groups)
    lifted = emitter.reshaped(emitter.value(1), (*weights[:2], *window.kernel))
    features = emitter.feature_map(emitter.value(0))
    result = convolved(emitter, features, emitter.transposed(lifted, TO_NHWC), bias, window, groups)
    return emitter.from_feature_map(result, rank)


def kernel_of(node: Node, weights: Sequence[int]) -> tuple[int, ...]:
    """The window of weights [O, C/g, ...], which the node may state too."""
    kernel = tuple(weights[2:])
    if (declared := node.integers("kernel_shape")) not in (None, kernel):
        raise node.wrong(f"attribute 'kernel_shape' is {list(declared or ())}, got {list(kernel)}")
    return kernel


def convolved(
    emitter: Emitter, x: Value, weights: Value, bias: SSAValue | None, window: Window, groups: int
) -> Value:
    """`x` [N, H, W, C] by weights [O, KH, KW, C/g], constant or computed."""
    if not isinstance(weights, Constant):
        return computed_convolution(emitter, x, weights, bias, window, groups)
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


def _deep_conv(
    emitter: Emitter, flat: Window, deep: Window, bias: SSAValue | None, groups: int
) -> Value:
    """A sum over the taps in depth of convolutions over height and width."""
    x = emitter.transposed(emitter.value(0), (0, 2, 3, 4, 1))
    front, _, back, _ = deep.padding
    x = emitter.padded(x, (0, front, 0, 0, 0), (0, back, 0, 0, 0))
    weights = emitter.transposed(emitter.value(1), (2, 0, 3, 4, 1))
    steps = deep.strides[0], deep.dilations[0]
    result = sum_of_planes(emitter, x, weights, bias, steps, flat, groups)
    return emitter.transposed(result, (0, 4, 1, 2, 3))


def sum_of_planes(
    emitter: Emitter,
    x: Value,
    weights: Value,
    bias: SSAValue | None,
    steps: tuple[int, int],
    flat: Window,
    groups: int,
) -> Value:
    """
    The convolution of [N, D, H, W, C] by weights [KD, O, KH, KW, C/g], with stride and dilation
    `steps` in depth, where nothing is padded, and with `flat` over height and width.
    """
    (n, d, h, w, c), (depth, o, kh, kw, taken) = shape_of_value(x), shape_of_value(weights)
    stride, dilation = steps
    outputs = window_output(d, 0, 0, depth, stride, dilation)
    total: Value | None = None
    for k in range(depth):
        plane = emitter.sliced(
            x, (0, k * dilation, 0, 0, 0), (n, outputs, h, w, c), (1, stride, 1, 1, 1)
        )
        tap = (
            Constant.of(f"{weights.name}/{k}", np.ascontiguousarray(weights.load()[k]))
            if isinstance(weights, Constant)
            else emitter.reshaped(emitter.part(weights, 0, k, 1), (o, kh, kw, taken))
        )
        rows = emitter.reshaped(plane, (n * outputs, h, w, c))
        part = convolved(emitter, rows, tap, bias if k == 0 else None, flat, groups)
        total = part if total is None else emitter.add(total, part)
    assert total is not None
    _, oh, ow, _ = shape_of_value(total)
    return emitter.reshaped(total, (n, outputs, oh, ow, o))


def computed_convolution(
    emitter: Emitter, x: Value, weights: Value, bias: Value | None, window: Window, groups: int
) -> Value:
    """Of [N, H, W, C] with [O, KH, KW, C/g]: [N, OH, OW, O]."""
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
    emitter: Emitter, x: Value, window: Window, border: FloatAttr | IntegerAttr | None = None
) -> list[Value]:
    """The elements at each position of the window, row-major: parts of the padded input."""
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
    """A row for each position: the channels of all taps."""
    n, oh, ow, c = shape_of_value(taps[0])
    outputs = shape_of_value(weights)[0]
    size = len(taps) * c
    rows = emitter.reshaped(emitter.joined(taps, 3), (n * oh * ow, size))
    product = emitter.product(rows, emitter.reshaped(weights, (outputs, size)), bias)
    return emitter.reshaped(product, (n, oh, ow, outputs))


def _sum_over_taps(emitter: Emitter, taps: list[Value], weights: Value, groups: int) -> Value:
    """Every channel by itself, into one or several."""
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
