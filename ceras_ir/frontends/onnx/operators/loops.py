"""
Loop and Scan: the steps of a loop are in the list of operations one after the other.

A loop too long for that is one operation, which calls a function for every step. Weights of a body
are one constant, whatever the number of steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import constant_array, element_of, plain_element, shape_of
from ceras_ir.dialects.graph.operation import Tensor
from ceras_ir.frontends.onnx.emission.calls import LoopBody, emit_loop, outlined
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import WHERE_COMPUTED, constant_operands, operator
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

MAX_ENDLESS_STEPS = (1 << 31) - 1
"""Of a loop that nothing ends earlier."""

MAX_TRIPS = (1 << 63) - 1
"""Of one that a condition ends, which exporters write for any number."""

NUMBER_OF_OUTPUTS = (
    "outputs of every step, of which a computed condition decides the number; carry them through "
    "the loop instead"
)

constant_operands({"Loop": [0]}, "the trip count must be a constant", WHERE_COMPUTED)


@operator("Loop")
def loop(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    The body as often as a constant trip count says, or until its condition is false. A recurrent
    layer if it is the cell of one; else unrolled, or with one body if there are more than 1024
    steps, or it is not known how many.
    """
    found = _LoopNode.of(node, emitter)
    states = len(found.carried)
    results = _results(found)
    return [*results[:states], *all_outputs(results[states:], found.read, found.scans)]


def _results(found: "_LoopNode") -> Sequence[Value]:
    """What is carried at the end, and the outputs of every step that are read."""
    node, emitter = found.node, found.emitter
    is_short = found.trips is not None and found.trips <= MAX_STEPS
    body, refusal = None, None
    # No cell has loops, and each of nested ones would come twice.
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
    # Within a body nothing is gained by unrolling, and each of nested loops would come twice.
    if body is not None and (emitter.is_called or not found.can_end_early(body)):
        return found.with_body(body)
    # What ends it may be computed of constants alone.
    outer = emitter.block
    with emitter.trial() as block:
        if (results := found.unrolled()) is not None:
            move_operations(list(block.ops), outer)
            return results
    if body is None:
        assert refusal is not None
        raise refusal
    return found.with_body(body)


@dataclass(frozen=True)
class _LoopNode:
    """The operands of a node `Loop`."""

    node: Node
    emitter: Emitter
    names: Sequence[str]
    """Of the inputs of the body: step, condition, and what is carried."""
    trips: int | None
    going: bool | Value
    """The condition of the first step."""
    carried: Sequence[Value]
    scans: int
    """How many outputs have an element of every step."""
    read: Sequence[int]
    """Which of those something reads; others are not made."""

    @classmethod
    def of(cls, node: Node, emitter: Emitter) -> "_LoopNode":
        body = node.subgraph("body")
        names = [text(value.name) for value in body.input]
        carried = [emitter.value(i) for i in range(2, len(node.inputs))]
        if len(names) != len(carried) + 2:
            raise node.wrong(f"a body of {len(names)} inputs, expected {len(carried) + 2}")
        if (scans := len(body.output) - 1 - len(carried)) < 0:
            raise node.wrong(
                f"a body of {len(body.output)} outputs, expected {len(carried) + 1} or more"
            )
        read = read_outputs(node, len(carried), scans)
        trips = int(emitter.array(0).reshape(-1)[0]) if node.has_input(0) else None
        going: bool | Value = True
        if node.has_input(1):
            going = known_condition(node, emitter, emitter.value(1))
        return cls(node, emitter, names, trips, going, carried, scans, read)

    def step(
        self, number: Value, going: bool | Value, carried: Sequence[Value]
    ) -> tuple[bool | Value, Sequence[Value]]:
        """Whether there is another step, and the other outputs of the body that are read."""
        taken = going if isinstance(going, Value) else Constant.of(self.names[1], np.array(going))
        bound = dict(zip(self.names, (number, taken, *carried), strict=True))
        again, *made = self.emitter.subgraph("body", bound)
        states = len(self.carried)
        results = [*made[:states], *(made[states + i] for i in self.read)]
        return known_condition(self.node, self.emitter, again), results

    def unrolled(self) -> Sequence[Value] | None:
        """
        One step after the other. Where a condition is computed, the steps behind its end are
        computed too and not taken. None where the number of steps is not known to be `MAX_STEPS`
        or less.
        """
        node, emitter, going, carried = self.node, self.emitter, self.going, self.carried
        scanned: list[list[Value]] = [[] for _ in self.read]
        bounded = self.trips is not None and self.trips <= MAX_STEPS
        step = 0
        while going is not False and (self.trips is None or step < self.trips):
            if step >= MAX_STEPS or (going is not True and not bounded):
                return None
            number = Constant.of(self.names[0], np.array(step, np.int64))
            again, results = self.step(number, going, carried)
            new, outputs = results[: len(carried)], results[len(carried) :]
            if going is not True:
                if scanned:
                    raise node.unsupported(NUMBER_OF_OUTPUTS)
                pairs = zip(new, carried, strict=True)
                new = [selected(node, emitter, going, a, b) for a, b in pairs]
            carried = new
            for values, value in zip(scanned, outputs, strict=True):
                values.append(value)
            going = both(emitter, going, again)
            step += 1
        return [*carried, *(stacked(node, emitter, values, 0) for values in scanned)]

    @property
    def changing(self) -> Sequence[int]:
        """Which of the carried values a body changes: exporters carry weights too."""
        ends = [text(value.name) for value in self.node.subgraph("body").output]
        found = [
            i
            for i, value in enumerate(self.carried)
            if self.names[i + 2] != ends[i + 1] or isinstance(value, QuantizedConstant)
        ]
        return found or range(len(self.carried))

    def body(self) -> LoopBody:
        """
        A step, which first returns whether there is another. Where it runs, it may. It takes and
        returns the carried values that change.
        """
        changing = self.changing

        def step(
            number: SSAValue, carried: Sequence[SSAValue], elements: Sequence[SSAValue]
        ) -> list[Value]:
            again, results = self.step(number, True, self.merged(carried))
            if isinstance(again, bool):
                again = Constant.of(self.names[1], np.array(again))
            changed = [results[i] for i in changing]
            return [self.emitter.reshaped(again, ()), *changed, *results[len(self.carried) :]]

        carried = [self.emitter.materialize(self.carried[i]) for i in changing]
        return outlined(self.emitter, carried, [], step)

    def merged(self, changed: Sequence[Value]) -> Sequence[Value]:
        """All carried values, of those that change; what else there is comes behind them."""
        values = list(self.carried)
        for i, value in zip(self.changing, changed, strict=False):
            values[i] = value
        return [*values, *changed[len(self.changing) :]]

    def as_layer(self, body: LoopBody) -> Sequence[Value] | None:
        """The results of a recurrent layer, if the loop is one."""
        carried = [self.carried[i] for i in self.changing]
        if self.going is not True:
            return None
        unread = [at for at, i in enumerate(self.changing) if not self.node.has_output(i)]
        layer = RecurrentLoop(
            self.emitter, body, carried, trips=self.trips, has_condition=True, unread=unread
        )
        results = layer.results()
        return None if results is None else self.merged(results)

    def can_end_early(self, body: LoopBody) -> bool:
        """Whether a condition decides how many steps there are."""
        again = constant_array(body.results[0])
        return self.going is not True or again is None or not again.item()

    def with_body(self, body: LoopBody) -> Sequence[Value]:
        """The loop that calls `body`."""
        node, emitter = self.node, self.emitter
        steps = MAX_TRIPS if self.trips is None else min(self.trips, MAX_TRIPS)
        going: SSAValue | None = None
        if self.can_end_early(body):
            if self.read:
                raise node.unsupported(NUMBER_OF_OUTPUTS)
            given = self.going
            if isinstance(given, bool):
                given = emitter.constant(np.array(given), "condition")
            going = emitter.materialize(emitter.reshaped(given, ()))
        elif self.trips is None or self.trips > MAX_ENDLESS_STEPS:
            raise node.unsupported(
                f"more than {MAX_ENDLESS_STEPS:,} steps and no condition that ends them; export it "
                "with a smaller trip count"
            )
        else:
            body = body.without_first_result()
        if len(body.results) == (going is not None):
            raise node.wrong("nothing is carried, and nothing is an output")
        carried = [emitter.materialize(self.carried[i]) for i in self.changing]
        backwards = [0] * len(self.read)
        return self.merged(
            emit_loop(emitter, body, steps, carried, going=going, backwards=backwards)
        )


MAX_STEPS = 1 << 10
"""
Of a loop that is unrolled, each of which is operations of its own. Those are quantized and run on
every target, the one body of a longer loop stays float and is for targets that have loops.
"""


@operator("Scan")
def scan(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    The body for every element along an axis of its inputs, in either direction. A recurrent layer
    if it is the cell of one; else unrolled, or with one body if there are more than 1024 elements.
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
    axes = _list(node, "scan_input_axes", count)
    axes = [
        node.axis(a, len(shape_of_value(v)), "scan_input_axes")
        for a, v in zip(axes, given, strict=True)
    ]
    backwards = _list(node, "scan_input_directions", count)
    out_axes = _list(node, "scan_output_axes", outputs)
    out_backwards = _list(node, "scan_output_directions", outputs)
    read = read_outputs(node, states, outputs)
    out_axes, out_backwards = [out_axes[i] for i in read], [out_backwards[i] for i in read]
    lengths = {shape_of_value(v)[a] for v, a in zip(given, axes, strict=True)}
    if len(lengths) != 1:
        raise node.wrong(f"inputs of {sorted(lengths)} elements to scan, expected one number")
    (length,) = lengths

    def step(carried: Sequence[Value], elements: Sequence[Value]) -> Sequence[Value]:
        made = emitter.subgraph("body", dict(zip(names, (*carried, *elements), strict=True)))
        return [*made[:states], *(made[states + i] for i in read)]

    def every(made: Sequence[Value]) -> Sequence[Value]:
        return [*made[:states], *all_outputs(made[states:], read, outputs)]

    if not node.has_loops():
        kinds = [_kind_of_element(v, a) for v, a in zip(given, axes, strict=True)]
        turned = [
            partial(_rows, emitter, v, a, bool(back))
            for v, a, back in zip(given, axes, backwards, strict=True)
        ]
        unread = [i for i in range(states) if not node.has_output(i)]
        made = _layer(emitter, carried, kinds, turned, length, step, unread)
        if made is not None:
            ends = zip(made[states:], out_axes, out_backwards, strict=True)
            return every([*made[:states], *(_along(node, emitter, *end) for end in ends)])
    if length > MAX_STEPS:
        moved = [_axis_first(emitter, v, a) for v, a in zip(given, axes, strict=True)]
        directions = [int(bool(back)) for back in (*backwards, *out_backwards)]
        made = _scan_with_body(emitter, carried, moved, directions, step)
        stacks = zip(made[states:], out_axes, strict=True)
        return every([*made[:states], *(_axis_to(node, emitter, v, a) for v, a in stacks)])
    scanned: list[list[Value]] = [[] for _ in read]
    for t in range(length):
        elements = [
            _element(emitter, v, a, length - 1 - t if back else t)
            for v, a, back in zip(given, axes, backwards, strict=True)
        ]
        results = step(carried, elements)
        carried = list(results[:states])
        for found, value in zip(scanned, results[states:], strict=True):
            found.append(value)
    stacks = [
        stacked(node, emitter, found[::-1] if back else found, axis)
        for found, axis, back in zip(scanned, out_axes, out_backwards, strict=True)
    ]
    return every([*carried, *stacks])


def read_outputs(node: Node, states: int, count: int) -> Sequence[int]:
    """Which of the outputs of every step, behind `states` carried ones, are read at all."""
    return [i for i in range(count) if node.has_output(states + i)]


def all_outputs(values: Sequence[Value], read: Sequence[int], count: int) -> Sequence[Value]:
    """`values` at the places in `read`, of `count` places."""
    found = dict(zip(read, values, strict=True))
    return [found.get(i, NO_VALUE) for i in range(count)]


def _kind_of_element(value: Value, axis: int) -> Tensor | None:
    """The type of the elements along an axis; None where the IR has none such."""
    shape = shape_of_value(value)
    element = plain_element(value.dtype) if isinstance(value, Constant) else element_of(value)
    return None if element is None else TensorType(element, (*shape[:axis], *shape[axis + 1 :]))


def _rows(emitter: Emitter, value: Value, axis: int, back: bool) -> Value:
    """The elements along an axis as those of the first dimension, from its end if `back`."""
    rows = _axis_first(emitter, value, axis)
    return emitter.reversed(rows, 0) if back else rows


def _along(node: Node, emitter: Emitter, value: Value, axis: int, back: int) -> Value:
    """`value` with its first dimension, from its end if `back`, as dimension `axis`."""
    turned = emitter.reversed(value, 0) if back else value
    return _axis_to(node, emitter, turned, axis)


def _layer(
    emitter: Emitter,
    carried: Sequence[Value],
    kinds: Sequence[Tensor | None],
    scanned: Sequence[Callable[[], Value]],
    length: int,
    step: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]],
    unread: Sequence[int],
) -> Sequence[Value] | None:
    """The results of a recurrent layer, if the scan is one."""
    known = [kind for kind in kinds if kind is not None]
    if len(known) != len(kinds):
        return None
    first = [emitter.materialize(value) for value in carried]
    try:
        body = outlined(emitter, first, known, lambda _, states, parts: step(states, parts))
    except (InputError, UnsupportedError):
        return None
    return RecurrentLoop(emitter, body, carried, scanned, length, unread=unread).results()


def _scan_with_body(
    emitter: Emitter,
    carried: Sequence[Value],
    scanned: Sequence[SSAValue],
    backwards: Sequence[int],
    step: Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]],
) -> Sequence[Value]:
    """What is carried at the end, and what is stacked along a first dimension."""
    first = [emitter.materialize(value) for value in carried]
    elements = [TensorType(element_of(v), shape_of(v)[1:]) for v in scanned]
    body = outlined(emitter, first, elements, lambda _, states, parts: step(states, parts))
    steps = shape_of(scanned[0])[0]
    return emit_loop(emitter, body, steps, first, scanned, backwards=backwards)


def _axis_first(emitter: Emitter, value: Value, axis: int) -> SSAValue:
    order = [axis, *(i for i in range(len(shape_of_value(value))) if i != axis)]
    return emitter.materialize(emitter.transposed(value, order))


def _axis_to(node: Node, emitter: Emitter, value: Value, axis: int) -> Value:
    """`value` with its first dimension as dimension `axis` of the result."""
    rank = len(shape_of_value(value))
    order = list(range(1, rank))
    order.insert(node.axis(axis, rank, "scan_output_axes"), 0)
    return emitter.transposed(value, order)


def _list(node: Node, name: str, count: int) -> list[int]:
    values = node.integers(name) or (0,) * count
    if len(values) != count:
        raise node.wrong(f"attribute '{name}' has {len(values)} entries, expected {count}")
    return list(values)


def _element(emitter: Emitter, value: Value, axis: int, index: int) -> Value:
    """One element along an axis, without that axis."""
    shape = shape_of_value(value)
    if isinstance(value, Constant):
        array = np.asarray(value.load().take(index, axis))
        return Constant.of(f"{value.name}/{index}", array)
    part = emitter.part(value, axis, index, 1)
    return emitter.reshaped(part, (*shape[:axis], *shape[axis + 1 :]))


def stacked(node: Node, emitter: Emitter, values: Sequence[Value], axis: int) -> Value:
    """Values of one shape along a new axis."""
    if not values:
        raise node.unsupported("no step is taken, and outputs of every step have no elements")
    shapes = {shape_of_value(v) for v in values}
    if len(shapes) != 1:
        raise node.unsupported("outputs of steps that differ in shape; pad them to one shape")
    (shape,) = shapes
    at = node.axis(axis, len(shape) + 1)
    if all(isinstance(v, Constant) for v in values):
        arrays = [v.load() for v in values if isinstance(v, Constant)]
        return emitter.constant(np.stack(arrays, at), "steps")
    lifted = [emitter.reshaped(v, (*shape[:at], 1, *shape[at:])) for v in values]
    return emitter.joined(lifted, at)
