"""
Batch normalization, which in inference is a product and a sum per channel.

There is no `graph` operation for it: `fold-batch-norm` moves both into a convolution.
"""

import numpy as np

from ceras_ir.dialects.graph import Binary
from ceras_ir.frontends.onnx.emitter import Emitter
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import constant_operands, first_output_only, operator, rule
from ceras_ir.frontends.onnx.values import Value

first_output_only("BatchNormalization")


@rule("BatchNormalization")
def inference(node: Node) -> str | None:
    """training_mode must be 0 and spatial 1"""
    if node.flag("training_mode"):
        return "training_mode is 1; export the model in eval mode"
    if not node.flag("spatial", True):
        return "spatial is 0; export with opset 9 or later"
    return None


constant_operands(
    {"BatchNormalization": range(1, 5)},
    "scale, bias, mean and variance must be constants",
    "make it an initializer",
)


@operator("BatchNormalization")
def batch_normalization(node: Node, emitter: Emitter) -> Value:
    """`x * s + (b - mean * s)` with `s = scale / sqrt(var + epsilon)`, both in double first."""
    node.ignore("momentum", "spatial", "training_mode", *("is_test",) * (node.opset < 7))
    shape = emitter.shape(0)
    if len(shape) < 2:
        raise node.wrong(f"input of shape {list(shape)} has no channels")
    channels = shape[1]
    parameters: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    for i, name in enumerate(("scale", "bias", "mean", "variance"), 1):
        array = emitter.floats(i)
        if array.shape != (channels,):
            raise node.wrong(f"{name} of shape {list(array.shape)}, expected [{channels}]")
        parameters.append(array.astype(np.float64))
    scale, bias, mean, variance = parameters
    epsilon = node.number("epsilon", 1e-5)
    if not (variance + epsilon > 0.0).all():
        raise node.wrong("variance plus epsilon must be positive")
    factor = scale / np.sqrt(variance + epsilon)
    offset = bias - mean * factor
    column = (channels,) + (1,) * (len(shape) - 2)
    multiplier = emitter.constant(factor.astype(np.float32).reshape(column), "scale")
    product = emitter.binary(Binary.MUL, emitter.value(0), multiplier)
    summand = emitter.constant(offset.astype(np.float32).reshape(column), "offset")
    return emitter.binary(Binary.ADD, product, summand)
