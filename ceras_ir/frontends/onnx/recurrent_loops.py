"""
A loop that is a recurrent layer becomes one `graph.recurrence`, as the operators LSTM, GRU and RNN.

Unrolled, each step would be operations of its own, each of which is rounded by itself in integers.
Beside the cell, the body may have what such loops have: counters, rows of the input, and states as
outputs. Products with constants are taken together and sums in another order, which is exact but
for rounding in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import (
    MatmulOp,
    RecurrenceOp,
    ReshapeOp,
    TakeOp,
    TransposeOp,
    element_of,
    shape_of,
)
from ceras_ir.frontends.onnx.calls import Body
from ceras_ir.frontends.onnx.compose import MAX_INDICES, Composer
from ceras_ir.frontends.onnx.counters import Counters
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.linear_form import Floats, LinearForms, origin
from ceras_ir.frontends.onnx.values import Constant, Value
from ceras_ir.frontends.onnx.written_cells import CellMatcher, WrittenCell


@dataclass(frozen=True)
class RecurrentLoop:
    """A loop over `body`, which may be a recurrent layer."""

    emitter: Emitter
    body: Body
    carried: Sequence[Value]
    scanned: Sequence[Callable[[], Value]] = ()
    """Emit what has an element of each step along its first dimension."""
    trips: int | None = None
    """How often it runs, if its condition does not end it."""
    has_condition: bool = False
    """Whether the body first returns whether there is another step."""

    def results(self) -> Sequence[Value] | None:
        """What is carried at the end, then what is stacked; None if it is no such layer."""
        limit = MAX_INDICES if self.trips is None else min(self.trips, MAX_INDICES)
        steps = self._steps(self._counters(limit)) if limit > 0 else None
        if steps is None or steps < 2:
            return None  # One step is its operations; products with a first state of zeros go.
        counters = self._counters(steps)
        states = [i for i, v in enumerate(self._inside) if element_of(v) == f32 and shape_of(v)]
        for chosen in (*permutations(states, 2), *permutations(states, 1)):
            if (cell := self._cell(chosen)) is not None:
                return self._replaced(cell, chosen, counters)
        return None

    @property
    def _inside(self) -> Sequence[SSAValue]:
        """What is carried, as a step reads it."""
        return self.body.function.body.block.args[1 : 1 + len(self.carried)]

    @property
    def _after(self) -> Sequence[SSAValue]:
        """What a step returns beside the condition: what is carried, then what is stacked."""
        return self.body.results[self.has_condition :]

    def _counters(self, steps: int) -> Counters:
        carried = {
            inside: (first.load().reshape(-1), after)
            for inside, first, after in zip(self._inside, self.carried, self._after, strict=False)
            if isinstance(first, Constant) and prod(first.shape) == 1
        }
        return Counters(self.body.function.body.block.args[0], carried, steps)

    def _steps(self, counters: Counters) -> int | None:
        """How often the body runs, if that is known."""
        if self.has_condition:
            again = counters.of(self.body.results[0])
            if again is None:
                return None
            if not again.all():
                return int(np.argmin(again)) + 1
        return self.trips if self.trips == counters.steps else None

    def _cell(self, chosen: Sequence[int]) -> WrittenCell | None:
        """The cell whose state, and cell state if there are two, are these carried values."""
        inside, after = ([values[i] for i in chosen] for values in (self._inside, self._after))
        shapes = {shape_of(v) for v in (*inside, *after)}
        if len(shapes) != 1:
            return None
        matcher = CellMatcher(LinearForms(prod(shapes.pop()[:-1])), inside[0], after[0])
        cell = matcher.cell() if len(chosen) == 1 else matcher.lstm(inside[1], after[1])
        reads_state = cell is not None and any(inside[0] in form.parts for form in cell.gates)
        return cell if reads_state else None

    def _replaced(
        self, cell: WrittenCell, chosen: Sequence[int], counters: Counters
    ) -> Sequence[Value] | None:
        """The results of the loop, made of those of the layer."""
        state = self._inside[chosen[0]]
        inputs = dict.fromkeys(v for form in cell.gates for v in form.parts if v is not state)
        sources = {v: source for v in inputs if (source := self._source(v, counters))}
        results = [r for i in range(len(self._after)) if (r := self._result(i, chosen, counters))]
        # Nothing is emitted before all of it is known to be there.
        if not 0 < len(inputs) == len(sources) or len(results) != len(self._after):
            return None
        ends = self._layer(cell, chosen, sources)
        return [result(ends) for result in results]

    def _source(self, value: SSAValue, counters: Counters) -> "_Source | None":
        """Where the rows come from that a value of a step is."""
        args = list[SSAValue](self.body.function.body.block.args)
        first, behind = 1 + len(self.carried), len(args) - len(self.body.captured)
        elements = dict(zip(args[first:behind], self.scanned, strict=True))
        captured = dict(zip(args[behind:], self.body.captured, strict=True))
        if value in elements:
            return _Source(elements[value], (), range(counters.steps))
        if not isinstance(take := value.owner, TakeOp) or shape_of(take.indices) != (1,):
            return None
        moves: list[ReshapeOp | TransposeOp] = []
        inside = take.input
        while isinstance(op := inside.owner, ReshapeOp | TransposeOp):
            moves.insert(0, op)
            inside = op.input
        indices, rows = counters.of(take.indices), shape_of(take.input)[0]
        if inside not in captured or indices is None:
            return None
        if int(indices.min()) < 0 or int(indices.max()) >= rows:
            return None
        return _Source(lambda: captured[inside], moves, indices.astype(np.int64).tolist())

    def _result(
        self, index: int, chosen: Sequence[int], counters: Counters
    ) -> "Callable[[_Ends], Value] | None":
        """What makes a result of the loop of those of the layer."""
        emitter, value, is_stacked = self.emitter, self._after[index], index >= len(self.carried)
        shape = (*(counters.steps,) * is_stacked, *shape_of(value))
        state, *cell = (origin(self._after[i]) for i in chosen)
        if origin(value) is state:
            return lambda ends: emitter.reshaped(ends.states if is_stacked else ends.state, shape)
        if not is_stacked and origin(value) in cell:
            return lambda ends: emitter.reshaped(ends.cell, shape)
        if (numbers := counters.of(value)) is None:
            return None
        array = (numbers if is_stacked else numbers[-1:]).reshape(shape)
        return lambda _: emitter.constant(array, f"counter{index}")

    def _layer(
        self, cell: WrittenCell, chosen: Sequence[int], sources: "Mapping[SSAValue, _Source]"
    ) -> "_Ends":
        """The product for the input of all steps, and the steps."""
        emitter, compose = self.emitter, Composer(self.emitter)
        state = self._inside[chosen[0]]
        *rows, width = shape_of(state)
        batch, steps = prod(rows), len(next(iter(sources.values())).indices)
        sizes = {v: prod(shape_of(v)) // batch for v in sources}

        def weights(of: SSAValue, size: int) -> Floats:
            none = np.zeros((size, width))
            return np.concatenate([form.parts.get(of, none) for form in cell.gates], 1).T

        def constant(array: Floats, name: str) -> SSAValue:
            stored = np.ascontiguousarray(array, np.float32)
            return emitter.materialize(emitter.constant(stored, name))

        given = [
            emitter.reshaped(source.emitted(emitter), (steps * batch, sizes[v]))
            for v, source in sources.items()
        ]
        own = np.concatenate([weights(v, size) for v, size in sizes.items()], 1)
        product = MatmulOp(
            emitter.materialize(compose.joined(given, 1)),
            constant(own, "input_weights"),
            constant(np.concatenate([form.offset for form in cell.gates]), "bias"),
            result_element=f32,
        )
        of_steps = emitter.reshaped(emitter.emit(product), (steps, batch, len(own)))
        first, *first_cell = (
            emitter.materialize(emitter.reshaped(self.carried[i], (batch, width))) for i in chosen
        )
        inner = np.pad(cell.state_offset, (len(own) - len(cell.state_offset), 0))
        result = RecurrenceOp(
            cell.kind,
            emitter.materialize(of_steps),
            constant(weights(state, width), "state_weights"),
            first,
            cell.functions,
            cell=first_cell[0] if first_cell else None,
            bias=constant(inner, "state_bias") if inner.any() else None,
        )
        every = emitter.emit(result)
        last = shape_of_value(every)[0] - 1
        return _Ends(
            compose.part(every, 0, 0, steps),
            compose.part(every, 0, steps - 1, 1),
            compose.part(every, 0, last, 1),
        )


@dataclass(frozen=True)
class _Source:
    """Rows of what `moves` make of a value around the loop, in this order."""

    value: Callable[[], Value]
    moves: Sequence[ReshapeOp | TransposeOp]
    indices: Sequence[int]

    def emitted(self, emitter: Emitter) -> Value:
        """One row for each step, along the first dimension."""
        value = self.value()
        for op in self.moves:
            if isinstance(op, ReshapeOp):
                value = emitter.reshaped(value, shape_of(op.result))
            else:
                value = emitter.transposed(value, op.permutation.get_values())
        return Composer(emitter).gathered(value, 0, self.indices)


@dataclass(frozen=True)
class _Ends:
    """What a layer results in."""

    states: Value
    """After every step."""
    state: Value
    """After the last one."""
    cell: Value
    """The cell state of an LSTM after the last step."""
