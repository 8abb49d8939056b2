"""`ceras-compile --bisect-passes` names the pass that changes outputs, and no other."""

from pathlib import Path

import pytest

from ceras_ir.driver.compile.tool import main

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin" / "swap_function.py"
NETWORK = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.unary <relu> %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


@pytest.mark.parametrize("new", ["relu", "exp"])
def test_the_wrong_pass_is_named(
    new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(NETWORK)
    added = ["--at", "fused graph", f"swap-function{{old=relu new={new}}}"]
    command = ["m.mlir", "--target", "c", "-o", "out", f"--load-pass-plugin={PLUGIN}", *added]
    status = main([*command, "--bisect-passes"])
    said = capsys.readouterr().err
    if new == "relu":
        assert (status, said) == (0, "") and Path("out").exists()
    else:
        assert status == 1 and "'swap-function' changes the outputs" in said
        assert not Path("out").exists()
