"""
Match cells of recurrent layers that consist of separate operations, as tf2onnx exports from Keras.

A cell is identified by its nonlinear operations: the gates, their products with states, and the
functions. Operations in between are a `LinearForm`.

A mask may exclude steps: the states are then kept, as in Keras if an input is padding. The other
steps are the counted steps, which the layer computes consecutively. The state of each step is that
after the last counted step. Results of the layer after all counted steps are not used. This is
exact, because each step computes the same function of the same values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Cell, Function, FunctionAttr, constant_array, element_of
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.recurrence.linear_form import (
    Float64Array,
    LinearForm,
    LinearForms,
    origin,
)

CELL_FUNCTIONS = frozenset(
    (
        Function.RELU,
        Function.TANH,
        Function.SIGMOID,
        Function.LEAKY_RELU,
        Function.HARD_SIGMOID,
        Function.ELU,
        Function.SOFTSIGN,
        Function.SOFTPLUS,
    )
)
"""The functions of gates and states."""


@dataclass(frozen=True)
class WrittenCell:
    """
    The cell of a recurrent layer that was found in the body of a loop, with the data for a
    `graph.recurrence`.
    """

    kind: Cell
    functions: Sequence[FunctionAttr]
    gates: Sequence[LinearForm]
    """
    The arguments of the gates, in the order of `graph.recurrence`, as linear forms of the state and
    the inputs.
    """
    state_offset: Float64Array
    """The offset of the product with the state in the last gate of a GRU, before the reset."""


@dataclass(frozen=True)
class CellMatcher:
    """
    Matches operations that compute `after`, the state after a step, from `state`, the state before
    it, with the cells of recurrent layers.
    """

    forms: LinearForms
    state: SSAValue
    after: SSAValue

    def cell(self) -> WrittenCell | None:
        """Return the cell of a GRU or RNN, which have a single state, or `None`."""
        return self._gru() or self._rnn()

    def lstm(self, cell: SSAValue, cell_after: SSAValue) -> WrittenCell | None:
        """
        Return the cell of an LSTM, or `None`: `c = f * c + i * g`, `h = o * k(c)`. `cell` is c
        before the step, and `cell_after` is c after it.
        """
        pairs = product(orders(self.after, Binary.MUL), orders(cell_after, Binary.ADD))
        for (output, shown), (kept, added) in pairs:
            parts = product(orders(kept, Binary.MUL), orders(added, Binary.MUL))
            for (forget, before), (taken, new) in parts:
                values = (taken, output, forget, new, shown)
                found = [known for v in values if (known := _function(v))]
                if len(found) != len(values) or origin(before) is not cell:
                    continue
                i, o, f, g, k = found
                if i[0] == o[0] == f[0] and origin(k[1]) is origin(cell_after):
                    gates = [self.forms.of(argument) for _, argument in found[:-1]]
                    return _written_cell(Cell.LSTM, (f[0], g[0], k[0]), gates)
        return None

    def _rnn(self) -> WrittenCell | None:
        """Match `h = f(a)`, where `f` is an activation and `a` a linear form of input and state."""
        if (found := _function(self.after)) is None:
            return None
        return _written_cell(Cell.RNN, (found[0],), [self.forms.of(found[1])])

    def _gru(self) -> WrittenCell | None:
        """
        Match a GRU: `h = z * h + (1 - z) * n`, or `n + z * (h - n)`, where z is the update gate and
        n the new state.
        """
        for update, new in self._mixtures():
            z, n = _function(update), _function(new)
            form = None if n is None else self.forms.of(n[1])
            if z is None or n is None or form is None:
                continue
            for part in form.parts:
                for reset, other in orders(part, Binary.MUL):
                    r, found = _function(reset), self._reset(form, part, other)
                    if r is not None and r[0] == z[0] and found is not None:
                        kind, last, offset = found
                        gates = [self.forms.of(z[1]), self.forms.of(r[1]), last]
                        return _written_cell(kind, (z[0], n[0]), gates, offset)
        return None

    def _reset(
        self, form: LinearForm, part: SSAValue, other: SSAValue
    ) -> tuple[Cell, LinearForm, Float64Array | None] | None:
        """
        Return the kind of GRU (whether the reset is before or after the product with the state),
        the linear form of the last gate, and the offset of the product with the state; `None` if
        there is no match. In `form`, the state occurs as `part`, the product of `other` and the
        reset gate.
        """
        rest = {v: w for v, w in form.parts.items() if v is not part}
        weights = form.parts[part]
        if self.state in rest:
            return None  # A part of the state is not reset.
        if origin(other) is self.state:
            last = LinearForm({**rest, self.state: weights}, form.offset)
            return Cell.GRU_RESET_FIRST, last, None
        inner = self.forms.of(other)
        if inner is None or set(inner.parts) != {self.state}:
            return None
        if not np.array_equal(weights, np.eye(len(weights))):
            return None
        return Cell.GRU, LinearForm({**rest, **inner.parts}, form.offset), inner.offset

    def _mixtures(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        for kept, added in orders(self.after, Binary.ADD):
            for update, before in orders(kept, Binary.MUL):
                if origin(before) is self.state:
                    for rest, new in orders(added, Binary.MUL):
                        if _is_complement(rest, update):
                            yield update, new
                elif (pair := _difference(before)) is not None:
                    state, new = pair
                    if origin(state) is self.state and origin(new) is origin(added):
                        yield update, new


def _written_cell(
    kind: Cell,
    functions: Sequence[FunctionAttr],
    gates: Sequence[LinearForm | None],
    state_offset: Float64Array | None = None,
) -> WrittenCell | None:
    known = [form for form in gates if form is not None]
    offset = np.zeros(1) if state_offset is None else state_offset
    return WrittenCell(kind, functions, known, offset) if len(known) == len(gates) else None


def orders(value: SSAValue, kind: Binary) -> Iterator[tuple[SSAValue, SSAValue]]:
    """
    Yield the operands of `value` in both orders if it is computed by the commutative function
    `kind`.
    """
    op = origin(value).owner
    if isinstance(op, graph.BinaryOp) and op.function is kind and op.activation is None:
        yield op.lhs, op.rhs
        yield op.rhs, op.lhs


def _difference(value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    return next(orders(value, Binary.SUB), None)


def _is_complement(value: SSAValue, of: SSAValue) -> bool:
    pair = _difference(value)
    if pair is None or origin(pair[1]) is not origin(of):
        return False
    ones = constant_array(pair[0])
    return ones is not None and bool((ones == 1).all())


def _function(value: SSAValue) -> tuple[FunctionAttr, SSAValue] | None:
    """
    Return the activation function that computes `value`, and the argument, or `None`. A scaled clip
    is a hard sigmoid.
    """
    op, scale = origin(value).owner, 1.0
    for pair in orders(value, Binary.MUL):
        if (factor := graph.constant_number(pair[1])) is not None:
            op, scale = origin(pair[0]).owner, factor
    if not isinstance(op, graph.UnaryOp):
        return None
    function = op.function
    if function.data is Function.CLIP:
        low, high = function.values
        # Keras computes `min(max(x + 3, 0), 6) / 6`; the addend is in the form.
        if low == 0 and np.float32(high) * np.float32(scale) == 1:
            return FunctionAttr(Function.HARD_SIGMOID, (scale, 0.0)), op.input
        return None
    return (function, op.input) if scale == 1 and function.data in CELL_FUNCTIONS else None


@dataclass(frozen=True)
class MaskedUpdate:
    """A value that is `new` where `mask` is true, and `old` elsewhere."""

    mask: SSAValue
    new: SSAValue
    old: SSAValue


def masked_update(value: SSAValue) -> MaskedUpdate | None:
    """
    Return the match of `value` as a selection by a mask, `mask * new + (not mask) * old`, or
    `None`.
    """
    if isinstance(op := origin(value).owner, graph.SelectOp):
        mask = _of_rows(op.condition)
        return None if mask is None else MaskedUpdate(mask, op.lhs, op.rhs)
    for added, kept in orders(value, Binary.ADD):
        for factor, new in orders(added, Binary.MUL):
            if (mask := _condition(factor)) is not None:
                for other, old in orders(kept, Binary.MUL):
                    denied = _condition(other)
                    if denied is not None and any(v is mask for v in _denied(denied)):
                        return MaskedUpdate(mask, new, old)
    return None


def _condition(factor: SSAValue) -> SSAValue | None:
    """
    Return the boolean that was converted to `factor`, a number that is 0 or 1; `None` for other
    numbers.
    """
    op = origin(factor).owner
    if not isinstance(op, graph.CastOp) or element_of(op.input) != i1:
        return None
    return _of_rows(op.input)


def _of_rows(mask: SSAValue) -> SSAValue | None:
    """
    Return `mask` with a single element for each row, before it is repeated along the last axis;
    `None` if it has other elements.
    """
    shape = graph.shape_of(mask)
    if prod(shape) == 1 or shape[-1] == 1:
        return origin(mask)
    if not isinstance(op := mask.owner, graph.GatherOp) or any(op.indices.get_values()):
        return None
    return _of_rows(op.input) if op.axis.value.data == len(shape) - 1 else None


def _denied(condition: SSAValue) -> Iterator[SSAValue]:
    for value, other in orders(condition, Binary.XOR):
        rows = _of_rows(value)
        if (array := constant_array(other)) is not None and array.all() and rows is not None:
            yield rows


@dataclass(frozen=True)
class CountedSteps:
    """
    The steps of each sequence of a batch that are executed, because a mask does not exclude them
    (counted steps).
    """

    emitter: Emitter
    flags: Value
    """For each step and sequence, whether the step is counted, as i1 with axes [steps, batch]."""
    counts: Value
    """The number of counted steps up to each step, [steps, batch] of i64."""

    @classmethod
    def of(cls, emitter: Emitter, flags: Value) -> "CountedSteps":
        return cls(emitter, flags, emitter.running_sum(emitter.cast(flags, i64), 0))

    def compacted(self, rows: Value) -> Value:
        """
        Move the rows of counted steps, which the mask does not exclude, to the front of each
        sequence. `rows` is [steps * batch, size].
        """
        emitter, shape = self.emitter, shape_of_value(self.counts)
        size = prod(shape)
        # Counted step i moves to row i - 1 of its sequence; other steps leave the table.
        place = emitter.rows_of_steps(emitter.sub(self.counts, emitter.number(1, self.counts)))
        place = emitter.select(self.flags, place, emitter.number(size, self.counts))
        own = emitter.constant(np.arange(size).reshape(size, 1), "rows")
        table = graph.PutOp(
            emitter.materialize(emitter.constant(np.zeros((size, 1), np.int64), "first")),
            emitter.materialize(emitter.reshaped(place, (size,))),
            emitter.materialize(own),
        )
        return emitter.taken(rows, emitter.emit(table))

    def after_steps(self, start: Value, states: Value) -> Value:
        """
        Return the state [steps, batch, size] after each step. `start` is the initial state, and
        `states` has the states of the counted steps only; other steps do not change the state.
        """
        emitter, (_, *rest) = self.emitter, shape_of_value(states)
        first = self.emitter.reshaped(start, (1, *rest))
        return emitter.at_steps(emitter.joined([first, states], 0), self.counts)
