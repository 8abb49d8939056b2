"""Import transposed convolutions, with the filters of TensorFlow Lite or of MediaPipe."""

from collections.abc import Sequence
from dataclasses import replace
from struct import unpack_from

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64

from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.values import Constant, Value
from ceras_ir.frontends.tflite.operation import Operation, operator
from ceras_ir.frontends.tflite.operators.layers import (
    SAME,
    VALID,
    Weights,
    Window,
    convolved,
    rank_4,
)


@operator("TRANSPOSE_CONV")
def transposed_convolution(op: Operation) -> Value:
    """
    Import TRANSPOSE_CONV. Operand 0 is the shape of the result, operand 1 the filters, and operand
    2 the input. If the shape is computed, the shape that the file declares is used, as in
    TensorFlow Lite Micro.
    """
    is_declared = not isinstance(op.value(0), Constant) and not op.output.open_dimensions
    size = op.output.shape if is_declared else op.integers(0)
    options = op.operator.options
    strides = options.integer(2, "i"), options.integer(1, "i")
    kind = options.integer(0, "b")
    return _transposed(op.reordered((2, 1, 3)), size, kind, strides, activation=3)


MEDIAPIPE_PADDING = {1: SAME, 2: VALID}
"""The padding in the options of MediaPipe's operator."""


@operator("Convolution2DTransposeBias")
def with_bias(op: Operation) -> Value:
    """
    Import MediaPipe's transposed convolution of an input, filters and a bias. The options are three
    integers: the padding, and the strides of width and height.
    """
    raw = op.operator.custom_options
    if len(raw) < 12:
        raise op.wrong(f"options of {len(raw)} bytes, expected 12")
    padding, across, down = unpack_from("<3i", raw)
    if padding not in MEDIAPIPE_PADDING or op.is_quantized:
        raise op.unsupported(f"padding {padding}, or integers")
    size = op.output.shape
    return _transposed(op, size, MEDIAPIPE_PADDING[padding], (down, across), activation=None)


def _transposed(
    op: Operation,
    size: Sequence[int],
    padding: int,
    strides: tuple[int, int],
    activation: int | None,
) -> Value:
    """
    Emit a convolution over the input (operand 0) with zeros between the elements. The filters
    (operand 1, [O, H, W, I]) are turned by 180 degrees. `size` is the shape of the result. Option
    number `activation`, unless it is `None`, is the fused activation.
    """
    x = op.shape(0)
    outputs, *kernel, depth = rank_4(op, 1)
    if len(size) != 4 or len(x) != 4 or depth != x[3] or size[3] != outputs or size[0] != x[0]:
        raise op.wrong(f"{list(x)} to {list(size)} with filters {list(op.shape(1))}")
    # The padding of the convolution whose gradient this is.
    cropped = Window.padded(op, padding, size[1:3], kernel, strides).padding
    low = [k - 1 - p for k, p in zip(kernel, cropped[:2], strict=True)]
    stretched = [(n - 1) * s + 1 for n, s in zip(x[1:3], strides, strict=True)]
    high = [n + k - 1 - a - m for n, k, a, m in zip(size[1:3], kernel, low, stretched, strict=True)]
    if min(*low, *high) < 0:
        raise op.unsupported(f"a result of {list(size)} that crops the convolution")
    weights = Weights.of(op, 1, outputs)
    turned = replace(weights, array=np.ascontiguousarray(weights.array[:, ::-1, ::-1]))
    element = op.input(0).element
    zero = None
    if isinstance(element, UniformType):
        zero = IntegerAttr(element.zero_point, i64)
    between = (0, strides[0] - 1, strides[1] - 1, 0)
    value = op.tensor(0) if op.is_quantized else op.real(0)
    spread = op.emitter.padded(value, (0, *low, 0), (0, *high, 0), value=zero, interior=between)
    return convolved(op, turned, Window((1, 1), (1, 1), (0, 0, 0, 0)), 1, activation, spread)
