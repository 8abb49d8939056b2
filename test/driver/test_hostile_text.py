"""Reject text that parses and verifies but cannot be run, in a line with the operation."""

from pathlib import Path

import numpy as np
import pytest

from ceras_ir.driver.run import main as run

Captured = pytest.CaptureFixture[str]

FEATURES = "tensor<1x1x2x2x16x!quant.uniform<i8:f32, 1.0>>"
DRAM, INP = 'memref<1x1x2x2x16xi8, "dram">', 'memref<4x1x16xi8, "inp">'
KERNEL = f"""
func.func @kernel(%x: {DRAM}, %y: {DRAM}) {{
  %c0 = arith.constant 0 : index
  %c9 = arith.constant 9 : index
  %inp = memref.alloc() : {INP}
  BODY
  func.return
}}
func.func @main(%x: {FEATURES}) -> {FEATURES} {{
  %y = mem.launch @kernel(%x) : ({FEATURES}) -> {FEATURES}
  func.return %y : {FEATURES}
}}
"""
LOAD = f"{{box = array<i64: 2, 2>}} : {DRAM} to {INP}"

CASES = {
    "a vector that the scratchpad has not": (
        KERNEL.replace("BODY", f"tile.load %x[%c0, %c0, %c0, %c0] to %inp[%c9] {LOAD}"),
        "node 'tile.load at line 6' (tile.load): error: vector 9 is out of range, expected [0, 4)",
    ),
    "a box that leaves the scratchpad": (
        KERNEL.replace("BODY", f"tile.load %x[%c0, %c0, %c0, %c0] to %inp[%c0] {LOAD}").replace(
            "4x1x16", "3x1x16"
        ),
        "a box of 2x2 vectors does not fit",
    ),
    "a batch that DRAM has not": (
        KERNEL.replace("BODY", f"tile.load %x[%c9, %c0, %c0, %c0] to %inp[%c0] {LOAD}"),
        "(tile.load): error: index 9 is out of range, expected [0, 1)",
    ),
    "a block beyond the arena": (
        """func.func @main(%x: tensor<4xi32>) -> tensor<4xi32>
          attributes {mem.arena = #mem.arena<size = 64, alignment = 64>} {
        %y = graph.binary add %x, %x {mem.block = #mem.block<id = 0, offset = 56, size = 16>}
          : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
        func.return %y : tensor<4xi32>
        }""",
        "a block extends to byte 72 of an arena of 64 bytes",
    ),
    "an operation without a meaning": (
        """func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
        %y = tensor.cast %x : tensor<4xi32> to tensor<4xi32>
        func.return %y : tensor<4xi32>
        }""",
        "(tensor.cast): error: unsupported by the interpreter",
    ),
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.needs("vta")] * ("tile.load" in text))
        for case, (text, _) in CASES.items()
    ],
)
def test_one_line(case: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    text, message = CASES[case]
    Path("in.mlir").write_text(text)
    x = np.zeros((1, 1, 2, 2, 16), np.int8) if "kernel" in text else np.zeros(4, np.int32)
    np.savez("in.npz", input0=x)
    status = run(["in.mlir", "--inputs", "in.npz", "--outputs", "out.npz"])
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert status == (3 if "unsupported" in line else 1)
    assert sorted(path.name for path in Path(".").iterdir()) == ["in.mlir", "in.npz"]
