"""Rules of `fold-affine`: factors and addends move into the layers after them, or form a layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK
from ceras_ir.network.function import values_after_layers
from ceras_ir.network.storage import copy_statistics, drop_statistics, is_kept_in_float
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.graph.affine_backward import per_channel
from ceras_ir.transforms.pass_kinds import FloatNetworkPass, PatternPass
from ceras_ir.transforms.rebuilding import erase_with_constants, rebuild_linear, spread_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MatmulToConvolution(RewritePattern):
    """
    `reshape(matmul(reshape(x), w))` becomes `conv2d(x, w)` of 1x1, where x and the result are
    feature maps of the same pixels, more than one of them, in float. Functions in front of the last
    reshape stay behind the convolution.

    Exact: each sum has the same terms in the same order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ReshapeOp, rewriter: PatternRewriter, /):
        value, functions = op.input, list[graph.UnaryOp]()
        while isinstance(function := value.owner, graph.UnaryOp) and value.has_one_use():
            if function.channel_exponents is not None:
                return
            functions.append(function)
            value = function.input
        product = value.owner
        if not isinstance(product, graph.MatmulOp) or not value.has_one_use():
            return
        before, shape = product.input.owner, graph.shape_of(op.result)
        if not isinstance(before, graph.ReshapeOp) or not _is_plain(product):
            return
        source, weights = graph.shape_of(before.input), product.weights.owner
        if len(shape) != 4 or len(source) != 4 or source[:3] != shape[:3]:
            return
        if shape[1] * shape[2] == 1 or not isinstance(weights, graph.ConstantOp):
            return
        outputs, inputs = graph.shape_of(product.weights)
        if (inputs, outputs) != (source[3], shape[3]):
            return
        array = weights.array().reshape(outputs, 1, 1, inputs)
        constant = graph.ConstantOp.from_array(array, location=weights.location)
        new = graph.Conv2dOp(
            before.input,
            constant.result,
            product.bias,
            result_element=graph.element_of(op.result),
            activation=product.activation,
        )
        new.location = product.location
        copy_statistics(product, new)
        made: list[graph.GraphOperation] = [constant, new]
        for function in reversed(functions):
            made.append(function.rebuilt([made[-1].output], shape=shape))
        rewriter.replace(op, made)
        for gone in (*functions, product):
            rewriter.erase(gone)


def _is_plain(product: graph.MatmulOp) -> bool:
    """Whether a product is of floats, in any order, and adds nothing but a bias."""
    is_float = not product.is_quantized and product.residual is None
    return is_float and product.ordered is None and MASK not in product.attributes


class PixelRule(PatternPass):
    """
    Make a matrix product that all pixels of a feature map go through a convolution of 1x1.

    ConvNeXt and networks in NHWC have `MatMul` on feature maps. As a convolution it takes in
    residuals, which a reshape would keep apart, and an accelerator sees one layout.
    """

    name = "pixels"
    pattern = MatmulToConvolution()


SPREAD = 16.0
"""Ratio of factors that weights can take in: four bits of int8."""

MOST_APART = 2.0
"""Ratio of factors that inputs are multiplied by: one bit of int8."""


@dataclass(frozen=True)
class ForwardRule(FloatNetworkPass):
    """
    Fold factors and addends of channels into the convolutions and matrix products that read them.

    `conv(x * k, w)` becomes `conv(x, w * k)`, and `conv(x + t, w)` gets the sum of `w * t` as a
    bias, where no padding takes part. Nothing else may read `x * k` or `x + t`.

    `batch-norms` folds into the layer before. There is none behind a residual, a pooling or a
    concatenation, nor where others read that layer. In integers the product would be rounded once
    more, in steps of one scale for all channels.

    What stays: scale and offset behind a normalization by computed values; factors of which one is
    more than 16 times another, which weights would have no steps for; and what prepares inputs, as
    it may bring features near each other. Factors of inputs are folded if none is twice another:
    images in 8 bits are then stored as they were.

    Equal over the reals. In float32 every weight and bias is rounded once more.
    """

    name = "forward"

    def change(self, main: FuncOp) -> None:
        behind = values_after_layers(main)
        for op in reversed(list(main.body.block.ops)):
            if isinstance(op, graph.BinaryOp):
                _fold(op, prepares=behind.isdisjoint(op.operands))


def _fold(op: graph.BinaryOp, *, prepares: bool) -> None:
    layers = _readers(op)
    found = _affine_of_channels(op)
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


def _affine_of_channels(op: graph.BinaryOp) -> tuple[SSAValue, NDArray[np.float32], bool] | None:
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


@dataclass(frozen=True)
class DepthwiseRule(FloatNetworkPass):
    """
    Replace `x * k + b`, with a number for each channel, by a depthwise convolution of 1x1 with k as
    its weights and b as its bias. Batch normalizations are left so behind concatenations and sums,
    as in DenseNet and ESPNet, where `batch-norms` finds no layer.

    One operation reads and writes the image instead of two. In integers k gets a scale for each
    channel and b 32 bits, and both are rounded together.

    Between layers only: what prepares inputs and what follows the last layer are no work for an
    accelerator. Equal over the reals; kernels may round a product and a sum at once.
    """

    name = "depthwise"

    rows: bool = False
    """
    Of values of any number of dimensions, which are reshaped to images of one column. `quantize`
    does so: factors of rows would share one scale of int8. What it keeps in float stays.
    """

    def change(self, main: FuncOp) -> None:
        for op in _between_layers(main):
            if not isinstance(op, graph.BinaryOp) or op.function is not graph.Binary.ADD:
                continue
            if self.rows or len(graph.shape_of(op.result)) == 4:
                _make_depthwise(op)


def _between_layers(main: FuncOp) -> list[Operation]:
    """The operations that layers lead to, and that lead to layers."""
    behind, before = values_after_layers(main), set[SSAValue]()
    found: list[Operation] = []
    for op in reversed(list(main.body.block.ops)):
        leads = not before.isdisjoint(op.results)
        if leads and not behind.isdisjoint(op.operands):
            found.append(op)
        if leads or isinstance(op, graph.LinearOperation):
            before.update(op.operands)
    return found


def _make_depthwise(total: graph.BinaryOp) -> None:
    import numpy as np

    shape = graph.shape_of(total.result)
    found = _of_channels(total, shape)
    if found is None or (total.activation is not None and total.activation.affine is not None):
        return
    value, offset = found
    product = value.owner
    if not isinstance(product, graph.BinaryOp) or product.function is not graph.Binary.MUL:
        return
    if product.activation is not None or not value.has_one_use():
        return
    # Factors orders of magnitude apart: their results have no scale in common.
    if is_kept_in_float(product) or is_kept_in_float(total):
        return
    if (factors := _of_channels(product, shape)) is None:
        return
    x, scale = factors
    constants = [
        graph.ConstantOp.from_array(np.ascontiguousarray(array), location=product.location)
        for array in (scale.reshape(-1, 1, 1, 1), offset)
    ]
    weights, bias = (constant.result for constant in constants)
    before: list[graph.ReshapeOp] = []
    if len(shape) != 4:
        before.append(graph.ReshapeOp(x, (1, math.prod(shape[:-1]), 1, shape[-1])))
        # A view has the name and the statistics of what it is of.
        if isinstance(x.owner, Operation):
            before[0].location = x.owner.location
            copy_statistics(x.owner, before[0])
    image = before[0].result if before else x
    layer = graph.Conv2dOp(
        image, weights, bias, result_element=f32, groups=shape[-1], activation=total.activation
    )
    made = [layer, graph.ReshapeOp(layer.result, shape)] if before else [layer]
    for op in made:
        op.location = fused_location(product, total)
        copy_statistics(total, op)
    made[-1].result.name_hint = total.result.name_hint
    Rewriter.insert_op((*constants, *before, *made), InsertPoint.before(total))
    total.result.replace_all_uses_with(made[-1].result)
    erase_with_constants(total)
    erase_with_constants(product)


def _of_channels(
    op: graph.BinaryOp, shape: tuple[int, ...]
) -> tuple[SSAValue, NDArray[np.float32]] | None:
    """The image that `op` reads, and its constants if they differ by channel."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if graph.shape_of(value) != shape or graph.element_of(value) != f32:
            continue
        if graph.shape_of(other)[-1:] in ((), (1,)):
            continue
        if (constants := per_channel(other, shape[-1])) is not None:
            return value, constants
    return None
