"""`ceras-verify` on a network that has no inputs: each sample is the same."""

from pathlib import Path

import pytest
from onnx_models import model, node

from ceras_ir.driver.verify.tool import main


@pytest.mark.slow
def test_constants_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    proto = model([node("Neg", "w", "y")], {}, ["y"], {"w": [1.0, -2.0, 3.0]})
    path.write_bytes(proto.SerializeToString())
    assert main([str(path), "--samples", "3"]) == 0
