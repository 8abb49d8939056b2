"""Test shapes on the command line, local functions, and branches with constant conditions."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Tool
from onnx import TensorProto, helper
from onnx_compare import agree
from onnx_models import model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UnsupportedError

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


def symbolic() -> onnx.ModelProto:
    inputs = {"x": ("N", 3, "H", "W"), "z": ("N", 3, "H", "W")}
    return model([node("Add", "x z", "y")], inputs, ["y"], infer=False)


def test_shapes_bind_symbols_everywhere():
    module = import_model(symbolic(), shapes={"x": (2, 3, 4, 5)})
    x = np.ones((2, 3, 4, 5), np.float32)
    assert run(module, {"x": x, "z": x})["y"].shape == (2, 3, 4, 5)


def test_ceras_opt_binds_symbols(tool: Tool, tmp_path: Path):
    (tmp_path / "open.onnx").write_bytes(symbolic().SerializeToString())
    done = tool("ceras-opt", "open.onnx", "--shape", "x=2x3x4x5")
    assert done.status == 0 and done.stdout.count("tensor<2x3x4x5xf32> {graph.name") == 3
    refused = tool("ceras-opt", "open.onnx", "--batch", "2")
    assert refused.status == 3 and "--shape x=2x3x224x224" in refused.stderr


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (
            {"x": (2, 4, 4, 5)},
            r"shape \[2, 4, 4, 5\] does not fit the declared \['N', 3, 'H', 'W'\]",
        ),
        ({"x": (2, 3, 4)}, "does not fit"),
        ({"x": (2, 3, 4, 5), "z": (1, 3, 4, 5)}, "does not fit"),
        ({"q": (1,)}, "no input named 'q' to shape; there are x, z"),
    ],
)
def test_shapes_that_do_not_fit(shapes: dict[str, tuple[int, ...]], message: str):
    with pytest.raises(InputError, match=message):
        import_model(symbolic(), shapes=shapes)


def test_shape_option(tool: Tool, tmp_path: Path):
    (tmp_path / "m.onnx").write_bytes(symbolic().SerializeToString())
    x = np.ones((1, 3, 4, 5), np.float32)
    np.savez(tmp_path / "in.npz", x=x, z=x)
    arguments = ("m.onnx", "--inputs", "in.npz", "--outputs", "out.npz")
    assert tool("ceras-run", *arguments).status == 3
    assert tool("ceras-run", *arguments, "--shape", "x=1x3x4x5").status == 0
    assert np.load(tmp_path / "out.npz")["y"].shape == (1, 3, 4, 5)
    assert tool("ceras-run", *arguments, "--shape", "x=1x-1").status == 2


def test_local_functions_are_inlined():
    inner = helper.make_function(
        "local", "twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 13)]
    )
    calls = [helper.make_node("twice", ["x"], ["t"], domain="local"), node("Relu", "t", "y")]
    proto = model(calls, {"x": (3, 4)}, ["y"], infer=False, domains={"local": 1})
    proto.functions.append(inner)
    assert (run(import_model(proto), {"x": X})["y"] == np.maximum(2 * X, 0)).all()


def test_recursive_functions_are_refused():
    call = helper.make_node("again", ["a"], ["b"], domain="local")
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("local", 1)]
    proto = model(
        [helper.make_node("again", ["x"], ["y"], domain="local")],
        {"x": (3, 4)}, ["y"], infer=False, domains={"local": 1},
    )  # fmt: skip
    proto.functions.append(helper.make_function("local", "again", ["a"], ["b"], [call], opsets))
    with pytest.raises(InputError, match="calls itself"):
        import_model(proto)


def branches(condition: bool | None) -> onnx.ModelProto:
    def graph(operator: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
        return helper.make_graph([node(operator, "h", "r")], operator, [], [value])

    choice = helper.make_node(
        "If", ["c"], ["y"], then_branch=graph("Relu"), else_branch=graph("Neg")
    )
    constants = {} if condition is None else {"c": np.array(condition)}
    inputs: dict[str, tuple[int, ...]] = {"x": (3, 4)}
    nodes = [node("Abs", "x", "h"), choice]
    proto = model(nodes, inputs, ["y"], constants, infer=False)
    if condition is None:
        proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return proto


@pytest.mark.parametrize("condition", [True, False])
def test_constant_branches_are_taken(condition: bool):
    agree(branches(condition), {"x": X})


@pytest.mark.parametrize("condition", [True, False])
def test_computed_conditions_select(condition: bool):
    """Both branches are computed; for a fixed condition, only the chosen branch."""
    proto = branches(None)
    expected = np.maximum(abs(X), 0) if condition else -abs(X)
    module = import_model(proto)
    assert np.array_equal(run(module, {"x": X, "c": np.array(condition)})["y"], expected)
    fixed = import_model(proto, values={"c": [float(condition)]})
    assert np.array_equal(run(fixed, {"x": X})["y"], expected)
    assert "graph.select" in str(module) and "graph.select" not in str(fixed)


@pytest.mark.parametrize("shape", [(-1, 3, -1, -1), (-1, 3, "?", "?"), ("?", 3, "?", "?")])
def test_an_unknown_dimension_is_open(shape: tuple[int | str, ...]) -> None:
    """PaddlePaddle writes -1 or a question mark for several dimensions."""
    proto = model([node("Relu", "x", "y")], {"x": shape}, ["y"], infer=False)
    with pytest.raises(UnsupportedError, match="--shape x=1x3x224x224"):
        import_model(proto)
    module = import_model(proto, shapes={"x": (1, 3, 4, 5)})
    assert run(module, {"x": np.ones((1, 3, 4, 5), np.float32)})["y"].shape == (1, 3, 4, 5)


def test_the_past_of_a_decoder_is_no_picture() -> None:
    proto = model([node("Relu", "k", "y")], {"k": ("b", 4, "past", 16)}, ["y"], infer=False)
    with pytest.raises(UnsupportedError, match="--shape k=1x4x16x16"):
        import_model(proto)


@pytest.mark.parametrize(
    ("shape", "size", "taken", "proposed"),
    [
        ((1, "N"), 77, "1x512", "1x77"),
        (("B", 4, "L"), 80, "1x4x16", "1x4x20"),
        (("B", 3, "H", "W"), 3 * 32 * 32, "1x3x224x224", "1x3x32x32"),
        (("B", 3, "H", "W"), 3 * 48 * 320, "1x3x224x224", "1x3x48x320"),
        (("B", "H", "W", 3), 3 * 96 * 96, "1x224x224x3", "1x96x96x3"),
    ],
)
def test_extents_that_do_not_fit(
    shape: tuple[int | str, ...], size: int, taken: str, proposed: str
) -> None:
    """The Reshape determines the proposed extents."""
    target = np.array([1, size])
    proto = model([node("Reshape", "x s", "y")], {"x": shape}, ["y"], {"s": target}, infer=False)
    with pytest.raises(UnsupportedError, match=f"--shape x={proposed}"):
        import_model(proto)
    extents = [int(extent) for extent in taken.split("x")]
    with pytest.raises(UnsupportedError, match=f"taken as {taken}; .* --shape x={proposed}"):
        import_model(proto, shapes={"x": extents})


def test_a_misnamed_dimension_is_no_batch() -> None:
    proto = model(
        [node("MatMul", "x w", "y")],
        {"x": ("batch",)},
        ["y"],
        {"w": np.ones((5, 2), np.float32)},
        infer=False,
    )
    message = r"1 columns, expected 5\n.*taken as 1; .* --shape x=5"
    with pytest.raises(UnsupportedError, match=message):
        import_model(proto)
    import_model(proto, shapes={"x": [5]})


def test_inputs_without_elements_are_constants(tool: Tool, tmp_path: Path):
    """The first step of a decoder: an empty cache is not an input."""
    nodes = [
        node("Concat", "past x", "now", axis=1),
        node("ReduceMax", "now", "m", axes=[1]),
        node("ReduceSum", "past axes", "s", keepdims=1),
        node("Add", "m s", "y"),
    ]
    inputs = {"x": (1, 2, 3), "past": (1, "P", 3)}
    proto = model(nodes, inputs, ["y"], {"axes": np.array([1])}, infer=False)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    np.savez(tmp_path / "in.npz", x=x, past=np.zeros((1, 0, 3), np.float32))
    arguments = ("m.onnx", "--shape", "past=1x0x3", "--inputs", "in.npz", "--outputs", "out.npz")
    assert tool("ceras-run", *arguments).status == 0
    with np.load(tmp_path / "out.npz") as found:
        assert np.array_equal(found["y"], x.max(1, keepdims=True))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"z": [1.0]}, "no input named 'z' to set"),
        ({"c": [0.5]}, "input 'c' is set to 0.5, expected 0 or 1"),
        ({"c": [1.0, 1.0]}, "is set to 2 numbers, expected 1$"),
    ],
)
def test_wrong_numbers_are_refused(values: dict[str, list[float]], message: str):
    with pytest.raises(InputError, match=message):
        import_model(branches(None), values=values)


def test_set_is_an_option(tool: Tool, tmp_path: Path):
    (tmp_path / "if.onnx").write_bytes(branches(None).SerializeToString())
    done = tool("ceras-opt", "if.onnx", "--set", "c=1")
    assert done.status == 0 and "graph.select" not in done.stdout
    for truth in ("true", "False"):
        assert tool("ceras-opt", "if.onnx", "--set", f"c={truth}").status == 0
    twice = tool("ceras-opt", "if.onnx", "--set", "c=1", "--set", "c=0")
    assert twice.status == 2 and "--set is given twice for input 'c'" in twice.stderr
    wrong = tool("ceras-opt", "if.onnx", "--set", "c=yes")
    assert wrong.status == 2 and "expected NAME=16000" in wrong.stderr
