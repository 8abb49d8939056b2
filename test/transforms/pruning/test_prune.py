"""Check the weights that `prune` keeps, and the targets that it meets."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import model, node, weights
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects.graph import LinearOperation
from ceras_ir.dialects.sparse import MASK, MaskAttr
from ceras_ir.frontends.onnx import import_model
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import InputError, UnsupportedError
from ceras_ir.transforms.pruning import kept_weights
from ceras_ir.transforms.pruning.kept_weights import best_within, encoded_bytes
from ceras_ir.transforms.pruning.prune import PrunePass, smallest_bytes
from ceras_ir.transforms.quantization.round_weights import round_with_compensation


def network() -> ModuleOp:
    """Build two convolutions and a classifier."""
    rng = np.random.default_rng(0)
    return import_model(
        model(
            [
                node("Conv", "x w0", "a", pads=[1, 1, 1, 1]),
                node("Relu", "a", "b"),
                node("Conv", "b w1", "c"),
                node("Relu", "c", "d"),
                node("Flatten", "d", "e"),
                node("Gemm", "e w2", "y", transB=1),
            ],
            {"x": (1, 3, 8, 8)},
            ["y"],
            {
                "w0": weights(rng, 8, 3, 3, 3),
                "w1": weights(rng, 8, 8, 3, 3),
                "w2": weights(rng, 10, 288),
            },
        )
    )


def masks(module: ModuleOp) -> list[MaskAttr]:
    found = [op.attributes[MASK] for op in module.walk() if isinstance(op, LinearOperation)]
    return [mask for mask in found if isinstance(mask, MaskAttr)]


def pruned(pruning: PrunePass) -> list[MaskAttr]:
    module = network()
    pruning.apply(load_context(), module)
    verify_module(module)
    return masks(module)


@given(st.integers(0, 1 << 30), st.integers(1, 6), st.integers(1, 40), st.floats(0, 0.99))
@settings(max_examples=50)
def test_filters_keep_equally_many_of_the_greatest(
    seed: int, rows: int, columns: int, share: float
):
    weights = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
    kept = kept_weights.by_filter(weights, share)
    assert set(kept.sum(axis=1)) == {columns - int(share * columns + 1e-9)}
    for row, stays in zip(np.abs(weights), kept, strict=True):
        assert row[stays].min(initial=np.inf) >= row[~stays].max(initial=0)


@given(st.integers(0, 1 << 30), st.integers(1, 7), st.integers(1, 30), st.floats(0, 0.99))
@settings(max_examples=50)
def test_blocks_stay_or_go_as_whole(seed: int, rows: int, columns: int, share: float):
    weights = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
    for high, wide in ((4, 1), (1, 4), (2, 3)):
        kept = kept_weights.in_blocks(weights, share, (high, wide))
        for i in range(0, rows, high):
            for j in range(0, columns, wide):
                block = kept[i : i + high, j : j + wide]
                assert block.all() or not block.any()


def test_n_of_m_keeps_the_greatest_of_each_group_and_of_the_rest():
    weights = np.array([[1, -9, 3, 8, 5, -6, 7, 2, 4, 3]], np.float32)
    assert kept_weights.n_of_m(weights, 2, 4).astype(int).tolist() == [
        [0, 1, 0, 1, 0, 1, 1, 0, 1, 0]
    ]


def test_a_size_is_met_and_used(capsys: pytest.CaptureFixture[str]):
    for target in (800, 1500, 3000):
        found = pruned(PrunePass(target_bytes=target, bits=8))
        size = sum(smallest_bytes(mask.array, 1) for mask in found)
        assert 0.6 * target <= size <= target
        assert "dB of signal over noise" in capsys.readouterr().err


def test_products_are_met():
    found = pruned(PrunePass("filter", target_products=9000))
    layers = [op for op in network().walk() if isinstance(op, LinearOperation)]
    left = sum(o.macs * m.kept.data / m.array.size for o, m in zip(layers, found, strict=True))
    assert 5000 <= left <= 9000


@pytest.mark.slow
def test_a_loss_is_measured_and_kept(capsys: pytest.CaptureFixture[str]):
    few, many = (pruned(PrunePass(target_loss=loss)) for loss in (30.0, 10.0))
    assert sum(m.kept.data for m in few) > sum(m.kept.data for m in many)
    text = capsys.readouterr().err
    figures = [float(part.split()[-1]) for part in text.split(" dB of signal")[:-1]]
    assert figures[0] >= 30 and figures[1] >= 10


def test_samples_of_the_user_weigh_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    np.savez(tmp_path / "d.npz", x=np.ones((3, 3, 8, 8), np.float32))
    pruned(PrunePass(target_bytes=3000, calibration=str(tmp_path / "d.npz")))
    assert "synthetic" not in capsys.readouterr().err


def test_a_target_out_of_reach_is_refused():
    with pytest.raises(UnsupportedError, match="unsupported target: 20 bytes are fewer than"):
        pruned(PrunePass(target_bytes=20))


def test_a_name_of_no_layer_is_refused():
    with pytest.raises(InputError, match="no layer is called 'cnv'"):
        pruned(PrunePass(ratios=("cnv:0.5",)))


@given(st.integers(0, 1 << 30), st.floats(0.05, 1.0))
@settings(max_examples=30)
def test_no_other_choice_within_the_budget_is_better(seed: int, budget: float):
    rng = np.random.default_rng(seed)
    losses = np.sort(rng.random((3, 4)), axis=1)
    costs = np.sort(rng.random((3, 4)), axis=1)[:, ::-1]
    found = best_within(losses, costs, budget)
    best = np.inf
    for i in np.ndindex(4, 4, 4):
        # Costs are rounded up to a part of the budget.
        if sum(costs[k, i[k]] for k in range(3)) <= budget * (1 - 3 / 4096):
            best = min(best, float(sum(losses[k, i[k]] for k in range(3))))
    if found is None:
        assert best == np.inf
    else:
        assert sum(costs[k, o] for k, o in enumerate(found)) <= budget
        assert sum(losses[k, o] for k, o in enumerate(found)) <= best + 1e-12


def test_modelled_bytes_are_near_those_of_the_encoder():
    rng = np.random.default_rng(0)
    for share in (0.3, 0.6, 0.8, 0.94, 0.99):
        kept = rng.random((64, 800)) >= share
        for item in (1, 4):
            modelled = encoded_bytes(np.array([kept.size]), np.array([share]), item)[0, 0]
            assert smallest_bytes(kept, item) == pytest.approx(modelled, rel=0.12)


def test_rounding_weights_keeps_zeros():
    """The compensation of rounding errors does not change a pruned weight."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, 12)) @ rng.normal(size=(12, 12))
    weights = np.where(rng.random((1, 5, 12)) < 0.5, rng.normal(size=(1, 5, 12)), 0.0)
    pairs = (inputs.T @ inputs / 200)[None]
    rounded = round_with_compensation(weights, pairs, np.full((1, 5, 1), 0.25))
    assert not rounded[weights == 0].any() and rounded.any()
