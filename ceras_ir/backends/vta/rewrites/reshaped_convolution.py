"""Put another convolution with the same epilogue in the place of one whose input was reshaped."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph

Insert = Callable[[graph.GraphOperation], SSAValue]
"""Puts an operation where the next of a rewrite comes; gives its result."""


def inserting_before(op: graph.GraphOperation) -> Insert:
    """Operations go before `op` and have its location."""
    at = InsertPoint.before(op)

    def insert(new: graph.GraphOperation) -> SSAValue:
        new.location = op.location
        Rewriter.insert_op(new, at)
        return new.output

    return insert


def replace_convolution(
    op: graph.Conv2dOp,
    insert: Insert,
    value: SSAValue,
    weights: NDArray[np.generic],
    padding: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    bias: NDArray[np.int32] | None = None,
) -> None:
    """
    The convolution of `value` by `weights` [O, KH, KW, C], without strides, for `op`, whose
    residual and rescaling it takes over, and whose bias, if there is no other.
    """
    constant = graph.ConstantOp.from_array(
        np.ascontiguousarray(weights), graph.element_of(op.weights)
    )
    added = op.bias
    if bias is not None and added is not None:
        added = insert(graph.ConstantOp.from_array(bias, graph.element_of(added)))
    new = graph.Conv2dOp(
        value,
        insert(constant),
        added,
        op.residual,
        result_element=graph.element_of(op.result),
        padding=padding,
        dilations=dilations,
        activation=op.activation,
        requant=op.requant,
        residual_shift=op.residual_left_shift if op.residual_shift is not None else None,
    )
    new.attributes.update(op.attributes)
    makers = [value.owner for value in (op.weights, op.bias) if value is not None]
    op.result.replace_all_uses_with(insert(new))
    op.detach()
    op.erase()
    for old in makers:
        if isinstance(old, Operation) and not old.results[0].uses:
            old.detach()
            old.erase()
