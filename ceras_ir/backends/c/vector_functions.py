"""
Print elementwise float functions for which `runtime/` has a version in vectors.

Compilers vectorize the functions of one float, but evaluate all branches of a function, and do not
interleave several vectors. The results are equal bit for bit.
"""

from ceras_ir.backends.c.layer import Layer, from_row
from ceras_ir.backends.c.register_tiles import LANES_PER_VECTOR
from ceras_ir.dialects.graph import Function, FunctionAttr

VECTOR_FUNCTIONS = {Function.GELU: "all_gelu"}
"""C functions of an input, a result and the number of elements."""

ELEMENTS_AT_ONCE = 3 * LANES_PER_VECTOR
"""The number of elements that these functions compute at a time."""


def vector_function(layer: Layer, function: FunctionAttr) -> str | None:
    """
    Add the C function that applies `function` to an array. Return the name, or `None` if there is
    no version in vectors.
    """
    name = VECTOR_FUNCTIONS.get(function.data) if layer.options.vectors else None
    if name is None or function.affine is not None:
        return None
    return layer.kernels.use(name)


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
