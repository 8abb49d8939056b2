"""
Choose scales of stored integers that agree with the requantizations of a network.

TOSA has no scales. A multiplier is the ratio of the scales of operand and result, so each
operation is a linear equation between the logarithms of scales. The scales of weights follow from
the scales of activations. Plain integers have scale 1. If no scales agree, such as for a sum of
values that are also plain integers, a value is converted by a float factor. The integers do not
change.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from math import log2, prod

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, ConstantOp, quantized_element
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name

TOLERANCE = 2.0**-26
"""The difference of logarithms up to which scales are equal."""

SAME_LOGARITHM = 2.0**-36
"""The difference of logarithms that is due to rounding."""

MAX_LOGARITHM = 400.0
"""The largest exponent of a scale, so that products of scales are finite."""

MAX_CONVERSIONS = 1000
"""The values that are converted because no scales agree."""

Conversion = tuple[graph.DequantizeOp, graph.QuantizeOp]

Terms = Mapping[SSAValue, float]
Equation = tuple[Terms, float]
"""The sum of coefficients times the logarithms of scales, and the number that it must be."""


class _ContradictionError(Exception):
    """No scales satisfy all equations of the operations up to `op`."""

    def __init__(self, op: Operation):
        super().__init__()
        self.op = op


def choose_scales(block: Block) -> None:
    """
    Choose and set the scales of all quantized values in `block`, the body of a network, so that the
    requantizations keep the same multipliers. TOSA has no scales.
    """
    converted: list[Conversion] = []
    while True:
        try:
            logarithms = _Solver.of(block, {target.result for _, target in converted})
            break
        except _ContradictionError as error:
            if len(converted) >= MAX_CONVERSIONS:
                raise _unsupported(error.op) from None
            converted.append(_converted(error.op))
    scales = _Scales()
    for value in list(_values(block)):
        element = quantized_element(value)
        if element is not None and not _is_weight(value):
            if abs(logarithms[value]) > MAX_LOGARITHM:
                raise _unsupported(_operation_at(value))
            scale = scales.of(logarithms[value])
            _retype(value, UniformType(scale, element.zero_point, storage=element.storage))
    for op in block.ops:
        if isinstance(op, graph.LinearOperation) and op.requant is not None:
            _set_weights(op, op.requant)
    for source, target in converted:
        factor = graph.scale_of(target.result) / graph.scale_of(source.input)
        array = np.full((1,) * len(graph.shape_of(source.result)), factor, np.float32)
        constant = ConstantOp.from_array(array, f32, location=source.location)
        scaled = graph.BinaryOp(Binary.MUL, source.result, constant.result, result_element=f32)
        scaled.location = source.location
        for each in (constant, scaled):
            block.insert_op_before(each, target)
        target.operands[0] = scaled.result


class _Scales:
    """
    Returns the scale of a logarithm. Values that must have equal types have equal logarithms except
    for rounding, and get the same scale.
    """

    def __init__(self) -> None:
        self._known: dict[int, float] = {}

    def of(self, logarithm: float) -> float:
        place = round(logarithm / SAME_LOGARITHM)
        for near in (place, place - 1, place + 1):
            if near in self._known:
                return self._known[near]
        self._known[place] = 2.0**logarithm
        return self._known[place]


def _unsupported(op: Operation) -> UnsupportedError:
    message = (
        "no scales agree with all multipliers, or they exceed 2^400; rescale by smaller factors, "
        "or to 8 bits"
    )
    return UnsupportedError([Finding(node_name(op), op.name, f"unsupported {op.name}: {message}")])


def _operation_at(value: SSAValue) -> Operation:
    """Return the operation that computes a value, or the first operation that uses it."""
    owner = value.owner
    return owner if isinstance(owner, Operation) else next(iter(value.uses)).operation


def _values(block: Block) -> Iterator[SSAValue]:
    yield from block.args
    for op in block.ops:
        yield from op.results


def _is_weight(value: SSAValue) -> bool:
    """Return whether `value` is a constant that is the weights or the bias of a layer."""
    if not isinstance(value.owner, ConstantOp):
        return False
    users = [use.operation for use in value.uses]
    return any(
        isinstance(user, graph.LinearOperation) and (value is user.weights or value is user.bias)
        for user in users
    )


def _retype(value: SSAValue, element: UniformType) -> None:
    kind = TensorType(element, graph.shape_of(value))
    if value.type != kind:
        location = value.location if isinstance(value, BlockArgument) else None
        changed = Rewriter.replace_value_with_new_type(value, kind)
        if location is not None and isinstance(changed, BlockArgument):
            changed.location = location


def _set_weights(op: graph.LinearOperation, requant: RequantAttr) -> None:
    """
    Set the scales of the constant weights and bias of `op`, so that the multipliers of `requant`
    are exact.
    """
    if not isinstance(op.weights.owner, ConstantOp):
        return
    unit = graph.scale_of(op.result) / 2.0**requant.shift.data
    accumulators = [multiplier * unit for multiplier in requant.multipliers]
    source = graph.scale_of(op.input)
    for value, scales in (
        (op.weights, [a / source for a in accumulators]),
        (op.bias, accumulators),
    ):
        element = None if value is None else quantized_element(value)
        if value is None or element is None:
            continue
        point, listed = element.zero_points.data[0].data, len(scales) > 1
        _retype(
            value,
            UniformType(
                scales if listed else scales[0],
                [point] * len(scales) if listed else point,
                storage=element.storage,
                axis=0 if listed else None,
            ),
        )


def _converted(op: Operation) -> Conversion:
    """
    Insert a conversion of an operand of `op` to another scale, in float, and return the value
    before and after it. Integers of 32 bits do not fit a float, so the operand of the operation
    that computes them is converted instead.
    """
    while True:
        value = op.operands[0]
        element = quantized_element(value)
        if element is None:
            raise _unsupported(op)
        if element.storage.width.data <= 16:
            break
        producer = value.owner
        if not isinstance(producer, graph.RequantizeOp | graph.BinaryOp):
            raise _unsupported(op)
        op = producer
    block = op.parent_block()
    assert block is not None
    source = graph.DequantizeOp(value)
    target = graph.QuantizeOp(source.result, element)
    for each in (source, target):
        each.location = op.location
        block.insert_op_before(each, op)
    op.operands[0] = target.result
    return source, target


def _factor(requant: RequantAttr) -> float:
    return requant.multiplier.data / 2.0**requant.shift.data


def _pins(op: Operation) -> Iterator[Equation]:
    """
    Yield equations for values that must have scale 1, because `op` converts them from or to plain
    integers.
    """
    if isinstance(op, graph.CastOp) and quantized_element(op.input) is not None:
        yield {op.input: 1.0}, 0.0
    if isinstance(op, graph.QuantizeOp):
        yield {op.result: 1.0}, 0.0


def _equations(op: Operation) -> Iterator[Equation]:
    match op:
        case graph.LinearOperation(requant=RequantAttr() as requant):
            if not isinstance(op.weights.owner, ConstantOp):
                yield _product(op.result, op.input, op.weights, requant)
        case graph.BinaryOp(requant=RequantAttr() as requant):
            if op.function is Binary.MUL:
                yield _product(op.result, op.lhs, op.rhs, requant)
                return
            addends = op.addends or (None, None)
            for side, shift, addend in zip((op.lhs, op.rhs), op.shifts, addends, strict=True):
                factor = 1.0 if addend is None else _factor(addend)
                yield _ratio(op.result, side, 2.0**shift * factor * _factor(requant))
        case graph.Pool2dOp(requant=RequantAttr() as requant):
            yield _ratio(op.result, op.input, _factor(requant) * prod(op.kernel.get_values()))
        case graph.RequantizeOp(requant=requant):
            yield _ratio(op.result, op.input, _factor(requant))
        case graph.CastOp() | graph.LookupOp() | graph.ArgOp() | ConstantOp():
            return
        case graph.QuantizeOp() | graph.DequantizeOp():
            return
        case graph.GraphOperation():
            values = [v for v in (*op.operands, *op.results) if _is_stored(v)]
            for value in values[1:]:
                yield _ratio(value, values[0], 1.0)
        case _:
            return


def _is_stored(value: SSAValue) -> bool:
    return quantized_element(value) is not None


def _ratio(result: SSAValue, operand: SSAValue, factor: float) -> Equation:
    """
    Return the equation: the scale of `result` is the scale of `operand`, divided by `factor`, by
    which integers are multiplied.
    """
    if result is operand:
        return {}, 0.0
    return {result: 1.0, operand: -1.0}, -log2(factor)


def _product(result: SSAValue, a: SSAValue, b: SSAValue, requant: RequantAttr) -> Equation:
    terms = {result: 1.0}
    for operand in (a, b):
        terms[operand] = terms.get(operand, 0.0) - 1.0
    return terms, -log2(_factor(requant))


class _Solver:
    """
    Solves linear equations between the logarithms of scales, one after the other; each equation
    determines the scale of a value.
    """

    def __init__(self) -> None:
        self._solved: dict[SSAValue, Equation] = {}

    @classmethod
    def of(cls, block: Block, free: Container[SSAValue]) -> dict[SSAValue, float]:
        """
        Return the logarithm (base 2) of the scale of each value in `block`. Values in `free` need
        not have scale 1. Raise a `_ContradictionError` if there is no solution.
        """
        solver = cls()
        ops: Sequence[Operation] = list(block.ops)
        for find in (_pins, _equations):
            for op in ops:
                if find is _pins and op.results and op.results[0] in free:
                    continue
                for equation in find(op):
                    if not solver._add(equation):
                        raise _ContradictionError(op)
        # A scale that no equation determines is 1.
        return {value: solver._reduced({value: 1.0}, 0.0)[1] for value in _values(block)}

    def _add(self, equation: Equation) -> bool:
        """
        Add an equation; a redundant equation has no effect. Return False, without adding it, if the
        equation contradicts the earlier equations.
        """
        terms, number = self._reduced(equation[0], 0.0)
        number = equation[1] - number
        if not terms:
            return abs(number) <= TOLERANCE
        # The first value of an equation is the result, which depends on the operands.
        value = next((v for v in equation[0] if v in terms), next(iter(terms)))
        coefficient = terms.pop(value)
        rest = {v: -c / coefficient for v, c in terms.items()}
        self._solved[value] = rest, number / coefficient
        return True

    def _reduced(self, terms: Terms, number: float) -> tuple[dict[SSAValue, float], float]:
        """
        Replace the values in a sum of `terms` plus `number` by the values that determine their
        scales. Return the terms of values that are not determined, and the number.
        """
        found: dict[SSAValue, float] = {}
        waiting = list(terms.items())
        while waiting:
            value, coefficient = waiting.pop()
            if (known := self._solved.get(value)) is None:
                found[value] = found.get(value, 0.0) + coefficient
                continue
            number += coefficient * known[1]
            waiting += [(v, coefficient * c) for v, c in known[0].items()]
        return {v: c for v, c in found.items() if abs(c) > TOLERANCE}, number
