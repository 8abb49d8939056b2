"""Compare layers with 16-bit results with the two 8-bit layers that replace them."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, i16, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization.split_wide import MIN_JOINED, WideResultRule

ROWS, COLUMNS, LAYERS = 400, 3, 24


def layer(seed: int, *, residual: bool = False) -> ModuleOp:
    """
    Build a random product with sums around 2^15 steps, some of them above.

    The optional residual is as large.
    """
    rng = np.random.default_rng(seed)
    source, outputs = UniformType(0.5, int(rng.integers(-128, 128))), int(rng.integers(1, 5))
    shifts = rng.integers(0, 5) + rng.integers(0, 2, outputs) * (seed % 2)
    scales = (2.0 ** -(2.0 + shifts)).tolist()
    kind = UniformType(scales, axis=0)
    biased = UniformType([s * source.scale for s in scales], storage=i32, axis=0)
    target = UniformType(0.125, int(rng.integers(-9, 9)) if seed % 3 else 0, storage=i16)
    block = Block(arg_types=[TensorType(source, [ROWS, COLUMNS])])
    added = UniformType(32.0, int(rng.integers(-128, 128)))
    moved = [int(s) + 8 for s in shifts]
    if residual:
        block.insert_arg(TensorType(added, [ROWS, outputs]), 1)
    weights = graph.ConstantOp.from_array(
        rng.integers(-127, 128, (outputs, COLUMNS)).astype(np.int8), kind
    )
    far = int(rng.choice([300, 40_000, 60_000 if residual else 700_000]))
    bias = graph.ConstantOp.from_array(rng.integers(-far, far, outputs).astype(np.int32), biased)
    top = int(shifts.max())
    low = 0 if seed % 5 == 0 else -(1 << 15)
    product = graph.MatmulOp(
        block.args[0],
        weights.result,
        bias.result if seed % 4 else None,
        residual=block.args[1] if residual else None,
        residual_shift=moved if residual else None,
        result_element=target,
        requant=RequantAttr(
            top,
            multiplier=[1 << top - int(s) for s in shifts],
            zero_point=target.zero_point,
            low=low,
            high=(1 << 15) - 1,
        ),
    )
    block.add_ops([weights, bias, product, ReturnOp(product.result)])
    types = [a.type for a in block.args], [product.result.type]
    return ModuleOp([FuncOp("main", types, Region(block))])


@pytest.mark.parametrize("seed", range(LAYERS))
def test_both_bytes_say_what_16_bits_say(seed: int) -> None:
    module = layer(seed)
    x = np.random.default_rng(seed).integers(-128, 128, (ROWS, COLUMNS)).astype(np.int8)
    (wanted,) = run(module, {"input0": x}).values()
    WideResultRule(1).apply(load_context(), module)
    module.verify()
    assert str(module).count("graph.matmul") == 2
    (found,) = run(module, {"input0": x}).values()
    (joined,) = (op for op in module.walk() if isinstance(op, graph.BinaryOp))
    point = graph.stored_element(joined.result).zero_point
    np.testing.assert_array_equal(found, np.maximum(wanted, MIN_JOINED + point))


@pytest.mark.parametrize("seed", range(LAYERS))
def test_a_residual_is_added_behind_both_bytes(seed: int) -> None:
    """The sum saturates as before, and is off by at most a step otherwise."""
    module = layer(seed, residual=True)
    rng = np.random.default_rng(seed)
    product = next(op for op in module.walk() if isinstance(op, graph.MatmulOp))
    outputs = graph.shape_of(product.result)[1]
    samples = {
        "input0": rng.integers(-128, 128, (ROWS, COLUMNS)).astype(np.int8),
        "input1": rng.integers(-128, 128, (ROWS, outputs)).astype(np.int8),
    }
    (wanted,) = run(module, samples).values()
    WideResultRule(1).apply(load_context(), module)
    module.verify()
    assert str(module).count("graph.matmul") == 2 and "binary add" in str(module)
    (found,) = run(module, samples).values()
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1


# Rows of %w are similar; the last channel of the residual and of the sum is octaves smaller.
TEXT = """
func.func @main(%x: tensor<1x4xf32> {graph.name = "x"}) -> tensor<1x4xf32> {
  %v = graph.constant dense<V> : tensor<4x4xf32> : tensor<4x4xf32>
  %w = graph.constant dense<W> : tensor<4x4xf32> : tensor<4x4xf32>
  %a = graph.matmul %x, %v {activation = #graph.function<relu>}
    : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %b = graph.matmul %a, %w residual %a : tensor<1x4xf32> {activation = #graph.function<relu>}
    : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  %c = graph.matmul %b, %v : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
  func.return %c : tensor<1x4xf32>
}
"""


def test_rows_that_channels_move_apart_get_scales(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (32, 1, 4)).astype(np.float32)
    np.savez(tmp_path / "c.npz", x=x)
    before = rng.uniform(0.5, 1, (4, 4)) * [[8], [8], [8], [0.05]]
    alike = rng.uniform(0.5, 1, (4, 4)) * [[0.001, 0.001, 0.001, 0.1]]
    text = TEXT.replace("<V>", f"<{before.tolist()}>").replace("<W>", f"<{alike.tolist()}>")
    module = parse_text(load_context(), text, "text")
    QuantizePass(calibration=str(tmp_path / "c.npz")).apply(load_context(), module)
    assert "residual %" not in str(module)
    assert "graph.binary add" in str(module)
