"""Import convolutions and matrix products; of integers, as sums that a rescaling completes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, f32, i32, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ConstantOp, window_extent
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.frontends.onnx.emission.values import Constant, name_loc
from ceras_ir.frontends.onnx.emission.values import Value as EmittedValue
from ceras_ir.frontends.onnx.operators.matrix import MAX_BATCH, batched_product
from ceras_ir.frontends.tosa.operation import FLOAT_ELEMENTS, Operation, operation
from ceras_ir.frontends.tosa.values import STORAGE, EmitSums, Sums, Value, stored_type

Array = NDArray[np.generic]


@dataclass(frozen=True)
class Layer:
    """
    A convolution with weights [O, H, W, I / groups], or a matrix product with weights [O, I], and
    the parameters.

    `padding` is [top, left, bottom, right], in elements.
    """

    op: Operation
    input: SSAValue
    weights: EmittedValue
    bias: EmittedValue | None
    points: tuple[int, int]
    """The zero points of input and weights."""
    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result of a convolution."""
        n, *size, _ = graph.shape_of(self.input)
        o, *kernel, _ = self.weights_shape
        (top, left, bottom, right), extents = self.padding, list[int]()
        sides = ((top, bottom), (left, right))
        for i, (a, b) in enumerate(sides):
            span = window_extent(kernel[i], self.dilations[i])
            extents.append((size[i] + a + b - span) // self.strides[i] + 1)
        if min(extents) < 1:
            raise self.op.wrong("the window does not fit the padded input")
        return (n, *extents, o)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        w = self.weights
        return w.shape if isinstance(w, Constant) else graph.shape_of(w)

    def emit(
        self, requant: RequantAttr | None = None, element: UniformType | None = None
    ) -> SSAValue:
        """
        Emit the layer: in float, or, given a requantization and the type of the result, in
        integers.
        """
        emitter = self.op.emitter
        if requant is None or element is None:
            weights = emitter.materialize(self.weights)
            bias = None if self.bias is None else emitter.materialize(self.bias)
        else:
            weights, bias = self._stored_weights(requant), self._stored_bias(requant)
        result = f32 if element is None else element
        if len(self.weights_shape) == 2:
            return emitter.emit(
                graph.MatmulOp(self.input, weights, bias, result_element=result, requant=requant)
            )
        return emitter.emit(
            graph.Conv2dOp(
                self.input,
                weights,
                bias,
                result_element=result,
                strides=self.strides,
                padding=self.padding,
                dilations=self.dilations,
                groups=self.groups,
                requant=requant,
            )
        )

    def _scales(self, requant: RequantAttr) -> list[float]:
        """
        Return the scale of the weights for each output channel with which the multipliers of
        `requant` are exact. Input and result have scale 1.
        """
        return [multiplier / 2.0**requant.shift.data for multiplier in requant.multipliers]

    def _stored_weights(self, requant: RequantAttr) -> SSAValue:
        op, scales, weights = self.op, self._scales(requant), self.weights
        if not isinstance(weights, Constant):
            return weights
        listed = len(scales) > 1
        element = UniformType(
            scales if listed else scales[0],
            [self.points[1]] * len(scales) if listed else self.points[1],
            storage=STORAGE[op.element(1)],
            axis=0 if listed else None,
        )
        return _added(op, weights.load(), element, weights.name)

    def _stored_bias(self, requant: RequantAttr) -> SSAValue | None:
        if not isinstance(self.bias, Constant):
            return None
        scales = self._scales(requant)
        listed = len(scales) > 1
        element = UniformType(
            scales if listed else scales[0], storage=i32, axis=0 if listed else None
        )
        array = self.bias.load()
        return _added(self.op, array.astype(np.int32), element, self.bias.name)

    def value(self) -> Value:
        """
        Return the result: a float value, or sums of integers that are emitted with the rescaling
        that follows.
        """
        if self.op.is_float:
            return self.emit()
        rank_2 = len(self.weights_shape) == 2
        rows = graph.shape_of(self.input)[0]
        shape = (rows, self.weights_shape[0]) if rank_2 else self.shape
        sums = Sums(shape, named(self.op, self.emit), self.op.result.element == "i48")
        if self.bias is None or isinstance(self.bias, Constant):
            return sums
        emitter = self.op.emitter
        return emitter.add(sums.plain(emitter), self.bias)


def named(op: Operation, emit: EmitSums) -> EmitSums:
    """
    Return a function that calls `emit` later, with the name of the current operation as the
    location.
    """
    emitter, node = op.emitter, op.emitter.node

    def emit_later(requant: RequantAttr, element: UniformType) -> SSAValue:
        outer, emitter.node = emitter.node, node
        try:
            return emit(requant, element)
        finally:
            emitter.node = outer

    return emit_later


def _added(op: Operation, array: Array, element: UniformType, name: str) -> SSAValue:
    constant = ConstantOp.from_array(array, element, location=name_loc(name))
    op.emitter.block.add_op(constant)
    return constant.result


def points_of(op: Operation, first: int, names: tuple[str, str]) -> tuple[int, int]:
    """
    Return the zero points of input and weights: operands `first` and `first + 1`, or the attributes
    `names`.
    """
    return op.zero_point(first, names[0]), op.zero_point(first + 1, names[1])


def _weights(op: Operation, point: int) -> EmittedValue:
    """
    Return operand 1, the weights, for the zero point `point`. A constant is returned unchanged;
    computed weights are stored integers with this zero point.
    """
    value = op.value(1)
    if op.is_float:
        return op.real(1)
    element = op.element(1)
    if element not in ("i4", "i8", "ui8"):
        raise op.unsupported(f"weights of {element}; use i8")
    kind = stored_type(STORAGE[element])
    if not kind.low <= point <= kind.high:
        raise op.wrong(f"zero point {point} of weights of {element}")
    return value if isinstance(value, Constant) else op.stored(1, point)


def _input(op: Operation, point: int) -> SSAValue:
    return op.emitter.materialize(op.real(0)) if op.is_float else op.stored(0, point)


def _bias(op: Operation, outputs: int) -> EmittedValue | None:
    """
    Return operand 2 as a bias with an element for each of the `outputs` channels, or `None` if it
    is absent or zero.
    """
    if not op.has(2):
        return None
    value = op.plain(2)
    shape = op.shape(2)
    if shape not in ((outputs,), (1,)):
        raise op.wrong(f"a bias of shape {list(shape)} for {outputs} channels")
    if not isinstance(value, Constant):
        if shape != (outputs,):
            return op.emitter.expanded(value, (outputs,))
        return value
    array = value.load()
    if not array.any():
        return None
    is_integer = op.element(2) not in FLOAT_ELEMENTS
    if is_integer == op.is_float:
        raise op.wrong(f"a bias of {op.element(2)} for an input of {op.element(0)}")
    if is_integer and np.abs(array.astype(np.float64)).max() >= 2.0**31:
        raise op.unsupported("a bias that exceeds 32 bits; quantize the network again")
    return Constant.of(value.name, np.broadcast_to(array, (outputs,)))


def _padding(op: Operation) -> tuple[int, int, int, int]:
    top, bottom, left, right = op.window("pad", 4, 0)
    return top, left, bottom, right


def _rank(op: Operation, index: int, rank: int) -> tuple[int, ...]:
    if len(shape := op.shape(index)) != rank or min(shape) < 1:
        raise op.wrong(f"operand {index} has shape {list(shape)}, expected {rank} dimensions")
    return shape


CONVOLUTION = ("input_zp", "weight_zp")


@operation("conv2d")
def convolution(op: Operation) -> Value:
    """Import conv2d, with weights [O, H, W, I]."""
    (_, _, _, channels), (outputs, _, _, depth) = _rank(op, 0, 4), _rank(op, 1, 4)
    if channels != depth:
        raise op.wrong(f"weights of {depth} channels for {channels} channels")
    points = points_of(op, 3, CONVOLUTION)
    return Layer(
        op,
        _input(op, points[0]),
        _weights(op, points[1]),
        _bias(op, outputs),
        points,
        _pair(op.window("stride", 2)),
        _padding(op),
        _pair(op.window("dilation", 2)),
    ).value()


def _pair(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    return first, second


@operation("depthwise_conv2d")
def depthwise(op: Operation) -> Value:
    """Import depthwise_conv2d: each channel is convolved with M filters, which are [H, W, C, M]."""
    (_, _, _, channels), (height, width, depth, count) = _rank(op, 0, 4), _rank(op, 1, 4)
    if channels != depth:
        raise op.wrong(f"weights of {depth} channels for {channels} channels")
    points = points_of(op, 3, CONVOLUTION)
    outputs = channels * count
    ordered = op.emitter.transposed(_weights(op, points[1]), (2, 3, 0, 1))
    return Layer(
        op,
        _input(op, points[0]),
        op.emitter.reshaped(ordered, (outputs, height, width, 1)),
        _bias(op, outputs),
        points,
        _pair(op.window("stride", 2)),
        _padding(op),
        _pair(op.window("dilation", 2)),
        channels,
    ).value()


@operation("conv3d")
def convolution_3d(op: Operation) -> Value:
    """
    Import conv3d as a convolution over height and width: the slices along the depth become
    channels.
    """
    n, depth, height, width, channels = _rank(op, 0, 5)
    outputs, taps, kh, kw, per_tap = _rank(op, 1, 5)
    if channels != per_tap:
        raise op.wrong(f"weights of {per_tap} channels for {channels} channels")
    points = points_of(op, 3, CONVOLUTION)
    front, back, top, bottom, left, right = op.window("pad", 6, 0)
    strides, dilations = op.window("stride", 3), op.window("dilation", 3)
    emitter, x = op.emitter, _input(op, points[0])
    zero = None if op.is_float else IntegerAttr(points[0], i64)
    padded = emitter.padded(x, (0, front, 0, 0, 0), (0, back, 0, 0, 0), value=zero)
    count = (depth + front + back - window_extent(taps, dilations[0])) // strides[0] + 1
    if count < 1:
        raise op.wrong("the window does not fit the padded input")
    parts: list[EmittedValue] = []
    for tap in range(taps):
        starts = (0, tap * dilations[0], 0, 0, 0)
        sizes = (n, count, height, width, channels)
        parts.append(emitter.sliced(padded, starts, sizes, (1, strides[0], 1, 1, 1)))
    joined = emitter.reshaped(emitter.joined(parts, 4), (n * count, height, width, taps * channels))
    ordered = emitter.transposed(_weights(op, points[1]), (0, 2, 3, 1, 4))
    layer = Layer(
        op,
        emitter.materialize(joined),
        emitter.reshaped(ordered, (outputs, kh, kw, taps * channels)),
        _bias(op, outputs),
        points,
        _pair(strides[1:]),
        (top, left, bottom, right),
        _pair(dilations[1:]),
    )
    return _reshaped(op, layer.value(), (n, count, *layer.shape[1:]))


def _reshaped(op: Operation, value: Value, shape: Sequence[int]) -> Value:
    """
    Reshape a result of a layer. If it is not emitted yet, since the requantization is unknown, it
    is reshaped later.
    """
    if not isinstance(value, Sums):
        assert isinstance(value, SSAValue)
        return op.emitter.reshaped(value, shape)
    inner = value

    def emit(requant: RequantAttr, element: UniformType) -> SSAValue:
        return op.emitter.materialize(op.emitter.reshaped(inner.emit(requant, element), shape))

    return Sums(tuple(shape), emit, inner.is_wide)


@operation("transpose_conv2d")
def transposed(op: Operation) -> Value:
    """
    Import transpose_conv2d with weights [O, H, W, I]: a convolution over the input with zeros
    between the elements, with filters that are turned by 180 degrees. `out_pad` adds to the border
    of the result.
    """
    (_, _, _, channels), (outputs, *kernel, depth) = _rank(op, 0, 4), _rank(op, 1, 4)
    if channels != depth:
        raise op.wrong(f"weights of {depth} channels for {channels} channels")
    points = points_of(op, 3, CONVOLUTION)
    top, bottom, left, right = op.window("out_pad", 4, -(1 << 20))
    strides = op.window("stride", 2)
    low = [k - 1 + a for k, a in zip(kernel, (top, left), strict=True)]
    high = [k - 1 + b for k, b in zip(kernel, (bottom, right), strict=True)]
    if min(*low, *high) < 0:
        raise op.unsupported("out_pad that crops more than the window")
    emitter, weights = op.emitter, _weights(op, points[1])
    if isinstance(weights, Constant):
        weights = weights.reversed((1, 2))
    else:
        weights = emitter.reversed(emitter.reversed(weights, 1), 2)
    spread = emitter.padded(
        _input(op, points[0]),
        (0, *low, 0),
        (0, *high, 0),
        value=None if op.is_float else IntegerAttr(points[0], i64),
        interior=(0, strides[0] - 1, strides[1] - 1, 0),
    )
    bias = _bias(op, outputs)
    return Layer(op, emitter.materialize(spread), weights, bias, points).value()


@operation("fully_connected")
def fully_connected(op: Operation) -> Value:
    """Import fully_connected of older MLIR: a matrix product with weights [O, I]."""
    (_, channels), (outputs, depth) = _rank(op, 0, 2), _rank(op, 1, 2)
    if channels != depth:
        raise op.wrong(f"weights of {depth} columns for {channels} columns")
    points = points_of(op, 3, CONVOLUTION)
    x, weights = _input(op, points[0]), _weights(op, points[1])
    return Layer(op, x, weights, _bias(op, outputs), points).value()


@operation("matmul")
def matmul(op: Operation) -> Value:
    """Import matmul: the products of matrices [N, H, C] and [N, C, W]."""
    (n, rows, depth), (batch, inner, columns) = _rank(op, 0, 3), _rank(op, 1, 3)
    if n != batch or depth != inner:
        names, shapes = op.op.operands, [list(op.shape(i)) for i in range(2)]
        raise op.wrong(
            f"{names[0]} of shape {shapes[0]} times {names[1]} of shape {shapes[1]}, expected "
            "[N, H, C] and [N, C, W]"
        )
    emitter = op.emitter
    if op.is_float:
        a, b = op.real(0), op.real(1)
        if n > 1:
            return batched_product(emitter, a, b)
        flat = emitter.reshaped(a, (rows, depth))
        turned = emitter.transposed(emitter.reshaped(b, (depth, columns)), (1, 0))
        return emitter.reshaped(emitter.product(flat, turned), (1, rows, columns))
    if n > MAX_BATCH:
        raise op.unsupported(f"a batch of {n} products, expected at most {MAX_BATCH}: split it")
    points = points_of(op, 2, ("a_zp", "b_zp"))
    a, b = op.stored(0, points[0]), op.value(1)
    right: EmittedValue = b if isinstance(b, Constant) else op.stored(1, points[1])
    if op.element(1) not in ("i8", "i16"):
        raise op.unsupported(f"matrices of {op.element(1)}; use i8")
    right = emitter.transposed(right, (0, 2, 1))
    layers = [
        Layer(
            op,
            emitter.materialize(emitter.slice_at(a, i)),
            emitter.slice_at(right, i),
            None,
            points,
        )
        for i in range(n)
    ]

    def emit(requant: RequantAttr, element: UniformType) -> SSAValue:
        parts = [
            emitter.reshaped(layer.emit(requant, element), (1, rows, columns)) for layer in layers
        ]
        return emitter.materialize(emitter.joined(parts, 0))

    return Sums((n, rows, columns), named(op, emit), op.result.element == "i48")
