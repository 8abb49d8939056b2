"""Check that options without effect on a network are reported, each by the same mechanism."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import conv_model, model, node

from ceras_ir.driver.compile import main
from ceras_ir.support.option_uses import record_use, reporting_unused
from ceras_ir.transforms.quantization_options import RowsOptions

CONVOLUTION = conv_model((1, 16, 8, 8), 16, (3, 3), pads=[1, 1, 1, 1])
WEIGHTS = {"w": np.full((8, 8), 0.5, np.float32)}
ROWS = model([node("Gemm", "x w", "g"), node("Softmax", "g", "y")], {"x": (1, 8)}, ["y"], WEIGHTS)
SWISH = model(
    [node("Gemm", "x w", "g"), node("Sigmoid", "g", "s"), node("Mul", "g s", "y")],
    {"x": (1, 8)}, ["y"], WEIGHTS,
)  # fmt: skip


@pytest.mark.parametrize(
    ("network", "quantize", "option", "is_used"),
    [
        (CONVOLUTION, "int8", "--no-winograd", False),
        (CONVOLUTION, "none", "--no-winograd", True),
        (ROWS, "none", "--no-winograd", False),
        (CONVOLUTION, "int8", "--rows=float", False),
        (ROWS, "int8", "--rows=float", True),
        (ROWS, "int8", "--rows=integer", True),
        (ROWS, "int8", "--encoding=csr", False),
        (ROWS, "none", "--encoding=csr", True),
        (ROWS, "int8", "--silu=table", False),
        (SWISH, "int8", "--silu=table", True),
    ],
)
def test_options_of_a_network(
    network: onnx.ModelProto, quantize: str, option: str, is_used: bool,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(network.SerializeToString())
    output = ["-o", str(tmp_path / "out")]
    arguments = [str(tmp_path / "m.onnx"), "--target", "c", "--quantize", quantize, option]
    assert main([*arguments, *output]) == 0
    flag = option.partition("=")[0]
    warnings = [line for line in capsys.readouterr().err.splitlines() if "without effect" in line]
    assert [line.startswith(f"warning: options without effect: {flag}: ") for line in warnings] == (
        [] if is_used else [True]
    )


def test_only_given_options_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    class Options(RowsOptions):
        rows = "auto"

    with reporting_unused(RowsOptions(), Options()):
        pass
    assert capsys.readouterr().err == ""
    Options.rows = "float"
    with reporting_unused(Options()):
        record_use("rows")
    assert capsys.readouterr().err == ""
    with reporting_unused(Options()):
        pass
    assert "--rows: the network has no softmax" in capsys.readouterr().err
