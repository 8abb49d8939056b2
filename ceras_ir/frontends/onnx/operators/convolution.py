"""Convolution over one or two spatial dimensions."""

from xdsl.dialects.builtin import f32

from ceras_ir.dialects.graph import Conv2dOp
from ceras_ir.frontends.onnx.emitter import TO_NHWC, Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.values import Value
from ceras_ir.frontends.onnx.windows import read_window


@operator("Conv")
def conv(node: Node, emitter: Emitter) -> Value:
    """Weights [O, C/g, KH, KW] become [O, KH, KW, C/g]; a bias is handed on."""
    shape, weights = emitter.shape(0), emitter.shape(1)
    rank = len(shape)
    if len(weights) != rank or rank < 3:
        raise node.wrong(
            f"input {list(shape)} and weights {list(weights)} must have the same rank, at least 3"
        )
    if rank > 4:
        raise node.unsupported(
            f"{rank - 2} spatial dimensions; one or two are taken: split the convolution"
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
    kernel = weights[2:]
    if (declared := node.integers("kernel_shape")) not in (None, kernel):
        raise node.wrong(f"attribute 'kernel_shape' is {list(declared or ())}, got {list(kernel)}")
    window = read_window(node, kernel, shape[2:])
    bias = None
    if node.has_input(2):
        if emitter.shape(2) != (weights[0],):
            raise node.wrong(f"bias of shape {list(emitter.shape(2))}, expected [{weights[0]}]")
        bias = emitter.tensor(2)
    lifted = emitter.reshaped(emitter.value(1), (*weights[:2], *window.kernel))
    result = emitter.emit(
        Conv2dOp(
            emitter.feature_map(emitter.value(0)),
            emitter.materialize(emitter.transposed(lifted, TO_NHWC)),
            bias,
            result_element=f32,
            strides=window.strides,
            padding=window.padding,
            dilations=window.dilations,
            groups=groups,
        )
    )
    return emitter.from_feature_map(result, rank)
