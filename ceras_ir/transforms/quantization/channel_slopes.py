"""
Convert PReLU with a slope per channel: to a function, to the ReLU of a layer with twice the
channels for accelerators, and back to operations for targets with functions of a single slope.

In a quantized network, such a function is a lookup table for each slope, which rounds a single
time; the four operations that importers emit would each be rounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Function, FunctionAttr
from ceras_ir.network.function import quantized_operations
from ceras_ir.network.storage import (
    NARROW,
    copy_precision,
    copy_statistics,
    drop_statistics,
    is_kept_in_float,
)
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, NetworkPass
from ceras_ir.transforms.quantization.analysis.function_forms import is_table, reads_sum
from ceras_ir.transforms.quantization.analysis.scale_classes import absorbs, consuming_layers
from ceras_ir.transforms.quantization.analysis.time_model import TimeModel
from ceras_ir.transforms.quantization_options import NarrowOptions
from ceras_ir.transforms.rebuilding import erase_dead, erase_with_constants, replace_constant


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


LANES = 16
"""The channels that an accelerator processes at a time: the blocks of VTA, the array of nnet."""


@dataclass(frozen=True)
class PairSlopesRule(NarrowOptions, FloatNetworkPass):
    """
    For an 8-bit accelerator (`narrow`), replace a function with slopes per channel by the ReLU of a
    layer with twice the output channels.

    The further channels have the negated weights and bias. The layers that use the result multiply
    them by the negated slopes. Accelerators leave lookup tables of many channels to the CPU, and a
    table is a second rounding. Each half of a pair has the full range of 8 bits.

    A function is replaced if the layer before it has no other consumer and no residual, all
    consumers of the result are layers, no layer has groups, and the modelled time of the further
    products, in blocks of 16 channels, is at most that of the lookups. Runs before ranges are
    observed.

    Exact in real numbers: `f(x) = relu(x) - slope * relu(-x)`.

    Before, with `narrow=true`:

        %w = graph.constant dense<[[1.0, 0.5], [0.25, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
        %a = graph.matmul %x, %w : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
        %p = graph.unary <leaky_relu, 0.5, 0.25> %a {input_exponents = array<i64: 0, 0>,
            result_exponents = array<i64: 0, 0>} : tensor<4x2xf32>
        %v = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %y = graph.matmul %p, %v : (tensor<4x2xf32>, tensor<1x2xf32>) -> tensor<4x1xf32>

    After:

        %w = graph.constant dense<[[1.0, 0.5], [0.25, 1.0], [-1.0, -0.5], [-0.25, -1.0]]>
            : tensor<4x2xf32> : tensor<4x2xf32>
        %p = graph.matmul %x, %w {activation = #graph.function<relu>}
            : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
        %v = graph.constant dense<[[1.0, 2.0, -0.5, -0.5]]> : tensor<1x4xf32> : tensor<1x4xf32>
        %y = graph.matmul %p, %v : (tensor<4x4xf32>, tensor<1x4xf32>) -> tensor<4x1xf32>
    """

    name = "pair-slopes"

    def change(self, main: FuncOp) -> None:
        if not self.narrow:
            return
        inside = quantized_operations(main)
        pairs = [op for op in inside if isinstance(op, graph.UnaryOp) and _around(main, op)]
        # The further products of a layer depend on the functions before and after it.
        while costly := [op for op in pairs if _benefit(main, op, pairs) < 0]:
            pairs.remove(min(costly, key=lambda op: _benefit(main, op, pairs)))
        for op in pairs:
            _pair(main, op)


def _around(main: FuncOp, op: graph.UnaryOp) -> list[graph.LinearOperation]:
    """
    Return the layer before a function with slopes and the layers that use the result; an empty list
    if the function cannot be replaced.
    """
    layer, users = op.input.owner, [use.operation for use in op.result.uses]
    if op.function.slopes is None or op.function.affine or not is_table(op) or not reads_sum(op):
        return []
    if not isinstance(layer, graph.LinearOperation) or not absorbs(layer):
        return []
    if layer.residual is not None or layer.activation is not None:
        return []
    consumers = consuming_layers(main, op.result)
    is_direct = len(consumers) == len(users) and all(c.input is op.result for c in consumers)
    if not consumers or not is_direct:
        return []
    found = [layer, *consumers]
    is_other = (
        is_kept_in_float(each) or (isinstance(each, graph.Conv2dOp) and each.group_count > 1)
        for each in found
    )
    return [] if any(is_other) else found


def _benefit(main: FuncOp, op: graph.UnaryOp, pairs: Sequence[graph.UnaryOp]) -> float:
    """
    Return the modelled time of the lookups of a function minus that of the products which replace
    them, if the functions `pairs` are replaced.
    """
    layer, *consumers = _around(main, op)
    before = {other.result for other in pairs}
    after = {other.input for other in pairs}
    more = 0
    for each, is_producer in ((layer, True), *((c, False) for c in consumers)):
        inputs, outputs = 1 + (each.input in before), 1 + (each.result in after)
        fewer = (inputs, 1) if is_producer else (1, outputs)
        more += _products(each, inputs, outputs) - _products(each, *fewer)
    lookups = TimeModel(narrow=True).lookup(op, NARROW, NARROW) * prod(graph.shape_of(op.result))
    return lookups - more


def _products(op: graph.LinearOperation, inputs: int, outputs: int) -> int:
    """
    Return the products of a layer with `inputs` and `outputs` times as many channels, in blocks of
    an accelerator: `LANES` elements of a kernel row, and `LANES` output channels.
    """
    shape = graph.shape_of(op.weights)
    channels, *_ = shape
    row = inputs * prod(shape[-2:] if len(shape) > 2 else shape[1:])
    blocks = -(-row // LANES) * -(-outputs * channels // LANES)
    return op.macs // prod(shape) * prod(shape[1:-2]) * blocks * LANES * LANES


def _pair(main: FuncOp, op: graph.UnaryOp) -> None:
    layer, *consumers = _around(main, op)
    slopes = np.array(op.function.slopes, np.float32)
    operands = [layer.input]
    new: list[Operation] = []
    for constant in layer.operands[1:]:
        values = graph.known_array(constant).astype(np.float32)
        both = graph.ConstantOp.from_array(np.concatenate([values, -values]))
        both.location = layer.location
        new.append(both)
        operands.append(both.result)
    for consumer in consumers:
        weights = graph.known_array(consumer.weights).astype(np.float32)
        halves = np.concatenate([weights, -weights * slopes], axis=-1)
        replace_constant(consumer, consumer.weights, halves)
    *outer, channels = graph.shape_of(layer.result)
    doubled = layer.rebuilt(
        operands,
        shape=[*outer, 2 * channels],
        changed={"activation": FunctionAttr(Function.RELU)},
    )
    doubled.location = fused_location(layer, op)
    drop_statistics(doubled)
    copy_precision(op, doubled)
    Rewriter.insert_op([*new, doubled], InsertPoint.before(layer))
    op.result.replace_all_uses_with(doubled.result)
    Rewriter.erase_op(op)
    erase_with_constants(layer)


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
