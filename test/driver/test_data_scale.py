"""Check that data of another type or scale than expected is reported; `--floor` decides."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ceras_ir.command.entry_point import Command
from ceras_ir.data.magnitudes import note_calibration
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.run import main as run_main
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text

compare_main = Command("ceras-compare", "", "ceras_ir.workbench.compare.tool")

NETWORK = """
!row = tensor<1x4xf32>
!out = tensor<1x2xf32>
func.func @main(%x: !row {graph.name = "x"}) -> (!out {graph.name = "y"}) {
  %w = graph.constant dense<[[0.25, -0.5, 0.125, 0.3], [0.5, 0.25, -1.0, 0.75]]> : tensor<2x4xf32>
      : tensor<2x4xf32>
  %0 = graph.matmul %x, %w : (!row, tensor<2x4xf32>) -> !out loc("layer")
  func.return %0 : !out
}
"""
UNIT = np.random.default_rng(9).uniform(0, 1, (40, 4)).astype(np.float32)
UNIT[0, 0] = 1.0
BYTES = np.rint(UNIT * 255)


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "m.mlir").write_text(NETWORK)
    return str(tmp_path / "m.mlir")


def saved(folder: Path, name: str, data: NDArray[np.generic]) -> str:
    np.savez(folder / name, x=data)
    return str(folder / name)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (BYTES.astype(np.uint8), "warning: the calibration data of input 'x' has type uint8"),
        (BYTES.astype(np.int64), "warning: the calibration data of input 'x' has type int64"),
        (BYTES, "warning: the calibration data of input 'x' are numbers from 0 to 255"),
        (UNIT, None),
        (BYTES - 128, None),
        (np.rint(UNIT * 9), None),
    ],
)
def test_calibration_data(
    data: NDArray[np.generic],
    expected: str | None,
    model: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    path, out = saved(tmp_path, "c.npz", data), str(tmp_path / "out")
    assert compile_main([model, "--target", "c", "--calibrate", path, "-o", out]) == 0
    said = capfd.readouterr().err
    assert ("of input 'x'" in said) == (expected is not None)
    assert expected is None or (expected in said and "--input-image" in said)


IMAGES = """
!image = tensor<1x1x2x2xf32>
func.func @main(%x: !image {graph.name = "x"}) -> (!image {graph.name = "y"}) {
  BODY
}
"""
MEAN = """%m = graph.constant dense<MEAN> : tensor<1xf32> : tensor<1xf32>
  %s = graph.constant dense<SCALE> : tensor<1xf32> : tensor<1xf32>
  %0 = graph.binary sub %x, %m : (!image, tensor<1xf32>) -> !image
  %1 = graph.binary mul %0, %s : (!image, tensor<1xf32>) -> !image
  %2 = graph.unary <relu> %1 : !image
  func.return %2 : !image"""
FILTER = """%r = graph.reshape %x : (!image) -> tensor<1x4xf32>
  %w = graph.constant dense<SCALE> : tensor<4x4xf32> : tensor<4x4xf32>
  %0 = graph.matmul %r, %w : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %1 = graph.reshape %0 : (tensor<1x4xf32>) -> !image
  func.return %1 : !image"""
BATCH_NORM = """%s = graph.constant dense<SCALE> : tensor<3x1x1xf32> : tensor<3x1x1xf32>
  %b = graph.constant dense<MEAN> : tensor<3x1x1xf32> : tensor<3x1x1xf32>
  %0 = graph.binary mul %x, %s : (!image, tensor<3x1x1xf32>) -> !image
  %1 = graph.binary add %0, %b : (!image, tensor<3x1x1xf32>) -> !image
  %2 = graph.unary <relu> %1 : !image
  func.return %2 : !image"""
QDQ = """%q = graph.quantize %x : (!image) -> tensor<1x1x2x2x!quant.uniform<u8:f32, SCALE>>
  %0 = graph.dequantize %q : (tensor<1x1x2x2x!quant.uniform<u8:f32, SCALE>>) -> !image
  func.return %0 : !image"""
RELU = """%0 = graph.unary <relu> %x : !image
  func.return %0 : !image"""


@pytest.mark.parametrize("kind", [np.uint8, np.float32, "resized"])
@pytest.mark.parametrize(
    ("body", "mean", "scale", "reported"),
    [
        (MEAN, 127.5, 1 / 127.5, False),
        (MEAN, 103.9, 1.0, False),
        # The network was trained on 0 to 1, and then normalized.
        (MEAN, 0.485, 1 / 0.229, True),
        (FILTER, 0, 0.3 / 255, False),
        (FILTER, 0, 0.3, True),
        (QDQ, 0, 1.0, False),
        (QDQ, 0, 1 / 255, True),
        (RELU, 0, 0, True),
    ],
)
def test_a_network_that_normalizes_pixels(
    body: str,
    mean: float,
    scale: float,
    reported: bool,
    kind: str | type[np.generic],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    model = tmp_path / "m.mlir"
    filled = body.replace("MEAN", f"{mean:e}").replace("SCALE", f"{scale:e}")
    model.write_text(IMAGES.replace("BODY", filled))
    pixels = np.random.default_rng(3).uniform(0, 255, (40, 1, 2, 2))
    pixels[0, 0, 0] = 0, 255
    data = pixels.astype(np.float32) if isinstance(kind, str) else np.rint(pixels).astype(kind)
    main = main_function(parse_text(load_context(), model.read_text(), "m.mlir"))
    path = saved(tmp_path, "c.npz", data)
    note_calibration(path, main)
    said = capfd.readouterr().err
    assert ("of input 'x'" in said) == reported
    assert not reported or "divide pixels by 255" in said


@pytest.mark.parametrize(
    ("scales", "offset", "reported"),
    [
        # The standard deviation is 60, and 0 in the last channel.
        ((1 / 60, 1 / 60, 300), -2, False),
        # Dark images: the mean is 5, and the standard deviation 3.
        ((1 / 3, 1 / 3, 1 / 3), -1.7, False),
        # The network was trained on 0 to 1; the batch norm ignores the last channel.
        ((2, 2, 0), -1, True),
    ],
)
def test_a_batch_norm_of_the_input(
    scales: tuple[float, ...],
    offset: float,
    reported: bool,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    constant = "[" + ", ".join(f"[[{scale:e}]]" for scale in scales) + "]"
    body = BATCH_NORM.replace("SCALE", constant).replace("MEAN", f"{offset:e}")
    text = IMAGES.replace("BODY", body).replace("1x1x2x2", "1x3x2x2")
    pixels = np.random.default_rng(3).integers(0, 256, (40, 3, 2, 2)).astype(np.float32)
    main = main_function(parse_text(load_context(), text, "m.mlir"))
    note_calibration(saved(tmp_path, "c.npz", pixels), main)
    assert ("of input 'x'" in capfd.readouterr().err) == reported


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "reported"), [(255.0, True), (4.5, True), (3.5, False), (0.3, False), (0.2, True)]
)
def test_inputs_of_another_scale(
    factor: float,
    reported: bool,
    model: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    calibration = saved(tmp_path, "c.npz", UNIT)
    inputs = saved(tmp_path, "i.npz", (UNIT * factor).astype(np.float32))
    folder, out = str(tmp_path / "out"), str(tmp_path / "y.npz")
    assert compile_main([model, "--target", "c", "--calibrate", calibration, "-o", folder]) == 0
    quantized = ["--calibrate", calibration]
    commands = [
        lambda: run_main([folder, "--inputs", inputs, "--outputs", out]),
        lambda: run_main([model, *quantized, "--inputs", inputs, "--outputs", out]),
        lambda: verify_main([model, *quantized, "--inputs", inputs, "--targets", "c"]),
        lambda: compare_main([model, *quantized, "--inputs", inputs]),
    ]
    capfd.readouterr()
    for command in commands:
        command()
        said = capfd.readouterr().err
        assert ("the largest magnitude in the data of input 'x'" in said) == reported


@pytest.mark.slow
def test_nan_in_the_data_of_a_quantized_network(
    model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ends = ["--calibrate", saved(tmp_path, "c.npz", UNIT), "--outputs", str(tmp_path / "o.npz")]
    wrong = UNIT[:3].copy()
    wrong[1, 2] = np.nan
    for data, reported in ((wrong, True), (UNIT[:3], False)):
        assert run_main([model, "--inputs", saved(tmp_path, "i.npz", data), *ends]) == 0
        assert ("warning: the data of input 'x' have NaN" in capfd.readouterr().err) == reported


@pytest.mark.parametrize(
    "command", [pytest.param("compare", marks=pytest.mark.needs("workbench")), "verify"]
)
def test_floor(command: str, model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    calibration = saved(tmp_path, "c.npz", UNIT)
    large = saved(tmp_path, "i.npz", UNIT * 255)
    one = saved(tmp_path, "one.npz", UNIT[:1] * 255)
    main = compare_main if command == "compare" else verify_main
    more = ["--targets", "c"] if command == "verify" else []

    def status(inputs: str, *options: str) -> int:
        return main([model, "--inputs", inputs, *options, *more])

    assert status(large, "--calibrate", calibration) == 1
    message = capfd.readouterr().err
    assert f"ceras-{command}: error:" in message and "below --floor 10: " in message
    assert "depends on the choice" not in message
    few = saved(tmp_path, "f.npz", UNIT[:3] * 255)
    assert status(few, "--calibrate", calibration) == 1
    message = capfd.readouterr().err
    assert "the ratio of 3 samples depends on the choice of samples: give 32 or more" in message
    for wrong in ("nan", "inf"):
        assert status(large, "--floor", wrong) == 2
    assert status(large, "--calibrate", calibration, "--floor", "-100") == 0
    assert status(calibration, "--calibrate", calibration) == 0
    assert status(calibration, "--calibrate", calibration, "--floor", "200") == 1
    # Ranges of synthetic data are not the user's, and a single sample has no ratio.
    assert status(large) == (1 if command == "verify" else 0)
    capfd.readouterr()
    assert status(one, "--calibrate", calibration) == 0
    assert "n/a" in capfd.readouterr().out
