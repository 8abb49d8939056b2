"""
Import Loop and Scan: the operations of all steps are emitted in order.

A loop that is too long becomes a single operation that calls a function for each step. The weights
of a body are shared by all steps.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import constant_array, element_of, plain_element, shape_of
from ceras_ir.dialects.graph.operation import Tensor
from ceras_ir.frontends.onnx.emission.builder import LoopBody, emit_loop, outlined
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import COMPUTED_REMEDY, constant_operands, operator
from ceras_ir.frontends.onnx.emission.values import (
    NO_VALUE,
    Constant,
    QuantizedConstant,
    Value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.model_file import text
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.branches import (
    both,
    known_condition,
    move_operations,
    selected,
)
from ceras_ir.frontends.onnx.recurrence.recurrent_loops import RecurrentLoop
from ceras_ir.support.diagnostics import InputError, UnsupportedError

MAX_UNROLLED_STEPS = 1 << 10
"""
Maximum number of steps of an unrolled loop. Unrolled steps are quantized and run on all targets.
The body of a longer loop remains float, and requires a target with loops.
"""

MAX_ENDLESS_STEPS = (1 << 31) - 1
"""Maximum number of steps of a loop without a condition."""

MAX_TRIPS = (1 << 63) - 1
"""Maximum trip count of a loop with a condition. Exporters write it for an unlimited loop."""

NUMBER_OF_OUTPUTS = (
    "a number of step outputs that depends on a computed condition; carry them through the "
    "loop instead"
)

constant_operands({"Loop": [0]}, "the trip count must be a constant", COMPUTED_REMEDY)


@operator("Loop")
def loop(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import Loop: repeat the body for a constant trip count, or until the condition is false. If the
    body is the cell of a recurrent layer, the loop becomes that layer. Other loops are unrolled, or
    remain loops if there are more than 1024 steps or if the number of steps is unknown.
    """
    found = _Loop(node, emitter)
    states = len(found.carried)
    results = _results(found)
    return [*results[:states], *_all_outputs(results[states:], found.used, found.scans)]


def _results(found: "_Loop") -> Sequence[Value]:
    """
    Return the values that steps pass on (carried values) after the last step, and the used outputs
    of all steps.
    """
    node, emitter = found.node, found.emitter
    is_short = found.trips is not None and found.trips <= MAX_UNROLLED_STEPS
    body, refusal = None, None
    # No cell has loops, and the body of a nested loop would be emitted twice.
    if not is_short or not node.has_loops():
        try:
            body = found.body()
        except (InputError, UnsupportedError) as error:
            refusal = error
    if body is not None and (results := found.as_layer(body)) is not None:
        return results
    if is_short:
        results = found.unrolled()
        assert results is not None
        return results
    # In a body, unrolling has no benefit, and nested loops would be emitted twice.
    if body is not None and (emitter.is_in_loop_body or not found.can_end_early(body)):
        return found.with_body(body)
    # The condition may depend only on constants.
    outer = emitter.block
    with emitter.trial() as block:
        if (results := found.unrolled()) is not None:
            move_operations(list(block.ops), outer)
            return results
    if body is None:
        assert refusal is not None
        raise refusal
    return found.with_body(body)


class _Loop:
    def __init__(self, node: Node, emitter: Emitter):
        body = node.subgraph("body")
        self.node, self.emitter = node, emitter
        self.names = [text(value.name) for value in body.input]
        """The inputs of the body: step, condition, carried values."""
        self.carried = [emitter.value(i) for i in range(2, len(node.inputs))]
        if len(self.names) != (count := len(self.carried) + 2):
            raise node.wrong(f"a body of {len(self.names)} inputs, expected {count}")
        self.scans = len(body.output) - count + 1
        """The number of outputs that each step appends an element to."""
        if self.scans < 0:
            raise node.wrong(f"a body of {len(body.output)} outputs, expected {count - 1} or more")
        self.used = _used_outputs(node, len(self.carried), self.scans)
        self.trips = int(emitter.array(0).reshape(-1)[0]) if node.has_input(0) else None
        self.condition: bool | Value = True
        """The condition of the first step."""
        if node.has_input(1):
            self.condition = known_condition(emitter, emitter.value(1))
        output_names = [text(value.name) for value in body.output]
        changing = [
            i
            for i, value in enumerate(self.carried)
            if self.names[i + 2] != output_names[i + 1] or isinstance(value, QuantizedConstant)
        ]
        self.changing = changing or range(len(self.carried))
        """The carried values that the body changes. Exporters carry weights too."""

    def step(
        self, number: Value, condition: bool | Value, carried: Sequence[Value]
    ) -> tuple[bool | Value, Sequence[Value]]:
        """
        Emit a step of the loop: `number` is the index, and `carried` are the values from the
        previous step. Return the condition of the next step, and the carried values and used
        outputs.
        """
        if isinstance(condition, bool):
            condition = Constant.of(self.names[1], np.array(condition))
        bound = dict(zip(self.names, (number, condition, *carried), strict=True))
        again, *emitted = self.emitter.subgraph("body", bound)
        states = len(self.carried)
        results = [*emitted[:states], *(emitted[states + i] for i in self.used)]
        return known_condition(self.emitter, again), results

    def unrolled(self) -> Sequence[Value] | None:
        """
        Emit the steps in order. With a computed condition, the steps after the end are computed
        too, and their results are not selected. Return `None` if more than `MAX_UNROLLED_STEPS`
        steps are possible.
        """
        emitter, condition, carried = self.emitter, self.condition, self.carried
        scanned: list[list[Value]] = [[] for _ in self.used]
        is_bounded = self.trips is not None and self.trips <= MAX_UNROLLED_STEPS
        step = 0
        while condition is not False and (self.trips is None or step < self.trips):
            if step >= MAX_UNROLLED_STEPS or (condition is not True and not is_bounded):
                return None
            number = Constant.of(self.names[0], np.array(step, np.int64))
            again, results = self.step(number, condition, carried)
            new, outputs = results[: len(carried)], results[len(carried) :]
            if condition is not True:
                if scanned:
                    raise self.node.unsupported(NUMBER_OF_OUTPUTS)
                pairs = zip(new, carried, strict=True)
                new = [selected(emitter, condition, a, b) for a, b in pairs]
            carried = list(new)
            for values, value in zip(scanned, outputs, strict=True):
                values.append(value)
            condition = both(emitter, condition, again)
            step += 1
        return [*carried, *(_stacked(emitter, values, 0) for values in scanned)]

    def body(self) -> LoopBody:
        """
        Emit a step as a function, for a loop that is not unrolled. The arguments are the carried
        values (passed from step to step) that change; the results are the next condition, these
        values, and the used outputs.
        """

        def step(
            number: SSAValue, carried: Sequence[SSAValue], elements: Sequence[SSAValue]
        ) -> list[Value]:
            again, results = self.step(number, True, self.merged(carried))
            if isinstance(again, bool):
                again = Constant.of(self.names[1], np.array(again))
            changed = [results[i] for i in self.changing]
            return [self.emitter.reshaped(again, ()), *changed, *results[len(self.carried) :]]

        carried = [self.emitter.materialize(self.carried[i]) for i in self.changing]
        return outlined(self.emitter, carried, [], step)

    def merged(self, changed: Sequence[Value]) -> Sequence[Value]:
        """
        Return all carried values (passed from step to step), with the changed ones replaced by
        `changed`, and then the other entries of `changed`.
        """
        values = list(self.carried)
        for i, value in zip(self.changing, changed, strict=False):
            values[i] = value
        return [*values, *changed[len(self.changing) :]]

    def as_layer(self, body: LoopBody) -> Sequence[Value] | None:
        """
        Return the results of a recurrent layer (such as LSTM) that is equivalent to the loop with
        this body, or `None`.
        """
        if self.condition is not True:
            return None
        carried = [self.carried[i] for i in self.changing]
        unused = [at for at, i in enumerate(self.changing) if not self.node.has_output(i)]
        layer = RecurrentLoop(self.emitter, body, carried, (), self.trips, True, unused)
        results = layer.results()
        return None if results is None else self.merged(results)

    def can_end_early(self, body: LoopBody) -> bool:
        """Return whether the number of steps depends on a condition."""
        again = constant_array(body.results[0])
        return self.condition is not True or again is None or not again.item()

    def with_body(self, body: LoopBody) -> Sequence[Value]:
        """Emit a loop operation that calls the function `body`, and return the results."""
        node, emitter = self.node, self.emitter
        steps = MAX_TRIPS if self.trips is None else min(self.trips, MAX_TRIPS)
        condition: SSAValue | None = None
        if self.can_end_early(body):
            if self.used:
                raise node.unsupported(NUMBER_OF_OUTPUTS)
            given = self.condition
            if isinstance(given, bool):
                given = emitter.constant(np.array(given), "condition")
            condition = emitter.materialize(emitter.reshaped(given, ()))
        elif self.trips is None or self.trips > MAX_ENDLESS_STEPS:
            limit = f"more than {MAX_ENDLESS_STEPS:,} steps without a condition"
            raise node.unsupported(f"{limit}; export it with a smaller trip count")
        else:
            body = body.without_first_result()
        if len(body.results) == (condition is not None):
            raise node.wrong("the loop has no carried values and no outputs")
        carried = [emitter.materialize(self.carried[i]) for i in self.changing]
        backwards = [0] * len(self.used)
        results = emit_loop(emitter, body, steps, carried, condition=condition, backwards=backwards)
        return self.merged(results)


@operator("Scan")
def scan(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import Scan: repeat the body for each element along an axis of the inputs, in either direction.
    A body that is the cell of a recurrent layer becomes that layer. Other scans are unrolled, or
    remain loops if there are more than 1024 elements.
    """
    body = node.subgraph("body")
    if node.opset < 9:
        raise node.unsupported("Scan of opset 8 has a batch; convert the model to opset 9")
    count = node.integer("num_scan_inputs", 0)
    names = [text(value.name) for value in body.input]
    states = len(names) - count
    outputs = len(body.output) - states
    if not 1 <= count <= len(names) or len(node.inputs) != len(names) or outputs < 0:
        raise node.wrong(f"{count} inputs to scan of {len(names)} inputs of the body")
    values = [emitter.value(i) for i in range(len(names))]
    carried, given = values[:states], values[states:]
    axes = [
        node.axis(a, len(shape_of_value(v)), "scan_input_axes")
        for a, v in zip(_list(node, "scan_input_axes", count), given, strict=True)
    ]
    backwards = _list(node, "scan_input_directions", count)
    used = _used_outputs(node, states, outputs)
    out_axes, out_backwards = (
        [_list(node, name, outputs)[i] for i in used]
        for name in ("scan_output_axes", "scan_output_directions")
    )
    lengths = {shape_of_value(v)[a] for v, a in zip(given, axes, strict=True)}
    if len(lengths) != 1:
        raise node.wrong(f"inputs of {sorted(lengths)} elements to scan, expected equal numbers")
    (length,) = lengths

    def step(carried: Sequence[Value], elements: Sequence[Value]) -> Sequence[Value]:
        emitted = emitter.subgraph("body", dict(zip(names, (*carried, *elements), strict=True)))
        return [*emitted[:states], *(emitted[states + i] for i in used)]

    def step_of_body(
        _: SSAValue, carried: Sequence[SSAValue], elements: Sequence[SSAValue]
    ) -> Sequence[Value]:
        return step(carried, elements)

    def all_results(carried: Sequence[Value], stacks: Sequence[Value]) -> Sequence[Value]:
        return [*carried[:states], *_all_outputs(stacks, used, outputs)]

    pairs = zip(given, axes, strict=True)
    kinds = [kind for pair in pairs if (kind := _element_kind(*pair)) is not None]
    if not node.has_loops() and len(kinds) == len(given):
        first = [emitter.materialize(value) for value in carried]
        try:
            step_body = outlined(emitter, first, kinds, step_of_body)
        except (InputError, UnsupportedError):
            emitted = None
        else:
            rows = [
                partial(_axis_first, emitter, v, a, back)
                for v, a, back in zip(given, axes, backwards, strict=True)
            ]
            unused = [i for i in range(states) if not node.has_output(i)]
            layer = RecurrentLoop(emitter, step_body, carried, rows, length, unused=unused)
            emitted = layer.results()
        if emitted is not None:
            stacks = zip(emitted[states:], out_axes, out_backwards, strict=True)
            return all_results(emitted, [_axis_to(emitter, *stack) for stack in stacks])
    if length > MAX_UNROLLED_STEPS:
        moved = [
            emitter.materialize(_axis_first(emitter, v, a))
            for v, a in zip(given, axes, strict=True)
        ]
        first = [emitter.materialize(value) for value in carried]
        elements = [TensorType(element_of(v), shape_of(v)[1:]) for v in moved]
        step_body = outlined(emitter, first, elements, step_of_body)
        directions = [int(bool(back)) for back in (*backwards, *out_backwards)]
        emitted = emit_loop(emitter, step_body, length, first, moved, backwards=directions)
        stacks = zip(emitted[states:], out_axes, strict=True)
        return all_results(emitted, [_axis_to(emitter, *stack) for stack in stacks])
    scanned: list[list[Value]] = [[] for _ in used]
    for t in range(length):
        parts = [
            emitter.slice_at(v, length - 1 - t if back else t, a)
            for v, a, back in zip(given, axes, backwards, strict=True)
        ]
        results = step(carried, parts)
        carried = list(results[:states])
        for found, value in zip(scanned, results[states:], strict=True):
            found.append(value)
    stacks = [
        _stacked(emitter, found[::-1] if back else found, axis)
        for found, axis, back in zip(scanned, out_axes, out_backwards, strict=True)
    ]
    return all_results(carried, stacks)


def _used_outputs(node: Node, states: int, count: int) -> Sequence[int]:
    """
    Return the indices, from 0 to `count - 1`, of the outputs of steps that have a name, so that
    they can be used. The outputs of the node are the `states` carried values (passed from step to
    step), followed by `count` outputs of steps.
    """
    return [i for i in range(count) if node.has_output(states + i)]


def _all_outputs(values: Sequence[Value], used: Sequence[int], count: int) -> Sequence[Value]:
    found = dict(zip(used, values, strict=True))
    return [found.get(i, NO_VALUE) for i in range(count)]


def _element_kind(value: Value, axis: int) -> Tensor | None:
    shape = shape_of_value(value)
    element = plain_element(value.dtype) if isinstance(value, Constant) else element_of(value)
    return None if element is None else TensorType(element, (*shape[:axis], *shape[axis + 1 :]))


def _axis_first(emitter: Emitter, value: Value, axis: int, back: int = 0) -> Value:
    """
    Move the dimension `axis` of `value` to the front, and reverse the elements along it if `back`
    is 1.
    """
    order = [axis, *(i for i in range(len(shape_of_value(value))) if i != axis)]
    rows = emitter.materialize(emitter.transposed(value, order))
    return emitter.reversed(rows, 0) if back else rows


def _axis_to(emitter: Emitter, value: Value, axis: int, back: int = 0) -> Value:
    """
    Move the first dimension of `value` to `axis` of the result. If `back` is 1, reverse the
    elements along it first.
    """
    value = emitter.reversed(value, 0) if back else value
    rank = len(shape_of_value(value))
    order = list(range(1, rank))
    order.insert(emitter.node.axis(axis, rank, "scan_output_axes"), 0)
    return emitter.transposed(value, order)


def _list(node: Node, name: str, count: int) -> list[int]:
    values = node.integers(name) or (0,) * count
    if len(values) != count:
        raise node.wrong(f"attribute '{name}' has {len(values)} entries, expected {count}")
    return list(values)


def _stacked(emitter: Emitter, values: Sequence[Value], axis: int) -> Value:
    node = emitter.node
    if not values:
        raise node.unsupported("no step is executed, so outputs of the steps have no elements")
    shapes = {shape_of_value(v) for v in values}
    if len(shapes) != 1:
        raise node.unsupported("outputs of steps that differ in shape; pad them to equal shapes")
    (shape,) = shapes
    at = node.axis(axis, len(shape) + 1)
    arrays = [v.load() for v in values if isinstance(v, Constant)]
    if len(arrays) == len(values):
        return emitter.constant(np.stack(arrays, at), "steps")
    lifted = [emitter.reshaped(v, (*shape[:at], 1, *shape[at:])) for v in values]
    return emitter.joined(lifted, at)
