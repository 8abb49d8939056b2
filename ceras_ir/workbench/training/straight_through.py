"""
Steps of integer arithmetic that gradients pass straight through.

Forward they are exactly what `ceras_ir.network.integer` defines; backward they are the line that
the steps follow, and nothing where the result was clamped. Integers are kept in float tensors.
"""

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ceras_ir.dialects.quant import RequantAttr, Rounding


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
