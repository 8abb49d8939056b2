"""Find the stored operands of float operations in a network with Q/DQ."""

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.storage import NARROW, WIDE


def stored_operand(value: SSAValue, widest: int | None = WIDE) -> SSAValue | None:
    """
    Return the operand of the dequantization that computes `value`. Return `None` if there is no
    dequantization, if it has a scale per channel, or if the integers have more than `widest` bits.
    """
    owner = value.owner
    if not isinstance(owner, graph.DequantizeOp) or graph.is_per_axis(owner.input):
        return None
    bits = graph.stored_element(owner.input).storage.width.data
    return None if widest is not None and bits > widest else owner.input


def stored_weights(value: SSAValue) -> SSAValue | None:
    """
    Return the stored constant from which the weights `value` of a layer are dequantized. Return
    `None` if they are computed or float, have more than 8 bits, or have scales along another axis
    than the output channels.
    """
    stored = constant_operand(value)
    kind = None if stored is None else graph.quantized_element(stored)
    if kind is None or kind.width > NARROW:
        return None
    # Only scales along the output channels can be factored out of the sum.
    return None if isinstance(kind.axis, IntAttr) and kind.axis.data != 0 else stored


def constant_operand(value: SSAValue) -> SSAValue | None:
    """
    Return the constant that is `value`, or from which it is dequantized; `None` if it is computed.
    """
    owner = value.owner
    source = owner.input if isinstance(owner, graph.DequantizeOp) else value
    return source if isinstance(source.owner, graph.ConstantOp) else None
