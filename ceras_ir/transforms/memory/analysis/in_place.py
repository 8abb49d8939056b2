"""
Which operations may write their result over an operand that nothing reads afterwards.

An operation qualifies that reads element `i` of the operand for element `i` of the result and
for nothing else; then every target's kernel is exact with both at one address.
"""

from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import (
    BinaryOp,
    ConstantOp,
    LookupOp,
    RequantizeOp,
    ShiftSwishOp,
    UnaryOp,
    numpy_dtype,
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
