"""How often a quantized network changes a scale at run time by an operation of its own."""

from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph


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
