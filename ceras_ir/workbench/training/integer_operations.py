"""
Execute quantized operations in torch: with the exact integers of the interpreter, and gradients.

Integers are stored in float tensors. Sums of products are computed in float32 if all sums are
exact, otherwise in float64. The forward functions equal `ceras_ir.network.integer`.
The gradient is that of the function without rounding (a straight-through estimator), and zero for
clamped results.
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
    MEANINGS,
    TORCH_BINARY,
    TorchFunction,
    divisors,
    padded,
    products,
    window_sums,
)

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false


def round_shift(value: Tensor, shift: int, mode: Rounding) -> Tensor:
    """Return `value / 2**shift` for a tensor of 64-bit integers, rounded by `mode`."""
    if shift == 0:
        return value
    half = 1 << (shift - 1)
    assert mode is not Rounding.DOUBLE_ROUND
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
    """
    Convert an integer accumulator to the scale of the result: multiply, shift, round, add the zero
    point and clamp as `requant` specifies. Return the integers as float32.
    """
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
    """
    Convert real numbers to integers: divide by `scale`, round half to even, add the zero point
    `point`, clamp to `low` and `high`.
    """
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
    """
    Return the entries of lookup tables for the integers `x`. `tables` is [tables, entries], and
    `rows` has the index of the table of each channel. The gradient is the slope between adjacent
    entries.
    """
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
    """
    Return `exact`, the result of a step function, but with the gradient `slope` with respect to
    `x`, since the derivative of a step is 0.
    """
    return _Stepped.apply(x, exact, slope)


MAX_FLOAT32_INTEGER = 1 << 24
"""All integers up to this magnitude are float32 numbers."""


def scales(element: UniformType, rank: int, like: Tensor) -> Tensor:
    """
    Return the scales of a quantized type as a tensor that broadcasts to a tensor of `rank`
    dimensions, on the device of `like`.
    """
    return torch.tensor(integer.scales(element, rank), device=like.device)


def points(element: UniformType, rank: int, like: Tensor) -> Tensor:
    """
    Return the zero points of a quantized type as a tensor that broadcasts to a tensor of `rank`
    dimensions, with the type and device of `like`.
    """
    return torch.tensor(integer.zero_points(element, rank), dtype=like.dtype, device=like.device)


def centred(x: Tensor, value: SSAValue) -> Tensor:
    """Return `x`, the stored integers of `value`, minus the zero point."""
    element = graph.stored_element(value)
    if not any(point.data for point in element.zero_points):
        return x
    return x - points(element, x.ndim, x)


def linear(op: graph.LinearOperation, args: Sequence[Tensor]) -> Tensor:
    x, weights, *rest = args
    x, weights = centred(x, op.input), centred(weights, op.weights)
    bound = graph.stored_element(op.input).reach
    worst_case = float(weights.detach().abs().flatten(1).sum(1).max()) * bound
    is_exact = worst_case < MAX_FLOAT32_INTEGER and not x.is_cuda
    kind = torch.float32 if is_exact else torch.float64
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
    return requantize(TORCH_BINARY[op.function](lhs, rhs), op.requant)


def table(op: graph.LookupOp, args: Sequence[Tensor]) -> Tensor:
    (x,) = args
    tables = torch.tensor(op.tables, dtype=torch.float32, device=x.device)
    channels = x.shape[-1]
    rows = torch.tensor(op.channel_rows or [0] * channels, device=x.device)
    return lookup(x, tables, rows.expand(x.shape))


def shift_swish(op: graph.ShiftSwishOp, args: Sequence[Tensor]) -> Tensor:
    (x,) = args
    element = graph.stored_element(op.input)
    integers = exact_shift_swish(x.detach().to(torch.int64).cpu().numpy(), op.channel_bends)
    exact = torch.from_numpy(integers).to(x.device, torch.float64)
    real = x.detach().to(torch.float64) * element.scale
    gate = torch.sigmoid(real)
    slope = gate * (1 + real * (1 - gate))
    return requantize(stepped(x.to(torch.float64), exact, slope), op.requant)


def from_float(op: graph.QuantizeOp, args: Sequence[Tensor]) -> Tensor:
    return stored(args[0], graph.stored_element(op.result)).to(torch.float32)


def stored(x: Tensor, element: UniformType, low: int | None = None) -> Tensor:
    """
    Convert real numbers to the integers of the quantized type `element`. The lowest integer is
    `low`, or by default that of the type.
    """
    scale, point = scales(element, x.ndim, x), points(element, x.ndim, x)
    low = element.low if low is None else low
    return quantize(x, scale.to(x.dtype), point, low, element.high)


def to_float(op: graph.DequantizeOp, args: Sequence[Tensor]) -> Tensor:
    x = centred(args[0], op.input)
    return x * scales(graph.stored_element(op.input), x.ndim, x)


def rescale(op: graph.RequantizeOp, args: Sequence[Tensor]) -> Tensor:
    return requantize(centred(args[0], op.input).to(torch.float64), op.requant)


INTEGER_MEANINGS: dict[type[Operation], TorchFunction] = {
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
"""The operations with arithmetic. Other operations are equal for integers and floats."""
