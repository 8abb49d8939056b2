"""
Elementwise arithmetic with broadcasting.

A division by a constant is a product with the reciprocal, which adds a rounding: 41 / 41 is just
below 1. Arithmetic does not depend on the last bit. Floor, Ceil, Round, conversions to integers and
comparisons do. A quotient that reaches them remains a division.
"""

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Function, element_of
from ceras_ir.dialects.graph.attributes import MovesElements
from ceras_ir.dialects.graph.elementwise import BinaryAttr
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.quantization import clipped, is_quantized
from ceras_ir.frontends.onnx.emission.registry import operator
from ceras_ir.frontends.onnx.emission.values import Constant, Value, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node

BINARY_OPERATORS = {"Add": Binary.ADD, "Mul": Binary.MUL, "Sub": Binary.SUB}


@operator(*BINARY_OPERATORS)
def binary(node: Node, emitter: Emitter) -> Value:
    """Sum, product or difference of two."""
    node.ignore("consumed_inputs")
    return emitter.binary(
        BINARY_OPERATORS[node.operator], emitter.value(0), _aligned(node, emitter)
    )


def _aligned(node: Node, emitter: Emitter) -> Value:
    """The second operand; before opset 7 its dimensions may start at `axis` of the first."""
    value = emitter.value(1)
    if node.opset >= 7:
        return value
    rank, shape = len(emitter.shape(0)), emitter.shape(1)
    start = node.integer("axis", rank - len(shape))
    if not node.flag("broadcast") or not shape:
        return value
    start = node.axis(start, rank)
    return emitter.reshaped(value, (*shape, *(1,) * (rank - start - len(shape))))


def _operands(node: Node, emitter: Emitter) -> Sequence[Value]:
    return [emitter.value(i) for i in range(max(len(node.inputs), 1))]


@operator("Sum", "Mean")
def add_all(node: Node, emitter: Emitter) -> Value:
    """Any number of summands, added from the left; their mean is the sum times a reciprocal."""
    operands = _operands(node, emitter)
    total = reduce(lambda a, b: emitter.binary(Binary.ADD, a, b), operands)
    if node.operator == "Sum":
        return total
    return emitter.div(total, emitter.number(len(operands)))


EXTREMES = {"Min": Binary.MIN, "Max": Binary.MAX}


@operator(*EXTREMES)
def extreme(node: Node, emitter: Emitter) -> Value:
    """
    Any number of operands; one constant number is a bound of a clip. Of what QuantizeLinear made,
    constant bounds are integers.
    """
    kind = EXTREMES[node.operator]
    return reduce(lambda a, b: _extreme(emitter, kind, a, b), _operands(node, emitter))


def _extreme(emitter: Emitter, kind: Binary, a: Value, b: Value) -> Value:
    for value, bound in ((a, b), (b, a)):
        if (
            isinstance(bound, Constant)
            and bound.dtype == dtype_of_value(value)
            and (emitter.is_float(value) or is_quantized(value))
            and prod(shape_of_value(bound)) == 1
            and 0 < len(shape_of_value(value)) >= len(shape_of_value(bound))
            and not np.isnan(number := float(bound.load().reshape(-1)[0]))
        ):
            ends = (number, np.inf) if kind is Binary.MAX else (-np.inf, number)
            if is_quantized(value):
                return clipped(emitter, value, *ends)
            if kind is Binary.MAX and number == 0.0:
                return emitter.unary(Function.RELU, value)
            return emitter.unary(Function.CLIP, value, *ends)
    return emitter.binary(kind, a, b)


@operator("Neg")
def negate(node: Node, emitter: Emitter) -> Value:
    """A product with -1, which is exact; of integers, 0 less them."""
    value = emitter.value(0)
    if emitter.is_float(value):
        minus_one = emitter.constant(np.array(-1, np.float32), "minus_one")
        return emitter.binary(Binary.MUL, value, minus_one)
    return emitter.sub(emitter.number(0, value), value)


@operator("Reciprocal")
def reciprocal(node: Node, emitter: Emitter) -> Value:
    """1 divided by the operand."""
    return emitter.div(emitter.number(1), emitter.value(0))


@operator("Div")
def divide(node: Node, emitter: Emitter) -> Value:
    """
    Division by a constant is a product with its reciprocal, rounded to float32 once more, unless
    the quotient is rounded to an integer or compared.
    """
    aligned = _aligned(node, emitter)
    if isinstance(aligned, Constant) and aligned.dtype == np.float32:
        divisor = emitter.floats(1).reshape(shape_of_value(aligned))
        with np.errstate(divide="ignore"):
            inverse = (1.0 / divisor.astype(np.float64)).astype(np.float32)
        if np.isfinite(inverse).all():
            factor = emitter.constant(inverse, "reciprocal")
            product = emitter.binary(Binary.MUL, emitter.value(0), factor)
            if not (inverse.astype(np.float64) * divisor == 1).all():
                mark_quotient(product, divisor)
            return product
    return emitter.binary(Binary.DIV, emitter.value(0), aligned)


@operator("Pow")
def power(node: Node, emitter: Emitter) -> Value:
    """
    Constant exponents 1/2, 1, 2 and 3 are a root and products. A float base takes an integer
    exponent as float; an integer base has its exact power for whole exponents.
    """
    base, exponent = emitter.value(0), _aligned(node, emitter)
    if emitter.is_float(base):
        if isinstance(exponent, Constant) and shape_of_value(exponent) in ((), (1,)):
            number = float(exponent.load().reshape(-1)[0])
            if number == 0.5:
                return emitter.unary(Function.SQRT, base)
            if number in (1.0, 2.0, 3.0) and shape_of_value(base):
                return reduce(emitter.mul, [base] * int(number))
        return emitter.binary(Binary.POW, base, emitter.cast(exponent))
    integer = element_of(emitter.materialize(base))
    whole = emitter.binary(Binary.POW, base, emitter.cast(exponent, integer))
    if not emitter.is_float(exponent):
        return whole
    real = emitter.binary(Binary.POW, emitter.cast(base), exponent)
    is_whole = emitter.compare(Compare.EQUAL, exponent, emitter.unary(Function.FLOOR, exponent))
    return emitter.select(is_whole, whole, emitter.cast(real, integer))


@operator("Abs")
def absolute(node: Node, emitter: Emitter) -> Value:
    """Without its sign; of integers, the greater of them and 0 less them."""
    value = emitter.value(0)
    if emitter.is_float(value):
        return emitter.unary(Function.ABS, value)
    if dtype_of_value(value).kind == "u":
        return value
    return emitter.binary(Binary.MAX, value, emitter.sub(emitter.number(0, value), value))


@operator("Sign")
def sign(node: Node, emitter: Emitter) -> Value:
    """1, 0 or -1; of integers, them clamped to that."""
    value = emitter.value(0)
    if emitter.is_float(value):
        return emitter.unary(Function.SIGN, value)
    low = 0 if dtype_of_value(value).kind == "u" else -1
    bounded = emitter.binary(Binary.MIN, value, emitter.number(1, value))
    return emitter.binary(Binary.MAX, bounded, emitter.number(low, value))


LOGIC = {"And": Binary.AND, "Or": Binary.OR, "Xor": Binary.XOR}


@operator(*LOGIC)
def logic(node: Node, emitter: Emitter) -> Value:
    """On truth values."""
    return emitter.binary(LOGIC[node.operator], emitter.value(0), _aligned(node, emitter))


@operator("Not")
def negation(node: Node, emitter: Emitter) -> Value:
    """Exclusive or with true."""
    value = emitter.value(0)
    return emitter.binary(Binary.XOR, value, emitter.number(1, value))


COMPARISON_OPERATORS = {
    "Equal": (Compare.EQUAL, False),
    "Less": (Compare.LESS, False),
    "LessOrEqual": (Compare.LESS_OR_EQUAL, False),
    "Greater": (Compare.LESS, True),
    "GreaterOrEqual": (Compare.LESS_OR_EQUAL, True),
}
"""The relation, and whether it holds the other way round."""


@operator(*COMPARISON_OPERATORS)
def compare(node: Node, emitter: Emitter) -> Value:
    """A comparison, of operands in the other order for `Greater`."""
    kind, swapped = COMPARISON_OPERATORS[node.operator]
    a, b = emitter.value(0), _aligned(node, emitter)
    if dtype_of_value(a) != dtype_of_value(b):
        raise node.wrong(f"operands of types {dtype_of_value(a)} and {dtype_of_value(b)}")
    return emitter.compare(kind, *((b, a) if swapped else (a, b)))


@operator("Where")
def where(node: Node, emitter: Emitter) -> Value:
    """The second operand where the first is true, else the third."""
    condition, a, b = (emitter.value(i) for i in range(3))
    if dtype_of_value(condition) != np.bool_ or dtype_of_value(a) != dtype_of_value(b):
        raise node.wrong("a condition of booleans and two operands of one type expected")
    return emitter.select(condition, a, b)


DIVISOR = "graph.divisor"
"""The attribute of a product that replaces a quotient, during the import of a model."""

ROUNDING_FUNCTIONS = (Function.FLOOR, Function.CEIL, Function.ROUND, Function.SIGN)
CONTINUING_FUNCTIONS = (Function.RELU, Function.CLIP, Function.ABS, Function.LEAKY_RELU)
CONTINUING_ARITHMETIC = (Binary.ADD, Binary.SUB, Binary.MUL, Binary.MAX, Binary.MIN)


def mark_quotient(product: Value, divisor: NDArray[np.float32]) -> None:
    """Record that `product` replaces a quotient by `divisor`."""
    if isinstance(product, SSAValue) and isinstance(op := product.owner, graph.BinaryOp):
        kind = TensorType(f32, divisor.shape)
        op.attributes[DIVISOR] = DenseIntOrFPElementsAttr.from_list(kind, divisor.ravel().tolist())


def divide_exactly(module: ModuleOp) -> None:
    """Change the noted products into divisions if the last bit decides; remove all notes."""
    for op in [*module.walk()]:
        divisor = op.attributes.pop(DIVISOR, None)
        if divisor is None or not isinstance(op, graph.BinaryOp) or not _is_rounded(op):
            continue
        assert isinstance(divisor, DenseIntOrFPElementsAttr)
        numbers = np.array(divisor.get_values(), np.float32).reshape(graph.shape_of(op.rhs))
        constant = graph.ConstantOp.from_array(numbers, f32)
        constant.location = op.location
        Rewriter.insert_op(constant, InsertPoint.before(op))
        # In place: the importer's records of values remain valid.
        op.properties["kind"] = BinaryAttr(Binary.DIV)
        op.operands[1] = constant.result


def _is_rounded(quotient: graph.BinaryOp) -> bool:
    """Return whether sums, clips or moves of a quotient reach a rounding or a comparison."""
    seen: set[Operation] = {quotient}
    pending: list[SSAValue] = [quotient.result]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if _rounds(op):
                return True
            if op not in seen and _continues(op):
                seen.add(op)
                pending += op.results
    return False


def _rounds(op: Operation) -> bool:
    match op:
        case graph.UnaryOp():
            return op.function.kind in ROUNDING_FUNCTIONS
        case graph.CastOp():
            return graph.element_of(op.result) != f32
        case _:
            return isinstance(op, graph.CompareOp)


def _continues(op: Operation) -> bool:
    match op:
        case graph.UnaryOp():
            return op.function.kind in CONTINUING_FUNCTIONS
        case graph.BinaryOp():
            return op.function in CONTINUING_ARITHMETIC
        case _:
            return isinstance(op, graph.SelectOp) or op.has_trait(MovesElements)
