"""
Merge PReLU with a slope per channel into a function, and separate the functions that remain in
float for targets that have only functions with a single slope.

In a quantized network, such a function is a lookup table for each slope, which rounds a single
time; the four operations that importers emit would each be rounded.
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, FunctionAttr
from ceras_ir.network.storage import copy_precision, copy_statistics, is_kept_in_float
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, NetworkPass
from ceras_ir.transforms.rebuilding import erase_dead


@dataclass(frozen=True)
class MergeSlopesRule(FloatNetworkPass):
    """
    Replace `relu(x) + slope * min(x, 0)` with a constant slope per channel by `leaky_relu` with
    slopes. Runs before ranges are observed.

    Exact: one of the addends is zero.

    Before:

        %s = graph.constant dense<[0.5, 0.25]> : tensor<2xf32> : tensor<2xf32>
        %a = graph.unary <relu> %x : tensor<1x2xf32>
        %b = graph.unary <clip, -inf, 0.0> %x : tensor<1x2xf32>
        %c = graph.binary mul %b, %s : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
        %y = graph.binary add %a, %c : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>

    After:

        %y = graph.unary <leaky_relu, 0.5, 0.25> %x {input_exponents = array<i64: 0, 0>,
            result_exponents = array<i64: 0, 0>} : tensor<1x2xf32>
    """

    name = "merge-slopes"

    def change(self, main: FuncOp) -> None:
        for op in list(main.body.block.ops):
            if isinstance(op, graph.BinaryOp) and (found := _slopes_of(op)) is not None:
                argument, slopes = found
                merged = graph.UnaryOp(argument, FunctionAttr(Function.LEAKY_RELU, slopes.tolist()))
                zeros = graph.integers([0] * len(slopes))
                merged.properties |= {"input_exponents": zeros, "result_exponents": zeros}
                _replace(op, merged)
        erase_dead(main.body.block)


def _slopes_of(op: graph.BinaryOp) -> tuple[SSAValue, NDArray[np.float32]] | None:
    """Return the argument and the slopes of a PReLU of which `op` is the last operation."""
    if op.function is not Binary.ADD or op.activation is not None or is_kept_in_float(op):
        return None
    for above, below in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        relu, product = above.owner, below.owner
        if not isinstance(relu, graph.UnaryOp) or relu.function.clip_range != (0.0, inf):
            continue
        if not isinstance(product, graph.BinaryOp) or product.function is not Binary.MUL:
            continue
        clip, slopes = product.lhs.owner, graph.constant_array(product.rhs)
        if slopes is None:
            clip, slopes = product.rhs.owner, graph.constant_array(product.lhs)
        if not isinstance(clip, graph.UnaryOp) or clip.function.clip_range != (-inf, 0.0):
            continue
        parts = (relu, clip, product)
        if not all(_is_plain(part) for part in parts) or clip.input is not relu.input:
            continue
        if slopes is None or slopes.size < 2 or relu.input.type != op.result.type:
            continue
        if slopes.shape[-1:] == graph.shape_of(op.result)[-1:] == (slopes.size,):
            return relu.input, slopes.reshape(-1).astype(np.float32)
    return None


def _is_plain(op: graph.UnaryOp | graph.BinaryOp) -> bool:
    """Return whether only one float operation uses the result, and nothing is fused into `op`."""
    fused = op.activation if isinstance(op, graph.BinaryOp) else op.channel_exponents
    return fused is None and op.result.has_one_use() and graph.element_of(op.result) == f32


@dataclass(frozen=True)
class SeparateSlopesPass(NetworkPass):
    """
    Replace float functions with slopes per channel by the operations that compute them: `relu(x) +
    slope * min(x, 0)`.

    This is for targets with functions of a single slope, and undoes `set-functions{merge-slopes}`.
    Functions with scale and offset are unchanged, see `split-affine`. Exact: one of the addends is
    zero, and powers of two per channel are part of the slopes.

    Before:

        %y = graph.unary <leaky_relu, 0.5, 0.25> %x {input_exponents = array<i64: 0, 0>,
            result_exponents = array<i64: 0, 0>} : tensor<1x2xf32>

    After:

        %a = graph.unary <relu> %x : tensor<1x2xf32>
        %b = graph.unary <clip, -inf, 0.0> %x : tensor<1x2xf32>
        %s = graph.constant dense<[0.5, 0.25]> : tensor<2xf32> : tensor<2xf32>
        %c = graph.binary mul %b, %s : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
        %y = graph.binary add %a, %c : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
    """

    name = "separate-slopes"

    def change(self, main: FuncOp) -> None:
        for op in list(main.body.block.ops):
            if not isinstance(op, graph.UnaryOp) or op.function.slopes is None:
                continue
            if op.function.affine is not None:
                continue
            factors = op.channel_factors
            assert factors is not None
            above = factors[0] * factors[1]
            below = np.array(op.function.slopes, np.float32) * above
            relu = graph.UnaryOp(op.input, FunctionAttr(Function.RELU))
            clip = graph.UnaryOp(op.input, FunctionAttr(Function.CLIP, [-inf, 0.0]))
            parts: list[Operation] = [relu, clip]
            addends = [
                _scaled(value, scale, op, parts)
                for value, scale in ((relu.result, above), (clip.result, below))
            ]
            last = graph.BinaryOp(Binary.ADD, *addends, result_element=f32)
            for part in parts:
                part.location = op.location
                copy_precision(op, part)
            Rewriter.insert_op(parts, InsertPoint.before(op))
            _replace(op, last)


def _scaled(
    value: SSAValue, scale: NDArray[np.float32], op: graph.UnaryOp, parts: list[Operation]
) -> SSAValue:
    if (scale == 1).all():
        return value
    constant = graph.ConstantOp.from_array(scale, location=op.location)
    product = graph.BinaryOp(Binary.MUL, value, constant.result, result_element=f32)
    parts += [constant, product]
    return product.result


def _replace(op: graph.UnaryOp | graph.BinaryOp, new: graph.UnaryOp | graph.BinaryOp) -> None:
    new.location = op.location
    copy_statistics(op, new)
    copy_precision(op, new)
    Rewriter.replace_op(op, new)
