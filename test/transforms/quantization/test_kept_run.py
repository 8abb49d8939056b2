"""Check that passes use facts of the run that observes ranges, with equal results."""

from pathlib import Path

import numpy as np
import pytest
from c_harness import make_network
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.batches import Batches
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.pass_options import build
from ceras_ir.transforms.quantization.analysis import kept_run
from ceras_ir.transforms.quantization.analysis.kept_run import Recorder, last_run
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.rebuilding import replace_constant

SAMPLES = 40


def network(*, shares: bool = False) -> ModuleOp:
    """Return three layers and a softmax. The first two have equal weights if `shares` is true."""
    rng = np.random.default_rng(0)
    first, second, third = (rng.normal(size=(8, 8)).astype(np.float32) for _ in range(3))

    def layers(value: SSAValue) -> list[SSAValue]:
        for weights in (first, first if shares else second, third):
            constant = graph.ConstantOp.from_array(weights).result
            value = graph.MatmulOp(value, constant, result_element=f32).result
        return [graph.SoftmaxOp(value, axis=1).result]

    return make_network([(f32, (1, 8))], layers)


def data(path: Path) -> dict[str, NDArray[np.float32]]:
    arrays = {"input0": np.random.default_rng(1).normal(size=(SAMPLES, 1, 8)).astype(np.float32)}
    np.savez(path, allow_pickle=False, **arrays)
    return arrays


def idle(_: Recorder) -> None:
    """Keep nothing."""


@pytest.mark.parametrize("shares", [False, True])
def test_results_are_those_of_separate_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shares: bool
) -> None:
    data(tmp_path / "c.npz")
    products: list[list[int]] = []
    apply = Batches.apply

    def counted(self: Batches, op: graph.GraphOperation, *rest: object) -> object:
        products[-1].append(isinstance(op, graph.LinearOperation))
        return apply(self, op, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Batches, "apply", counted)
    texts: list[str] = []
    for keeps in (True, False):
        products.append([])
        if not keeps:
            monkeypatch.setattr(Recorder, "finish", idle)
        module = network(shares=shares)
        options = f"target=c calibration={tmp_path / 'c.npz'}"
        build(QuantizePass, options).apply(load_context(), module)
        texts.append(str(module))
        kept_run._RUNS.clear()  # pyright: ignore[reportPrivateUsage]
    assert texts[0] == texts[1]
    assert sum(products[0]) < sum(products[1])


def test_other_samples_and_weights_have_no_facts() -> None:
    module = network()
    main = main_function(module)
    rows = np.random.default_rng(1).normal(size=(3, 1, 8)).astype(np.float32)
    samples = [{"input0": row} for row in rows]
    recorder = Recorder(module, [0, 2])
    assert list(recorder.seen(samples)) == samples
    for row in rows:
        recorder.add(main.body.block.args[0], row)
    recorder.finish()
    run = last_run(module, lambda: samples[::2])
    assert run is not None
    layers = [op for op in main.body.block.ops if isinstance(op, graph.MatmulOp)]
    found = run.taken_moments(main, [[layers[0]]])
    assert found is not None
    assert found[0].patches == 2
    np.testing.assert_allclose(found[0].mean[0], rows[::2, 0].mean(axis=0), rtol=1e-6)
    assert run.taken_moments(main, [[layers[0]]]) is None
    assert last_run(module, lambda: samples[:2]) is None
    replace_constant(layers[1], layers[1].weights, np.ones((8, 8), np.float32))
    assert last_run(module, lambda: samples[::2]) is None
