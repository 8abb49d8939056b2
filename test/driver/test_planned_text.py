"""
Run, compile and verify text of the memory level.

A run uses the memory plan, but compilation and verification drop it: passes of the graph level may
move a use of `%0` after `%2`, which reuses the memory of `%0`.
"""

from pathlib import Path

import numpy as np
import pytest
from onnx_models import Array

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.opt.tool import main as opt_main
from ceras_ir.driver.run import main as run_main
from ceras_ir.driver.verify.tool import main as verify_main

STORED = """
!x = tensor<1x2x3x2xf32>
!y = tensor<1x2x2x3xf32>
!q = tensor<1x2x3x2x!quant.uniform<i8:f32, 0.5>>
func.func @main(%x: !x {graph.name = "x"}) -> (!y {graph.name = "y"}, !x {graph.name = "z"}) {
  %0 = graph.quantize %x : (!x) -> !q
  %1 = graph.dequantize %0 : (!q) -> !x
  %2 = graph.unary <exp> %x : !x
  %3 = graph.transpose %1 {permutation = array<i64: 0, 3, 1, 2>} : (!x) -> !y
  %4 = graph.unary <exp> %2 : !x
  func.return %3, %4 : !y, !x
}
"""
SAMPLES = np.arange(24, dtype=np.float32).reshape(2, 2, 3, 2) / 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write two samples, and the network with a plan."""
    monkeypatch.chdir(tmp_path)
    Path("network.mlir").write_text(STORED)
    np.savez("in.npz", x=SAMPLES)
    assert opt_main(["network.mlir", "--allocate-blocks", "-o", "memory.mlir"]) == 0
    return tmp_path


def outputs(what: str, *options: str) -> Array:
    assert run_main([what, "--inputs", "in.npz", "--outputs", "out.npz", *options]) == 0
    with np.load("out.npz") as arrays:
        return arrays["y"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", [(), ("--at", "quantized graph", "canonicalize")])
def test_it_runs(options: tuple[str, ...]) -> None:
    expected = outputs("network.mlir")
    np.testing.assert_array_equal(outputs("memory.mlir", *options), expected)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_it_compiles() -> None:
    assert compile_main(["memory.mlir", "--target", "c", "-o", "out"]) == 0
    np.testing.assert_array_equal(outputs("out"), outputs("network.mlir"))


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_it_is_verified() -> None:
    assert verify_main(["memory.mlir", "--inputs", "in.npz", "--targets", "c"]) == 0
