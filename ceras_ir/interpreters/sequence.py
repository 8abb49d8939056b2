"""
A network from call to call: what it keeps between them, see `ceras_ir.network.states`.

A `Sequence` begins with the first state, takes what is new of every step, and returns what callers
see. `with_states` makes steps into samples of a function without memory, for all that looks at one
inference after the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects.graph import quantized_element
from ceras_ir.dialects.mem import arena_of
from ceras_ir.interpreters.arena import run_in_arena
from ceras_ir.interpreters.network import Array, Tracer, run
from ceras_ir.network.function import main_function
from ceras_ir.network.integer import quantize
from ceras_ir.network.states import initial_state, states_of

Runner: TypeAlias = Callable[[ModuleOp, Mapping[str, Array], Tracer | None], dict[str, Array]]


class Sequence:
    """One network at any level above machine code, and its states."""

    def __init__(self, module: ModuleOp):
        main = main_function(module)
        self.module = module
        self._run: Runner = run if arena_of(main) is None else run_in_arena
        self._names = {state.name: state.result_name for state in states_of(main)}
        self.states: dict[str, Array] = {s.name: initial_state(s) for s in states_of(main)}
        """What the next step reads, by the names of the arguments."""

    def step(self, sample: Mapping[str, Array], tracer: Tracer | None = None) -> dict[str, Array]:
        """Run once; the outputs that are no states."""
        results = self._run(self.module, {**sample, **self.states}, tracer)
        self.states = {name: results[result] for name, result in self._names.items()}
        kept = set(self._names.values())
        return {name: array for name, array in results.items() if name not in kept}


def in_turn(module: ModuleOp, samples: Iterable[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
    """What callers see of each of `samples`, from the first state on."""
    yield from map(Sequence(module).step, samples)


def with_states(
    module: ModuleOp, samples: Iterable[Mapping[str, Array]]
) -> Iterator[Mapping[str, Array]]:
    """Every sample with the states that the network has when it gets there."""
    sequence = Sequence(module)
    if not sequence.states:
        yield from samples
        return
    for sample in samples:
        yield {**sample, **sequence.states}
        sequence.step(sample)


def as_stored(module: ModuleOp, sample: Mapping[str, Array]) -> dict[str, Array]:
    """A sample of the float network, as a quantized form of it takes it: its states as stored."""
    found = dict(sample)
    for state in states_of(main_function(module)):
        element, given = quantized_element(state.argument), found[state.name]
        if element is not None and given.dtype.kind == "f":
            found[state.name] = quantize(given.astype(np.float32, copy=False), element)
    return found
