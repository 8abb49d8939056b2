"""`ceras-verify` where one of several targets does not take a network."""

from pathlib import Path

import pytest

from ceras_ir.driver.verify.tool import main

SUPPRESSION = """\
func.func @main(%b: tensor<1x6x4xf32>, %s: tensor<1x2x6xf32>) -> tensor<4x3xi64> {
  %0 = graph.suppress %b, %s {most = 2 : i64, overlap = 0.5 : f32, least = 0.2 : f32}
    : (tensor<1x6x4xf32>, tensor<1x2x6xf32>) -> tensor<4x3xi64>
  func.return %0 : tensor<4x3xi64>
}
"""


@pytest.mark.needs("nnet")
def test_other_targets_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = tmp_path / "model.mlir"
    model.write_text(SUPPRESSION)
    assert main([str(model), "--targets", "nnet,c", "--samples", "1"]) == 3
    printed = capsys.readouterr()
    verdicts = dict(line.split("  ", 1) for line in printed.out.splitlines()[1:])
    assert verdicts["nnet: fused graph"].strip() == "unsupported"
    assert verdicts["c: machine"].strip() == "exact"
    assert printed.err.count("error: unsupported: the nnet format has no such operation") == 1
