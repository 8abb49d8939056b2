"""New operations from old ones: the same with other operands, type or epilogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, TypeVar

from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from ceras_ir.dialects import graph
from ceras_ir.network.storage import drop_statistics

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Linear = TypeVar("Linear", bound=graph.LinearOperation)
Number = TypeVar("Number", bound="np.floating")


def rebuild_linear(
    op: Linear,
    epilogue: Mapping[str, Attribute | None],
    *,
    input: SSAValue | None = None,
    weights: SSAValue | None = None,
    bias: SSAValue | EllipsisType | None = ...,
    residual: SSAValue | EllipsisType | None = ...,
    element: Attribute | None = None,
) -> Linear:
    """
    `op` with these operands and elements of the result in place of its own. `epilogue` replaces
    properties; None removes one. Location and discardable attributes stay.
    """
    bias = op.bias if isinstance(bias, EllipsisType) else bias
    residual = op.residual if isinstance(residual, EllipsisType) else residual
    kept = graph.element_of(op.result) if element is None else element
    properties = {k: v for k, v in op.properties.items() if k != "operandSegmentSizes"}
    properties |= {k: v for k, v in epilogue.items() if v is not None}
    new = type(op).build(
        operands=[
            op.input if input is None else input,
            op.weights if weights is None else weights,
            [] if bias is None else [bias],
            [] if residual is None else [residual],
        ],
        result_types=[graph.type_with_element(op.result, kept)],
        properties={k: v for k, v in properties.items() if epilogue.get(k, v) is not None},
        attributes=dict(op.attributes),
    )
    new.location = op.location
    return new


def with_operands(
    op: graph.GraphOperation, operands: Sequence[SSAValue], element: Attribute
) -> graph.GraphOperation:
    """`op` on other operands, its result of another element type, without its statistics."""
    new = op.rebuilt(operands, element=element)
    drop_statistics(new)
    return new


def with_data(
    op: graph.GraphOperation, data: Sequence[SSAValue], element: Attribute
) -> graph.GraphOperation:
    """The same, of other data alone: indices stay."""
    replaced = dict(zip(op.data_operands, data, strict=True))
    return with_operands(op, [replaced.get(v, v) for v in op.operands], element)


def spread_columns(op: graph.LinearOperation, channels: NDArray[Number]) -> NDArray[Number]:
    """Numbers per input channel in the shape of the weights, or one that broadcasts to it."""
    import numpy as np

    if not isinstance(op, graph.Conv2dOp):
        return channels[None, :]
    groups = op.group_count
    outputs = graph.shape_of(op.weights)[0]
    per_group = channels.reshape(groups, -1)
    return np.repeat(per_group, outputs // groups, axis=0)[:, None, None, :]


def computed_between(last: Operation, source: SSAValue) -> list[Operation]:
    """What computes `last` of `source` and serves nothing else, the last first; no constants."""
    found = [last]
    for op in found:
        for value in op.operands:
            maker = value.owner
            if value is source or maker in found or not isinstance(maker, Operation):
                continue
            readers = (use.operation for result in maker.results for use in result.uses)
            if not isinstance(maker, graph.ConstantOp) and all(op in found for op in readers):
                found.append(maker)
    return found[1:]


def replace_constant(op: Operation, operand: SSAValue, array: NDArray[np.float32]) -> None:
    """Have `op` read `array` in place of the constant `operand`, which goes if that was all."""
    old = operand.owner
    assert isinstance(old, graph.ConstantOp)
    new = graph.ConstantOp.from_array(array, location=old.location)
    new.result.name_hint = operand.name_hint
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.operands[op.operands.index(operand)] = new.result
    erase_unused(old)


def erase_unused(op: Operation) -> None:
    """Erase an operation whose result nobody reads."""
    if op.results[0].first_use is None:
        Rewriter.erase_op(op)
        # It and its result refer to each other: a large constant would wait for the collector.
        op.properties.clear()


def erase_with_constants(op: Operation) -> None:
    """Erase an operation whose result nobody reads, and the constants that it alone read."""
    constants = [v.owner for v in op.operands if isinstance(v.owner, graph.ConstantOp)]
    Rewriter.erase_op(op)
    for constant in constants:
        erase_unused(constant)


def erase_dead(block: Block) -> None:
    """Erase all operations whose results nobody reads, and what they alone read."""
    op: Operation | None = block.last_op
    while op is not None:
        before = op.prev_op
        if op.results and is_side_effect_free(op) and all(not r.uses for r in op.results):
            Rewriter.erase_op(op)
        op = before
