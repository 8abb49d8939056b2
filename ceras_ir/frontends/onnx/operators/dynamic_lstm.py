"""
DynamicQuantizeLSTM, which `quantize_dynamic` writes: an LSTM with weights of 8 bits.

The input of all steps is quantized dynamically, and so is the state of each step. The range is that
of all sequences of the batch, as in ONNX Runtime with a single thread. (With more threads, ONNX
Runtime divides the batch, and each part has its own range of states.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ceras_ir.dialects.graph import Cell, Reduce
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.quantization import storage_of
from ceras_ir.frontends.onnx.emission.registry import constant_operands, operator
from ceras_ir.frontends.onnx.emission.values import (
    Constant,
    QuantizedConstant,
    Value,
    shape_of_value,
)
from ceras_ir.frontends.onnx.model.model_file import Array
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.integer_operators import matrix_product_to_float
from ceras_ir.frontends.onnx.operators.quantized import dynamically_quantized
from ceras_ir.frontends.onnx.operators.recurrent import (
    DYNAMIC_LSTM,
    functions_of,
    recurrent_layer,
    steps_within,
)
from ceras_ir.interpreters.float_functions import apply_function

constant_operands(
    {DYNAMIC_LSTM: (1, 2, 8, 9, 10, 11)},
    "weights, their scales and zero points must be constants",
    "export the LSTM in float",
)


@operator(DYNAMIC_LSTM)
def dynamic_quantize_lstm(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    `LSTM` with weights of 8 bits. The input and the state of each step are quantized dynamically
    over the batch, and multiplied as integers.
    """
    of_input, of_state = (StoredLstmWeights.read(node, emitter, i, s) for i, s in ((1, 8), (2, 10)))
    weights = IntegerWeights(node, emitter, of_input, of_state)
    return recurrent_layer(node, emitter, Cell.LSTM, weights)


@dataclass(frozen=True)
class StoredLstmWeights:
    """Integers [directions, K, gates x hidden]."""

    integers: Array
    scales: Array
    """[directions, 1], or for each output, [directions, gates x hidden]"""
    zero_points: tuple[int, ...]
    """Of each direction."""

    @staticmethod
    def read(node: Node, emitter: Emitter, index: int, scale: int) -> "StoredLstmWeights":
        """Return operand `index`. Operands `scale` and `scale + 1` are its scale and zero point."""
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
    """Numbers for each direction of stored weights, or for each output of each direction."""
    outputs = numbers.size // len(stored) if len(stored) else 0
    if numbers.size != len(stored) * outputs or outputs not in (1, stored.shape[2]):
        raise node.wrong(f"operand {index} of shape {list(numbers.shape)} does not fit the weights")
    return numbers.reshape(len(stored), outputs)


@dataclass
class IntegerWeights:
    """The weights of a DynamicQuantizeLSTM."""

    node: Node
    emitter: Emitter
    input: StoredLstmWeights
    state: StoredLstmWeights
    scale: Value | None = None
    point: Value | None = None
    """Scale and zero point of the input, which `prepared` computes."""
    lengths: Value | None = None
    """Of the sequences of the batch, None if all are as long as the input."""

    @property
    def shapes(self) -> Sequence[Sequence[int]]:
        return tuple((d, n, k) for d, k, n in (w.integers.shape for w in (self.input, self.state)))

    def prepared(self, x: Value, lengths: Value | None) -> Value:
        """`x` in uint8. Steps after the longest sequence have no part in the range."""
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
        product = matrix_product_to_float(emitter, rows, self.point, matrix, scales, bias)
        gates = emitter.reshaped(product, (steps, batch, matrix.shape[1]))
        return gates if self.lengths is None or batch == 1 else self._ended(d, gates, self.lengths)

    def _ended(self, d: int, gates: Value, lengths: Value) -> Value:
        """
        `gates` that make the state of a sequence 0 after its end, by an output gate of 0. The range
        of the batch then does not depend on it.
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
                f"'{function.kind.value}'; use Sigmoid or HardSigmoid, or a batch of one sequence"
            )
        with emitter.in_float():
            inside = steps_within(emitter, steps, lengths)
            return emitter.select(inside, gates, emitter.constant(closed, "closed"))

    def of_state(self, d: int) -> tuple[Value, tuple[Sequence[float], int] | None]:
        weights = self.state
        # Integers of unsigned weights and their zero point are 128 less.
        middle = 128 if weights.integers.dtype == np.uint8 else 0
        integers = np.ascontiguousarray(weights.integers[d].T.astype(np.int16) - middle, np.int8)
        scales = [float(s) for s in weights.scales[d]]
        constant = Constant.of(f"{self.node.inputs[2]}/{d}", integers)
        return constant, (scales, weights.zero_points[d] - middle)
