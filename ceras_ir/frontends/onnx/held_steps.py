"""
Steps of a recurrent layer that a mask leaves out: its states stay as they are, as Keras has it
where an input is padding.

The layer computes the steps that count, one after the other and without those between, and each
step has the state behind the last one that counts. What the layer computes behind all of them is
read by nothing. Exact: every step computes the same of the same values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import (
    Binary,
    CastOp,
    GatherOp,
    PutOp,
    SelectOp,
    constant_array,
    element_of,
    shape_of,
)
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.linear_form import origin
from ceras_ir.frontends.onnx.values import Value
from ceras_ir.frontends.onnx.written_cells import orders


@dataclass(frozen=True)
class Held:
    """`new` where `mask` is true, else `old`."""

    mask: SSAValue
    new: SSAValue
    old: SSAValue


def held(value: SSAValue) -> Held | None:
    """A value as what a mask selects, by a selection or by `mask * new + (not mask) * old`."""
    if isinstance(op := origin(value).owner, SelectOp):
        mask = _of_rows(op.condition)
        return None if mask is None else Held(mask, op.lhs, op.rhs)
    for added, kept in orders(value, Binary.ADD):
        for factor, new in orders(added, Binary.MUL):
            if (mask := _condition(factor)) is not None:
                for other, old in orders(kept, Binary.MUL):
                    denied = _condition(other)
                    if denied is not None and any(v is mask for v in _denied(denied)):
                        return Held(mask, new, old)
    return None


def _condition(factor: SSAValue) -> SSAValue | None:
    """What is true where a factor is 1, and false where it is 0."""
    op = origin(factor).owner
    if not isinstance(op, CastOp) or element_of(op.input) != i1:
        return None
    return _of_rows(op.input)


def _of_rows(mask: SSAValue) -> SSAValue | None:
    """A mask with one element for each row of a state, before it is repeated along the row."""
    shape = shape_of(mask)
    if prod(shape) == 1 or shape[-1] == 1:
        return origin(mask)
    if not isinstance(op := mask.owner, GatherOp) or any(op.indices.get_values()):
        return None
    return _of_rows(op.input) if op.axis.value.data == len(shape) - 1 else None


def _denied(condition: SSAValue) -> Iterator[SSAValue]:
    """What is true where `condition` is false, if it is written so."""
    for value, other in orders(condition, Binary.XOR):
        rows = _of_rows(value)
        if (array := constant_array(other)) is not None and array.all() and rows is not None:
            yield rows


@dataclass(frozen=True)
class CountedSteps:
    """The steps that count, of `steps` for each of a batch."""

    emitter: Emitter
    flags: Value
    """[steps, batch], of i1: whether a step counts."""
    counts: Value
    """[steps, batch], of i64: how many do, up to each."""

    @classmethod
    def of(cls, emitter: Emitter, flags: Value) -> "CountedSteps":
        compose = Composer(emitter)
        return cls(emitter, flags, compose.running_sum(compose.cast(flags, i64), 0))

    def in_front(self, rows: Value) -> Value:
        """Rows [steps * batch, size] with those of the steps that count before all others."""
        emitter, compose, shape = self.emitter, Composer(self.emitter), shape_of_value(self.counts)
        size = prod(shape)
        # The last that counts so far is the one before the next; the others leave the table.
        place = compose.rows_of_steps(compose.sub(self.counts, compose.number(1, self.counts)))
        place = compose.select(self.flags, place, compose.number(size, self.counts))
        own = emitter.constant(np.arange(size).reshape(size, 1), "rows")
        table = PutOp(
            emitter.materialize(emitter.constant(np.zeros((size, 1), np.int64), "first")),
            emitter.materialize(emitter.reshaped(place, (size,))),
            emitter.materialize(own),
        )
        return compose.taken(rows, emitter.emit(table))

    def behind(self, start: Value, states: Value) -> Value:
        """
        The state [steps, batch, size] behind every step, of the first and those that the layer
        computed.
        """
        compose, (_, *rest) = Composer(self.emitter), shape_of_value(states)
        first = self.emitter.reshaped(start, (1, *rest))
        return compose.at_steps(compose.joined([first, states], 0), self.counts)
