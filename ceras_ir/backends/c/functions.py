"""Elementwise float functions as C expressions, operation by operation as the interpreter's."""

from ceras_ir.backends.c.kernels import Kernels
from ceras_ir.backends.c.types import float_literal
from ceras_ir.dialects.graph import Function, FunctionAttr


def apply(kernels: Kernels, function: FunctionAttr, x: str) -> str:
    """`function(x)` for a float expression `x` without side effects."""
    p = [float_literal(v) for v in function.values]
    match function.kind:
        case Function.RELU:
            return f"{x} < 0.0f ? 0.0f : {x}"
        case Function.CLIP:
            return f"{kernels.use('clip_f32')}({x}, {p[0]}, {p[1]})"
        case Function.LEAKY_RELU:
            return f"{x} >= 0.0f ? {x} : {p[0]} * {x}"
        case Function.SIGMOID:
            return f"{kernels.use('sigmoid_f32')}({x})"
        case Function.TANH:
            return f"2.0f * {kernels.use('sigmoid_f32')}(2.0f * {x}) - 1.0f"
        case Function.SWISH:
            return f"{x} * {kernels.use('sigmoid_f32')}({x})"
        case Function.HARD_SIGMOID:
            return f"{kernels.use('clip_f32')}({p[0]} * {x} + {p[1]}, 0.0f, 1.0f)"
        case Function.HARD_SWISH:
            return f"{x} * {kernels.use('clip_f32')}({x} + 3.0f, 0.0f, 6.0f) / 6.0f"
        case Function.EXP:
            return f"{kernels.use('exp_f32')}({x})"
