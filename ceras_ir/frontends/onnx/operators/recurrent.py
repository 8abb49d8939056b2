"""
Import recurrent layers: the input of all steps is multiplied by a single product, and the steps are
one `graph.recurrence` per direction. The weights are stored once for any number of steps.

DynamicQuantizeLSTM, which `quantize_dynamic` writes, has weights of 8 bits. The input of all steps,
and the state of each step, are quantized dynamically. The range is that of all sequences of the
batch, as in ONNX Runtime with a single thread. (With more threads, ONNX Runtime divides the batch,
and each part has a separate range of states.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Cell, Compare, Function, FunctionAttr, RecurrenceOp, Reduce
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.quantization import storage_of
from ceras_ir.frontends.onnx.emission.registry import MICROSOFT, constant_operands, operator, rule
from ceras_ir.frontends.onnx.emission.values import (
    Constant,
    QuantizedConstant,
    Value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.model_file import Array
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.activation import LAYER_FUNCTIONS, defaults_of
from ceras_ir.frontends.onnx.operators.indexing import beginnings_reversed
from ceras_ir.frontends.onnx.operators.integer_operators import integer_product, scaled_sums
from ceras_ir.frontends.onnx.operators.quantized import dynamically_quantized
from ceras_ir.interpreters.float_functions import apply_function

DYNAMIC_LSTM = f"{MICROSOFT}DynamicQuantizeLSTM"
RECURRENT = ("RNN", "GRU", "LSTM")

STEP_FUNCTIONS = {name.lower(): function for name, function in LAYER_FUNCTIONS.items()}
"""The functions of a step by the names of ONNX in lower case."""

IS_REVERSED = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}

DEFAULT_FUNCTIONS = {
    Cell.RNN: ("Tanh",),
    Cell.GRU: ("Sigmoid", "Tanh"),
    Cell.GRU_RESET_FIRST: ("Sigmoid", "Tanh"),
    Cell.LSTM: ("Sigmoid", "Tanh", "Tanh"),
}


@rule(*RECURRENT, DYNAMIC_LSTM)
def plain_cells(node: Node) -> str | None:
    """there must be no peepholes and no clip"""
    if node.has_input(7):
        return "'P' is given; export the model without peepholes"
    if node.has_attribute("clip"):
        return "'clip' is given; export the model without it"
    if node.has_attribute("input_forget") and node.flag("input_forget"):
        return "'input_forget' is 1; export the model with a separate forget gate"
    return None


@rule(*RECURRENT, DYNAMIC_LSTM)
def known_functions(node: Node) -> str | None:
    """functions must be Relu, Tanh, Sigmoid, LeakyRelu, ThresholdedRelu, HardSigmoid, Elu, Softsign
    or Softplus"""
    for name in node.strings("activations") or ():
        if name.lower() not in STEP_FUNCTIONS:
            return f"got '{name}'; export the model with one of these"
    return None


@dataclass(frozen=True)
class FloatWeights:
    """
    Float32 weights of a recurrent layer, constants or computed, for one or two directions: weights
    of the input, and weights of the state.
    """

    emitter: Emitter
    both: tuple[Value, Value]

    @property
    def shapes(self) -> Sequence[Sequence[int]]:
        """
        The shapes of the weights of the input and of the state, [directions, gates x hidden, K].
        """
        return tuple(map(shape_of_value, self.both))

    def prepared(self, x: Value, lengths: Value | None) -> Value:
        """
        Return `x`, the input [steps, batch, size], in the form that `project` needs: unchanged for
        float weights.
        """
        return x

    def project(self, d: int, x: Value, bias: Value) -> Value:
        """
        Return the contribution of the input `x` to the gates of direction `d`, as [steps, batch,
        gates x hidden].
        """
        emitter, (steps, batch, size) = self.emitter, shape_of_value(x)
        flat = emitter.reshaped(x, (steps * batch, size))
        product = emitter.product(flat, emitter.slice_at(self.both[0], d), bias)
        return emitter.reshaped(product, (steps, batch, shape_of_value(product)[1]))

    def of_state(self, d: int) -> tuple[Value, tuple[Sequence[float], int] | None]:
        """
        Return the weights [gates x hidden, hidden] of the state for direction `d`, and, if they are
        integers, their scales and zero point.
        """
        return self.emitter.slice_at(self.both[1], d), None


@operator(*RECURRENT)
def recurrent(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import RNN, GRU or LSTM: a product for the input of all steps, and a `graph.recurrence` for each
    direction.
    """
    kind = Cell(node.operator.lower())
    if kind is Cell.GRU and not node.flag("linear_before_reset"):
        kind = Cell.GRU_RESET_FIRST
    weights = FloatWeights(emitter, (emitter.value(1), emitter.value(2)))
    return recurrent_layer(node, emitter, kind, weights)


def recurrent_layer(
    node: Node, emitter: Emitter, kind: Cell, weights: "FloatWeights | IntegerWeights"
) -> Sequence[Value]:
    """
    Return the results of a recurrent layer with the given `weights`. All other operands of `node`
    are as in RNN, GRU or LSTM.
    """
    node.ignore("input_forget", "output_sequence")
    direction = node.string("direction", "forward")
    if (backwards := IS_REVERSED.get(direction)) is None:
        raise node.wrong(f"attribute 'direction' is '{direction}'")
    functions = functions_of(node, kind, len(backwards))
    by_batch = node.flag("layout")
    x = emitter.value(0)
    if len(shape_of_value(x)) != 3:
        raise node.wrong(f"input of shape {list(shape_of_value(x))}, expected [steps, batch, size]")
    if by_batch:
        x = emitter.transposed(x, (1, 0, 2))
    steps, batch, size = shape_of_value(x)
    lengths: Value | None = None
    if node.has_input(4) and not (node.is_constant(4) and (emitter.array(4) == steps).all()):
        if emitter.shape(4) != (batch,):
            given = list(emitter.shape(4))
            raise node.wrong(f"'sequence_lens' of shape {given}, expected [{batch}]")
        lengths = emitter.value(4)
    holds = lengths is not None and node.has_output(2)
    if holds and not _can_hold(weights, functions[:: kind.functions]):
        raise node.unsupported(
            "cell states at the end of sequences of different lengths, of gates without a sigmoid "
            "or of integers; fix 'sequence_lens' with --set to the length of the input, or export "
            "the model without Y_c"
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
    starts: list[Value] = []
    for i in (5, 6):
        start: Value = emitter.constant(np.zeros((count, batch, hidden), np.float32), "zeros")
        if node.has_input(i):
            start = emitter.value(i)
            start = emitter.transposed(start, (1, 0, 2)) if by_batch else start
        if (shape := shape_of_value(start)) != (count, batch, hidden):
            expected = [count, batch, hidden]
            raise node.wrong(f"initial state of shape {list(shape)}, expected {expected}")
        starts.append(start)
    outputs: list[tuple[Value, Value, Value | None]] = []
    for d, back in enumerate(backwards):
        given = beginnings_reversed(emitter, x, lengths) if back else x
        own, inner = _biases(emitter, kind, emitter.slice_at(biases, d))
        projected = weights.project(d, given, own)
        if lengths is not None and holds:
            projected = _holding(emitter, projected, lengths)
        repeated, scales = weights.of_state(d)
        given, repeated, state = (
            emitter.materialize(v) for v in (projected, repeated, emitter.slice_at(starts[0], d))
        )
        cell = emitter.materialize(emitter.slice_at(starts[1], d))
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
            states, final = _after_ends(emitter, states, lengths)
        outputs.append(
            (beginnings_reversed(emitter, states, lengths) if back else states, final, last)
        )
    every = [emitter.reshaped(y, (steps, 1, batch, hidden)) for y, _, _ in outputs]
    order = ((2, 0, 1, 3), (1, 0, 2)) if by_batch else ((0, 1, 2, 3), (0, 1, 2))
    found = [emitter.transposed(emitter.joined(every, 1), order[0])] if node.has_output(0) else []
    found = found or [emitter.constant(np.zeros(0, np.float32), "none")]
    for i in (1, 2) if kind is Cell.LSTM else (1,):
        final_states = [v for o in outputs if (v := o[i]) is not None]
        if node.has_output(i):
            found.append(emitter.transposed(emitter.joined(final_states, 0), order[1]))
        else:
            found.append(found[0])
    return found


def _can_hold(weights: "FloatWeights | IntegerWeights", gates: Sequence[FunctionAttr]) -> bool:
    # Both functions are 0 at -infinity and 1 at infinity. The scale of integer states depends on
    # the states of the batch, so also on ended sequences.
    return isinstance(weights, FloatWeights) and all(
        f.data is Function.SIGMOID or (f.data is Function.HARD_SIGMOID and f.values[0] > 0)
        for f in gates
    )


def _holding(emitter: Emitter, projected: Value, lengths: Value) -> Value:
    """
    Return the contributions of the input to the gates of an LSTM [steps, batch, 4 * hidden] with
    which a cell state does not change after the end of a sequence: the input gate is 0, and the
    forget gate is 1.
    """
    steps, _, width = shape_of_value(projected)
    gates = np.array([-np.inf, 0, np.inf, 0], np.float32)
    held = emitter.constant(np.repeat(gates, width // 4).reshape(1, 1, width), "held")
    return emitter.select(steps_within(emitter, steps, lengths), projected, held)


def steps_within(emitter: Emitter, steps: int, lengths: Value) -> Value:
    """
    Return a boolean [steps, batch, 1]: whether a step is before the end of the sequence; `lengths`
    [batch] has the number of steps of each sequence.
    """
    return _compared_steps(emitter, Compare.LESS, np.arange(steps), "steps", lengths)


def _compared_steps(
    emitter: Emitter, relation: Compare, steps: NDArray[np.int64], name: str, lengths: Value
) -> Value:
    counts = emitter.cast(emitter.reshaped(lengths, (1, *shape_of_value(lengths), 1)), i64)
    return emitter.compare(relation, emitter.constant(steps.reshape(-1, 1, 1), name), counts)


def _after_ends(emitter: Emitter, states: Value, lengths: Value) -> tuple[Value, Value]:
    """
    Return `states` [steps, batch, hidden] with zeros after the end of each sequence, and the state
    at the end of each sequence [1, batch, hidden]. `lengths` has the number of steps of each
    sequence. All steps can be computed first, because no state depends on a later step.
    """
    steps, batch, hidden = shape_of_value(states)
    at_end = _compared_steps(emitter, Compare.EQUAL, np.arange(1, steps + 1), "ends", lengths)
    zero = emitter.number(0.0)
    final = emitter.reduce(Reduce.SUM, emitter.select(at_end, states, zero), [0])
    inside = steps_within(emitter, steps, lengths)
    return emitter.select(inside, states, zero), emitter.reshaped(final, (1, batch, hidden))


def functions_of(node: Node, kind: Cell, directions: int) -> list[FunctionAttr]:
    """Return the activations of a cell of `kind`, one after the other, for each direction."""
    names = node.strings("activations") or DEFAULT_FUNCTIONS[kind] * directions
    if len(names) != kind.functions * directions:
        count = kind.functions * directions
        raise node.wrong(f"{len(names)} activations, expected {count}")
    given = [list(node.numbers(f"activation_{p}") or ()) for p in ("alpha", "beta")]
    found: list[FunctionAttr] = []
    for name in names:
        function = STEP_FUNCTIONS[name.lower()]
        # Lists have an entry for each function with the parameter.
        values = [
            numbers.pop(0) if numbers else default
            for numbers, (_, default) in zip(given, defaults_of(function), strict=False)
        ]
        found.append(FunctionAttr(function, values))
    return found


def _biases(emitter: Emitter, kind: Cell, both: Value) -> tuple[Value, Value | None]:
    """
    Return the bias [gates x hidden] that is added to the product with the input, and the one added
    to the product with the state. `both` contains them one after the other. Except for a GRU, the
    latter is `None`, because both are added into the first.
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


constant_operands(
    {DYNAMIC_LSTM: (1, 2, 8, 9, 10, 11)},
    "weights, their scales and zero points must be constants",
    "export the LSTM in float",
)


@operator(DYNAMIC_LSTM)
def dynamic_quantize_lstm(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import DynamicQuantizeLSTM of ONNX Runtime: an LSTM with 8-bit weights. Input and states are
    quantized by their range at run time.
    """
    of_input, of_state = (StoredLstmWeights.read(node, emitter, i, s) for i, s in ((1, 8), (2, 10)))
    weights = IntegerWeights(node, emitter, of_input, of_state)
    return recurrent_layer(node, emitter, Cell.LSTM, weights)


@dataclass(frozen=True)
class StoredLstmWeights:
    """The quantized weights of an LSTM, as integers with axes [directions, K, gates x hidden]."""

    integers: Array
    scales: Array
    """
    The scales of the weights, with axes [directions, 1] or, for each output, [directions, gates x
    hidden].
    """
    zero_points: tuple[int, ...]
    """A zero point for each direction."""

    @staticmethod
    def read(node: Node, emitter: Emitter, index: int, scale: int) -> "StoredLstmWeights":
        """
        Read constant int8 or uint8 weights from operand number `index` of the node. Operand number
        `scale` has their scales, and operand number `scale + 1` their zero points.
        """
        stored = emitter.array(index)
        if stored.ndim != 3:
            raise node.wrong(f"weights of shape {list(stored.shape)}, expected three dimensions")
        if stored.dtype.name not in ("int8", "uint8"):
            raise node.wrong(f"weights are {stored.dtype}, expected int8 or uint8")
        scales, points = (
            _of_directions(node, stored, emitter.array(i), i) for i in (scale, scale + 1)
        )
        if points.dtype != stored.dtype:
            raise node.wrong(f"the zero point is {points.dtype}, expected {stored.dtype}")
        if (points != points[:, :1]).any():
            raise node.unsupported(
                f"operand {scale + 1} has several zero points for a direction; quantize with a "
                "single zero point, such as 0"
            )
        if scales.dtype != np.float32:
            raise node.wrong(f"the scale must be float32, got {scales.dtype}")
        return StoredLstmWeights(stored, scales, tuple(int(p) for p in points[:, 0]))


def _of_directions(node: Node, stored: Array, numbers: Array, index: int) -> Array:
    outputs = numbers.size // len(stored) if len(stored) else 0
    if numbers.size != len(stored) * outputs or outputs not in (1, stored.shape[2]):
        raise node.wrong(f"operand {index} of shape {list(numbers.shape)} does not fit the weights")
    return numbers.reshape(len(stored), outputs)


@dataclass
class IntegerWeights:
    """The 8-bit weights of a DynamicQuantizeLSTM, with the same interface as `FloatWeights`."""

    node: Node
    emitter: Emitter
    input: StoredLstmWeights
    state: StoredLstmWeights
    scale: Value | None = None
    point: Value | None = None
    """Scale and zero point of the input, which `prepared` computes."""
    lengths: Value | None = None
    """The lengths of sequences, None if all have the length of the input."""

    @property
    def shapes(self) -> Sequence[Sequence[int]]:
        return tuple((d, n, k) for d, k, n in (w.integers.shape for w in (self.input, self.state)))

    def prepared(self, x: Value, lengths: Value | None) -> Value:
        """
        Return the input `x` in uint8, quantized by the range at run time. Steps after the longest
        sequence do not affect the range.
        """
        emitter = self.emitter
        with emitter.in_float():
            if lengths is not None:
                longest = emitter.reduce(Reduce.MAX, lengths, [0])
                inside = steps_within(emitter, shape_of_value(x)[0], longest)
                x = emitter.select(inside, x, emitter.number(0.0))
            stored, self.scale, self.point = dynamically_quantized(emitter, x)
        self.lengths = lengths
        return stored

    def project(self, d: int, x: Value, bias: Value) -> Value:
        emitter, (steps, batch, size), weights = self.emitter, shape_of_value(x), self.input
        zero_point, storage = weights.zero_points[d], weights.integers.dtype.name
        matrix = QuantizedConstant.make(
            f"{self.node.inputs[1]}/{d}",
            weights.integers.shape[1:],
            lambda: weights.integers[d],
            UniformType(1.0, zero_point, storage=storage_of(self.node, storage)),
        )
        assert self.scale is not None and self.point is not None
        scales = self.scale, emitter.constant(weights.scales[d], "scale")
        rows = emitter.reshaped(x, (steps * batch, size))
        sums = integer_product(emitter, "MatMul", -1, rows, self.point, matrix)
        product = scaled_sums(emitter, sums, scales, bias)
        gates = emitter.reshaped(product, (steps, batch, matrix.shape[1]))
        return (
            gates
            if self.lengths is None or batch == 1
            else self._after_ends(d, gates, self.lengths)
        )

    def _after_ends(self, d: int, gates: Value, lengths: Value) -> Value:
        """
        Close the output gate in `gates` for steps after the end of a sequence. The state is then 0,
        so that it does not affect the range of the batch.
        """
        emitter, (steps, _, width) = self.emitter, shape_of_value(gates)
        function = functions_of(self.node, Cell.LSTM, len(self.input.integers))[
            d * Cell.LSTM.functions
        ]
        closed = np.zeros((1, 1, width), np.float32)
        closed[..., width // 4 : width // 2] = -np.inf
        with np.errstate(all="ignore"):
            at_bound = apply_function(function, np.array([-np.inf], np.float32))
        if at_bound[0] != 0:
            raise self.node.unsupported(
                "sequences of different lengths in a layer with the gate function "
                f"'{function.data.value}'; use Sigmoid or HardSigmoid, or a batch of one sequence"
            )
        with emitter.in_float():
            inside = steps_within(emitter, steps, lengths)
            return emitter.select(inside, gates, emitter.constant(closed, "closed"))

    def of_state(self, d: int) -> tuple[Value, tuple[Sequence[float], int] | None]:
        weights = self.state
        # Unsigned weights and their zero points become int8 by subtracting 128.
        middle = 128 if weights.integers.dtype == np.uint8 else 0
        integers = np.ascontiguousarray(weights.integers[d].T.astype(np.int16) - middle, np.int8)
        scales = [float(s) for s in weights.scales[d]]
        constant = Constant.of(f"{self.node.inputs[2]}/{d}", integers)
        return constant, (scales, weights.zero_points[d] - middle)
