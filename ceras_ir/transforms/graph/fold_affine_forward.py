"""Fold factors and addends of channels into the layers that read the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK
from ceras_ir.network.quantizable import behind_layers
from ceras_ir.network.ranges import drop_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.graph.fold_batch_norm import per_channel
from ceras_ir.transforms.rebuilding import erase_with_constants, rebuild_linear, spread_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SPREAD = 16.0
"""Ratio of factors that weights can take in: four bits of int8."""

MOST_APART = 2.0
"""Ratio of factors that inputs are multiplied by: one bit of int8."""


@dataclass(frozen=True)
class FoldAffineForwardPass(FloatNetworkPass):
    """
    Fold factors and addends of channels into the convolutions and matrix products that read them.

    `conv(x * k, w)` becomes `conv(x, w * k)`, and `conv(x + t, w)` gets the sum of `w * t` as a
    bias, where no padding takes part. Nothing else may read `x * k` or `x + t`.

    `fold-batch-norm` folds into the layer before. There is none behind a residual, a pooling or a
    concatenation, nor where others read that layer. In integers the product would be rounded once
    more, in steps of one scale for all channels.

    What stays: scale and offset behind a normalization by computed values; factors of which one is
    more than 16 times another, which weights would have no steps for; and what prepares inputs, as
    it may bring features near each other. Factors of inputs are folded if none is twice another:
    images in 8 bits are then stored as they were.

    Equal over the reals. In float32 every weight and bias is rounded once more.
    """

    name = "fold-affine-forward"

    def change(self, main: FuncOp) -> None:
        behind = behind_layers(main)
        for op in reversed(list(main.body.block.ops)):
            if isinstance(op, graph.BinaryOp):
                _fold(op, prepares=behind.isdisjoint(op.operands))


def _fold(op: graph.BinaryOp, *, prepares: bool) -> None:
    layers = _readers(op)
    found = _of_channels(op)
    if found is None or not layers or op.activation is not None:
        return
    value, constant, is_product = found
    # Scale and offset of a normalization: what they make is rounded once, behind both.
    if _is_normalized(value):
        return
    if prepares and not (is_product and _are_near(constant, MOST_APART)):
        return
    if is_product and not _are_near(constant, SPREAD):
        return
    if not is_product and any(_is_padded(layer) or not _has_known_bias(layer) for layer in layers):
        return
    for layer in layers:
        new = _scaled(layer, value, constant) if is_product else _moved(layer, value, constant)
        new.location = fused_location(layer, op)
        new.result.name_hint = layer.result.name_hint
        layer.result.replace_all_uses_with(new.result)
        erase_with_constants(layer)
    erase_with_constants(op)


def _readers(op: graph.BinaryOp) -> list[graph.LinearOperation]:
    """The layers of known weights whose input is the result, if nothing else reads it."""
    found: list[graph.LinearOperation] = []
    for use in op.result.uses:
        layer = use.operation
        if not isinstance(layer, graph.LinearOperation) or use.index != 0:
            return []
        weights = layer.weights.owner
        if not isinstance(weights, graph.ConstantOp) or graph.element_of(layer.weights) != f32:
            return []
        if layer.is_quantized or layer.ordered is not None or MASK in layer.attributes:
            return []
        found.append(layer)
    return found


def _of_channels(op: graph.BinaryOp) -> tuple[SSAValue, NDArray[np.float32], bool] | None:
    """The value, the numbers that its channels are multiplied by or added to, and which of both."""
    shape = graph.shape_of(op.result)
    if not shape or op.function not in (graph.Binary.MUL, graph.Binary.ADD, graph.Binary.SUB):
        return None
    pairs = [(op.lhs, op.rhs), (op.rhs, op.lhs)]
    for value, other in pairs[: 1 if op.function is graph.Binary.SUB else 2]:
        if value.type != op.result.type or graph.element_of(value) != f32:
            continue
        if isinstance(value.owner, graph.ConstantOp):
            continue
        if (constant := per_channel(other, shape[-1])) is not None:
            sign = -1 if op.function is graph.Binary.SUB else 1
            return value, constant * sign, op.function is graph.Binary.MUL
    return None


def _is_normalized(value: SSAValue) -> bool:
    """Whether a value is a product or a quotient of two that are computed, or a multiple of one."""
    while isinstance(owner := value.owner, graph.BinaryOp):
        if owner.function not in (graph.Binary.MUL, graph.Binary.DIV):
            return False
        computed = [v for v in owner.operands if not isinstance(v.owner, graph.ConstantOp)]
        if len(computed) != 1:
            return True
        value = computed[0]
    return False


def _are_near(factors: NDArray[np.float32], apart: float) -> bool:
    """Whether no factor is more than so many times another in magnitude."""
    sizes = abs(factors)
    return bool(sizes.max() <= apart * sizes.min())


def _is_padded(layer: graph.LinearOperation) -> bool:
    return isinstance(layer, graph.Conv2dOp) and any(layer.padding.get_values())


def _has_known_bias(layer: graph.LinearOperation) -> bool:
    return layer.bias is None or isinstance(layer.bias.owner, graph.ConstantOp)


def _scaled(
    layer: graph.LinearOperation, value: SSAValue, factors: NDArray[np.float32]
) -> graph.LinearOperation:
    array = graph.known_array(layer.weights).astype("float32") * spread_columns(layer, factors)
    weights = _constant(array, layer.weights, layer)
    return _inserted(layer, rebuild_linear(layer, {}, input=value, weights=weights))


def _moved(
    layer: graph.LinearOperation, value: SSAValue, addends: NDArray[np.float32]
) -> graph.LinearOperation:
    import numpy as np

    array = graph.known_array(layer.weights).astype(np.float64) * spread_columns(layer, addends)
    more = array.reshape(len(array), -1).sum(axis=1)
    if layer.bias is not None:
        more = more + graph.known_array(layer.bias).reshape(-1)
    bias = _constant(more, layer.weights if layer.bias is None else layer.bias, layer)
    return _inserted(layer, rebuild_linear(layer, {}, input=value, bias=bias))


def _constant(
    array: NDArray[np.floating], like: SSAValue, before: graph.LinearOperation
) -> SSAValue:
    import numpy as np

    owner = like.owner
    assert isinstance(owner, graph.ConstantOp)
    new = graph.ConstantOp.from_array(array.astype(np.float32), location=owner.location)
    Rewriter.insert_op(new, InsertPoint.before(before))
    return new.result


def _inserted(layer: graph.LinearOperation, new: graph.LinearOperation) -> graph.LinearOperation:
    drop_statistics(new)
    Rewriter.insert_op(new, InsertPoint.before(layer))
    return new
