"""
Import LSTM layers. Their states are kept between calls, as variables are.

Layers are unrolled. A step of a quantized layer consists of integer operations with the multipliers
of the kernel, and lookup tables of its functions.
"""

from collections.abc import Sequence
from math import log2

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType, i16, i32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, ConstantOp, Function
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.frontends.onnx.emission.values import Constant, Value, name_loc, shape_of_value
from ceras_ir.frontends.tflite.fixed_point import WORDS, FixedPoint, requant_of
from ceras_ir.frontends.tflite.operation import Operation, Stored, operator

GATES = 4
INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = 1, 5, 12
"""The first operand of the weights of the input, of the weights of the state, and of biases."""

OUTPUT_STATE, CELL_STATE = 18, 19

UNSUPPORTED = {
    1: "a coupled input gate", 9: "peepholes", 10: "peepholes", 11: "peepholes",
    16: "a projection", 20: "layer normalization", 21: "layer normalization",
}  # fmt: skip
"""Operands with which a layer has parts that are not imported; the first must be present."""

TANH = 4
"""The fused function of a layer."""

GATE_BITS, UNIT_BITS = 12, 15
"""The fraction bits of the arguments of gates, and of results of the functions."""

LOW, HIGH = -(1 << 15), (1 << 15) - 1

MAX_STEPS = 1024
"""Longer sequences are refused."""

HIDDEN = 4
"""The intermediate tensor with the scale of the result."""


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(op: Operation) -> Value:
    """
    Import UNIDIRECTIONAL_SEQUENCE_LSTM, with input, forget, cell and output gates. The state is
    kept from call to call.
    """
    for index, part in UNSUPPORTED.items():
        if op.has_input(index) != (index == INPUT_WEIGHTS):
            raise op.unsupported(f"{part}; convert the network without it")
    options = op.operator.options
    if options.integer(0, "b") != TANH or options.number(1) < 0:
        raise op.unsupported("a function other than TANH")
    if len(op.shape(0)) != 3 or not all(
        op.input(i).is_variable for i in (OUTPUT_STATE, CELL_STATE)
    ):
        raise op.wrong("a sequence and two variable states expected")
    time_major = options.flag(3)
    _, *expected = _extents(op, time_major)
    for state in (op.input(OUTPUT_STATE), op.input(CELL_STATE)):
        if list(state.shape) != expected:
            raise op.wrong(f"a state of shape {list(state.shape)}, expected {expected}")
    return (_integer_layer if op.is_quantized else _float_layer)(op, time_major)


def _state(op: Operation, index: int) -> SSAValue:
    tensor = op.input(index)
    return op.variables.read(tensor.name, tensor)


def _joined(op: Operation, first: int) -> NDArray[np.generic]:
    """
    Return the constants of all gates, operands `first` and following, concatenated along the first
    dimension.
    """
    parts = [op.real(first + gate) for gate in range(GATES)]
    arrays = [part.load() for part in parts if isinstance(part, Constant)]
    if len(arrays) < GATES or len({array.shape for array in arrays}) > 1:
        raise op.unsupported("computed weights, or gates of different sizes")
    return np.concatenate(arrays)


def _extents(op: Operation, time_major: bool) -> tuple[int, int, int]:
    """
    Return the number of steps, the batch and the number of units of a layer. With `time_major`, the
    first dimension of the input is the steps, else the batch.
    """
    first, second, _ = op.shape(0)
    shape = op.shape(BIASES)
    if len(shape) != 1:
        raise op.wrong(f"a bias of shape {list(shape)}")
    return (first, second, shape[0]) if time_major else (second, first, shape[0])


def _rows(op: Operation, x: Value, time_major: bool) -> SSAValue:
    """
    Return the input of all steps as rows [steps * batch, size]; the rows of a step are consecutive.
    """
    if not time_major:
        x = op.emitter.transposed(x, (1, 0, 2))
    steps, batch, width = shape_of_value(x)
    return op.emitter.materialize(op.emitter.reshaped(x, (steps * batch, width)))


def _sequence(
    op: Operation, results: Sequence[SSAValue], h: SSAValue, c: SSAValue, time_major: bool
) -> Value:
    """
    Keep `h` and `c` as the states for the next call, and return the `results` of all steps as a
    sequence in the layout of the input.
    """
    op.variables.current[op.input(OUTPUT_STATE).name] = h
    op.variables.current[op.input(CELL_STATE).name] = c
    steps, batch, units = _extents(op, time_major)
    joined = op.emitter.emit(graph.ConcatOp(results, 0))
    sequence = op.emitter.reshaped(joined, (steps, batch, units))
    return sequence if time_major else op.emitter.transposed(sequence, (1, 0, 2))


def _taken(op: Operation, x: SSAValue, axis: int, index: int, size: int) -> SSAValue:
    """
    Return part number `index` of `x`, which consists of parts of `size` elements along `axis`.
    """
    places = range(index * size, (index + 1) * size)
    return op.emitter.materialize(op.emitter.gathered(x, axis, places))


def _check_weights(op: Operation, weights: Sequence[SSAValue], units: int) -> None:
    """
    Raise an error if the weights of the input or of the state do not have the shape that input,
    `units` and gates require.
    """
    columns = op.shape(0)[2], units
    for value, width in zip(weights, columns, strict=True):
        if (shape := graph.shape_of(value)) != (GATES * units, width):
            raise op.wrong(f"weights of {GATES} gates with shape {list(shape)} for {units} units")


def _float_layer(op: Operation, time_major: bool) -> Value:
    """
    Emit the steps of a float layer, and return the sequence of results. Weights of 8 bits are
    dequantized.
    """
    emitter, limit = op.emitter, op.operator.options.number(1)
    steps, batch, units = _extents(op, time_major)
    if steps > MAX_STEPS:
        raise op.unsupported(f"{steps} steps; convert the network with shorter sequences")
    weights, recurrent, bias = (
        emitter.constant(_joined(op, first), op.input(first).name)
        for first in (INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES)
    )

    weights, recurrent = emitter.materialize(weights), emitter.materialize(recurrent)
    _check_weights(op, (weights, recurrent), units)
    of_input = emitter.product(_rows(op, op.real(0), time_major), weights, bias)
    h, c = _state(op, OUTPUT_STATE), _state(op, CELL_STATE)
    results: list[SSAValue] = []
    for step in range(steps):
        total = emitter.add(_taken(op, of_input, 0, step, batch), emitter.product(h, recurrent))
        parts = [_taken(op, total, 1, gate, units) for gate in range(GATES)]
        functions = Function.SIGMOID, Function.SIGMOID, Function.TANH, Function.SIGMOID
        i, f, g, o = (emitter.unary(k, v) for k, v in zip(functions, parts, strict=True))
        c = emitter.add(emitter.mul(f, c), emitter.mul(i, g))
        if limit:
            c = emitter.unary(Function.CLIP, c, -limit, limit)
        h = emitter.mul(o, emitter.unary(Function.TANH, c))
        results.append(h)
    return _sequence(op, results, h, c, time_major)


def _word(fraction_bits: int) -> UniformType:
    return UniformType(2.0**-fraction_bits, storage=i16)


class _Products:
    """
    The matrix product of all gates of a quantized layer, with the results of the gates next to each
    other, for the input or for the state.
    """

    def __init__(self, op: Operation, source: UniformType, target: UniformType, first: int):
        """
        Emit the weights, the operands from `first` on, for rows of the type `source`. Results have
        the type `target`.
        """
        self.op, self.target = op, target
        array, scales = self._weights(first)
        # The kernel multiplies the scales in single precision.
        factors = [float(np.float32(s) * np.float32(source.scale)) / target.scale for s in scales]
        rows = np.repeat(factors, len(array) // GATES).tolist()
        # A sum with an integer of 16 bits that is clamped to 16 bits needs no larger addend.
        low, high = max(target.low, 2 * LOW), min(target.high, 2 * HIGH + 1)
        self.requant = op.checked(requant_of(rows, 0, low, high), rows)
        unit = target.scale / 2.0**self.requant.shift.data
        self.scales = [m * unit for m in np.broadcast_to(self.requant.multipliers, len(rows))]
        kind = UniformType([s / source.scale for s in self.scales], axis=0)
        self.weights, self.bias = self._constant(array, kind, first), None

    def add_biases(self) -> None:
        """Emit the biases, at the scale of the sums, and add them to the products."""
        arrays = [self.op.array(index) for index in range(BIASES, BIASES + GATES)]
        joined = np.concatenate(arrays, axis=None)
        if joined.shape != (len(self.scales),) or joined.dtype != np.int32:
            raise self.op.wrong("biases must be integers of 32 bits, one for each unit")
        element = UniformType(self.scales, storage=i32, axis=0)
        self.bias = self._constant(joined, element, BIASES)

    def of(self, x: SSAValue) -> SSAValue:
        """Emit the products for the rows of `x`."""
        return self.op.emitter.emit(
            graph.MatmulOp(
                x, self.weights, self.bias, result_element=self.target, requant=self.requant
            )
        )

    def _weights(self, first: int) -> tuple[NDArray[np.int8], list[float]]:
        arrays: list[NDArray[np.int8]] = []
        scales: list[float] = []
        for index in range(first, first + GATES):
            value, tensor = self.op.value(index), self.op.input(index)
            if not isinstance(value, Stored) or tensor.kind != "int8" or len(value.shape) != 2:
                raise self.op.unsupported(f"weights '{tensor.name}', expected int8 constants")
            if len(tensor.scales) != 1 or any(tensor.points):
                raise self.op.unsupported("weights with several scales or zero points")
            arrays.append(value.load().astype(np.int8))
            scales += tensor.scales
        if len({array.shape for array in arrays}) > 1:
            raise self.op.wrong("gates of different sizes")
        return np.concatenate(arrays), scales

    def _constant(self, array: NDArray[np.generic], element: UniformType, index: int) -> SSAValue:
        name = name_loc(self.op.input(index).name)
        found = ConstantOp.from_array(array, element, location=name)
        self.op.emitter.block.add_op(found)
        return found.result


def _integer_layer(op: Operation, time_major: bool) -> Value:
    steps, batch, units = _extents(op, time_major)
    cell_scale = op.input(CELL_STATE).scales
    if op.input(0).kind != "int8" or op.input(CELL_STATE).kind != "int16" or not cell_scale:
        raise op.unsupported("a layer other than int8 with a cell of int16")
    integer_bits = 15 + round(log2(cell_scale[0]))
    cell = _word(15 - integer_bits)
    hidden = _hidden(op)
    if cell.scale != cell_scale[0] or not 0 <= integer_bits <= 6 or steps > MAX_STEPS:
        raise op.unsupported(f"{steps} steps, or a cell at scale {cell_scale[0]:g}")
    h, c = _state(op, OUTPUT_STATE), _state(op, CELL_STATE)
    gate, wide = _word(GATE_BITS), UniformType(2.0**-GATE_BITS, storage=i32)
    products = _Products(op, op.element(0), gate, INPUT_WEIGHTS)
    products.add_biases()
    recurrent = _Products(op, hidden, wide, RECURRENT_WEIGHTS)
    _check_weights(op, (products.weights, recurrent.weights), units)
    of_input = products.of(_rows(op, op.tensor(0), time_major))
    functions = FixedPoint(UNIT_BITS)
    of_gates = _table(
        np.stack([functions.logistic(WORDS, 15 - GATE_BITS), functions.tanh(WORDS, 15 - GATE_BITS)])
    )
    of_cell = _table(functions.tanh(WORDS, integer_bits))
    requant = _hidden_requant(op, hidden)
    clip = int(min(op.operator.options.number(1) / cell.scale, HIGH))
    bounded = _clamp().clamped(-clip, clip) if clip else _clamp()
    results: list[SSAValue] = []
    for step in range(steps):
        own = _taken(op, of_input, 0, step, batch)
        total = _binary(op, Binary.ADD, recurrent.of(h), own, gate, _clamp())
        active = op.emitter.emit(
            graph.LookupOp(
                total, of_gates, _word(UNIT_BITS), np.repeat([0, 0, 1, 0], units).tolist()
            )
        )
        i, f, g, o = (_taken(op, active, 1, index, units) for index in range(GATES))
        kept = _binary(op, Binary.MUL, f, c, cell, _clamp(UNIT_BITS))
        added = _binary(op, Binary.MUL, i, g, cell, _clamp(2 * UNIT_BITS - 15 + integer_bits))
        c = _binary(op, Binary.ADD, kept, added, cell, bounded)
        squashed = op.emitter.emit(graph.LookupOp(c, of_cell, _word(UNIT_BITS)))
        h = _binary(op, Binary.MUL, o, squashed, hidden, requant)
        results.append(h)
    return _sequence(op, results, h, c, time_major)


def _hidden(op: Operation) -> UniformType:
    """
    Return the type of the result, which is the hidden state. Raise an error if the state, or the
    type that the file declares for it, differs.
    """
    listed = op.operator.intermediates
    kind = op.graph.tensors[listed[HIDDEN]] if len(listed) > HIDDEN else op.output
    found = op.result_element
    state = op.element(OUTPUT_STATE)
    if kind.scales != (found.scale,) or kind.points != (found.zero_point,) or state != found:
        raise op.unsupported("a state whose scale differs from that of the result")
    return found


def _hidden_requant(op: Operation, hidden: UniformType) -> RequantAttr:
    unit = np.float32(2.0**-UNIT_BITS)
    factor = float(unit / np.float32(hidden.scale) * unit)
    found = requant_of([factor], hidden.zero_point, hidden.low, hidden.high)
    return op.checked(found, [factor])


def _clamp(shift: int = 0) -> RequantAttr:
    return RequantAttr(shift, rounding=Rounding.HALF_AWAY, low=LOW, high=HIGH)


def _binary(
    op: Operation,
    kind: Binary,
    lhs: SSAValue,
    rhs: SSAValue,
    element: UniformType,
    requant: RequantAttr,
) -> SSAValue:
    new = graph.BinaryOp(kind, lhs, rhs, result_element=element, requant=requant)
    return op.emitter.emit(new)


def _table(entries: NDArray[np.int64]) -> DenseIntOrFPElementsAttr:
    data = BytesAttr(np.ascontiguousarray(entries.astype("<i2")).tobytes())
    return DenseIntOrFPElementsAttr(TensorType(i16, entries.shape), data)
