"""Take out the guards that exporters put behind softmaxes, for rows whose scores are all hidden."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import add, mul

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary
from ceras_ir.dialects.graph.constant import is_integer
from ceras_ir.network.missing import replaced_nan
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.rebuilding import erase_dead

COMPUTED = 2.0**64
"""Magnitude that inputs and results of layers are taken to be below."""

COMBINED: dict[Binary, Callable[[float, float], float]] = {
    Binary.ADD: add,
    Binary.SUB: add,
    Binary.MUL: mul,
}
"""Operation -> magnitude of its result."""

LARGEST = float(np.finfo(np.float32).max) + 2.0**102
"""What rounds to a number of float32 is below it."""


@dataclass(frozen=True)
class DropNanGuardsPass(NetworkPass):
    """
    Replace `where(isnan(p), 0, p)` by p, which is a softmax of rows with a number in each.

    Masks must be constants that are finite, or leave one score in each row, as -inf above the
    diagonal does. PyTorch's exporter writes the guard for every attention.

    Exact for inputs and results of layers below 2^64.
    """

    name = "drop-nan-guards"

    def change(self, main: FuncOp) -> None:
        block, bounds = main.body.block, _Bounds()
        for inner in list(block.ops):
            if not isinstance(inner, graph.SelectOp) or (guarded := _guarded(inner)) is None:
                continue
            if bounds.leaves_numbers(guarded.input):
                guarded.result.name_hint = guarded.result.name_hint or inner.result.name_hint
                Rewriter.replace_op(inner, [], [guarded.result])
        erase_dead(block)


def _guarded(op: graph.SelectOp) -> graph.SoftmaxOp | None:
    """The softmax that is selected where it is what it equals, hence no NaN."""
    guarded = replaced_nan(op)
    if guarded is None or guarded.value.type != op.result.type:
        return None
    softmax = guarded.value.owner
    return softmax if isinstance(softmax, graph.SoftmaxOp) else None


@dataclass
class _Bounds:
    """Magnitudes that values are below, None where they may be infinite or no numbers."""

    known: dict[SSAValue, float | None] = field(default_factory=dict[SSAValue, float | None])

    def leaves_numbers(self, scores: SSAValue) -> bool:
        """Whether each row along the last dimension has a number, and is below infinity."""
        if self.of(scores) is not None:
            return True
        op = scores.owner
        if not isinstance(op, graph.BinaryOp) or op.function is not Binary.ADD or op.activation:
            return False
        for mask, others in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            array = graph.constant_array(mask)
            if array is None or graph.shape_of(mask)[-1:] != graph.shape_of(scores)[-1:]:
                continue
            numbers = array.astype(np.float32)
            shown = np.abs(numbers) < COMPUTED
            if bool(np.all(shown | np.isneginf(numbers))) and bool(np.all(shown.any(-1))):
                return self.of(others) is not None
        return False

    def of(self, value: SSAValue) -> float | None:
        if value not in self.known:
            self.known[value] = None
            bound = self._computed(value)
            self.known[value] = bound if bound is not None and bound < LARGEST else None
        return self.known[value]

    def _computed(self, value: SSAValue) -> float | None:
        op = value.owner
        match op:
            case Block():
                return COMPUTED
            case graph.ConstantOp():
                return float(np.abs(op.array().astype(np.float64)).max(initial=0.0))
            case graph.LinearOperation():
                residual = COMPUTED if op.residual is None else self.of(op.residual)
                return None if residual is None else COMPUTED + residual
            case graph.NormalizeOp():
                return COMPUTED
            case graph.CastOp() if is_integer(graph.element_of(op.input)):
                return COMPUTED
            case graph.BinaryOp() if op.activation is None and op.function in COMBINED:
                lhs, rhs = self.of(op.lhs), self.of(op.rhs)
                return None if lhs is None or rhs is None else COMBINED[op.function](lhs, rhs)
            case graph.ReshapeOp() | graph.TransposeOp() | graph.SliceOp():
                return self.of(op.input)
            case graph.ConcatOp():
                return self._most(op.inputs)
            case graph.SelectOp():
                return self._most([op.lhs, op.rhs])
            case _:
                return None

    def _most(self, values: Iterable[SSAValue]) -> float | None:
        bounds = [self.of(value) for value in values]
        return None if None in bounds else max(b for b in bounds if b is not None)
