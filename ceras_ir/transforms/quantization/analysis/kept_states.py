"""
Keep the states of a network before selected steps of a sequence.

Several passes use the same steps of calibration data. All steps before the last selected step must
run to compute the states, which takes most of the time of quantization for a network with states.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import Any, Protocol, cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue

from ceras_ir.data.samples import Array
from ceras_ir.interpreters.float_functions import for_statistics
from ceras_ir.interpreters.network import Sequence as Running
from ceras_ir.network.function import is_copy, main_function, states_of

Sample = Mapping[str, Array]
Steps = Callable[[], Iterable[Sample]]

MAX_KEPT_BYTES = 1 << 26


class Hash(Protocol):
    """A hash object of `hashlib`."""

    def update(self, data: bytes | memoryview, /) -> None: ...


@dataclass(frozen=True)
class _Step:
    """The states before a step, and a hash of all samples up to this step."""

    samples: bytes
    states: Mapping[str, Array]


class KeptStates:
    """The states before steps of a sequence, of the network that ran last."""

    def __init__(self) -> None:
        # A single object, because threads may share it.
        self._last: tuple[bytes, Mapping[int, _Step]] = (b"", {})

    def with_states(
        self, module: ModuleOp, steps: Steps, numbers: Sequence[int]
    ) -> Generator[Mapping[str, Array]]:
        """
        Yield the states of the float network before each of the steps with the ascending `numbers`.
        `steps` returns the samples of the sequence from the start to the last of `numbers`.
        """
        network = digest_of_network(module)
        known, kept = self._last
        if network == known and _contains(kept, steps, numbers):
            yield from (kept[number].states for number in numbers)
            return
        wanted, found, size = set(numbers), dict[int, _Step](), 0
        running = Running(module)
        for number, (sample, digest) in enumerate(_digested(steps())):
            if number in wanted:
                found[number] = _Step(digest, running.states)
                size += sum(array.nbytes for array in running.states.values())
            if number == numbers[-1]:
                # A caller that knows the number of steps may not resume after the last of them.
                if size <= MAX_KEPT_BYTES:
                    self._last = network, found
                yield running.states
                return
            if number in wanted:
                yield running.states
            with for_statistics():
                running.step(sample)


def _contains(kept: Mapping[int, _Step], steps: Steps, numbers: Sequence[int]) -> bool:
    if not all(number in kept for number in numbers):
        return False
    digests = enumerate(digest for _, digest in _digested(steps()))
    return all(n not in kept or kept[n].samples == digest for n, digest in digests)


def _digested(steps: Iterable[Sample]) -> Iterator[tuple[Sample, bytes]]:
    digest = sha256()
    for sample in steps:
        add_sample(digest, sample)
        yield sample, digest.digest()


def add_sample(digest: Hash, sample: Sample) -> None:
    """Add the names and elements of a sample to a hash."""
    for name, array in sorted(sample.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)


def numbered(block: Block) -> dict[SSAValue, int]:
    """Return a number for each value of a function. A copy has the number of the original."""
    free = count()
    numbers: dict[SSAValue, int] = {value: next(free) for value in block.args}
    for op in block.ops:
        if is_copy(op):
            numbers[op.results[0]] = numbers[op.operands[0]]
        else:
            numbers |= {value: next(free) for value in op.results}
    return numbers


def digest_of_network(module: ModuleOp) -> bytes:
    """
    Return a hash of all functions without discardable attributes, such as ranges and scales. Copies
    of values are ignored.
    """
    names = [(state.name, state.result_name) for state in states_of(main_function(module))]
    digest = sha256(str(names).encode())
    for function in (op for op in module.walk() if isinstance(op, FuncOp)):
        digest.update(f"{function.sym_name} {function.function_type}".encode())
        numbers = numbered(function.body.block)
        for op in function.body.block.ops:
            if is_copy(op):
                continue
            operands = [numbers[value] for value in op.operands]
            digest.update(f"{op.name} {operands} {[r.type for r in op.results]}".encode())
            for name, attribute in sorted(op.properties.items()):
                digest.update(name.encode())
                digest.update(_bytes_of(attribute))
    return digest.digest()


def _bytes_of(attribute: Attribute) -> bytes:
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        dense = cast("DenseIntOrFPElementsAttr[Any]", attribute)
        return str(dense.type).encode() + dense.data.data
    return str(attribute).encode()
