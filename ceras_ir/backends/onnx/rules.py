"""
Decide whether an operation has an ONNX form.

`why_not` returns the reason why an operation has no equal ONNX form. `rounds_differently` returns
whether the form is equal except for ties.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Operation

from ceras_ir.backends.onnx.functions import has_operator, is_only_for_shifts
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import is_tensor
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.transforms.quantization.analysis.qdq import stored_types
from ceras_ir.transforms.quantization.analysis.rescaling import (
    FUNCTION,
    INPUT_EXPONENTS,
    exponents_of,
    fixed_point,
    lookup_table,
    only_shifts,
)
from ceras_ir.transforms.quantization.integer_forms import addend_multipliers

MAX_FACTOR_ERROR = 2.0**-20
"""The maximum relative error of a factor that is rounded to a multiplier and a shift."""
MAX_AVERAGE_ERROR = 2.0**-14
"""The same for averages, with fewer bits, because windows in the padding have larger factors."""
POWER_TYPES = (f32, i32, i64)
"""The element types for which ONNX has powers."""
MIN_FACTOR, MAX_FACTOR = 2.0**-31, 2.0**30
"""Factors outside these bounds reduce an accumulator to 0, or saturate it. Shifts are limited."""
EXPORTED = (
    graph.Conv2dOp | graph.MatmulOp | graph.BinaryOp | graph.Pool2dOp | graph.RequantizeOp
    | graph.UnaryOp | graph.SoftmaxOp | graph.ReshapeOp | graph.NormalizeOp | graph.TakeOp
    | graph.TransposeOp | graph.ConcatOp | graph.ResizeOp | graph.SliceOp | graph.GatherOp
    | graph.PadOp | graph.ReduceOp | graph.ArgOp | graph.TopKOp | graph.CompareOp | graph.SelectOp
    | graph.CastOp | graph.ConstantOp | graph.QuantizeOp | graph.ScaledQuantizeOp
    | graph.DequantizeOp
)  # fmt: skip


def why_not(op: Operation) -> str | None:
    """Return why `op` has no ONNX form, or None."""
    match op:
        case graph.LinearOperation() if op.weight_scale is not None:
            return "ONNX has no product of floats and int8 weights; do not run encode-weights"
        case graph.LinearOperation() if op.table is not None:
            return "ONNX has no table after a convolution or product; do not run fuse-lookup"
        case graph.ShiftSwishOp():
            return "ONNX has no swish that consists of shifts; quantize it with a table"
        case graph.LookupOp() if op.has_pixel_input:
            if graph.quantized_element(op.output) is None:
                return "in ONNX, tables of pixels must have integer results"
        case graph.LookupOp():
            return _table_reason(op)
        case graph.BinaryOp() if op.function is graph.Binary.POW and not is_only_for_shifts(op):
            if (element := graph.element_of(op.result)) not in POWER_TYPES:
                return f"ONNX has no power of {element}; use int32, or target c"
        case graph.IntegerSoftmaxOp() | graph.IntegerNormalizeOp():
            return "ONNX has no softmax or normalization of integers; quantize with --rows float"
        case graph.QuantizeOp() | graph.ScaledQuantizeOp() if (
            graph.stored_element(op.output).storage.width.data > 16
        ):
            return "QuantizeLinear requires results of 8 or 16 bits, got 32"
        case graph.CallingOperation() | graph.ExtractOp():
            return (
                "a loop that is too long to unroll, or a branch with such a loop, cannot be "
                "exported; use fewer steps, or another target"
            )
        case _ if isinstance(op, EXPORTED):
            pass
        case graph.GraphOperation():
            return "the export of this operation is not implemented; use target c"
        case _:
            return "the operation is not of the graph level; export before it is created"
    for attribute in (*op.properties.values(), *op.attributes.values()):
        if isinstance(attribute, graph.FunctionAttr) and not has_operator(attribute):
            return f"ONNX has no function {attribute.kind}"
    for value in (*op.operands, *op.results):
        element = graph.quantized_element(value) if is_tensor(value.type) else None
        if element is not None and any(not _is_normal(s.data) for s in element.scales):
            return f"a scale of {element} is no normal float32 number"
    if (requant := _requant(op)) is not None:
        if requant.zero_point.data != graph.stored_element(op.output).zero_point:
            return "the zero point of the requantization differs from that of the result"
        limit = MAX_AVERAGE_ERROR if isinstance(op, graph.Pool2dOp) else MAX_FACTOR_ERROR
        for actual, expected in _factors(op, requant):
            if not _agree(actual, expected, limit) and not _is_nearest(op, requant):
                return f"the requantization has the factor {actual:.8g}, the scales {expected:.8g}"
    return None


def rounds_differently(op: Operation) -> bool:
    """Return whether `fold-qdq` rounds ties of the ONNX form of `op` differently."""
    requant = _requant(op)
    if requant is None or (requant.shift.data == 0):
        return False
    chosen = Rounding.HALF_EVEN
    if isinstance(op, graph.LinearOperation) or only_shifts(stored_types(op)):
        chosen = Rounding.HALF_UP
    elif isinstance(op, graph.BinaryOp) and not any(e.zero_point for e in stored_types(op)):
        sides = [_scale(op, 0) / _scale_of(op), _scale(op, 1) / _scale_of(op)]
        if op.function is not graph.Binary.MUL and all(np.frexp(s)[0] == 0.5 for s in sides):
            chosen = Rounding.HALF_UP
    return requant.mode is not chosen


def _table_reason(op: graph.LookupOp) -> str | None:
    function = op.attributes.get(FUNCTION)
    if not isinstance(function, graph.FunctionAttr):
        return f"ONNX has no tables, and there is no attribute {FUNCTION} with the function"
    source, target = graph.quantized_element(op.input), graph.stored_element(op.output)
    assert source is not None
    exponents, channels = exponents_of(op), graph.shape_of(op.result)[-1:]
    if op.channel_rows is not None and exponents is None:
        return f"channels have different tables, and there is no attribute {INPUT_EXPONENTS}"
    if exponents is not None and op.channel_rows is None:
        return f"there is an attribute {INPUT_EXPONENTS}, but only a single table"
    entries = op.tables.shape[1]
    if exponents is None:
        is_equal = lookup_table(function, source, target, entries) == op.table
        return None if is_equal else _other_table(function)
    if any(len(e) != channels[0] for e in exponents):
        return f"{channels[0]} exponents expected, got {len(exponents[0])} and {len(exponents[1])}"
    pairs = list(zip(*exponents, strict=True))
    for pair in sorted(set(pairs)):
        wanted = lookup_table(function, source, target, entries, [pair])
        rows = zip(op.channel_rows or (), pairs, strict=True)
        if any(op.tables[r].tobytes() != wanted.data.data for r, p in rows if p == pair):
            return _other_table(function)
    return None


def _other_table(function: graph.FunctionAttr) -> str:
    return f"the table differs from the function {function.kind.value} for these scales"


def _requant(op: Operation) -> RequantAttr | None:
    attribute = op.properties.get("requant")
    return attribute if isinstance(attribute, RequantAttr) else None


def _scale(op: Operation, operand: int) -> float:
    return graph.scale_of(op.operands[operand])


def _scale_of(op: Operation) -> float:
    return graph.scale_of(op.results[0])


def _factors(op: Operation, requant: RequantAttr) -> list[tuple[float, float]]:
    # Pairs of the factor of a stored operand, and the factor that follows from the scales.
    factors = np.array(requant.multipliers) / 2.0**requant.shift.data
    first = float(factors[0])
    match op:
        case graph.Conv2dOp() | graph.MatmulOp():
            scales = np.array([s.data for s in graph.stored_element(op.weights).scales])
            scales = _scale(op, 0) * scales
            pairs = _pairs(factors, scales / _scale_of(op))
            if op.residual is not None:
                residual = graph.scale_of(op.residual) / np.broadcast_to(scales, (len(pairs),))
                pairs += _pairs(np.exp2(op.residual_shifts), residual)
            return pairs
        case graph.BinaryOp() if op.function is graph.Binary.MUL:
            return [(first, _scale(op, 0) * _scale(op, 1) / _scale_of(op))]
        case graph.BinaryOp():
            ratios = [_scale(op, i) / _scale_of(op) for i in (0, 1)]
            return [(first * f, ratio) for f, ratio in zip(op.factors, ratios, strict=True)]
        case graph.Pool2dOp():
            size = prod(op.kernel.get_values())
            return [(first * size, _scale(op, 0) / _scale_of(op))]
        case _:
            return [(first, _scale(op, 0) / _scale_of(op))]


def _pairs(actual: NDArray[np.float64], expected: NDArray[np.float64]) -> list[tuple[float, float]]:
    a, b = np.broadcast_arrays(actual, expected)
    return list(zip(a.tolist(), b.tolist(), strict=True))


def _agree(actual: float, expected: float, limit: float) -> bool:
    if min(actual, expected) >= MAX_FACTOR or max(actual, expected) <= MIN_FACTOR:
        return True
    return abs(actual - expected) <= limit * expected


def _is_nearest(op: Operation, requant: RequantAttr) -> bool:
    # Multipliers and shift can be the best approximation of the factors, although channels with
    # small factors have large relative errors: all channels share the shift.
    if isinstance(op, graph.BinaryOp) and op.function is not graph.Binary.MUL:
        *sides, target = stored_types(op)
        multipliers, shift = addend_multipliers(sides, target)
        return op.factors == multipliers and requant.shift.data == shift
    wanted = fixed_point([expected for _, expected in _factors(op, requant)])
    return isinstance(op, graph.LinearOperation) and wanted == (
        requant.multipliers,
        requant.shift.data,
    )


def _is_normal(scale: float) -> bool:
    return float(np.finfo(np.float32).tiny) <= scale <= float(np.finfo(np.float32).max)
