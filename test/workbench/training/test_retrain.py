"""Test `ceras-retrain` from file to file: masks, resumed runs, the exported model, refusals."""

# Imports follow the check that torch is installed.
# ruff: noqa: E402
# Not strict: torch is an extra, and its types are partial.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

torch = pytest.importorskip("torch", reason="training needs torch: pip install '.[retrain]'")

from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.extras import install_command
from ceras_ir.targets.registry import find_target
from ceras_ir.workbench.training import trainer
from ceras_ir.workbench.training.examples import Examples
from ceras_ir.workbench.training.session import student_of, teacher_of
from ceras_ir.workbench.training.settings import Settings
from ceras_ir.workbench.training.tool import main
from ceras_ir.workbench.training.torch_network import TorchNetwork

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL = str(DIGITS / "digits.onnx")
DATA = [
    "--data", str(DIGITS / "digits_test.npz"), "--labels", str(DIGITS / "digits_labels.npz"),
    "--validate", str(DIGITS / "digits_test.npz"),
    "--validate-labels", str(DIGITS / "digits_labels.npz"), "--threads", "1",
]  # fmt: skip
PRUNED = ["--prune", "sparsity=0.8", "--batch-size", "60", "--device", "cpu"]


def retrain(output: Path, *options: str) -> int:
    return main([MODEL, *DATA, *PRUNED, *options, "-o", str(output)])


def weights_of(path: Path) -> list[np.ndarray]:
    ops = main_function(read_network(str(path))).body.block.ops
    linear = [op for op in ops if isinstance(op, graph.LinearOperation)]
    return [graph.known_array(op.weights) for op in linear]


def score(err: str) -> list[float]:
    return [float(line.split("top-1 ")[1][:6]) for line in err.splitlines() if "top-1" in line]


def test_zeros_stay_and_the_model_is_what_was_trained(tmp_path: Path, capsys):
    names = layer_names()
    soft = ["--soft", f"{names[0]},{names[-1]}", "--alpha", "1,0.1"]
    assert retrain(tmp_path / "out.onnx", *soft, "--epochs", "8", "--rate", "0.02") == 0
    scores = score(capsys.readouterr().err)
    assert max(scores) > 2 * scores[0]
    options = replace(BuildOptions(), quantize="none", prune="sparsity=0.8")
    student = student_of(read_network(MODEL), options)
    trained = weights_of(tmp_path / "out.onnx")
    for found, zeros in zip(trained, student.zeros.values(), strict=True):
        assert np.array_equal(found == 0, zeros)
    assert not list(tmp_path.glob("*checkpoint"))
    # Run the file in ONNX Runtime, in the interpreter and in torch.
    x = np.load(DIGITS / "digits_test.npz")["image"][:1]
    module = read_network(str(tmp_path / "out.onnx"))
    expected = run(module, {"image": x})["probabilities"].astype(np.float32)
    session = ort.InferenceSession(tmp_path / "out.onnx", providers=["CPUExecutionProvider"])
    (other,) = session.run(None, {"image": x})
    np.testing.assert_allclose(np.asarray(other), expected, rtol=1e-4, atol=1e-5)
    found, _ = TorchNetwork(module)([torch.from_numpy(x)])
    np.testing.assert_allclose(found["probabilities"].detach(), expected, rtol=1e-4, atol=1e-5)


def layer_names() -> list[str]:
    from ceras_ir.support.diagnostics import node_name

    student = student_of(read_network(MODEL), replace(BuildOptions(), quantize="none"))
    ops = main_function(student.module).body.block.ops
    return [node_name(op) for op in ops if isinstance(op, graph.LinearOperation)]


def test_int8_trains_the_integers_that_run(tmp_path: Path):
    """Check that the exported network, imported and quantized again, has the trained integers."""
    assert retrain(tmp_path / "out.onnx", "--int8", "--epochs", "2", "--rate", "3e-3") == 0
    module = read_network(str(tmp_path / "out.onnx"))
    student = student_of(module, replace(BuildOptions(), quantize="int8"))
    x = np.load(DIGITS / "digits_test.npz")["image"][:8]
    labels = np.load(DIGITS / "digits_labels.npz")["labels"][:8]
    network = TorchNetwork(student.module)
    for sample, label in zip(x, labels, strict=True):
        expected = run(student.module, {"image": sample[None]})["probabilities"].astype(np.float32)
        found, _ = network([torch.from_numpy(sample[None])])
        np.testing.assert_allclose(found["probabilities"].detach(), expected, atol=1e-6)
        assert expected.argmax() == label or expected.max() < 0.9
    for op in main_function(student.module).body.block.ops:
        if isinstance(op, graph.LinearOperation):
            assert op.is_quantized
            assert np.mean(graph.known_array(op.weights) == 0) >= 0.79


def test_weights_of_few_bits_are_trained(tmp_path: Path, capsys):
    """The file has the trained integers, and training reduces the loss of 2 bits."""
    output = tmp_path / "out.onnx"
    options = ["--bits", "2,4:wide*", "--target", "c", "--epochs", "3", "--rate", "3e-3"]
    assert main([MODEL, *DATA, *options, "--device", "cpu", "-o", str(output)]) == 0
    scores = score(capsys.readouterr().err)
    assert max(scores[1:]) >= scores[0]
    chosen = replace(BuildOptions(), quantize="int8", target=find_target("c")())
    module = student_of(read_network(str(output)), chosen).module
    found = [
        (graph.stored_element(op.weights).width, np.abs(graph.known_array(op.weights)).max())
        for op in main_function(module).body.block.ops
        if isinstance(op, graph.LinearOperation)
    ]
    assert [bits for bits, _ in found] == [8, 4, 2, 8]
    assert found[1][1] <= 7 and found[2][1] <= 1


@pytest.mark.parametrize("optimizer", ("adam", "sgd"))
def test_a_resumed_run_gives_the_same_bits(tmp_path: Path, monkeypatch, optimizer: str):
    options = ["--epochs", "3", "--optimizer", optimizer, "--rate", "0.01", "--flip"]
    assert retrain(tmp_path / "whole.onnx", *options) == 0
    step, steps = trainer.TrainingRun._step, 0

    def interrupted(self, *args):
        nonlocal steps
        steps += 1
        if steps == 9:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, *args)

    monkeypatch.setattr(trainer.TrainingRun, "_step", interrupted)
    assert retrain(tmp_path / "parts.onnx", *options) == 130
    assert not (tmp_path / "parts.onnx").exists()
    assert (tmp_path / "parts.onnx.checkpoint").exists()
    assert retrain(tmp_path / "parts.onnx", *options, "--resume") == 0
    whole, parts = ((tmp_path / f"{name}.onnx").read_bytes() for name in ("whole", "parts"))
    assert whole == parts
    assert steps < 2 * 18


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(trainer.TrainingRun, "_patience_is_over", lambda self: self._stop())
    assert retrain(tmp_path / "out.onnx", "--epochs", "2") == 130
    capsys.readouterr()
    assert retrain(tmp_path / "out.onnx", "--epochs", "3", "--resume") == 1
    assert "is from another run" in capsys.readouterr().err
    (tmp_path / "out.onnx.checkpoint").write_bytes(b"not one")
    assert retrain(tmp_path / "out.onnx", "--epochs", "2", "--resume") == 1
    assert "not a checkpoint of ceras-retrain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "status", "message"),
    (
        (["--soft", "nothing"], 1, "there is no layer 'nothing'"),
        (["--soft", "a,b", "--alpha", "1,2,3"], 2, "--alpha has 3 numbers for 2 layers"),
        (["--epochs", "0"], 2, "--epochs must be >= 1"),
        (["--target", "c"], 2, "--target and --calibrate require --int8"),
        (["--label-output", "other"], 2, "there is no output 'other'"),
        (["--resume"], 1, "no such checkpoint"),
    ),
)
def test_refusals(tmp_path: Path, capsys, options: list[str], status: int, message: str):
    assert retrain(tmp_path / "out.onnx", *options) == status
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_divergence_is_said(tmp_path: Path, capsys):
    assert retrain(tmp_path / "out.onnx", "--epochs", "9", "--rate", "1e20") == 1
    assert "lower --rate" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


def test_early_stop_keeps_the_best(tmp_path: Path, capsys):
    """With a rate that destroys the network, the weights before training are the best."""
    options = ["--epochs", "9", "--patience", "2", "--rate", "30", "--schedule", "constant"]
    assert retrain(tmp_path / "out.onnx", *options) == 0
    scores = score(capsys.readouterr().err)
    assert len(scores) < 8
    best = int(np.argmax(scores))
    assert len(scores) - 1 - best == 2


def test_torch_is_asked_for(tmp_path: Path, monkeypatch, capsys):
    import builtins

    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name == "torch":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert retrain(tmp_path / "out.onnx") == 1
    assert f"needs torch: {install_command('retrain')}" in capsys.readouterr().err


SILU = """
func.func @main(%x: tensor<1x8x8x3xf32> {graph.name = "x"}) -> (
    tensor<1x4x4x6xf32> {graph.name = "y"}, tensor<1x4x4x2xf32> {graph.name = "z"}) {
  %w = graph.constant dense<WEIGHTS0> : tensor<6x3x3x3xf32> : tensor<6x3x3x3xf32>
  %0 = graph.conv2d %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 0, 0>,
    activation = #graph.function<swish>}
    : (tensor<1x8x8x3xf32>, tensor<6x3x3x3xf32>) -> tensor<1x4x4x6xf32> loc("stem")
  %u = graph.constant dense<WEIGHTS1> : tensor<6x1x1x6xf32> : tensor<6x1x1x6xf32>
  %1 = graph.conv2d %0, %u {activation = #graph.function<swish>}
    : (tensor<1x4x4x6xf32>, tensor<6x1x1x6xf32>) -> tensor<1x4x4x6xf32> loc("head/a")
  %v = graph.constant dense<WEIGHTS2> : tensor<2x1x1x6xf32> : tensor<2x1x1x6xf32>
  %2 = graph.conv2d %0, %v
    : (tensor<1x4x4x6xf32>, tensor<2x1x1x6xf32>) -> tensor<1x4x4x2xf32> loc("head/b")
  func.return %1, %2 : tensor<1x4x4x6xf32>, tensor<1x4x4x2xf32>
}
"""


@pytest.fixture
def silu(tmp_path: Path) -> Path:
    """Build a network of two outputs with SiLU, and samples for it."""
    generator, text = np.random.default_rng(3), SILU
    for number, shape in enumerate(((6, 3, 3, 3), (6, 1, 1, 6), (2, 1, 1, 6))):
        text = text.replace(f"WEIGHTS{number}", str(generator.normal(0, 0.3, size=shape).tolist()))
    path = tmp_path / "silu.mlir"
    path.write_text(text)
    np.savez(tmp_path / "x.npz", x=generator.normal(size=(64, 8, 8, 3)).astype(np.float32))
    return path


def test_hard_swish_learns_what_silu_did(silu: Path, tmp_path: Path):
    """Train without labels, on all outputs, with the unchanged network as reference."""
    output = tmp_path / "hard.onnx"
    options = ["--silu", "hardswish", "--soft", "stem,head/*", "--alpha", "0.1,1", "--relative"]
    common = ["--data", str(tmp_path / "x.npz"), "-o", str(output), "--device", "cpu"]
    schedule = ["--epochs", "12", "--rate", "0.01", "--threads", "1"]
    assert main([str(silu), *options, *common, *schedule]) == 0
    sample = {"x": np.load(tmp_path / "x.npz")["x"][:1]}
    plain = replace(BuildOptions(), quantize="none", silu="hardswish")
    untrained = student_of(read_network(str(silu)), plain).module
    wanted, *others = (
        {name: value.astype(np.float64) for name, value in run(module, sample).items()}
        for module in (read_network(str(silu)), untrained, read_network(str(output)))
    )
    before, after = (
        sum(np.square(found[name] - wanted[name]).mean() for name in ("y", "z")) for found in others
    )
    assert after < 0.7 * before
    kinds = {op.activation for op in main_function(read_network(str(output))).body.block.ops
             if isinstance(op, graph.LinearOperation)}  # fmt: skip
    assert graph.Function.SWISH not in {k.data for k in kinds if k is not None}


def test_patterns_of_soft_layers(silu: Path):
    """The first match counts; a name matches itself before it is a pattern."""
    network = TorchNetwork(read_network(str(silu)))
    assert network.by_layer({"head/b": 10.0, "head/*": 2.0}) == {"head/b": 10.0, "head/a": 2.0}
    with pytest.raises(InputError, match="there is no layer 'haed/\\*'"):
        network.by_layer({"haed/*": 1.0})


def test_only_hard_swish_is_for_floats(silu: Path, tmp_path: Path, capsys):
    options = ["--silu", "table16", "--data", str(tmp_path / "x.npz"), "-o", "out.onnx"]
    assert main([str(silu), *options]) == 2
    assert "--silu table16 requires --int8" in capsys.readouterr().err


def test_steps_are_shares_of_a_channel(silu: Path, tmp_path: Path):
    """With --channel-rates, the size of a channel limits its change, however small it is."""
    text = silu.read_text()
    small = TorchNetwork(read_network(str(silu))).get_parameter("weights0").detach().numpy().copy()
    small[0] /= 256
    first = text.index("dense<") + len("dense<")
    silu.write_text(f"{text[:first]}{small.tolist()}{text[text.index('>', first) :]}")
    furthest: dict[bool, float] = {}
    for limited in (True, False):
        options = ["--silu", "hardswish", "--soft", "stem", "--epochs", "1", "--rate", "0.01"]
        files = ["--data", str(tmp_path / "x.npz"), "-o", str(tmp_path / f"{limited}.onnx")]
        more = ["--channel-rates"] if limited else []
        assert main([str(silu), *options, *files, *more, "--device", "cpu", "--threads", "1"]) == 0
        change = (weights_of(tmp_path / f"{limited}.onnx")[0] - small).reshape(6, -1)
        sizes = np.sqrt(np.square(small).reshape(6, -1).mean(1, keepdims=True))
        furthest[limited] = float(np.abs(change / sizes)[0].max())
    # There are eight steps of 64 samples, and the rate falls to zero.
    assert furthest[True] < 0.08 < furthest[False]


def test_soft_layers_are_compared_at_the_scale_of_the_dense_network(tmp_path: Path):
    """Training does not undo the scaling of channels by `equalize-channels`."""
    rng = np.random.default_rng(0)
    sizes = 2.0 ** -np.arange(8.0)
    weights = [rng.normal(size=(8, 3, 3, 3)) * sizes[:, None, None, None]]
    weights += [rng.normal(size=(4, 8, 3, 3)) / sizes[:, None, None]]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], "first"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "w1"], ["y"], "second"),
    ]
    ends = [("x", (1, 3, 12, 12)), ("y", (1, 4, 8, 8))]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ends]
    held = [numpy_helper.from_array(w.astype(np.float32), f"w{i}") for i, w in enumerate(weights)]
    model = helper.make_model(helper.make_graph(nodes, "g", infos[:1], infos[1:], held))
    onnx.save(model, path := tmp_path / "m.onnx")
    x = rng.normal(size=(16, 1, 3, 12, 12)).astype(np.float32)
    np.savez(data := tmp_path / "x.npz", x=x)
    module = read_network(str(path))
    student = student_of(module, replace(BuildOptions(), quantize="int8", calibration=str(data)))
    network = TorchNetwork(student.module)
    dense = TorchNetwork(teacher_of(read_network(str(path))))
    assert network.is_equalized
    made = trainer.TrainingRun(
        network, dense, Examples([x], None), None, Settings(alphas={"first": 1.0}),
        torch.device("cpu"), "run",
    )  # fmt: skip
    assert len(set(made.factors["first"].tolist())) > 4
    with torch.no_grad():
        features = dense([torch.from_numpy(x[0])], made.teacher_features)[1]["first"]
        loss = made._loss([torch.from_numpy(x[0])], None)
    assert float(loss) < 1e-3 * float(features.square().mean())
