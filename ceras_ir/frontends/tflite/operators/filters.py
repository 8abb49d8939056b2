"""
Import SVDF, a dense layer of rank-1 filters: a product with the input, of which a memory keeps the
last steps, and a filter over time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, ConstantOp, Reduce
from ceras_ir.dialects.quant import BYTE_BITS, RequantAttr, Rounding, UniformType
from ceras_ir.frontends.onnx.emission.values import Constant, Value, name_loc
from ceras_ir.frontends.tflite.fixed_point import requant_of
from ceras_ir.frontends.tflite.operation import Operation, operator

INPUT, OF_FEATURES, OF_TIME, BIAS, MEMORY = range(5)
"""The operands."""

MAX_TOTAL = 1 << 30
"""The bound of totals."""


@operator("SVDF")
def svdf(op: Operation) -> Value:
    """
    Import SVDF. The products of the input with `filters` rows of weights are appended to a memory
    of the last steps, [batch, filters, steps], which is kept from call to call. A filter is the
    weighted sum over the steps in the memory; the result of a unit is the sum of `rank` filters,
    plus a bias.
    """
    rank, shape = op.operator.options.integer(0, "i"), op.shape(INPUT)
    filters, steps = _pair(op, OF_TIME)
    if not op.input(MEMORY).is_variable:
        raise op.wrong("the memory must be a variable")
    if len(shape) != 2 or _pair(op, OF_FEATURES) != (filters, shape[1]):
        raise op.wrong(f"weights {list(op.shape(OF_FEATURES))} for an input {list(shape)}")
    if rank < 1 or filters % rank or op.input(MEMORY).shape != (shape[0], filters * steps):
        raise op.wrong(
            f"{filters} filters of rank {rank}, {steps} steps and a memory of "
            f"{list(op.input(MEMORY).shape)}"
        )
    if op.has_input(BIAS) and op.shape(BIAS) != (filters // rank,):
        raise op.wrong(f"a bias of shape {list(op.shape(BIAS))} for {filters // rank} units")
    return (_integer_layer if op.is_quantized else _float_layer)(op, rank)


def _pair(op: Operation, index: int) -> tuple[int, int]:
    """Return the two extents of operand `index`, which must be constant weights of rank 2."""
    value = op.value(index)
    if not isinstance(value, Constant):
        raise op.unsupported("computed weights; convert the network with constant weights")
    if len(value.shape) != 2:
        raise op.wrong(f"weights of shape {list(value.shape)}, expected two dimensions")
    return value.shape[0], value.shape[1]


def _remembered(op: Operation, products: SSAValue) -> SSAValue:
    """
    Append `products` [batch, filters] to the memory as the last step; the first step is dropped.
    Return the memory as [batch, filters, steps].
    """
    emitter, tensor = op.emitter, op.input(MEMORY)
    batch, (filters, steps) = op.shape(INPUT)[0], _pair(op, OF_TIME)
    before = emitter.reshaped(op.variables.read(tensor.name, tensor), (batch, filters, steps))
    last = emitter.reshaped(products, (batch, filters, 1))
    parts = [last]
    if steps > 1:
        parts.insert(0, emitter.part(before, 2, 1, steps - 1))
    memory = emitter.materialize(emitter.joined(parts, 2))
    flat = emitter.reshaped(memory, (batch, filters * steps))
    op.variables.current[tensor.name] = emitter.materialize(flat)
    return memory


def _float_layer(op: Operation, rank: int) -> Value:
    """Emit a float layer. Weights of 8 bits are dequantized."""
    emitter, (filters, _) = op.emitter, _pair(op, OF_TIME)
    rows = emitter.materialize(op.real(INPUT))
    products = emitter.product(rows, emitter.materialize(op.real(OF_FEATURES)))
    weighted = emitter.mul(_remembered(op, products), op.real(OF_TIME))
    sums = emitter.reduce(Reduce.SUM, weighted, [2])
    units = emitter.reshaped(sums, (op.shape(INPUT)[0], filters // rank, rank))
    total = emitter.reduce(Reduce.SUM, units, [2])
    result = emitter.reshaped(total, (op.shape(INPUT)[0], filters // rank))
    if op.has_input(BIAS):
        result = emitter.add(result, op.real(BIAS))
    return op.activated(result, 1)


@dataclass(frozen=True)
class _Sums:
    """
    The weighted sums over the steps of the memory for all units, as a convolution with a filter for
    each unit.
    """

    op: Operation
    image: SSAValue
    """The memory, [batch, steps, 1, units]."""
    scale: float
    """The scale of products with the weights of the file."""

    def element(self, factor: int) -> UniformType:
        """Return the type of 32-bit sums in units of `factor` products."""
        return UniformType(self.scale * factor, storage=i32)

    def of(
        self,
        weights: NDArray[np.int64],
        bias: NDArray[np.int64],
        factor: int,
        element: UniformType,
        requant: RequantAttr,
    ) -> SSAValue:
        """
        Emit the sums for `weights` [units, steps] and biases in units of `factor` products,
        requantized to the type `element`. Weights from 0 to 255 are stored with a zero point.
        """
        point = -128 if weights.max(initial=0) > 127 else 0
        kind = UniformType(self.scale * factor / graph.scale_of(self.image), point, storage=i8)
        stored = (weights + point).astype(np.int8).reshape(*weights.shape, 1, 1)
        return self.op.emitter.emit(
            graph.Conv2dOp(
                self.image,
                self._constant("time", stored, kind),
                self._constant("bias", bias.astype(np.int32), self.element(factor)),
                result_element=element,
                strides=(1, 1),
                padding=(0, 0, 0, 0),
                dilations=(1, 1),
                groups=len(weights),
                requant=requant,
            )
        )

    def _constant(self, name: str, array: NDArray[np.generic], kind: UniformType) -> SSAValue:
        location = name_loc(f"{self.op.output.name}/{name}")
        constant = ConstantOp.from_array(array, kind, location=location)
        self.op.emitter.block.add_op(constant)
        return constant.result


def _integer_layer(op: Operation, rank: int) -> Value:
    """
    Emit a layer of int8. The memory and the weights over time are int16, or int8 in TensorFlow Lite
    Micro; sums have 32 bits. An int8 memory with a zero point saturates where the kernel wraps
    around.
    """
    kinds = [op.input(i).kind for i in (INPUT, OF_FEATURES, OF_TIME, MEMORY)]
    if kinds[:2] != ["int8", "int8"] or kinds[2:] not in (["int16"] * 2, ["int8"] * 2):
        raise op.unsupported(f"of {', '.join(kinds)}; quantize it to int8 with a memory of int16")
    if op.output.kind != "int8":
        raise op.unsupported(f"a result of {op.output.kind}; quantize it to int8")
    if any(op.element(i).zero_point for i in (OF_FEATURES, OF_TIME)):
        raise op.unsupported("weights with a zero point; quantize the network again")
    source, features, time, kept = (op.element(i) for i in (INPUT, OF_FEATURES, OF_TIME, MEMORY))
    products = op.emitter.emit(
        graph.MatmulOp(
            op.tensor(INPUT),
            op.tensor(OF_FEATURES),
            result_element=kept,
            requant=_requant(op, (source, features), kept),
        )
    )
    memory = _remembered(op, products)
    batch, filters, steps = graph.shape_of(memory)
    units, taps = filters // rank, rank * steps
    rows = op.emitter.transposed(op.emitter.reshaped(memory, (batch, units, taps)), (0, 2, 1))
    image = op.emitter.materialize(op.emitter.reshaped(rows, (batch, taps, 1, units)))
    weights = op.array(OF_TIME).astype(np.int64).reshape(units, taps)
    bias = op.array(BIAS) if op.has_input(BIAS) else np.zeros(units, np.int32)
    if bias.dtype != np.int32:
        raise op.wrong(f"a bias of {bias.dtype}, expected int32")
    sums = _Sums(op, image, kept.scale * time.scale)
    requant = _requant(op, (kept, time), op.result_element)
    added = bias.astype(np.int64)
    if time.storage.width.data == BYTE_BITS:
        result = sums.of(weights, added, 1, op.result_element, requant)
    else:
        result = _wide_sums(op, sums, weights, added, requant)
    return op.emitter.reshaped(result, (batch, units))


def _wide_sums(
    op: Operation,
    sums: _Sums,
    weights: NDArray[np.int64],
    bias: NDArray[np.int64],
    requant: RequantAttr,
) -> SSAValue:
    """
    Emit sums with 16-bit weights, which may not fit 32 bits: the sums for the high and for the low
    bytes of the weights are separate, and are then added. The total fits, or the result saturates
    anyway.
    """
    emitter, byte = op.emitter, 1 << BYTE_BITS
    wide = sums.element(1)
    bound = int(((weights & byte - 1).sum(1) << 15).max() + byte)
    limit = (MAX_TOTAL >> BYTE_BITS) - 1
    high_bound = int(((np.abs(weights >> BYTE_BITS).sum(1) << 15) + np.abs(bias) // byte).max()) + 1
    if max(bound, high_bound) >= MAX_TOTAL:
        raise op.unsupported(f"{weights.shape[1]} steps; convert the network with fewer")
    factor = requant.multiplier.data / 2.0**requant.shift.data
    if high_bound + (bound >> BYTE_BITS) > limit and limit * byte * factor < 2 * byte:
        raise op.unsupported("scales with which sums exceed 32 bits; quantize the network again")
    high = sums.of(
        weights >> BYTE_BITS,
        bias >> BYTE_BITS,
        byte,
        sums.element(byte),
        RequantAttr(0, low=-high_bound, high=high_bound),
    )
    low = sums.of(
        weights & byte - 1, bias & byte - 1, 1, wide, RequantAttr(0, low=-bound, high=bound)
    )
    most = (bound >> BYTE_BITS) + 1
    floor = RequantAttr(BYTE_BITS, rounding=Rounding.FLOOR, low=-most, high=most)
    carry = emitter.emit(graph.RequantizeOp(low, sums.element(byte), floor))
    clamp = RequantAttr(0, low=-limit, high=limit)
    high = emitter.emit(
        graph.BinaryOp(Binary.ADD, high, carry, result_element=sums.element(byte), requant=clamp)
    )
    rest = graph.BinaryOp(
        Binary.SUB,
        low,
        carry,
        result_element=wide,
        multipliers=(1, byte),
        requant=RequantAttr(0, low=0, high=byte - 1),
    )
    return emitter.emit(
        graph.BinaryOp(
            Binary.ADD,
            high,
            emitter.emit(rest),
            result_element=op.result_element,
            multipliers=(byte, 1),
            requant=requant,
        )
    )


def _requant(
    op: Operation, factors: tuple[UniformType, UniformType], target: UniformType
) -> RequantAttr:
    # The kernel multiplies and divides the scales in single precision.
    product = np.float32(factors[0].scale) * np.float32(factors[1].scale)
    factor = float(product / np.float32(target.scale))
    found = requant_of([factor], target.zero_point, target.low, target.high)
    return op.checked(found, [factor])
