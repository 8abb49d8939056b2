"""Put another convolution with the same epilogue in the place of one whose input was reshaped."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.backends.vta.rewrites.spare_lanes import SpareLanes
from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK, MaskAttr
from ceras_ir.transforms.rebuilding import erase_unused

Weights = NDArray[np.generic]
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


def arrangeable_weights(op: graph.Conv2dOp) -> Weights | None:
    """
    The weights of a quantized convolution that zeros may be put between, or None: where weights
    have a zero point, which the accelerator does not take either, a stored 0 is another number.
    """
    weights, element = graph.constant_array(op.weights), graph.quantized_element(op.input)
    kind = graph.quantized_element(op.weights)
    if element is None or element.is_per_axis or kind is None:
        return None
    return None if any(point.data for point in kind.zero_points) else weights


def replace_convolution(
    op: graph.Conv2dOp,
    insert: Insert,
    value: SSAValue,
    arranged: Callable[[Weights], Weights],
    padding: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    spare: SpareLanes | None = None,
) -> None:
    """
    The convolution of `value` without strides for `op`, whose bias, residual and rescaling it takes
    over. `arranged` makes the new weights [O, KH, KW, C] of the old ones, and a mask of a mask: all
    that it adds is zero. Weights and bias of `spare`, if any, take their place.
    """
    weights = arranged(graph.known_array(op.weights)) if spare is None else spare.weights
    weights = np.ascontiguousarray(weights)
    constant = graph.ConstantOp.from_array(weights, graph.element_of(op.weights))
    added = op.bias
    if spare is not None and added is not None:
        added = insert(graph.ConstantOp.from_array(spare.bias, graph.element_of(added)))
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
        residual_shift=None if op.residual_shift is None else op.residual_shifts,
    )
    new.attributes.update(op.attributes)
    if isinstance(mask := op.attributes.get(MASK), MaskAttr):
        kept = np.ones(weights.shape, np.bool_)
        plain = arranged(mask.array) != 0
        kept[..., : plain.shape[-1]] = plain
        new.attributes[MASK] = MaskAttr.of(kept)
    makers = [value.owner for value in (op.weights, op.bias) if value is not None]
    op.result.replace_all_uses_with(insert(new))
    op.detach()
    op.erase()
    for old in makers:
        if isinstance(old, Operation):
            erase_unused(old)
