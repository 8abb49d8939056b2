"""
Which weights stay, what the absence of the others costs, and how many of each layer may go.

The first part chooses weights of a layer by method. Weights are [filters, ...], the products of a
filter as they lie in memory; of equal magnitudes the first go first.
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
    noise_at_ends,
)

# Which weights of a layer stay, by method. Weights are [filters, ...], the products of a filter as
# they lie in memory; of equal magnitudes the first go first.

Weights = NDArray[np.float32]
Kept = NDArray[np.bool_]
Rule = Callable[[Weights, float], Kept]
"""The weights that stay when a share goes."""


def above(weights: Weights, threshold: float) -> Kept:
    """Those of at least a magnitude."""
    return np.abs(weights) >= threshold


def by_magnitude(weights: Weights, share: float) -> Kept:
    """All but the share of least magnitudes of the layer."""
    return _kept(np.abs(weights).reshape(1, -1), share).reshape(weights.shape)


def by_filter(weights: Weights, share: float) -> Kept:
    """All but the share of least magnitudes of each filter: equally many of each (S5)."""
    return _kept(np.abs(weights).reshape(len(weights), -1), share).reshape(weights.shape)


def n_of_m(weights: Weights, n: int, m: int) -> Kept:
    """The `n` greatest of each `m` products of a filter; of a rest, the same part rounded up."""
    flat = np.abs(weights).reshape(len(weights), -1)
    rows, columns = flat.shape
    whole = columns // m * m
    kept = np.zeros(flat.shape, np.bool_)
    groups = flat[:, :whole].reshape(-1, m)
    kept[:, :whole] = _largest(groups, n).reshape(rows, whole)
    if rest := columns - whole:
        kept[:, whole:] = _largest(flat[:, whole:], -(-rest * n // m))
    return kept.reshape(weights.shape)


def in_blocks(weights: Weights, share: float, block: tuple[int, int]) -> Kept:
    """
    All but the share of blocks of `filters x products` whose mean square is least. Blocks at the
    ends are smaller where they do not divide the layer.
    """
    flat = np.square(weights.reshape(len(weights), -1), dtype=np.float64)
    sizes = _block_sums(np.ones(flat.shape), block)
    means = _block_sums(flat, block) / sizes
    kept = _kept(means.reshape(1, -1), share).reshape(means.shape)
    high, wide = block
    rows, columns = np.indices(flat.shape)
    return kept[rows // high, columns // wide].reshape(weights.shape)


def _block_sums(flat: NDArray[np.float64], block: tuple[int, int]) -> NDArray[np.float64]:
    """Sums over blocks, the last of which may be smaller."""
    high, wide = block
    rows, columns = -(-flat.shape[0] // high), -(-flat.shape[1] // wide)
    padded = np.zeros((rows * high, columns * wide))
    padded[: flat.shape[0], : flat.shape[1]] = flat
    return padded.reshape(rows, high, columns, wide).sum(axis=(1, 3))


def over_all(layers: Sequence[Weights], share: float) -> list[Kept]:
    """All but the share of least magnitudes of all layers together."""
    sizes = np.cumsum([weights.size for weights in layers])[:-1]
    flat = np.concatenate([np.abs(weights).reshape(-1) for weights in layers])
    kept = _kept(flat[None], share)[0]
    parts = np.split(kept, sizes)
    return [part.reshape(w.shape) for part, w in zip(parts, layers, strict=True)]


def _kept(scores: NDArray[np.floating], share: float) -> Kept:
    """For each row, all but its least `floor(share * size)`."""
    gone = int(share * scores.shape[1] + 1e-9)
    kept = np.ones(scores.shape, np.bool_)
    if gone:
        order = np.argsort(scores, axis=1, kind="stable")[:, :gone]
        np.put_along_axis(kept, order, False, axis=1)
    return kept


def _largest(scores: NDArray[np.floating], count: int) -> Kept:
    """The `count` greatest of each row."""
    kept = np.zeros(scores.shape, np.bool_)
    order = np.argsort(scores, axis=1, kind="stable")[:, scores.shape[1] - count :]
    np.put_along_axis(kept, order, True, axis=1)
    return kept


# Shares of zeros for a target: the least loss that a cost allows, or the least cost at a loss.
#
# Every layer has a loss and a cost at each share of a list; they add over layers. The choice is a
# knapsack of classes, solved exactly but for costs that are rounded up to a part of the budget.

Table = NDArray[np.float64]
"""[layers, shares]"""

PARTS = 4096
"""Of a budget: what each layer takes is rounded up to so many."""


def best_within(values: Table, costs: Table, budget: float) -> list[int] | None:
    """The share of each layer that makes the least of values within a budget; None if none does."""
    parts = np.ceil(np.minimum(costs / budget, 2.0) * PARTS).astype(np.int64)
    best = np.zeros(PARTS + 1)
    taken: list[NDArray[np.intp]] = []
    for value, part in zip(values, parts, strict=True):
        options = np.full((len(value), PARTS + 1), np.inf)
        for option, (v, p) in enumerate(zip(value, part, strict=True)):
            if p <= PARTS:
                options[option, p:] = best[: PARTS + 1 - p] + v
        taken.append(np.argmin(options, axis=0))
        best = np.min(options, axis=0)
    if not np.isfinite(best[PARTS]):
        return None
    chosen, left = list[int](), PARTS
    for part, option in zip(reversed(parts), reversed(taken), strict=True):
        chosen.append(int(option[left]))
        left -= int(part[chosen[-1]])
    return chosen[::-1]


def encoded_bytes(sizes: NDArray[np.int64], shares: NDArray[np.float64], item: int) -> Table:
    """
    Bytes of layers of so many weights of `item` bytes at each share of zeros, in their smallest
    encoding: all of them, a bitmap, or places at the entropy of their distances and a tenth.
    """
    result = np.empty((len(sizes), len(shares)))
    for j, share in enumerate(shares):
        kept = 1.0 - share
        entropy = 0.0 if share in (0.0, 1.0) else -(share * log2(share) + kept * log2(kept))
        values = sizes * kept * item
        listed = np.minimum(values + sizes / 8, values + sizes * entropy / 8 * 1.1)
        result[:, j] = np.minimum(sizes * item, listed)
    return result


# What pruning a layer costs at the ends of the network: a scan over shares of zeros.
#
# The network runs on a few samples; one backward pass weighs every element of every layer's result
# (`SensitivityMeter`), and each layer runs again with fewer and fewer of its weights. The loss of a
# share is the weighted square of what changes, as noise over signal at the ends. Losses of layers
# are taken to add.

SHARES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
"""Shares of zeros that are tried of every layer."""

Array = NDArray[np.generic]


def losses(
    module: ModuleOp,
    samples: Sequence[Sample],
    layers: Sequence[graph.LinearOperation],
    rule: Rule,
) -> NDArray[np.float64]:
    """Noise over signal at the ends for each layer and each of `SHARES`; it never falls."""
    # Not where integers will end: what follows is pruned too.
    ends = [v for v in result_values(main_function(module)) if not graph.is_plain(v)]
    meter, interpreter = SensitivityMeter(module, samples, ends=ends), interpreter_of(module)
    index: dict[SSAValue, int] = {op.result: i for i, op in enumerate(layers)}
    result = np.zeros((len(layers), len(SHARES)))
    for sample in samples:
        for value, known, gradient in meter.weigh(sample):
            if (i := index.get(value)) is None:
                continue
            op = layers[i]
            weights = np.asarray(graph.known_array(op.weights), np.float32)
            others = [known[v] for v in op.operands]
            for j, share in enumerate(SHARES[1:], 1):
                others[1] = np.where(rule(weights, share), weights, np.float32(0))
                with np.errstate(all="ignore"):
                    changed = interpreter.run_op(op, tuple(others))[0]
                error = np.asarray(changed, np.float64) - np.asarray(known[value], np.float64)
                result[i, j] += noise_at_ends(gradient, error) / len(samples)
    return np.maximum.accumulate(np.nan_to_num(result, nan=np.inf), axis=1)


def outputs(module: ModuleOp, samples: Iterable[Sample]) -> list[dict[str, Array]]:
    """What the network answers."""
    return [run(module, sample) for sample in samples]


def noise(
    dense: Sequence[Mapping[str, Array]],
    pruned: Sequence[Mapping[str, Array]],
    quantities: Mapping[str, Quantities] | None = None,
) -> float:
    """Return the noise-to-signal ratio, a mean over the outputs; NaN if no output varies."""
    found = noise_of(dense, pruned, quantities)
    return mean_share(each.share for each in found.values())
