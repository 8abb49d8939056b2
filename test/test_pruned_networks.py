"""Check that a pruned network compiles for all targets; packed weights have no masks."""

from pathlib import Path

import pytest

from ceras_ir.driver import compile as compile_tool

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
BOARDS = {"arduino": ("--board", "uno_r4_wifi")}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["arduino", "c", "dataflow", "nnet", "onnx", "vta"])
def test_digits(target: str, tmp_path: Path) -> None:
    words = ["--target", target, *BOARDS.get(target, ()), "--quantize", "int8"]
    words += ["--prune", "method=filter sparsity=0.9", "-o", str(tmp_path / "out")]
    assert compile_tool.main([str(DIGITS), *words]) == 0
