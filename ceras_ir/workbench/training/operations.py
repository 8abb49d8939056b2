"""
Execute the operations of the `graph` dialect in torch; the interpreter defines them in numpy.

Each operation has a function of the operation and the operands. Feature maps are NHWC, as in the
graph. The first dimension can be a batch, and then exceeds the extent in the graph. Elementwise
functions can differ from `ceras_ir.interpreters.float_functions` in the last bits of a float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import Function, FunctionAttr
from ceras_ir.dialects.graph.logic import Compare
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.interpreters import selection
from ceras_ir.interpreters.windows import Window, counts

# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false


TORCH_FUNCTIONS: dict[Function, Callable[..., Tensor]] = {
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
    """Apply the elementwise `function` to a tensor."""
    if (slopes := function.slopes) is not None:
        y = torch.where(x >= 0, x, x * torch.tensor(slopes, dtype=x.dtype, device=x.device))
    else:
        y = TORCH_FUNCTIONS[function.data](x, *function.values)
    if (affine := function.affine) is None:
        return y
    scale, offset = affine
    return y * scale + offset


TorchFunction = Callable[[Any, Sequence[Tensor]], Tensor]

TYPES = {
    np.dtype(np.float32): torch.float32,
    np.dtype(np.bool_): torch.bool,
    np.dtype(np.uint8): torch.uint8,
    np.dtype(np.int8): torch.int8,
    np.dtype(np.int16): torch.int16,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.int64): torch.int64,
}

MEANINGS: dict[type[Operation], TorchFunction] = {}


def meaning(kind: type[Operation]) -> Callable[[TorchFunction], TorchFunction]:
    """
    Register the decorated torch function as the implementation of operations of the class `kind`.
    """

    def add(function: TorchFunction) -> TorchFunction:
        MEANINGS[kind] = function
        return function

    return add


def padded(x: Tensor, window: Window, value: float) -> Tensor:
    """Return the NHWC feature map `x` with the padding of `window`, filled with `value`."""
    top, left, bottom, right = window.padding
    if not any(window.padding):
        return x
    return functional.pad(x, (0, 0, left, right, top, bottom), value=value)


def convolve(
    x: Tensor, weights: Tensor, window: Window, groups: int, bias: Tensor | None = None
) -> Tensor:
    """
    Convolve `x`, a padded NHWC feature map, with weights [O, KH, KW, C/groups], and add the bias.
    """
    y = functional.conv2d(
        x.permute(0, 3, 1, 2),
        weights.permute(0, 3, 1, 2),
        bias,
        stride=window.strides,
        dilation=window.dilations,
        groups=groups,
    )
    return y.permute(0, 2, 3, 1)


def products(
    op: graph.LinearOperation, x: Tensor, weights: Tensor, bias: Tensor | None = None
) -> Tensor:
    """
    Return the sums of products of a convolution or matrix product, plus the bias if there is one.
    """
    if not isinstance(op, graph.Conv2dOp):
        return functional.linear(x, weights, bias)
    window = Window.of_operation(op)
    return convolve(padded(x, window, 0.0), weights, window, op.group_count, bias)


@meaning(graph.MatmulOp)
@meaning(graph.Conv2dOp)
def linear(op: graph.LinearOperation, args: Sequence[Tensor]) -> Tensor:
    x, weights, *rest = args
    total = products(op, x, weights, rest.pop(0) if op.bias is not None else None)
    for addend in rest:
        total = total + addend
    return total if op.activation is None else apply_function(op.activation, total)


def window_sums(window: Window, x: Tensor) -> Tensor:
    """Return the sum of each window of `x`, a padded NHWC feature map."""
    rows, columns = (window.tap_slices(axis, x.shape[1 + axis]) for axis in (0, 1))
    if window.dilations == (1, 1):
        y = functional.avg_pool2d(
            x.permute(0, 3, 1, 2), window.kernel, window.strides, divisor_override=1
        )
        return y.permute(0, 2, 3, 1)
    return torch.stack([x[:, i, j] for i in rows for j in columns]).sum(0)


@meaning(graph.Pool2dOp)
def pool2d(op: graph.Pool2dOp, args: Sequence[Tensor]) -> Tensor:
    (x,) = args
    window = Window.of_operation(op)
    if op.function is Pool.MAX:
        y = padded(x, window, -torch.inf).permute(0, 3, 1, 2)
        y = functional.max_pool2d(y, window.kernel, window.strides, dilation=window.dilations)
        return y.permute(0, 2, 3, 1)
    return window_sums(window, padded(x, window, 0.0)) / divisors(op, window).to(x.device)


def divisors(op: graph.Pool2dOp, window: Window) -> Tensor:
    """
    Return the number by which the sum of each window of an average pooling is divided,
    [1, OH, OW, 1]: the elements of the window, without padding unless it is included.
    """
    _, height, width, _ = graph.shape_of(op.input)
    if op.includes_padding:
        return torch.full((1, 1, 1, 1), window.kernel[0] * window.kernel[1])
    return torch.from_numpy(counts(height, width, window))[None, :, :, None]


@meaning(graph.UnaryOp)
def unary(op: graph.UnaryOp, args: Sequence[Tensor]) -> Tensor:
    if (factors := op.channel_factors) is None:
        return apply_function(op.function, args[0])
    up, down = (torch.from_numpy(side).to(args[0]) for side in factors)
    return apply_function(op.function, args[0] * up) * down


TORCH_BINARY: dict[graph.Binary, Callable[[Tensor, Tensor], Tensor]] = {
    graph.Binary.ADD: torch.add,
    graph.Binary.SUB: torch.sub,
    graph.Binary.MUL: torch.mul,
    graph.Binary.DIV: torch.div,
    graph.Binary.MIN: torch.minimum,
    graph.Binary.MAX: torch.maximum,
    graph.Binary.POW: torch.pow,
    graph.Binary.AND: torch.bitwise_and,
    graph.Binary.OR: torch.bitwise_or,
    graph.Binary.XOR: torch.bitwise_xor,
}


@meaning(graph.BinaryOp)
def binary(op: graph.BinaryOp, args: Sequence[Tensor]) -> Tensor:
    if op.function is graph.Binary.DIV and not args[0].is_floating_point():
        result = torch.div(args[0], args[1], rounding_mode="trunc")
    else:
        result = TORCH_BINARY[op.function](args[0], args[1])
    return result if op.activation is None else apply_function(op.activation, result)


@meaning(graph.SoftmaxOp)
def softmax(op: graph.SoftmaxOp, args: Sequence[Tensor]) -> Tensor:
    return torch.softmax(args[0], op.axis.value.data)


@meaning(graph.ReshapeOp)
def reshape(op: graph.ReshapeOp, args: Sequence[Tensor]) -> Tensor:
    source, result = graph.shape_of(op.input), graph.shape_of(op.result)
    # An equal first dimension is the batch.
    if source[:1] == result[:1]:
        return args[0].reshape(-1, *result[1:]) if result else args[0]
    return args[0].reshape(result)


@meaning(graph.TransposeOp)
def transpose(op: graph.TransposeOp, args: Sequence[Tensor]) -> Tensor:
    return args[0].permute(*op.permutation.get_values())


@meaning(graph.ConcatOp)
def concat(op: graph.ConcatOp, args: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(args), op.axis.value.data)


@meaning(graph.ResizeOp)
def resize(op: graph.ResizeOp, args: Sequence[Tensor]) -> Tensor:
    (x,) = args
    mode, shape = op.coordinates.data, graph.shape_of(op.result)
    for axis in (1, 2):
        scale = op.factors[axis - 1]
        if op.function is graph.Resize.NEAREST:
            rounding = op.rounding.data
            found = selection.nearest_indices(x.shape[axis], shape[axis], scale, mode, rounding)
            x = x.index_select(axis, torch.tensor(found, device=x.device))
            continue
        low, high, t = selection.linear_weights(x.shape[axis], shape[axis], scale, mode)
        shape_of_weights = [-1 if i == axis else 1 for i in range(4)]
        weight = torch.from_numpy(t).to(x.device).reshape(shape_of_weights)
        indices = (torch.tensor(i, device=x.device) for i in (low, high))
        first, second = (x.index_select(axis, i) for i in indices)
        x = first * (1 - weight) + second * weight
    return x


@meaning(graph.SliceOp)
def slice_(op: graph.SliceOp, args: Sequence[Tensor]) -> Tensor:
    (x,) = args
    fields = op.starts.get_values(), op.strides.get_values(), graph.shape_of(op.result)
    for axis, (start, stride, size) in enumerate(zip(*fields, strict=True)):
        if (start, stride, size) == (0, 1, graph.shape_of(op.input)[axis]):
            continue
        taken = [start + i * stride for i in range(size)]
        x = x.index_select(axis, torch.tensor(taken, device=x.device))
    return x


@meaning(graph.GatherOp)
def gather(op: graph.GatherOp, args: Sequence[Tensor]) -> Tensor:
    indices = torch.tensor(op.indices.get_values(), device=args[0].device)
    return args[0].index_select(op.axis.value.data, indices)


@meaning(graph.PadOp)
def pad(op: graph.PadOp, args: Sequence[Tensor]) -> Tensor:
    (x,) = args
    low, high, between = (f.get_values() for f in (op.low, op.high, op.interior))
    for axis, (before, after, gap) in enumerate(zip(low, high, between, strict=True)):
        if not (before or after or gap):
            continue
        extent = x.shape[axis]
        if op.function is not graph.Pad.CONSTANT:
            found = selection.border_indices(op.function, extent, before, after)
            x = x.index_select(axis, torch.from_numpy(found).to(x.device))
            continue
        shape = list(x.shape)
        shape[axis] = extent + before + after + (extent - 1) * gap
        at = torch.arange(extent, device=x.device) * (gap + 1) + before
        x = x.new_full(shape, op.stored_value).index_copy(axis, at, x)
    return x


@meaning(graph.ReduceOp)
def reduce(op: graph.ReduceOp, args: Sequence[Tensor]) -> Tensor:
    (x,) = args
    axes = [int(a) for a in op.axes.get_values()]
    match op.function:
        case graph.Reduce.SUM:
            return x.sum(axes, keepdim=True, dtype=x.dtype) if axes else x
        case graph.Reduce.MAX:
            return x.amax(axes, keepdim=True) if axes else x
        case graph.Reduce.MIN:
            return x.amin(axes, keepdim=True) if axes else x
        case graph.Reduce.PRODUCT:
            for axis in axes:
                x = x.prod(axis, keepdim=True, dtype=x.dtype)
            return x


@meaning(graph.ArgOp)
def arg(op: graph.ArgOp, args: Sequence[Tensor]) -> Tensor:
    axis = op.axis.value.data
    best = torch.argmax if op.function is graph.Reduce.MAX else torch.argmin
    if not op.takes_last:
        return best(args[0], axis, keepdim=True)
    return args[0].shape[axis] - 1 - best(args[0].flip(axis), axis, keepdim=True)


@meaning(graph.TopKOp)
def top_k(op: graph.TopKOp, args: Sequence[Tensor]) -> Tensor:
    descending = op.function is graph.Reduce.MAX
    order = torch.argsort(args[0], dim=-1, descending=descending, stable=True)
    return order[..., : graph.shape_of(op.result)[-1]]


@meaning(graph.CompareOp)
def compare(op: graph.CompareOp, args: Sequence[Tensor]) -> Tensor:
    kinds = {Compare.EQUAL: torch.eq, Compare.LESS: torch.lt, Compare.LESS_OR_EQUAL: torch.le}
    return kinds[op.function](args[0], args[1])


@meaning(graph.SelectOp)
def select(op: graph.SelectOp, args: Sequence[Tensor]) -> Tensor:
    return torch.where(args[0], args[1], args[2])


@meaning(graph.CastOp)
def cast(op: graph.CastOp, args: Sequence[Tensor]) -> Tensor:
    dtype = graph.numpy_dtype(graph.element_of(op.result))
    x = args[0]
    if dtype == np.bool_:
        return x != 0
    if x.is_floating_point() and dtype.kind in "iu":
        bounds = np.iinfo(dtype.name)
        x = x.detach().nan_to_num(0.0).trunc().to(torch.float64).clamp(bounds.min, bounds.max)
    return x.to(TYPES[dtype])
