"""
Recognize loops with the cell of a recurrent layer as the body.

The values that depend only on the number of the step are evaluated: counters, indices, conditions.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, CastOp, ReshapeOp, TransposeOp, constant_array, shape_of
from ceras_ir.frontends.onnx.emission.builder import LoopBody
from ceras_ir.frontends.onnx.emission.emitter import MAX_INDICES, Emitter
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.onnx.recurrence.linear_form import Float64Array, LinearForms, origin
from ceras_ir.frontends.onnx.recurrence.written_cells import (
    CellMatcher,
    CountedSteps,
    MaskedUpdate,
    WrittenCell,
    masked_update,
)
from ceras_ir.interpreters.elementwise import cast, combine, compare

StepNumbers: TypeAlias = NDArray[np.generic]


@dataclass(frozen=True)
class Counters:
    """
    The values of integer scalars in the body of a loop that depend only on the number of the step,
    such as indices, for each step.
    """

    number: SSAValue
    """The number of the step, from 0."""
    carried: Mapping[SSAValue, tuple[StepNumbers, SSAValue]]
    """For each scalar that steps pass on: the constant start, and the value after a step."""
    steps: int

    def of(self, value: SSAValue) -> StepNumbers | None:
        """
        Return the value of the scalar `value` in each step as an array, or `None` if it depends on
        other data than the number of the step.
        """
        if prod(shape_of(value)) != 1:
            return None
        if value is self.number:
            return np.arange(self.steps)
        if value in self.carried:
            return self._advanced(value)
        if (array := constant_array(value)) is not None:
            return np.broadcast_to(array.reshape(-1), (self.steps,))
        match value.owner:
            case ReshapeOp() as op:
                return self.of(op.input)
            case CastOp() as op:
                given = self.of(op.input)
                return (
                    None
                    if given is None
                    else cast(given, graph.numpy_dtype(graph.element_of(value)))
                )
            case graph.BinaryOp() | graph.CompareOp() as op:
                lhs, rhs = self.of(op.lhs), self.of(op.rhs)
                if lhs is None or rhs is None:
                    return None
                if isinstance(op, graph.CompareOp):
                    return compare(op.function, lhs, rhs)
                return None if op.activation else combine(op.function, lhs, rhs)
            case _:
                return None

    def _advanced(self, value: SSAValue) -> StepNumbers | None:
        """
        Return the values, in each step, of an integer that the steps pass on if each step adds a
        constant to it, else `None`.
        """
        start, after = self.carried[value]
        op = origin(after).owner
        if not isinstance(op, graph.BinaryOp) or op.function is not Binary.ADD:
            return None
        added = [v for v in (op.lhs, op.rhs) if origin(v) is not value]
        step = constant_array(added[0]) if len(added) == 1 else None
        if step is None or step.size != 1 or start.dtype.kind not in "iu":
            return None
        numbers = np.arange(self.steps).astype(start.dtype)
        return combine(Binary.ADD, combine(Binary.MUL, numbers, step.reshape(-1)), start)


@dataclass(frozen=True)
class RecurrentLoop:
    """
    A loop of separate operations, and the attempt to replace it by a recurrent layer. `carried` are
    the initial values of what each step passes to the next.
    """

    emitter: Emitter
    body: LoopBody
    carried: Sequence[Value]
    scanned: Sequence[Callable[[], Value]] = ()
    """Functions that emit operands with an element for each step, along the first dimension."""
    trips: int | None = None
    """The number of steps, if there is no condition."""
    has_condition: bool = False
    """Whether the first result of the body is the condition of the next step."""
    unused: Container[int] = ()
    """The indices of the carried values that are not used after the loop."""

    def results(self) -> Sequence[Value] | None:
        """
        Emit a recurrent layer, and return the carried values after the last step, followed by the
        outputs of all steps. Return `None` if the loop is not equivalent to a recurrent layer.
        """
        limit = MAX_INDICES if self.trips is None else min(self.trips, MAX_INDICES)
        steps = self._steps(self._counters(limit)) if limit > 0 else None
        if steps is None or steps < 2:
            return None  # The operations of a single step are simpler than a layer.
        counters = self._counters(steps)
        states = [
            i for i, v in enumerate(self._inside) if graph.element_of(v) == f32 and shape_of(v)
        ]
        for chosen in (*permutations(states, 2), *permutations(states, 1)):
            if (step := self._step(chosen)) is not None:
                return self._replaced(step, counters)
        return None

    @property
    def _inside(self) -> Sequence[SSAValue]:
        return self.body.function.body.block.args[1 : 1 + len(self.carried)]

    @property
    def _after(self) -> Sequence[SSAValue]:
        """
        The results of the body without the condition: the carried values for the next step, and the
        outputs of the step.
        """
        return self.body.results[self.has_condition :]

    def _counters(self, steps: int) -> Counters:
        carried = {
            inside: (first.load().reshape(-1), after)
            for inside, first, after in zip(self._inside, self.carried, self._after, strict=False)
            if isinstance(first, Constant) and prod(first.shape) == 1
        }
        return Counters(self.body.function.body.block.args[0], carried, steps)

    def _steps(self, counters: Counters) -> int | None:
        if self.has_condition:
            again = counters.of(self.body.results[0])
            if again is None:
                return None
            if not again.all():
                return int(np.argmin(again)) + 1
        return self.trips if self.trips == counters.steps else None

    def _step(self, chosen: Sequence[int]) -> "_LayerStep | None":
        """
        Match the body as a step of a recurrent layer. `chosen` has the index of the carried value
        that is the state and, for an LSTM, that of the cell state. Return `None` if the body
        computes anything else.
        """
        inside, after = ([values[i] for i in chosen] for values in (self._inside, self._after))
        if len({shape_of(v) for v in (*inside, *after)}) != 1:
            return None
        rows, found = prod(shape_of(inside[0])[:-1]), [masked_update(v) for v in after]
        if all(h is not None and origin(h.old) is v for h, v in zip(found, inside, strict=True)):
            holds = [h for h in found if h is not None]
            mask, after = holds[0].mask, [h.new for h in holds]
            if any(h.mask is not mask for h in holds) or prod(shape_of(mask)) != rows:
                return None
        else:
            mask = None
        matcher = CellMatcher(LinearForms(rows), inside[0], after[0])
        cell = matcher.cell() if len(chosen) == 1 else matcher.lstm(inside[1], after[1])
        if cell is None or not any(inside[0] in form.parts for form in cell.gates):
            return None
        return _LayerStep(cell, chosen, after, mask)

    def _replaced(self, step: "_LayerStep", counters: Counters) -> Sequence[Value] | None:
        state = self._inside[step.chosen[0]]
        parts = (v for form in step.cell.gates for v in form.parts)
        inputs = dict.fromkeys(v for v in parts if v is not state)
        sources = {v: source for v in inputs if (source := self._source(v, counters))}
        mask = None if step.mask is None else self._source(step.mask, counters)
        results = [r for i in range(len(self._after)) if (r := self._result(i, step, counters))]
        # Operations are emitted only if all sources and results are known.
        if not 0 < len(inputs) == len(sources) or len(results) != len(self._after):
            return None
        if mask is None and step.mask is not None:
            return None
        layer_results = self._layer(step, sources, mask)
        return [result(layer_results) for result in results]

    def _source(self, value: SSAValue, counters: Counters) -> "_Source | None":
        """
        Return the value outside of the loop of which `value` is a row in each step, or `None`.
        """
        args = list[SSAValue](self.body.function.body.block.args)
        first, split = 1 + len(self.carried), len(args) - len(self.body.captured)
        elements = dict(zip(args[first:split], self.scanned, strict=True))
        captured = dict(zip(args[split:], self.body.captured, strict=True))
        if value in elements:
            return _Source(elements[value], (), range(counters.steps))
        if not isinstance(take := value.owner, graph.TakeOp) or shape_of(take.indices) != (1,):
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
        self, index: int, step: "_LayerStep", counters: Counters
    ) -> "Callable[[_LayerResults], Value] | None":
        """
        Return a function that derives result `index` of the loop from the results of the layer, or
        `None` if it cannot be derived.
        """
        emitter, value, is_stacked = self.emitter, self._after[index], index >= len(self.carried)
        shape = (*(counters.steps,) * is_stacked, *shape_of(value))
        if not is_stacked and index in self.unused:
            return lambda _: self.carried[index]
        state, *cell = (origin(self._after[i]) for i in step.chosen)
        masked = masked_update(value)
        if origin(value) is state or self._is_state(masked, value, step):
            return lambda layer: emitter.reshaped(
                layer.states if is_stacked else layer.state, shape
            )
        if step.mask is None and not is_stacked and origin(value) in cell:
            return lambda layer: emitter.reshaped(layer.cell, shape)
        # The constant that replaces the state in steps that do not count.
        is_masked = masked is not None and step.holds(masked)
        other = constant_array(masked.old) if masked is not None and is_masked else None
        if other is not None:
            return lambda layer: emitter.reshaped(layer.counted(emitter, other, is_stacked), shape)
        if (numbers := counters.of(value)) is None:
            return None
        array = (numbers if is_stacked else numbers[-1:]).reshape(shape)
        return lambda _: emitter.constant(array, f"counter{index}")

    def _is_state(self, found: MaskedUpdate | None, value: SSAValue, step: "_LayerStep") -> bool:
        """
        Return whether `value` equals the state after each step. `found` is the match of the update
        by a mask; the value may be a carried copy of the state.
        """
        if found is None or not step.holds(found):
            return False
        if origin(found.old) is self._inside[step.chosen[0]]:
            return True
        start = self.carried[step.chosen[0]]
        starts = [
            first
            for inside, after, first in zip(self._inside, self._after, self.carried, strict=False)
            if origin(found.old) is inside and origin(after) is origin(value)
        ]
        if isinstance(start, Constant):
            known = [first.load() for first in starts if isinstance(first, Constant)]
            return any(np.array_equal(first, start.load()) for first in known)
        return any(first is start for first in starts)

    def _layer(
        self, step: "_LayerStep", sources: "Mapping[SSAValue, _Source]", mask: "_Source | None"
    ) -> "_LayerResults":
        emitter = self.emitter
        cell, chosen = step.cell, step.chosen
        state = self._inside[chosen[0]]
        *outer, width = shape_of(state)
        batch, steps = prod(outer), len(next(iter(sources.values())).indices)
        sizes = {v: prod(shape_of(v)) // batch for v in sources}

        def weights(of: SSAValue, size: int) -> Float64Array:
            none = np.zeros((size, width))
            return np.concatenate([form.parts.get(of, none) for form in cell.gates], 1).T

        def constant(array: Float64Array, name: str) -> SSAValue:
            stored = np.ascontiguousarray(array, np.float32)
            return emitter.materialize(emitter.constant(stored, name))

        given = [
            emitter.reshaped(source.emitted(emitter), (steps * batch, sizes[v]))
            for v, source in sources.items()
        ]
        own = np.concatenate([weights(v, size) for v, size in sizes.items()], 1)
        rows, counted = emitter.joined(given, 1), None
        if mask is not None:
            flags = emitter.reshaped(mask.emitted(emitter), (steps, batch))
            counted = CountedSteps.of(emitter, flags)
            rows = counted.compacted(rows)
        product = emitter.product(
            emitter.materialize(rows),
            constant(own, "input_weights"),
            constant(np.concatenate([form.offset for form in cell.gates]), "bias"),
        )
        of_steps = emitter.reshaped(product, (steps, batch, len(own)))
        first, *first_cell = (
            emitter.materialize(emitter.reshaped(self.carried[i], (batch, width))) for i in chosen
        )
        inner = np.pad(cell.state_offset, (len(own) - len(cell.state_offset), 0))
        result = graph.RecurrenceOp(
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
        states = emitter.part(every, 0, 0, steps)
        if counted is not None:
            states = counted.after_steps(first, states)
        return _LayerResults(
            states,
            emitter.part(states, 0, steps - 1, 1),
            emitter.part(every, 0, last, 1),
            None if counted is None else counted.flags,
        )


@dataclass(frozen=True)
class _LayerStep:
    cell: WrittenCell
    chosen: Sequence[int]
    """The indices of the state and the cell state in the carried values."""
    new_states: Sequence[SSAValue]
    """The new states that the cell computes."""
    mask: SSAValue | None
    """
    A boolean for each row: where it is false, the states are kept. `None` if all steps are
    executed.
    """

    def holds(self, found: MaskedUpdate) -> bool:
        """Return whether `found` is the update of the state by the mask of this step."""
        return found.mask is self.mask and origin(found.new) is origin(self.new_states[0])


@dataclass(frozen=True)
class _Source:
    """
    Rows of a value outside of a loop: the value, the data movement after it, and the index of the
    row that each step uses.
    """

    value: Callable[[], Value]
    moves: Sequence[ReshapeOp | TransposeOp]
    indices: Sequence[int]

    def emitted(self, emitter: Emitter) -> Value:
        """Emit a row for each step, along the first dimension."""
        value = self.value()
        for op in self.moves:
            if isinstance(op, ReshapeOp):
                value = emitter.reshaped(value, shape_of(op.result))
            else:
                value = emitter.transposed(value, op.permutation.get_values())
        return emitter.gathered(value, 0, self.indices)


@dataclass(frozen=True)
class _LayerResults:
    states: Value
    """The states after each step."""
    state: Value
    """The state after the last step."""
    cell: Value
    """The cell state of an LSTM after the last step, if all steps count."""
    flags: Value | None
    """For each step and each sequence, whether the step counts, with axes [steps, batch]."""

    def counted(self, emitter: Emitter, other: NDArray[np.generic], is_stacked: bool) -> Value:
        """
        Return the states (after each step if `is_stacked`, else after the last), with `other` in
        place of the states of steps that the mask excludes.
        """
        assert self.flags is not None
        shape = shape_of_value(self.states)
        instead = emitter.constant(other.reshape((1, *other.shape)), "instead")
        flags = emitter.reshaped(self.flags, (*shape[:2], 1))
        found = emitter.select(flags, self.states, instead)
        return found if is_stacked else emitter.part(found, 0, shape[0] - 1, 1)
