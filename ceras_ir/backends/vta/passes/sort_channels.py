"""Sort the channels of feature maps by the shifts of their sums."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.isa import VtaBoardOptions
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.dialects.sparse import MASK
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.rebuilding import erase_unused, rebuild_linear


class ChannelClasses:
    """
    Classes of values whose channels (the last dimension) must have the same order, such as the
    operands of an addition.

    The order of a class is fixed if an operation without a rule here uses or defines a value, or if
    a value is a graph input or output.
    """

    def __init__(self, main: FuncOp):
        self._parent: dict[SSAValue, SSAValue] = {}
        self._fixed: set[SSAValue] = set()
        self._linear: list[graph.LinearOperation] = []
        self._fix(main.body.block.args)
        for op in main.body.block.ops:
            if not isinstance(op, graph.ConstantOp):
                self._join(op)

    def root(self, value: SSAValue) -> SSAValue:
        """
        Return the value that represents the class of `value`: equal for all values with the same
        channel order.
        """
        while (parent := self._parent.get(value, value)) is not value:
            value = parent
        return value

    def producers(self) -> dict[SSAValue, list[graph.LinearOperation]]:
        """
        Return the convolutions and products that compute the values of each class, by the root of
        the class. Classes with a fixed order are omitted.
        """
        fixed = {self.root(value) for value in self._fixed}
        found: dict[SSAValue, list[graph.LinearOperation]] = {}
        for op in self._linear:
            if (root := self.root(op.result)) not in fixed:
                found.setdefault(root, []).append(op)
        return found

    def _join(self, op: Operation) -> None:
        match op:
            case graph.LinearOperation() if _is_sortable(op):
                self._linear.append(op)
                self._unite([op.result, *([] if op.residual is None else [op.residual])])
                if graph.is_depthwise(op):
                    self._unite([op.result, op.input])
            case graph.Pool2dOp() | graph.RequantizeOp():
                self._unite([op.result, op.input])
            case graph.BinaryOp() if _is_plain(op):
                self._unite([op.result, op.lhs, op.rhs])
            case graph.ReshapeOp() if _keeps_channels(op):
                self._unite([op.result, op.input])
            case _:
                self._fix([*op.operands, *op.results])

    def _unite(self, values: Iterable[SSAValue]) -> None:
        first, *rest = [self.root(value) for value in values]
        for value in rest:
            self._parent[value] = first

    def _fix(self, values: Iterable[SSAValue]) -> None:
        self._fixed.update(values)


def _is_sortable(op: graph.LinearOperation) -> bool:
    if isinstance(op, graph.Conv2dOp) and op.group_count > 1 and not graph.is_depthwise(op):
        return False
    if op.table is not None or MASK in op.attributes or not op.is_quantized:
        return False
    if op.encoded_weights is not None or graph.constant_array(op.weights) is None:
        return False
    elements = [graph.quantized_element(value) for value in (op.input, op.result)]
    if any(element is None or element.is_per_axis for element in elements):
        return False
    return op.bias is None or graph.constant_array(op.bias) is not None


def _is_plain(op: graph.BinaryOp) -> bool:
    """Return whether both operands of `op` are computed values with the shape of the result."""
    return all(
        not isinstance(value.owner, graph.ConstantOp)
        and graph.shape_of(value) == graph.shape_of(op.result)
        for value in (op.lhs, op.rhs)
    )


def _keeps_channels(op: graph.ReshapeOp) -> bool:
    return graph.shape_of(op.input)[-1:] == graph.shape_of(op.result)[-1:]


ChannelOrder: TypeAlias = list[int]
"""A permutation of channels: the old index of each channel in the new order."""


@dataclass(frozen=True)
class SortChannelsPass(VtaBoardOptions, NetworkPass):
    """
    Make channels with the same shift adjacent, so that all lanes of a vector have the same shift.

    An immediate can then shift the vector in half of the time. Feature maps that share channels
    (residuals, additions, poolings, depthwise convolutions) are sorted together, by the layers with
    the most vectors. Graph inputs, graph outputs and operands of other operations are not sorted.
    `board` specifies the number of channels of a vector.

    Exact: weights, bias and shifts of a layer move with the output channels, and weights of
    consumers with their input channels. Sums are reordered, and are integers.

    Before:

        !q = !quant.uniform<i8:f32, 0.5>
        #r = #graph.requant<multiplier = [1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4, 1, 4],
            shift = 9, rounding = half_up, low = -128, high = 127>
        #s = #graph.requant<shift = 9, rounding = half_up, low = -128, high = 127>
        %v = graph.constant dense<1> : tensor<18x1xi8> : tensor<18x1x!q>
        %a = graph.matmul %x, %v {requant = #r}
            : (tensor<4x1x!q>, tensor<18x1x!q>) -> tensor<4x18x!q>
        %w = graph.constant dense<1> : tensor<2x18xi8> : tensor<2x18x!q>
        %y = graph.matmul %a, %w {requant = #s}
            : (tensor<4x18x!q>, tensor<2x18x!q>) -> tensor<4x2x!q>

    After:

        #t = #graph.requant<multiplier = [4, 4, 4, 4, 4, 4, 4, 4, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            shift = 9, rounding = half_up, low = -128, high = 127>
        %v = graph.constant dense<1> : tensor<18x1xi8> : tensor<18x1x!q>
        %a = graph.matmul %x, %v {requant = #t}
            : (tensor<4x1x!q>, tensor<18x1x!q>) -> tensor<4x18x!q>
        %w = graph.constant dense<1> : tensor<2x18xi8> : tensor<2x18x!q>
        %y = graph.matmul %a, %w {requant = #s}
            : (tensor<4x18x!q>, tensor<2x18x!q>) -> tensor<4x2x!q>
    """

    name = "sort-channels"

    def change(self, main: FuncOp) -> None:
        lanes = load_board(self.board).block
        classes = ChannelClasses(main)
        orders: dict[SSAValue, ChannelOrder] = {}
        for root, producers in classes.producers().items():
            order = _best_order([m for m in producers if _shifts(m)], lanes)
            if order is not None:
                orders[root] = order
        linear = [o for o in main.body.block.ops if isinstance(o, graph.LinearOperation)]
        # Computed before operations and their results are replaced.
        found = [
            (
                orders.get(classes.root(o.result)),
                None if graph.is_depthwise(o) else orders.get(classes.root(o.input)),
            )
            for o in linear
        ]
        for operation, (outputs, inputs) in zip(linear, found, strict=True):
            if outputs is not None or inputs is not None:
                _sort(operation, outputs, inputs)


def _shifts(op: graph.LinearOperation) -> tuple[int, ...]:
    return () if op.requant is None else op.requant.channel_shifts


def _best_order(producers: Sequence[graph.LinearOperation], lanes: int) -> ChannelOrder | None:
    """
    Return the channel order in which the fewest vectors contain different shifts, or `None` if no
    tried order is better than the current.
    """
    if not producers:
        return None
    largest = sorted(producers, key=lambda op: -prod(graph.shape_of(op.result)))
    shifts = np.array([_shifts(op) for op in largest])
    # The last key of lexsort is the primary key.
    order: ChannelOrder = np.lexsort(shifts[::-1]).tolist()
    before, after = (_mixed(largest, s, lanes) for s in (shifts, shifts[:, order]))
    return order if after < before else None


def _mixed(producers: Sequence[graph.LinearOperation], shifts: NDArray[np.int_], lanes: int) -> int:
    count = 0
    for op, row in zip(producers, shifts, strict=True):
        blocks = np.pad(row, (0, -len(row) % lanes), "edge").reshape(-1, lanes)
        mixed = int((blocks.min(axis=1) != blocks.max(axis=1)).sum())
        count += mixed * prod(graph.shape_of(op.result)[:-1])
    return count


def _sort(
    op: graph.LinearOperation, outputs: ChannelOrder | None, inputs: ChannelOrder | None
) -> None:
    weights = graph.known_array(op.weights)
    if inputs is not None:
        weights = weights[..., inputs]
    bias: SSAValue | None = op.bias
    epilogue: dict[str, Attribute | None] = {}
    element = graph.element_of(op.weights)
    if outputs is not None:
        weights, element = weights[outputs], _sorted_type(element, outputs)
        if op.bias is not None:
            kind = _sorted_type(graph.element_of(op.bias), outputs)
            bias = _constant(op, graph.known_array(op.bias)[outputs], kind)
        if op.requant is not None and op.requant.is_per_channel:
            multipliers = [op.requant.multipliers[i] for i in outputs]
            epilogue["requant"] = op.requant.replaced(multiplier=multipliers)
        if len(shifts := op.residual_shifts) > 1:
            epilogue["residual_shift"] = graph.shifts_of_channels([shifts[i] for i in outputs])
    new = rebuild_linear(op, epilogue, weights=_constant(op, weights, element), bias=bias)
    constants = [value.owner for value in (op.weights, op.bias) if value is not None]
    Rewriter.replace_op(op, new)
    for constant in constants:
        assert isinstance(constant, graph.ConstantOp), "parameters of sortable layers are constant"
        erase_unused(constant)


def _constant(op: Operation, array: NDArray[np.generic], element: Attribute) -> SSAValue:
    new = graph.ConstantOp.from_array(np.ascontiguousarray(array), element)
    new.location = getattr(op, "location", new.location)
    Rewriter.insert_op(new, InsertPoint.before(op))
    return new.result


def _sorted_type(element: Attribute, order: ChannelOrder) -> Attribute:
    if not isinstance(element, UniformType) or not element.is_per_axis:
        return element
    scales, points = element.scales.data, element.zero_points.data
    return UniformType(
        [scales[i].data for i in order],
        [points[i].data for i in order],
        storage=element.storage,
        axis=0,
    )
