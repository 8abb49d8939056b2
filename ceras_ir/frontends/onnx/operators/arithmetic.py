"""
Import elementwise arithmetic with broadcasting, on floats and integers.

A division by a constant becomes a product with the reciprocal, which adds a rounding: 41 / 41 is
just below 1. Arithmetic does not depend on the last bit, but Floor, Ceil, Round, conversions to
integers and comparisons do. A quotient that is an operand of these remains a division.
"""

from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Function, element_of, plain_element
from ceras_ir.dialects.graph.attributes import MovesElements
from ceras_ir.dialects.graph.elementwise import BinaryAttr
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.quantization import clipped, is_quantized
from ceras_ir.frontends.onnx.emission.registry import operator
from ceras_ir.frontends.onnx.emission.values import Constant, Value, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.model.model_file import element_type
from ceras_ir.frontends.onnx.model.node import Node

GRAPH_BINARY = {
    "Add": Binary.ADD,
    "Mul": Binary.MUL,
    "Sub": Binary.SUB,
    "And": Binary.AND,
    "Or": Binary.OR,
    "Xor": Binary.XOR,
    "BitwiseAnd": Binary.AND,
    "BitwiseOr": Binary.OR,
    "BitwiseXor": Binary.XOR,
}


@operator(*GRAPH_BINARY)
def binary(node: Node, emitter: Emitter) -> Value:
    """Import an elementwise operator of two operands with broadcasting, such as Add or And."""
    node.ignore("consumed_inputs")
    kind = GRAPH_BINARY[node.operator]
    return emitter.binary(kind, emitter.value(0), _aligned(node, emitter))


def _aligned(node: Node, emitter: Emitter) -> Value:
    """
    Return the second operand. Before opset 7, the dimensions of the second operand may start at
    dimension `axis` of the first; it is then reshaped so that it broadcasts.
    """
    value = emitter.value(1)
    if node.opset >= 7:
        return value
    rank, shape = len(emitter.shape(0)), emitter.shape(1)
    start = node.integer("axis", rank - len(shape))
    if not node.flag("broadcast") or not shape:
        return value
    start = node.axis(start, rank)
    return emitter.reshaped(value, (*shape, *(1,) * (rank - start - len(shape))))


@operator("Sum", "Mean")
def add_all(node: Node, emitter: Emitter) -> Value:
    """
    Import Sum, which adds any number of operands from left to right, or Mean, their sum divided by
    their number.
    """
    operands = emitter.operands()
    total = reduce(lambda a, b: emitter.binary(Binary.ADD, a, b), operands)
    if node.operator == "Sum":
        return total
    return emitter.div(total, emitter.number(len(operands)))


EXTREMES = {"Min": Binary.MIN, "Max": Binary.MAX}


@operator(*EXTREMES)
def extreme(node: Node, emitter: Emitter) -> Value:
    """Import Max or Min of any number of operands. A constant scalar becomes a bound of a clip."""
    kind = EXTREMES[node.operator]
    return reduce(lambda a, b: _extreme(emitter, kind, a, b), emitter.operands())


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
            bounds = (number, np.inf) if kind is Binary.MAX else (-np.inf, number)
            if is_quantized(value):
                return clipped(emitter, value, *bounds)
            if bounds == (0.0, np.inf):
                return emitter.unary(Function.RELU, value)
            return emitter.unary(Function.CLIP, value, *bounds)
    return emitter.binary(kind, a, b)


@operator("Neg")
def negate(node: Node, emitter: Emitter) -> Value:
    """Import Neg: multiply floats by -1, which is exact; subtract integers from 0."""
    value = emitter.value(0)
    if emitter.is_float(value):
        minus_one = emitter.constant(np.array(-1, np.float32), "minus_one")
        return emitter.binary(Binary.MUL, value, minus_one)
    return emitter.sub(emitter.number(0, value), value)


@operator("Reciprocal")
def reciprocal(node: Node, emitter: Emitter) -> Value:
    """Import Reciprocal: divide 1 by the operand."""
    return emitter.div(emitter.number(1), emitter.value(0))


@operator("Div")
def divide(node: Node, emitter: Emitter) -> Value:
    """
    Import Div. A constant float divisor becomes a product with the reciprocal; `divide_exactly`
    changes this again if the result is rounded or compared.
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
    Import Pow. Constant exponents 1/2, 1, 2 and 3 become a root or products; integer powers are
    exact.
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
    exact = emitter.binary(Binary.POW, base, emitter.cast(exponent, integer))
    if not emitter.is_float(exponent):
        return exact
    real = emitter.binary(Binary.POW, emitter.cast(base), exponent)
    is_integer = emitter.compare(Compare.EQUAL, exponent, emitter.unary(Function.FLOOR, exponent))
    return emitter.select(is_integer, exact, emitter.cast(real, integer))


@operator("Abs")
def absolute(node: Node, emitter: Emitter) -> Value:
    """Import Abs. For integers it is the maximum of `x` and `0 - x`."""
    value = emitter.value(0)
    if emitter.is_float(value):
        return emitter.unary(Function.ABS, value)
    if dtype_of_value(value).kind == "u":
        return value
    return emitter.binary(Binary.MAX, value, emitter.sub(emitter.number(0, value), value))


@operator("Sign")
def sign(node: Node, emitter: Emitter) -> Value:
    """Import Sign: 1, 0 or -1. Integers are clamped to this range."""
    value = emitter.value(0)
    if emitter.is_float(value):
        return emitter.unary(Function.SIGN, value)
    low = 0 if dtype_of_value(value).kind == "u" else -1
    bounded = emitter.binary(Binary.MIN, value, emitter.number(1, value))
    return emitter.binary(Binary.MAX, bounded, emitter.number(low, value))


@operator("Not")
def negation(node: Node, emitter: Emitter) -> Value:
    """Import Not: an exclusive or with true."""
    value = emitter.value(0)
    return emitter.binary(Binary.XOR, value, emitter.number(1, value))


COMPARISON_OPERATORS = {
    "Equal": (Compare.EQUAL, False),
    "Less": (Compare.LESS, False),
    "LessOrEqual": (Compare.LESS_OR_EQUAL, False),
    "Greater": (Compare.LESS, True),
    "GreaterOrEqual": (Compare.LESS_OR_EQUAL, True),
}
"""The relation, and whether the operands are exchanged."""


@operator(*COMPARISON_OPERATORS)
def compare(node: Node, emitter: Emitter) -> Value:
    """Import a comparison. Greater becomes a comparison by less with exchanged operands."""
    kind, swapped = COMPARISON_OPERATORS[node.operator]
    a, b = emitter.value(0), _aligned(node, emitter)
    if dtype_of_value(a) != dtype_of_value(b):
        raise node.wrong(f"operands of types {dtype_of_value(a)} and {dtype_of_value(b)}")
    return emitter.compare(kind, *((b, a) if swapped else (a, b)))


@operator("Where")
def where(node: Node, emitter: Emitter) -> Value:
    """
    Import Where: for each element, the second operand if the condition is true, else the third.
    """
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
    """
    Record in an attribute that `product`, a product with a reciprocal, replaces a division by
    `divisor`.
    """
    if isinstance(product, SSAValue) and isinstance(op := product.owner, graph.BinaryOp):
        kind = TensorType(f32, divisor.shape)
        op.attributes[DIVISOR] = DenseIntOrFPElementsAttr.from_list(kind, divisor.ravel().tolist())


def divide_exactly(module: ModuleOp) -> None:
    """
    Change products that `mark_quotient` has recorded to divisions if a consumer rounds or compares
    the result, since the last bit then matters. Remove all records.
    """
    for op in [*module.walk()]:
        divisor = op.attributes.pop(DIVISOR, None)
        if divisor is None or not isinstance(op, graph.BinaryOp) or not _is_rounded(op):
            continue
        assert isinstance(divisor, DenseIntOrFPElementsAttr)
        numbers = np.array(divisor.get_values(), np.float32).reshape(graph.shape_of(op.rhs))
        constant = graph.ConstantOp.from_array(numbers, f32)
        constant.location = op.location
        Rewriter.insert_op(constant, InsertPoint.before(op))
        # Change the operation in place, because the importer has records of values.
        op.properties["kind"] = BinaryAttr(Binary.DIV)
        op.operands[1] = constant.result


def _is_rounded(quotient: graph.BinaryOp) -> bool:
    """
    Return whether `quotient` is rounded or compared, possibly after sums, clips and data movement.
    """
    visited: set[Operation] = {quotient}
    pending: list[SSAValue] = [quotient.result]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if _rounds(op):
                return True
            if op not in visited and _continues(op):
                visited.add(op)
                pending += op.results
    return False


def _rounds(op: Operation) -> bool:
    match op:
        case graph.UnaryOp():
            return op.function.data in ROUNDING_FUNCTIONS
        case graph.CastOp():
            return graph.element_of(op.result) != f32
        case _:
            return isinstance(op, graph.CompareOp)


def _continues(op: Operation) -> bool:
    match op:
        case graph.UnaryOp():
            return op.function.data in CONTINUING_FUNCTIONS
        case graph.BinaryOp():
            return op.function in CONTINUING_ARITHMETIC
        case _:
            return isinstance(op, graph.SelectOp) or op.has_trait(MovesElements)


@operator("BitwiseNot")
def bitwise_not(node: Node, emitter: Emitter) -> Value:
    """Import BitwiseNot: an exclusive or with -1."""
    value = emitter.value(0)
    ones = np.array(-1).astype(dtype_of_value(value))
    return emitter.binary(Binary.XOR, value, emitter.constant(ones, "ones"))


@operator("BitShift")
def bit_shift(node: Node, emitter: Emitter) -> Value:
    """
    Import BitShift: multiply or divide by a power of 2. If all bits are shifted out, the power
    wraps to 0, and a division by 0 is 0.
    """
    value = emitter.value(0)
    factor = emitter.binary(Binary.POW, emitter.number(2, value), emitter.value(1))
    direction = node.string("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise node.wrong(f"attribute 'direction' must be LEFT or RIGHT, got '{direction}'")
    if direction == "RIGHT" and dtype_of_value(value).kind == "i":
        # Round down: negative numbers are shifted with inverted bits.
        below = emitter.compare(Compare.LESS, value, emitter.number(0, value))
        ones = emitter.select(below, emitter.number(-1, value), emitter.number(0, value))
        quotient = emitter.div(emitter.binary(Binary.XOR, value, ones), factor)
        return emitter.binary(Binary.XOR, quotient, ones)
    return (emitter.mul if direction == "LEFT" else emitter.div)(value, factor)


@operator("BitCast")
def bit_cast(node: Node, emitter: Emitter) -> Value:
    """Import BitCast between integers of equal width: only the signedness changes."""
    value, kind = emitter.value(0), element_type(node.integer("to", 0))
    old = dtype_of_value(value)
    if kind is None or kind.itemsize != old.itemsize or "f" in (kind.kind, old.kind):
        raise node.unsupported(f"from {old} to {kind}, expected integers of equal width: use Cast")
    element = plain_element(kind)
    assert element is not None
    return emitter.cast(value, element)


@operator("Mod")
def remainder(node: Node, emitter: Emitter) -> Value:
    """
    Import Mod: with `fmod`, `x - y * trunc(x / y)`, which has the sign of `x`; otherwise the
    remainder has the sign of the divisor `y`.
    """
    x, y = (emitter.value(i) for i in (0, 1))
    if not emitter.is_float(x):
        rest = emitter.sub(x, emitter.mul(y, emitter.div(x, y)))
        if node.flag("fmod") or dtype_of_value(x).kind == "u":
            return rest
        zero = emitter.number(0, x)
        signs = emitter.compare(Compare.LESS, emitter.binary(Binary.XOR, rest, y), zero)
        other = emitter.compare(Compare.EQUAL, rest, zero)
        return emitter.select(other, rest, emitter.select(signs, emitter.add(rest, y), rest))
    # A quotient above 2^24 has no fraction, so no digit of the remainder is correct.
    quotient = emitter.div(x, y)
    size = emitter.unary(Function.FLOOR, emitter.unary(Function.ABS, quotient))
    truncated = emitter.mul(size, emitter.unary(Function.SIGN, quotient))
    zero = emitter.number(0)
    # An infinite divisor times 0 would be NaN; the remainder is the dividend.
    is_less = emitter.compare(Compare.EQUAL, truncated, zero)
    rest = emitter.select(is_less, x, emitter.sub(x, emitter.mul(y, truncated)))
    if node.flag("fmod"):
        return rest
    below = [emitter.compare(Compare.LESS, v, zero) for v in (rest, y)]
    is_other = emitter.binary(Binary.XOR, *below)
    is_zero = emitter.compare(Compare.EQUAL, rest, zero)
    return emitter.select(is_zero, rest, emitter.select(is_other, emitter.add(rest, y), rest))
