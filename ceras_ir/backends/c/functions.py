"""Elementwise float functions as C expressions, operation by operation as the interpreter's."""

from ceras_ir.backends.c.kernels import Kernels
from ceras_ir.dialects.graph import FunctionAttr
from ceras_ir.interpreters.float_text import expression, float_literal


def apply(kernels: Kernels, function: FunctionAttr, x: str) -> str:
    """`function(x)` for a float expression `x` without side effects."""
    needs, text = expression(function.kind, x, [float_literal(v) for v in function.values])
    for name in needs:
        kernels.use(name)
    if (affine := function.affine) is None:
        return text
    scale, offset = (float_literal(v) for v in affine)
    return f"(({text}) * {scale} + {offset})"
