"""Fold factors and addends into the following layers, or form a layer: rules of `fold-affine`."""

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
    Rewrite `reshape(matmul(reshape(x), w))` to a 1x1 convolution `conv2d(x, w)`. x and the result
    must be float feature maps with the same pixels, more than one. Functions before the last
    reshape move after the convolution. Exact: each sum has the same terms in the same order.
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
        new_ops: list[graph.GraphOperation] = [constant, new]
        for function in reversed(functions):
            new_ops.append(function.rebuilt([new_ops[-1].output], shape=shape))
        rewriter.replace(op, new_ops)
        for fused in (*functions, product):
            rewriter.erase(fused)


def _is_plain(product: graph.MatmulOp) -> bool:
    is_float = not product.is_quantized and product.residual is None
    return is_float and product.ordered is None and MASK not in product.attributes


class PixelRule(PatternPass):
    """
    Convert a matrix product over all pixels of a feature map to a 1x1 convolution.

    ConvNeXt and networks in NHWC have `MatMul` on feature maps. A convolution can absorb residuals,
    from which a reshape would separate it, and an accelerator sees a single layout.

    Before:

        %w = graph.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %a = graph.reshape %x : (tensor<1x3x3x2xf32>) -> tensor<9x2xf32>
        %b = graph.matmul %a, %w : (tensor<9x2xf32>, tensor<1x2xf32>) -> tensor<9x1xf32>
        %y = graph.reshape %b : (tensor<9x1xf32>) -> tensor<1x3x3x1xf32>

    After:

        %w = graph.constant dense<[[[[1.0, 2.0]]]]> : tensor<1x1x1x2xf32> : tensor<1x1x1x2xf32>
        %y = graph.conv2d %x, %w
            : (tensor<1x3x3x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x3x3x1xf32>
    """

    name = "pixels"
    pattern = MatmulToConvolution()


MAX_WEIGHT_RATIO = 16.0
"""The largest ratio of factors that are folded into weights: four bits of int8."""

MAX_INPUT_RATIO = 2.0
"""The largest ratio of factors of graph inputs that are folded: a single bit of int8."""


@dataclass(frozen=True)
class ForwardRule(FloatNetworkPass):
    """
    Fold factors and addends of channels into the convolutions and products that consume them.

        conv(x * k, w)    ->  conv(x, w * k)
        conv(x + t, w)    ->  conv(x, w) + sum(w * t)   without padding

    All consumers of `x * k` or `x + t` must be such layers. `batch-norms` folds into the preceding
    layer, which does not exist after a residual, a pooling or a concatenation, or has other
    consumers. In integers, the product would cause an additional rounding in a single scale for all
    channels.

    These are not folded:

    1. Scale and offset after a normalization by computed values.
    2. Factors with a ratio above 16, for which weights lack resolution.
    3. Preprocessing of graph inputs, which can equalize ranges of features. Factors of inputs are
       folded if the ratio is at most 2, so that images in 8 bits are stored unchanged.

    Equal over the reals. In float32 each weight and bias is rounded a second time.

    Before:

        %p = graph.pool2d max %x {kernel = array<i64: 2, 2>}
            : (tensor<1x3x3x2xf32>) -> tensor<1x2x2x2xf32>
        %k = graph.constant dense<[2.0, 4.0]> : tensor<2xf32> : tensor<2xf32>
        %w = graph.constant dense<1.0> : tensor<1x1x1x2xf32> : tensor<1x1x1x2xf32>
        %m = graph.binary mul %p, %k : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
        %y = graph.conv2d %m, %w : (tensor<1x2x2x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x2x2x1xf32>

    After:

        %p = graph.pool2d max %x {kernel = array<i64: 2, 2>}
            : (tensor<1x3x3x2xf32>) -> tensor<1x2x2x2xf32>
        %w = graph.constant dense<[[[[2.0, 4.0]]]]> : tensor<1x1x1x2xf32> : tensor<1x1x1x2xf32>
        %y = graph.conv2d %p, %w : (tensor<1x2x2x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x2x2x1xf32>
    """

    name = "forward"

    def change(self, main: FuncOp) -> None:
        after_layers = values_after_layers(main)
        for op in reversed(list(main.body.block.ops)):
            if isinstance(op, graph.BinaryOp):
                _fold(op, is_input=after_layers.isdisjoint(op.operands))


def _fold(op: graph.BinaryOp, *, is_input: bool) -> None:
    layers = _consuming_layers(op)
    found = _affine_of_channels(op)
    if found is None or not layers or op.activation is not None:
        return
    value, constant, is_product = found
    # The result of scale and offset of a normalization is rounded a single time, after both.
    if _is_normalized(value):
        return
    if is_input and not (is_product and _is_within(constant, MAX_INPUT_RATIO)):
        return
    if is_product and not _is_within(constant, MAX_WEIGHT_RATIO):
        return
    if not is_product and not all(map(_can_absorb_addends, layers)):
        return
    for layer in layers:
        new = _scaled(layer, value, constant) if is_product else _moved(layer, value, constant)
        drop_statistics(new)
        Rewriter.insert_op(new, InsertPoint.before(layer))
        new.location = fused_location(layer, op)
        new.result.name_hint = layer.result.name_hint
        layer.result.replace_all_uses_with(new.result)
        erase_with_constants(layer)
    erase_with_constants(op)


def _consuming_layers(op: graph.BinaryOp) -> list[graph.LinearOperation]:
    # Layers with constant weights; none if the result has another consumer.
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
    # The value, the factors or addends of the channels, and whether they are factors.
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
    # A product or quotient of two computed values, or a multiple of it.
    while isinstance(owner := value.owner, graph.BinaryOp):
        if owner.function not in (graph.Binary.MUL, graph.Binary.DIV):
            return False
        computed = [v for v in owner.operands if not isinstance(v.owner, graph.ConstantOp)]
        if len(computed) != 1:
            return True
        value = computed[0]
    return False


def _is_within(factors: NDArray[np.float32], max_ratio: float) -> bool:
    magnitudes = abs(factors)
    return bool(magnitudes.max() <= max_ratio * magnitudes.min())


def _can_absorb_addends(layer: graph.LinearOperation) -> bool:
    is_padded = isinstance(layer, graph.Conv2dOp) and any(layer.padding.get_values())
    return not is_padded and (layer.bias is None or isinstance(layer.bias.owner, graph.ConstantOp))


def _scaled(
    layer: graph.LinearOperation, value: SSAValue, factors: NDArray[np.float32]
) -> graph.LinearOperation:
    array = graph.known_array(layer.weights).astype("float32") * spread_columns(layer, factors)
    weights = _constant(array, layer.weights, layer)
    return rebuild_linear(layer, {}, input=value, weights=weights)


def _moved(
    layer: graph.LinearOperation, value: SSAValue, addends: NDArray[np.float32]
) -> graph.LinearOperation:
    import numpy as np

    array = graph.known_array(layer.weights).astype(np.float64) * spread_columns(layer, addends)
    more = array.reshape(len(array), -1).sum(axis=1)
    if layer.bias is not None:
        more = more + graph.known_array(layer.bias).reshape(-1)
    bias = _constant(more, layer.weights if layer.bias is None else layer.bias, layer)
    return rebuild_linear(layer, {}, input=value, bias=bias)


def _constant(
    array: NDArray[np.floating], like: SSAValue, before: graph.LinearOperation
) -> SSAValue:
    import numpy as np

    owner = like.owner
    assert isinstance(owner, graph.ConstantOp)
    new = graph.ConstantOp.from_array(array.astype(np.float32), location=owner.location)
    Rewriter.insert_op(new, InsertPoint.before(before))
    return new.result


@dataclass(frozen=True)
class DepthwiseRule(FloatNetworkPass):
    """
    Convert `x * k + b` with constants per channel to a depthwise 1x1 convolution with bias.

    The remaining batch normalizations after concatenations and sums, as in DenseNet and ESPNet,
    have this form. A single operation then reads and writes the image instead of two. In integers,
    k has a scale per channel and b has 32 bits, and their result is rounded a single time.

    Only operations between layers are converted: accelerators do not execute preprocessing and
    postprocessing. Equal over the reals; kernels can round a product and a sum in a single step.

    Before:

        %k = graph.constant dense<[2.0, 3.0]> : tensor<2xf32> : tensor<2xf32>
        %t = graph.constant dense<[5.0, 6.0]> : tensor<2xf32> : tensor<2xf32>
        %a = graph.conv2d %x, %v : (tensor<1x3x3x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x3x3x2xf32>
        %b = graph.pool2d max %a {kernel = array<i64: 2, 2>}
            : (tensor<1x3x3x2xf32>) -> tensor<1x2x2x2xf32>
        %c = graph.binary mul %b, %k : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
        %d = graph.binary add %c, %t : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
        %y = graph.conv2d %d, %w : (tensor<1x2x2x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x2x2x1xf32>

    After:

        %a = graph.conv2d %x, %v : (tensor<1x3x3x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x3x3x2xf32>
        %b = graph.pool2d max %a {kernel = array<i64: 2, 2>}
            : (tensor<1x3x3x2xf32>) -> tensor<1x2x2x2xf32>
        %k = graph.constant dense<[[[[2.0]]], [[[3.0]]]]> : tensor<2x1x1x1xf32>
            : tensor<2x1x1x1xf32>
        %t = graph.constant dense<[5.0, 6.0]> : tensor<2xf32> : tensor<2xf32>
        %d = graph.conv2d %b, %k bias %t : tensor<2xf32> {groups = 2 : i64}
            : (tensor<1x2x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
        %y = graph.conv2d %d, %w : (tensor<1x2x2x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x2x2x1xf32>
    """

    name = "depthwise"

    rows: bool = False
    """
    Convert values of any rank, which are reshaped to images with a single column.

    `quantize` sets it, because the factors would otherwise share an int8 scale. Operations that
    remain in float are not converted.
    """

    def change(self, main: FuncOp) -> None:
        for op in _between_layers(main):
            if not isinstance(op, graph.BinaryOp) or op.function is not graph.Binary.ADD:
                continue
            if self.rows or len(graph.shape_of(op.result)) == 4:
                _make_depthwise(op)


def _between_layers(main: FuncOp) -> list[Operation]:
    # Operations that depend on a layer and on which a layer depends.
    after_layers, before = values_after_layers(main), set[SSAValue]()
    found: list[Operation] = []
    for op in reversed(list(main.body.block.ops)):
        leads = not before.isdisjoint(op.results)
        if leads and not after_layers.isdisjoint(op.operands):
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
    # Factors of different orders of magnitude: the results have no common scale.
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
        # A view has the name and the statistics of the viewed value.
        if isinstance(x.owner, Operation):
            before[0].location = x.owner.location
            copy_statistics(x.owner, before[0])
    image = before[0].result if before else x
    layer = graph.Conv2dOp(
        image, weights, bias, result_element=f32, groups=shape[-1], activation=total.activation
    )
    new_ops = [layer, graph.ReshapeOp(layer.result, shape)] if before else [layer]
    for op in new_ops:
        op.location = fused_location(product, total)
        copy_statistics(total, op)
    new_ops[-1].result.name_hint = total.result.name_hint
    Rewriter.insert_op((*constants, *before, *new_ops), InsertPoint.before(total))
    total.result.replace_all_uses_with(new_ops[-1].result)
    erase_with_constants(total)
    erase_with_constants(product)


def _of_channels(
    op: graph.BinaryOp, shape: tuple[int, ...]
) -> tuple[SSAValue, NDArray[np.float32]] | None:
    # The image operand, and the constants if they differ by channel.
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if graph.shape_of(value) != shape or graph.element_of(value) != f32:
            continue
        if graph.shape_of(other)[-1:] in ((), (1,)):
            continue
        if (constants := per_channel(other, shape[-1])) is not None:
            return value, constants
    return None
