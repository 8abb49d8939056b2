"""Keep products in float whose constant factors differ by orders of magnitude."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float32Type
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.network.precision import keep_in_float
from ceras_ir.support.diagnostics import node_names
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.set_precision import is_named

SPREAD = 16
"""How much larger than the median a factor may be: the median then has 8 steps of int8."""

REASON = "multiplies by constants so different that one scale of int8 has no steps for most"


@dataclass(frozen=True)
class KeepWideFactorsInFloatPass(FloatNetworkPass):
    """
    Keep in float the elementwise products by constants of which one is more than 16 times as large
    as the median. They get `graph.precision = "f32"`.

    Factors share one scale. Behind a relu, a batch normalization divides a channel that is always
    zero by the root of its epsilon: beside that factor all others would be zero. Zeros among the
    factors do not count. Changes no value.
    """

    name = "keep-wide-factors-in-float"

    besides: tuple[str, ...] = ()
    """Layers to leave out, by the names and patterns of `set-precision`."""

    def change(self, main: FuncOp) -> None:
        for inner in main.body.block.ops:
            factors = _factors(inner)
            if factors is None or is_named(node_names(inner), self.besides):
                continue
            if _is_wide(factors):
                keep_in_float(inner, REASON)


def _factors(op: Operation) -> NDArray[np.generic] | None:
    """The constant that a value is multiplied by, in float."""
    if not isinstance(op, graph.BinaryOp) or op.function is not graph.Binary.MUL:
        return None
    if not isinstance(graph.element_of(op.result), Float32Type):
        return None
    known = (graph.constant_array(value) for value in (op.lhs, op.rhs))
    return next((array for array in known if array is not None), None)


def _is_wide(factors: NDArray[np.generic]) -> bool:
    sizes = np.abs(factors.astype(np.float32))
    sizes = sizes[sizes != 0]
    return sizes.size > 1 and bool(sizes.max() > SPREAD * np.median(sizes))
