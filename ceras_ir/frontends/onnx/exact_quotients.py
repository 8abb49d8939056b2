"""
Divide by a constant exactly where the quotient is rounded to an integer or compared.

The importer replaces a division by a constant by a product with the reciprocal, which adds a
rounding: 41 / 41 is just below 1. Arithmetic does not depend on the last bit. Floor, Ceil, Round,
conversions to integers and comparisons do. A quotient that reaches them remains a division.
"""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function
from ceras_ir.dialects.graph.elementwise import BinaryAttr
from ceras_ir.dialects.graph.traits import MovesElements
from ceras_ir.frontends.onnx.values import Value

DIVISOR = "graph.divisor"
"""The attribute of a product that replaces a quotient, during the import of a model."""

ROUNDING = (Function.FLOOR, Function.CEIL, Function.ROUND, Function.SIGN)
CONTINUED = (Function.RELU, Function.CLIP, Function.ABS, Function.LEAKY_RELU)
ARITHMETIC = (Binary.ADD, Binary.SUB, Binary.MUL, Binary.MAX, Binary.MIN)


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
            return op.function.kind in ROUNDING
        case graph.CastOp():
            return graph.element_of(op.result) != f32
        case _:
            return isinstance(op, graph.CompareOp)


def _continues(op: Operation) -> bool:
    match op:
        case graph.UnaryOp():
            return op.function.kind in CONTINUED
        case graph.BinaryOp():
            return op.function in ARITHMETIC
        case _:
            return isinstance(op, graph.SelectOp) or op.has_trait(MovesElements)
