"""Import functions of one argument; of int8, as tables with the integers of the kernels."""

from collections.abc import Callable, Sequence
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType, i8, i16
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.graph.lookup import FUNCTION
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.tflite.fixed_point import (
    applied,
    bytes_of,
    half_away,
    high_half,
    interpolated_words,
    multiplied,
    quantized_multiplier,
    reciprocal_root_multiplier,
    rounded,
    stored_in,
)
from ceras_ir.frontends.tflite.operation import (
    Operation,
    Stored,
    in_signed_bytes,
    operator,
    signed_type,
)
from ceras_ir.frontends.tflite.operators.arithmetic import numbers, squared_difference
from ceras_ir.network.integer import Integers

Reals = NDArray[np.float64]

ONNX_FUNCTIONS = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "ELU": "Elu", "EXP": "Exp", "FLOOR": "Floor",
    "LOG": "Log", "LOGICAL_NOT": "Not", "LOGISTIC": "Sigmoid", "NEG": "Neg", "RELU": "Relu",
    "ROUND": "Round", "SIGN": "Sign", "SIN": "Sin", "SQRT": "Sqrt", "TANH": "Tanh",
}  # fmt: skip

TABLES: dict[str, tuple[Callable[[Reals], Reals], Function, tuple[float, ...]]] = {
    "LOGISTIC": (lambda x: 1 / (1 + np.exp(-x)), Function.SIGMOID, ()),
    "TANH": (np.tanh, Function.TANH, ()),
    "ELU": (lambda x: np.where(x < 0, np.expm1(x), x), Function.ELU, (1.0,)),
    "EXP": (np.exp, Function.EXP, ()),
    "LOG": (np.log, Function.LOG, ()),
}
"""The functions that the kernels tabulate in single precision, and their names."""

INTERPOLATED = {"LOGISTIC": Function.SIGMOID, "TANH": Function.TANH}
"""The functions that the kernels of int16 interpolate."""


@operator(*ONNX_FUNCTIONS)
def function(op: Operation) -> Value:
    """
    Import a function of one argument that is an ONNX operator too. For quantized values it becomes
    a lookup table.
    """
    if op.is_quantized and op.name in INTERPOLATED and op.input(0).kind == "int16":
        return _interpolated(op)
    if op.is_quantized and op.name in TABLES:
        real, kind, parameters = TABLES[op.name]
        return looked_up(op, _tabulated(op, real), kind, *parameters)
    if op.is_quantized and op.name == "RELU":
        return _rectified(op, 0.0, None)
    if op.is_quantized and op.name == "ABS":
        return looked_up(op, _absolute(op), Function.ABS)
    if op.is_quantized:
        raise op.unsupported("of integers; quantize the network without it")
    return op.one(ONNX_FUNCTIONS[op.name], [numbers(op, 0)])


def _interpolated(op: Operation) -> SSAValue:
    if op.result_element != UniformType(2.0**-15, storage=i16) or op.element(0).zero_point:
        raise op.unsupported("of int16 to another scale than 1/32768, or with a zero point")
    kind = INTERPOLATED[op.name]
    entries = interpolated_words(op.element(0).scale, is_tanh=kind is Function.TANH)
    return _words(op, entries, kind)


def looked_up(
    op: Operation, entries: Integers, function: Function | None = None, *parameters: float
) -> SSAValue:
    """
    Emit a lookup table of an 8-bit operand. `entries` are the stored results for all stored
    operands. Targets that need not match the integers of the kernels compute `function` of the real
    value.
    """
    return in_signed_bytes(op, lambda x: _table(op, x, entries, (), function, parameters))


def _table(
    op: Operation,
    x: SSAValue,
    entries: Integers,
    rows: Sequence[int] = (),
    function: Function | None = None,
    parameters: Sequence[float] = (),
) -> SSAValue:
    """
    Emit a lookup in `entries` for signed bytes `x`. If there are several tables, `rows` has the
    index of the table of each channel.
    """
    stored = (entries - (op.result_element.low + 128)).astype(np.int8)
    table = DenseIntOrFPElementsAttr.from_list(
        TensorType(i8, stored.shape), stored.reshape(-1).tolist()
    )
    lookup = graph.LookupOp(x, table, signed_type(op.result_element), rows or None)
    return _named(op, lookup, function, parameters)


def _named(
    op: Operation,
    lookup: graph.LookupOp,
    function: Function | None,
    parameters: Sequence[float],
) -> SSAValue:
    if function is not None:
        lookup.attributes[FUNCTION] = FunctionAttr(function, parameters)
    return op.emitter.emit(lookup)


def _tabulated(op: Operation, real: Callable[[Reals], Reals]) -> Integers:
    source, target = op.element(0), op.result_element
    x = np.float32(source.scale) * bytes_of(source).astype(np.float32)
    with np.errstate(all="ignore"):
        y = real(x.astype(np.float64)).astype(np.float32)
        scaled = y * (np.float32(1) / np.float32(target.scale))
    bounded = np.clip(np.nan_to_num(scaled.astype(np.float64)), -(2.0**31), 2.0**31 - 1)
    steps = np.sign(bounded) * np.floor(np.abs(bounded) + 0.5)
    return stored_in(steps.astype(np.int64), target)


def _absolute(op: Operation) -> Integers:
    source, target = op.element(0), op.result_element
    return stored_in(multiplied(np.abs(bytes_of(source)), source.scale / target.scale), target)


@operator("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def clip(op: Operation) -> Value:
    """Import RELU6, RELU_N1_TO_1 or RELU_0_TO_1: clip to the bounds in the name."""
    low, high = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}.get(op.name, (0.0, 1.0))
    if op.is_quantized:
        return _rectified(op, low, high)
    return op.emitter.unary(Function.CLIP, op.real(0), low, high)


def _rectified(op: Operation, low: float, high: float | None) -> Value:
    source, target = op.element(0), op.result_element
    bounds = [target.low, target.high]
    scale, point = np.float32(target.scale), target.zero_point
    bounds[0] = max(bounds[0], point + rounded(float(np.float32(low) / scale)))
    if high is not None:
        bounds[1] = min(bounds[1], point + rounded(float(np.float32(high) / scale)))
    # The kernel divides the scales in single precision.
    requant = op.requant([float(np.float32(source.scale) / scale)], (bounds[0], bounds[1]))
    return op.emitter.emit(graph.RequantizeOp(op.tensor(0), target, requant))


@operator("LEAKY_RELU")
def leaky_relu(op: Operation) -> Value:
    """Import LEAKY_RELU: negative elements are multiplied by `alpha`."""
    alpha = op.operator.options.number(0)
    if not op.is_quantized:
        return op.emitter.unary(Function.LEAKY_RELU, op.real(0), alpha)
    source, target = op.element(0), op.result_element
    # The kernel divides and multiplies the scales in single precision.
    scale = np.float32(target.scale)
    factor = float(np.float32(source.scale) / scale)
    slope = float(np.float32(source.scale) * np.float32(alpha) / scale)
    x = bytes_of(source)
    below = multiplied(x, abs(slope)) * (1 if alpha >= 0 else -1)
    entries = stored_in(np.where(x >= 0, multiplied(x, factor), below), target)
    emit = _words if op.input(0).kind == "int16" else looked_up
    return emit(op, entries, Function.LEAKY_RELU, alpha)


def _words(op: Operation, entries: Integers, function: Function, *parameters: float) -> SSAValue:
    """
    Emit a lookup table of 65,536 entries for a 16-bit operand; the parameters are as in
    `looked_up`.
    """
    table = DenseIntOrFPElementsAttr(
        TensorType(i16, [entries.size]), BytesAttr(entries.astype("<i2").tobytes())
    )
    lookup = graph.LookupOp(op.tensor(0), table, op.result_element)
    return _named(op, lookup, function, parameters)


@operator("HARD_SWISH")
def hard_swish(op: Operation) -> Value:
    """
    Import HARD_SWISH: `x * clip(x + 3, 0, 6) / 6`. For quantized values, the table has the results
    of the 16-bit arithmetic of the kernel.
    """
    if not op.is_quantized:
        return op.emitter.unary(Function.HARD_SWISH, op.real(0))
    source, target = op.element(0), op.result_element
    step = np.float32(source.scale) * np.float32(1 / 128)
    out_multiplier, out_shift = _of_16_bits(float(step / np.float32(target.scale)))
    in_multiplier, in_shift = _of_16_bits(float(step / np.float32(3 / 32768)))
    x = bytes_of(source) << 7
    on_output = high_half(x, out_multiplier)
    inner = _saturated(x << max(in_shift - 1, 0)) if in_shift > 0 else x
    inner = high_half(inner, in_multiplier)
    if in_shift > 0:
        inner = _saturated(inner << 1)
    inner = half_away(inner, max(-in_shift, 0))
    inner = (inner + (1 << 15)) >> 1
    product = inner * on_output
    # This product is rounded towards zero.
    truncated = np.sign(product) * (np.abs(product) >> 15)
    if out_shift > 0:
        raise op.unsupported("scales with which the result is finer than the operand")
    entries = stored_in(half_away(truncated, -out_shift), target)
    return looked_up(op, entries, Function.HARD_SWISH)


def _of_16_bits(factor: float) -> tuple[int, int]:
    multiplier, shift = quantized_multiplier(factor)
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), shift


def _saturated(x: Integers) -> Integers:
    return np.clip(x, -(1 << 15), (1 << 15) - 1)


@operator("PRELU")
def prelu(op: Operation) -> Value:
    """Import PRELU: negative elements are multiplied by the slope of their channel, a constant."""
    slopes = op.value(1)
    if not isinstance(slopes, Constant):
        raise op.unsupported("computed slopes; convert the network with constant slopes")
    shape = [n for n in slopes.shape if n != 1]
    channels = op.shape(0)[-1] if op.shape(0) else 1
    if op.is_quantized and isinstance(slopes, Stored):
        return _prelu_tables(op, slopes, channels)
    return op.one("PRelu", [op.real(0), op.real(1)]) if shape else _one_slope(op)


def _one_slope(op: Operation) -> Value:
    slope = float(op.array(1).reshape(-1)[0])
    return op.emitter.unary(Function.LEAKY_RELU, op.real(0), slope)


def _prelu_tables(op: Operation, slopes: Stored, channels: int) -> Value:
    if int(np.prod(slopes.shape)) not in (1, channels) or op.input(0).kind == "int16":
        raise op.unsupported("slopes that are not per channel, or of int16")
    source, target, kind = op.element(0), op.result_element, op.element(1)
    x = bytes_of(source)
    factor = source.scale / target.scale
    alphas = slopes.load().astype(np.int64).reshape(-1) - kind.zero_point
    distinct, rows = np.unique(alphas, return_inverse=True)
    tables = [
        stored_in(
            np.where(x >= 0, multiplied(x, factor), multiplied(x * a, factor * kind.scale)), target
        )
        for a in distinct.tolist()
    ]
    if len(tables) == 1:
        return looked_up(op, tables[0])
    entries, indices = np.stack(tables), rows.reshape(-1).tolist()
    return in_signed_bytes(op, lambda x: _table(op, x, entries, indices))


@operator("RSQRT")
def reciprocal_root(op: Operation) -> Value:
    """Import RSQRT: `1 / sqrt(x)`; of int8 as a table, with the largest integer for 0 and below."""
    if op.is_quantized:
        if op.input(0).kind != "int8":
            raise op.unsupported(f"of {op.input(0).kind}; quantize to int8")
        return looked_up(op, _reciprocal_roots(op))
    return op.one("Reciprocal", [op.one("Sqrt", [op.real(0)])])


ROOT_SHIFT = 20
"""The fraction bits of reciprocal roots before they have the scale of the result."""


def _reciprocal_roots(op: Operation) -> Integers:
    source, target = op.element(0), op.result_element
    # The kernel computes the root and the product in single precision.
    unit = float(np.sqrt(np.float32(source.scale)) * np.float32(target.scale))
    multiplier, shift = quantized_multiplier(1.0 / unit)
    entries: list[int] = []
    for value in bytes_of(source).tolist():
        if value <= 0:
            entries.append(target.high - target.zero_point)
            continue
        root, right = reciprocal_root_multiplier(value)
        real = applied(np.array([1]), root, ROOT_SHIFT - right)
        entries.append(int(applied(real, multiplier, shift - ROOT_SHIFT)[0]))
    return stored_in(np.array(entries), target)


@operator("SQUARE", "SQUARED_DIFFERENCE")
def square(op: Operation) -> Value:
    """Import SQUARE, or SQUARED_DIFFERENCE of two operands; the latter also of int8."""
    if op.is_quantized and op.name == "SQUARED_DIFFERENCE":
        return squared_difference(op)
    if op.is_quantized:
        raise op.unsupported("of integers; quantize the network without it")
    x = numbers(op, 0)
    if op.name == "SQUARED_DIFFERENCE":
        x = op.one("Sub", [x, numbers(op, 1)])
    return op.one("Mul", [x, x])


def _gelu_by_erfc(x: Reals) -> Reals:
    return x * np.array([erfc(-v * sqrt(0.5)) for v in x.tolist()]) / 2


def _gelu_by_tanh(x: Reals) -> Reals:
    return x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


@operator("GELU")
def gelu(op: Operation) -> Value:
    """
    Import GELU: `x * Phi(x)`, or the approximation by `tanh`; of 8 bits as a table.
    """
    if op.is_quantized:
        if op.input(0).kind == "int16":
            raise op.unsupported("of int16; quantize to int8")
        is_tanh = op.operator.options.flag(0)
        entries = _tabulated(op, _gelu_by_tanh if is_tanh else _gelu_by_erfc)
        return looked_up(op, entries, Function.GELU_TANH if is_tanh else Function.GELU)
    approximate = "tanh" if op.operator.options.flag(0) else "none"
    emitter, x = op.emitter, op.real(0)
    if approximate == "none":
        inner = emitter.unary(Function.ERF, emitter.mul(x, emitter.number(1 / sqrt(2))))
    else:
        cube = emitter.mul(emitter.mul(emitter.mul(x, x), x), emitter.number(0.044715))
        scaled = emitter.mul(emitter.add(x, cube), emitter.number(sqrt(2 / np.pi)))
        inner = emitter.unary(Function.TANH, scaled)
    return emitter.mul(emitter.mul(x, emitter.number(0.5)), emitter.add(inner, emitter.number(1)))


@operator("LOG_SOFTMAX", "L2_NORMALIZATION")
def normalization(op: Operation) -> Value:
    """
    Import LOG_SOFTMAX, or L2_NORMALIZATION (division by the root of the sum of squares), along the
    last axis. Quantized operands are an error.
    """
    if op.is_quantized:
        raise op.unsupported("of integers; quantize the network without it")
    x = op.real(0)
    if op.name == "LOG_SOFTMAX":
        return op.one("LogSoftmax", [x], axis=-1)
    rank = len(shape_of_value(x))
    total = op.emitter.reduce(graph.Reduce.SUM, op.emitter.mul(x, x), [rank - 1])
    root = op.emitter.unary(Function.SQRT, op.one("Max", [total, op.emitter.number(1e-6)]))
    return op.activated(op.emitter.div(x, root), 0)
