"""
Convolution over one to three spatial dimensions.

Weights may be computed, as in hypernetworks and in attention over kernels. Kernels of convolutions
pack weights at compile time, those of matrix products at run time too. Windows side by side are the
rows of such a product; groups of one channel are sums over taps.
"""

from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Conv2dOp, window_output
from ceras_ir.frontends.onnx.emission.emitter import TO_NHWC, Emitter
from ceras_ir.frontends.onnx.emission.registry import operator
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.model.windows import SpatialWindow, read_window


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
    `x` [N, H, W, C] by weights [O, KH, KW, C/g], constant or computed. With a window over depth,
    `x` [N, D, H, W, C], which is padded in depth, by weights [KD, O, KH, KW, C/g].
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
    """The sum over the taps in depth of convolutions over height and width."""
    flat, stride, dilation = replace(window, depth=None), deep.strides[0], deep.dilations[0]
    (n, d, h, w, c), (depth, o, kh, kw, taken) = shape_of_value(x), shape_of_value(weights)
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


def _computed_convolution(
    emitter: Emitter,
    x: Value,
    weights: Value,
    bias: Value | None,
    window: SpatialWindow,
    groups: int,
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
    emitter: Emitter, x: Value, window: SpatialWindow, border: FloatAttr | IntegerAttr | None = None
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
