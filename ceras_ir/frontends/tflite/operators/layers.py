"""Import convolutions, fully connected layers, pooling and softmax."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, f32, i32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ConstantOp, Pool, window_extent
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.frontends.onnx.emission.values import Constant, Value, name_loc
from ceras_ir.frontends.tflite.fixed_point import matched_requant, softmax_table
from ceras_ir.frontends.tflite.operation import (
    SAME_SCALE,
    Operation,
    Stored,
    implied_scales,
    in_signed_bytes,
    operator,
    signed_type,
)

SAME, VALID = 0, 1
"""The padding of a window."""


@dataclass(frozen=True)
class Window:
    """
    Strides, dilations, and the padding [top, left, bottom, right] of the window of a convolution or
    pooling, in elements.
    """

    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: tuple[int, int, int, int]

    @classmethod
    def of(
        cls,
        op: Operation,
        size: Sequence[int],
        kernel: Sequence[int],
        strides: tuple[int, int],
        dilations: tuple[int, int] = (1, 1),
    ) -> "Window":
        """
        Return the window of an operator with SAME or VALID padding in option 0. `size` is the
        height and width of the input, `kernel` that of the window.
        """
        kind = op.operator.options.integer(0, "b")
        return cls.padded(op, kind, size, kernel, strides, dilations)

    @classmethod
    def of_convolution(
        cls, op: Operation, size: Sequence[int], kernel: Sequence[int], dilation_option: int
    ) -> "Window":
        """
        Return the window of a convolution: options 1 and 2 are the strides, and options
        `dilation_option` and the next are the dilations, each for width and height. `size` is the
        height and width of the input.
        """
        options, first = op.operator.options, dilation_option
        return cls.of(
            op,
            size,
            kernel,
            (options.integer(2, "i"), options.integer(1, "i")),
            (options.integer(first + 1, "i", 1), options.integer(first, "i", 1)),
        )

    @classmethod
    def padded(
        cls,
        op: Operation,
        kind: int,
        size: Sequence[int],
        kernel: Sequence[int],
        strides: tuple[int, int],
        dilations: tuple[int, int] = (1, 1),
    ) -> "Window":
        """
        Return the window with the padding that `kind`, SAME or VALID, implies for an input of the
        height and width `size`.
        """
        if kind not in (SAME, VALID):
            raise op.wrong(f"padding {kind}, expected SAME or VALID")
        if min(*strides, *dilations, *kernel) < 1:
            raise op.wrong("strides, dilations and the window must be positive")
        sides: list[tuple[int, int]] = []
        for extent, k, stride, dilation in zip(size, kernel, strides, dilations, strict=True):
            total = 0
            if kind == SAME:
                count = -(-extent // stride)
                total = max((count - 1) * stride + window_extent(k, dilation) - extent, 0)
            sides.append((total // 2, total - total // 2))
        (top, bottom), (left, right) = sides
        return cls(strides, dilations, (top, left, bottom, right))


def rank_4(op: Operation, index: int) -> tuple[int, ...]:
    """Return the shape of operand `index`. Raise an error if it does not have four dimensions."""
    if len(shape := op.shape(index)) != 4:
        raise op.wrong(f"operand {index} has shape {list(shape)}, expected four dimensions")
    return shape


@operator("CONV_2D")
def convolution(op: Operation) -> Value:
    """Import CONV_2D, with filters [O, H, W, I / groups]."""
    _, height, width, channels = rank_4(op, 0)
    outputs, *kernel, depth = rank_4(op, 1)
    if depth < 1 or channels % depth:
        raise op.wrong(f"filters of {depth} channels for {channels} channels")
    window = Window.of_convolution(op, (height, width), kernel, dilation_option=4)
    weights = Weights.of(op, 1, outputs)
    return convolved(op, weights, window, channels // depth, 3)


@operator("DEPTHWISE_CONV_2D")
def depthwise(op: Operation) -> Value:
    """
    Import DEPTHWISE_CONV_2D, with a filter [1, H, W, O]: each channel is convolved separately.
    """
    _, height, width, channels = rank_4(op, 0)
    one, *kernel, outputs = rank_4(op, 1)
    if one != 1 or not channels or outputs % channels:
        raise op.wrong(f"a filter of shape {list(op.shape(1))} for {channels} channels")
    window = Window.of_convolution(op, (height, width), kernel, dilation_option=5)
    weights = Weights.of(op, 1, outputs, channel_axis=3).moved((3, 1, 2, 0))
    return convolved(op, weights, window, channels, 4)


@dataclass(frozen=True)
class Weights:
    """
    The constant weights of a layer: floats (without `scales`), or integers with a scale for each
    output channel or a single scale.
    """

    array: NDArray[np.generic]
    scales: tuple[float, ...]
    points: tuple[int, ...]
    name: str

    @classmethod
    def of(cls, op: Operation, index: int, outputs: int, channel_axis: int = 0) -> "Weights":
        """
        Return operand `index` as the weights of a layer with `outputs` output channels, in
        dimension `channel_axis`. If there are several scales, each must belong to an output
        channel.
        """
        value = op.value(index)
        if not isinstance(value, Constant):
            raise op.unsupported("computed weights; convert the network with constant weights")
        if op.is_quantized and not isinstance(value, Stored):
            raise op.unsupported("weights without a scale in a quantized layer")
        if not isinstance(value, Stored) or not op.is_quantized:
            real = op.real(index)
            assert isinstance(real, Constant)
            return cls(real.load(), (), (), value.name)
        tensor = op.input(index)
        if len(tensor.scales) > 1 and (
            tensor.axis != channel_axis or len(tensor.scales) != outputs
        ):
            raise op.unsupported(f"scales along dimension {tensor.axis} of the weights")
        bounds = np.iinfo(value.dtype.name)
        if bounds.bits > 8 or any(not bounds.min <= p <= bounds.max for p in tensor.points):
            raise op.wrong(f"weights of {value.dtype} with zero points {list(tensor.points[:4])}")
        return cls(value.load(), tensor.scales, tensor.points, value.name)

    def moved(self, order: Sequence[int]) -> "Weights":
        """
        Return the weights with dimensions in the given order, in which output channels must be
        first.
        """
        return Weights(
            np.ascontiguousarray(self.array.transpose(order)), self.scales, self.points, self.name
        )

    def rescaled_by(self, op: Operation, requant: RequantAttr) -> "Weights":
        """
        Return the weights with scales for which the rounded factors of `requant` are exact. Kernels
        round the factors of 64-bit sums to 15 bits, and filters of zeros may have a scale of 0.
        """
        scales, implied = np.broadcast_arrays(self.scales, implied_scales(op, requant))
        if (np.abs(scales - implied) <= SAME_SCALE * scales).all():
            return self
        points = self.points if len(self.points) == len(scales) else self.points * len(scales)
        return replace(self, scales=tuple(implied.tolist()), points=points)

    def emitted(self, op: Operation) -> SSAValue:
        """Emit the weights as a constant, and return the value."""
        element = f32
        if self.scales:
            storage = graph.plain_element(self.array.dtype)
            assert isinstance(storage, IntegerType)
            is_listed = len(self.scales) > 1
            element = UniformType(
                self.scales if is_listed else self.scales[0],
                self.points if is_listed else self.points[0],
                storage=storage,
                axis=0 if is_listed else None,
            )
        if not op.is_quantized and not np.isfinite(self.array.astype(np.float32)).all():
            raise op.wrong("weights must be finite")
        constant = ConstantOp.from_array(self.array, element, location=name_loc(self.name))
        op.emitter.block.add_op(constant)
        return constant.result


def bias_of(op: Operation, index: int, weights: Weights, outputs: int) -> SSAValue | None:
    """
    Emit the bias of a layer and return the value: floats, or integers at the scale of the sums.
    Return `None` without operand `index`.
    """
    if not op.has_input(index):
        return None
    if not op.is_quantized:
        return op.emitter.materialize(op.real(index))
    array = op.array(index)
    if array.shape != (outputs,) or array.dtype.kind != "i":
        raise op.wrong(f"a bias of {array.dtype} and shape {list(array.shape)}")
    if np.abs(array.astype(np.float64)).max(initial=0) >= 2.0**31:
        raise op.unsupported("a bias that exceeds 32 bits; quantize the network again")
    scales = [op.element(0).scale * scale for scale in weights.scales]
    is_listed = len(scales) > 1
    element = UniformType(
        scales if is_listed else scales[0], storage=i32, axis=0 if is_listed else None
    )
    constant = ConstantOp.from_array(
        array.astype(np.int32), element, location=name_loc(op.input(index).name)
    )
    op.emitter.block.add_op(constant)
    return constant.result


def layer_requant(op: Operation, scales: Sequence[float], activation: int) -> RequantAttr:
    """
    Return the requantization of the sums of a layer with these scales of the weights. Option number
    `activation` is the fused activation.
    """
    factors = [product_scale(op, s) / op.result_element.scale for s in scales]
    return op.requant(factors, op.clamp(activation), wide=has_wide_sums(op))


def product_scale(op: Operation, scale: float) -> float:
    """
    Return the scale of products of the input with weights at `scale`. Kernels of uint8 compute it
    in float32.
    """
    source = op.element(0).scale
    return float(np.float32(source) * np.float32(scale)) if is_unsigned(op) else source * scale


def is_unsigned(op: Operation) -> bool:
    return op.input(0).kind == "uint8"


def has_wide_sums(op: Operation) -> bool:
    """
    Return whether the kernel adds in 64 bits: it does for 16-bit operands, unless the bias has 32
    bits.
    """
    return op.input(0).kind == "int16" and not (op.has_input(2) and op.input(2).kind == "int32")


def convolved(
    op: Operation,
    weights: Weights,
    window: Window,
    groups: int,
    activation: int | None,
    input: Value | None = None,
) -> Value:
    """
    Emit a convolution of `input`, by default operand 0. Option number `activation`, unless it is
    `None`, is the fused activation. The bias is operand 2, if it is given.
    """
    outputs = weights.array.shape[0]
    quantized = op.is_quantized
    requant, function = None, None
    if activation is not None:
        function = None if quantized else op.activation(activation)
    if activation is not None and quantized:
        requant = layer_requant(op, weights.scales, activation)
        weights = weights.rescaled_by(op, requant)
    fused = function if function is None or function.clip_range is not None else None
    if input is None:
        input = op.tensor(0) if quantized else op.real(0)
    result = op.emitter.emit(
        graph.Conv2dOp(
            op.emitter.materialize(input),
            weights.emitted(op),
            bias_of(op, 2, weights, outputs),
            result_element=op.result_element if quantized else f32,
            strides=window.strides,
            padding=window.padding,
            dilations=window.dilations,
            groups=groups,
            activation=fused,
            requant=requant,
        )
    )
    if activation is None or fused is function:
        return result
    return op.activated(result, activation)


@operator("FULLY_CONNECTED")
def fully_connected(op: Operation) -> Value:
    """
    Import FULLY_CONNECTED: a matrix product with weights [N, K], in which all dimensions of the
    input except the last are rows.
    """
    if op.operator.options.integer(1, "b"):
        raise op.unsupported("shuffled weights; convert the network for the reference kernels")
    shape, weight_shape = op.shape(0), op.shape(1)
    if len(weight_shape) != 2 or not weight_shape[1]:
        raise op.wrong(f"weights of shape {list(weight_shape)}, expected two dimensions")
    outputs, inputs = weight_shape
    total = int(np.prod(shape))
    if total % inputs:
        raise op.wrong(f"{total} elements for weights of {inputs} columns")
    quantized = op.is_quantized
    x = op.tensor(0) if quantized else op.emitter.materialize(op.real(0))
    rows = op.emitter.materialize(op.emitter.reshaped(x, (total // inputs, inputs)))
    keeps = op.operator.options.flag(2)
    result_shape = (*shape[:-1], outputs) if keeps else (total // inputs, outputs)
    function = None if quantized else op.activation(0)
    fused = function if function is None or function.clip_range is not None else None
    if not isinstance(op.value(1), Constant):
        if quantized or op.has_input(2):
            raise op.unsupported("computed weights; convert the network with constant weights")
        product: Value = op.emitter.product(rows, op.tensor(1))
        return op.activated(op.emitter.reshaped(product, result_shape), 0)
    weights = Weights.of(op, 1, outputs)
    requant = None
    if quantized:
        # The reference kernels multiply the sum in double precision, and round once.
        scales = op.element(0).scale, op.result_element.scale
        factors = [scales[0] * scale / scales[1] for scale in weights.scales]
        found = matched_requant(factors, op.result_element.zero_point, *op.clamp(0))
        requant = op.checked(found, factors)
    product = op.emitter.emit(
        graph.MatmulOp(
            rows,
            weights.emitted(op),
            bias_of(op, 2, weights, outputs),
            result_element=op.result_element if quantized else f32,
            activation=fused,
            requant=requant,
        )
    )
    result = op.emitter.reshaped(product, result_shape)
    return result if fused is function else op.activated(result, 0)


@operator("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pooling(op: Operation) -> Value:
    """Import AVERAGE_POOL_2D or MAX_POOL_2D. Elements outside of the input do not count."""
    _, height, width, _ = rank_4(op, 0)
    options = op.operator.options
    strides = options.integer(2, "i"), options.integer(1, "i")
    kernel = options.integer(4, "i"), options.integer(3, "i")
    window = Window.of(op, (height, width), kernel, strides)
    kind = Pool.AVERAGE if op.name == "AVERAGE_POOL_2D" else Pool.MAX
    quantized, x = op.is_quantized, op.tensor(0)
    averages = quantized and kind is Pool.AVERAGE
    requant = None
    if averages:
        low, high = op.clamp(5)
        point = op.result_element.zero_point
        requant = RequantAttr(0, rounding=Rounding.HALF_AWAY, zero_point=point, low=low, high=high)
    result = op.emitter.emit(
        graph.Pool2dOp(
            kind,
            x,
            kernel,
            result_element=graph.element_of(x),
            strides=window.strides,
            padding=window.padding,
            requant=requant,
            divides=averages,
        )
    )
    if not quantized:
        return op.activated(result, 5)
    return result if averages else clamped(op, result, op.clamp(5))


def clamped(op: Operation, value: SSAValue, bounds: tuple[int, int]) -> SSAValue:
    """
    Clamp the stored integers of a quantized value to `bounds`. No operation is emitted if these are
    the range of the type.
    """
    element = graph.stored_element(value)
    if bounds == (element.low, element.high):
        return value
    requant = RequantAttr(0, zero_point=element.zero_point, low=bounds[0], high=bounds[1])
    return op.emitter.emit(graph.RequantizeOp(value, element, requant))


@operator("SOFTMAX")
def softmax(op: Operation) -> Value:
    """Import SOFTMAX: the softmax of `beta * x` along the last dimension."""
    beta = op.operator.options.number(0)
    if not op.is_quantized:
        x = op.real(0)
        if beta != 1.0:
            x = op.emitter.mul(x, op.emitter.number(beta))
        return op.one("Softmax", [x], axis=-1)
    scale = op.element(0).scale
    if not beta * scale * 2.0**26 > 0 or beta * scale * 2.0**26 <= 1:
        raise op.unsupported(f"softmax of values at scale {scale:g}; quantize the network again")
    table = softmax_table(scale, beta).astype(np.int32)
    constant = Stored(
        f"{op.output.name}/exp",
        table.shape,
        table.dtype,
        lambda: table,
        kind=lambda: UniformType(2.0**-31, storage=i32),
    )
    target = signed_type(op.result_element)
    if op.input(0).kind == "int8" and op.output.kind == "int16":
        softmax = graph.FixedPointSoftmaxOp(op.tensor(0), op.stored(constant), target)
        return op.emitter.emit(softmax)
    return in_signed_bytes(
        op,
        lambda x: op.emitter.emit(graph.FixedPointSoftmaxOp(x, op.stored(constant), target)),
    )
