"""
Recurrent layers: the input's part of all steps is one matrix product, the steps are one
`graph.recurrence` per direction. The weights are there once, whatever the number of steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Cell, Compare, FunctionAttr, RecurrenceOp, Reduce
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import MICROSOFT, operator, rule
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.activation import LAYER_FUNCTIONS, defaults_of
from ceras_ir.frontends.onnx.operators.indexing import beginnings_reversed

DYNAMIC_LSTM = f"{MICROSOFT}DynamicQuantizeLSTM"
RECURRENT = ("RNN", "GRU", "LSTM")

STEP_FUNCTIONS = {name.lower(): function for name, function in LAYER_FUNCTIONS.items()}
"""The functions of a step by ONNX's names, in lower case."""

DEFAULTS = {
    Cell.RNN: ("Tanh",),
    Cell.GRU: ("Sigmoid", "Tanh"),
    Cell.GRU_RESET_FIRST: ("Sigmoid", "Tanh"),
    Cell.LSTM: ("Sigmoid", "Tanh", "Tanh"),
}


@rule(*RECURRENT, DYNAMIC_LSTM)
def plain_cells(node: Node) -> str | None:
    """there are no peepholes and no clip"""
    if node.has_input(7):
        return "'P' is given; export the model without peepholes"
    if node.has_attribute("clip"):
        return "'clip' is given; export the model without it"
    if node.has_attribute("input_forget") and node.flag("input_forget"):
        return "'input_forget' is 1; export the model with a gate of its own for forgetting"
    return None


@rule(*RECURRENT, DYNAMIC_LSTM)
def known_functions(node: Node) -> str | None:
    """functions are Relu, Tanh, Sigmoid, LeakyRelu, ThresholdedRelu, HardSigmoid, Elu, Softsign
    and Softplus"""
    for name in node.strings("activations") or ():
        if name.lower() not in STEP_FUNCTIONS:
            return f"got '{name}'; export the model with one of these"
    return None


class LayerWeights(Protocol):
    """How a layer multiplies its input and its state by weights, in the directions d = 0, 1."""

    @property
    def shapes(self) -> Sequence[Sequence[int]]:
        """Of both weights, [directions, gates x hidden, K]."""
        ...

    def prepared(self, x: Value, lengths: Value | None) -> Value:
        """The input [steps, batch, size] in the form that `project` takes."""
        ...

    def project(self, d: int, x: Value, bias: Value) -> Value:
        """The input's part of the gates, [steps, batch, gates x hidden]."""
        ...

    def of_state(self, d: int) -> tuple[Value, tuple[Sequence[float], int] | None]:
        """Weights [gates x hidden, hidden]; of integers also scales and a zero point."""
        ...


@dataclass(frozen=True)
class FloatWeights:
    """Weights in float32, computed or constant."""

    emitter: Emitter
    both: tuple[Value, Value]

    @property
    def shapes(self) -> Sequence[Sequence[int]]:
        return tuple(map(shape_of_value, self.both))

    def prepared(self, x: Value, lengths: Value | None) -> Value:
        return x

    def project(self, d: int, x: Value, bias: Value) -> Value:
        emitter, (steps, batch, size) = self.emitter, shape_of_value(x)
        flat = emitter.reshaped(x, (steps * batch, size))
        product = emitter.product(flat, _direction(emitter, self.both[0], d), bias)
        return emitter.reshaped(product, (steps, batch, shape_of_value(product)[1]))

    def of_state(self, d: int) -> tuple[Value, tuple[Sequence[float], int] | None]:
        return _direction(self.emitter, self.both[1], d), None


@operator(*RECURRENT)
def recurrent(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    A matrix product for the input of all steps, and a `graph.recurrence` for each direction;
    weights are not copied for steps.
    """
    kind = Cell(node.operator.lower())
    if kind is Cell.GRU and not node.flag("linear_before_reset"):
        kind = Cell.GRU_RESET_FIRST
    weights = FloatWeights(emitter, (emitter.value(1), emitter.value(2)))
    return recurrent_layer(node, emitter, kind, weights)


def recurrent_layer(
    node: Node, emitter: Emitter, kind: Cell, weights: LayerWeights
) -> Sequence[Value]:
    """The results of a node whose operands, other than its weights, are those of `LSTM`."""
    node.ignore("input_forget", "output_sequence")
    direction = node.string("direction", "forward")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(
        direction
    )
    if backwards is None:
        raise node.wrong(f"attribute 'direction' is '{direction}'")
    functions = functions_of(node, kind, len(backwards))
    by_batch = node.flag("layout")
    x = emitter.value(0)
    if len(shape_of_value(x)) != 3:
        raise node.wrong(f"input of shape {list(shape_of_value(x))}, expected [steps, batch, size]")
    if by_batch:
        x = emitter.transposed(x, (1, 0, 2))
    steps, batch, size = shape_of_value(x)
    lengths = _lengths(node, emitter, steps, batch)
    if lengths is not None and node.has_output(2):
        raise node.unsupported(
            "cells at the ends of sequences of different lengths; fix 'sequence_lens' with --set "
            "to the length of the input, or export the model without Y_c"
        )
    hidden = (0, *weights.shapes[1])[-1]
    width = kind.gates * hidden
    if node.integer("hidden_size", hidden) != hidden:
        raise node.wrong(f"attribute 'hidden_size' must be {hidden}, the columns of R")
    count = len(backwards)
    expected = ((count, width, size), (count, width, hidden), (count, 2 * width))
    zeros = emitter.constant(np.zeros(expected[2], np.float32), "B")
    biases = emitter.value(3) if node.has_input(3) else zeros
    shapes = (*weights.shapes, shape_of_value(biases))
    for name, given, shape in zip("WRB", shapes, expected, strict=True):
        if tuple(given) != shape:
            raise node.wrong(f"{name} of shape {list(given)}, expected {list(shape)}")
    x = weights.prepared(x, lengths)
    starts = [_start(node, emitter, i, (count, batch, hidden), by_batch) for i in (5, 6)]
    outputs: list[tuple[Value, Value, Value | None]] = []
    for d, back in enumerate(backwards):
        given = _turned(emitter, x, lengths) if back else x
        own, inner = _biases(emitter, kind, _direction(emitter, biases, d))
        projected = weights.project(d, given, own)
        repeated, scales = weights.of_state(d)
        given, repeated, state = (
            emitter.materialize(v) for v in (projected, repeated, _direction(emitter, starts[0], d))
        )
        cell = emitter.materialize(_direction(emitter, starts[1], d))
        result = emitter.emit(
            RecurrenceOp(
                kind,
                given,
                repeated,
                state,
                functions[d * kind.functions : (d + 1) * kind.functions],
                cell=cell if kind is Cell.LSTM else None,
                bias=None if inner is None else emitter.materialize(inner),
                scales=scales,
            )
        )
        states = emitter.part(result, 0, 0, steps)
        final = emitter.part(result, 0, steps - 1, 1)
        last = emitter.part(result, 0, steps, 1) if kind is Cell.LSTM else None
        if lengths is not None:
            states, final = _ended(emitter, states, lengths)
        outputs.append((_turned(emitter, states, lengths) if back else states, final, last))
    every = [emitter.reshaped(y, (steps, 1, batch, hidden)) for y, _, _ in outputs]
    order = ((2, 0, 1, 3), (1, 0, 2)) if by_batch else ((0, 1, 2, 3), (0, 1, 2))
    found = [emitter.transposed(emitter.joined(every, 1), order[0])] if node.has_output(0) else []
    found = found or [emitter.constant(np.zeros(0, np.float32), "none")]
    for i in (1, 2) if kind is Cell.LSTM else (1,):
        ends = [v for o in outputs if (v := o[i]) is not None]
        if node.has_output(i):
            found.append(emitter.transposed(emitter.joined(ends, 0), order[1]))
        else:
            found.append(found[0])
    return found


def _lengths(node: Node, emitter: Emitter, steps: int, batch: int) -> Value | None:
    """How long sequences are, None where all are as long as the input."""
    if not node.has_input(4) or (node.is_constant(4) and (emitter.array(4) == steps).all()):
        return None
    if emitter.shape(4) != (batch,):
        raise node.wrong(f"'sequence_lens' of shape {list(emitter.shape(4))}, expected [{batch}]")
    return emitter.value(4)


def _turned(emitter: Emitter, x: Value, lengths: Value | None) -> Value:
    """`x` [steps, batch, size] from the last step on; what is behind a sequence stays there."""
    if lengths is None:
        return emitter.reversed(x, 0)
    return beginnings_reversed(emitter, x, lengths)


def steps_within(emitter: Emitter, steps: int, lengths: Value) -> Value:
    """Whether a step comes before the end of a sequence, [steps, batch, 1]."""
    step = np.arange(steps, dtype=np.int64).reshape(steps, 1, 1)
    count = _counts(emitter, lengths)
    return emitter.compare(Compare.LESS, emitter.constant(step, "steps"), count)


def _counts(emitter: Emitter, lengths: Value) -> Value:
    """The lengths of sequences, [1, batch, 1]."""
    shape = (1, *shape_of_value(lengths), 1)
    return emitter.cast(emitter.reshaped(lengths, shape), i64)


def _ended(emitter: Emitter, states: Value, lengths: Value) -> tuple[Value, Value]:
    """
    `states` [steps, batch, hidden], zeros after the end of a sequence, and the last [1, batch,
    hidden] of each. A state depends on no later step, so that all steps can be computed before.
    """
    steps, batch, hidden = shape_of_value(states)
    end = np.arange(1, steps + 1, dtype=np.int64).reshape(steps, 1, 1)
    count = _counts(emitter, lengths)
    at_end = emitter.compare(Compare.EQUAL, emitter.constant(end, "ends"), count)
    zero = emitter.number(0.0)
    final = emitter.reduce(Reduce.SUM, emitter.select(at_end, states, zero), [0])
    inside = steps_within(emitter, steps, lengths)
    return emitter.select(inside, states, zero), emitter.reshaped(final, (1, batch, hidden))


def functions_of(node: Node, kind: Cell, directions: int) -> list[FunctionAttr]:
    """The functions of the cells, one direction after the other."""
    names = node.strings("activations") or DEFAULTS[kind] * directions
    if len(names) != kind.functions * directions:
        raise node.wrong(
            f"{len(names)} activations, expected {kind.functions} for each of {directions}"
        )
    given = [list(node.numbers(f"activation_{p}") or ()) for p in ("alpha", "beta")]
    found: list[FunctionAttr] = []
    for name in names:
        function = STEP_FUNCTIONS[name.lower()]
        # Lists have an entry for each function that takes a parameter.
        values = [
            numbers.pop(0) if numbers else default
            for numbers, (_, default) in zip(given, defaults_of(function), strict=False)
        ]
        found.append(FunctionAttr(function, values))
    return found


def _start(
    node: Node, emitter: Emitter, index: int, shape: tuple[int, ...], by_batch: bool
) -> Value:
    """Initial states [directions, batch, hidden]; zeros where none are given."""
    if not node.has_input(index):
        return emitter.constant(np.zeros(shape, np.float32), "zeros")
    value = emitter.value(index)
    value = emitter.transposed(value, (1, 0, 2)) if by_batch else value
    if shape_of_value(value) != shape:
        raise node.wrong(
            f"initial state of shape {list(shape_of_value(value))}, expected {list(shape)}"
        )
    return value


def _biases(emitter: Emitter, kind: Cell, both: Value) -> tuple[Value, Value | None]:
    """
    What is added to the input's product, and what to the state's: one sum for both, but for a GRU,
    of whose last gate the state's is multiplied before they are added.
    """
    (size,) = shape_of_value(both)
    hidden = size // 2 // kind.gates
    is_gru = kind in (Cell.GRU, Cell.GRU_RESET_FIRST)
    if isinstance(both, Constant):
        own, inner = np.split(both.load().astype(np.float32, copy=False), 2)
        if is_gru and inner[2 * hidden :].any():
            return emitter.constant(own, "bias"), emitter.constant(inner, "state_bias")
        return emitter.constant(np.add(own, inner), "bias"), None
    first, second = (emitter.part(both, 0, at, size // 2) for at in (0, size // 2))
    return (first, second) if is_gru else (emitter.add(first, second), None)


def _direction(emitter: Emitter, value: Value, index: int) -> Value:
    """What an operand has for one direction."""
    shape = shape_of_value(value)[1:]
    if isinstance(value, Constant):
        return Constant.of(f"{value.name}/{index}", np.ascontiguousarray(value.load()[index]))
    return emitter.reshaped(emitter.part(value, 0, index, 1), shape)
