"""
Print elementwise float functions for which `runtime/` has a version in vectors.

Compilers vectorize the functions of one float, but evaluate all branches of a function, and do not
interleave several vectors. The results are equal bit for bit.
"""

from ceras_ir.backends.c.layer import Layer, from_row
from ceras_ir.backends.c.register_tiles import LANES_PER_VECTOR
from ceras_ir.backends.c.values import apply
from ceras_ir.dialects.graph import Function, FunctionAttr

VECTOR_FUNCTIONS = (Function.GELU, Function.SIGMOID, Function.TANH)
"""Functions of which `runtime/` has files `NAME_512.c` and `NAME_256.c`."""

ELEMENTS_AT_ONCE = 3 * LANES_PER_VECTOR
"""The number of elements that these functions compute at a time."""


def vector_function(layer: Layer, function: FunctionAttr) -> str | None:
    """
    Add the C function that applies `function` to an array: its arguments are the input, the result
    and the number of elements. Return the name, or `None` if there is no version in vectors.
    """
    is_known = layer.options.vectors and function.data in VECTOR_FUNCTIONS
    if not is_known or function.affine is not None:
        return None
    for version in ("f32", "512", "256"):
        layer.kernels.use(f"{function.data}_{version}")
    return layer.kernels.use("all", NAME=str(function.data))


def apply_to_all(layer: Layer, function: str, x: str, y: str, size: int) -> None:
    """Print calls of a C function for `size` elements of the array `x`; `y` is the result."""
    layer.rows(
        size,
        size,
        lambda first, count: (
            f"{function}({from_row(x, first, 1)}, {from_row(y, first, 1)}, {count});"
        ),
        ELEMENTS_AT_ONCE,
    )


def apply_in_loop(layer: Layer, function: FunctionAttr, x: str, y: str, count: str) -> str:
    """
    Return C statements that apply `function` to the first `count` elements of the array `x`. `y` is
    the result, which may be `x`.
    """
    if (name := vector_function(layer, function)) is not None:
        return f"{name}({x}, {y}, {count});"
    value = apply(layer.kernels, function, "v")
    return f"""\
MODEL_ALIKE
for (int32_t j = 0; j < {count}; ++j) {{
const float v = {x}[j];
{y}[j] = {value};
}}"""
