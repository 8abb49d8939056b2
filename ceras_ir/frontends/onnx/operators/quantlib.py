"""Import the requantization of models of quantlib and Deeploy. Their floats are integers."""

import numpy as np
from onnx import numpy_helper
from xdsl.dialects.builtin import i64

from ceras_ir.dialects.graph import Binary, element_of
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import constant_operands, operator
from ceras_ir.frontends.onnx.emission.values import Value
from ceras_ir.frontends.onnx.model.node import Node

NAMES = ("RequantShift", "ai.onnx.contrib::RequantShift")
LEVELS = ("n_levels_out", "n_levels")
"""The attributes for the number of values of the result, the newer first."""
OFFSET_BITS = 56
"""With an offset of 2^56 the dividend is positive, so dropping the fraction rounds down."""

constant_operands(
    dict.fromkeys(NAMES, (1, 2)),
    "multipliers and addends must be constants",
    "make it an initializer",
)


@operator(*NAMES)
def requant_shift(node: Node, emitter: Emitter) -> Value:
    """
    Import RequantShift: `clamp(floor((x * mul + add + div / 2) / div))` in 64 bits; `div` is a
    power of two. The result has `n_levels` values, around 0 if `signed`, else from 0.
    """
    levels = next((_attribute(node, name) for name in LEVELS if node.has_attribute(name)), 0)
    divisor, signed = _attribute(node, "div"), bool(_attribute(node, "signed"))
    if divisor < 1 or divisor.bit_count() != 1 or divisor >= 1 << 31:
        raise node.wrong(f"attribute 'div' must be a power of two below 2^31, got {divisor}")
    if not 2 <= levels <= 1 << 31:
        raise node.wrong(f"the number of levels must be in [2, 2^31], got {levels}")
    multiplier, addend = (_integers(node, emitter, i) for i in (1, 2))
    start = 1 << OFFSET_BITS
    x = emitter.materialize(emitter.value(0))
    dividend = emitter.mul(emitter.cast(x, i64), multiplier)
    dividend = emitter.add(dividend, addend)
    dividend = emitter.add(dividend, emitter.number(start + divisor // 2, dividend))
    quotient = emitter.div(dividend, emitter.number(divisor, dividend))
    moved = emitter.binary(Binary.SUB, quotient, emitter.number(start // divisor, quotient))
    low, high = (-(levels // 2), levels // 2 - 1) if signed else (0, levels - 1)
    return emitter.cast(emitter.bounded(moved, low, high), element_of(x))


def _attribute(node: Node, name: str) -> int:
    tensor = node.tensor(name)
    array = None if tensor is None else numpy_helper.to_array(tensor)
    if array is None or array.size != 1 or array.reshape(-1)[0] != int(array.reshape(-1)[0]):
        raise node.wrong(f"attribute '{name}' must be a tensor with a single integer")
    return int(array.reshape(-1)[0])


def _integers(node: Node, emitter: Emitter, index: int) -> Value:
    array = emitter.array(index)
    rounded = np.rint(array.astype(np.float64))
    if not (array == rounded).all() or np.abs(rounded).max(initial=0) >= 1 << 31:
        raise node.wrong(f"operand {index} must have integers below 2^31")
    return emitter.constant(rounded.astype(np.int64), node.inputs[index])
