"""Which feature maps must have their channels in the same order, and whose order is free."""

from collections.abc import Iterable

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK


class ChannelClasses:
    """
    Classes of values with the same channels (the last dimension) in the same order. A class is
    fixed where an operation that is not known here reads or makes one of its values, and where that
    is an input or an output of the network.
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
        """What stands for the class of `value`."""
        while (parent := self._parent.get(value, value)) is not value:
            value = parent
        return value

    def makers(self) -> dict[SSAValue, list[graph.LinearOperation]]:
        """The layers that compute the values of each class whose order is free."""
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
        first, *others = [self.root(value) for value in values]
        for other in others:
            self._parent[other] = first

    def _fix(self, values: Iterable[SSAValue]) -> None:
        self._fixed.update(values)


def _is_sortable(op: graph.LinearOperation) -> bool:
    """Whether `op` has all of its channels in constants that can be put in another order."""
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
    """Whether both operands are computed, and have the shape of the result."""
    return all(
        not isinstance(value.owner, graph.ConstantOp)
        and graph.shape_of(value) == graph.shape_of(op.result)
        for value in (op.lhs, op.rhs)
    )


def _keeps_channels(op: graph.ReshapeOp) -> bool:
    """Whether the last dimension stays."""
    return graph.shape_of(op.input)[-1:] == graph.shape_of(op.result)[-1:]
