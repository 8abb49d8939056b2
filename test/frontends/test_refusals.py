"""What is refused: all of it at once, by node, with the rule and the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Tool
from onnx import TensorProto, helper
from onnx_models import Attribute, Shape, model, node, pool_model

from ceras_ir.diagnostics import InputError, UnsupportedError
from ceras_ir.frontends.onnx import import_model


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
    """A model of one node called `n`, not checked by ONNX."""
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
    "operator": (one("Einsum"), "unsupported Einsum: not an operator that is imported; export"),
    "quantized": (one("QuantizeLinear", "x s", constants=FOUR), "quantize it with --quantize"),
    "3-D conv": (
        one("Conv", "x w", shape=(1, 1, 2, 2, 2), extra={"w": (1, 1, 1, 1, 1)}),
        "3 spatial dimensions; one or two are taken",
    ),
    "indices": (one("MaxPool", "x", "y z", kernel_shape=[2, 2]), "only the first output"),
    "counted overhang": (
        pool_model(
            "AveragePool", (1, 1, 6, 6), (3, 3), strides=[2, 2], ceil_mode=1, count_include_pad=1
        ),
        "use ceil_mode=0",
    ),
    "cubic": (
        one("Resize", "x - s", constants=FOUR, mode="cubic"),
        "mode must be nearest or linear; got 'cubic'; export with mode='linear'",
    ),
    "coordinates": (
        one("Resize", "x - s", constants=FOUR, coordinate_transformation_mode="tf_crop_and_resize"),
        "got 'tf_crop_and_resize'",
    ),
    "resized channels": (
        one("Resize", "x - s", constants={"s": [1.0, 2.0, 2.0, 2.0]}),
        "only height and width can change",
    ),
    "computed scales": (one("Resize", "x - s", extra={"s": (4,)}), "scales and sizes must be"),
    "computed shape": (one("Reshape", "x s", extra={"s": (2,)}), "known at compile time"),
    "computed bound": (one("Clip", "x l", extra={"l": ()}), "bounds must be constants"),
    "empty clip": (one("Clip", opset=10, min=1.0, max=0.0), "the lower bound 1.0 exceeds"),
    "computed divisor": (one("Div", "x z", extra={"z": (1,)}), "the divisor must be a constant"),
    "zero divisor": (one("Div", "x z", constants={"z": [0.0]}), "a divisor is zero"),
    "batched product": (
        one("MatMul", "x z", extra={"z": (1, 3, 8, 2)}),
        "the second operand must be one matrix",
    ),
    "training": (
        one("BatchNormalization", "x s s s s", constants={"s": [1.0] * 3}, training_mode=1),
        "export the model in eval mode",
    ),
    "opset": (one("Relu", opset=5), "unsupported opset 5: 6 to"),
    "dynamic height": (
        one("Relu", shape=("N", 3, "H", 8)),
        "unsupported dynamic dimension 2 'H': only the first may be unknown",
    ),
    "integers": (
        model([node("Relu", "x", "y")], {"x": (2,)}, ["y"], dtype=TensorProto.INT8, infer=False),
        "unsupported element type int8: inputs are float32",
    ),
    "integer output": (one("Shape"), "int64"),
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
    """Static ones first, before any work; then those that need shapes, also all at once."""
    nodes = [
        node("Einsum", "x", "a", "first"),
        node("Resize", "a - s", "b", "second", mode="cubic"),
        helper.make_node("Fancy", ["b"], ["c"], domain="com.example"),
        node("Relu", "c", "y", "fine"),
    ]
    proto = model(nodes, {"x": (1, 3, 8, 8)}, ["y"], {"s": [1.0, 1.0, 2.0, 2.0]}, infer=False)
    with pytest.raises(UnsupportedError) as info:
        import_model(proto)
    named = [(f.node, f.operator) for f in info.value.findings]
    assert named == [("first", "Einsum"), ("second", "Resize"), ("c", "com.example::Fancy")]

    nodes = [
        node("Resize", "x - s", "a", "first"),
        node("Relu", "a", "b", "depends"),
        node("MatMul", "x x", "c", "second"),
        node("Add", "b c", "y", "sum"),
    ]
    proto = model(nodes, {"x": (1, 3, 8, 8)}, ["y"], {"s": [1.0, 2.0, 2.0, 2.0]}, infer=False)
    with pytest.raises(UnsupportedError) as info:
        import_model(proto)
    assert [f.node for f in info.value.findings] == ["first", "second"]


def test_unused_nodes_are_not_looked_at() -> None:
    nodes = [node("Einsum", "x", "unused"), node("Relu", "x", "y")]
    import_model(model(nodes, {"x": (1, 2)}, ["y"], infer=False))


def test_exit_status_and_text(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(one("Einsum").SerializeToString())
    result = tool("ceras-opt", "m.onnx", "-o", "out.mlir")
    assert result.status == 3 and not (tmp_path / "out.mlir").exists()
    assert result.stderr.startswith("m.onnx: node 'n' (Einsum): error: unsupported Einsum")


def test_unsupported_is_an_input_error() -> None:
    with pytest.raises(InputError):
        import_model(one("Einsum"))
