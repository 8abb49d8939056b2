"""Check results at the address of an operand: each target computes the values of the graph."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.command.output_files import write_artefacts
from ceras_ir.dialects.mem import BLOCK, BlockAttr, block_of
from ceras_ir.interpreters.network import run, run_in_arena
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import build_target, open_folder
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.memory.check_blocks import check_plan
from ceras_ir.transforms.memory.liveness import analyse

FLOAT = """
func.func @main(%x: tensor<2x37xf32> {graph.name = "x"})
    -> (tensor<74x1xf32> {graph.name = "y"}) {
  %a = graph.unary <tanh> %x : tensor<2x37xf32>
  %b = graph.unary <sigmoid> %a : tensor<2x37xf32>
  %c = graph.binary sub %b, %a
      : (tensor<2x37xf32>, tensor<2x37xf32>) -> tensor<2x37xf32>
  %d = graph.binary mul %c, %c
      : (tensor<2x37xf32>, tensor<2x37xf32>) -> tensor<2x37xf32>
  %r = graph.reshape %d : (tensor<2x37xf32>) -> tensor<74xf32>
  %e = graph.unary <relu> %r : tensor<74xf32>
  %s = graph.reshape %e : (tensor<74xf32>) -> tensor<74x1xf32>
  %y = graph.unary <exp> %s : tensor<74x1xf32>
  func.return %y : tensor<74x1xf32>
}
"""

QUANTIZED = """
func.func @main(%x: T {graph.name = "x"}) -> (T {graph.name = "y"}) {
  %a = graph.lookup %x, TABLE : tensor<256xi8> : (T) -> T
  %b = graph.lookup %a, TABLE : tensor<256xi8> : (T) -> T
  %c = graph.binary add %b, %b {requant = R} : (T, T) -> T
  %d = graph.binary sub %a, %c {lhs_shift = 2 : i64, requant = R} : (T, T) -> T
  %e = graph.requantize %d {requant = R} : (T) -> T
  %y = graph.binary mul %e, %a {requant = R} : (T, T) -> T
  func.return %y : T
}
"""


def quantized() -> str:
    table = ", ".join(str((37 * i) % 256 - 128) for i in range(256))
    requant = (
        "#graph.requant<multiplier = 3, shift = 2, rounding = half_up, low = -128, high = 127>"
    )
    text = QUANTIZED.replace("TABLE", f"dense<[{table}]>").replace("= R}", f"= {requant}}}")
    return text.replace("T", "tensor<3x29x!quant.uniform<i8:f32, 0.5>>")


def network(folder: Path, text: str) -> ModuleOp:
    path = folder / "network.mlir"
    path.write_text(text)
    return read_network(str(path))


@pytest.mark.parametrize("target", ["c", "nnet"])
@pytest.mark.parametrize("kind", ["float", "quantized"])
def test_targets_are_exact_in_place(tmp_path: Path, target: str, kind: str):
    module = network(tmp_path, FLOAT if kind == "float" else quantized())
    source = np.random.default_rng(0)
    if kind == "float":
        x: np.ndarray[tuple[int, ...], np.dtype[np.generic]] = source.normal(0, 3, (2, 37))
        x = x.astype(np.float32)
    else:
        x = source.integers(-128, 128, (3, 29)).astype(np.int8)
    expected = run(module.clone(), {"x": x})["y"]
    compiled = build_target(module, BuildOptions(find_target(target)()))
    main = main_function(compiled.module)
    # Fewer buffers than values: some results are in place.
    liveness = analyse(main, include_io=target == "nnet")
    assert any(len(buffer.values) > 2 for buffer in liveness.buffers)
    folder = tmp_path / "out"
    folder.mkdir()
    write_artefacts(folder, compiled.files())
    (actual,) = open_folder(folder).run([{"x": x}])
    assert actual["y"].dtype == expected.dtype
    np.testing.assert_array_equal(actual["y"].view(np.uint8), expected.view(np.uint8))


NARROW, WIDE = "!quant.uniform<i8:f32, 0.5>", "!quant.uniform<i16:f32, 0.5>"
KEPT = {
    "repeated": """
      %y = graph.binary add %a, %b : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
      func.return %y : tensor<2x4xf32>""",
    "narrower": f"""
      %q = graph.quantize %b : (tensor<2x4xf32>) -> tensor<2x4x{NARROW}>
      %w = graph.requantize %q
          {{requant = #graph.requant<shift = 0, rounding = half_up, low = -32768, high = 32767>}}
          : (tensor<2x4x{NARROW}>) -> tensor<2x4x{WIDE}>
      %y = graph.dequantize %w : (tensor<2x4x{WIDE}>) -> tensor<2x4xf32>
      func.return %y : tensor<2x4xf32>""",
    "also a part of itself": """
      %c = graph.concat %a, %d {axis = 0 : i64}
          : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
      %y = graph.binary add %c, %a : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
      func.return %y : tensor<2x4xf32>""",
    "returned": """
      %y = graph.unary <tanh> %b : tensor<2x4xf32>
      func.return %b, %y : tensor<2x4xf32>, tensor<2x4xf32>""",
}
"""Operands without later uses that the operation still must not overwrite."""


@pytest.mark.parametrize("kind", KEPT)
def test_what_is_not_overwritten(tmp_path: Path, kind: str):
    results = "(tensor<2x4xf32>, tensor<2x4xf32>)" if kind == "returned" else "tensor<2x4xf32>"
    text = f"""
    func.func @main(%x: tensor<1x4xf32>, %v: tensor<2x4xf32>) -> {results} {{
      %a = graph.unary <relu> %x : tensor<1x4xf32>
      %d = graph.unary <tanh> %x : tensor<1x4xf32>
      %b = graph.unary <sigmoid> %v : tensor<2x4xf32>{KEPT[kind]}
    }}"""
    module = network(tmp_path, text)
    inputs = {
        f"input{i}": np.random.default_rng(i).normal(0, 3, (1 + i, 4)).astype(np.float32)
        for i in range(2)
    }
    expected = run(module, inputs)
    AllocateBlocksPass(io=True, in_slices=True).apply(Context(), module)
    actual = run_in_arena(module, inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, name)


@pytest.mark.needs("nnet")
def test_the_check_sees_an_overwritten_operand(tmp_path: Path):
    """`%c` still uses `%a` after `%b` has overwritten it."""
    module = network(tmp_path, FLOAT)
    main = main_function(build_target(module, BuildOptions(find_target("nnet")())).module)
    a, b, *_ = main.body.block.ops
    block = block_of(a.results[0])
    assert block is not None and not check_plan(main)
    b.attributes[BLOCK] = BlockAttr(block.id.data, block.offset.data, block.size.data)
    assert any("overwritten before it was read" in finding.message for finding in check_plan(main))
