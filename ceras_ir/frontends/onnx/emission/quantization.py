"""
Convert scales and zero points of the model to `!quant.uniform` types, and create values of them.

A quantized activation is an IR value of such a type. Inputs of the model are plain integers at
first. The first DequantizeLinear that uses an input determines the type, which is then set on the
input and on all reshapes and transposes in between.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import DequantizeOp, QuantizeOp, ReshapeOp, TransposeOp, element_of
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.values import (
    Constant,
    QuantizedConstant,
    Value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.model_file import PACKED_TYPES, Array
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.network import integer
from ceras_ir.network.storage import HALF_EVEN

QUANTIZED_DTYPES = ("int8", "uint8", "int16", "uint16", "int32")
"""Integer types that may store quantized values."""


def storage_of(node: Node, name: str, *, narrow: bool = False) -> IntegerType:
    """
    Return the integer type with the numpy name `name`, such as `int8`. A type in which quantized
    values cannot be stored is an error of `node`; with `narrow`, they may have less than 8 bits.
    """
    if name not in QUANTIZED_DTYPES and not (narrow and name in PACKED_TYPES.values()):
        raise node.unsupported(
            f"values are stored as {name}, expected {', '.join(QUANTIZED_DTYPES)}: quantize to int8"
        )
    signedness = Signedness.UNSIGNED if name.startswith("u") else Signedness.SIGNLESS
    return IntegerType(int(name.lstrip("uint")), signedness)


def stored_type(emitter: Emitter, value: Value) -> str:
    """
    Return the numpy name of the integer type in which the model stores `value`, such as `uint8`.
    """
    if isinstance(value, Constant):
        return value.dtype.name
    element = element_of(value)
    if isinstance(element, UniformType) and element.width < BYTE_BITS:
        return f"{'' if element.is_signed else 'u'}int{element.width}"
    if not isinstance(element, UniformType) and not is_integer(element):
        raise emitter.node.wrong(f"integers expected, got {element}")
    return graph.numpy_dtype(element).name


def uniform_type(
    emitter: Emitter,
    storage: str,
    scale: Array,
    zero_point: Array | None,
    shape: Sequence[int],
    axis: int,
    *,
    narrow: bool = False,
) -> UniformType:
    """
    Return the quantized type with integers of `storage` for a tensor of `shape`. A single scale and
    zero point make it per-tensor, otherwise it is per-channel along `axis`.
    """
    node = emitter.node
    scales = scale.astype(np.float64).reshape(-1)
    if not np.issubdtype(scale.dtype, np.floating):
        raise node.wrong(f"the scale must be float, got {scale.dtype}")
    if invalid := [s for s in scales.tolist() if not 0.0 < s < float("inf")]:
        raise node.wrong(
            f"the scale must be positive and finite, got {invalid[0]}: quantize the float model "
            "with --calibrate, or export it with a mask of finite numbers"
        )
    points = np.zeros(scales.size, np.int64)
    if zero_point is not None:
        if zero_point.dtype.name != storage:
            raise node.wrong(f"the zero point is {zero_point.dtype.name}, expected {storage}")
        if zero_point.size != scales.size:
            raise node.wrong(f"{zero_point.size} zero points, expected {scales.size}")
        points = zero_point.reshape(-1)
    kind = storage_of(node, storage, narrow=narrow)
    if scales.size == 1:
        return UniformType(float(scales[0]), int(points[0]), storage=kind)
    if scale.ndim > 1:
        raise node.wrong(f"one scale or a vector of scales expected, got {list(scale.shape)}")
    axis = node.axis(axis, len(shape))
    if shape[axis] != scales.size:
        raise node.wrong(f"{scales.size} scales, expected {shape[axis]} for dimension {axis}")
    return UniformType(scales.tolist(), points.tolist(), storage=kind, axis=axis)


def keep_ties(op: QuantizeOp) -> QuantizeOp:
    """
    Let integer operations round ties to even, too. By default, layers and shifts round half up, as
    in networks that this compiler exports.
    """
    op.attributes[HALF_EVEN] = UnitAttr()
    return op


def quantized(emitter: Emitter, value: Value, element: UniformType, name: str) -> Value:
    """
    Quantize `value` to the type `element`. A constant is quantized at import, and gets the name
    `name`.
    """
    if not isinstance(value, Constant):
        op = QuantizeOp(value, element)
        return emitter.emit(op if element.width >= BYTE_BITS else keep_ties(op))
    if value.dtype != np.float32:
        raise emitter.node.wrong(f"floats expected, got {value.dtype}")
    return Constant.of(name, integer.quantize(value.load().astype(np.float32), element))


def dequantized(emitter: Emitter, value: Value, element: UniformType) -> Value:
    """
    Return the real values of the integers `value`. The type `element` has the scale and the zero
    point. An input of plain integers gets this type.
    """
    if isinstance(value, Constant):
        if value.width is not None:
            element = _narrowed(element, value.width)
        dtype = graph.numpy_dtype(element)
        made = QuantizedConstant.make(
            value.name, value.shape, lambda: value.load().astype(dtype, copy=False), element
        )
        if value.key is not None:
            return replace(made, key=(*value.key, element))
        # Subgraphs can have tensors of equal names, and values that differ in each iteration.
        return replace(made, key=None) if emitter.scope else made
    if isinstance(element_of(value), IntegerType):
        value = _retyped(emitter, value, element)
    if (known := element_of(value)) == element:
        return emitter.emit(DequantizeOp(_in_fewer_bits(emitter, value)))
    if (
        not isinstance(known, UniformType)
        or known.storage != element.storage
        or known.is_per_axis
        or element.is_per_axis
    ):
        raise emitter.node.unsupported(
            f"'{value.name_hint or 'the operand'}' was quantized as {known} and is dequantized as "
            f"{element}; use a single integer type, and a single scale for all channels"
        )
    # Equal integers represent other real values.
    real: Value = emitter.emit(DequantizeOp(value))
    if (factor := element.scale / known.scale) != 1:
        real = emitter.mul(real, emitter.number(factor))
    if moved := (known.zero_point - element.zero_point) * element.scale:
        real = emitter.add(real, emitter.number(moved))
    return real


def real_numbers(
    emitter: Emitter, value: Value, scale: Array, zero_point: Array | None, axis: int
) -> Value:
    """
    Return the real values of the integers `value`: `scale * (integer - zero point)`, with a single
    scale, or with a scale for each index of `axis`.

    A constant may have scales of 0, which quantizers write for filters that are 0 throughout.
    """
    if isinstance(value, Constant) and not np.all(scale):
        value, scale = _without_zero_scales(value, scale, zero_point, axis)
    storage, shape = stored_type(emitter, value), shape_of_value(value)
    element = uniform_type(emitter, storage, scale, zero_point, shape, axis, narrow=True)
    return dequantized(emitter, value, element)


def _without_zero_scales(
    value: Constant, scale: Array, zero_point: Array | None, axis: int
) -> tuple[Constant, Array]:
    """
    Replace scales of 0 by the largest scale, and the integers of these channels by the zero point,
    so that their real values remain 0.
    """
    integers = value.load()
    points = np.zeros(scale.shape, integers.dtype) if zero_point is None else zero_point
    extents = [1] * integers.ndim
    if scale.size > 1 and -integers.ndim <= axis < integers.ndim:
        extents[axis] = scale.size
    fits = all(n in (1, extent) for n, extent in zip(extents, integers.shape, strict=True))
    if prod(extents) != scale.size or points.size != scale.size or not fits:
        return value, scale  # The caller reports it.
    is_zero = (scale == 0).reshape(extents)
    filled = np.where(is_zero, points.reshape(extents), integers).astype(integers.dtype)
    largest = scale.max() if scale.any() else 1
    kept = replace(Constant.of(value.name, filled), width=value.width)
    return kept, np.where(scale == 0, largest, scale).astype(scale.dtype)


def _narrowed(element: UniformType, width: int) -> UniformType:
    """Return `element` with integers of `width` bits, if these include the zero points."""
    narrow = UniformType(1.0, storage=IntegerType(width, element.storage.signedness.data))
    fits = all(narrow.low <= point.data <= narrow.high for point in element.zero_points)
    return element.widened(width) if fits else element


def width_of_bounds(node: Node, operands: Sequence[Array | None]) -> int | None:
    """
    Return the fewest bits that hold the bounds of a Clip of constant bytes, as Brevitas writes
    narrow weights. Return `None` for other nodes, or if a bound is missing.
    """
    if node.operator != "Clip" or len(operands) != 3:
        return None
    value, *bounds = operands
    if value is None or value.dtype.name not in ("int8", "uint8"):
        return None
    ends = [int(b.reshape(-1)[0]) for b in bounds if b is not None and b.size]
    if len(ends) < 2:
        return None
    width = _bits_of_bounds(ends, is_signed=value.dtype.kind == "i")
    return width if width < BYTE_BITS else None


def clipped(emitter: Emitter, value: Value, low: float, high: float) -> Value:
    """
    Clamp the stored integers of quantized values to [low, high]; `high` has precedence.

    The operand of QuantizeLinear is clamped instead, so that a layer can have the bounds in the
    output stage. This is exact: rounding is monotonic, and bounds of at most 16 bits are stored
    exactly. Other values are dequantized and quantized again, which does not change the integers.
    """
    value = emitter.materialize(value)
    element = graph.stored_element(value)
    if element.width > 16:
        raise emitter.node.unsupported(f"bounds of {element}; clip before QuantizeLinear")
    low, high = max(min(low, high), element.low), min(high, element.high)
    if (low, high) == (element.low, element.high):
        return value
    rank = len(graph.shape_of(value))
    scale, point = integer.scales(element, rank), integer.zero_points(element, rank)
    lower, upper = ((end - point).astype(np.float32) * scale for end in (low, high))
    owner = value.owner
    real = owner.input if isinstance(owner, QuantizeOp) else emitter.emit(DequantizeOp(value))

    def again(real: SSAValue) -> SSAValue:
        if isinstance(owner, QuantizeOp):
            return emitter.emit(owner.rebuilt([real]))
        return emitter.emit(QuantizeOp(real, element))

    if element.is_per_axis:
        real = emitter.binary(graph.Binary.MAX, real, emitter.constant(lower, "lower"))
        real = emitter.binary(graph.Binary.MIN, real, emitter.constant(upper, "upper"))
        return again(real)
    least = -np.inf if low == element.low else float(lower)
    most = np.inf if high == element.high else float(upper)
    before = real
    if (least, most) == (0.0, np.inf):
        real = emitter.unary(graph.Function.RELU, real)
    else:
        real = emitter.unary(graph.Function.CLIP, real, least, most)
    stored = again(real)
    emitter.integer_bounds[stored] = int(low), int(high), before
    return stored


def _in_fewer_bits(emitter: Emitter, value: SSAValue) -> SSAValue:
    """
    Return the integers `value` stored in the fewest bits that hold the bounds of a Clip of
    integers, as Brevitas writes narrow activations. Other values are returned unchanged.
    """
    element, owner = graph.stored_element(value), value.owner
    if value not in emitter.integer_bounds or element.width != BYTE_BITS:
        return value
    assert isinstance(owner, QuantizeOp)
    low, high, before = emitter.integer_bounds[value]
    narrow = _narrowed(element, _bits_of_bounds((low, high), is_signed=element.is_signed))
    if narrow.width == BYTE_BITS:
        return value
    real = before if (low, high) == (narrow.low, narrow.high) else owner.input
    return emitter.emit(keep_ties(owner.rebuilt([real], element=narrow)))


def _bits_of_bounds(bounds: Sequence[int], *, is_signed: bool) -> int:
    """Return the fewest bits of integers that hold all `bounds`; signed integers have 2 or more."""
    bits = max((bound ^ (bound >> BYTE_BITS)).bit_length() for bound in bounds)
    return max(bits + is_signed, 1 + is_signed)


def is_quantized(value: Value) -> bool:
    """Return whether `value` is a computed value of a quantized type."""
    return isinstance(value, SSAValue) and isinstance(element_of(value), UniformType)


def is_computed_integer(value: Value) -> bool:
    """
    Return whether `value` is a plain integer that is computed, or an input that operations other
    than reshapes and transposes use. Such a value cannot get a quantized type.
    """
    if not isinstance(value, SSAValue) or not isinstance(element_of(value), IntegerType):
        return False
    chain = _moved(value)
    return isinstance(chain[-1].owner, Operation) or any(
        not isinstance(use.operation, ReshapeOp | TransposeOp) for v in chain for use in v.uses
    )


def _moved(value: SSAValue) -> list[SSAValue]:
    chain = [value]
    while isinstance(owner := chain[-1].owner, ReshapeOp | TransposeOp):
        chain.append(owner.input)
    return chain


def _retyped(emitter: Emitter, value: SSAValue, element: UniformType) -> SSAValue:
    """
    Set the quantized type `element` on `value` and on the graph input of which it is a reshape or
    transpose. Return the value with the new type.
    """
    chain = _moved(value)
    if element.is_per_axis and len(chain) > 1:
        raise emitter.node.unsupported("per-channel scales of a transposed input; use one scale")
    if is_computed_integer(value):
        raise emitter.node.unsupported("dequantized integers are computed; convert them by Cast")
    renamed: dict[SSAValue, SSAValue] = {}
    for link in chain:
        kind = TensorType(element, graph.shape_of(link))
        renamed[link] = Rewriter.replace_value_with_new_type(link, kind)
    emitter.values |= {
        name: renamed[known]
        for name, known in emitter.values.items()
        if isinstance(known, SSAValue) and known in renamed
    }
    return renamed[value]
