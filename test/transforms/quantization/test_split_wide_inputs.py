"""Compare layers with 16-bit inputs with the two 8-bit layers that replace them."""

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
from ceras_ir.transforms.quantization.split_wide import WideInputRule, WideResultRule

ROWS, COLUMNS, OUTPUTS = 400, 24, 5


def layer(seed: int, *, made: bool) -> ModuleOp:
    """
    Return products with random 16-bit values, which another layer computes if `made`. Some results
    exceed 8 bits.
    """
    rng = np.random.default_rng(seed)
    wide = UniformType(0.25, 0 if made else int(rng.integers(-99, 99)), storage=i16)
    shifts = rng.integers(15, 18) + rng.integers(0, 2, OUTPUTS) * (seed % 2)
    scales = (2.0 ** -shifts.astype(float)).tolist()
    target = UniformType(0.25, int(rng.integers(-9, 9)))
    given = UniformType(0.5, 3) if made else wide
    block = Block(arg_types=[TensorType(given, [ROWS, COLUMNS])])
    read = block.args[0]
    if made:
        kind = UniformType(0.125)
        eye = (np.eye(COLUMNS) * 100 + rng.integers(-3, 4, (COLUMNS, COLUMNS))).astype(np.int8)
        before = graph.ConstantOp.from_array(eye, kind)
        first = graph.MatmulOp(
            read,
            before.result,
            None,
            result_element=wide,
            requant=RequantAttr(2, low=-(1 << 15), high=(1 << 15) - 1),
        )
        block.add_ops([before, first])
        read = first.result
    weights = graph.ConstantOp.from_array(
        rng.integers(-127, 128, (OUTPUTS, COLUMNS)).astype(np.int8), UniformType(scales, axis=0)
    )
    biased = UniformType([s * wide.scale for s in scales], storage=i32, axis=0)
    bias = graph.ConstantOp.from_array(
        rng.integers(-1_000_000, 1_000_000, OUTPUTS).astype(np.int32), biased
    )
    top = int(shifts.max())
    product = graph.MatmulOp(
        read,
        weights.result,
        bias.result if seed % 4 else None,
        result_element=target,
        requant=RequantAttr(
            top,
            multiplier=[1 << top - int(s) for s in shifts],
            zero_point=target.zero_point,
            low=target.zero_point if seed % 5 == 0 else -128,
        ),
    )
    block.add_ops([weights, bias, product, ReturnOp(product.result)])
    types = [a.type for a in block.args], [product.result.type]
    return ModuleOp([FuncOp("main", types, Region(block))])


def samples(seed: int, *, made: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed + 1000)
    kind = np.int8 if made else np.int16
    most = np.iinfo(kind).max
    x = (rng.normal(size=(ROWS, COLUMNS)) * most / 3).clip(-most - 1, most).astype(kind)
    x[0], x[1] = most, -most - 1
    return {"input0": x}


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_two_layers_say_what_one_says(seed: int, made: bool) -> None:
    """The results differ by at most a step, usually not at all, without products of 16 bits."""
    module, data = layer(seed, made=made), samples(seed, made=made)
    if made:
        WideResultRule(1).apply(load_context(), module)
    (wanted,) = run(module, data).values()
    WideInputRule(1).apply(load_context(), module)
    module.verify()
    products = [op for op in module.walk() if isinstance(op, graph.MatmulOp)]
    assert len(products) == (4 if made else 2)
    assert all(graph.stored_element(op.input).storage.width.data == 8 for op in products)
    # Bytes without other consumers are not joined.
    assert any(isinstance(op, graph.BinaryOp) for op in module.walk()) != made
    (found,) = run(module, data).values()
    apart = np.abs(found.astype(int) - wanted.astype(int))
    inside = slice(2, None)
    assert apart[inside].max() <= 1 and (apart[inside] > 0).mean() < 0.3
    assert apart.max() <= 2


def test_bytes_are_taken_apart_once() -> None:
    """Two layers with the same operand share the bytes."""
    text = """
    func.func @main(%x: tensor<1x4x!quant.uniform<i16:f32, 0.5>>) -> (
        tensor<1x1x!quant.uniform<i8:f32, 128.0>>, tensor<1x1x!quant.uniform<i8:f32, 128.0>>) {
      %w = graph.constant dense<[[90, -70, 50, 33]]> : tensor<1x4xi8>
        : tensor<1x4x!quant.uniform<i8:f32, 0.0625>>
      %0 = graph.matmul %x, %w {requant = REQUANT}
        : (tensor<1x4x!quant.uniform<i16:f32, 0.5>>, tensor<1x4x!quant.uniform<i8:f32, 0.0625>>)
        -> tensor<1x1x!quant.uniform<i8:f32, 128.0>>
      %1 = graph.matmul %x, %w {requant = REQUANT}
        : (tensor<1x4x!quant.uniform<i16:f32, 0.5>>, tensor<1x4x!quant.uniform<i8:f32, 0.0625>>)
        -> tensor<1x1x!quant.uniform<i8:f32, 128.0>>
      func.return %0, %1 : tensor<1x1x!quant.uniform<i8:f32, 128.0>>,
        tensor<1x1x!quant.uniform<i8:f32, 128.0>>
    }"""
    requant = "#graph.requant<shift = 12, rounding = half_up, low = -128, high = 127>"
    text = text.replace("REQUANT", requant)
    module = parse_text(load_context(), text, "twice.mlir")
    WideInputRule().apply(load_context(), module)
    assert sum(isinstance(op, graph.RequantizeOp) for op in module.walk()) == 1
    assert sum(isinstance(op, graph.MatmulOp) for op in module.walk()) == 4


@pytest.mark.parametrize("weights", ["u8:f32, 0.25:128", "i8:f32, 0.25:3"])
@pytest.mark.parametrize("widths", [("i8", "i16"), ("i16", "i8")])
def test_weights_that_cannot_be_negated_stay(weights: str, widths: tuple[str, str]) -> None:
    """Weights of -128, as in ONNX Runtime's dynamic quantization, would overflow."""
    read, made = (f"tensor<1x1x!quant.uniform<{width}:f32, 0.5>>" for width in widths)
    kind = f"tensor<1x1x!quant.uniform<{weights}>>"
    low, high = (-128, 127) if widths[1] == "i8" else (-(1 << 15), (1 << 15) - 1)
    text = f"""
    func.func @main(%x: {read}) -> {made} {{
      %w = graph.constant dense<120> : tensor<1x1x{weights[0].replace("u", "ui")}8> : {kind}
      %0 = graph.matmul %x, %w {{requant = #graph.requant<shift = 12, rounding = half_up,
        low = {low}, high = {high}>}} : ({read}, {kind}) -> {made}
      func.return %0 : {made}
    }}"""
    module = parse_text(load_context(), text, "weights.mlir")
    WideResultRule().apply(load_context(), module)
    WideInputRule().apply(load_context(), module)
    assert sum(isinstance(op, graph.MatmulOp) for op in module.walk()) == 1
