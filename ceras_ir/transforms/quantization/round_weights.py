"""
Round weights so that the errors of correlated inputs cancel. Rounding each weight to the nearest
integer ignores correlations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.network.function import module_of, quantized_operations
from ceras_ir.network.integer import weight_bounds
from ceras_ir.network.storage import row_scales, weight_bits, weight_exponent
from ceras_ir.transforms.quantization.accumulators import holds
from ceras_ir.transforms.quantization.analysis.calibration import Array, CalibratedPass, watch
from ceras_ir.transforms.quantization.analysis.input_moments import (
    InputMoments,
    has_constant_weights,
    patch_length,
)
from ceras_ir.transforms.quantization.analysis.kept_run import SHARED_SAMPLES, last_run
from ceras_ir.transforms.quantization.analysis.output_noise import WEIGHT_NOISE
from ceras_ir.transforms.quantization.analysis.scale_classes import value_exponent
from ceras_ir.transforms.quantization.analysis.sensitivity import (
    SensitivityMeter,
    multiplications,
)
from ceras_ir.transforms.rebuilding import replace_constant

Doubles = NDArray[np.float64]
Layer = TypeVar("Layer", bound=graph.LinearOperation)

DAMPING = 0.001
"""The share of the mean diagonal that is added to the diagonal against singular matrices."""
BLOCK_COLUMNS = 32
"""The number of columns after which their corrections are applied to the remaining columns."""
MAX_MEASURED_MACS = 1_000_000_000
"""The multiplications of all samples on which the noise of rounded weights is measured."""
MAX_DIRECT_SIZE = 64
"""The maximum size of a triangle that is inverted without division into blocks."""


def roundable_layers(main: FuncOp) -> list[graph.LinearOperation]:
    """
    Return the layers that will be quantized, have constant weights with a chosen scale, and have a
    constant bias or no bias.
    """
    return [
        op
        for op in quantized_operations(main)
        if has_constant_weights(op) and weight_exponent(op) is not None
    ]


def round_to_nearest(weights: Doubles, step: Doubles | float, bits: int = BYTE_BITS) -> Doubles:
    """
    Round weights to the nearest multiple of the scale `step`, half to even, and clamp them to the
    range of integers of `bits` bits, as `quantize-graph` does.
    """
    return _nearest(weights, step, weight_bounds(bits))


def _nearest(weights: Doubles, step: Doubles | float, bounds: tuple[int, int]) -> Doubles:
    return np.clip(np.rint(weights / step), *bounds) * step


def round_with_compensation(
    weights: Doubles,
    pairs: Doubles,
    steps: Doubles,
    bounds: tuple[int, int] = weight_bounds(BYTE_BITS),
) -> Doubles:
    """
    Round `weights` [groups, outputs, K] to integers within `bounds` times the scales `steps`
    [groups, outputs, K or 1], column by column, starting with the columns of the largest inputs.
    After each column, the remaining columns are changed so that they compensate the error.

    `pairs` [groups, K, K] are the mean products of pairs of inputs (their correlations). Weights of
    zero, as of pruned layers, remain zero.
    """
    order = np.argsort(-np.einsum("gii->gi", pairs), axis=1, kind="stable")
    groups = np.arange(len(order))[:, None, None]
    pairs = pairs[groups, order[:, :, None], order[:, None, :]]
    factors = _inverse_factors(pairs)
    result = np.empty_like(weights)
    if steps.shape[2] > 1:
        steps = np.take_along_axis(steps, order[:, None], 2)
    ordered = np.take_along_axis(weights, order[:, None], 2)
    rounded = _round_columns(ordered, factors, steps, bounds)
    np.put_along_axis(result, np.broadcast_to(order[:, None], result.shape), rounded, 2)
    return result


def _inverse_factors(pairs: Doubles) -> Doubles:
    """
    Return upper triangular matrices U with `U.T @ U = inverse(pairs)`, for matrices `pairs`
    [groups, K, K]. For stability, a small number is added to the diagonal of `pairs` in place.
    """
    diagonal = np.einsum("gii->gi", pairs)
    mean = diagonal.mean(axis=1, keepdims=True)
    added = np.where(mean > 0, DAMPING * mean, 1.0)
    while True:
        diagonal += added
        try:
            # With rows and columns reversed, the factor is an upper triangle.
            lower = np.linalg.cholesky(pairs[:, ::-1, ::-1])
        except np.linalg.LinAlgError:  # Rounding of float32 sums exceeded the damping.
            added *= 10
        else:
            return _inverse_upper(lower[:, ::-1, ::-1].astype(np.float64, copy=False))


def _inverse_upper(triangle: Doubles) -> Doubles:
    """
    Return the inverse of upper triangular matrices [groups, n, n], by a recursion on halves. This
    needs a third of the products of a general inverse.
    """
    size = triangle.shape[-1]
    if size <= MAX_DIRECT_SIZE:
        return np.linalg.inv(triangle).astype(np.float64, copy=False)
    half = size // 2
    result = np.zeros_like(triangle)
    result[:, :half, :half] = first = _inverse_upper(triangle[:, :half, :half])
    result[:, half:, half:] = second = _inverse_upper(triangle[:, half:, half:])
    result[:, :half, half:] = -(first @ triangle[:, :half, half:] @ second)
    return result


def _round_columns(
    weights: Doubles, upper: Doubles, steps: Doubles, bounds: tuple[int, int]
) -> Doubles:
    length, step = weights.shape[2], np.broadcast_to(steps, weights.shape).transpose(2, 0, 1)
    # Columns are the first axis, so that each is contiguous.
    rest = np.ascontiguousarray(weights.transpose(2, 0, 1))
    result, nonzero = np.empty_like(rest), rest != 0
    for start in range(0, length, BLOCK_COLUMNS):
        end = min(start + BLOCK_COLUMNS, length)
        errors = np.empty_like(rest[start:end])
        for i, error in enumerate(errors, start):
            rounded = _nearest(rest[i], step[i], bounds)
            result[i] = np.where(nonzero[i], rounded, 0.0)
            np.subtract(rest[i], result[i], out=error)
            error /= upper[:, i, i][:, None]
            rest[i + 1 : end] -= upper[:, i, i + 1 : end].T[:, :, None] * error
        change = np.matmul(errors.transpose(1, 2, 0), upper[:, start:end, end:])
        rest[end:] -= change.transpose(2, 0, 1)
    return result.transpose(1, 2, 0)


def input_moments(
    module: ModuleOp,
    samples: Iterable[Mapping[str, Array]],
    layers: Iterable[Sequence[graph.LinearOperation]],
) -> list[InputMoments]:
    """
    Run the network on `samples`, and return the sums over the input patches for each group of
    layers with equal weights.
    """
    consumers: dict[SSAValue, list[tuple[InputMoments, graph.LinearOperation]]] = {}
    found = [InputMoments(op, equal_layers) for op, *equal_layers in layers]
    for moments in found:
        for op in (moments.op, *moments.equal_layers):
            consumers.setdefault(op.input, []).append((moments, op))

    def add(value: SSAValue, array: NDArray[np.float32]) -> None:
        for moments, op in consumers.get(value, ()):
            moments.add(array, op)

    watch(module, samples, add)
    return found


BATCH_PRODUCTS = 1 << 20
"""The approximate number of products of pairs in a batch, to limit memory in double precision."""


def steps_by_row(op: graph.LinearOperation) -> Doubles:
    """Return the scale of the weights of each output channel, as an array [outputs, 1]."""
    exponent = weight_exponent(op)
    assert exponent is not None
    count = graph.shape_of(op.weights)[0]
    return np.array(row_scales(op) or [2.0**exponent] * count)[:, None]


def with_equal_weights(
    layers: Iterable[Layer], form: Callable[[Layer], Hashable]
) -> list[list[Layer]]:
    """
    Divide layers into groups with equal weights and equal results of `form`, the widths and scales,
    such as the steps of a loop. The layers of a group are rounded together, so that the weights
    remain equal and are stored a single time.
    """
    groups: defaultdict[Hashable, list[Layer]] = defaultdict(list)
    for op in layers:
        weights = graph.known_array(op.weights)
        count = op.group_count if isinstance(op, graph.Conv2dOp) else 1
        digest = sha256(weights.tobytes()).digest()
        groups[op.name, weights.shape, count, digest, form(op)].append(op)
    return list(groups.values())


def _form(op: graph.LinearOperation) -> Hashable:
    return weight_bits(op), steps_by_row(op).tobytes()


def compensated(
    moments: InputMoments,
    weights: Doubles,
    steps: Doubles,
    bounds: tuple[int, int],
    *,
    centred: bool,
) -> tuple[Doubles, Doubles]:
    """
    Return `weights` [groups, outputs, K] rounded to integers within `bounds` times `steps` [groups,
    outputs, K or 1], with compensation on the samples, and the mean change of each output [groups *
    outputs]. If `centred`, a bias removes this change, and only deviations from
    the mean input count. Without finite moments, weights are rounded to the nearest.
    """
    if not moments.are_finite:
        return _nearest(weights, steps, bounds), np.zeros(())
    is_by_row = steps.shape[2] == 1
    by_part = np.repeat(steps, moments.parts, axis=0) if is_by_row else moments.by_part(steps)
    parts = moments.by_part(weights)
    rounded, count = np.empty_like(parts), max(1, BATCH_PRODUCTS // parts.shape[2] ** 2)
    for few in (slice(i, i + count) for i in range(0, len(parts), count)):
        pairs = moments.products(few, centred=centred)
        rounded[few] = round_with_compensation(parts[few], pairs, by_part[few], bounds)
    joined = moments.joined(rounded)
    return joined, np.einsum("gok,gk->go", joined - weights, moments.mean).reshape(-1)


def round_weights(moments: InputMoments) -> None:
    """
    Replace the weights of layers by rounded weights with which the outputs change least on the
    samples. If the layers have biases, the mean change of each output is subtracted from the bias,
    and only deviations from the mean count. If sums could then exceed 32 bits, weights are rounded
    to the nearest instead.
    """
    layers = moments.op, *moments.equal_layers
    weights = graph.known_array(moments.op.weights).astype(np.float64)
    weights = weights.reshape(moments.groups, len(weights) // moments.groups, -1)
    bias, steps = _biases(layers), steps_by_row(moments.op).reshape(moments.groups, -1, 1)
    bounds = weight_bounds(weight_bits(moments.op))
    rounded, change = compensated(moments, weights, steps, bounds, centred=bias is not None)
    _replace(layers, rounded, None if bias is None else [old - change for old in bias])
    if not all(holds(each, value_exponent) for each in layers):
        # Rounding by more than half a step may have increased the largest possible sum.
        _replace(layers, _nearest(weights, steps, bounds), bias)


def _biases(layers: Sequence[graph.LinearOperation]) -> list[Doubles] | None:
    found = [graph.known_array(op.bias).astype(np.float64) for op in layers if op.bias is not None]
    return found if len(found) == len(layers) else None


def _replace(
    layers: Sequence[graph.LinearOperation],
    weights: Doubles,
    biases: Sequence[Doubles] | None,
) -> None:
    for i, op in enumerate(layers):
        shape = graph.shape_of(op.weights)
        replace_constant(op, op.weights, weights.reshape(shape).astype(np.float32))
        if biases is not None and op.bias is not None:
            replace_constant(op, op.bias, biases[i].astype(np.float32))


@dataclass(frozen=True)
class RoundWeightsPass(CalibratedPass):
    """
    Round constant weights to multiples of their scale, so that the output of the layer changes
    least on the data.

    Weights are rounded sequentially, and later weights compensate the errors of earlier
    weights (GPTQ, Frantar et al. 2022). The bias of a layer compensates the mean change of the
    output, so that only deviations from the mean input count.

    1. Correlations from few patches are shrunk towards zero. Rounding then approaches rounding to
       the nearest.
    2. Layers with equal weights, such as the steps of a loop, are rounded together and remain
       equal.
    3. At most 32 samples are used. Without data the pass changes no weight.
    4. If a result has more than 1536 products, errors are compensated within parts of at most
       this length.
    5. If a layer has weights of less than 8 bits, the signal-to-noise ratio of the outputs (see
       `choose-precision`) is measured, compared with float weights: `graph.weight_noise`.

    Not exact: weights are rounded here instead of in `quantize-graph`, and biases change.

    In this example, the nearest multiples are 0.5 and 0.5, with which the output changes more.

    Before, with `calibration=samples.npz`:

        func.func @main(%x: tensor<1x2xf32> {graph.exponent = -7 : i64}) -> tensor<1x1xf32> {
          %w = graph.constant dense<[[0.3, 0.3]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %x, %w {graph.weight_exponent = -1 : i64, graph.exponent = -6 : i64}
              : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }

    After:

        func.func @main(%x: tensor<1x2xf32> {graph.exponent = -7 : i64}) -> tensor<1x1xf32> {
          %w = graph.constant dense<[[0.5, 0.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %x, %w {graph.weight_exponent = -1 : i64, graph.exponent = -6 : i64}
              : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }
    """

    name = "round-weights"

    def improve(self, main: FuncOp) -> None:
        from ceras_ir.support.diagnostics import progress

        def data() -> Iterator[Mapping[str, Array]]:
            return self.data(main, "measuring inputs", SHARED_SAMPLES)

        layers = with_equal_weights(roundable_layers(main), _form)
        run = last_run(module_of(main), data)
        found = None if run is None else run.taken_moments(main, layers)
        if found is None:
            found = input_moments(module_of(main), data(), layers)
        measured = any(weight_bits(moments.op) < BYTE_BITS for moments in found)
        reference = module_of(main).clone() if measured else None
        # Finished layers release memory, so the largest layers are rounded last.
        found.sort(key=lambda moments: -patch_length(moments.op))
        for _ in progress(range(len(found)), "rounding weights"):
            round_weights(found.pop())
        if reference is not None:
            count = min(max(MAX_MEASURED_MACS // max(multiplications(main), 1), 2), SHARED_SAMPLES)
            samples = list(self.data(main, "measuring weights", count))
            meter = SensitivityMeter(reference, samples)
            ratio = meter.ratio_of(SensitivityMeter(module_of(main), samples))
            if isfinite(ratio):
                main.attributes[WEIGHT_NOISE] = FloatAttr(round(ratio, 1), f32)
