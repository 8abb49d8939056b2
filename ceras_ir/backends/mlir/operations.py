"""
Build each operation of the graph in upstream dialects: this module has elementwise operations and
data movement, `layers.py` and `rows.py` the remaining operations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType, f32, i1, i64
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.mlir.functions import Functions
from ceras_ir.backends.mlir.integers import (
    cast,
    centred,
    quantize,
    requantize,
    shift_swish,
)
from ceras_ir.backends.mlir.layers import linear, looked_up, pool, requantizing
from ceras_ir.backends.mlir.network import Network, element_type, is_signed
from ceras_ir.backends.mlir.resizing import resize
from ceras_ir.backends.mlir.rows import (
    extreme_index,
    fixed_point_softmax,
    integer_normalization,
    integer_softmax,
    larger,
    normalization,
    reduction,
    smaller,
    softmax,
)
from ceras_ir.backends.mlir.scalars import Scalars
from ceras_ir.backends.mlir.tensors import Array, Indices
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.dialects.quant import Rounding
from ceras_ir.interpreters.selection import (
    border_indices,
)
from ceras_ir.network import integer

RELATIONS = {Compare.EQUAL: "eq", Compare.LESS: "lt", Compare.LESS_OR_EQUAL: "le"}
BITWISE = {
    Binary.AND: Scalars.both,
    Binary.OR: Scalars.either,
    Binary.XOR: Scalars.differing,
}
PLAIN = BITWISE | {Binary.ADD: Scalars.add, Binary.SUB: Scalars.sub, Binary.MUL: Scalars.mul}
SUPPORTED = (
    graph.ConstantOp | graph.MatmulOp | graph.Conv2dOp | graph.Pool2dOp | graph.UnaryOp
    | graph.BinaryOp | graph.LookupOp | graph.ShiftSwishOp | graph.SoftmaxOp
    | graph.IntegerSoftmaxOp | graph.FixedPointSoftmaxOp | graph.NormalizeOp
    | graph.IntegerNormalizeOp | graph.ReduceOp | graph.ArgOp | graph.QuantizeOp
    | graph.ScaledQuantizeOp | graph.DequantizeOp | graph.RequantizeOp | graph.ReshapeOp
    | graph.TransposeOp | graph.ConcatOp | graph.SliceOp | graph.GatherOp | graph.TakeOp
    | graph.PadOp | graph.ResizeOp | graph.CompareOp | graph.SelectOp | graph.CastOp
)  # fmt: skip


def why_not(op: Operation) -> str | None:
    """Return the reason why `op` cannot be exported, or `None` if it can."""
    match op:
        case graph.BinaryOp() if graph.is_plain(op.result):
            if op.function is Binary.POW:
                return "upstream dialects have no power of integers that wraps; use target c"
            if graph.element_of(op.result) == i1 and op.function not in BITWISE:
                return f"'{op.function}' of i1 is not exported; cast the operands to i8"
        case graph.UnaryOp() if op.function.slopes is not None:
            return "slopes per channel are not exported; run the pass separate-slopes first"
        case graph.LinearOperation() if not op.is_quantized and op.encoded_weights is not None:
            return "weights with a sparse encoding are not exported; run no pass that encodes them"
        case _ if isinstance(op, SUPPORTED):
            pass
        case graph.GraphOperation():
            return f"the export of '{op.name}' is not implemented; use target c"
        case _:
            return f"'{op.name}' is not of the graph level; export before it is created"
    return None


def build(network: Network, op: graph.GraphOperation) -> SSAValue:
    """Add the upstream operations that compute the result of `op`, and return this result."""
    match op:
        case graph.LinearOperation():
            return linear(network, op)
        case graph.Pool2dOp():
            return pool(network, op)
        case graph.SoftmaxOp():
            return softmax(network, op)
        case graph.IntegerSoftmaxOp():
            return integer_softmax(network, op)
        case graph.FixedPointSoftmaxOp():
            return fixed_point_softmax(network, op)
        case graph.NormalizeOp():
            return normalization(network, op)
        case graph.IntegerNormalizeOp():
            return integer_normalization(network, op)
        case graph.ReduceOp():
            return reduction(network, op)
        case graph.ArgOp():
            return extreme_index(network, op)
        case graph.UnaryOp():
            return _unary(network, op)
        case graph.BinaryOp():
            return _binary(network, op)
        case graph.LookupOp():
            return _lookup(network, op)
        case graph.ShiftSwishOp():
            return _shift_swish(network, op)
        case graph.QuantizeOp() | graph.ScaledQuantizeOp():
            return _quantize(network, op)
        case graph.DequantizeOp():
            return _dequantize(network, op)
        case graph.RequantizeOp():
            rescale, element = requantizing(op, op.requant), graph.stored_element(op.input)
            return network.mapped(
                op, [network.get(op.input)], lambda s, q: rescale(s, centred(s, q, element))
            )
        case graph.CompareOp():
            relation, signed = RELATIONS[op.function], is_signed(op.lhs)
            operands = [network.get(op.lhs), network.get(op.rhs)]
            return network.mapped(
                op, operands, lambda s, a, b: s.compare(relation, a, b, signed=signed)
            )
        case graph.SelectOp():
            operands = [network.get(v) for v in op.operands]
            return network.mapped(op, operands, lambda s, c, a, b: s.select(c, a, b))
        case graph.CastOp():
            return _cast(network, op)
        case _:
            return _moved(network, op)


def _unary(network: Network, op: graph.UnaryOp) -> SSAValue:
    operands = [network.get(op.input)]
    if (factors := op.channel_factors) is not None:
        operands += [network.tensors.constant(each) for each in factors]

    def body(s: Scalars, x: SSAValue, *factors: SSAValue) -> SSAValue:
        if not factors:
            return Functions(s).apply(op.function, x)
        return s.mul(Functions(s).apply(op.function, s.mul(x, factors[0])), factors[1])

    return network.mapped(op, operands, body)


def _binary(network: Network, op: graph.BinaryOp) -> SSAValue:
    operands = [network.get(op.lhs), network.get(op.rhs)]
    if op.requant is not None:
        rescale = requantizing(op, op.requant)
        elements = graph.stored_element(op.lhs), graph.stored_element(op.rhs)

        def quantized(s: Scalars, *stored: SSAValue) -> SSAValue:
            sides = [centred(s, q, e) for q, e in zip(stored, elements, strict=True)]
            sides = [
                side if factor == 1 else s.mul(side, s.integer(factor))
                for side, factor in zip(sides, op.factors, strict=True)
            ]
            if op.addends is not None:
                sides = [
                    requantize(s, side, addend, i64)
                    for side, addend in zip(sides, op.addends, strict=True)
                ]
            return rescale(s, PLAIN[op.function](s, *sides))

        return network.mapped(op, operands, quantized)
    if graph.element_of(op.result) != f32:
        return network.mapped(op, operands, _integer_body(op))

    def body(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        match op.function:
            case Binary.DIV:
                y = s.div(a, b)
            case Binary.MIN:
                y = smaller(s, a, b)
            case Binary.MAX:
                y = larger(s, a, b)
            case Binary.POW:
                y = Functions(s).power(a, b)
            case _:
                y = PLAIN[op.function](s, a, b)
        return y if op.activation is None else Functions(s).apply(op.activation, y)

    return network.mapped(op, operands, body)


def _integer_body(op: graph.BinaryOp) -> Callable[..., SSAValue]:
    signed = is_signed(op.result)

    def body(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
        match op.function:
            case Binary.DIV:
                return _quotient(s, a, b, signed=signed)
            case Binary.MIN:
                return s.min(a, b, signed=signed)
            case Binary.MAX:
                return s.max(a, b, signed=signed)
            case _:
                return PLAIN[op.function](s, a, b)

    return body


def _quotient(s: Scalars, a: SSAValue, b: SSAValue, *, signed: bool) -> SSAValue:
    # A division by 0 is 0. A division by -1, which can overflow, is a negation.
    zero, one = s.integer(0, a.type), s.integer(1, a.type)
    is_zero = s.compare("eq", b, zero)
    if not signed:
        result = s.div(a, s.select(is_zero, one, b), signed=False)
        return s.select(is_zero, zero, result)
    negates = s.compare("eq", b, s.integer(-1, a.type))
    result = s.div(a, s.select(s.either(is_zero, negates), one, b))
    return s.select(is_zero, zero, s.select(negates, s.neg(a), result))


def _lookup(network: Network, op: graph.LookupOp) -> SSAValue:
    t = network.tensors
    tables, operands = t.constant(op.tables), [network.get(op.input)]
    if op.channel_rows is not None:
        operands.append(t.constant(np.array(op.channel_rows, np.int64)))

    def body(s: Scalars, stored: SSAValue, *row: SSAValue) -> SSAValue:
        return looked_up(s, tables, stored, row[0] if row else None, pixels=op.has_pixel_input)

    return network.mapped(op, operands, body)


def _shift_swish(network: Network, op: graph.ShiftSwishOp) -> SSAValue:
    bends = np.array(op.channel_bends, np.int64)
    operands = [network.tensors.constant(np.ascontiguousarray(column)) for column in bends.T]
    rescale = requantizing(op, op.requant)

    def body(s: Scalars, q: SSAValue, *bends: SSAValue) -> SSAValue:
        return rescale(s, shift_swish(s, s.resized(q, i64), bends))

    return network.mapped(op, [network.get(op.input), *operands], body)


def _quantize(network: Network, op: graph.QuantizeOp | graph.ScaledQuantizeOp) -> SSAValue:
    t, element = network.tensors, graph.stored_element(op.result)
    rank = len(graph.shape_of(op.result))
    scales = t.constant(np.asarray(integer.scales(element, rank)))
    points = t.constant(np.asarray(integer.zero_points(element, rank)))
    factor = None
    if isinstance(op, graph.ScaledQuantizeOp):
        factor = float(np.float32(op.factor.value.data))

    def body(s: Scalars, x: SSAValue, scale: SSAValue, point: SSAValue) -> SSAValue:
        if factor is not None:
            x = s.mul(x, s.real(factor))
        mode = op.mode if isinstance(op, graph.QuantizeOp) else Rounding.HALF_EVEN
        return quantize(s, s.div(x, scale), element, point, mode)

    return network.mapped(op, [network.get(op.input), scales, points], body)


def _dequantize(network: Network, op: graph.DequantizeOp) -> SSAValue:
    t, element = network.tensors, graph.stored_element(op.input)
    rank = len(graph.shape_of(op.result))
    scales = t.constant(np.asarray(integer.scales(element, rank)))
    points = t.constant(np.asarray(integer.zero_points(element, rank)))

    def body(s: Scalars, q: SSAValue, scale: SSAValue, point: SSAValue) -> SSAValue:
        wide = s.resized(q, i64, signed=element.is_signed)
        return s.mul(s.to_real(s.sub(wide, point)), scale)

    return network.mapped(op, [network.get(op.input), scales, points], body)


def _cast(network: Network, op: graph.CastOp) -> SSAValue:
    source, target = graph.element_of(op.input), graph.element_of(op.result)
    from_signed = is_signed(op.input)

    def body(s: Scalars, x: SSAValue) -> SSAValue:
        if not is_integer(target):
            return x if source == f32 else s.to_real(x, signed=from_signed)
        return cast(s, x, target, from_signed=from_signed, signed=is_signed(op.result))

    return network.mapped(op, [network.get(op.input)], body)


def _moved(network: Network, op: graph.GraphOperation) -> SSAValue:
    t = network.tensors
    match op:
        case graph.ReshapeOp():
            return t.reshape(network.get(op.input), graph.shape_of(op.result))
        case graph.TransposeOp():
            return t.transpose(network.get(op.input), op.permutation.get_values())
        case graph.ConcatOp():
            kind = TensorType(element_type(op.result), graph.shape_of(op.result))
            inputs = [network.get(v) for v in op.inputs]
            return t.add_operation(tensor.ConcatOp(inputs, op.axis.value.data, kind))
        case graph.SliceOp():
            return _slice(network, op)
        case graph.GatherOp():
            indices = np.array(op.indices.get_values(), np.int64)
            return t.selected(network.get(op.input), {op.axis.value.data: indices})
        case graph.TakeOp():
            return _take(network, op)
        case graph.PadOp():
            return _pad(network, op)
        case graph.ResizeOp():
            return resize(network, op)
        case _:
            raise AssertionError(op.name)


def _slice(network: Network, op: graph.SliceOp) -> SSAValue:
    t, x = network.tensors, network.get(op.input)
    starts, strides = op.starts.get_values(), op.strides.get_values()
    sizes = graph.shape_of(op.result)
    if set(strides) == {1}:
        kind = TensorType(element_type(op.result), sizes)
        return t.add_operation(tensor.ExtractSliceOp(x, starts, sizes, strides, kind))
    entries = zip(starts, sizes, strides, graph.shape_of(op.input), strict=True)
    chosen = {
        d: start + stride * np.arange(size, dtype=np.int64)
        for d, (start, size, stride, extent) in enumerate(entries)
        if (start, size, stride) != (0, extent, 1)
    }
    return t.selected(x, chosen)


def _take(network: Network, op: graph.TakeOp) -> SSAValue:
    x, rows = network.get(op.input), graph.shape_of(op.input)[0]
    given, signed = network.get(op.indices), is_signed(op.indices)

    def body(s: Scalars, indices: Indices) -> SSAValue:
        row = s.resized(s.element(given, indices[:1]), i64, signed=signed)
        counted = s.add(row, s.integer(rows))
        row = s.select(s.compare("lt", row, s.integer(0)), counted, row)
        row = s.clamp(row, 0, rows - 1)
        return s.element(x, [s.as_index(row), indices[1]])

    return network.tensors.computed(graph.shape_of(op.result), element_type(op.result), body)


def _pad(network: Network, op: graph.PadOp) -> SSAValue:
    t, x, shape = network.tensors, network.get(op.input), graph.shape_of(op.input)
    low, high = op.low.get_values(), op.high.get_values()
    if op.function is not graph.Pad.CONSTANT:
        chosen = {
            d: border_indices(op.function, extent, low[d], high[d])
            for d, extent in enumerate(shape)
            if low[d] or high[d]
        }
        return t.selected(x, chosen)
    element, value = element_type(op.input), op.stored_value
    filler = t.integer(int(value), element) if is_integer(element) else t.real(value)
    if not any(op.interior.get_values()):
        return t.padded(x, low, high, filler)
    chosen: dict[int, Array] = {}
    for d, between in enumerate(op.interior.get_values()):
        places = np.full(graph.shape_of(op.result)[d], -1, np.int64)
        end = low[d] + (shape[d] - 1) * (between + 1) + 1
        places[low[d] : end : between + 1] = np.arange(shape[d])
        chosen[d] = places
    return t.selected(x, chosen, filler)
