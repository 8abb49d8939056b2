"""
Which operations may write their result over an operand that nothing reads afterwards.

An operation says so by the trait `MayOverwrite`: it reads element `i` of the operand for element
`i` of the result and for nothing else, and every target's kernel is exact with both at one address.
"""

from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import ConstantOp, numpy_dtype, tensor_type
from ceras_ir.dialects.graph.attributes import MayOverwrite


def may_overwrite(op: Operation, operand: SSAValue) -> bool:
    """Whether `op` is exact when its result lies where `operand` lies."""
    if not op.has_trait(MayOverwrite, value_if_unregistered=False):
        return False
    if isinstance(operand.owner, ConstantOp):
        return False
    old, new = tensor_type(operand), tensor_type(op.results[0])
    stored = numpy_dtype(old.element_type), numpy_dtype(new.element_type)
    return old.get_shape() == new.get_shape() and stored[0] == stored[1]
