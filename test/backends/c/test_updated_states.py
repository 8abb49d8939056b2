"""Test caches of keys and values as states: rows are written in place, and read as stored."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx_models as om
import pytest
from decoder_networks import FORMS, Form, decoder, states, steps

from ceras_ir.driver.compile import main as compile_tool
from ceras_ir.driver.run import main as run_tool

ROWS = 8
STEPS = 2 * ROWS + 3
"""The ring is overwritten twice."""


def _files(folder: Path, form: Form) -> tuple[str, str, list[str]]:
    """Return the model, the samples of a sequence, and the options that declare the states."""
    (folder / "model.onnx").write_bytes(decoder(form, rows=ROWS).SerializeToString())
    samples = steps(form, STEPS, ROWS)
    arrays = {name: np.stack([s[name] for s in samples]) for name in samples[0]}
    np.savez(folder / "in.npz", allow_pickle=False, **arrays)
    flags = [text for pair in states().items() for text in ("--state", "=".join(pair))]
    return str(folder / "model.onnx"), str(folder / "in.npz"), flags


def _by_runtime(form: Form) -> om.Array:
    """Run ONNX Runtime step by step; the caller passes the caches."""
    model, pairs = decoder(form, rows=ROWS), states()
    kept = {name: np.zeros((1, 2, ROWS, 16), np.float32) for name in pairs}
    found: list[om.Array] = []
    for step in steps(form, STEPS, ROWS):
        results = om.run_onnxruntime(model, {**step, **kept})
        kept = {name: results[result] for name, result in pairs.items()}
        found.append(results["logits"])
    return np.stack(found)


def _run(model: str, data: str, out: Path, *options: str) -> om.Array:
    assert run_tool([model, "--inputs", data, "--outputs", str(out), *options]) == 0
    with np.load(out) as file:
        return file["logits"].reshape(STEPS, 1, 1, -1)


@pytest.mark.parametrize("form", FORMS)
def test_steps_are_those_of_a_caller_who_passes_the_caches(tmp_path: Path, form: Form):
    model, data, flags = _files(tmp_path, form)
    found = _run(model, data, tmp_path / "out.npz", *flags, "--target", "c")
    np.testing.assert_allclose(found, _by_runtime(form), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_integers_are_those_of_the_interpreter(tmp_path: Path, form: Form):
    model, data, flags = _files(tmp_path, form)
    options = (*flags, "--quantize", "int8", "--calibrate", data)
    reference = _run(model, data, tmp_path / "a.npz", *options)
    found = _run(model, data, tmp_path / "b.npz", *options, "--target", "c")
    np.testing.assert_array_equal(found, reference)
    expected = _by_runtime(form)
    assert np.square(reference - expected).sum() < 0.02 * np.square(expected).sum()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_only_the_new_rows_of_caches_are_copied(tmp_path: Path, form: Form, quantize: str):
    model, data, flags = _files(tmp_path, form)
    options = ("--quantize", quantize, *(("--calibrate", data) if quantize == "int8" else ()))
    folder = tmp_path / "out"
    assert compile_tool([model, *flags, "--target", "c", *options, "-o", str(folder)]) == 0
    text = (folder / "model.c").read_text()
    names = re.findall(r"layer_(\d+)_update\(", text)
    assert len(set(names)) >= 1
    copies = [int(n) for n in re.findall(r"memcpy\(.*, (\d+)U \* sizeof", text)]
    moved = [int(n) for n in re.findall(r"memcpy\(MODEL_AT.*, (\d+)\);", text)]
    assert all(count < 2 * 16 * ROWS for count in [*copies, *moved]), "a cache is copied"
    assert "transpose" not in text and "memmove" not in text


def test_results_do_not_depend_on_the_position_in_the_ring(tmp_path: Path):
    """Integers of the same last rows are equal at each position of the oldest row."""
    model, data, flags = _files(tmp_path, "window")
    token = np.tile(np.array([[5]]), (STEPS, 1, 1))
    mask = np.zeros((STEPS, 1, 1, 1, ROWS), np.float32)
    np.savez(data, token=token, mask=mask)
    found = _run(model, data, tmp_path / "out.npz", *flags, "--target", "c")
    assert all((a == b).all() for a, b in pairwise(found[ROWS:]))


def test_the_states_are_reset(tmp_path: Path):
    """A second sequence in the same folder begins with an empty ring."""
    model, data, flags = _files(tmp_path, "window")
    folder = str(tmp_path / "out")
    assert compile_tool([model, *flags, "--target", "c", "-o", folder]) == 0
    first = _run(folder, data, tmp_path / "a.npz")
    np.testing.assert_array_equal(_run(folder, data, tmp_path / "b.npz"), first)
