"""Check `ceras-verify` for networks with zero points, without inputs, and refused by a target."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import model, node
from onnx_random import random_network

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.driver.verify import levels
from ceras_ir.driver.verify.levels import LevelComparison, Outputs
from ceras_ir.driver.verify.tool import main
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions, Insertion
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.quantization.analysis.output_noise import noise_of
from ceras_ir.transforms.quantization_options import OPTIONAL_PASSES

DIGITS = Path(__file__).parents[2] / "examples/digits"


@pytest.mark.needs("nnet", "onnx", "vta")
@pytest.mark.slow
@pytest.mark.parametrize("silu", ["table", "table16", "float"])
def test_digits_with_zero_points(silu: str) -> None:
    data = ("--inputs", str(DIGITS / "digits_test.npz"), "--samples", "4")
    calibrate = ("--calibrate", str(DIGITS / "digits_calibration.npz"))
    scheme = (
        "--recipe",
        "fit-inputs,equalize-channels,choose-zero-points,round-weights",
        "--silu",
        silu,
    )
    digits = str(DIGITS / "digits.onnx")
    assert main([digits, *data, *calibrate, *scheme, "--targets", "c,nnet,vta,onnx"]) == 0


@pytest.mark.needs("nnet", "onnx")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_networks_with_zero_points(seed: int, tmp_path: Path) -> None:
    network, random = random_network(seed), np.random.default_rng(seed)
    path, data = str(tmp_path / "n.onnx"), str(tmp_path / "n.npz")
    Path(path).write_bytes(network.SerializeToString())
    inputs = {
        i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in network.graph.input
    }
    arrays = {n: random.uniform(-1, 2, (4, *shape[1:])) for n, shape in inputs.items()}
    save_arrays(data, {name: array.astype(np.float32) for name, array in arrays.items()})
    recipe = ("fit-inputs,choose-zero-points", ",".join(OPTIONAL_PASSES))[seed % 2]
    options = ("--inputs", data, "--samples", "2", "--calibrate", data, "--recipe", recipe)
    assert main([path, *options, "--targets", "c,nnet,onnx"]) == 0


@pytest.mark.slow
def test_a_network_without_inputs(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    proto = model([node("Neg", "w", "y")], {}, ["y"], {"w": [1.0, -2.0, 3.0]})
    path.write_bytes(proto.SerializeToString())
    assert main([str(path), "--samples", "3"]) == 0


SUPPRESSION = """\
func.func @main(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>) -> tensor<4x3xi64> {
  %0 = graph.suppress %b, %s {most = 2 : i64, overlap = 0.5 : f32, least = 0.2 : f32}
    : (tensor<1x6x4xf32>, tensor<1x2x6xf32>) -> tensor<4x3xi64>
  func.return %0 : tensor<4x3xi64>
}
"""


@pytest.mark.needs("nnet")
def test_a_refusal_does_not_stop_other_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "model.mlir"
    path.write_text(SUPPRESSION)
    assert main([str(path), "--targets", "nnet,c", "--samples", "1"]) == 3
    printed = capsys.readouterr()
    verdicts = dict(line.split("  ", 1) for line in printed.out.splitlines()[1:])
    assert verdicts["nnet: fused graph"].strip() == "unsupported"
    assert verdicts["c: machine"].strip() == "exact"
    assert printed.err.count("error: unsupported: the nnet format has no such operation") == 1


@pytest.mark.needs("nnet")
def test_a_refusal_does_not_change_the_samples_of_the_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The sample with both signs, outside the range of the scales, is for passes of the user."""
    counts: list[int] = []

    def recorded(real: Sequence[Outputs], *rest: Any) -> Any:
        counts.append(len(real))
        return noise_of(real, *rest)

    monkeypatch.setattr(levels, "noise_of", recorded)
    path = tmp_path / "model.mlir"
    path.write_text(SUPPRESSION)
    targets = [find_target(name)() for name in ("nnet", "c")]
    added = Insertion("fused graph", "", ())
    options = BuildOptions(targets[0], quantize="int8", insertions=(added,), has_blocks=False)
    comparison = LevelComparison(read_network(str(path)), options, None, None)
    first, *others = [verdict.level for verdict in comparison.run(targets) if verdict.refused]
    assert (first, others) == ("nnet: fused graph", [])
    assert counts == [levels.SYNTHETIC_SAMPLES]
