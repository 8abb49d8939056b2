"""Check functions with a scale and an offset, as in PP-LCNetV3, on each target."""

from collections.abc import Sequence
from math import erf
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_models import model, node
from xdsl.utils.hints import isa

from ceras_ir.dialects import graph
from ceras_ir.driver.verify.tool import main as verify
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.transforms.graph.fold_affine import AffineFunctionRule, SplitAffinePass
from ceras_ir.transforms.graph.fuse import FusePass, SplitActivationRule
from ceras_ir.transforms.graph.fuse_functions import ElementwiseRule

SHAPE = 1, 8, 9, 7


def affine_blocks() -> onnx.ModelProto:
    """Build three groups of convolution, HardSwish in Paddle's form, and learnable affine block."""
    random = np.random.default_rng(3)
    nodes: list[onnx.NodeProto] = []
    constants = {
        name: random.normal(size=shape).astype(np.float32) * factor
        for name, shape, factor in (
            ("w0", (8, 8, 1, 1), 0.4),
            ("w1", (8, 1, 3, 3), 0.4),
            ("w2", (8, 8, 1, 1), 0.4),
            ("w3", (4, 8, 1, 1), 0.4),
            ("b3", (4,), 1.0),
        )
    }
    x = "x"
    for i in range(3):
        pads, group = ([1] * 4, 8) if i == 1 else ([0] * 4, 1)
        constants[f"s{i}"] = np.array([0.3 + 0.4 * i], np.float32)
        constants[f"t{i}"] = np.array([0.25 - 0.2 * i], np.float32)
        nodes.append(node("Conv", f"{x} w{i}", f"c{i}", pads=pads, group=group))
        if i == 2:
            nodes.append(node("Relu", f"c{i}", f"h{i}"))
        else:
            nodes.append(node("HardSigmoid", f"c{i}", f"g{i}", alpha=1 / 6, beta=0.5))
            nodes.append(node("Mul", f"g{i} c{i}", f"h{i}"))
        nodes.append(node("Mul", f"s{i} h{i}", f"m{i}"))
        nodes.append(node("Add", f"m{i} t{i}", f"a{i}"))
        x = f"a{i}"
    nodes.append(node("Conv", f"{x} w3 b3", "y"))
    return model(nodes, {"x": SHAPE}, ["y"], constants)


def fused(float_model: onnx.ModelProto):
    module = import_model(float_model)
    FusePass().apply(load_context(), module)
    return module


def test_one_operation_for_each_block():
    module = fused(affine_blocks())
    layers = [op for op in module.walk() if isinstance(op, graph.LinearOperation)]
    others = {op.name for op in main_function(module).body.block.ops} - {
        "graph.conv2d", "graph.constant", "graph.transpose", "func.return",
    }  # fmt: skip
    assert not others
    functions = [op.activation for op in layers]
    assert functions[0] is not None and functions[0].data is graph.Function.HARD_SWISH
    assert functions[0].affine == (pytest.approx(0.3), 0.25)
    # A clip has no offset: the bounds have changed, and the layer has the affine part.
    assert functions[2] is not None and functions[2].affine is None
    assert functions[2].clip_range == (pytest.approx(-0.15), np.inf)
    assert functions[3] is None


def test_fusing_changes_roundings_only():
    plain, module = import_model(affine_blocks()), fused(affine_blocks())
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32) * 3
    expected, found = (run(m, {"x": x})["y"] for m in (plain, module))
    assert np.allclose(expected, found, rtol=1e-5, atol=1e-5)
    SplitAffinePass().apply(load_context(), module)
    assert not any(_affine(op) for op in module.walk())
    np.testing.assert_array_equal(run(module, {"x": x})["y"], found)


@pytest.mark.parametrize("scale", [None, 2.0])
def test_what_other_passes_recognize_is_left(scale: float | None):
    """Keep the error function of GELU, and a sigmoid that is scaled before it becomes a Swish."""
    nodes = [
        node("Mul", "x half_root", "a"), node("Erf", "a", "e"), node("Add", "e one", "f"),
        node("Mul", "x f", "g"), node("Mul", "g half", "h"), node("Sigmoid", "h", "s"),
        node("Mul", "s scale", "t") if scale else node("Identity", "s", "t"),
        node("Mul", "h t", "y"),
    ]  # fmt: skip
    numbers = {"half_root": 0.5**0.5, "one": 1.0, "half": 0.5, "scale": scale or 1.0}
    constants = {name: np.array(number, np.float32) for name, number in numbers.items()}
    module = fused(model(nodes, {"x": (8,)}, ["y"], constants))
    for pass_ in (SplitActivationRule(), ElementwiseRule()):
        pass_.apply(load_context(), module)
    kinds = [op.function.data for op in module.walk() if isinstance(op, graph.UnaryOp)]
    assert kinds == [graph.Function.GELU, graph.Function.SIGMOID if scale else graph.Function.SWISH]
    x = np.linspace(-3, 3, 8, dtype=np.float32)
    gelu = 0.5 * x * (1 + np.array([erf(v / 2**0.5) for v in x]))
    expected = gelu * (scale or 1.0) / (1 + np.exp(-gelu))
    found = run(module, {"x": x})["y"].astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def _affine(op: object) -> bool:
    function = getattr(op, "activation", None) or getattr(op, "function", None)
    return isa(function, graph.FunctionAttr) and function.affine is not None


OPTIONS: dict[str, Sequence[str]] = {
    "float": ("--targets", "c"),
    "int8": ("--targets", "c,nnet,vta,dataflow,onnx", "--calibrate", "{data}"),
    "finer": ("--targets", "c,nnet", "--silu", "table16", "--calibrate", "{data}"),
    "one layer in float": ("--targets", "c,nnet", "--float", "c1_conv", "--calibrate", "{data}"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_level_and_target_is_exact(options: Sequence[str], tmp_path: Path):
    random = np.random.default_rng(2)
    (tmp_path / "m.onnx").write_bytes(affine_blocks().SerializeToString())
    data = tmp_path / "d.npz"
    np.savez(data, x=random.normal(size=(32, *SHAPE[1:])).astype(np.float32) * 2)
    filled = [option.format(data=data) for option in options]
    assert verify([str(tmp_path / "m.onnx"), *filled, "--floor", "-100"]) == 0


@pytest.mark.parametrize("low, high", [(0.0, np.inf), (0.0, 6.0), (-1.0, 0.5)])
@pytest.mark.parametrize("constant", [1e-3, 0.7, 3.0, 1e20])
@pytest.mark.parametrize("operator", ["Mul", "Add"])
def test_clips_change_places_exactly(low: float, high: float, constant: float, operator: str):
    clip = graph.FunctionAttr(graph.Function.CLIP, (low, high))
    number = np.array([constant], np.float32)
    nodes = [node("Clip", "x low high", "c"), node(operator, "c k", "y")]
    constants = {"k": number, "low": np.array(low, "f4"), "high": np.array(high, "f4")}
    module = import_model(model(nodes, {"x": (64,)}, ["y"], constants))
    x = np.random.default_rng(0).normal(size=64).astype(np.float32) * 4
    x[:6] = 0, np.inf, -np.inf, 1e30, -1e30, 1e-40
    AffineFunctionRule().apply(load_context(), module)
    last = main_function(module).body.block.last_op
    assert last is not None and isinstance(last.operands[0].owner, graph.UnaryOp)
    clipped = apply_function(clip, x)
    with np.errstate(all="ignore"):
        expected = clipped * number if operator == "Mul" else clipped + number
        np.testing.assert_array_equal(run(module, {"x": x})["y"], expected)
