"""
Write the new rows of states in place.

A cache of keys and values is a state (`graph.state`) that receives a row in each call. Exporters
write it as operations that return the entire cache. The pass recognizes these forms, possibly
between reshapes and transposes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import (
    Compare,
    element_of,
    is_plain,
    shape_of,
    type_with_element,
)
from ceras_ir.network.function import State, states_of
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.rebuilding import erase_dead

Moves = graph.ReshapeOp | graph.TransposeOp | graph.SliceOp
Indices = NDArray[np.intp]
"""For each element of a view, the index of the element in the viewed tensor."""


class Written(NamedTuple):
    """An operation that returns `past` with other rows along `axis`."""

    past: SSAValue
    rows: SSAValue
    axis: int
    position: SSAValue | None = None
    """The index of the single row; without it the rows are appended, and the first are dropped."""
    wraps: bool = False


@dataclass(frozen=True)
class UpdateStatesPass(NetworkPass):
    """
    Replace the operations that compute the next state from the previous state and new rows by
    `graph.update`, which can be executed in place. These forms are recognized:

    1. a concatenation of the state and the rows, and a slice without the first rows, in either
       order;
    2. `graph.put` of a single row;
    3. a selection of the row where a constant list of all indices is equal to the position.

    Reshapes and transposes of the state may be in between if they do not change the order of the
    elements of a row. A float state that all consumers quantize to a type is stored in this type,
    so that each row is quantized once. Exact.

    Before:

        func.func @main(%x: tensor<2x4x3xf32> {graph.name = "past", graph.state = "new"},
                        %r: tensor<2x1x3xf32>) -> (tensor<2x4x3xf32> {graph.name = "new"}) {
          %a = graph.concat %x, %r {axis = 1 : i64}
              : (tensor<2x4x3xf32>, tensor<2x1x3xf32>) -> tensor<2x5x3xf32>
          %y = graph.slice %a {starts = array<i64: 0, 1, 0>, strides = array<i64: 1, 1, 1>}
              : (tensor<2x5x3xf32>) -> tensor<2x4x3xf32>
          func.return %y : tensor<2x4x3xf32>
        }

    After:

        func.func @main(%x: tensor<2x4x3xf32> {graph.name = "past", graph.state = "new"},
                        %r: tensor<2x1x3xf32>) -> (tensor<2x4x3xf32> {graph.name = "new"}) {
          %y = graph.update %r into %x {axis = 1 : i64}
              : (tensor<2x4x3xf32>, tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
          func.return %y : tensor<2x4x3xf32>
        }
    """

    name = "update-states"

    def change(self, main: FuncOp) -> None:
        changed = [_update(state) for state in states_of(main)]
        if any(changed):
            erase_dead(main.body.block)
            for state in states_of(main):
                _store_integers(state)
            erase_dead(main.body.block)
            main.update_function_type()


def _update(state: State) -> bool:
    value, after = _moved(state.result)
    written = _written(value.owner) if isinstance(value.owner, Operation) else None
    if written is None:
        return False
    source, before = _moved(written.past)
    axis = _axis_in_state(state, written, before, after)
    if source is not state.argument or axis is None:
        return False
    core = value.owner
    assert isinstance(core, Operation)
    shape = list(shape_of(state.argument))
    shape[axis] = shape_of(written.rows)[written.axis]
    rows = written.rows
    added: list[Operation] = []
    if shape_of(rows) != tuple(shape):
        added.append(reshape := graph.ReshapeOp(rows, shape))
        rows = reshape.result
    update = graph.UpdateOp(state.argument, rows, written.position, axis, wraps=written.wraps)
    added.append(update)
    view: SSAValue = update.result
    for move in before:
        added.append(copy := move.clone())
        copy.operands[0] = view
        view = copy.results[0]
    for op in added:
        op.location = core.location
        op.attributes.update({k: v for k, v in core.attributes.items() if k not in op.attributes})
    Rewriter.insert_op(added, InsertPoint.before(core))
    if after:
        value.replace_all_uses_with(view)
        state.result.replace_all_uses_with(update.result)
    else:
        value.replace_all_uses_with(update.result)
    return True


def _store_integers(state: State) -> None:
    """
    Store an updated float state in the type to which all consumers quantize it. Each element is
    quantized separately, so that quantization can precede data movement, and the first state, zero,
    is stored as the zero point.
    """
    update = state.result.owner
    if not isinstance(update, graph.UpdateOp) or update.input is not state.argument:
        return
    users = [use.operation for use in update.result.uses]
    readers = [user for user in users if not isinstance(user, ReturnOp)]
    if len(users) - len(readers) != 1 or not state.argument.has_one_use():
        return
    quantizer, *others = [op for reader in readers for op in _quantizers(reader)] or [update]
    if not isinstance(quantizer, graph.QuantizeOp):
        return
    kind = element_of(quantizer.result)
    for op in others:
        if not isinstance(op, graph.QuantizeOp) or op.properties != quantizer.properties:
            return
        if element_of(op.result) != kind:
            return
    source, moves = part_of(update.rows)
    if isinstance(source.owner, graph.DequantizeOp) and element_of(source.owner.input) == kind:
        update.operands[1] = _rebuilt(source.owner.input, moves, update)
    else:
        rows = quantizer.rebuilt([update.rows], shape=shape_of(update.rows))
        Rewriter.insert_op(rows, InsertPoint.before(update))
        update.operands[1] = rows.result
    for value in (state.argument, update.result):
        Rewriter.replace_value_with_new_type(value, type_with_element(value, kind))
    for reader in readers:
        _keep_integers(reader, kind)


def _quantizers(op: Operation) -> list[Operation]:
    """Return the consumers of a value after data movement, where `op` is the first consumer."""
    if not isinstance(op, Moves):
        return [op]
    return [found for use in op.result.uses for found in _quantizers(use.operation)]


def _rebuilt(value: SSAValue, moves: Sequence[Operation], before: Operation) -> SSAValue:
    for move in moves:
        assert isinstance(move, Moves)
        copy = move.rebuilt([value], element=element_of(value))
        Rewriter.insert_op(copy, InsertPoint.before(before))
        value = copy.result
    return value


def _keep_integers(op: Operation, kind: Attribute) -> None:
    """Replace the element type of data movement, and remove the quantizations after it."""
    if isinstance(op, graph.QuantizeOp):
        Rewriter.replace_op(op, [], [op.input])
        return
    assert isinstance(op, Moves)
    users = [use.operation for use in op.result.uses]
    Rewriter.replace_value_with_new_type(op.result, type_with_element(op.result, kind))
    for user in users:
        _keep_integers(user, kind)


def _moved(value: SSAValue) -> tuple[SSAValue, list[graph.ReshapeOp | graph.TransposeOp]]:
    """
    Return the value of which `value` is a reshaped and transposed form, and these operations in
    order.
    """
    moves: list[graph.ReshapeOp | graph.TransposeOp] = []
    while isinstance(op := value.owner, graph.ReshapeOp | graph.TransposeOp):
        moves.insert(0, op)
        value = op.input
    return value, moves


def part_of(value: SSAValue) -> tuple[SSAValue, list[Operation]]:
    """
    Return the value of which `value` is a part after slices, reshapes and transposes, and these
    operations in order.
    """
    moves: list[Operation] = []
    while isinstance(op := value.owner, Moves):
        moves.insert(0, op)
        value = op.input
    return value, moves


def indices_of(shape: Sequence[int]) -> Indices:
    """Return the row-major index of each element of a tensor of `shape`."""
    return np.arange(prod(shape)).reshape(shape)


def viewed(array: Indices, moves: Sequence[Operation]) -> Indices:
    """Return the elements of `array` after reshapes, transposes and slices."""
    for op in moves:
        match op:
            case graph.TransposeOp():
                array = array.transpose(op.permutation.get_values())
            case graph.SliceOp():
                first, steps = op.starts.get_values(), op.strides.get_values()
                for axis, size in enumerate(shape_of(op.result)):
                    at = first[axis] + steps[axis] * np.arange(size)
                    whole = steps[axis] == 1 and size == array.shape[axis]
                    array = array if whole else np.take(array, at, axis)
            case _:
                array = array.reshape(shape_of(op.results[0]))
    return array


def _axis_in_state(
    state: State, written: Written, before: Sequence[Operation], after: Sequence[Operation]
) -> int | None:
    """
    Return the axis of the state along which rows are written, or `None` if the elements of a row
    would change their order. `before` are the moves from the state to the written value, and
    `after` those from the result to the next state.
    """
    shape, axis = shape_of(state.argument), written.axis
    if not before and not after:
        return axis
    past = viewed(indices_of(shape), before)
    there = viewed(indices_of(past.shape), after)
    is_same = np.array_equal(past.reshape(-1)[there.reshape(-1)], np.arange(past.size))
    if not is_same or there.shape != shape or shape_of(written.rows)[axis] != 1:
        return None
    rows = _rows(past, axis)
    every = indices_of(shape)
    return next((i for i in range(len(shape)) if np.array_equal(_rows(every, i), rows)), None)


def _rows(array: Indices, axis: int) -> Indices:
    return np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)


def _written(op: Operation) -> Written | None:
    match op:
        case graph.SliceOp():
            joined = op.input.owner
            if isinstance(joined, graph.ConcatOp) and len(joined.inputs) == 2:
                past, rows = joined.inputs
                axis = joined.axis.value.data
                if _drops_first(op, axis, shape_of(rows)[axis], shape_of(past)):
                    return Written(past, rows, axis)
        case graph.ConcatOp() if len(op.inputs) == 2:
            last, rows = op.inputs
            part, axis = last.owner, op.axis.value.data
            if (
                isinstance(part, graph.SliceOp)
                and _drops_first(part, axis, shape_of(rows)[axis], shape_of(last))
                and shape_of(part.input) == shape_of(op.result)
            ):
                return Written(part.input, rows, axis)
        case graph.PutOp() if op.function is None and shape_of(op.indices) == (1,):
            return Written(op.input, op.rows, 0, op.indices, wraps=True)
        case graph.SelectOp():
            return _selected(op)
        case _:
            pass
    return None


def _drops_first(op: graph.SliceOp, axis: int, count: int, shape: tuple[int, ...]) -> bool:
    """Return whether a slice removes the first `count` rows and leaves a tensor of `shape`."""
    starts = [count if i == axis else 0 for i in range(len(shape))]
    is_start = list(op.starts.get_values()) == starts
    return is_start and set(op.strides.get_values()) == {1} and shape_of(op.result) == shape


def _selected(op: graph.SelectOp) -> Written | None:
    """Recognize a row that is selected where a list of all indices is equal to a position."""
    shape, compare = shape_of(op.result), op.condition.owner
    if shape_of(op.rhs) != shape or not isinstance(compare, graph.CompareOp):
        return None
    is_index = is_plain(compare.lhs) and element_of(compare.lhs) != i1
    if compare.function is not Compare.EQUAL or not is_index:
        return None
    for listed, position in ((compare.lhs, compare.rhs), (compare.rhs, compare.lhs)):
        indices = graph.constant_array(listed)
        if indices is None or prod(shape_of(position)) != 1:
            continue
        extents = (1,) * (len(shape) - indices.ndim) + indices.shape
        axes = [i for i, extent in enumerate(extents) if extent > 1]
        rows = (1,) * (len(shape) - len(shape_of(op.lhs))) + shape_of(op.lhs)
        if len(axes) != 1 or len(extents) != len(shape):
            continue
        (axis,) = axes
        is_row = rows == (*shape[:axis], 1, *shape[axis + 1 :])
        if is_row and np.array_equal(indices.reshape(-1), np.arange(shape[axis])):
            return Written(op.rhs, op.lhs, axis, position)
    return None
