"""Elementwise float functions as C expressions, operation by operation as the interpreter's."""

from ceras_ir.backends.c import float_functions as f
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
            return f"{f.tanh(kernels)}({x})"
        case Function.SWISH:
            return f"{x} * {kernels.use('sigmoid_f32')}({x})"
        case Function.HARD_SIGMOID:
            return f"{kernels.use('clip_f32')}({p[0]} * {x} + {p[1]}, 0.0f, 1.0f)"
        case Function.HARD_SWISH:
            return f"{x} * {kernels.use('clip_f32')}({x} + 3.0f, 0.0f, 6.0f) / 6.0f"
        case Function.EXP:
            return f"{f.exp(kernels)}({x})"
        case Function.LOG:
            return f"{f.log(kernels)}({x})"
        case Function.ERF:
            return f"{f.erf(kernels)}({x})"
        case Function.SQRT:
            return f"{kernels.use('sqrt_f32')}({x})"
        case Function.ABS:
            return f"{f.absolute(kernels)}({x})"
        case Function.SIGN:
            return f"{x} > 0.0f ? 1.0f : {x} < 0.0f ? -1.0f : {x}"
        case Function.FLOOR:
            return f"{f.rounded(kernels, 'floor')}({x})"
        case Function.CEIL:
            return f"{f.rounded(kernels, 'ceil')}({x})"
        case Function.ROUND:
            return f"{f.rounded(kernels, 'rint')}({x})"
        case Function.ELU:
            return f"{x} >= 0.0f ? {x} : {p[0]} * {f.exp_minus_one(kernels)}({x})"
        case Function.CELU:
            return f"{x} >= 0.0f ? {x} : {p[0]} * {f.exp_minus_one(kernels)}({x} / {p[0]})"
        case Function.SOFTPLUS:
            return f"{f.softplus(kernels)}({x})"
        case Function.SOFTSIGN:
            return f"{x} / (1.0f + {f.absolute(kernels)}({x}))"
        case Function.THRESHOLDED_RELU:
            return f"{x} > {p[0]} ? {x} : 0.0f"
        case Function.MISH:
            return f"{f.mish(kernels)}({x})"
        case Function.GELU:
            return f"{f.gelu(kernels)}({x})"
        case Function.GELU_TANH:
            return f"{f.gelu_tanh(kernels)}({x})"
