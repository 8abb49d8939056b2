"""Read the parts of states that products use where the states are stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import is_per_axis, shape_of
from ceras_ir.network.function import states_of
from ceras_ir.transforms.memory.update_states import Indices, indices_of, part_of, viewed
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.rebuilding import erase_dead

MAX_ROWS = 8
"""The maximum rows of a product that reads weights in place; more rows are worth a packed copy."""


@dataclass(frozen=True)
class ReadStatesPass(NetworkPass):
    """
    Replace a product with a part of an updated state by `graph.strided_matmul`, which reads the
    elements where the state is stored.

    Slices, reshapes and transposes select the part. The elements are adjacent along one axis of the
    product. A float product of more than 8 rows packs the weights, and reads a part of any computed
    value; other products have at most 8 rows. Exact in integers; float sums are equal except for
    their order.

    Before:

        %y = graph.update %r into %x {axis = 1 : i64}
            : (tensor<2x4x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
        %s = graph.slice %y {starts = array<i64: 1, 0, 0>, strides = array<i64: 1, 1, 1>}
            : (tensor<2x4x3xf32>) -> tensor<1x4x3xf32>
        %w = graph.reshape %s : (tensor<1x4x3xf32>) -> tensor<4x3xf32>
        %z = graph.matmul %q, %w : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<1x4xf32>

    After:

        %y = graph.update %r into %x {axis = 1 : i64}
            : (tensor<2x4x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
        %z = graph.strided_matmul %q, %y {offset = 12 : i64, strides = array<i64: 3, 1>}
            : (tensor<1x3xf32>, tensor<2x4x3xf32>) -> tensor<1x4xf32>
    """

    name = "read-states"

    def change(self, main: FuncOp) -> None:
        indices: dict[SSAValue, Indices] = {}
        products = [op for op in main.body.block.ops if isinstance(op, graph.MatmulOp)]
        for product in products:
            source, moves = part_of(product.weights)
            if not _may_read(product, source, moves):
                continue
            if source not in indices:
                indices[source] = indices_of(shape_of(source))
            found = _strides(viewed(indices[source], moves))
            if found is not None:
                offset, strides = found
                new = graph.StridedMatmulOp(product, source, offset, strides)
                Rewriter.replace_op(product, new)
        if indices:
            erase_dead(main.body.block)


def _may_read(product: graph.MatmulOp, source: SSAValue, moves: Sequence[Operation]) -> bool:
    """Return whether `product` may read `source`, of which `moves` select the weights."""
    owner = source.owner
    if is_per_axis(source) or not isinstance(owner, Operation):
        return False
    if shape_of(product.input)[0] <= MAX_ROWS:
        return isinstance(owner, graph.UpdateOp)
    is_float = graph.element_of(source) == f32 and product.ordered is None
    is_part = any(isinstance(op, graph.SliceOp | graph.TransposeOp) for op in moves)
    return is_float and is_part and not isinstance(owner, graph.ConstantOp | graph.UpdateOp)


def _strides(at: Indices) -> tuple[int, tuple[int, int]] | None:
    """
    Return the first of the indices [N, K], and their distances along both axes. Return `None` if
    they are not equidistant, or not adjacent along an axis.
    """
    first = int(at[0, 0])
    row, column = (int(line[1] - first) if len(line) > 1 else 1 for line in (at[:, 0], at[0]))
    expected = first + row * np.arange(len(at))[:, None] + column * np.arange(len(at[0]))
    if min(row, column) != 1 or not np.array_equal(at, expected):
        return None
    return first, (row, column)


def rings(main: FuncOp) -> Iterator[graph.UpdateOp]:
    """
    Yield the updates that append rows to a state which can be stored as a ring: the new rows
    overwrite the oldest, and only the position of the oldest row changes. The previous state has no
    other use, and only products that read all rows use the next state.
    """
    for state in states_of(main):
        update = state.result.owner
        if not isinstance(update, graph.UpdateOp) or update.position is not None:
            continue
        is_only_use = update.input is state.argument and state.argument.has_one_use()
        readers = list(update.result.uses)
        if is_only_use and all(
            use.index == state.position
            if isinstance(use.operation, ReturnOp)
            else isinstance(use.operation, graph.StridedMatmulOp)
            and use.operation.input is not update.result
            and reads_all_rows(use.operation, update)
            for use in readers
        ):
            yield update


def reads_all_rows(op: graph.StridedMatmulOp, update: graph.UpdateOp) -> bool:
    """
    Return whether one axis of the product counts all rows of the updated state in order, and the
    other remains in a row.
    """
    shape, axis = shape_of(update.result), update.axis.value.data
    distance = prod(shape[axis + 1 :])
    (_, k), (_, n) = shape_of(op.input), shape_of(op.result)
    start = op.offset.value.data % (distance * shape[axis])
    row, column = op.strides.get_values()
    ways = ((row, n, column, k), (column, k, row, n))
    return any(
        step == distance and count == shape[axis] and start + (size - 1) * inner < distance
        for step, count, inner, size in ways
    )
