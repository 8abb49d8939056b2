"""Import reductions, extremes, comparisons, selection, and other operators that ONNX has too."""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import ConstantOp, Reduce
from ceras_ir.dialects.graph.constant import plain_element
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.frontends.onnx.emission.values import Value, name_loc, shape_of_value
from ceras_ir.frontends.tflite.fixed_point import quantized_multiplier
from ceras_ir.frontends.tflite.operation import Operation, implied_scales, operator
from ceras_ir.frontends.tflite.operators.arithmetic import numbers
from ceras_ir.frontends.tflite.operators.movement import moved

REDUCTIONS = {"SUM": Reduce.SUM, "REDUCE_MAX": Reduce.MAX, "REDUCE_MIN": Reduce.MIN}


def _axes(op: Operation) -> list[int]:
    rank = len(op.shape(0))
    return sorted({op.axis(a, rank) for a in op.integers(1)})


def _without(op: Operation, value: Value, axes: Sequence[int]) -> Value:
    """
    Remove the dimensions `axes` of extent 1 from a reduced `value`, unless the option of the
    operator keeps them.
    """
    if op.operator.options.flag(0):
        return value
    shape = shape_of_value(value)
    return op.emitter.reshaped(value, [n for i, n in enumerate(shape) if i not in axes])


@operator("MEAN")
def mean(op: Operation) -> Value:
    """Import MEAN: the average along axes."""
    axes = _axes(op)
    if not op.is_quantized:
        return _without(op, op.emitter.mean(op.real(0), axes), axes)
    return _without(op, _quantized_sum(op, axes, averages=True), axes)


@operator(*REDUCTIONS, "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")
def reduce(op: Operation) -> Value:
    """Import SUM, REDUCE_MAX or another reduction along axes."""
    axes = _axes(op)
    if op.name in ("REDUCE_ANY", "REDUCE_ALL"):
        kind = Reduce.MAX if op.name == "REDUCE_ANY" else Reduce.MIN
        found = op.emitter.reduce(kind, op.emitter.cast(op.value(0)), axes)
        bits = op.emitter.cast(found, plain_element(np.dtype(np.bool_)) or f32)
        return _without(op, bits, axes)
    if op.name == "REDUCE_PROD":
        if op.is_quantized:
            raise op.unsupported("of integers; quantize the network without it")
        return _without(op, op.emitter.reduce(Reduce.PRODUCT, numbers(op, 0), axes), axes)
    if op.is_quantized and op.name == "SUM":
        return _without(op, _quantized_sum(op, axes, averages=False), axes)
    value = moved(op, 0) if op.is_quantized else numbers(op, 0)
    return _without(op, op.emitter.reduce(REDUCTIONS[op.name], value, axes), axes)


def _quantized_sum(op: Operation, axes: Sequence[int], *, averages: bool) -> SSAValue:
    """
    Emit the sum (or, with `averages`, the mean) of stored integers along `axes`, as the reference
    kernel of TensorFlow Lite computes it. A matrix product with weights of 1 computes the sum
    exactly; the multiplier of the requantization includes the division by the number of elements.
    """
    shape, source, target = op.shape(0), op.element(0), op.result_element
    count = prod(shape[a] for a in axes)
    kept = [i for i in range(len(shape)) if i not in axes]
    multiplier, shift = quantized_multiplier(source.scale / target.scale)
    if averages and count:
        more = min(count.bit_length() - 1, 32, 31 + shift)
        multiplier, shift = (multiplier << more) // count, shift - more
    right = 31 - shift
    if not count or not multiplier or not 1 <= right <= 62:
        raise op.unsupported(f"a sum of {count} elements at these scales")
    requant = RequantAttr(
        right,
        multiplier=multiplier,
        rounding=Rounding.DOUBLE_ROUND,
        zero_point=target.zero_point,
        low=target.low,
        high=target.high,
    )
    moved_value = op.emitter.transposed(op.tensor(0), [*kept, *axes])
    rows = op.emitter.materialize(
        op.emitter.reshaped(moved_value, (prod(shape[i] for i in kept), count))
    )
    (scale,) = implied_scales(op, requant)
    ones = ConstantOp.from_array(
        np.ones((1, count), np.int8), UniformType(scale), location=name_loc(op.output.name)
    )
    op.emitter.block.add_op(ones)
    product = op.emitter.emit(
        graph.MatmulOp(rows, ones.result, result_element=target, requant=requant)
    )
    result_shape = [1 if i in axes else n for i, n in enumerate(shape)]
    return op.emitter.materialize(op.emitter.reshaped(product, result_shape))


@operator("MAXIMUM", "MINIMUM")
def extreme(op: Operation) -> Value:
    """Import MAXIMUM or MINIMUM of two operands. Quantized operands are an error."""
    name = "Max" if op.name == "MAXIMUM" else "Min"
    if op.is_quantized:
        if not op.element(0) == op.element(1) == op.result_element:
            raise op.unsupported("operands of different scales; quantize them with one scale")
        a, b = op.tensor(0), op.tensor(1)
        is_less = op.emitter.compare(graph.Compare.LESS, a, b)
        return op.emitter.select(is_less, *((b, a) if name == "Max" else (a, b)))
    return op.one(name, [numbers(op, 0), numbers(op, 1)])


SAME_NAMES = {
    "EQUAL": "Equal", "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual", "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual", "LOGICAL_AND": "And", "LOGICAL_OR": "Or", "POW": "Pow",
    "SELECT": "Where", "SELECT_V2": "Where",
}  # fmt: skip


@operator(*SAME_NAMES, "NOT_EQUAL", "FLOOR_DIV", "FLOOR_MOD", "ADD_N")
def elementwise(op: Operation) -> Value:
    """
    Import an elementwise operator, such as a comparison, of floats, plain integers or booleans.
    """
    values = [numbers(op, i) for i in range(op.count)]
    if op.name == "NOT_EQUAL":
        return op.one("Not", [op.one("Equal", values)])
    if op.name == "FLOOR_MOD":
        is_float = op.input(0).kind == "float32"
        quotient = op.one("Floor", [op.one("Div", values)]) if is_float else None
        if quotient is None:
            return op.one("Mod", values)
        return op.one("Sub", [values[0], op.one("Mul", [quotient, values[1]])])
    if op.name == "FLOOR_DIV":
        if op.input(0).kind != "float32":
            raise op.unsupported("of integers; export it in float")
        return op.one("Floor", [op.one("Div", values)])
    if op.name == "ADD_N":
        return op.one("Sum", values)
    return op.one(SAME_NAMES[op.name], values)


@operator("CAST")
def cast(op: Operation) -> Value:
    """Import CAST: convert elements to the type of the result."""
    return op.emitter.cast(op.value(0), op.output.element)


@operator("ARG_MAX", "ARG_MIN")
def arg(op: Operation) -> Value:
    """Import ARG_MAX or ARG_MIN: the index of the first extreme element along an axis."""
    value, axes = moved(op, 0), op.integers(1)
    if len(axes) != 1:
        raise op.wrong("a single axis expected")
    axis = op.axis(axes[0], len(op.shape(0)))
    kind = Reduce.MAX if op.name == "ARG_MAX" else Reduce.MIN
    index = op.emitter.emit(graph.ArgOp(kind, op.emitter.materialize(value), axis))
    shape = [n for i, n in enumerate(op.shape(0)) if i != axis]
    return op.emitter.cast(op.emitter.reshaped(index, shape), op.output.element)


@operator("GATHER")
def gather(op: Operation) -> Value:
    """Import GATHER: the elements along an axis at the indices in operand 1."""
    options = op.operator.options
    if options.integer(1, "i"):
        raise op.unsupported("batch dimensions of the indices; convert the network without them")
    value = moved(op, 0)
    axis = op.axis(options.integer(0, "i"), len(shape_of_value(value)))
    return op.one("Gather", [value, op.value(1)], axis=axis)


@operator("CUMSUM")
def running_sum(op: Operation) -> Value:
    """Import CUMSUM: for each element, the sum of the elements up to it along an axis."""
    options = op.operator.options
    flags = {"exclusive": int(options.flag(0)), "reverse": int(options.flag(1))}
    return op.one("CumSum", [numbers(op, 0), op.value(1)], **flags)


@operator("FILL")
def fill(op: Operation) -> Value:
    """
    Import FILL: a tensor of a constant shape in which all elements have the same constant value.
    """
    shape = op.integers(0)
    number = op.array(1).reshape(-1)
    if number.size != 1 or prod(shape) > 1 << 24 or min(shape, default=1) < 1:
        raise op.unsupported(f"a tensor of shape {list(shape)}")
    return op.emitter.constant(np.full(shape, number[0]), "fill")


@operator("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(op: Operation) -> Value:
    """
    Import RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR: resample height and width to the size in
    operand 1.
    """
    from ceras_ir.dialects.graph import Coordinates, Nearest, Resize, ResizeOp

    shape, size = op.shape(0), op.integers(1)
    if len(shape) != 4 or len(size) != 2 or min(size) < 1 or min(shape) < 1:
        raise op.wrong(f"{list(shape)} resized to {list(size)}")
    linear = op.name == "RESIZE_BILINEAR"
    first = 2 if linear else 0
    aligned, half = (op.operator.options.flag(first + i) for i in range(2))
    if not linear:
        return _nearest(op, size, aligned=aligned, half=half)
    if op.is_quantized and op.input(0).kind == "uint8":
        raise op.unsupported("interpolation of uint8, which kernels compute in float; use int8")
    kind = Coordinates.ASYMMETRIC
    if aligned:
        kind = Coordinates.ALIGN_CORNERS
    elif half:
        kind = Coordinates.HALF_PIXEL
    scales = size[0] / shape[1], size[1] / shape[2]
    x = op.tensor(0) if op.is_quantized else op.emitter.materialize(op.real(0))
    return op.emitter.emit(
        ResizeOp(Resize.LINEAR, x, (size[0], size[1]), scales, kind, Nearest.FLOOR)
    )


def _nearest(op: Operation, size: Sequence[int], *, aligned: bool, half: bool) -> Value:
    value = moved(op, 0)
    for axis, (extent, new) in enumerate(zip(op.shape(0)[1:3], size, strict=True), 1):
        scale = np.float32(extent) / np.float32(new)
        if aligned and new > 1:
            scale = np.float32(extent - 1) / np.float32(new - 1)
        places = (np.arange(new, dtype=np.float32) + np.float32(0.5 if half else 0)) * scale
        rounded = np.floor(places + np.float32(0.5)) if aligned else np.floor(places)
        indices = np.clip(rounded.astype(np.int64), 0, extent - 1).tolist()
        value = op.emitter.gathered(value, axis, indices)
    return value
