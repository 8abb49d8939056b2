"""How often a quantized network changes a scale at run time by an operation of its own."""

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.dialects.func import FuncOp

REQUANTIZATIONS = "graph.requantizations"
"""Attribute of the function: rescalings at run time `before` and `after` the alignment."""


def alignment(main: FuncOp) -> tuple[int, int] | None:
    """How many there were before scales were aligned, and after, if they were."""
    known = main.attributes.get(REQUANTIZATIONS)
    if not isinstance(known, DictionaryAttr):
        return None
    before, after = (known.data.get(name) for name in ("before", "after"))
    if not isinstance(before, IntegerAttr) or not isinstance(after, IntegerAttr):
        return None
    return before.value.data, after.value.data
