"""
Keep facts of the run that observes ranges, for later passes that use some of these samples.

The passes between `observe-ranges` and `round-weights` change no element of a value. A pass runs
the network again only if the network or the samples changed after the last run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.data.samples import Array
from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function, quantized_operations
from ceras_ir.transforms.quantization.analysis.input_moments import (
    InputMoments,
    has_constant_weights,
)
from ceras_ir.transforms.quantization.analysis.kept_states import (
    Sample,
    add_sample,
    digest_of_network,
    numbered,
)

SHARED_SAMPLES = 32
"""The maximum number of samples of which facts are kept."""

MAX_KEPT_BYTES = 1 << 28


@dataclass(frozen=True)
class KeptRun:
    """Facts of a run. Values and layers have the numbers of `numbered`, that of the result."""

    network: bytes
    samples: bytes
    """A hash of the samples of which facts are kept."""
    arrays: dict[int, list[Array]]
    """The elements of stored values that float operations or the caller use, for each sample."""
    moments: dict[int, InputMoments]
    """The moments of the inputs of layers."""

    def values(self, main: FuncOp) -> dict[SSAValue, list[Array]]:
        """Return the kept elements of values of `main`, for each sample."""
        numbers = numbered(main.body.block)
        return {value: self.arrays[n] for value, n in numbers.items() if n in self.arrays}

    def taken_moments(
        self, main: FuncOp, layers: Iterable[Sequence[graph.LinearOperation]]
    ) -> list[InputMoments] | None:
        """
        Return the moments of groups of layers of `main` with equal weights, and keep them no
        longer. Return `None` if some are unknown, or if a group has several layers.
        """
        numbers, found = numbered(main.body.block), list[InputMoments]()
        for op, *equal_layers in layers:
            moments = self.moments.pop(numbers[op.result], None)
            if moments is None or equal_layers:
                return None
            moments.op = op
            found.append(moments)
        return found


_RUNS: list[KeptRun] = []
"""The last run, if it was recorded."""


def last_run(module: ModuleOp, samples: Callable[[], Iterable[Sample]]) -> KeptRun | None:
    """Return the last run, if it was a run of the network `module` on the same samples."""
    for run in _RUNS:
        if run.network == digest_of_network(module) and run.samples == _digest(samples()):
            return run
    return None


def _digest(samples: Iterable[Sample]) -> bytes:
    digest = sha256()
    for sample in samples:
        add_sample(digest, sample)
    return digest.digest()


class Recorder:
    """
    Records facts of a run of `module`, on the samples with the ascending numbers `positions`.
    """

    def __init__(self, module: ModuleOp, positions: Collection[int]):
        self._module, self._positions = module, set(positions)
        self._digest, self._seen = sha256(), Counter[SSAValue]()
        inside = quantized_operations(main_function(module))
        stored = [v for op in inside for v in op.results if _is_used_outside(v, inside)]
        is_small = 4 * len(positions) * sum(map(_elements, stored)) <= MAX_KEPT_BYTES
        self._arrays: dict[SSAValue, list[Array]] = {v: [] for v in stored if is_small}
        self._moments: dict[SSAValue, list[InputMoments]] = {}
        every = [InputMoments(op) for op in inside if has_constant_weights(op)]
        # Layers with equal weights are rounded together.
        different = {sha256(graph.known_array(m.op.weights).tobytes()).digest() for m in every}
        is_small = sum(moments.nbytes for moments in every) <= MAX_KEPT_BYTES
        if is_small and len(different) == len(every):
            for moments in every:
                self._moments.setdefault(moments.op.input, []).append(moments)

    def seen(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Yield all samples of the run."""
        for position, sample in enumerate(samples):
            if position in self._positions:
                add_sample(self._digest, sample)
            yield sample

    def add(self, value: SSAValue, array: NDArray[np.float32]) -> None:
        """Add the elements of a value for the next sample."""
        position = self._seen[value]
        self._seen[value] += 1
        if position not in self._positions:
            return
        if value in self._arrays:
            self._arrays[value].append(array.copy())
        for moments in self._moments.get(value, ()):
            moments.add(array, moments.op)

    def finish(self) -> None:
        """Keep the facts until the next run."""
        numbers = numbered(main_function(self._module).body.block)
        moments = {numbers[m.op.result]: m for each in self._moments.values() for m in each}
        arrays = {numbers[value]: arrays for value, arrays in self._arrays.items()}
        network = digest_of_network(self._module)
        _RUNS[:] = [KeptRun(network, self._digest.digest(), arrays, moments)]


def _is_used_outside(value: SSAValue, inside: Collection[Operation]) -> bool:
    return graph.element_of(value) == f32 and any(u.operation not in inside for u in value.uses)


def _elements(value: SSAValue) -> int:
    return prod(graph.shape_of(value))
