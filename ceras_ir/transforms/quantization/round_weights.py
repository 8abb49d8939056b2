"""
Round weights so that errors of neighbours cancel, instead of each to the nearest.

The parts are: weights as multiples of a power of two, what layers see of their inputs, changes of
the layers, and the pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import ceil, prod, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.windows import Window
from ceras_ir.network.function import module_of, quantized_operations
from ceras_ir.network.integer import INT8_HIGH, WEIGHT_LOW
from ceras_ir.network.storage import row_exponents, weight_exponent
from ceras_ir.transforms.quantization.accumulators import holds
from ceras_ir.transforms.quantization.analysis.calibration import Array, CalibratedPass, watch
from ceras_ir.transforms.quantization.analysis.scale_classes import value_exponent
from ceras_ir.transforms.rebuilding import replace_constant

# Weights as multiples of a power of two: to the nearest, or so that errors cancel.

Real = NDArray[np.float64]

DAMPING = 0.001
"""Of the mean of all diagonal elements, added to each so that nothing is singular."""
BLOCK = 128
"""Columns whose corrections are applied at once to the rest."""
SMALL = 64
"""Triangles of this size at most are inverted at once."""


def roundable_layers(main: FuncOp) -> list[graph.LinearOperation]:
    """Layers whose weights are constant and have an exponent."""
    return [
        op
        for op in quantized_operations(main)
        if isinstance(op, graph.LinearOperation)
        and weight_exponent(op) is not None
        and graph.constant_array(op.weights) is not None
        and (op.bias is None or graph.constant_array(op.bias) is not None)
    ]


def nearest(weights: Real, step: Real | float) -> Real:
    """Rounded half to even to multiples of `step` and clamped, as `quantize-graph` does it."""
    return np.clip(np.rint(weights / step), WEIGHT_LOW, INT8_HIGH) * step


def compensated(weights: Real, pairs: Real, steps: Real) -> Real:
    """
    `weights` [groups, outputs, K], of `steps` [groups, outputs, 1], rounded column by column, those
    of the largest inputs first; the error of each, as far as inputs are correlated by `pairs`
    [groups, K, K], is taken up by the columns that follow. Zeros, as of pruned weights, stay zeros.
    """
    order = np.argsort(-np.einsum("gii->gi", pairs), axis=1, kind="stable")
    groups = np.arange(len(order))[:, None, None]
    pairs = pairs[groups, order[:, :, None], order[:, None, :]]
    factors = _factors(pairs)
    result = np.empty_like(weights)
    rounded = _in_order(np.take_along_axis(weights, order[:, None], 2), factors, steps)
    np.put_along_axis(result, np.broadcast_to(order[:, None], result.shape), rounded, 2)
    return result


def _factors(pairs: Real) -> Real:
    """
    Upper triangles of which the inverse of `pairs` is the product, transposed first. The diagonals
    of `pairs` become larger.
    """
    diagonal = np.einsum("gii->gi", pairs)
    mean = diagonal.mean(axis=1, keepdims=True)
    added = np.where(mean > 0, DAMPING * mean, 1.0)
    while True:
        diagonal += added
        try:
            # From the last row and column on, the factor is an upper triangle.
            lower = np.linalg.cholesky(pairs[:, ::-1, ::-1])
        except np.linalg.LinAlgError:  # Sums in float32 were off by more than the damping.
            added *= 10
        else:
            return _inverse_of_upper(lower[:, ::-1, ::-1].astype(np.float64, copy=False))


def _inverse_of_upper(triangle: Real) -> Real:
    """By halves, in a third of the products that the inverse of any matrix takes."""
    size = triangle.shape[-1]
    if size <= SMALL:
        return np.linalg.inv(triangle).astype(np.float64, copy=False)
    half = size // 2
    result = np.zeros_like(triangle)
    result[:, :half, :half] = first = _inverse_of_upper(triangle[:, :half, :half])
    result[:, half:, half:] = second = _inverse_of_upper(triangle[:, half:, half:])
    result[:, :half, half:] = -(first @ triangle[:, :half, half:] @ second)
    return result


def _in_order(weights: Real, upper: Real, steps: Real) -> Real:
    """The same from the first column to the last, with the factors of the inverse."""
    length = weights.shape[2]
    rest, result, kept = weights.copy(), np.empty_like(weights), weights != 0
    for start in range(0, length, BLOCK):
        end = min(start + BLOCK, length)
        errors = np.empty((*weights.shape[:2], end - start))
        for i in range(start, end):
            column = rest[:, :, i]
            result[:, :, i] = np.where(kept[:, :, i], nearest(column, steps[:, :, 0]), 0.0)
            error = (column - result[:, :, i]) / upper[:, i, i][:, None]
            errors[:, :, i - start] = error
            rest[:, :, i + 1 : end] -= error[:, :, None] * upper[:, None, i, i + 1 : end]
        rest[:, :, end:] -= np.matmul(errors, upper[:, start:end, end:])
    return result


# What convolutions and matrix products see of their inputs: means, and products of pairs.
#
# A layer multiplies patches of K numbers (window position, then channel, as its weights lie)
# by its weights. With groups every group has patches of its own: all arrays lead with groups.

Number = TypeVar("Number", bound=np.generic)

POSITIONS = 512
"""About how many patches of one sample are taken for products."""
MAX_PART = 1536
"""Longest patch whose products of all pairs are kept, 5 MiB; of longer ones those within parts of
this length at most."""
COLUMNS_AT_ONCE = 128
"""How many columns are multiplied at once by themselves and those that follow."""
CHANCE = 0.25
"""
Of n patches of K columns, products of different columns count `n / (n + CHANCE * K)`: the rest is
taken for chance.
"""


def patch_length(op: graph.LinearOperation) -> int:
    """Products per accumulator."""
    return prod(graph.shape_of(op.weights)[1:])


class _Pairs:
    """Sums of the products of all pairs of columns: blocks of rows, from the diagonal on."""

    def __init__(self, groups: int, length: int):
        starts = range(0, length, COLUMNS_AT_ONCE)
        self.shape = (groups, length, length)
        self.blocks = [
            np.zeros((groups, min(COLUMNS_AT_ONCE, length - start), length - start), np.float32)
            for start in starts
        ]

    def add(self, x: NDArray[np.float32]) -> None:
        """Add the products of `x` [groups, patches, K]."""
        for number, block in enumerate(self.blocks):
            rest = x[:, :, number * COLUMNS_AT_ONCE :]
            block += np.matmul(rest[:, :, : block.shape[1]].transpose(0, 2, 1), rest)

    @property
    def are_finite(self) -> bool:
        return all(np.isfinite(block).all() for block in self.blocks)

    def of(self, groups: slice) -> NDArray[np.float64]:
        """Those of some groups [groups, K, K], both triangles."""
        count = len(range(*groups.indices(self.shape[0])))
        found = np.empty((count, *self.shape[1:]))
        for number, block in enumerate(self.blocks):
            start, end = number * COLUMNS_AT_ONCE, number * COLUMNS_AT_ONCE + block.shape[1]
            found[:, start:end, start:] = block[groups]
            found[:, start:, start:end] = block[groups].transpose(0, 2, 1)
        return found


@dataclass
class InputMoments:
    """Sums over everything that one layer saw, or several with the same weights."""

    op: graph.LinearOperation
    others: Sequence[graph.LinearOperation] = ()
    """With weights like those of `op`."""
    total: NDArray[np.float64] = field(init=False)
    origin: NDArray[np.float32] | None = field(init=False, default=None)
    """[groups, 1, K], about where the inputs are: products are of differences from it."""
    _pairs: _Pairs = field(init=False)
    patches: int = 0

    def __post_init__(self) -> None:
        length = patch_length(self.op)
        self.total = np.zeros((self.groups, length))
        self._pairs = _Pairs(self.groups * self.parts, length // self.parts)

    @property
    def groups(self) -> int:
        return self.op.group_count if isinstance(self.op, graph.Conv2dOp) else 1

    @property
    def parts(self) -> int:
        """How many parts of one length a patch has for products of pairs."""
        length = patch_length(self.op)
        return next(n for n in range(1, length + 1) if length % n == 0 and length // n <= MAX_PART)

    def by_part(self, rows: NDArray[Number]) -> NDArray[Number]:
        """[groups, rows, K] as [groups * parts, rows, K / parts]."""
        groups, count, length = rows.shape
        split = rows.reshape(groups, count, self.parts, length // self.parts)
        return split.transpose(0, 2, 1, 3).reshape(groups * self.parts, count, -1)

    def joined(self, rows: NDArray[Number]) -> NDArray[Number]:
        """What `by_part` has split."""
        _, count, part = rows.shape
        split = rows.reshape(self.groups, self.parts, count, part)
        return split.transpose(0, 2, 1, 3).reshape(self.groups, count, self.parts * part)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean patch of each group, zeros of the padding included."""
        return self.total / max(self.patches, 1)

    @property
    def are_finite(self) -> bool:
        """Whether products can be told: squares of numbers above 10^19 cannot, in float32."""
        return self._pairs.are_finite

    def products(self, parts: slice, *, centred: bool) -> NDArray[np.float64]:
        """
        Means of the products of all pairs, of some of the groups' parts [parts, K, K]; of
        differences from the mean if `centred`. Those of different columns are shrunk, since few
        patches make any two of many columns look alike (Ledoit and Wolf 2004).
        """
        found = self._pairs.of(parts)
        found /= max(self.patches, 1)
        if self.origin is not None:
            off = self.by_part(self.mean[:, None] - self.origin)[parts]
            found -= off.transpose(0, 2, 1) * off
        if not centred:
            means = self.by_part(self.mean[:, None])[parts]
            found += means.transpose(0, 2, 1) * means
        squares = np.einsum("gii->gi", found)
        kept = squares.copy()
        found *= self.patches / max(self.patches + CHANCE * found.shape[1], 1)
        squares[:] = kept
        return found

    def see(self, x: NDArray[np.float32], op: graph.LinearOperation) -> None:
        """Add what `op` read, one of the layers."""
        if not isinstance(op, graph.Conv2dOp):
            self._multiply(x[None])
            return
        window = Window.of_operation(op)
        taps = [tap for _, _, tap in window.taps(window.padded(x, 0))]
        _, rows, columns, channels = taps[0].shape
        step = max(1, ceil(sqrt(rows * columns / POSITIONS)))
        picked = np.stack([tap[:, ::step, ::step].reshape(-1, channels) for tap in taps], axis=1)
        self._multiply(self._by_group(picked))

    def _by_group(self, patches: NDArray[np.floating]) -> NDArray[np.floating]:
        """[patches, taps, channels] as [groups, patches, taps * channels of the group]."""
        count, taps, channels = patches.shape
        split = patches.reshape(count, taps, self.groups, channels // self.groups)
        return split.transpose(2, 0, 1, 3).reshape(self.groups, count, -1)

    def _multiply(self, patches: NDArray[np.floating]) -> None:
        if not patches.shape[1]:
            return
        origin = self.origin
        if origin is None:
            origin = self.origin = patches.mean(axis=1, keepdims=True, dtype=np.float32)
        split = self.by_part(np.asarray(patches - origin, np.float32))
        self.total += patches.sum(axis=1, dtype=np.float64)
        self._pairs.add(split)
        self.patches += patches.shape[1]


def input_moments(
    module: ModuleOp,
    samples: Iterable[Mapping[str, Array]],
    layers: Iterable[Sequence[graph.LinearOperation]],
) -> list[InputMoments]:
    """The moments over `samples` of layers, in groups with the same weights."""
    readers: dict[SSAValue, list[tuple[InputMoments, graph.LinearOperation]]] = {}
    found = [InputMoments(op, others) for op, *others in layers]
    for moments in found:
        for op in (moments.op, *moments.others):
            readers.setdefault(op.input, []).append((moments, op))

    def see(value: SSAValue, array: NDArray[np.float32]) -> None:
        for moments, op in readers.get(value, ()):
            moments.see(array, op)

    watch(module, samples, see)
    return found


# Write what data says about rounding back into the weights of layers, and their biases.

AT_ONCE = 1 << 20
"""About how many products of pairs are looked at at once, several times in double precision."""


def _by_group(moments: InputMoments) -> Real:
    """The weights as [groups, outputs of the group, K]."""
    weights = graph.known_array(moments.op.weights)
    return weights.astype(np.float64).reshape(moments.groups, len(weights) // moments.groups, -1)


def _exponent(op: graph.LinearOperation) -> int:
    chosen = weight_exponent(op)
    assert chosen is not None
    return chosen


def steps_by_row(op: graph.LinearOperation) -> Real:
    """The steps of the weights as [outputs, 1]."""
    rows = np.array(row_exponents(op) or (0,) * graph.shape_of(op.weights)[0])
    return np.exp2(rows + float(_exponent(op)))[:, None]


def _steps(moments: InputMoments) -> Real:
    """The steps of the weights as [groups, outputs of the group, 1]."""
    return steps_by_row(moments.op).reshape(moments.groups, -1, 1)


def with_equal_weights(
    layers: Iterable[graph.LinearOperation],
) -> list[list[graph.LinearOperation]]:
    """
    Layers in groups with equal weights in equal steps, as the steps of a loop and what shares
    weights otherwise: rounded together they stay equal, and are stored once.
    """
    groups: defaultdict[Hashable, list[graph.LinearOperation]] = defaultdict(list)
    for op in layers:
        weights = graph.known_array(op.weights)
        count = op.group_count if isinstance(op, graph.Conv2dOp) else 1
        digests = (sha256(a.tobytes()).digest() for a in (weights, steps_by_row(op)))
        groups[op.name, weights.shape, count, *digests].append(op)
    return list(groups.values())


def round_weights(moments: InputMoments) -> None:
    """
    Replace the weights by rounded ones that change the outputs least. Where the layer has a bias,
    that takes up what the outputs change by on average, and deviations from it count.
    """
    layers = moments.op, *moments.others
    weights, bias = _by_group(moments), _biases(layers)
    steps = _steps(moments)
    rounded, change = nearest(weights, steps), np.zeros(())
    if moments.are_finite:
        parts, by_part = moments.by_part(weights), np.repeat(steps, moments.parts, axis=0)
        rounded_parts, step = np.empty_like(parts), max(1, AT_ONCE // parts.shape[2] ** 2)
        for few in (slice(i, i + step) for i in range(0, len(parts), step)):
            rounded_parts[few] = compensated(
                parts[few], moments.products(few, centred=bias is not None), by_part[few]
            )
        rounded = moments.joined(rounded_parts)
        change = np.einsum("gok,gk->go", rounded - weights, moments.mean).reshape(-1)
    _replace(layers, rounded, None if bias is None else [old - change for old in bias])
    if not all(holds(each, value_exponent) for each in layers):
        # Weights that were moved by more than a half may make larger sums than foreseen.
        _replace(layers, nearest(weights, steps), bias)


def _biases(layers: Sequence[graph.LinearOperation]) -> list[Real] | None:
    """The biases of layers if all have one."""
    found = [graph.known_array(op.bias).astype(np.float64) for op in layers if op.bias is not None]
    return found if len(found) == len(layers) else None


def _replace(
    layers: Sequence[graph.LinearOperation],
    weights: Real,
    biases: Sequence[Real] | None,
) -> None:
    for i, op in enumerate(layers):
        shape = graph.shape_of(op.weights)
        replace_constant(op, op.weights, weights.reshape(shape).astype(np.float32))
        if biases is not None and op.bias is not None:
            replace_constant(op, op.bias, biases[i].astype(np.float32))


SAMPLES = 32
"""How many samples say how inputs are correlated."""


@dataclass(frozen=True)
class RoundWeightsPass(CalibratedPass):
    """
    Round constant weights to multiples of their step, `2**graph.weight_exponent`, so that the
    layer's output changes least on the data. Weights are rounded one after the other; the later
    ones make up for the error of the earlier ones (GPTQ, Frantar et al. 2022).

    How inputs are correlated a few samples of a small layer hardly say: fewer patches than inputs
    move its weights less.

    A layer's bias takes up what rounding changes the output by on average, so that only deviations
    from the mean input count.

    Layers with equal weights, as the steps of a loop, are rounded together and stay equal. Uses 32
    of the samples at most. Without data nothing is done. Where a result has more than 1536
    products, errors are made up for within parts of that many at most. Not exact: weights
    change here instead of in `quantize-graph`, which finds nothing more to round, and biases.
    """

    name = "round-weights"

    def improve(self, main: FuncOp) -> None:
        from ceras_ir.support.terminal import progress

        layers = with_equal_weights(roundable_layers(main))
        found = input_moments(module_of(main), self.data(main, "measuring inputs", SAMPLES), layers)
        # What is done gives its memory back, so that most is free when the largest are rounded.
        found.sort(key=lambda moments: -patch_length(moments.op))
        for _ in progress(range(len(found)), "rounding weights"):
            round_weights(found.pop())
