"""
Control flow: a network is one list of operations, so branches stand side by side and bodies of
loops one step after the other. Weights of a body are one constant, whatever the number of steps.
"""

from collections.abc import Sequence

import numpy as np

from ceras_ir.dialects.graph import Binary
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import constant_operands, operator
from ceras_ir.frontends.onnx.tensors import text
from ceras_ir.frontends.onnx.values import Constant, Value

MAX_STEPS = 1 << 10
"""Of a loop, each of which is operations of its own."""

constant_operands({"Loop": [0]}, "the trip count must be a constant", "give it with --set")


@operator("If")
def if_(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    The branch that a constant condition takes; of a computed one both, of which the condition
    selects every result. Both must then have results of one shape and type.
    """
    condition = _condition(node, emitter, emitter.value(0))
    node.ignore("then_branch", "else_branch")
    if isinstance(condition, bool):
        return emitter.subgraph("then_branch" if condition else "else_branch", {})
    branches = [emitter.subgraph(name, {}) for name in ("then_branch", "else_branch")]
    return [_selected(node, emitter, condition, a, b) for a, b in zip(*branches, strict=True)]


@operator("Loop")
def loop(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    The body as often as a constant trip count says, or until a condition is known to be false.
    Where the condition is computed, the steps behind its end are computed too and not taken.
    """
    body = node.subgraph("body")
    names = [text(value.name) for value in body.input]
    carried = [emitter.value(i) for i in range(2, len(node.inputs))]
    if len(names) != len(carried) + 2:
        raise node.wrong(f"a body of {len(names)} inputs, expected {len(carried) + 2}")
    trips = int(emitter.array(0).reshape(-1)[0]) if node.has_input(0) else None
    going: bool | Value = True
    if node.has_input(1):
        going = _condition(node, emitter, emitter.value(1))
    scanned: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    step = 0
    while going is not False and (trips is None or step < trips):
        if step >= MAX_STEPS:
            raise node.unsupported(
                f"more than {MAX_STEPS} steps; export it with a smaller trip count, or give it "
                "as a Scan over fewer elements"
            )
        number = Constant.of(names[0], np.array(step, np.int64))
        taken = Constant.of(names[1], np.array(True)) if going is True else going
        bound = dict(zip(names, (number, taken, *carried), strict=True))
        again, *results = emitter.subgraph("body", bound)
        new, outputs = results[: len(carried)], results[len(carried) :]
        if going is not True:
            if scanned:
                raise node.unsupported(
                    "outputs of every step, of which a computed condition decides the number; "
                    "carry them through the loop instead"
                )
            new = [_selected(node, emitter, going, a, b) for a, b in zip(new, carried, strict=True)]
        carried = new
        for values, value in zip(scanned, outputs, strict=True):
            values.append(value)
        going = _both(node, emitter, going, _condition(node, emitter, again))
        step += 1
    return [*carried, *(_stacked(node, emitter, values, 0) for values in scanned)]


@operator("Scan")
def scan(node: Node, emitter: Emitter) -> Sequence[Value]:
    """The body for every element along an axis of its inputs, in either direction."""
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
    lengths = {shape_of_value(v)[a] for v, a in zip(given, axes, strict=True)}
    if len(lengths) != 1:
        raise node.wrong(f"inputs of {sorted(lengths)} elements to scan, expected one number")
    (length,) = lengths
    if length > MAX_STEPS:
        raise node.unsupported(f"{length} steps; at most {MAX_STEPS} are taken: split the input")
    scanned: list[list[Value]] = [[] for _ in range(outputs)]
    for step in range(length):
        elements = [
            _element(emitter, v, a, length - 1 - step if back else step)
            for v, a, back in zip(given, axes, backwards, strict=True)
        ]
        bound = dict(zip(names, (*carried, *elements), strict=True))
        results = emitter.subgraph("body", bound)
        carried = list(results[:states])
        for found, value in zip(scanned, results[states:], strict=True):
            found.append(value)
    out_axes = _list(node, "scan_output_axes", outputs)
    out_backwards = _list(node, "scan_output_directions", outputs)
    stacked = [
        _stacked(node, emitter, found[::-1] if back else found, axis)
        for found, axis, back in zip(scanned, out_axes, out_backwards, strict=True)
    ]
    return [*carried, *stacked]


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


def _stacked(node: Node, emitter: Emitter, values: Sequence[Value], axis: int) -> Value:
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


def _condition(node: Node, emitter: Emitter, value: Value) -> bool | Value:
    """What a condition is, if that is known."""
    shape = shape_of_value(value)
    if shape not in ((), (1,)) or dtype_of_value(value) != np.bool_:
        raise node.wrong(f"a condition of one truth value expected, got {list(shape)}")
    if isinstance(value, Constant):
        return bool(value.load().reshape(-1)[0])
    return value


def _both(node: Node, emitter: Emitter, a: bool | Value, b: bool | Value) -> bool | Value:
    if a is False or b is False:
        return False
    if a is True or b is True:
        return b if a is True else a
    return emitter.binary(Binary.AND, emitter.reshaped(a, ()), emitter.reshaped(b, ()))


def _selected(node: Node, emitter: Emitter, condition: Value, a: Value, b: Value) -> Value:
    """`condition ? a : b` of values of one shape and type."""
    if a is b:
        return a
    shapes = [shape_of_value(v) for v in (a, b)]
    if shapes[0] != shapes[1] or dtype_of_value(a) != dtype_of_value(b):
        raise node.unsupported(
            f"results of shapes {list(shapes[0])} and {list(shapes[1])} where the condition is "
            "computed; export the model with one branch, or fix the input that decides with --set"
        )
    return Composer(emitter).select(condition, a, b)
