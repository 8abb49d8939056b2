"""Derive operations from existing operations, and erase unused operations."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    Return a copy of a convolution or matrix product with other operands; omitted operands remain,
    and `None` as bias or residual removes it. `element` replaces the element type of the result.

    `epilogue` replaces properties of the output stage; `None` removes a property. Location and
    discardable attributes are kept.
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
    """
    Return a copy of `op` with other operands and another element type of the result. The statistics
    of calibration (range, scale) are removed.
    """
    new = op.rebuilt(operands, element=element)
    drop_statistics(new)
    return new


def with_data(
    op: graph.GraphOperation, data: Sequence[SSAValue], element: Attribute
) -> graph.GraphOperation:
    """
    Return a copy of `op` in which only the data operands are replaced, and operands such as indices
    are kept. Otherwise it is the same as `with_operands`.
    """
    replaced = dict(zip(op.data_operands, data, strict=True))
    return with_operands(op, [replaced.get(v, v) for v in op.operands], element)


def spread_columns(op: graph.LinearOperation, channels: NDArray[Number]) -> NDArray[Number]:
    """
    Return an array with an entry per input channel in a shape that broadcasts to the weights of
    `op`, so that weights can be multiplied by it: [1, K] for a matrix product, [O, 1, 1, C/groups]
    for a convolution.
    """
    import numpy as np

    if not isinstance(op, graph.Conv2dOp):
        return channels[None, :]
    groups = op.group_count
    outputs = graph.shape_of(op.weights)[0]
    per_group = channels.reshape(groups, -1)
    return np.repeat(per_group, outputs // groups, axis=0)[:, None, None, :]


def computed_between(last: Operation, source: SSAValue) -> list[Operation]:
    """
    Return the operations between `source` and `last` that only serve to compute `last`, in reverse
    order. They can be erased with `last`. Constants and `last` are not included.
    """
    found = [last]
    for op in found:
        for value in op.operands:
            owner = value.owner
            if value is source or owner in found or not isinstance(owner, Operation):
                continue
            consumers = (use.operation for result in owner.results for use in result.uses)
            if not isinstance(owner, graph.ConstantOp) and all(op in found for op in consumers):
                found.append(owner)
    return found[1:]


def replace_constant(op: Operation, operand: SSAValue, array: NDArray[np.float32]) -> None:
    """
    Replace the constant `operand` of `op` by a constant with the elements `array`. The old constant
    is erased if it has no other uses.
    """
    old = operand.owner
    assert isinstance(old, graph.ConstantOp)
    new = graph.ConstantOp.from_array(array, location=old.location)
    new.result.name_hint = operand.name_hint
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.operands[op.operands.index(operand)] = new.result
    erase_unused(old)


def erase_unused(op: Operation) -> None:
    """Erase an operation if the result has no uses."""
    if op.results[0].first_use is None:
        Rewriter.erase_op(op)
        # The operation and the result form a cycle: the collector would free a constant too late.
        op.properties.clear()


def erase_with_constants(op: Operation) -> None:
    """Erase an operation without uses, and the constant operands that become unused."""
    constants = [v.owner for v in op.operands if isinstance(v.owner, graph.ConstantOp)]
    Rewriter.erase_op(op)
    for constant in constants:
        erase_unused(constant)


def erase_dead(block: Block) -> None:
    """
    Erase all operations of a block that have no side effects and no uses, including operations that
    become unused.
    """
    op: Operation | None = block.last_op
    while op is not None:
        before = op.prev_op
        if op.results and is_side_effect_free(op) and all(not r.uses for r in op.results):
            Rewriter.erase_op(op)
        op = before


def release_memory() -> None:
    """
    Collect reference cycles, such as erased operations, and return free memory to the system.
    Without glibc, the memory allocator decides whether memory is returned.
    """
    gc.collect()
    # `malloc_trim` does not exist on Windows, macOS and statically linked systems.
    with suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
