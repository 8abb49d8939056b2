"""Run a seeded sample of the generated networks, and check that the judge finds wrong results."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz_generated import References, judged
from generated.builder import Array, Builder, Sampler, normal
from generated.families import FAMILIES, generate

SEED = 3
"""The seed for a network of each family; `make fuzz-generated` runs a thousand."""

pytestmark = pytest.mark.slow


def fixed(values: Array) -> Sampler:
    """Return the same values in each sample."""

    def sample(random: np.random.Generator, shape: tuple[int, ...], index: int) -> Array:
        return values

    return sample


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sample_is_right(family: str) -> None:
    for seed, found in judged(SEED, 1, family):
        assert not found.wrong, f"seed {seed} of {family}: {found.wrong[0]}"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_is_one_network(family: str) -> None:
    first, second = (generate(5, family)[1] for _ in range(2))
    assert first.model == second.model
    for one, other in zip(first.samples, second.samples, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_the_judge_sees_a_lost_guard() -> None:
    b = Builder(np.random.default_rng(0), 13)
    x = b.input((1, 4), normal)
    b.output(b.emit("Log", b.emit("Max", x, b.constant(1e-7))), "y")
    case = b.case()
    references = References(case)
    with np.errstate(divide="ignore"):
        lost = [{"y": np.log(np.maximum(s[x.name], 0))} for s in case.samples]
    assert "floats differ" in references.difference(lost)
    kept = [{"y": np.log(np.maximum(s[x.name], np.float32(1e-7)))} for s in case.samples]
    assert not references.difference(kept)


def test_the_judge_allows_a_step_only_next_to_a_tie() -> None:
    b = Builder(np.random.default_rng(0), 13)
    steps = np.array([[0.5, 1.5, -2.5, 7.0, 3.3]])
    x = b.input(steps.shape, fixed(steps * 0.1))
    operands = b.constant(0.1), b.constant(0, np.int8)
    b.output(b.emit("QuantizeLinear", x, *operands, shape=x.shape, dtype=np.int8), "y")
    references = References(b.case(samples=1))
    up = np.array([[1, 2, -2, 7, 3]], np.int8)
    assert not references.difference([{"y": up}])
    for wrong in ([[1, 2, -2, 8, 3]], [[2, 2, -2, 7, 3]], [[1, 2, -2, 7, 4]]):
        assert "integers differ" in references.difference([{"y": np.array(wrong, np.int8)}])


def test_the_judge_holds_exact_comparisons_to_their_value() -> None:
    b = Builder(np.random.default_rng(0), 13)
    x = b.input((1, 3), fixed(np.array([[1.0, 2.0, 3.0]])))
    doubled = b.emit("Add", x, x)
    b.output(b.emit("Less", doubled, b.constant(4.0), dtype=np.bool_), "y")
    references = References(b.case(samples=1))
    assert not references.difference([{"y": np.array([[True, False, False]])}])
    assert references.difference([{"y": np.array([[True, True, False]])}])
