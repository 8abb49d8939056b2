"""
Import the quantizers of QONNX: Quant, BipolarQuant, Trunc and MultiThreshold, for 1 to 32 bits.

Their results are real values. Constants and computed values of at most 8 bits are stored in
integers of the declared bits. Computed values of more bits are stored in 16, and a clamp before
`graph.quantize` limits them to the bits of the node.

The documentation of QONNX (docs/qonnx-custom-ops in its repository) defines the operators.
"""

from collections.abc import Callable, Mapping
from math import inf, log2

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, Signedness

from ceras_ir.dialects.graph import Function, QuantizeOp, ThresholdOp, numpy_dtype
from ceras_ir.dialects.quant import BYTE_BITS, Rounding, UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.quantization import clipped, dequantized, keep_ties
from ceras_ir.frontends.onnx.emission.registry import constant_operands, operator
from ceras_ir.frontends.onnx.emission.values import Constant, Value
from ceras_ir.frontends.onnx.model.model_file import Array
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.network.integer import round_float, scales, zero_points

DOMAINS = ("qonnx.custom_op.general", "finn.custom_op.general", "onnx.brevitas")
"""The domains of the operators; Brevitas and FINN wrote the last two in earlier versions."""


QUANT, BIPOLAR, TRUNC, THRESHOLD = (
    tuple(f"{domain}::{kind}" for domain in DOMAINS for kind in kinds)
    for kinds in (("Quant", "IntQuant"), ("BipolarQuant",), ("Trunc",), ("MultiThreshold",))
)

MAX_BITS = 32
MAX_COMPUTED_BITS = 16
"""The maximum bits of computed integers, whose bounds must be exact in float32."""

constant_operands(
    dict.fromkeys(QUANT, range(1, 4))
    | dict.fromkeys(BIPOLAR, (1,))
    | dict.fromkeys(TRUNC, range(1, 6)),
    "scales, zero points and bit widths must be constants",
    "export the network with fixed scales",
)
constant_operands(
    dict.fromkeys(THRESHOLD, (1,)), "thresholds must be constants", "make them an initializer"
)


def _half_away(x: NDArray[np.floating]) -> NDArray[np.floating]:
    return round_float(x, Rounding.HALF_AWAY)


def _half_down(x: NDArray[np.floating]) -> NDArray[np.floating]:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) > 0.5, whole + np.sign(x), whole)


def _up(x: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.copysign(np.ceil(np.abs(x)), x)


ROUNDINGS: Mapping[str, Callable[[NDArray[np.floating]], NDArray[np.floating]]] = {
    "ROUND": np.rint,
    "HALF_EVEN": np.rint,
    "HALF_UP": _half_away,
    "HALF_DOWN": _half_down,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": _up,
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
}
"""The rounding modes. UP and HALF_UP are away from zero, DOWN and HALF_DOWN toward zero."""

FUNCTIONS: Mapping[str, Function] = {
    "ROUND": Function.ROUND,
    "HALF_EVEN": Function.ROUND,
    "CEIL": Function.CEIL,
    "FLOOR": Function.FLOOR,
}
"""The rounding modes that are functions of computed values."""


@operator(*QUANT)
def quant(node: Node, emitter: Emitter) -> Value:
    """
    Import Quant: `scale * (round(clamp(x / scale + zero_point)) - zero_point)`, with the bounds of
    integers of the given bits. A computed value is rounded before the zero point is added.
    """
    value = emitter.value(0)
    bits = _bits(node, emitter, 3)
    element, bounds = _levels(node, emitter, bits, emitter.floats(1), emitter.floats(2))
    mode = _mode(node, "ROUND")
    if isinstance(value, Constant):
        rank = len(value.shape)
        with np.errstate(over="ignore"):
            steps = emitter.floats(0) / scales(element, rank) + zero_points(element, rank)
        integers = ROUNDINGS[mode](np.clip(steps.astype(np.float32), *bounds).astype(np.float64))
        return _constant(node, emitter, integers, element)
    if mode == "HALF_UP" and not any(p.data for p in element.zero_points):
        return _computed(emitter, value, element, bounds, Rounding.HALF_AWAY)
    function = _function(node, mode)
    if function is not Function.ROUND:
        scale = emitter.constant(scales(element, len(emitter.shape(0))), "scales")
        value = emitter.mul(emitter.unary(function, emitter.div(value, scale)), scale)
    return _computed(emitter, value, element, bounds)


@operator(*BIPOLAR)
def bipolar_quant(node: Node, emitter: Emitter) -> Value:
    """
    Import BipolarQuant: `scale` if `x >= 0`, else `-scale`, which are the integers -1 and 1 of i1.
    """
    value, zero = emitter.value(0), np.zeros((), np.float32)
    element = _element(node, emitter.shape(0), emitter.floats(1), zero, IntegerType(1))
    if isinstance(value, Constant):
        signs = np.where(emitter.floats(0) >= 0, 1, -1)
        return _constant(node, emitter, signs, element)
    return _computed(emitter, value, element, (-1, 1))


@operator(*TRUNC)
def trunc(node: Node, emitter: Emitter) -> Value:
    """
    Import Trunc: round `x / scale + zero_point` to an integer q, divide q by a power of two, and
    round by the mode of the node.

    With an output scale (version 2 of the operator), the divisor is its ratio to the scale, and the
    integers are clamped to the output bits. Without, the divisor is 2 to the power of the bits that
    are removed, the result has the scale and zero point of the operand, and values that exceed the
    input bits saturate.
    """
    scale, point = emitter.floats(1), emitter.floats(2)
    if scale.size != 1 or point.size != 1:
        raise node.unsupported("Trunc with scales per channel: use one scale")
    before, ratio = float(scale.item()), 1.0
    given, has_scale = _bits(node, emitter, 3), len(node.inputs) > 5
    bits = _bits(node, emitter, 5 if has_scale else 4)
    mode = _function(node, _mode(node, "FLOOR"))
    if has_scale:
        after = emitter.floats(4)
        if after.size != 1 or not min(before, float(after.item())) > 0:
            raise node.wrong("the scales must be positive, and one output scale is expected")
        ratio = 2.0 ** np.round(log2(float(after.item()) / before))
        element, bounds = _levels(node, emitter, bits, after, point / np.float32(ratio))
    else:
        if bits > given:
            raise node.wrong(f"{bits} output bits, expected at most the {given} input bits")
        if bits >= MAX_COMPUTED_BITS:
            raise node.unsupported(f"{bits} output bits, expected less than {MAX_COMPUTED_BITS}")
        ratio = 2.0 ** (given - bits)
        storage = IntegerType(BYTE_BITS if bits < BYTE_BITS else MAX_COMPUTED_BITS)
        element = _element(node, emitter.shape(0), scale, point, storage)
        bounds = element.low, element.high
    steps = emitter.unary(Function.ROUND, emitter.div(emitter.value(0), emitter.number(before)))
    if point.item():
        steps = emitter.add(steps, emitter.number(float(point.item())))
    steps = emitter.unary(mode, emitter.mul(steps, emitter.number(1 / ratio)))
    if element.zero_point:
        steps = emitter.sub(steps, emitter.number(element.zero_point))
    return _computed(emitter, emitter.mul(steps, emitter.number(element.scale)), element, bounds)


@operator(*THRESHOLD)
def multi_threshold(node: Node, emitter: Emitter) -> Value:
    """
    Import MultiThreshold: `out_bias + out_scale * (number of thresholds of the channel that x
    reaches)`. If `out_bias` is not a multiple of `out_scale`, it is added to the dequantized count.
    """
    node.ignore("out_dtype")  # It follows from the number of thresholds.
    shape, limits = emitter.shape(0), np.sort(emitter.floats(1), axis=-1)
    default = {2: "NC", 3: "NWC", 4: "NCHW"}.get(len(shape), "")
    axis = (node.string("data_layout", "") or default).find("C")
    axis = 1 if axis < 0 else axis
    if limits.ndim != 2 or axis >= len(shape) or limits.shape[0] not in (1, shape[axis]):
        given = f"thresholds of shape {list(limits.shape)}"
        raise node.wrong(f"{given}, expected a row, or a row for each channel of {list(shape)}")
    if not 1 <= limits.shape[1] < 1 << MAX_COMPUTED_BITS - 1 or np.isnan(limits).any():
        raise node.wrong("from 1 to 32767 thresholds that are numbers are expected for a channel")
    scale, bias = node.number("out_scale", 1.0), node.number("out_bias", 0.0)
    if not scale:
        raise node.wrong("attribute 'out_scale' must not be 0")
    count, sign = limits.shape[1], 1 if scale > 0 else -1
    if count == 1 and bias == -scale / 2:
        element, offset, step = UniformType(abs(bias), storage=IntegerType(1)), -sign, 2 * sign
    else:
        quotient = bias / abs(scale)
        offset, step = (int(quotient) if quotient == int(quotient) else 0), sign
        element = UniformType(abs(scale), storage=_storage_of(offset, offset + step * count))
    order = [i for i in range(len(shape)) if i != axis] + [axis]
    moves = limits.shape[0] > 1
    value = emitter.transposed(emitter.value(0), order) if moves else emitter.value(0)
    thresholds = emitter.materialize(emitter.constant(limits.T, "thresholds"))
    op = ThresholdOp(emitter.materialize(value), thresholds, element, [offset], [step])
    stored: Value = emitter.emit(op)
    if moves:
        stored = emitter.transposed(stored, [order.index(i) for i in range(len(shape))])
    real = dequantized(emitter, stored, element)
    rest = bias - (-scale / 2 if element.is_bipolar else offset * abs(scale))
    return emitter.add(real, emitter.number(rest)) if rest else real


def _storage_of(*ends: int) -> IntegerType:
    """
    Return the type with the fewest bits that stores all integers between `ends`; 16 above 8 bits.
    """
    kinds = (
        IntegerType(bits, sign)
        for bits in (*range(1, BYTE_BITS + 1), MAX_COMPUTED_BITS, MAX_BITS)
        for sign in (Signedness.UNSIGNED, Signedness.SIGNLESS)
        if bits > 1 or sign is Signedness.UNSIGNED
    )
    limits = ((kind, UniformType(1.0, storage=kind)) for kind in kinds)
    return next(k for k, e in limits if e.low <= min(ends) and max(ends) <= e.high)


def _bits(node: Node, emitter: Emitter, index: int) -> int:
    """Return the bit width in operand `index`, an integer that may be a float."""
    numbers = np.unique(emitter.array(index))
    if numbers.size > 1:
        raise node.unsupported("several bit widths; quantize all channels with one bit width")
    if numbers.size == 0 or numbers.dtype.kind not in "iuf":
        raise node.wrong(f"operand {index} must be a bit width")
    if not (1 <= numbers[0] <= MAX_BITS and numbers[0] == int(numbers[0])):
        raise node.wrong(f"the bit width must be an integer in [1, {MAX_BITS}], got {numbers[0]}")
    return int(numbers[0])


def _mode(node: Node, default: str) -> str:
    mode = node.string("rounding_mode", default).upper()
    if mode not in ROUNDINGS:
        raise node.wrong(f"attribute 'rounding_mode' must be {', '.join(ROUNDINGS)}, got {mode}")
    return mode


def _function(node: Node, mode: str) -> Function:
    if mode in FUNCTIONS:
        return FUNCTIONS[mode]
    raise node.unsupported(
        f"rounding mode {mode} of a computed value; quantize with {', '.join(FUNCTIONS)}, or "
        "HALF_UP without a zero point"
    )


def _levels(
    node: Node, emitter: Emitter, bits: int, scale: Array, point: Array
) -> tuple[UniformType, tuple[int, int]]:
    """
    Return the type that stores operand 0 in integers of `bits` bits, and the lowest and the highest
    integer by the attributes `signed` and `narrow`.
    """
    signed, narrow = node.flag("signed", True), node.flag("narrow")
    most, is_constant = MAX_COMPUTED_BITS, isinstance(emitter.value(0), Constant)
    if signed and is_constant:
        most = MAX_BITS
    if bits > most:
        kind = "computed" if not is_constant else "unsigned"
        raise node.unsupported(f"{bits} bits of {kind} integers: quantize to at most {most}")
    if signed and bits == 1:
        raise node.unsupported("1 bit with a sign; quantize with BipolarQuant, or to 2 bits")
    if signed:
        bounds = int(narrow) - (1 << bits - 1), (1 << bits - 1) - 1
    else:
        bounds = 0, (1 << bits) - 1 - int(narrow)
    stored = bits
    if bits > BYTE_BITS:
        stored = next(w for w in (MAX_COMPUTED_BITS, MAX_BITS) if bits <= w)
    sign = Signedness.SIGNLESS if signed else Signedness.UNSIGNED
    element = _element(node, emitter.shape(0), scale, point, IntegerType(stored, sign))
    return element, bounds


def _element(
    node: Node, shape: tuple[int, ...], scale: Array, point: Array, storage: IntegerType
) -> UniformType:
    """
    Return the type with integers of `storage` for a tensor of `shape`, to which scales and zero
    points broadcast. If they differ, they must do so along a single dimension.
    """
    spread: list[Array] = []
    for name, array in (("scale", scale), ("zero point", point)):
        padded = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
        fits = len(shape) == padded.ndim and all(
            extent in (1, own) for extent, own in zip(padded.shape, shape, strict=True)
        )
        if not array.size or not (fits or array.size == 1):
            given = f"a {name} of shape {list(array.shape)}"
            raise node.wrong(f"{given} does not broadcast to {list(shape)}")
        # Equal scales of all channels are a single scale, which more operations support.
        is_single = bool((array == array.flat[0]).all())
        spread.append(array.reshape(-1)[:1] if is_single else padded)
    factors, points = (a.astype(np.float64).reshape(-1) for a in spread)
    if wrong := [s for s in factors.tolist() if not 0 < s < inf]:
        raise node.wrong(f"the scale must be positive and finite, got {wrong[0]:g}")
    if wrong := [p for p in points.tolist() if p != np.rint(p)]:
        raise node.unsupported(f"zero point {wrong[0]:g}: quantize with an integer zero point")
    axes = {i for a in spread for i, extent in enumerate(a.shape) if a.size > 1 and extent > 1}
    if len(axes) > 1:
        raise node.unsupported(
            f"scales along dimensions {sorted(axes)}: use one scale, or one for each channel"
        )
    axis = min(axes, default=None)
    extent = 1 if axis is None else shape[axis]
    limits = UniformType(1.0, storage=storage)
    if wrong := [p for p in points.tolist() if not limits.low <= p <= limits.high]:
        allowed = f"[{limits.low}, {limits.high}]"
        raise node.wrong(f"the zero point must be in {allowed}, got {wrong[0]:g}")
    lists = (np.broadcast_to(a, (extent,)) for a in (factors, points.astype(np.int64)))
    return UniformType(*(a.tolist() for a in lists), storage=storage, axis=axis)


def _constant(node: Node, emitter: Emitter, integers: Array, element: UniformType) -> Value:
    stored = Constant.of(node.outputs[0], integers.astype(numpy_dtype(element)))
    return dequantized(emitter, stored, element)


def _computed(
    emitter: Emitter,
    value: Value,
    element: UniformType,
    bounds: tuple[int, int],
    rounding: Rounding = Rounding.HALF_EVEN,
) -> Value:
    """Quantize and dequantize `value`, with integers that are clamped to `bounds`."""
    op = QuantizeOp(emitter.materialize(value), element, rounding)
    stored = emitter.emit(keep_ties(op) if rounding is Rounding.HALF_EVEN else op)
    return dequantized(emitter, clipped(emitter, stored, *bounds), element)
