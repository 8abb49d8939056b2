"""
Values that are a function of one pixel each: what a uint8 image becomes before the first layer.

Such a function takes 256 numbers, in every channel at most, so that it can be evaluated whole. The
interpreter computes them, operation by operation, on every byte in every channel at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.graph.operation import element_of, is_tensor, shape_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

BYTES = 256


@dataclass(frozen=True)
class ByteFunction:
    """How a value follows from plain ui8, element by element and in another order."""

    source: SSAValue
    steps: tuple[graph.GraphOperation, ...]
    """In the order in which they are computed; none if the value is `source` itself."""
    order: tuple[int, ...]
    """Dimension `i` of the value is dimension `order[i]` of `source`."""
    axis: int | None
    """The dimension of `source` along which the function differs, if there is one."""

    @property
    def channels(self) -> int:
        return 1 if self.axis is None else shape_of(self.source)[self.axis]

    @property
    def channel_dimension(self) -> int | None:
        """The dimension of the value along which the function differs."""
        return None if self.axis is None else self.order.index(self.axis)

    def then(self, op: graph.GraphOperation) -> ByteFunction | None:
        """The function with one more step; None if that is more than a function of a pixel."""
        if isinstance(op, graph.TransposeOp):
            order = tuple(self.order[p] for p in op.permutation.get_values())
            return ByteFunction(self.source, (*self.steps, op), order, self.axis)
        constants = [v for v in op.operands if isinstance(v.owner, graph.ConstantOp)]
        if not isinstance(op, COMPUTED) or len(op.operands) - len(constants) != 1:
            return None
        if shape_of(op.output) != tuple(shape_of(self.source)[d] for d in self.order):
            return None
        axes = {self.axis} - {None}
        for constant in constants:
            shape = shape_of(constant)
            offset = len(self.order) - len(shape)
            axes |= {self.order[d + offset] for d, extent in enumerate(shape) if extent > 1}
        if isinstance(op, graph.UnaryOp) and op.channel_exponents is not None:
            axes.add(self.order[-1])
        if len(axes) > 1 or (axes and len(self.order) < 2):
            return None
        return ByteFunction(self.source, (*self.steps, op), self.order, next(iter(axes), None))

    def evaluate(self) -> Array:
        """What every byte becomes: one row per channel, 256 entries each."""
        import numpy as np
        from xdsl.dialects.builtin import ModuleOp

        from ceras_ir.interpreters.registry import interpreter_of

        rank = len(self.order)
        along = next(d for d in range(rank) if d != self.axis)
        shape = [BYTES if d == along else 1 for d in range(rank)]
        grid = np.arange(BYTES, dtype=np.uint8).reshape(shape)
        if self.axis is not None:
            shape[self.axis] = self.channels
        value: Array = np.broadcast_to(grid, shape)
        module = self.steps[0].get_toplevel_object()
        assert isinstance(module, ModuleOp)
        interpreter = interpreter_of(module)
        with np.errstate(all="ignore"):
            for step in self.steps:
                operands = [
                    v.owner.array() if isinstance(v.owner, graph.ConstantOp) else value
                    for v in step.operands
                ]
                (value,) = interpreter.run_op(step, tuple(operands))
        at = self.order.index(along)
        if self.axis is None:
            return value.reshape(1, BYTES)
        moved = np.moveaxis(value, (self.order.index(self.axis), at), (0, 1))
        return moved.reshape(self.channels, BYTES)


COMPUTED = (graph.CastOp, graph.UnaryOp, graph.BinaryOp, graph.QuantizeOp)
"""Operations that compute each element of one other, beside constants."""


def byte_function(value: SSAValue) -> ByteFunction | None:
    """How `value` follows from plain ui8; None if it does not, or not pixel by pixel."""
    steps: list[graph.GraphOperation] = []
    while not (is_tensor(value.type) and element_of(value) == BYTE):
        op = value.owner
        if not isinstance(op, graph.GraphOperation) or isinstance(op, graph.ConstantOp):
            return None
        operands = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
        if len(operands) != 1 or not isinstance(op, (*COMPUTED, graph.TransposeOp)):
            return None
        steps.append(op)
        value = operands[0]
    found: ByteFunction | None = ByteFunction(value, (), tuple(range(len(shape_of(value)))), None)
    for op in reversed(steps):
        if found is not None:
            found = found.then(op)
    return found


def byte_values(ops: list[Operation]) -> dict[SSAValue, ByteFunction]:
    """The float values of a network that are functions of a pixel, in order."""
    from xdsl.dialects.builtin import Float32Type

    found: dict[SSAValue, ByteFunction] = {}
    for op in ops:
        if not isinstance(op, (*COMPUTED, graph.TransposeOp)):
            continue
        if not isinstance(element_of(op.output), Float32Type):
            continue
        if (function := byte_function(op.output)) is not None:
            found[op.output] = function
    return found
