"""
Store weights of float networks in few bits with a scale for each block: the pass `block-weights`.

Other layers, and activations between layers, remain float. `set-weight-bits` has the same options
for networks in integers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f16, f32
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import known_array
from ceras_ir.dialects.graph.blocks import BLOCK_WIDTHS, UI8
from ceras_ir.dialects.quant import BYTE_BITS, packed
from ceras_ir.network.function import module_of
from ceras_ir.support.diagnostics import UsageError, remark
from ceras_ir.transforms.pass_kinds import FloatNetworkPass
from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples
from ceras_ir.transforms.quantization.analysis.input_moments import (
    InputMoments,
    has_constant_weights,
)
from ceras_ir.transforms.quantization.round_weights import (
    compensated,
    input_moments,
    with_equal_weights,
)
from ceras_ir.transforms.quantization.set_weight_bits import chosen_widths
from ceras_ir.transforms.quantization_options import (
    SampleOptions,
    WeightBitsOptions,
    bits_and_layer,
)
from ceras_ir.transforms.rebuilding import erase_unused, replace_constant

BLOCK = 32
"""The number of weights that share a scale."""

SHARES = (0.8, 0.86, 0.9, 0.93, 0.96, 1.0, 1.07, 8 / 7)
"""
The tried scales, relative to the scale at which the extreme weight of a block becomes the lowest
integer. Smaller scales clip this weight; at the largest, 7 represents it in 4 bits.
"""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class BlockWeightsPass(WeightBitsOptions, SampleOptions, FloatNetworkPass):
    """
    Store constant weights of float matrix products in 2, 4 or 8 bits, with a scale for each block
    of 32 inputs. A block has the float16 with the smallest squared error; the scales of a layer are
    float32 if the largest is outside of the normal range of float16. The products then quantize
    their inputs at run time (`graph.block_matmul`).

    Entries of `weight_bits` choose layers as in `set-weight-bits`: with an entry without a name,
    the smallest layers have 8 bits. Products with fewer than 32 inputs, convolutions and recurrent
    layers remain float. A note on stderr gives the number of layers.

    With calibration data, later weights compensate the errors of earlier weights, and constant
    biases compensate the mean change of the outputs, as in `round-weights`.

    Before, with `weight_bits=4`:

        %w = graph.constant dense<-1.0> : tensor<1x32xf32> : tensor<1x32xf32>
        %y = graph.matmul %x, %w : (tensor<1x32xf32>, tensor<1x32xf32>) -> tensor<1x1xf32>

    After:

        %q = graph.constant dense<0> : tensor<1x16xui8> : tensor<1x16xui8>
        %s = graph.constant dense<[[0.125]]> : tensor<1x1xf16> : tensor<1x1xf16>
        %y = graph.block_matmul %x, %q scales %s : tensor<1x1xf16>
            {bits = 4 : i64, block = 32 : i64}
            : (tensor<1x32xf32>, tensor<1x16xui8>) -> tensor<1x1xf32>
    """

    name = "block-weights"

    def change(self, main: FuncOp) -> None:
        products = [op for op in main.body.block.ops if isinstance(op, graph.MatmulOp)]
        layers = [op for op in products if _has_form(op)]
        widths = chosen_widths(main, layers, self.weight_bits)
        if any(bits_and_layer(entry)[1] is None for entry in self.weight_bits):
            widths = dict.fromkeys(layers, BYTE_BITS) | widths
        for bits in widths.values():
            if bits not in BLOCK_WIDTHS:
                raise UsageError(
                    f"weights of float networks have 2, 4 or 8 bits, got {bits}: --quantize int8 "
                    "permits 2 to 8 bits"
                )
        groups = with_equal_weights(widths, widths.__getitem__)
        for layers, moments in zip(groups, self._moments(main, groups), strict=True):
            _replace(layers, widths[layers[0]], moments)
        count = len(widths)
        others = any(isinstance(op, graph.LinearOperation) for op in main.body.block.ops)
        reason = (
            "; convolutions, recurrent layers and small products have no form with blocks and "
            "remain float: quantize the network (--calibrate DATA.npz, --quantize int8)"
        )
        remark(
            f"{self.name}: note: the weights of {count} {'layer' if count == 1 else 'layers'} have "
            "blocks of few bits, and the products round each block of the input to 8 bits"
            f"{reason if others else ''}"
        )

    def _moments(
        self, main: FuncOp, groups: Sequence[Sequence[graph.LinearOperation]]
    ) -> Sequence[InputMoments | None]:
        """Return the sums over the inputs of each group of layers; `None` without data."""
        if self.calibration is None:
            return [None] * len(groups)
        module, title = module_of(main), "measuring inputs"
        data = calibration_samples(module, self.calibration, self.samples, title, self.draw)
        return input_moments(module, data, groups)


def _has_form(op: graph.MatmulOp) -> bool:
    constant = isinstance(op.weights.owner, graph.ConstantOp) and op.encoded_weights is None
    is_float = graph.element_of(op.weights) == f32 and op.ordered is None
    return constant and is_float and graph.shape_of(op.weights)[1] >= BLOCK


def _replace(
    layers: Sequence[graph.LinearOperation], bits: int, moments: InputMoments | None
) -> None:
    """Replace layers with equal weights."""
    weights = known_array(layers[0].weights).astype(np.float32)
    integers, scales = rounded(weights, bits)
    change = None
    if moments is not None:
        is_biased = all(op.bias is not None and has_constant_weights(op) for op in layers)
        integers, mean = _compensated(moments, weights, scales, bits, centred=is_biased)
        change = mean if is_biased else None
    for op in layers:
        if change is not None and op.bias is not None:
            bias = known_array(op.bias).astype(np.float64) - change
            replace_constant(op, op.bias, bias.astype(np.float32))
        _replace_layer(op, integers, scales, bits)


def _compensated(
    moments: InputMoments,
    weights: Floats,
    scales: NDArray[np.floating],
    bits: int,
    *,
    centred: bool,
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """
    Return the integers [N, blocks * 32] of weights [N, K], rounded with compensation, and the mean
    changes of outputs [N].
    """
    low, columns = 1 << bits - 1, weights.shape[1]
    steps = np.repeat(scales.astype(np.float64), BLOCK, axis=1)[:, :columns]
    # A scale of 0 has no nonzero weights.
    kept, steps = np.where(steps == 0, 0.0, weights), np.where(steps == 0, 1.0, steps)
    bounds = -low, low - 1
    real, change = compensated(moments, kept[None], steps[None], bounds, centred=centred)
    integers = np.full((len(weights), scales.shape[1] * BLOCK), low, np.uint8)
    integers[:, :columns] = np.rint(real[0] / steps) + low
    return integers, change


def _replace_layer(
    op: graph.LinearOperation, integers: NDArray[np.uint8], scales: NDArray[np.floating], bits: int
) -> None:
    constant = op.weights.owner
    assert isinstance(constant, graph.ConstantOp)
    stored = [
        graph.ConstantOp.from_array(packed(integers, bits), UI8),
        graph.ConstantOp.from_array(scales, f16 if scales.dtype == np.float16 else f32),
    ]
    weights, steps = (each.result for each in stored)
    product = graph.BlockMatmulOp(op.input, weights, steps, None, op.bias, bits=bits, block=BLOCK)
    new: list[graph.GraphOperation] = [*stored, product]
    if op.residual is not None:
        kind, added = graph.Binary.ADD, op.residual
        new.append(graph.BinaryOp(kind, new[-1].output, added, result_element=f32))
    if op.activation is not None:
        new.append(graph.UnaryOp(new[-1].output, op.activation))
    for each in new:
        each.location = constant.location if each in stored else op.location
    new[-1].attributes |= op.attributes
    Rewriter.replace_op(op, new)
    erase_unused(constant)


def rounded(weights: Floats, bits: int) -> tuple[NDArray[np.uint8], NDArray[np.floating]]:
    """
    Return the integers [N, blocks * 32] and the scales [N, blocks] of weights [N, K], without zero
    points. Zeros follow the end of a row. Scales are float16, or float32 if the largest is outside
    of the normal range of float16.
    """
    n, k = weights.shape
    split = np.zeros((n, -(-k // BLOCK) * BLOCK), np.float32)
    split[:, :k] = weights
    split = split.reshape(n, -1, BLOCK)
    low = 1 << bits - 1
    at = np.abs(split).argmax(2, keepdims=True)
    extreme: Floats = np.take_along_axis(split, at, 2) / np.float32(-low)
    largest, half = float(np.abs(extreme).max()) * SHARES[-1], np.finfo(np.float16)
    kind = np.float16 if float(half.tiny) <= largest <= float(half.max) else np.float32
    best = np.full((n, split.shape[1], 1), np.inf, np.float32)
    integers, scales = np.zeros(split.shape, np.uint8), np.zeros_like(extreme)
    for share in SHARES:
        scale = (extreme * np.float32(share)).astype(kind).astype(np.float32)
        safe = np.where(scale == 0, np.float32(1), scale)
        q: Floats = np.clip(np.rint(split / safe), -low, low - 1)
        error: Floats = np.square(q * scale - split).sum(2, keepdims=True)
        is_better = error < best
        best, scales = np.where(is_better, error, best), np.where(is_better, scale, scales)
        integers = np.where(is_better, (q + low).astype(np.uint8), integers)
    return integers.reshape(n, -1), scales[..., 0].astype(kind)
