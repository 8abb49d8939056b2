"""
Choose the weights that pruning keeps, and the share of zeros of each layer.

Weights are [filters, ...], with the products of a filter in memory order. Of equal magnitudes the
first are pruned first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import log2

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import run
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import main_function, result_values
from ceras_ir.transforms.quantization.analysis.output_noise import Quantities, mean_share, noise_of
from ceras_ir.transforms.quantization.analysis.sensitivity import (
    Sample,
    SensitivityMeter,
    noise_at_outputs,
)

Weights = NDArray[np.float32]
Kept = NDArray[np.bool_]
PruningRule = Callable[[Weights, float], Kept]
"""A function of the weights and a share of zeros that returns the kept weights."""


def above(weights: Weights, threshold: float) -> Kept:
    """Return a mask of the weights with magnitudes >= `threshold`, which pruning keeps."""
    return np.abs(weights) >= threshold


def by_magnitude(weights: Weights, share: float) -> Kept:
    """
    Return a mask of the weights that remain if `share` of the layer, the weights with the smallest
    magnitudes, become zero.
    """
    return _without_smallest(np.abs(weights).reshape(1, -1), share).reshape(weights.shape)


def by_filter(weights: Weights, share: float) -> Kept:
    """
    Return a mask of the weights that remain if `share` of each filter, the weights with the
    smallest magnitudes, become zero. All filters have the same number of zeros, as in the paper S5
    (see `docs/papers.md`).
    """
    return _without_smallest(np.abs(weights).reshape(len(weights), -1), share).reshape(
        weights.shape
    )


def n_of_m(weights: Weights, n: int, m: int) -> Kept:
    """
    Return a mask that keeps the `n` weights with the largest magnitudes of each `m` consecutive
    weights of a filter. If fewer than `m` weights remain at the end of a filter, the same share of
    them is kept, rounded up.
    """
    flat = np.abs(weights).reshape(len(weights), -1)
    rows, columns = flat.shape
    grouped = columns // m * m
    kept = np.zeros(flat.shape, np.bool_)
    groups = flat[:, :grouped].reshape(-1, m)
    kept[:, :grouped] = _largest(groups, n).reshape(rows, grouped)
    if rest := columns - grouped:
        kept[:, grouped:] = _largest(flat[:, grouped:], -(-rest * n // m))
    return kept.reshape(weights.shape)


def in_blocks(weights: Weights, share: float, block: tuple[int, int]) -> Kept:
    """
    Return a mask of the weights that remain if `share` of the blocks, the blocks with the smallest
    mean square, become zero. `block` is the number of filters and of products of a block.
    """
    flat = np.square(weights.reshape(len(weights), -1), dtype=np.float64)
    sizes = _block_sums(np.ones(flat.shape), block)
    means = _block_sums(flat, block) / sizes
    kept = _without_smallest(means.reshape(1, -1), share).reshape(means.shape)
    high, wide = block
    rows, columns = np.indices(flat.shape)
    return kept[rows // high, columns // wide].reshape(weights.shape)


def _block_sums(flat: NDArray[np.float64], block: tuple[int, int]) -> NDArray[np.float64]:
    high, wide = block
    rows, columns = -(-flat.shape[0] // high), -(-flat.shape[1] // wide)
    padded = np.zeros((rows * high, columns * wide))
    padded[: flat.shape[0], : flat.shape[1]] = flat
    return padded.reshape(rows, high, columns, wide).sum(axis=(1, 3))


def over_all(layers: Sequence[Weights], share: float) -> list[Kept]:
    """
    Return a mask for each layer of the weights that remain if `share` of the weights of all layers
    together, with the smallest magnitudes, become zero.
    """
    sizes = np.cumsum([weights.size for weights in layers])[:-1]
    flat = np.concatenate([np.abs(weights).reshape(-1) for weights in layers])
    kept = _without_smallest(flat[None], share)[0]
    parts = np.split(kept, sizes)
    return [part.reshape(w.shape) for part, w in zip(parts, layers, strict=True)]


def _without_smallest(scores: NDArray[np.floating], share: float) -> Kept:
    """Return a mask that is false for the `floor(share * size)` smallest scores of each row."""
    count = int(share * scores.shape[1] + 1e-9)
    kept = np.ones(scores.shape, np.bool_)
    if count:
        order = np.argsort(scores, axis=1, kind="stable")[:, :count]
        np.put_along_axis(kept, order, False, axis=1)
    return kept


def _largest(scores: NDArray[np.floating], count: int) -> Kept:
    kept = np.zeros(scores.shape, np.bool_)
    order = np.argsort(scores, axis=1, kind="stable")[:, scores.shape[1] - count :]
    np.put_along_axis(kept, order, True, axis=1)
    return kept


# Shares of zeros for a target: the minimum loss at a maximum cost, or the minimum cost at a maximum
# loss.
#
# Each layer has a loss and a cost for each share of a list, and both add over layers. This is a
# knapsack problem with classes. The solution is exact, except that costs are rounded up to a part
# of the budget.

Table = NDArray[np.float64]
"""A value for each layer and share of zeros, with axes [layers, shares]."""

BUDGET_PARTS = 4096
"""The resolution of costs, in parts of the budget."""


def best_within(values: Table, costs: Table, budget: float) -> list[int] | None:
    """
    Choose an option (a share of zeros, by index) for each layer, so that the sum of `values` is
    minimal and the sum of `costs` is at most `budget`. Return the indices, or `None` if no choice
    is within the budget.
    """
    parts = np.ceil(np.minimum(costs / budget, 2.0) * BUDGET_PARTS).astype(np.int64)
    best = np.zeros(BUDGET_PARTS + 1)
    choices: list[NDArray[np.intp]] = []
    for value, part in zip(values, parts, strict=True):
        options = np.full((len(value), BUDGET_PARTS + 1), np.inf)
        for option, (v, p) in enumerate(zip(value, part, strict=True)):
            if p <= BUDGET_PARTS:
                options[option, p:] = best[: BUDGET_PARTS + 1 - p] + v
        choices.append(np.argmin(options, axis=0))
        best = np.min(options, axis=0)
    if not np.isfinite(best[BUDGET_PARTS]):
        return None
    chosen, left = list[int](), BUDGET_PARTS
    for part, option in zip(reversed(parts), reversed(choices), strict=True):
        chosen.append(int(option[left]))
        left -= int(part[chosen[-1]])
    return chosen[::-1]


def encoded_bytes(sizes: NDArray[np.int64], shares: NDArray[np.float64], item: int) -> Table:
    """
    Return an estimate of the bytes [layers, shares] of each layer for each share of zeros. `sizes`
    are the weights of layers, and a stored weight has `item` bytes.

    The smallest of three encodings counts: all weights, a bitmap, or positions. The size of
    positions is estimated as the entropy of the distances plus a tenth.
    """
    result = np.empty((len(sizes), len(shares)))
    for j, share in enumerate(shares):
        kept = 1.0 - share
        entropy = 0.0 if share in (0.0, 1.0) else -(share * log2(share) + kept * log2(kept))
        values = sizes * kept * item
        listed = np.minimum(values + sizes / 8, values + sizes * entropy / 8 * 1.1)
        result[:, j] = np.minimum(sizes * item, listed)
    return result


# The noise at the outputs from pruning a layer, for each of a list of shares.
#
# The network runs on a few samples. A backward pass weighs each element of the result of each layer
# (`SensitivityMeter`), and the layer runs again for each share. The loss is the weighted square of
# the change, a noise-to-signal ratio at the outputs. The losses of layers add up.

SHARES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
"""The shares of zeros that are compared for each layer."""

Array = NDArray[np.generic]


def losses(
    module: ModuleOp,
    samples: Sequence[Sample],
    layers: Sequence[graph.LinearOperation],
    rule: PruningRule,
) -> NDArray[np.float64]:
    """
    Return the noise-to-signal ratio at the graph outputs if `rule` prunes a single layer, as an
    array with a row for each layer and a column for each share of weights in `SHARES` that become
    zero.
    """
    # Use the graph outputs, because operations after the quantized part are pruned too.
    float_outputs = [v for v in result_values(main_function(module)) if not graph.is_plain(v)]
    meter = SensitivityMeter(module, samples, outputs=float_outputs)
    interpreter = interpreter_of(module)
    index: dict[SSAValue, int] = {op.result: i for i, op in enumerate(layers)}
    result = np.zeros((len(layers), len(SHARES)))
    for sample in samples:
        for value, known, gradient in meter.weigh(sample):
            if (i := index.get(value)) is None:
                continue
            op = layers[i]
            weights = np.asarray(graph.known_array(op.weights), np.float32)
            operands = [known[v] for v in op.operands]
            for j, share in enumerate(SHARES[1:], 1):
                operands[1] = np.where(rule(weights, share), weights, np.float32(0))
                with np.errstate(all="ignore"):
                    changed = interpreter.run_op(op, tuple(operands))[0]
                error = np.asarray(changed, np.float64) - np.asarray(known[value], np.float64)
                result[i, j] += noise_at_outputs(gradient, error) / len(samples)
    return np.maximum.accumulate(np.nan_to_num(result, nan=np.inf), axis=1)


def outputs(module: ModuleOp, samples: Iterable[Sample]) -> list[dict[str, Array]]:
    return [run(module, sample) for sample in samples]


def noise(
    dense: Sequence[Mapping[str, Array]],
    pruned: Sequence[Mapping[str, Array]],
    quantities: Mapping[str, Quantities] | None = None,
) -> float:
    """
    Return the noise that pruning adds: the noise-to-signal ratio of the outputs `pruned` compared
    with the outputs `dense` before pruning, by sample, as a mean over the outputs. Return NaN if no
    output varies. `quantities` are the kinds of outputs, which decide how they are compared.
    """
    found = noise_of(dense, pruned, quantities)
    return mean_share(each.share for each in found.values())
