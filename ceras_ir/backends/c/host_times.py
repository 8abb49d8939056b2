"""
Predict the time of the layers of a printed model on a computer.

The time of a layer is the sum of arithmetic, in proportion to the rate of 8-bit products, and of
loads of bytes that the cache does not hold. Rates relative to a product were measured on x86-64
hosts with 512-bit vectors: a Xeon, and a Zen 5 for requantizations, sums of integers and maxima.
`benchmarks/predicted_times.py` and `benchmarks/peers.py` compare predictions with measured times.
"""

from dataclasses import dataclass
from math import prod

from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.machines import Machine
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.backends.c.values import value_type, zero_point_of
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_ir.transforms.memory.read_states import MAX_ROWS
from ceras_ir.transforms.quantization.analysis.time_model import time_of_operation

PRODUCTS_PER_VECTOR, LANES, BYTES_PER_LANE = 64, 16, 4
"""The 8-bit products of an instruction, the sums to which it adds, and the products of a sum."""

OUTPUT, FLOAT_OUTPUT = 8.0, 16.0
"""The time to finish and store a sum, in 8-bit products."""

FLOAT_PRODUCT, WIDE_PRODUCT = 3.8, 1.7
"""The time of a float product and of a 16-bit product, in 8-bit products."""

TAP, STRIDED = (3.2, 8.2), (1.8, 1.5)
"""
The time of a product of a depthwise layer in integers and in float, and the factor of strides above
1.
"""

AMX_CYCLE, AMX_START = 1.5, 2600.0
"""
The time of a modelled cycle of AMX, and to configure and release the tiles in each layer, in
modelled cycles of vector kernels.
"""

GATE, WORD_GATE, FLOAT_GATE, STATE_PRODUCT = 170.0, 530.0, 1000.0, 2.9
"""
The time of a gate of a recurrent layer with a state of 8 bits, of 16 bits and in float, and of an
integer product with the state.
"""

ELEMENT: dict[str, tuple[float, float]] = {
    "quantize": (30.0, 30.0),
    "dequantize": (30.0, 30.0),
    "requantize": (11.0, 11.0),
    "transpose": (25.0, 90.0),
    "binary": (22.0, 45.0),
    "softmax": (210.0, 210.0),
    "normalize": (235.0, 235.0),
    "integer_normalize": (245.0, 245.0),
    "integer_softmax": (290.0, 290.0),
    "resize": (40.0, 120.0),
    "concat": (10.0, 40.0),
    "slice": (10.0, 40.0),
    "unary": (16.0, 16.0),
}
"""The time of an element of a result in integers and in float, in 8-bit products."""

FUNCTION = {
    graph.Function.RELU: 0.0,
    graph.Function.CLIP: 0.0,
    graph.Function.LEAKY_RELU: 10.0,
    graph.Function.HARD_SIGMOID: 70.0,
    graph.Function.HARD_SWISH: 70.0,
    graph.Function.SIGMOID: 130.0,
    graph.Function.TANH: 160.0,
    graph.Function.GELU: 330.0,
    graph.Function.ERF: 550.0,
}
OTHER_FUNCTION = 300.0
"""The additional time of a float function, in 8-bit products."""

REDUCED = 40.0
"""The time of an operand of a reduction, in 8-bit products."""

MAXIMUM, AVERAGE = (5.0, 36.0), (22.0, 16.0)
"""
The time of an element in a window of maximum and of average pooling, in integers and in float. A
maximum of bytes is a single instruction for a vector; a maximum of floats also selects NaN, and a
sum of integers has 32 bits.
"""

PACKED, LOOP_PRODUCT = (200.0, 180.0), 12.0
"""
The time to pack an element of weights that are computed, in integers and in float, and of a product
with computed weights that have a zero point, for which there are only portable loops.
"""


BLOCK_PRODUCT, BLOCK, BLOCK_ELEMENT = 2.2, 18.0, 10.0
"""
The time of a product with packed weights in blocks, to add the sum of a block, and to quantize an
element of the input, in 8-bit products (measured on a Zen 5).
"""


@dataclass(frozen=True)
class HostTimes:
    """
    The rates of a computer, and whether its cache holds the constants of a network from run to run.
    """

    products_per_us: float
    cycles_per_us: float
    memory_bytes_per_us: float | None
    cache_bytes: float
    is_resident: bool
    has_amx: bool

    @classmethod
    def of(cls, model: PrintedModel, machine: Machine) -> "HostTimes | None":
        """Return the rates for a model, or `None` if the machine does not specify them."""
        if machine.products_per_us is None:
            return None
        cache = machine.cache_bytes or float("inf")
        resident = model.pool.nbytes + model.arena_bytes <= cache
        cycles = machine.cycles_per_us or machine.products_per_us / PRODUCTS_PER_VECTOR
        memory = machine.memory_bytes_per_us
        return cls(
            machine.products_per_us, cycles, memory, cache, resident, has_amx=machine.has_amx
        )

    def microseconds(self, layer: Layer) -> float:
        """Return the time of a run of a layer in microseconds."""
        op = layer.op
        if not layer.lines or not op.results or viewed_operand(op) is not None:
            return 0.0
        if self.has_amx and layer.amx_cycles is not None:
            arithmetic = (AMX_CYCLE * layer.amx_cycles + AMX_START) / self.cycles_per_us
        elif layer.vector_cycles is None:
            arithmetic = _products(op) / self.products_per_us
        else:
            arithmetic = layer.vector_cycles / self.cycles_per_us
        if self.memory_bytes_per_us is None:
            return arithmetic
        return arithmetic + self._loaded_bytes(op) / self.memory_bytes_per_us

    def _loaded_bytes(self, op: Operation) -> float:
        """
        Return the bytes that are not in the cache when `op` starts: constants and network inputs
        unless the cache holds the network, and operands and results that are larger than the cache.
        """
        if isinstance(op, graph.UpdateOp):
            return 0.0  # The rows are written in place.
        kept = [v for v in op.operands if not _is_cold(v)]
        cold = (
            0 if self.is_resident else sum(_read_bytes(op, v) for v in op.operands if _is_cold(v))
        )
        values = sum(_read_bytes(op, v) for v in kept) + sum(map(byte_size, op.results))
        return cold + (values if values + cold > self.cache_bytes else 0)


def _read_bytes(op: Operation, value: SSAValue) -> int:
    """Return the bytes of an operand that `op` reads: of a cache only the used part."""
    if isinstance(op, graph.StridedMatmulOp) and value is op.weights:
        return min(op.macs * byte_size(value) // _size(value), byte_size(value))
    return byte_size(value)


def _is_cold(value: SSAValue) -> bool:
    """Return whether no earlier operation of a run loads or stores `value`."""
    return isinstance(value, BlockArgument) or isinstance(value.owner, graph.ConstantOp)


def _products(op: Operation) -> float:
    """Return the arithmetic of an operation, in 8-bit products."""
    is_float = graph.quantized_element(op.results[0]) is None
    size = _size(op.results[0])
    match op:
        case graph.UpdateOp():
            return time_of_operation(op) * _size(op.rows) / size
        case graph.StridedMatmulOp():
            rows = graph.shape_of(op.input)[0]
            packed = PACKED[is_float] * op.macs / rows if rows > MAX_ROWS else 0.0
            return op.macs * (FLOAT_PRODUCT if is_float else 1.0) + OUTPUT * size + packed
        case graph.ReduceOp():
            return REDUCED * _size(op.operands[0])
        case graph.RecurrenceOp():
            if not op.is_integer:
                return FLOAT_PRODUCT * op.macs + FLOAT_GATE * _size(op.input)
            gate = WORD_GATE if op.scales is None else GATE
            return STATE_PRODUCT * op.macs + gate * _size(op.input)
        case graph.BlockMatmulOp():
            sums = BLOCK * size * op.block_count
            return BLOCK_PRODUCT * op.macs + sums + BLOCK_ELEMENT * _size(op.input)
        case graph.LinearOperation():
            return _linear(op)
        case graph.Pool2dOp():
            each = MAXIMUM if op.function is graph.Pool.MAX else AVERAGE
            return each[is_float] * prod(op.kernel.get_values()) * size
        case _:
            each = ELEMENT.get(op.name.removeprefix("graph."))
            if each is None:
                return time_of_operation(op)
            called = _function(op.function) if isinstance(op, graph.UnaryOp) else 0.0
            return (each[is_float] + called) * size


def _function(function: graph.FunctionAttr) -> float:
    return FUNCTION.get(function.data, OTHER_FUNCTION)


def _linear(op: graph.LinearOperation) -> float:
    is_float = graph.quantized_element(op.input) is None
    geometry, outputs = Geometry.of(op), _size(op.result)
    called = 0.0 if op.activation is None else _function(op.activation)
    stored = outputs * ((FLOAT_OUTPUT if is_float else OUTPUT) + called)
    if geometry.is_depthwise:
        assert isinstance(op, graph.Conv2dOp)
        factor = STRIDED[is_float] if max(op.strides.get_values()) > 1 else 1.0
        taps = outputs * geometry.k * TAP[is_float] * factor
        return taps + called * outputs
    step = 1 if is_float else BYTES_PER_LANE
    vectors = -(-geometry.n // LANES) * -(-geometry.k // step) * step
    products = geometry.positions * geometry.groups * LANES * vectors
    if not isinstance(op.weights.owner, graph.ConstantOp):
        element = graph.quantized_element(op.weights)
        if element is not None and zero_point_of(element):
            return op.macs * LOOP_PRODUCT + stored
        stored += _size(op.weights) * PACKED[is_float]
    if is_float:
        return FLOAT_PRODUCT * products + stored
    is_wide = value_type(op.input) == "int16_t"
    return (WIDE_PRODUCT if is_wide else 1.0) * products + stored


def _size(value: SSAValue) -> int:
    return prod(graph.shape_of(value))
