"""Test `--state`: a network keeps values from call to call, in each way to run it."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx_models as om
import pytest
from frontends.test_dynamic_lstm import Layer
from recurrent_networks import NETWORKS, STATES, sequence

from ceras_ir.command.entry_point import Command
from ceras_ir.driver.compile import main as compile_tool
from ceras_ir.driver.run import main as run_tool
from ceras_ir.driver.verify.tool import main as verify_tool
from ceras_ir.targets.registry import find_target, target_names

EVERY = [
    "gru",
    *(pytest.param(name, marks=pytest.mark.slow) for name in sorted(NETWORKS) if name != "gru"),
]


def _flags(name: str) -> list[str]:
    return [text for pair in STATES[name].items() for text in ("--state", "=".join(pair))]


def _files(folder: Path, name: str) -> tuple[str, str]:
    """Return the model, and the samples of a sequence."""
    (folder / "model.onnx").write_bytes(NETWORKS[name]().SerializeToString())
    steps = sequence(name)
    np.savez(folder / "in.npz", x=steps[:, 0] if name != "lstm" else steps)
    return str(folder / "model.onnx"), str(folder / "in.npz")


def _by_runtime(path: str, name: str) -> om.Array:
    """Run ONNX Runtime, pass the states in the caller, and return the outputs."""
    model = onnx.load_model_from_string(Path(path).read_bytes())
    kept = {
        state: np.zeros([int(d) for d in om.value_shape(model, state)], np.float32)
        for state in STATES[name]
    }
    found: list[om.Array] = []
    for x in sequence(name):
        results = om.run_onnxruntime(model, {"x": x, **kept})
        kept = {state: results[result] for state, result in STATES[name].items()}
        found.append(results["y"])
    return np.stack(found)


def _run(model: str, data: str, out: Path, *options: str) -> om.Array:
    assert run_tool([model, "--inputs", data, "--outputs", str(out), *options]) == 0
    with np.load(out) as file:
        assert file.files == ["y"]
        return file["y"]


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_ten_steps_are_those_of_a_caller_who_hands_states_back(tmp_path: Path, name: str):
    model, data = _files(tmp_path, name)
    expected = _by_runtime(model, name)
    for options in ((), ("--target", "c")):
        found = _run(model, data, tmp_path / "out.npz", *_flags(name), *options)
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["interp", "c", "nnet"])
def test_states_that_each_step_quantizes(tmp_path: Path, target: str):
    """The states are passed as floats."""
    layer = Layer(steps=1, starts=True)
    model, data = str(tmp_path / "model.onnx"), str(tmp_path / "in.npz")
    (tmp_path / "model.onnx").write_bytes(layer.model().SerializeToString())
    x = np.random.default_rng(3).normal(0, 1, (8, 1, 1, 5)).astype(np.float32)
    np.savez(data, x=x)
    options = ("--state", "h=hn", "--state", "c=cn", "--target", target)
    found = _run(model, data, tmp_path / "out.npz", *options)
    kept = {name: np.zeros((1, 1, layer.hidden), np.float32) for name in "hc"}
    for step, actual in zip(x, found.reshape(8, -1), strict=True):
        results = om.run_onnxruntime(layer.model(), {"x": step, **kept})
        kept = {"h": results["hn"], "c": results["cn"]}
        np.testing.assert_allclose(actual, results["y"].reshape(-1), rtol=0, atol=4e-6)


def test_passes_are_bisected_through_a_sequence(tmp_path: Path):
    """Callers pass no states; a state with a changed type starts at zero."""
    model, data = _files(tmp_path, "gru")
    options = (*_flags("gru"), "--quantize", "int8", "--calibrate", data, "--bisect-passes")
    _run(model, data, tmp_path / "out.npz", *options)


def test_a_network_with_a_name_of_its_own_is_reset_too(tmp_path: Path):
    model, data = _files(tmp_path, "gru")
    options = (*_flags("gru"), "--target", "c")
    reference = _run(model, data, tmp_path / "a.npz", *options)
    folder = str(tmp_path / "ears")
    assert compile_tool([model, *options, "--name", "ears", "-o", folder]) == 0
    named = _run(folder, data, tmp_path / "b.npz")
    np.testing.assert_array_equal(named, reference)


def test_states_stay_in_a_region_that_has_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, data = _files(tmp_path, "gru")
    options = (*_flags("gru"), "--target", "c")
    reference = _run(model, data, tmp_path / "a.npz", *options)
    folder, regions = str(tmp_path / "out"), "small:224,large:1000"
    assert compile_tool([model, *options, "--regions", regions, "-o", folder]) == 0
    assert "MODEL_IN(large, float, MODEL_STATE" in (tmp_path / "out" / "model.c").read_text()
    np.testing.assert_array_equal(_run(folder, data, tmp_path / "b.npz"), reference)
    capsys.readouterr()
    regions = regions.replace("1000", "8")
    assert compile_tool([model, *options, "--regions", regions, "-o", folder, "--force"]) == 1
    assert "no region has room for the 32 bytes of states" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_integers_in_c_are_the_interpreters(tmp_path: Path, name: str):
    model, data = _files(tmp_path, name)
    options = (*_flags(name), "--quantize", "int8", "--calibrate", data)
    reference = _run(model, data, tmp_path / "a.npz", *options)
    np.testing.assert_array_equal(
        _run(model, data, tmp_path / "b.npz", *options, "--target", "c"), reference
    )
    expected = _by_runtime(model, name).reshape(reference.shape)
    assert np.square(reference - expected).sum() < 0.01 * np.square(expected).sum()


@pytest.mark.parametrize("name", EVERY)
def test_verify_goes_through_a_sequence(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
):
    model, data = _files(tmp_path, name)
    targets = [name for name in ("c", "nnet") if name in target_names()]
    options = ["--inputs", data, "--calibrate", data, "--targets", ",".join(targets)]
    assert verify_tool([model, *options[2:], *_flags(name)]) == 0, "made-up steps have no states"
    capsys.readouterr()
    assert verify_tool([model, *options, *_flags(name)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("10 sample(s), " + lines[0].rpartition("sample(s), ")[2])
    for target in targets:
        line = next(line for line in lines if line.startswith(f"{target}: machine"))
        assert line.endswith("exact")


def test_a_state_in_integers_is_stored_so(tmp_path: Path):
    model, data = _files(tmp_path, "gru")
    out = tmp_path / "out"
    options = ["--target", "c", "--calibrate", data, "--state", "h=hn", "-o", str(out)]
    assert compile_tool([model, *options]) == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert [tensor["name"] for tensor in manifest["inputs"]] == ["x"]
    assert [tensor["name"] for tensor in manifest["outputs"]] == ["y"]
    (state,) = manifest["states"]
    assert (state["name"], state["output"], state["dtype"]) == ("h", "hn", "int8")
    report = json.loads((out / "report.json").read_text())
    assert report["totals"]["state_bytes"] == 16
    buffers = report["memory"]["buffers"]
    assert [(b["name"], b["size"]) for b in buffers if b.get("kind") == "state"] == [("h", 16)]
    ends = [b["offset"] + b["size"] for b in buffers]
    assert max(ends) == report["memory"]["size"] == report["totals"]["arena_bytes"]
    header = (out / "model.h").read_text()
    assert "void model_reset(void);" in header and "int model_reset_in(void *arena);" in header
    # The next state overwrites the last state: nothing is copied.
    assert "memcpy(MODEL_AT" not in (out / "model.c").read_text()


@pytest.mark.parametrize("target", ["c", "nnet"])
def test_every_run_of_a_folder_begins_anew(tmp_path: Path, target: str):
    """The samples of a run are a single sequence."""
    model, data = _files(tmp_path, "gru")
    np.savez(tmp_path / "in.npz", x=sequence("gru", steps=20)[:, 0])
    out = tmp_path / "out"
    options = ["--target", target, "--calibrate", data, "--state", "h=hn"]
    assert compile_tool([model, *options, "-o", str(out)]) == 0
    first = _run(str(out), data, tmp_path / "a.npz")
    np.testing.assert_array_equal(_run(str(out), data, tmp_path / "b.npz"), first)
    reference = _run(model, data, tmp_path / "c.npz", *options)
    np.testing.assert_array_equal(reference, first)
    assert json.loads((out / "report.json").read_text())["totals"]["state_bytes"] > 0


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("g=hn", "--state g=hn: there is no input 'g'"),
        ("h=hm", "state 'h': there is no result 'hm'"),
        ("x=hn", "state 'x' is tensor<1x6xf32>, but the result 'hn' is tensor<1x8xf32>"),
    ],
)
def test_what_is_no_state_is_refused(
    tmp_path: Path, pair: str, message: str, capsys: pytest.CaptureFixture[str]
):
    model, _ = _files(tmp_path, "gru")
    status = compile_tool([model, "--target", "c", "--state", pair, "-o", str(tmp_path / "o")])
    assert status == 1
    assert message in capsys.readouterr().err


@pytest.mark.needs("nnet", "onnx", "vta")
def test_targets_that_keep_no_states_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, _ = _files(tmp_path, "gru")
    for options in (["--target", "vta"], ["--target", "onnx", "--quantize", "none"]):
        options += ["--state", "h=hn", "-o", str(tmp_path / "o")]
        assert compile_tool([model, *options]) == 3
        said = capsys.readouterr().err
        assert "node 'h' (input): error: unsupported on target" in said
        assert "which keeps no states: leave out --state h=hn" in said
        assert "arduino, c, nnet keep states" in said
        assert "observe-ranges" not in said


@pytest.mark.needs("nnet")
def test_states_are_refused_beside_all_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(find_target("nnet"), "keeps_states", False)
    layer = onnx.helper.make_node("RNN", ["x", "w", "r", "", "", "h"], ["y", "hn"], hidden_size=3)
    inputs = {"x": [2, 1, 4], "r": [1, 3, 3], "h": [1, 1, 3]}
    weights = np.ones((1, 3, 4), np.float32)
    model = om.model([layer], inputs, ["y", "hn"], {"w": weights})
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    options = ["--target", "nnet", "--state", "h=hn", "-o", str(tmp_path / "o")]
    assert compile_tool([str(tmp_path / "model.onnx"), *options]) == 3
    said = capsys.readouterr().err
    assert "(input): error: unsupported on target nnet, which keeps no states" in said
    assert "the engine requires constant weights of a recurrent layer" in said


compare_tool = Command("ceras-compare", "", "ceras_ir.workbench.compare.tool")

KEEPING = """
import numpy as np


def keep(outputs, labels):
    np.savez(f"{folder}/{{np.ptp(outputs['y'])}}.npz", y=outputs["y"])
    return 0.0
"""


@pytest.mark.needs("workbench")
@pytest.mark.parametrize("name", EVERY)
def test_comparing_goes_through_the_sequence(tmp_path: Path, name: str) -> None:
    """Both networks use separate states, as in separate runs."""
    model, data = _files(tmp_path, name)
    (tmp_path / "kept").mkdir()
    (tmp_path / "m.py").write_text(KEEPING.format(folder=tmp_path / "kept"))
    metric = ("--metric", f"{tmp_path}/m.py:keep")
    quantized = ("--calibrate", data)
    options = (model, "--inputs", data, *_flags(name), *quantized)
    assert compare_tool([*options, *metric, "--jobs", "1"]) == 2
    assert compare_tool([*options, *metric]) == 0
    floats = _run(model, data, tmp_path / "a.npz", *_flags(name))
    integers = _run(model, data, tmp_path / "b.npz", *_flags(name), *quantized)
    kept = [np.load(path)["y"] for path in (tmp_path / "kept").iterdir()]
    assert len(kept) == 2
    assert any(np.array_equal(found.reshape(integers.shape), integers) for found in kept)
    # Fusion may change the last bit.
    assert any(np.allclose(found.reshape(floats.shape), floats, atol=1e-6) for found in kept)
    shutil.copy(data, other := str(tmp_path / "other.npz"))
    assert compare_tool([*options, "--inputs", other, "--propose"]) == 0
