"""
Sum the inputs of layers over samples: means, and products of pairs.

A layer multiplies patches of K elements (window position, then channel, as in the weights) by the
weights. Each group of a convolution has separate patches; groups are the first axis of all arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod, sqrt
from typing import TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.interpreters.windows import Window

Number = TypeVar("Number", bound=np.generic)

SAMPLED_POSITIONS = 512
"""The approximate number of patches per sample."""
MAX_PART_PRODUCTS = 1536
"""
The longest patch for which products of all pairs are kept (5 MiB). A longer patch is divided into
parts of at most this length.
"""
PAIR_BLOCK_COLUMNS = 128
"""The number of columns in a block of products of pairs."""
SHRINKAGE = 0.25
"""Products of different columns are multiplied by `n / (n + SHRINKAGE * K)` for n patches."""


def has_constant_weights(op: Operation) -> TypeGuard[graph.LinearOperation]:
    """Return whether `op` is a layer with constant weights, and a constant bias or no bias."""
    return (
        isinstance(op, graph.LinearOperation)
        and graph.constant_array(op.weights) is not None
        and (op.bias is None or graph.constant_array(op.bias) is not None)
    )


def patch_length(op: graph.LinearOperation) -> int:
    """
    Return the number of products that each accumulator of a layer sums: the length K of a patch.
    """
    return prod(graph.shape_of(op.weights)[1:])


class _Pairs:
    """
    The sums of `x[i] * x[j]` over all patches, for all pairs of elements i and j of a patch, which
    has K elements: a symmetric matrix [K, K] for each group. Only the blocks on and above the
    diagonal are stored.
    """

    def __init__(self, groups: int, length: int):
        starts = range(0, length, PAIR_BLOCK_COLUMNS)
        self.shape = (groups, length, length)
        self.blocks = [
            np.zeros((groups, min(PAIR_BLOCK_COLUMNS, length - start), length - start), np.float32)
            for start in starts
        ]

    def add(self, x: NDArray[np.float32]) -> None:
        """Add the products of all pairs of elements of the patches `x` [groups, patches, K]."""
        rows = others = x
        if x.strides[2] != x.itemsize:
            # Products of matrices with gaps between elements are slow. The routine for a matrix and
            # its transpose is slow for small matrices: numpy selects it if both share memory.
            rows = np.ascontiguousarray(x)
            others = rows.copy()
        for number, block in enumerate(self.blocks):
            start = number * PAIR_BLOCK_COLUMNS
            columns = rows[:, :, start : start + block.shape[1]].transpose(0, 2, 1)
            block += np.matmul(columns, others[:, :, start:])

    @property
    def are_finite(self) -> bool:
        return all(np.isfinite(block).all() for block in self.blocks)

    def of(self, groups: slice) -> NDArray[np.float64]:
        """
        Return the complete symmetric matrices [groups, K, K] of sums of `x[i] * x[j]`, for the
        groups of a convolution in the slice `groups`.
        """
        count = len(range(*groups.indices(self.shape[0])))
        found = np.empty((count, *self.shape[1:]))
        for number, block in enumerate(self.blocks):
            start, end = number * PAIR_BLOCK_COLUMNS, number * PAIR_BLOCK_COLUMNS + block.shape[1]
            found[:, start:end, start:] = block[groups]
            found[:, start:, start:end] = block[groups].transpose(0, 2, 1)
        return found


@dataclass
class InputMoments:
    """
    The sums over samples of the input patches of a layer, and of the products of pairs of elements.
    A patch has the K input elements that contribute to a single output element. Layers with equal
    weights, such as the steps of a loop, share the sums.
    """

    op: graph.LinearOperation
    equal_layers: Sequence[graph.LinearOperation] = ()
    total: NDArray[np.float64] = field(init=False)
    origin: NDArray[np.float32] | None = field(init=False, default=None)
    """A value near the inputs, [groups, 1, K]. Products are computed for differences from it."""
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
        """
        The number of equal parts into which patches are divided, so that a matrix of products of
        pairs has at most `MAX_PART_PRODUCTS` rows.
        """
        length = patch_length(self.op)
        return next(
            n for n in range(1, length + 1) if length % n == 0 and length // n <= MAX_PART_PRODUCTS
        )

    def by_part(self, rows: NDArray[Number]) -> NDArray[Number]:
        """Reshape weights or patches [groups, rows, K] to [groups * parts, rows, K / parts]."""
        groups, count, length = rows.shape
        split = rows.reshape(groups, count, self.parts, length // self.parts)
        return split.transpose(0, 2, 1, 3).reshape(groups * self.parts, count, -1)

    def joined(self, rows: NDArray[Number]) -> NDArray[Number]:
        """
        Reshape [groups * parts, rows, K / parts] back to [groups, rows, K], the inverse of
        `by_part`.
        """
        _, count, part = rows.shape
        split = rows.reshape(self.groups, self.parts, count, part)
        return split.transpose(0, 2, 1, 3).reshape(self.groups, count, self.parts * part)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean patch of each group, including zeros of the padding."""
        return self.total / max(self.patches, 1)

    @property
    def are_finite(self) -> bool:
        """
        Whether the sums of products are finite. Otherwise they cannot be used; inputs above 10^19
        overflow in float32.
        """
        return self._pairs.are_finite

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self._pairs.blocks)

    def products(self, parts: slice, *, centred: bool) -> NDArray[np.float64]:
        """
        Return the mean products of pairs of elements of patches [parts, K, K] for the parts of
        patches in the slice `parts`. If `centred`, the means are subtracted (covariances). Elements
        off the diagonal are multiplied by a factor below 1, because elements of few patches are
        correlated by chance (Ledoit and Wolf 2004).
        """
        found = self._pairs.of(parts)
        found /= max(self.patches, 1)
        if self.origin is not None:
            off = self.by_part(self.mean[:, None] - self.origin)[parts]
            found -= off.transpose(0, 2, 1) * off
        if not centred:
            means = self.by_part(self.mean[:, None])[parts]
            found += means.transpose(0, 2, 1) * means
        diagonal = np.einsum("gii->gi", found)
        squares = diagonal.copy()
        found *= self.patches / max(self.patches + SHRINKAGE * found.shape[1], 1)
        diagonal[:] = squares
        return found

    def add(self, x: NDArray[np.float32], op: graph.LinearOperation) -> None:
        """
        Add the patches of `x`, the input of the layer `op` for a sample. Of large images, only
        patches at equal distances are used.
        """
        if not isinstance(op, graph.Conv2dOp):
            self._multiply(x[None])
            return
        window = Window.of_operation(op)
        taps = [tap for _, _, tap in window.taps(window.padded(x, 0))]
        _, rows, columns, channels = taps[0].shape
        step = max(1, ceil(sqrt(rows * columns / SAMPLED_POSITIONS)))
        picked = np.stack([tap[:, ::step, ::step].reshape(-1, channels) for tap in taps], axis=1)
        self._multiply(self._by_group(picked))

    def _by_group(self, patches: NDArray[np.floating]) -> NDArray[np.floating]:
        """
        Reshape patches [patches, taps, channels] to [groups, patches, taps * channels of the
        group].
        """
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
