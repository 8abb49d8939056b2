"""`ceras-verify --board` checks a network on VTA with another intrinsic."""

import json
from pathlib import Path

import pytest

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.driver.verify.tool import main

DIGITS = Path(__file__).parents[3] / "examples/digits"


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "block"), [(1, 3), (0, 5), (2, 4)])
def test_digits(batch: int, block: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "board.json"
    path.write_text(json.dumps(VtaBoard(log_batch=batch, log_block=block).config()))
    model, calibration = (str(DIGITS / f"digits{end}") for end in (".onnx", "_calibration.npz"))
    options = ("--calibrate", calibration, "--recipe", "none", "--samples", "1")
    assert main([model, *options, "--targets", "vta", "--board", str(path)]) == 0
    assert "vta: machine                     exact" in capsys.readouterr().out
