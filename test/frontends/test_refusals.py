"""Check that all refusals are reported together, by node, with the rule and the remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Tool
from onnx import TensorProto, helper
from onnx_models import Attribute, Shape, model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.support.diagnostics import InputError, UnsupportedError


def one(
    op: str,
    inputs: str = "x",
    outputs: str = "y",
    *,
    shape: Shape = (1, 3, 8, 8),
    opset: int = 13,
    extra: dict[str, Shape] | None = None,
    constants: Mapping[str, Sequence[float]] | None = None,
    **attributes: Attribute,
) -> onnx.ModelProto:
    """Build a model of a single node `n`, not checked by ONNX."""
    return model(
        [node(op, inputs, outputs, "n", **attributes)],
        {"x": shape, **(extra or {})},
        ["y"],
        {key: np.array(value, np.float32) for key, value in (constants or {}).items()},
        opset=opset,
        infer=False,
    )


FOUR = {"s": [1.0, 1.0, 2.0, 2.0]}

UNSUPPORTED: dict[str, tuple[onnx.ModelProto, str]] = {
    "operator": (
        one("Bernoulli"),
        "unsupported Bernoulli: not an operator that is imported; export",
    ),
    "4-D conv": (
        one("Conv", "x w", shape=(1, 1, 2, 2, 2, 2), extra={"w": (1, 1, 1, 1, 1, 1)}),
        "4 spatial dimensions, expected one to three",
    ),
    "indices": (one("BatchNormalization", "x s s s s", "a y", constants={"s": [1.0] * 3}), "first"),
    "determinant": (one("Det", shape=(4, 4)), "expected square matrices of at most 3 rows"),
    "mode": (
        one("Resize", "x - s", constants=FOUR, mode="fancy"),
        "mode must be nearest, linear or cubic; got 'fancy'; export with mode='linear'",
    ),
    "coordinates": (
        one("Resize", "x - s", constants=FOUR, coordinate_transformation_mode="tf_crop_and_resize"),
        "got 'tf_crop_and_resize'",
    ),
    "fractions of corners": (
        one(
            "Resize",
            "x - s",
            constants={"s": [1.0, 1.0, 1.3, 1.3]},
            mode="linear",
            coordinate_transformation_mode="align_corners",
        ),
        "give sizes instead",
    ),
    "computed scales": (
        one("Resize", "x - s", extra={"s": (4,)}),
        "the shape of 'y' depends on data",
    ),
    "computed shape": (
        one("Reshape", "x s", extra={"s": (20,)}),
        "known at compile time; it is computed from data; simplify the model (onnxsim) with fixed "
        "input shapes, or end the model before this node",
    ),
    "places of data": (
        one("NonZero"),
        "end the model before it and do the rest in the application",
    ),
    "computed constant": (
        one("ConstantOfShape", "s", extra={"s": (20,)}),
        "not an operator that is imported; export with fixed shapes",
    ),
    "quarter floats": (
        one("Cast", to=TensorProto.FLOAT8E4M3FN),
        "got float8e4m3fn; convert the model",
    ),
    "no elements": (one("Slice", opset=9, starts=[0], ends=[0]), "has no elements"),
    "empty input": (
        one("Relu", shape=(0, 3)),
        "unsupported dimension 0 of 0, which may cause the findings above; if it is open",
    ),
    "empty result": (one("Relu", shape=(0, 3)), "'y' has no elements: shape [0, 3]"),
    "empty constant": (
        one("Add", "x k", shape=(1,), constants={"k": []}),
        "'k' has no elements: shape [0]",
    ),
    "large batch": (
        one("MatMul", "x z", shape=(2048, 16, 16), extra={"z": (2048, 16, 16)}),
        "a batch of 2048 products, expected at most 1024",
    ),
    "training": (
        one("BatchNormalization", "x s s s s", constants={"s": [1.0] * 3}, training_mode=1),
        "export the model in eval mode",
    ),
    "opset": (one("Relu", opset=5), "unsupported opset 5, expected 6 to"),
    "dynamic height": (
        one("Relu", shape=("N", 3, "H", 8)),
        "unsupported dynamic dimension 2 'H': only the first may be unknown",
    ),
    "complex numbers": (
        model(
            [node("Relu", "x", "y")], {"x": (2,)}, ["y"], dtype=TensorProto.COMPLEX64, infer=False
        ),
        "unsupported element type complex64: inputs are floats, integers or booleans",
    ),
    "text": (
        model(
            [node("Identity", "x", "y")], {"x": (2,)}, ["y"], dtype=TensorProto.STRING, infer=False
        ),
        "unsupported element type string: inputs are floats, integers or booleans; encode text",
    ),
    "integers": (
        model([node("Relu", "x", "y")], {"x": (2,)}, ["y"], dtype=TensorProto.INT32, infer=False),
        "operand of i32 elements, expected float32",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported(name: str) -> None:
    proto, text = UNSUPPORTED[name]
    with pytest.raises(UnsupportedError) as info:
        import_model(proto, name="m.onnx")
    assert info.value.exit_status == 3
    lines = info.value.lines("?")
    assert all(line.startswith("m.onnx: ") and "unsupported" in line for line in lines)
    assert text in "\n".join(lines)


def test_all_refusals_at_once() -> None:
    """Static refusals are first; then all refusals that need shapes."""
    nodes = [
        node("Bernoulli", "x", "a", "first"),
        node("Resize", "a - s", "b", "second", mode="fancy"),
        helper.make_node("Fancy", ["b"], ["c"], domain="com.example"),
        node("Relu", "c", "y", "fine"),
    ]
    proto = model(nodes, {"x": (1, 3, 8, 8)}, ["y"], {"s": [1.0, 1.0, 2.0, 2.0]}, infer=False)
    with pytest.raises(UnsupportedError) as info:
        import_model(proto)
    named = [(f.node, f.operator) for f in info.value.findings]
    assert named == [("first", "Bernoulli"), ("second", "Resize"), ("c", "com.example::Fancy")]

    nodes = [
        node("Det", "x", "a", "first"),
        node("Relu", "a", "b", "depends"),
        node("Det", "x", "c", "second"),
        node("Add", "b c", "y", "sum"),
    ]
    proto = model(nodes, {"x": (1, 3, 8, 8)}, ["y"], infer=False)
    with pytest.raises(UnsupportedError) as info:
        import_model(proto)
    assert [f.node for f in info.value.findings] == ["first", "second"]


QCDQ = "export the network from Brevitas with brevitas.export.export_onnx_qcdq"


@pytest.mark.parametrize(
    ("domain", "operator", "remedy"),
    [
        ("qonnx.custom_op.general", "FloatQuant", f"of 2 to 8 bits, and {QCDQ}"),
        ("finn", "MultiThreshold", f"as it was before QONNX or FINN changed it: {QCDQ}"),
        ("com.amd.quark", "ExtendedQuantizeLinear", "with quant_format=QuantFormat.QDQ"),
        ("com.amd.quark", "ExtendedDequantizeLinear", "Int8Spec or UInt8Spec"),
        ("com.amd.quark", "BFPQuantizeDequantize", "Int8Spec or UInt8Spec"),
        ("com.vai.quantize", "VitisQuantizeLinear", "with quant_format=QuantFormat.QDQ"),
        ("com.microsoft", "Fancy", "as it was before ONNX Runtime optimized it"),
        ("com.microsoft", "Inverse", "solve the equations in the application"),
        ("com.example", "Quant", "export the model without it"),
    ],
)
def test_other_quantizers_have_another_export(domain: str, operator: str, remedy: str) -> None:
    nodes = [
        helper.make_node(operator, ["x", "s", "z", "b"], ["q"], "n", domain=domain),
        node("Relu", "q", "y"),
    ]
    constants = {"s": np.float32(0.5), "z": np.float32(0), "b": np.float32(4)}
    proto = model(nodes, {"x": (1, 4)}, ["y"], constants, infer=False, domains={domain: 1})
    with pytest.raises(UnsupportedError) as info:
        import_model(proto)
    assert info.value.exit_status == 3 and len(info.value.findings) == 1
    found = info.value.findings[0]
    assert found.message.startswith(f"unsupported {domain}::{operator}: ")
    assert remedy in found.message


def test_unused_nodes_are_not_looked_at() -> None:
    nodes = [node("Bernoulli", "x", "unused"), node("Relu", "x", "y")]
    import_model(model(nodes, {"x": (1, 2)}, ["y"], infer=False))


def test_exit_status_and_text(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(one("Bernoulli").SerializeToString())
    result = tool("ceras-opt", "m.onnx", "-o", "out.mlir")
    assert result.status == 3 and not (tmp_path / "out.mlir").exists()
    assert result.stderr.startswith("m.onnx: node 'n' (Bernoulli): error: unsupported Bernoulli")


def test_unsupported_is_an_input_error() -> None:
    with pytest.raises(InputError):
        import_model(one("Bernoulli"))


def test_integers_with_and_without_a_scale() -> None:
    """The caller keeps a cache of bytes, and the network has quantized values."""
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("Concat", "kept q", "joined", "n", axis=0),
        node("DequantizeLinear", "joined s z", "y"),
    ]
    proto = model(
        nodes,
        {"x": (1, 4), "kept": (2, 4)},
        ["y"],
        {"s": np.float32(0.1), "z": np.int8(0)},
        infer=False,
    )
    proto.graph.input[1].type.tensor_type.elem_type = TensorProto.INT8
    with pytest.raises(UnsupportedError, match=r"without a scale.*--calibrate"):
        import_model(proto)
