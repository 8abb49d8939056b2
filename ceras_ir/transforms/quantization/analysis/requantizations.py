"""How often a quantized network changes a scale at run time by an operation of its own."""

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph

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


def runtime_requantizations(main: FuncOp) -> int:
    """
    The number of operations that do nothing but rescale. One that also clips stands for a
    function of the network, which it would cost anyway.
    """
    count = 0
    for op in main.body.block.ops:
        if isinstance(op, graph.RequantizeOp):
            element = graph.quantized_element(op.result)
            assert element is not None
            clips = op.requant.low.data > element.low or op.requant.high.data < element.high
            count += not clips
    return count
