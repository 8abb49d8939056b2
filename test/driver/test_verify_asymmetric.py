"""`ceras-verify` of networks with zero points: the machines that take them, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
from onnx_random import random_network

from ceras_ir.data.samples import save_arrays
from ceras_ir.driver.verify.tool import main
from ceras_ir.transforms.quantization_options import OPTIONAL

DIGITS = Path(__file__).parents[2] / "examples/digits"


@pytest.mark.needs("nnet", "onnx", "vta")
@pytest.mark.slow
@pytest.mark.parametrize("silu", ["table", "table16", "float"])
def test_digits(silu: str) -> None:
    data = ("--inputs", str(DIGITS / "digits_test.npz"), "--samples", "4")
    calibrate = ("--calibrate", str(DIGITS / "digits_calibration.npz"))
    scheme = (
        "--recipe",
        "fit-inputs,equalize-channels,choose-zero-points,round-weights",
        "--silu",
        silu,
    )
    model = str(DIGITS / "digits.onnx")
    assert main([model, *data, *calibrate, *scheme, "--targets", "c,nnet,vta,onnx"]) == 0


@pytest.mark.needs("nnet", "onnx")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    network, random = random_network(seed), np.random.default_rng(seed)
    model, data = str(tmp_path / "n.onnx"), str(tmp_path / "n.npz")
    Path(model).write_bytes(network.SerializeToString())
    inputs = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in network.graph.input
    }
    arrays = {n: random.uniform(-1, 2, (4, *shape[1:])) for n, shape in inputs.items()}
    save_arrays(data, {name: array.astype(np.float32) for name, array in arrays.items()})
    recipe = ("fit-inputs,choose-zero-points", ",".join(OPTIONAL))[seed % 2]
    options = ("--inputs", data, "--samples", "2", "--calibrate", data, "--recipe", recipe)
    assert main([model, *options, "--targets", "c,nnet,onnx"]) == 0
