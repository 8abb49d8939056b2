"""
Compile networks of TensorFlow Lite for each target.

Targets with the arithmetic of the kernels return their integers. Other targets compute the network
between Q/DQ: with multipliers, each operation differs by at most a unit, and with shifts only, the
scales become powers of two and the loss is printed.
"""

from pathlib import Path

import numpy as np
import pytest
from conftest import Tool
from numpy.typing import NDArray
from tflite_cases import (
    CASES,
    GOLDEN_FILE,
    SAMPLES,
    Network,
    conv_options,
    depthwise_options,
    inputs_of,
)
from tflite_files import FileModel
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.frontends.tflite import import_file
from ceras_ir.interpreters.network import in_turn
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.support.diagnostics import UnsupportedError
from ceras_ir.targets.registry import find_target

Array = NDArray[np.generic]

GOLDEN = np.load(GOLDEN_FILE)
INTEGERS = [name for name in CASES if not name.endswith("float32")]
WEIGHT_STEP = 2.0**-8
"""The largest difference between weights of floats and of 10 bits, in both dimensions together."""
MIN_DB = 14.0
"""The least signal-to-noise ratio of a single operation with power-of-two scales."""


def quantized(name: str, target: str, folder: Path) -> ModuleOp:
    """Return the quantized graph of a network for a target."""
    path = folder / f"{name}.tflite"
    path.write_bytes(CASES[name]().data())
    module = import_file(str(path))
    options = BuildOptions(find_target(target)())
    run_stages(load_context(), module, front_stages(options.resolved(module)))
    return module


def results(name: str, module: ModuleOp) -> dict[str, Array]:
    samples = inputs_of(name, CASES[name]())
    turns = [{label: array[i] for label, array in samples.items()} for i in range(SAMPLES)]
    found = list(in_turn(module, turns))
    wanted = [label for label in found[0] if f"{name}|{label}" in GOLDEN]
    return {label: np.stack([each[label] for each in found]) for label in wanted}


@pytest.mark.parametrize("name", INTEGERS)
def test_the_passes_of_c_keep_the_integers(name: str, tmp_path: Path):
    for label, array in results(name, quantized(name, "c", tmp_path)).items():
        np.testing.assert_array_equal(array, GOLDEN[f"{name}|{label}"])


@pytest.mark.needs("nnet")
@pytest.mark.parametrize("name", INTEGERS)
def test_a_target_with_multipliers_differs_by_a_unit(name: str, tmp_path: Path):
    module = quantized(name, "nnet", tmp_path)
    ops = main_function(module).body.block.ops
    assert not any(isinstance(op, GraphOperation) and op.has_kernel_form for op in ops)
    for label, array in results(name, module).items():
        wanted = GOLDEN[f"{name}|{label}"]
        unit = 1.0 if wanted.dtype.kind != "f" else 1e-6
        if name == "bilinear_int16":
            unit = WEIGHT_STEP * 2.0**16
        assert np.abs(array.astype(np.float64) - wanted).max() <= unit


@pytest.mark.needs("vta")
@pytest.mark.parametrize("name", INTEGERS)
def test_a_target_with_shifts_prints_the_loss(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    try:
        module = quantized(name, "vta", tmp_path)
    except UnsupportedError as error:
        assert name.startswith(("variable", "lstm", "svdf")) and "keeps no states" in str(error)
        return
    printed = capsys.readouterr().err
    for label, array in results(name, module).items():
        wanted = GOLDEN[f"{name}|{label}"].astype(np.float64)
        noise = ((array - wanted) ** 2).sum()
        if not noise:
            continue
        # Ties are to even.
        if name != "ties_int8":
            assert "scales changed to powers of two; steps are coarser by" in printed
        signal = ((wanted - wanted.mean()) ** 2).sum()
        assert 10 * np.log10(signal / noise) > MIN_DB


def network() -> FileModel:
    """Return a network with a layer of each kind that accelerators have, and softmax."""
    n = Network("layers", "int8")
    x = n.input(1, 16, 16, 3)
    w, scales = n.weights(16, 3, 3, 3, axis=0)
    y = n.value(1, 8, 8, 16)
    n.model.add("CONV_2D", [x, w, n.bias(16, x, scales)], y, conv_options(0, (2, 2), 3))
    v, scales = n.weights(1, 3, 3, 16, axis=3)
    z = n.value(1, 8, 8, 16)
    n.model.add("DEPTHWISE_CONV_2D", [y, v, n.bias(16, y, scales)], z, depthwise_options(1))
    total, mean = n.value(1, 8, 8, 16), n.value(1, 16)
    n.model.add("ADD", [y, z], total, [(0, "Int8", 1), (1, "Bool", False)])
    n.model.add("MEAN", [total, n.integers(1, 2)], mean, [(0, "Bool", False)])
    d, scales = n.weights(10, 16)
    dense, result = n.value(1, 10), n.value(1, 10, scale=1 / 256, point=-128)
    n.model.add("FULLY_CONNECTED", [mean, d, n.bias(10, mean, scales)], dense, [(0, "Int8", 0)])
    n.model.add("SOFTMAX", [dense], result, [(0, "Float32", 1.0)])
    return n.done(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [
        pytest.param(name, marks=pytest.mark.needs(name) if name != "c" else ())
        for name in ("c", "nnet", "vta", "dataflow", "onnx", "mlir")
    ],
)
def test_levels_are_exact(target: str, tool: Tool, tmp_path: Path):
    (tmp_path / "layers.tflite").write_bytes(network().data())
    done = tool("ceras-verify", "layers.tflite", "--targets", target, "--floor", "0")
    assert done.status == 0, done.stderr
    assert f"{target}: placed graph" in done.stdout
