"""
Quantized operations in torch: exactly the interpreter's integers, with gradients.

A stored number is a float tensor's whole number. Sums of products are taken in float32 where
every one of them is exact there, else in float64.

Steps of integer arithmetic that gradients pass straight through.

Forward they are exactly what `ceras_ir.network.integer` defines; backward they are the line that
the steps follow, and nothing where the result was clamped. Integers are kept in float tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool, average_requant
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
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

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false


def round_shift(value: Tensor, shift: int, mode: Rounding) -> Tensor:
    """`value / 2**shift` of 64-bit integers, rounded as `mode` says."""
    if shift == 0:
        return value
    half = 1 << (shift - 1)
    match mode:
        case Rounding.FLOOR:
            return value >> shift
        case Rounding.HALF_UP:
            return (value + half) >> shift
        case Rounding.HALF_AWAY:
            return torch.where(value >= 0, (value + half) >> shift, -((half - value) >> shift))
        case Rounding.HALF_EVEN:
            floor = value >> shift
            rest = value - (floor << shift)
            up = (rest > half) | ((rest == half) & ((floor & 1) == 1))
            return floor + up


class _Requantize(Function):
    @staticmethod
    def forward(ctx, acc: Tensor, multiplier: Tensor, requant: RequantAttr) -> Tensor:
        shift = requant.shift.data
        product = acc.round().to(torch.int64) * multiplier
        rounded = round_shift(product, shift, requant.mode) + requant.zero_point.data
        low, high = requant.low.data, requant.high.data
        ctx.save_for_backward((rounded >= low) & (rounded <= high), multiplier)
        ctx.shift, ctx.kind = shift, acc.dtype
        return rounded.clamp(low, high).to(torch.float32)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor):
        inside, multiplier = ctx.saved_tensors
        slope = multiplier.to(torch.float64) / 2.0**ctx.shift
        return (gradients[0] * inside * slope).to(ctx.kind), None, None


def requantize(acc: Tensor, requant: RequantAttr) -> Tensor:
    """An accumulator of whole numbers as stored numbers, as `#graph.requant` says."""
    multiplier = torch.tensor(requant.multipliers, dtype=torch.int64, device=acc.device)
    return _Requantize.apply(acc, multiplier, requant)


class _Round(Function):
    @staticmethod
    def forward(ctx, x: Tensor, scale: Tensor, point: Tensor, low: float, high: float) -> Tensor:
        rounded = torch.round(x / scale) + point
        ctx.save_for_backward((rounded >= low) & (rounded <= high), scale)
        return rounded.clamp(low, high)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor):
        inside, scale = ctx.saved_tensors
        return gradients[0] * inside / scale, None, None, None, None


def quantize(x: Tensor, scale: Tensor, point: Tensor, low: int, high: int) -> Tensor:
    """Real numbers as stored numbers: division, ties to even, zero point, clamp."""
    return _Round.apply(x, scale, point, low, high)


class _Lookup(Function):
    @staticmethod
    def forward(ctx, x: Tensor, tables: Tensor, rows: Tensor) -> Tensor:
        half = tables.shape[1] // 2
        index = x.to(torch.int64).clamp(-half, half - 1) + half
        ctx.save_for_backward(tables, rows, index, x.abs() <= half)
        return tables[rows, index]

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor):
        tables, rows, index, inside = ctx.saved_tensors
        last = tables.shape[1] - 1
        above, below = (index + 1).clamp(max=last), (index - 1).clamp(min=0)
        slope = (tables[rows, above] - tables[rows, below]) / (above - below)
        return gradients[0] * slope * inside, None, None


def lookup(x: Tensor, tables: Tensor, rows: Tensor) -> Tensor:
    """Entries of tables; the gradient is that of the line between an entry's neighbours."""
    return _Lookup.apply(x, tables, rows)


class _Stepped(Function):
    @staticmethod
    def forward(ctx, x: Tensor, exact: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope)
        return exact

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients: Tensor):
        (slope,) = ctx.saved_tensors
        return gradients[0] * slope, None, None


def stepped(x: Tensor, exact: Tensor, slope: Tensor) -> Tensor:
    """`exact`, whose gradient is taken to be `slope` in `x`."""
    return _Stepped.apply(x, exact, slope)


# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false


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
