"""
What holds of every operation of a class, for analyses to ask instead of naming classes.

An answer that depends on an operation's attributes is a property of `GraphOperation`, which
also verifies what can be seen of these traits on one operation.
"""

from xdsl.ir import Operation, SSAValue
from xdsl.traits import OpTrait


class Elementwise(OpTrait):
    """
    Element `i` of the result is computed from element `i` of every operand, each broadcast as
    numpy does, and from nothing else, unless the operation `depends_on_channel`.
    """


class MayOverwrite(OpTrait):
    """Every target's kernel is exact where the result lies over an operand of its shape."""


class MovesElements(OpTrait):
    """The result has elements of the one operand, in any places; nothing is computed."""


class View(MovesElements):
    """The result is the bytes of the one operand under another shape."""


class CopiesAtBorder(OpTrait):
    """The result is the operand in the layout of another device's memory."""


def viewed(op: Operation) -> SSAValue | None:
    """The operand whose bytes the result of `op` is, or None."""
    return op.operands[0] if op.has_trait(View, value_if_unregistered=False) else None
