"""
Quantized operations in torch: exactly the interpreter's integers, with gradients.

A stored number is a float tensor's whole number. Sums of products are taken in float32 where
every one of them is exact there, else in float64.
"""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool, average_requant
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.windows import Window
from ceras_ir.network import integer
from ceras_ir.network.integer import shift_swish as exact_shift_swish
from ceras_ir.workbench.training.operations import (
    COMBINED,
    MEANINGS,
    Meaning,
    divisors,
    padded,
    products,
    window_sums,
)
from ceras_ir.workbench.training.straight_through import lookup, quantize, requantize, stepped

EXACT = 1 << 24
"""Whole numbers up to here are float32 numbers."""


def scales(element: UniformType, rank: int, like: Tensor) -> Tensor:
    """The scales of a type, so that they broadcast."""
    return torch.tensor(integer.scales(element, rank), device=like.device)


def points(element: UniformType, rank: int, like: Tensor) -> Tensor:
    """The zero points of a type, so that they broadcast."""
    return torch.tensor(integer.zero_points(element, rank), dtype=like.dtype, device=like.device)


def centred(x: Tensor, value: SSAValue) -> Tensor:
    """Stored numbers less their zero point."""
    element = graph.stored_element(value)
    if not any(point.data for point in element.zero_points):
        return x
    return x - points(element, x.ndim, x)


def linear(op: graph.LinearOperation, args: Sequence[Tensor]) -> Tensor:
    x, weights, *rest = args
    x, weights = centred(x, op.input), centred(weights, op.weights)
    bound = graph.stored_element(op.input).reach
    most = float(weights.detach().abs().flatten(1).sum(1).max()) * bound
    kind = torch.float32 if most < EXACT and not x.is_cuda else torch.float64
    acc = products(op, x.to(kind), weights.to(kind)).to(torch.float64)
    if op.bias is not None:
        acc = acc + rest.pop(0)
    if op.residual is not None:
        residual = centred(rest.pop(0), op.residual).to(torch.float64)
        factors = torch.tensor(op.residual_shifts, dtype=torch.float64, device=residual.device)
        acc = acc + residual * torch.exp2(factors)
    assert op.requant is not None
    return requantize(acc, op.requant)


def pool2d(op: graph.Pool2dOp, args: Sequence[Tensor]) -> Tensor:
    if op.function is Pool.MAX:
        return MEANINGS[graph.Pool2dOp](op, args)
    window = Window.of_operation(op)
    x = centred(args[0], op.input).to(torch.float64)
    total = window_sums(window, padded(x, window, 0.0))
    counts = divisors(op, window)
    if len(found := counts.unique()) == 1:
        return requantize(total, average_requant(op, int(found[0])))
    result = torch.zeros(total.shape, dtype=torch.float32, device=total.device)
    for count in found:
        at = (counts == count).expand(total.shape).to(total.device)
        result = torch.where(at, requantize(total, average_requant(op, int(count))), result)
    return result


def binary(op: graph.BinaryOp, args: Sequence[Tensor]) -> Tensor:
    assert op.requant is not None
    lhs, rhs = (
        centred(x, value).to(torch.float64) * factor
        for x, value, factor in zip(args, (op.lhs, op.rhs), op.factors, strict=True)
    )
    return requantize(COMBINED[op.function](lhs, rhs), op.requant)


def table(op: graph.LookupOp, args: Sequence[Tensor]) -> Tensor:
    (x,) = args
    tables = torch.tensor(op.tables, dtype=torch.float32, device=x.device)
    channels = x.shape[-1]
    rows = torch.tensor(op.channel_rows or [0] * channels, device=x.device)
    return lookup(x, tables, rows.expand(x.shape))


def shift_swish(op: graph.ShiftSwishOp, args: Sequence[Tensor]) -> Tensor:
    (x,) = args
    element = graph.stored_element(op.input)
    whole = exact_shift_swish(x.detach().to(torch.int64).cpu().numpy(), op.channel_bends)
    exact = torch.from_numpy(whole).to(x.device, torch.float64)
    real = x.detach().to(torch.float64) * element.scale
    gate = torch.sigmoid(real)
    return requantize(
        stepped(x.to(torch.float64), exact, gate * (1 + real * (1 - gate))), op.requant
    )


def from_float(op: graph.QuantizeOp, args: Sequence[Tensor]) -> Tensor:
    return stored(args[0], graph.stored_element(op.result)).to(torch.float32)


def stored(x: Tensor, element: UniformType) -> Tensor:
    """Real numbers as those that `element` stores."""
    scale, point = scales(element, x.ndim, x), points(element, x.ndim, x)
    return quantize(x, scale.to(x.dtype), point, element.low, element.high)


def to_float(op: graph.DequantizeOp, args: Sequence[Tensor]) -> Tensor:
    x = centred(args[0], op.input)
    return x * scales(graph.stored_element(op.input), x.ndim, x)


def rescale(op: graph.RequantizeOp, args: Sequence[Tensor]) -> Tensor:
    return requantize(centred(args[0], op.input).to(torch.float64), op.requant)


INTEGER_MEANINGS: dict[type[Operation], Meaning] = {
    graph.Conv2dOp: linear,
    graph.MatmulOp: linear,
    graph.Pool2dOp: pool2d,
    graph.BinaryOp: binary,
    graph.LookupOp: table,
    graph.ShiftSwishOp: shift_swish,
    graph.QuantizeOp: from_float,
    graph.DequantizeOp: to_float,
    graph.RequantizeOp: rescale,
}
"""Those that compute; what moves or compares stored numbers is as in float."""
