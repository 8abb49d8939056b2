"""
Cells of recurrent layers that are written out in operations, as tf2onnx exports those of Keras.

A cell is known by what is not linear in it: its gates, the products of these with states, and the
functions. Everything between is a `LinearForm`, however it is spelled.

A mask may leave out steps: the states remain as they are, as Keras has it where an input is
padding. The layer computes the steps that count, one after the other and without those between,
and each step has the state after the last step that counts. Nothing reads the results that the
layer computes after all of them. Exact: every step computes the same of the same values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import (
    Binary,
    BinaryOp,
    CastOp,
    Cell,
    Function,
    FunctionAttr,
    GatherOp,
    PutOp,
    SelectOp,
    UnaryOp,
    constant_array,
    constant_number,
    element_of,
    shape_of,
)
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
"""The functions that gates and states may have."""


@dataclass(frozen=True)
class WrittenCell:
    """A step of a `graph.recurrence`."""

    kind: Cell
    functions: Sequence[FunctionAttr]
    gates: Sequence[LinearForm]
    """In the operation's order, of the state and of what it does not depend on."""
    state_offset: Float64Array
    """Of the last gate of a GRU: what is added to the state's product before it is reset."""


@dataclass(frozen=True)
class CellMatcher:
    """Matches the step of a loop, which makes `after` of the state `state`."""

    forms: LinearForms
    state: SSAValue
    after: SSAValue

    def cell(self) -> WrittenCell | None:
        """The cell with this one state."""
        return self._gru() or self._rnn()

    def lstm(self, cell: SSAValue, cell_after: SSAValue) -> WrittenCell | None:
        """The cell with this state and a cell state: `c = f * c + i * g`, `h = o * k(c)`."""
        ends = product(orders(self.after, Binary.MUL), orders(cell_after, Binary.ADD))
        for (output, shown), (kept, added) in ends:
            parts = product(orders(kept, Binary.MUL), orders(added, Binary.MUL))
            for (forget, before), (taken, new) in parts:
                values = (taken, output, forget, new, shown)
                found = [known for v in values if (known := _function(v))]
                if len(found) != len(values) or origin(before) is not cell:
                    continue
                i, o, f, g, k = found
                if i[0] == o[0] == f[0] and origin(k[1]) is origin(cell_after):
                    gates = [self.forms.of(argument) for _, argument in found[:-1]]
                    return _made(Cell.LSTM, (f[0], g[0], k[0]), gates)
        return None

    def _rnn(self) -> WrittenCell | None:
        """`h = f(a)`"""
        if (found := _function(self.after)) is None:
            return None
        return _made(Cell.RNN, (found[0],), [self.forms.of(found[1])])

    def _gru(self) -> WrittenCell | None:
        """`h = z * h + (1 - z) * n`, or `n + z * (h - n)`."""
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
                        return _made(kind, (z[0], n[0]), gates, offset)
        return None

    def _reset(
        self, form: LinearForm, part: SSAValue, other: SSAValue
    ) -> tuple[Cell, LinearForm, Float64Array | None] | None:
        """
        The last gate, in whose `form` the product `part` of `other` and a gate stands for the
        state, and what is added to the state's product.
        """
        rest = {v: w for v, w in form.parts.items() if v is not part}
        weights = form.parts[part]
        if self.state in rest:
            return None  # Not all of the state is reset.
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
        """Update gates and new states of which the state could be made."""
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


def _made(
    kind: Cell,
    functions: Sequence[FunctionAttr],
    gates: Sequence[LinearForm | None],
    state_offset: Float64Array | None = None,
) -> WrittenCell | None:
    known = [form for form in gates if form is not None]
    offset = np.zeros(1) if state_offset is None else state_offset
    return WrittenCell(kind, functions, known, offset) if len(known) == len(gates) else None


def orders(value: SSAValue, kind: Binary) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Both operands of what computes a value, either way round; nothing if it is not `kind`."""
    op = origin(value).owner
    if isinstance(op, BinaryOp) and op.function is kind and op.activation is None:
        yield op.lhs, op.rhs
        yield op.rhs, op.lhs


def _difference(value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    return next(orders(value, Binary.SUB), None)


def _is_complement(value: SSAValue, of: SSAValue) -> bool:
    """Whether `value` is `1 - of`."""
    pair = _difference(value)
    if pair is None or origin(pair[1]) is not origin(of):
        return False
    ones = constant_array(pair[0])
    return ones is not None and bool((ones == 1).all())


def _function(value: SSAValue) -> tuple[FunctionAttr, SSAValue] | None:
    """The function of a gate or a state, and its argument."""
    op, scale = origin(value).owner, 1.0
    for pair in orders(value, Binary.MUL):
        if (factor := constant_number(pair[1])) is not None:
            op, scale = origin(pair[0]).owner, factor
    if not isinstance(op, UnaryOp):
        return None
    function = op.function
    if function.kind is Function.CLIP:
        low, high = function.values
        # Keras' hard sigmoid is one by `min(max(x + 3, 0), 6) / 6`; the addend is in the form.
        if low == 0 and np.float32(high) * np.float32(scale) == 1:
            return FunctionAttr(Function.HARD_SIGMOID, (scale, 0.0)), op.input
        return None
    return (function, op.input) if scale == 1 and function.kind in CELL_FUNCTIONS else None


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
        return cls(emitter, flags, emitter.running_sum(emitter.cast(flags, i64), 0))

    def in_front(self, rows: Value) -> Value:
        """Rows [steps * batch, size] with those of the steps that count before all others."""
        emitter, shape = self.emitter, shape_of_value(self.counts)
        size = prod(shape)
        # The last that counts so far is the one before the next; the others leave the table.
        place = emitter.rows_of_steps(emitter.sub(self.counts, emitter.number(1, self.counts)))
        place = emitter.select(self.flags, place, emitter.number(size, self.counts))
        own = emitter.constant(np.arange(size).reshape(size, 1), "rows")
        table = PutOp(
            emitter.materialize(emitter.constant(np.zeros((size, 1), np.int64), "first")),
            emitter.materialize(emitter.reshaped(place, (size,))),
            emitter.materialize(own),
        )
        return emitter.taken(rows, emitter.emit(table))

    def behind(self, start: Value, states: Value) -> Value:
        """
        The state [steps, batch, size] behind every step, of the first and those that the layer
        computed.
        """
        emitter, (_, *rest) = self.emitter, shape_of_value(states)
        first = self.emitter.reshaped(start, (1, *rest))
        return emitter.at_steps(emitter.joined([first, states], 0), self.counts)
