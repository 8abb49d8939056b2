"""
What convolutions and matrix products see of their inputs: means, and products of pairs.

A layer multiplies patches of K numbers (window position, then channel, as its weights lie)
by its weights. With groups every group has patches of its own: all arrays lead with groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.windows import Window
from ceras_ir.transforms.quantization.analysis.calibration import Array, watch

Number = TypeVar("Number", bound=np.generic)

POSITIONS = 512
"""About how many patches of one sample are taken for products."""
MAX_PART = 1536
"""Longest patch whose products of all pairs are kept, 5 MiB; of longer ones those within parts of
this length at most."""
BLOCK = 128
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
        starts = range(0, length, BLOCK)
        self.shape = (groups, length, length)
        self.blocks = [
            np.zeros((groups, min(BLOCK, length - start), length - start), np.float32)
            for start in starts
        ]

    def add(self, x: NDArray[np.float32]) -> None:
        """Add the products of `x` [groups, patches, K]."""
        for number, block in enumerate(self.blocks):
            rest = x[:, :, number * BLOCK :]
            block += np.matmul(rest[:, :, : block.shape[1]].transpose(0, 2, 1), rest)

    @property
    def are_finite(self) -> bool:
        return all(np.isfinite(block).all() for block in self.blocks)

    def of(self, groups: slice) -> NDArray[np.float64]:
        """Those of some groups [groups, K, K], both triangles."""
        count = len(range(*groups.indices(self.shape[0])))
        found = np.empty((count, *self.shape[1:]))
        for number, block in enumerate(self.blocks):
            start, end = number * BLOCK, number * BLOCK + block.shape[1]
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
