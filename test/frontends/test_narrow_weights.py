"""
Compare networks with weights of 2 to 8 bits, on several levels and on target c, with ONNX.

ONNX has integers of 2, 4 and 8 bits. For other widths, a constant of 8 bits gets the narrower type
after the import.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from c_harness import Array, check
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from ceras_ir.dialects import graph
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.targets.registry import find_target

Floats = npt.NDArray[np.float32]

X_SHAPE, X_SCALE, Y_SCALE = (2, 4, 6, 6), 0.0625, 0.25

LAYERS: dict[str, tuple[tuple[int, ...], str, dict[str, Any]]] = {
    "Conv": ((8, 4, 3, 3), "Conv", {}),
    "depthwise": ((4, 1, 3, 3), "Conv", {"group": 4}),
    "ConvTranspose": ((4, 5, 2, 2), "ConvTranspose", {"strides": [2, 2]}),
    "MatMul": ((6, 5), "MatMul", {}),
    "Gather": ((9, 5), "Gather", {}),
}
"""The shape of the weights, the operator and the attributes of each layer."""


def stored(array: Array, bits: int, *, signed: bool) -> Array:
    """Return integers in the type of ONNX with the fewest bits, at least `bits`."""
    width = next(w for w in (2, 4, 8) if w >= bits)
    name = f"{'' if signed else 'u'}int{width}"
    return array.astype(getattr(ml_dtypes, name) if width < 8 else name)


def model(layer: str, bits: int, *, signed: bool, axis: int | None, seed: int) -> onnx.ModelProto:
    """
    Build `layer` between Q/DQ, with weights of `bits` bits. They have a scale and a zero point per
    index of `axis`, or for the tensor.
    """
    rng, (shape, operator, attributes) = np.random.default_rng(seed), LAYERS[layer]
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    channels = () if axis is None else (shape[axis],)
    tensors: dict[str, Array] = {
        "w": stored(rng.integers(low, high, shape), bits, signed=signed),
        "s": rng.uniform(0.02, 0.4, channels).astype(np.float32) / np.float32(high),
        "z": stored(rng.integers(low, high, channels), bits, signed=signed),
        "xs": np.array(X_SCALE, np.float32),
        "xz": np.array(rng.integers(-9, 9), np.int8),
        "ys": np.array(Y_SCALE, np.float32),
        "yz": np.array(rng.integers(-9, 9), np.int8),
    }
    operands = ["wf", "i"] if layer == "Gather" else ["xd", "wf"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=axis or 0),
        helper.make_node(operator, operands, ["r"], **attributes),
        helper.make_node("QuantizeLinear", ["r", "ys", "yz"], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, X_SHAPE)]
    if layer == "Gather":
        inputs.append(helper.make_tensor_value_info("i", TensorProto.INT64, (7,)))
    proto = helper.make_graph(
        nodes,
        "g",
        inputs,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "xd")],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    return helper.make_model(proto, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)


def reference(proto: onnx.ModelProto, inputs: dict[str, Array]) -> Floats:
    """Return the output `y` of the reference evaluator of ONNX."""
    evaluator: Any = ReferenceEvaluator(proto)
    return evaluator.run(["y"], inputs)[0]


def output(module: ModuleOp, inputs: dict[str, Array]) -> Floats:
    return run(module, inputs)["y"].astype(np.float32)


def narrow(module: ModuleOp, bits: int) -> None:
    """Give the weights, the only quantized constant of 8 bits, a type of `bits` bits."""
    for op in list(main_function(module).body.block.ops):
        if not isinstance(op, graph.ConstantOp) or graph.quantized_element(op.result) is None:
            continue
        element = graph.stored_element(op.result).widened(bits)
        assert isa(op.value, DenseIntOrFPElementsAttr)
        kind = TensorType(element.storage, graph.shape_of(op.result))
        op.value = DenseIntOrFPElementsAttr(kind, op.value.data)
        Rewriter.replace_value_with_new_type(op.result, TensorType(element, kind.get_shape()))


def compiled_for(module: ModuleOp, target: str) -> ModuleOp:
    """Return the quantized graph of `module` for a target."""
    copy, options = module.clone(), BuildOptions(target=find_target(target)(), quantize="int8")
    run_stages(load_context(), copy, front_stages(options))
    return copy


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(LAYERS)),
    st.integers(2, 8),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1000),
)
def test_layers_of_all_widths(layer: str, bits: int, signed: bool, per_channel: bool, seed: int):
    axis = {"MatMul": 1, "ConvTranspose": 1}.get(layer, 0) if per_channel else None
    proto, rng = (
        model(layer, bits, signed=signed, axis=axis, seed=seed),
        np.random.default_rng(seed),
    )
    inputs: dict[str, Array] = {"x": rng.normal(size=X_SHAPE).astype(np.float32) * 4}
    if layer == "Gather":
        inputs["i"] = rng.integers(0, 9, 7)
    expected = reference(proto, inputs)
    module = import_model(proto)
    narrow(module, bits)
    np.testing.assert_allclose(output(module, inputs), expected, atol=Y_SCALE)
    kept, wide = compiled_for(module, "interp"), compiled_for(module, "c")
    result = output(kept, inputs)
    assert np.abs(result - expected).max() <= Y_SCALE
    np.testing.assert_array_equal(output(wide, inputs), result)
    check(wide, inputs)
    # Layers keep the width. A table with a scale per row is a float table.
    is_kept = f"!quant.uniform<i{bits}:" in str(kept)
    assert is_kept or (layer == "Gather" and per_channel)


@pytest.mark.parametrize("bits", [2, 4])
def test_float_networks_compute_the_same_as_with_float_weights(bits: int):
    """The weights are fused with a batch normalization."""
    rng = np.random.default_rng(bits)
    weights = rng.integers(-(1 << bits - 1), 1 << bits - 1, (8, 4, 3, 3))
    scale = rng.uniform(0.1, 0.2, 8).astype(np.float32)
    real = weights.astype(np.float32) * scale.reshape(-1, 1, 1, 1)
    norm = {name: rng.uniform(0.5, 1, 8).astype(np.float32) for name in ("g", "b", "m", "v")}
    texts: list[str] = []
    for tensors in ({"w": stored(weights, bits, signed=True), "s": scale}, {"wf": real}):
        dequantize = [helper.make_node("DequantizeLinear", ["w", "s"], ["wf"], axis=0)]
        nodes = [
            *(dequantize if "s" in tensors else []),
            helper.make_node("Conv", ["x", "wf"], ["c"]),
            helper.make_node("BatchNormalization", ["c", *norm], ["y"]),
        ]
        proto = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, X_SHAPE)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(a, name) for name, a in {**tensors, **norm}.items()],
        )
        module = import_model(
            helper.make_model(proto, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
        )
        options = BuildOptions(target=find_target("c")(), quantize="none")
        run_stages(load_context(), module, front_stages(options))
        texts.append(str(module))
    assert "graph.conv2d" in texts[0] and "graph.binary" not in texts[0]
    assert texts[0].replace('loc("w")', "") == texts[1].replace('loc("wf")', "")


def raw(tensor: TensorProto, size: int) -> None:
    tensor.ClearField("raw_data")
    tensor.raw_data = bytes(size)


BROKEN: dict[str, tuple[str, Callable[[TensorProto], None], str]] = {
    "a byte is missing": ("w", lambda t: raw(t, 143), "error: 143 bytes, expected 144 for shape"),
    "a byte too many": ("w", lambda t: raw(t, 145), "error: 145 bytes, expected 144 for shape"),
    "a wide zero point": (
        "z",
        lambda t: t.CopyFrom(numpy_helper.from_array(np.full(8, 9, np.int8), "z")),
        "node 'wf' (DequantizeLinear): error: the zero point is int8, expected int4",
    ),
    "a zero point is missing": (
        "z",
        lambda t: t.CopyFrom(helper.make_tensor("z", TensorProto.INT4, [7], [0] * 7)),
        "node 'wf' (DequantizeLinear): error: 7 zero points, expected 8",
    ),
    "a matrix of scales": (
        "s",
        lambda t: t.CopyFrom(numpy_helper.from_array(np.ones((8, 3), np.float32), "s")),
        "node 'wf' (DequantizeLinear): error: 8 zero points, expected 24",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_wrong_tensors_are_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    name, change, message = BROKEN[case]
    proto = model("Conv", 4, signed=True, axis=0, seed=0)
    change(next(t for t in proto.graph.initializer if t.name == name))
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    arguments = [str(tmp_path / "model.onnx"), "--target", "c", "-o", str(tmp_path / "out")]
    assert compile_main(arguments) == 1
    error = capsys.readouterr().err
    assert (message in error and f"node '{name}'" in error) or message in error


def test_blocks_are_widened_with_a_note(capsys: pytest.CaptureFixture[str]):
    proto = model("MatMul", 4, signed=True, axis=1, seed=0)
    tensors = {t.name: t for t in proto.graph.initializer}
    tensors["s"].CopyFrom(numpy_helper.from_array(np.full((2, 5), 0.5, np.float32), "s"))
    tensors["z"].CopyFrom(helper.make_tensor("z", TensorProto.INT4, [2, 5], [1] * 10))
    dequantize = next(n for n in proto.graph.node if n.output[0] == "wf")
    del dequantize.attribute[:]
    dequantize.attribute.extend(
        [helper.make_attribute("axis", 0), helper.make_attribute("block_size", 3)]
    )
    x = np.random.default_rng(0).normal(size=X_SHAPE).astype(np.float32)
    expected = reference(proto, {"x": x})
    np.testing.assert_allclose(output(import_model(proto), {"x": x}), expected, atol=1e-6)
    note = "import: note: blocks of weights below 8 bits are widened to float32: 1 tensor"
    assert note in capsys.readouterr().err


@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4"])
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("use", ["DequantizeLinear", "float", "int8", "Flatten"])
def test_computed_values_of_few_bits(name: str, axis: int | None, use: str):
    """ONNX's reference implementation has no INT2; ONNX defines the result."""
    kind = np.dtype(getattr(ml_dtypes, name))
    low, high = int(ml_dtypes.iinfo(kind).min), int(ml_dtypes.iinfo(kind).max)
    scale = np.array([0.25, 0.3, 0.4] if axis else 0.25, np.float32)
    point = np.full(scale.shape, low + 1)
    tensors: dict[str, npt.NDArray[Any]] = {"s": scale, "z": point.astype(kind)}
    more: dict[str, Any] = {"axis": axis} if axis else {}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **more)]
    if use == "Flatten":
        nodes.append(helper.make_node("Flatten", ["q"], ["f"]))
    elif use != "DequantizeLinear":
        to = TensorProto.FLOAT if use == "float" else TensorProto.INT8
        nodes += [helper.make_node("Cast", ["q"], ["y"], to=to)]
    if use in ("DequantizeLinear", "Flatten"):
        source = "f" if use == "Flatten" else "q"
        nodes.append(helper.make_node("DequantizeLinear", [source, "s", "z"], ["y"], **more))
    output = TensorProto.INT8 if use == "int8" else TensorProto.FLOAT
    made = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (40, 3))],
        [helper.make_tensor_value_info("y", output, (40, 3))],
        [numpy_helper.from_array(array, key) for key, array in tensors.items()],
    )
    proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", 25)])
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    integers = np.clip(np.rint(x / scale) + point, low, high)
    expected = integers if use in ("float", "int8") else (integers - point) * scale
    module = import_model(proto)
    assert f"!quant.uniform<{name.replace('int', 'i').replace('ui', 'u')}:f32" in str(module)
    np.testing.assert_array_equal(run(module, {"x": x})["y"], expected.astype(np.float32))
