"""Convolution over one to three spatial dimensions."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Conv2dOp, Pad, PadOp, window_output
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import TO_NHWC, Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.operators.computed_convolution import computed_convolution
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.values import Constant, Value
from ceras_ir.frontends.onnx.windows import Window, read_window


@operator("Conv")
def conv(node: Node, emitter: Emitter) -> Value:
    """Weights [O, C/g, KH, KW] become [O, KH, KW, C/g]; computed ones make it a matrix product."""
    return convolution(node, emitter)


def convolution(node: Node, emitter: Emitter) -> Value:
    """What a node with the operands and attributes of `Conv` computes."""
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
    if rank == 5:
        return _deep_conv(node, emitter, groups, bias)
    window = read_window(node, kernel, shape[2:])
    lifted = emitter.reshaped(emitter.value(1), (*weights[:2], *window.kernel))
    features = emitter.feature_map(emitter.value(0))
    result = convolved(emitter, features, emitter.transposed(lifted, TO_NHWC), bias, window, groups)
    return emitter.from_feature_map(emitter.materialize(result), rank)


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


def _deep_conv(node: Node, emitter: Emitter, groups: int, bias: SSAValue | None) -> Value:
    """A sum over the taps in depth of convolutions over height and width."""
    size, kernel = emitter.shape(0)[2:], emitter.shape(1)[2:]
    deep, flat = (read_window(node, kernel, size, first) for first in (0, 1))
    x = emitter.transposed(emitter.value(0), (0, 2, 3, 4, 1))
    front, _, back, _ = deep.padding
    if front or back:
        border = (0, front, 0, 0, 0), (0, back, 0, 0, 0)
        x = emitter.emit(PadOp(Pad.CONSTANT, emitter.materialize(x), *border))
    weights = emitter.transposed(emitter.value(1), (2, 0, 3, 4, 1))
    result = sum_of_planes(
        emitter, x, weights, bias, (deep.strides[0], deep.dilations[0]), flat, groups
    )
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
    compose, (stride, dilation) = Composer(emitter), steps
    outputs = window_output(d, 0, 0, depth, stride, dilation)
    total: Value | None = None
    for k in range(depth):
        plane = compose.sliced(
            x, (0, k * dilation, 0, 0, 0), (n, outputs, h, w, c), (1, stride, 1, 1, 1)
        )
        tap = (
            Constant.of(f"{weights.name}/{k}", np.ascontiguousarray(weights.load()[k]))
            if isinstance(weights, Constant)
            else emitter.reshaped(compose.part(weights, 0, k, 1), (o, kh, kw, taken))
        )
        rows = emitter.reshaped(plane, (n * outputs, h, w, c))
        part = convolved(emitter, rows, tap, bias if k == 0 else None, flat, groups)
        total = part if total is None else compose.add(total, part)
    assert total is not None
    _, oh, ow, _ = shape_of_value(total)
    return emitter.reshaped(total, (n, outputs, oh, ow, o))
