"""`graph.pad` on other numbers: floats instead of the integers that store them, and back."""

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import Attribute, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.integer import dequantize, quantize


def repadded(op: graph.PadOp, input: SSAValue, *, exactly: bool = True) -> graph.PadOp | None:
    """
    `op` around `input`, quantized where the operand of `op` is float or the other way round.
    None if `exactly` is asked for and no integer stands for the number that is put around.
    """
    value: Attribute
    target = graph.quantized_element(input)
    if target is not None:
        real = np.array(op.stored_value, np.float32)
        integer = quantize(real, target)
        is_used = op.function is graph.Pad.CONSTANT
        if exactly and is_used and dequantize(integer, target) != real:
            return None
        value = IntegerAttr(int(integer), i64)
    else:
        source = graph.stored_element(op.input)
        real = dequantize(np.array(op.stored_value, np.int64), source)
        value = FloatAttr(float(real), f32)
    new = graph.PadOp(
        op.function,
        input,
        op.low.get_values(),
        op.high.get_values(),
        interior=op.interior.get_values(),
        value=value,
    )
    new.location = op.location
    return new
