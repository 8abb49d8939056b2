"""`Scan`: a body for each element of its inputs, of which `Loop` is the general case."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import element_of, plain_element, shape_of
from ceras_ir.dialects.graph.operation import Tensor
from ceras_ir.frontends.onnx.calls import emit_loop, outlined
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.recurrent_loops import RecurrentLoop
from ceras_ir.frontends.onnx.registry import operator
from ceras_ir.frontends.onnx.tensors import text
from ceras_ir.frontends.onnx.values import NO_VALUE, Constant, Value
from ceras_ir.support.diagnostics import InputError, UnsupportedError

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
    return Composer(emitter).reversed(rows, 0) if back else rows


def _along(node: Node, emitter: Emitter, value: Value, axis: int, back: int) -> Value:
    """`value` with its first dimension, from its end if `back`, as dimension `axis`."""
    turned = Composer(emitter).reversed(value, 0) if back else value
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
    part = Composer(emitter).part(value, axis, index, 1)
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
    return Composer(emitter).joined(lifted, at)
