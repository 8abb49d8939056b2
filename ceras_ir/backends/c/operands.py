"""What kernels ask of their operands."""

from xdsl.ir import SSAValue

from ceras_ir.backends.c.requant import Refused
from ceras_ir.dialects.graph import ConstantOp, LinearOperation, element_of
from ceras_ir.dialects.quant import UniformType


def quantized(value: SSAValue, name: str) -> UniformType:
    """The element type of an operand known to be quantized; refuses what has no kernel."""
    element = element_of(value)
    assert isinstance(element, UniformType)
    if element.storage.width.data == 32 and not element.is_signed:
        raise Refused(f"{name} is stored as {element.storage}; use i32 or 8 or 16 bits")
    if len({z.data for z in element.zero_points}) > 1:
        raise Refused(f"{name} has a zero point per channel; use one for all channels")
    return element


def constant_weights(op: LinearOperation) -> ConstantOp:
    """The weights, which a kernel packs at compile time."""
    owner = op.weights.owner
    if not isinstance(owner, ConstantOp):
        raise Refused("weights must be constants; fold or freeze what computes them")
    return owner
