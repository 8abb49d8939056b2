"""
What ONNX can say of an operation, and what it cannot.

`why_not` gives the reason for which an operation has no ONNX form that means the same;
`rounds_otherwise` tells which ones mean the same but for ties.
"""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Operation

from ceras_ir.backends.onnx.functions import has_operator, is_count_of_shifts
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

SAME_FACTOR = 2.0**-20
"""Relative; multipliers of fewer bits than a factor has differ from it by less."""
SAME_AVERAGE = 2.0**-14
"""The same for reciprocals, which keep bits for windows that are partly in the padding."""
POWERS = (f32, i32, i64)
"""The types of numbers that have powers."""
LEAST, GREATEST = 2.0**-31, 2.0**30
"""Factors beyond leave nothing of an accumulator, or saturate it: shifts are bounded by them."""


def why_not(op: Operation) -> str | None:
    """Why ONNX cannot say what `op` computes; None where it can."""
    match op:
        case graph.LinearOperation() if op.weight_scale is not None:
            return "ONNX multiplies no floats by int8 weights; leave encode-weights out"
        case graph.LinearOperation() if op.table is not None:
            return "ONNX has no table behind a sum of products; leave fuse-lookup out"
        case graph.ShiftSwishOp():
            return "swish made of shifts is no function of ONNX; quantize with a table for it"
        case graph.LookupOp() if op.has_pixel_input:
            if graph.quantized_element(op.output) is None:
                return "tables of pixels make integers in ONNX"
        case graph.LookupOp():
            return _table_reason(op)
        case graph.BinaryOp() if op.function is graph.Binary.POW and not is_count_of_shifts(op):
            if (element := graph.element_of(op.result)) not in POWERS:
                return f"ONNX has no power of {element}; use int32, or target c"
        case graph.Conv2dOp() | graph.MatmulOp() | graph.BinaryOp() | graph.Pool2dOp():
            pass
        case graph.RequantizeOp() | graph.UnaryOp() | graph.SoftmaxOp() | graph.ReshapeOp():
            pass
        case graph.NormalizeOp() | graph.TakeOp():
            pass
        case graph.IntegerSoftmaxOp() | graph.IntegerNormalizeOp():
            return "ONNX has no softmax or normalization of integers; quantize with --rows float"
        case graph.TransposeOp() | graph.ConcatOp() | graph.ResizeOp() | graph.SliceOp():
            pass
        case graph.GatherOp() | graph.PadOp() | graph.ReduceOp() | graph.ArgOp() | graph.TopKOp():
            pass
        case graph.CompareOp() | graph.SelectOp() | graph.CastOp() | graph.ConstantOp():
            pass
        case graph.QuantizeOp() | graph.ScaledQuantizeOp() if (
            graph.stored_element(op.output).storage.width.data > 16
        ):
            return "QuantizeLinear makes 8 or 16 bits, this makes 32"
        case graph.QuantizeOp() | graph.ScaledQuantizeOp() | graph.DequantizeOp():
            pass
        case graph.CallingOperation() | graph.ExtractOp():
            return (
                "a loop that is too long to unroll, or a branch with one, is not written as ONNX; "
                "take fewer steps, or another target"
            )
        case graph.GraphOperation():
            return "this operation is not written yet; use target c, or the model as it came"
        case _:
            return "it is of another level than the graph; export before it"
    for attribute in (*op.properties.values(), *op.attributes.values()):
        if isinstance(attribute, graph.FunctionAttr) and not has_operator(attribute):
            return f"ONNX has no function {attribute.kind}"
    for value in (*op.operands, *op.results):
        element = graph.quantized_element(value) if is_tensor(value.type) else None
        if element is not None and any(not _is_normal(s.data) for s in element.scales):
            return f"a scale of {element} is no normal float32 number"
    if (requant := _requant(op)) is not None:
        if requant.zero_point.data != graph.stored_element(op.output).zero_point:
            return "its requantization adds another zero point than the type of its result has"
        near = SAME_AVERAGE if isinstance(op, graph.Pool2dOp) else SAME_FACTOR
        for actual, expected in _factors(op, requant):
            if not _agree(actual, expected, near) and not _is_nearest(op, requant):
                return f"it rescales by {actual:.8g}, where its scales say {expected:.8g}"
    return None


def rounds_otherwise(op: Operation) -> bool:
    """Whether ties of `op` go elsewhere when its ONNX form is quantized by `fold-qdq`."""
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
        return f"ONNX has no tables, and no attribute {FUNCTION} says which function this is"
    source, target = graph.quantized_element(op.input), graph.stored_element(op.output)
    assert source is not None
    exponents, channels = exponents_of(op), graph.shape_of(op.result)[-1:]
    if op.channel_rows is not None and exponents is None:
        return f"its channels have tables of their own, and no attribute {INPUT_EXPONENTS} says why"
    if exponents is not None and op.channel_rows is None:
        return f"it has attributes {INPUT_EXPONENTS}, but one table"
    entries = op.tables.shape[1]
    if exponents is None:
        good = lookup_table(function, source, target, entries) == op.table
        return None if good else _other_table(function)
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
    return f"its table is not that of {function.kind.value} between its scales"


def _requant(op: Operation) -> RequantAttr | None:
    attribute = op.properties.get("requant")
    return attribute if isinstance(attribute, RequantAttr) else None


def _scale(op: Operation, operand: int) -> float:
    return graph.scale_of(op.operands[operand])


def _scale_of(op: Operation) -> float:
    return graph.scale_of(op.results[0])


def _factors(op: Operation, requant: RequantAttr) -> list[tuple[float, float]]:
    """What stored operands are multiplied by, and what their scales ask for, in pairs."""
    own = requant.multipliers[0] / 2.0**requant.shift.data
    match op:
        case graph.Conv2dOp() | graph.MatmulOp():
            weights = graph.stored_element(op.weights)
            scales = [_scale(op, 0) * s.data for s in weights.scales]
            count = max(len(scales), len(requant.multipliers))
            factors = np.broadcast_to(
                np.array(requant.multipliers) / 2.0**requant.shift.data, (count,)
            )
            wanted = np.broadcast_to(np.array(scales) / _scale_of(op), (count,))
            pairs = list(zip(factors.tolist(), wanted.tolist(), strict=True))
            if op.residual is not None:
                moved = np.broadcast_to(np.exp2(op.residual_shifts), (count,))
                wanted = np.broadcast_to(graph.scale_of(op.residual) / np.array(scales), (count,))
                pairs += zip(moved.tolist(), wanted.tolist(), strict=True)
            return pairs
        case graph.BinaryOp() if op.function is graph.Binary.MUL:
            return [(own, _scale(op, 0) * _scale(op, 1) / _scale_of(op))]
        case graph.BinaryOp():
            return [
                (own * factor, _scale(op, i) / _scale_of(op)) for i, factor in enumerate(op.factors)
            ]
        case graph.Pool2dOp():
            size = prod(op.kernel.get_values())
            return [(own * size, _scale(op, 0) / _scale_of(op))]
        case _:
            return [(own, _scale(op, 0) / _scale_of(op))]


def _agree(actual: float, expected: float, near: float) -> bool:
    if min(actual, expected) >= GREATEST or max(actual, expected) <= LEAST:
        return True
    return abs(actual - expected) <= near * expected


def _is_nearest(op: Operation, requant: RequantAttr) -> bool:
    """
    Whether multipliers and shift are what the scales become: of channels that share a shift
    the small factors are far off, relatively, and still as near as that shift allows.
    """
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
