"""
Elementwise functions of float networks in torch.

Values may differ from `ceras_ir.interpreters.float_functions` in the last bits of a float32;
which function is meant is stated at `Function` alone.
"""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ceras_ir.dialects.graph.attributes import Function, FunctionAttr

FUNCTIONS: dict[Function, Callable[..., Tensor]] = {
    Function.RELU: torch.relu,
    Function.CLIP: lambda x, low, high: x.clamp(low, high),
    Function.LEAKY_RELU: lambda x, alpha: functional.leaky_relu(x, alpha),
    Function.SIGMOID: torch.sigmoid,
    Function.TANH: torch.tanh,
    Function.SWISH: functional.silu,
    Function.HARD_SIGMOID: lambda x, alpha, beta: (alpha * x + beta).clamp(0, 1),
    Function.HARD_SWISH: functional.hardswish,
    Function.EXP: torch.exp,
    Function.LOG: torch.log,
    Function.ERF: torch.erf,
    Function.SIN: torch.sin,
    Function.COS: torch.cos,
    Function.ATAN: torch.atan,
    Function.SQRT: torch.sqrt,
    Function.ABS: torch.abs,
    Function.SIGN: torch.sign,
    Function.FLOOR: torch.floor,
    Function.CEIL: torch.ceil,
    Function.ROUND: torch.round,
    Function.ELU: lambda x, alpha: functional.elu(x, alpha),
    Function.CELU: lambda x, alpha: functional.celu(x, alpha),
    Function.SOFTPLUS: lambda x: functional.softplus(x, threshold=88.0),
    Function.SOFTSIGN: functional.softsign,
    Function.THRESHOLDED_RELU: lambda x, alpha: functional.threshold(x, alpha, 0.0),
    Function.MISH: functional.mish,
    Function.GELU: functional.gelu,
    Function.GELU_TANH: lambda x: functional.gelu(x, approximate="tanh"),
}


def apply_function(function: FunctionAttr, x: Tensor) -> Tensor:
    """`function` of every element."""
    y = FUNCTIONS[function.kind](x, *function.values)
    if (affine := function.affine) is None:
        return y
    scale, offset = affine
    return y * scale + offset
