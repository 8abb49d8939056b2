"""Pooling over one or two spatial dimensions."""

from xdsl.dialects.builtin import f32

from ceras_ir.dialects.graph import Pool, Pool2dOp, shape_of
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import first_output_only, operator
from ceras_ir.frontends.onnx.values import Value
from ceras_ir.frontends.onnx.windows import read_window

first_output_only("MaxPool")


@operator("AveragePool", "MaxPool")
def pool(node: Node, emitter: Emitter) -> Value:
    """`ceil_mode` becomes padding, which neither pooling counts."""
    shape = _shape(node, emitter)
    kernel = node.integers("kernel_shape")
    if kernel is None or len(kernel) != len(shape) - 2:
        raise node.wrong(f"attribute 'kernel_shape' must be {len(shape) - 2} integers")
    window = read_window(node, kernel, shape[2:])
    for i in range(4):
        if window.padding[i] >= (window.kernel[i % 2] - 1) * window.dilations[i % 2] + 1:
            raise node.wrong(
                f"padding {list(window.padding)} must be smaller than the window "
                f"{list(window.kernel)}"
            )
    node.ignore("storage_order")  # Orders the indices, which are not taken.
    counts = node.operator == "AveragePool" and node.flag("count_include_pad")
    if counts and window.overhang:
        raise node.unsupported(
            "count_include_pad with a ceil_mode that adds windows: ONNX counts the model's "
            "padding but not the overhang; use ceil_mode=0 with the padding written out"
        )
    result = emitter.emit(
        Pool2dOp(
            Pool.AVERAGE if node.operator == "AveragePool" else Pool.MAX,
            emitter.feature_map(emitter.value(0)),
            window.kernel,
            result_element=f32,
            strides=window.strides,
            padding=window.padding,
            dilations=window.dilations,
            count_include_pad=counts,
        )
    )
    return emitter.from_feature_map(result, len(shape))


@operator("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node, emitter: Emitter) -> Value:
    """One window over everything."""
    shape = _shape(node, emitter)
    kind = Pool.AVERAGE if node.operator == "GlobalAveragePool" else Pool.MAX
    features = emitter.feature_map(emitter.value(0))
    result = Pool2dOp(kind, features, shape_of(features)[1:3], result_element=f32)
    return emitter.from_feature_map(emitter.emit(result), len(shape))


def _shape(node: Node, emitter: Emitter) -> tuple[int, ...]:
    shape = emitter.shape(0)
    if len(shape) < 3:
        raise node.wrong(f"input of shape {list(shape)} has no spatial dimension")
    if len(shape) > 4:
        raise node.unsupported(f"{len(shape) - 2} spatial dimensions; one or two are taken")
    return shape
