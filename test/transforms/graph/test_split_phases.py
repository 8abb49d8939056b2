"""Test `split-phases`: a transposed convolution without the zeros between elements."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_models import run_onnxruntime
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.driver.differences import relative_difference
from ceras_ir.driver.run import main as run_tool
from ceras_ir.driver.verify.tool import main as verify
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.graph.split_phases import MIN_SEPARATE_OUTPUTS
from ceras_ir.transforms.quantization.quantize import QuantizePass

Pair = tuple[int, int]


FEW, MANY = 3, MIN_SEPARATE_OUTPUTS + 1


def transposed(
    size: Pair,
    kernel: Pair,
    strides: Pair,
    pads: tuple[int, int, int, int],
    extra: Pair = (0, 0),
    outputs: int = FEW,
    *,
    inputs: int = 2,
    groups: int = 1,
    dilations: Pair = (1, 1),
    images: int = 1,
    has_residual: bool = False,
) -> ModelProto:
    """Build a layer with a bias, optionally a residual, and a relu."""
    random = np.random.default_rng(0)
    weights = random.normal(size=(inputs, outputs // groups, *kernel)).astype(np.float32)
    bias = random.normal(size=outputs).astype(np.float32)
    whole = [
        (n - 1) * s + (k - 1) * d + 1 + e - pads[i] - pads[i + 2]
        for i, (n, s, k, d, e) in enumerate(
            zip(size, strides, kernel, dilations, extra, strict=True)
        )
    ]
    nodes = [
        helper.make_node(
            "ConvTranspose",
            ["x", "w", "b"],
            ["z"],
            strides=strides,
            pads=pads,
            output_padding=extra,
            group=groups,
            dilations=dilations,
        ),
        *([helper.make_node("Add", ["z", "r"], ["sum"])] if has_residual else []),
        helper.make_node("Relu", ["sum" if has_residual else "z"], ["y"]),
    ]
    arguments = {"x": [images, inputs, *size], "r": [images, outputs, *whole]}
    body = helper.make_graph(
        nodes,
        "transposed",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in arguments.items()
            if has_residual or name == "x"
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def inputs_of(model: ModelProto) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(1)
    return {
        value.name: random.normal(size=[d.dim_value for d in value.type.tensor_type.shape.dim])
        .astype(np.float32)
        for value in model.graph.input
    }  # fmt: skip


def products(module: ModuleOp) -> int:
    return sum(op.macs for op in module.walk() if isinstance(op, graph.LinearOperation))


def is_spread(module: ModuleOp) -> bool:
    """Return whether there are zeros between elements."""
    pads = (op for op in module.walk() if isinstance(op, graph.PadOp))
    return any(any(op.interior.get_values()) for op in pads)


def judge(module: ModuleOp, x: dict[str, NDArray[np.float32]]) -> None:
    """Check that only the order of sums differs, and that no zeros are between elements."""
    (expected,) = run(module, x).values()
    FusePass().apply(load_context(), module)
    verify_module(module)
    assert not is_spread(module)
    (found,) = run(module, x).values()
    assert relative_difference(found, expected) < 1e-5


sides = st.tuples(st.integers(1, 5), st.integers(1, 5))


@settings(max_examples=150)
@given(st.data())
def test_every_output_is_the_same(data: st.DataObject):
    size, kernel = data.draw(sides), data.draw(sides)
    strides = data.draw(sides.filter(lambda s: s != (1, 1)))
    pads = [data.draw(st.integers(0, min(k - 1, 2))) for k in kernel * 2]
    extra = [data.draw(st.integers(0, s - 1)) for s in strides]
    left = [
        (n - 1) * s + k + e - pads[i] - pads[i + 2]
        for i, (n, s, k, e) in enumerate(zip(size, strides, kernel, extra, strict=True))
    ]
    if min(left) < 1 or min(k - 1 - p for k, p in zip(kernel * 2, pads, strict=True)) < 0:
        return
    top, left_pad, bottom, right = pads
    inputs, outputs, groups = data.draw(
        st.sampled_from(((2, FEW, 1), (2, MANY, 1), (3, 3, 3), (4, 6, 2), (2, 6, 2)))
    )
    model = transposed(
        size,
        kernel,
        strides,
        (top, left_pad, bottom, right),
        (extra[0], extra[1]),
        outputs,
        inputs=inputs,
        groups=groups,
        images=data.draw(st.integers(1, 2)),
        has_residual=all(n % s == 0 for n, s in zip(left, strides, strict=True))
        and data.draw(st.booleans()),
    )
    module = import_model(model)
    if any(isinstance(op, graph.SliceOp) for op in module.walk()):
        return  # A border that removes elements is in between.
    judge(module, inputs_of(model))


@pytest.mark.parametrize(
    ("kernel", "strides", "outputs", "share", "convolutions"),
    [
        ((2, 2), (2, 2), FEW, 4, 1),
        ((4, 4), (2, 2), MANY, 4, 1),
        ((3, 3), (2, 2), FEW, 2, 1),
        ((3, 3), (2, 2), MANY, 3.5, 4),
        ((3, 4), (2, 2), MANY, 3.5, 2),
        ((5, 5), (3, 3), MANY, 8, 9),
        ((3, 3), (2, 2), 8, 2.5, 2),
        ((2, 2), (3, 3), MANY, 3.5, 1),
        ((1, 16), (1, 8), FEW, 6, 1),
    ],
    ids=str,
)
def test_products_that_are_left(
    kernel: Pair, strides: Pair, outputs: int, share: float, convolutions: int
):
    module = import_model(transposed((8, 8), kernel, strides, (0, 0, 0, 0), outputs=outputs))
    fused = module.clone()
    FusePass().apply(load_context(), fused)
    assert products(module) >= share * products(fused)
    assert sum(isinstance(op, graph.Conv2dOp) for op in fused.walk()) == convolutions
    assert not any(isinstance(op, graph.UnaryOp) for op in fused.walk())


def test_a_residual_of_phases_of_several_sizes_stays():
    """Phases of 5 rows at stride 2 have 3 and 2 rows; both convolutions compute 3."""
    model = transposed((3, 2), (2, 2), (2, 2), (1, 0, 0, 0), has_residual=True)
    module = import_model(model)
    FusePass().apply(load_context(), module)
    assert is_spread(module)


def test_quantized_weights_keep_their_integers():
    """Use Q/DQ with per-channel scales, in groups: only four integer convolutions remain."""
    random = np.random.default_rng(0)
    weights = random.integers(-128, 128, (4, 3, 4, 4)).astype(np.int8)
    constants = {
        "w": weights,
        "ws": np.array([0.01, 0.02, 0.03], np.float32),
        "wz": np.zeros(3, np.int8),
        "s": np.float32(0.05),
        "z": np.uint8(120),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=1),
        helper.make_node(
            "ConvTranspose", ["d", "dw"], ["c"], strides=(2, 2), pads=(1, 1, 1, 1), group=2
        ),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["qy"]),
        helper.make_node("DequantizeLinear", ["qy", "s", "z"], ["y"]),
    ]
    body = helper.make_graph(
        nodes,
        "quantized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    opset = helper.make_opsetid("", 18)
    module = import_model(helper.make_model(body, opset_imports=[opset], ir_version=9))
    x = {"x": random.normal(size=(1, 4, 5, 5)).astype(np.float32)}
    (expected,) = run(module, x).values()
    FusePass().apply(load_context(), module)
    QuantizePass().apply(load_context(), module)
    verify_module(module)
    convolutions = [op for op in module.walk() if isinstance(op, graph.Conv2dOp)]
    assert len(convolutions) == 4
    assert all(op.is_quantized for op in convolutions)
    (found,) = run(module, x).values()
    assert np.allclose(found, expected, atol=0.051)  # one step


def scaled(axis: int, groups: int, *, has_quantized_ends: bool) -> ModelProto:
    """Build weights [4, O / g, 3, 3] of int8 with a scale and zero point per index of `axis`."""
    random = np.random.default_rng(axis)
    shape = (4, 6 // groups, 3, 3)
    constants = {
        "w": random.integers(-100, 100, shape).astype(np.int8),
        "ws": random.uniform(0.001, 0.02, shape[axis]).astype(np.float32),
        "wz": random.integers(-5, 6, shape[axis]).astype(np.int8),
        "s": np.float32(0.02),
        "ys": np.float32(0.05),
        "z": np.uint8(128),
    }
    operand, result = ("d", "c") if has_quantized_ends else ("x", "y")
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=axis),
        helper.make_node("ConvTranspose", [operand, "dw"], [result], strides=(2, 2), group=groups),
    ]
    if has_quantized_ends:
        nodes[:0] = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        ]
        nodes += [
            helper.make_node("QuantizeLinear", ["c", "ys", "z"], ["qy"]),
            helper.make_node("DequantizeLinear", ["qy", "ys", "z"], ["y"]),
        ]
    body = helper.make_graph(
        nodes,
        "scaled",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 5, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("has_quantized_ends", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scales_of_each_dimension_of_the_weights(
    axis: int, groups: int, has_quantized_ends: bool
) -> None:
    """ONNX Runtime's quantizer before version 1.18 writes scales of input channels."""
    model = scaled(axis, groups, has_quantized_ends=has_quantized_ends)
    x = inputs_of(model)
    expected = run_onnxruntime(model, x)["y"]
    module = import_model(model)
    FusePass().apply(load_context(), module)
    verify_module(module)
    assert not is_spread(module)
    (found,) = run(module, x).values()
    assert np.allclose(found, expected, atol=0.051 if has_quantized_ends else 1e-5)  # a step
    assert np.mean(np.abs(found - expected) > 1e-5) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("has_quantized_ends", [False, True])
def test_scales_of_input_channels_in_c(tmp_path: Path, has_quantized_ends: bool) -> None:
    model = scaled(0, 1, has_quantized_ends=has_quantized_ends)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = inputs_of(model)
    np.savez(tmp_path / "in.npz", **x)  # pyright: ignore[reportArgumentType]
    paths = [str(tmp_path / name) for name in ("m.onnx", "in.npz", "out.npz")]
    assert run_tool([paths[0], "--inputs", paths[1], "--outputs", paths[2], "--target", "c"]) == 0
    found, expected = np.load(paths[2])["y"], run_onnxruntime(model, x)["y"]
    assert np.allclose(found, expected, atol=0.051 if has_quantized_ends else 1e-5)  # a step


@settings(max_examples=60)
@given(st.data())
def test_results_are_those_of_onnx_runtime(data: st.DataObject):
    """Dilated windows remain unchanged."""
    size, kernel, strides = (data.draw(sides) for _ in range(3))
    dilations = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    pads = [data.draw(st.integers(0, min(k - 1, 2))) for k in kernel * 2]
    extra = [data.draw(st.integers(0, s - 1)) for s in strides]
    left = [
        (n - 1) * s + (k - 1) * d + 1 + e - pads[i] - pads[i + 2]
        for i, (n, s, k, d, e) in enumerate(
            zip(size, strides, kernel, dilations, extra, strict=True)
        )
    ]
    if min(left) < 1:
        return
    groups = data.draw(st.sampled_from((1, 2, 4)))
    model = transposed(
        size, kernel, strides, (pads[0], pads[1], pads[2], pads[3]), (extra[0], extra[1]), 4,
        inputs=4, groups=groups, dilations=dilations, has_residual=data.draw(st.booleans()),
    )  # fmt: skip
    x = inputs_of(model)
    expected = run_onnxruntime(model, x)
    module = import_model(model)
    FusePass().apply(load_context(), module)
    verify_module(module)
    for name, found in run(module, x).items():
        assert found.shape == expected[name].shape
        assert np.allclose(found, expected[name], rtol=1e-5, atol=1e-5)


@pytest.mark.needs("nnet", "vta")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("outputs", "groups", "has_residual"),
    [(16, 1, True), (16, 16, False), (32, 4, False), (32, 8, True), (8, 1, False)],
)
def test_integers_are_the_same_everywhere(
    tmp_path: Path, outputs: int, groups: int, has_residual: bool
):
    """Compare the integers at each level of each target."""
    model = transposed(
        (5, 6), (3, 4), (2, 2), (0, 1, 0, 1), (1, 0), outputs,
        inputs=16, groups=groups, has_residual=has_residual,
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert verify([str(path), "--targets", "c,nnet,vta", "--quantize", "int8"]) == 0
