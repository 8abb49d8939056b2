"""Layers that are made of numbers, and noises that add, or not."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.utils.test_value import create_ssa_value

from ceras_ir.transforms.quantization.analysis.precision_search import (
    CLOSE,
    Trial,
    costs,
    enough_layers,
    give_back,
)
from ceras_ir.transforms.quantization.analysis.sensitivity import Sensitivity

FLOOR = 0.001
"""Noise that no layer makes."""


def layers_of(noises: Sequence[float], macs: Sequence[int] | None = None) -> list[Sensitivity]:
    value = create_ssa_value(f32)
    sizes = macs or [1] * len(noises)
    found = zip(noises, sizes, strict=True)
    return [Sensitivity(f"l{i}", value, m, True, n) for i, (n, m) in enumerate(found)]


def additive(layers: Sequence[Sensitivity], tried: list[int], scale: float = 1.0) -> Trial:
    """What is left of all noises, and the floor."""

    def trial(chosen: Sequence[Sensitivity]) -> float:
        tried.append(len(chosen))
        taken = {id(s) for s in chosen}
        return FLOOR + scale * sum(s.noise for s in layers if id(s) not in taken)

    return trial


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_noises_that_add_need_few_trials(seed: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    noises = sorted(random.exponential(size=200) ** 3, reverse=True)
    layers, tried = layers_of([float(n) for n in noises]), list[int]()
    trial = additive(layers, tried, scale)
    before = trial([])
    wanted = before / 10 ** random.uniform(0.3, 3)
    chosen, after = enough_layers(layers, 0, before, wanted, trial)
    assert after == trial(chosen) <= wanted
    one_less = trial(chosen[:-1])
    assert one_less > wanted or after >= wanted * CLOSE
    assert len(tried) <= 8


def test_a_cliff_is_found() -> None:
    """One layer late in the list makes most of the noise, against what was measured of it."""
    layers = layers_of([1.0] * 64)
    tried: list[int] = []

    def trial(chosen: Sequence[Sensitivity]) -> float:
        tried.append(len(chosen))
        return (100 if layers[47] not in chosen else 0) + 64.0 - len(chosen)

    chosen, after = enough_layers(layers, 0, 164.0, 40.0, trial)
    assert (len(chosen), after) == (48, 16.0) and len(tried) <= 12
    # All but the one that matters can go then, as far as noise has room.
    kept, after = give_back(chosen, layers, after, 40.0, trial)
    assert layers[47] in kept and after <= 40.0 and len(kept) < 48


def test_the_dearest_go_first() -> None:
    layers = layers_of([1.0, 1.0, 0.5, 0.4], [10, 1000, 10, 10])
    trial = additive(layers, [])
    kept, after = give_back(layers, layers, FLOOR, 1.5, trial)
    assert [s.name for s in kept] == ["l0", "l2"] and after == trial(kept)
    assert give_back(layers[:2], layers, 0.9, 0.9 / CLOSE, trial) == (layers[:2], 0.9)


def test_what_cannot_be_reached() -> None:
    layers, tried = layers_of([3.0, 2.0, 1.0]), list[int]()
    chosen, after = enough_layers(layers, 2, 6.0, FLOOR / 2, additive(layers, tried))
    assert (chosen, after, tried) == (layers, FLOOR, [2, 3])
    assert enough_layers([], 0, 6.0, 1.0, additive([], tried)) == ([], 6.0)
    silent = layers_of([0.0, 0.0])
    assert enough_layers(silent, 0, 6.0, 1.0, lambda _: 6.0) == (silent, 6.0)


def test_costs() -> None:
    wide, real = layers_of([1.0, 1.0], [30, 10])
    wide.in_float = False
    assert costs([wide, real]) == {id(wide): 50.0, id(real): 120.0}
    nothing = layers_of([1.0], [0])
    assert costs(nothing)[id(nothing[0])] > 0 and costs([]) == {}
