"""
Which operations may write their result over an operand that nothing reads afterwards.

An operation qualifies that reads element `i` of the operand for element `i` of the result and
for nothing else; then every target's kernel is exact with both at one address.
"""

from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import (
    BinaryOp,
    ConcatOp,
    ConstantOp,
    LookupOp,
    RequantizeOp,
    ShiftSwishOp,
    UnaryOp,
    numpy_dtype,
    shape_of,
    tensor_type,
)

ELEMENTWISE = (UnaryOp, BinaryOp, LookupOp, ShiftSwishOp, RequantizeOp)


def may_overwrite(op: Operation, operand: SSAValue) -> bool:
    """Whether `op` is exact when its result lies where `operand` lies."""
    if not isinstance(op, ELEMENTWISE) or isinstance(operand.owner, ConstantOp):
        return False
    old, new = tensor_type(operand), tensor_type(op.results[0])
    stored = numpy_dtype(old.element_type), numpy_dtype(new.element_type)
    return old.get_shape() == new.get_shape() and stored[0] == stored[1]


def slices(op: ConcatOp) -> list[tuple[SSAValue, int]]:
    """
    The operands with the first byte of each in the result, if each is one run of bytes there:
    then those who make them can write them to their places. Nothing for an operand that is
    there twice, or where they alternate.
    """
    if prod(shape_of(op.result)[: op.axis.value.data]) != 1:
        return []
    size = numpy_dtype(tensor_type(op.result).element_type).itemsize
    found: list[tuple[SSAValue, int]] = []
    start = 0
    for operand in op.operands:
        found.append((operand, start))
        start += prod(shape_of(operand)) * size
    return [(v, start) for v, start in found if sum(v is other for other in op.operands) == 1]
