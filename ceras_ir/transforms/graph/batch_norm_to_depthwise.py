"""Batch normalizations that no layer can take in, as convolutions of one pixel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.precision import stays_float
from ceras_ir.network.quantizable import behind_layers
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.graph.fold_batch_norm import per_channel
from ceras_ir.transforms.rebuilding import erase_with_constants

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class BatchNormToDepthwisePass(FloatNetworkPass):
    """
    Replace `x * k + b`, with a number for each channel, by a depthwise convolution of 1x1 with k as
    its weights and b as its bias. Batch normalizations are left so behind concatenations and sums,
    as in DenseNet and ESPNet, where `fold-batch-norm` finds no layer.

    One operation reads and writes the image instead of two. In integers k gets a scale for each
    channel and b 32 bits, and both are rounded together.

    Between layers only: what prepares inputs and what follows the last layer are no work for an
    accelerator. Equal over the reals; kernels may round a product and a sum at once.
    """

    name = "batch-norm-to-depthwise"

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
                _replace(op)


def _between_layers(main: FuncOp) -> list[Operation]:
    """The operations that layers lead to, and that lead to layers."""
    behind, before = behind_layers(main), set[SSAValue]()
    found: list[Operation] = []
    for op in reversed(list(main.body.block.ops)):
        leads = not before.isdisjoint(op.results)
        if leads and not behind.isdisjoint(op.operands):
            found.append(op)
        if leads or isinstance(op, graph.LinearOperation):
            before.update(op.operands)
    return found


def _replace(total: graph.BinaryOp) -> None:
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
    if stays_float(product) or stays_float(total):
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
