"""
Keep masked, filled and infinite values and some data movement in float (rules of `keep-in-float`).
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell
from ceras_ir.network.function import (
    State,
    is_alias,
    is_join,
    keeps_scale,
    quantized_operations,
    states_of,
    uses_after_moves,
)
from ceras_ir.network.storage import keep_in_float
from ceras_ir.transforms.pass_kinds import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.scale_classes import source_of
from ceras_ir.transforms.quantization.residuals import split_residual
from ceras_ir.transforms.quantization.tabulate_pixels import byte_values

MIN_FILL = 1e4
"""The magnitude from which a constant is a fill value, the smallest that exporters use."""

FILL_REASON = "may have a fill value, which leaves int8 no steps for other values"


@dataclass(frozen=True)
class FillRule(FloatNetworkPass):
    """
    Keep in float the operations that combine values with a fill value, and the users of their
    results.

    A fill value is a constant with an element of magnitude 10,000 or more. It is scattered into, or
    joined with other values by a selection or a concatenation: -1e9 if a maximum over the points of
    a cell has no point. Sums, maxima, minima, magnitudes and data movement propagate it. A consumer
    such as a ReLU bounds it. Changes no value.

    Before:

        %f = graph.constant dense<-1.0e9> : tensor<f32> : tensor<f32>
        %y = graph.select %c, %x, %f : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>

    After:

        %f = graph.constant dense<-1.0e9> : tensor<f32> : tensor<f32>
        %y = graph.select %c, %x, %f {graph.precision = "f32", graph.float_reason =
            "may have a fill value, which leaves int8 no steps for other values"}
            : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    """

    name = "fills"

    def change(self, main: FuncOp) -> None:
        filled: set[SSAValue] = set()
        for op in main.body.block.ops:
            if not op.results or isinstance(op, graph.LinearOperation | graph.ConstantOp):
                continue
            is_filled = not filled.isdisjoint(op.operands)
            if returns_fill := _returns_fill(op, is_filled=is_filled):
                filled.update(op.results)
            if is_filled or returns_fill:
                keep_in_float(op, FILL_REASON)


def _returns_fill(op: Operation, *, is_filled: bool) -> bool:
    """
    Return whether the result of `op` may contain a fill value: a large constant, such as -1e9, that
    marks masked or padded elements. `is_filled` is true if an operand contains a fill value.
    """
    if graph.element_of(op.results[0]) != f32:
        return False
    match op:
        case graph.PutOp() | graph.SelectOp() | graph.ConcatOp():
            return is_filled or any(map(_is_fill, op.operands))
        case graph.BinaryOp(function=graph.Binary.ADD | graph.Binary.MAX | graph.Binary.MIN):
            return is_filled
        case graph.UnaryOp(function=graph.FunctionAttr(data=graph.Function.LEAKY_RELU)):
            return is_filled  # Of slope -1 a magnitude.
        case _:
            return is_filled and keeps_scale(op)


def _is_fill(value: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, graph.ConstantOp) or graph.element_of(value) != f32:
        return False
    return bool((np.abs(op.array()) >= MIN_FILL).any())


MIN_MASK = 64.0
"""The magnitude from which an element masks scores: exp(-64) is negligible."""

MASK_REASON = "masks scores: a mask leaves int8 no steps for them"
INFINITY_REASON = "has infinite operands or results, which integers cannot represent"


@dataclass(frozen=True)
class MaskRule(FloatNetworkPass):
    """
    Keep in float the operations from a mask to the softmax of an attention, and the softmax. In
    int8 the mask and the scores would share a scale, without steps for the scores. A mask is

    1. a constant with an element of magnitude 64 or more, or infinite, that reaches the softmax
       only by elementwise operations, selections, scatters and data movement; or
    2. an input of the network that is only added to operands of softmaxes.

    Integers have no infinities. If a mask or a padding value has infinities, all operations that
    use it also remain in float: the exponential of a segment of sums, a maximum, a comparison.

    A mask that `fuse-epilogues` fused as a residual becomes a separate addition again.
    Exact, because the residual is added last. Changes no value.

    Before:

        %m = graph.constant dense<-1.0e9> : tensor<f32> : tensor<f32>
        %a = graph.select %c, %x, %m : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %y = graph.softmax %a {axis = 0 : i64} : tensor<4xf32>

    After:

        %m = graph.constant dense<-1.0e9> : tensor<f32> : tensor<f32>
        %a = graph.select %c, %x, %m {graph.precision = "f32",
            graph.float_reason = "masks scores: a mask leaves int8 no steps for them"}
            : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
        %y = graph.softmax %a {axis = 0 : i64, graph.precision = "f32",
            graph.float_reason = "masks scores: a mask leaves int8 no steps for them"}
            : tensor<4xf32>
    """

    name = "masks"

    def change(self, main: FuncOp) -> None:
        ops = list(main.body.block.ops)
        inputs = [value for value in main.body.block.args if _is_mask(value)]
        masked = _masked_values(ops, inputs, lambda array: np.abs(array) >= MIN_MASK)
        infinite = _masked_values(ops, [], np.isinf)
        for inner in ops:
            # The operands of products are finite.
            is_element = not isinstance(inner, graph.LinearOperation) and bool(inner.results)
            pads = isinstance(inner, graph.PadOp) and inner.result in infinite
            if pads or (is_element and not infinite.isdisjoint(inner.operands)):
                keep_in_float(inner, INFINITY_REASON)
        leading: set[SSAValue] = set()
        for inner in reversed(ops):
            if isinstance(inner, graph.SoftmaxOp) and inner.input in masked:
                keep_in_float(inner, MASK_REASON)
            elif not masked.intersection(inner.results) & leading:
                continue
            elif isinstance(inner, graph.LinearOperation):
                assert inner.residual is not None
                leading.add(inner.residual)
                keep_in_float(split_residual(inner, inner.residual)[1], MASK_REASON)
                continue
            elif not isinstance(inner, graph.ConstantOp):
                keep_in_float(inner, MASK_REASON)
            leading.update(masked.intersection(inner.operands))


def _masked_values(
    ops: Sequence[Operation],
    inputs: Sequence[SSAValue],
    hides: Callable[[NDArray[np.generic]], NDArray[np.bool_]],
) -> set[SSAValue]:
    """
    Return the values that contain masked elements: `inputs`, constants with an element for which
    `hides` is true, and all values that depend on them elementwise or by data movement.
    """
    found = set(inputs)
    for op in ops:
        match op:
            case graph.ConstantOp():
                masks = graph.element_of(op.result) == f32 and bool(hides(op.array()).any())
            case graph.PadOp(value=FloatAttr(value=fill)) if hides(np.array(fill.data)).any():
                masks = True
            case graph.LinearOperation():
                masks = op.residual in found
            case graph.BinaryOp() | graph.SelectOp() | graph.PutOp():
                masks = not found.isdisjoint(op.operands)
            case _:
                masks = keeps_scale(op) and not found.isdisjoint(op.operands)
        if masks:
            found.update(op.results)
    return found


def _is_mask(value: SSAValue, *, added: bool = False) -> bool:
    """
    Return whether a graph input is only added to operands of softmaxes, so that it can mask scores.
    With `added`, `value` is such a sum already, and only softmaxes may consume it.
    """
    uses = list(uses_after_moves(value, joined=True))
    return bool(uses) and all(_is_mask_use(use, added=added) for use in uses)


def _is_mask_use(use: Use, *, added: bool) -> bool:
    op = use.operation
    match op:
        case graph.SoftmaxOp():
            return added
        case graph.LinearOperation():
            is_sum = op.operands[use.index] is op.residual and op.activation is None
            return is_sum and _is_mask(op.result, added=True)
        case graph.BinaryOp():
            is_sum = op.function is graph.Binary.ADD and op.activation is None
            return (added or is_sum) and _is_mask(op.result, added=True)
        case graph.SelectOp():
            return _is_mask(op.result, added=added)
        case _:
            return False


PIXEL_REASON = "computes a pixel of a uint8 image: a table replaces it"


@dataclass(frozen=True)
class FloatPixelRule(FloatNetworkPass):
    """
    Keep in float the operations between a uint8 input and the first layer: casts, scaling,
    subtraction of means. Only the last value is quantized, in steps that fit it, and
    `tabulate-pixels` then replaces all of them by a table.

    Operations without a layer after them are unchanged. Changes no value.
    """

    name = "pixels"

    def change(self, main: FuncOp) -> None:
        values = byte_values(list(main.body.block.ops))
        steps: set[Operation] = set()
        for value, function in reversed(values.items()):
            users = [use.operation for use in uses_after_moves(value, joined=False)]
            if any(isinstance(u, graph.LinearOperation | graph.Pool2dOp) for u in users):
                steps.update(function.steps)
        for step in steps:
            if not isinstance(step, graph.TransposeOp):
                keep_in_float(step, PIXEL_REASON)


PART_REASON = "takes a part of a float value: only that is rounded"
PARTS_REASON = "takes a part of an input with separate scales for its parts"
CALLER_REASON = "returns an input to the caller unchanged"


@dataclass(frozen=True)
class MoveRule(FloatNetworkPass):
    """
    Keep in float three kinds of data movement operations:

    1. Operations that select a part of a float value without other integer consumers, such as the
       last step of a recurrent layer, or elements by indices. Only the part is rounded.
    2. Operations that select the parts of an input, if integers only use several parts, the parts
       are together no larger than the input, and are not concatenated again. The states of two
       layers in an array, or features of two kinds, then have separate scales.
    3. Operations that concatenate inputs with other values for the caller, or that select from the
       result by computed indices, if half of the elements or more belong to inputs. An example is
       an extended cache of keys and values. The inputs are returned unchanged. Integer consumers
       round them as they would have rounded the inputs.

    The execution time does not increase. States of the network keep their storage. Changes no
    value.

    Before:

        %a = graph.unary <exp> %x {graph.precision = "f32"} : tensor<4xf32>
        %b = graph.slice %a {starts = array<i64: 2>, strides = array<i64: 1>}
            : (tensor<4xf32>) -> tensor<2xf32>
        %y = graph.unary <tanh> %b : tensor<2xf32>

    After:

        %a = graph.unary <exp> %x {graph.precision = "f32"} : tensor<4xf32>
        %b = graph.slice %a {starts = array<i64: 2>, strides = array<i64: 1>,
            graph.precision = "f32", graph.float_reason =
            "takes a part of a float value: only that is rounded"}
            : (tensor<4xf32>) -> tensor<2xf32>
        %y = graph.unary <tanh> %b : tensor<2xf32>
    """

    name = "moves"

    def change(self, main: FuncOp) -> None:
        inside = quantized_operations(main)
        states, returned = states_of(main), set[SSAValue]()
        divided = _divided(main, inside)
        for move in inside:
            follows = is_alias(move) and move.operands[0] in returned
            joined = is_join(move) and _returns_inputs(move, states)
            if (follows or joined) and _is_returned(move, states):
                keep_in_float(move, CALLER_REASON)
                returned.update(move.results)
            elif _is_part(move) and _is_computed_in_float(move, inside):
                keep_in_float(move, PART_REASON)
            elif _is_part(move) and move.operands[0] in divided:
                keep_in_float(move, PARTS_REASON)


def _divided(main: FuncOp, inside: Container[Operation]) -> set[SSAValue]:
    states = {state.argument for state in states_of(main)}
    found = set[SSAValue]()
    for value in main.body.block.args:
        parts = [use.operation for use in value.uses if use.operation in inside]
        if len(parts) < 2 or value in states or not all(_is_part(op) for op in parts):
            continue
        results = [op.results[0] for op in parts]
        uses = [use for result in results for use in uses_after_moves(result, joined=False)]
        is_joined = any(is_join(use.operation) for use in uses)
        if sum(map(_size, results)) <= _size(value) and not is_joined:
            found.add(value)
    return found


def _is_part(op: Operation) -> bool:
    part = isinstance(op, graph.TakeOp) or _size(op.results[0]) < _size(op.operands[0])
    return is_alias(op) and part


def _is_computed_in_float(move: Operation, inside: Container[Operation]) -> bool:
    """
    Return whether `move` (data movement) moves a value that a float operation computes, and no
    other operation in `inside` consumes this value. `inside` are the operations that will be
    quantized.
    """
    while is_alias(move):
        value = move.operands[0]
        if any(u.operation in inside and u.operation is not move for u in value.uses):
            return False
        if not isinstance(value.owner, Operation):
            return False
        move = value.owner
    return move not in inside and not isinstance(move, graph.ConstantOp)


def _is_returned(op: Operation, states: Sequence[State]) -> bool:
    positions = {state.position for state in states}
    uses = uses_after_moves(op.results[0], joined=False)
    return any(isinstance(use.operation, ReturnOp) and use.index not in positions for use in uses)


def _returns_inputs(op: Operation, states: Sequence[State]) -> bool:
    """
    Return whether half or more of the elements of a concatenation are moved from graph inputs.
    Inputs that are `states` do not count.
    """
    arguments = {state.argument for state in states}
    sources = {value: source_of(value) for value in op.operands}
    size = sum(
        _size(value)
        for value, source in sources.items()
        if isinstance(source, BlockArgument) and source not in arguments
    )
    return 2 * size >= _size(op.results[0])


def _size(value: SSAValue) -> int:
    return prod(graph.shape_of(value))


FORK_REASON = "moves a float input for float operations; integers use a copy"


@dataclass(frozen=True)
class ForkRule(FloatNetworkPass):
    """
    Copy a data movement operation on an input if integers and floats both use the result. The copy
    remains in float, before the first float consumer.

    A network that removes noise, for example, adds the result to the input. Without the copy, it
    would return the input in 256 steps. States keep their storage. Changes no value.

    Before:

        %t = graph.reshape %x : (tensor<1x2xf32>) -> tensor<2xf32>
        %a = graph.unary <tanh> %t : tensor<2xf32>
        %y = graph.binary sub %t, %a {graph.precision = "f32"}
            : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>

    After:

        %t = graph.reshape %x : (tensor<1x2xf32>) -> tensor<2xf32>
        %a = graph.unary <tanh> %t : tensor<2xf32>
        %f = graph.reshape %x {graph.precision = "f32", graph.float_reason =
            "moves a float input for float operations; integers use a copy"}
            : (tensor<1x2xf32>) -> tensor<2xf32>
        %y = graph.binary sub %f, %a {graph.precision = "f32"}
            : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    """

    name = "forks"

    def change(self, main: FuncOp) -> None:
        inside = quantized_operations(main)
        states = states_of(main)
        stored = {state.argument for state in states}
        positions = {state.position for state in states}
        copies: dict[SSAValue, SSAValue] = {}
        for user in main.body.block.ops:
            if user in inside:
                continue
            for index, value in enumerate(user.operands):
                if isinstance(user, ReturnOp) and index in positions:
                    continue
                if _is_moved_input(value, inside, stored):
                    user.operands[index] = _copied(value, inside, user, copies)


def _is_moved_input(
    value: SSAValue, inside: Container[object], stored: Container[SSAValue]
) -> bool:
    source = value
    while isinstance(move := source.owner, Operation) and move in inside and is_alias(move):
        source = move.operands[0]
    is_moved = source is not value
    return is_moved and isinstance(source, BlockArgument) and source not in stored


def _copied(
    value: SSAValue,
    inside: Container[object],
    user: Operation,
    copies: dict[SSAValue, SSAValue],
) -> SSAValue:
    move = value.owner
    if not isinstance(move, Operation) or move not in inside:
        return value
    if value not in copies:
        moved = _copied(move.operands[0], inside, user, copies)
        copy = move.clone()
        copy.operands[0] = moved
        keep_in_float(copy, FORK_REASON)
        Rewriter.insert_op(copy, InsertPoint.before(user))
        copies[value] = copy.results[0]
    return copies[value]


CELL_STATE_REASON = "separates the states of a recurrent layer in float from the cell state"


@dataclass(frozen=True)
class CellStateRule(FloatNetworkPass):
    """
    Give the states of an LSTM and the last cell state separate scales. A single result contains
    both, and slices select them. The slices remain in float, so that each part has a separate
    range.

    States are within 1, but cell states grow with the steps: a common scale would leave few steps
    for the states. Runs before `observe-ranges`. Changes no value.
    """

    name = "cell-states"

    def change(self, main: FuncOp) -> None:
        for layer in main.body.block.ops:
            if isinstance(layer, graph.RecurrenceOp) and layer.cell_kind is Cell.LSTM:
                for use in layer.result.uses:
                    if isinstance(use.operation, graph.SliceOp):
                        keep_in_float(use.operation, CELL_STATE_REASON)
