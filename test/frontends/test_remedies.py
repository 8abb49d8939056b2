"""Check that a model is imported with the options that its error message proposes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compare import agree
from onnx_models import Shape, model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.lengths import UpTo, parse_shapes
from ceras_ir.support.diagnostics import InputError, UnsupportedError

BOOL, FLOAT, INT32, INT64 = (
    TensorProto.BOOL,
    TensorProto.FLOAT,
    TensorProto.INT32,
    TensorProto.INT64,
)


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    small: Mapping[str, tuple[int, Shape]] | None = None,
    output: Shape | None = None,
    initializers: Mapping[str, object] | None = None,
    **constants: object,
) -> onnx.ModelProto:
    """Build a model with float inputs, `small` inputs of other types, and the output `y`."""
    proto = model(
        nodes,
        inputs,
        ["y"],
        {k: np.asarray(value) for k, value in {**(initializers or {}), **constants}.items()},
        opset=17,
        infer=False,
    )
    for name, (kind, shape) in (small or {}).items():
        proto.graph.input.append(helper.make_tensor_value_info(name, kind, shape))
    if output is not None:
        proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, output))
    return proto


def graph(*nodes: onnx.NodeProto, result: str = "r") -> onnx.GraphProto:
    value = helper.make_tensor_value_info(result, FLOAT, None)
    return helper.make_graph(nodes, "branch", [], [value])


def branch(
    condition: str,
    then: onnx.GraphProto,
    other: onnx.GraphProto,
    result: str = "y",
    name: str = "n",
) -> onnx.NodeProto:
    return node("If", condition, result, name, then_branch=then, else_branch=other)


GOOD = graph(node("Relu", "x", "r", "relu"))
REFUSED = graph(node("Det", "x", "r", "det"))
"""This is the determinant of a matrix that is not square."""

WRONG = graph(node("Add", "x five", "r", "sum"))
"""This sum has shapes that cannot be broadcast."""

FIVE = np.ones(5, np.float32)


def refusal(proto: onnx.ModelProto, **options: Mapping[str, Sequence[float]]) -> str:
    """Return the message of the refusal, which has the exit status 3."""
    with pytest.raises(UnsupportedError) as info:
        import_model(proto, name="m.onnx", **options)  # pyright: ignore[reportArgumentType]
    lines = info.value.lines("?")
    assert info.value.exit_status == 3 and all("unsupported" in line for line in lines)
    return "\n".join(lines)


def follow(proto: onnx.ModelProto) -> str:
    """
    Import a model with the options that the refusal of it proposes; return the message. Maxima of
    values inside the network are an alternative to values of inputs.
    """
    message = refusal(proto)
    proposed = {
        name: parse_shapes(shape)[0]
        for name, shape in re.findall(r"--shape (\w+)=([\dx.]+)", message)
    }
    maxima = {k: s for k, s in proposed.items() if any(isinstance(n, UpTo) for n in s)}
    shapes = {k: s for k, s in proposed.items() if k not in maxima}
    values = {
        name: [float(number) for number in numbers.split(",")]
        for name, numbers in re.findall(r"--set (\w+)=([-\d.,e]+)", message)
    }
    assert proposed or values
    if maxima:
        import_model(proto, shapes=proposed)
    if shapes or values:
        import_model(proto, shapes=shapes, values=values)
    return message


@pytest.mark.parametrize("bad", [REFUSED, WRONG])
@pytest.mark.parametrize("is_then", [False, True])
def test_a_branch_that_an_input_decides(bad: onnx.GraphProto, is_then: bool) -> None:
    proto = network(
        [
            node("Equal", "rate k", "c"),
            branch("c", *((bad, GOOD) if is_then else (GOOD, bad))),
        ],
        {"x": (3, 4)},
        {"rate": (INT64, ())},
        k=16000,
        five=FIVE,
    )
    message = follow(proto)
    sides = ("then", "else") if is_then else ("else", "then")
    assert f"in the {sides[0]} branch of If 'n' with a computed condition" in message
    assert f"the {sides[1]} branch can be imported; fix input 'rate' with --set" in message
    assert f"--set rate={16001 if is_then else 16000}" in message
    other = import_model(proto, values={"rate": [8000 if is_then else 16000]})
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    assert np.array_equal(run(other, {"x": x})["y"], np.maximum(x, 0))


@pytest.mark.parametrize(
    ("kind", "shape", "nodes", "option"),
    [
        (BOOL, (), [node("Identity", "v", "c")], "--set v=1"),
        (BOOL, (1,), [node("Not", "v", "c")], "--set v=0"),
        (INT32, (1,), [node("Cast", "v", "w", to=7), node("Less", "w k", "c")], "--set v=15999"),
        (INT64, ("N",), [node("Greater", "v k", "c")], "--set v=16001"),
        (FLOAT, (), [node("Cast", "k", "f", to=FLOAT), node("Less", "v f", "c")], "--set v=3"),
        (
            INT64,
            (2,),
            [node("ReduceMax", "v", "w", keepdims=0), node("Equal", "w k", "c")],
            "--set v=16000",
        ),
    ],
)  # fmt: skip
def test_conditions_of_every_type(
    kind: int, shape: Shape, nodes: Sequence[onnx.NodeProto], option: str
) -> None:
    proto = network(
        [*nodes, branch("c", GOOD, REFUSED)], {"x": (3, 4)}, {"v": (kind, shape)}, k=16000
    )
    assert option in follow(proto)


@pytest.mark.parametrize("number", [2**31 + 1, -123456789, 0])
def test_numbers_with_all_digits(number: int) -> None:
    proto = network(
        [node("Equal", "v k", "c"), branch("c", GOOD, REFUSED)],
        {"x": (3, 4)},
        {"v": (INT64, ())},
        k=number,
    )
    assert follow(proto).endswith(f"--set v={number}")


def test_nested_branches() -> None:
    """Two inputs decide together which branch runs."""
    inner = graph(branch("b", REFUSED, GOOD, "r", "inner"))
    proto = network(
        [branch("a", inner, REFUSED, name="outer")],
        {"x": (3, 4)},
        {"a": (BOOL, ()), "b": (BOOL, ())},
    )
    message = follow(proto)
    assert "--set a=1" in message and "--set b=0" in message
    place = r"det.*then branch of If 'inner'.*fix input 'b'.*then branch of If 'outer'.*input 'a'"
    assert re.search(place, message)


SIZES: dict[str, tuple[Sequence[onnx.NodeProto], Mapping[str, object]]] = {
    "Reshape": (
        [node("Concat", "n rest", "s", axis=0), node("Reshape", "x s", "y")],
        {"rest": [-1]},
    ),
    "Slice": ([node("Slice", "x zero n", "y")], {"zero": [0]}),
    "Expand": (
        [node("Unsqueeze", "x zero", "u"), node("Concat", "n rest", "s", axis=0),
         node("Expand", "u s", "y")],
        {"zero": [0], "rest": [12]},
    ),
    "ConstantOfShape": (
        [node("ConstantOfShape", "n", "o"), node("Unsqueeze", "x one", "u"),
         node("Add", "u o", "y")],
        {"one": [1]},
    ),
    "Range": (
        [node("Squeeze", "n", "m"), node("Range", "zero m one", "r"),
         node("Cast", "r", "f", to=FLOAT), node("Unsqueeze", "x axis", "u"),
         node("Add", "u f", "y")],
        {"zero": 0, "one": 1, "axis": [1]},
    ),
    "Tile": ([node("Tile", "x n", "y")], {}),
    "TopK": ([node("TopK", "x n", "y i")], {}),
    "Split": (
        [node("Sub", "all n", "m"), node("Concat", "n m", "s", axis=0),
         node("Split", "x s", "y z")],
        {"all": [12]},
    ),
    "Pad": ([node("Concat", "zero n", "s", axis=0), node("Pad", "x s", "y")], {"zero": [0]}),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_an_input_decides(name: str) -> None:
    nodes, constants = SIZES[name]
    proto = network(nodes, {"x": (12,)}, {"n": (INT64, (1,))}, initializers=constants)
    message = follow(proto)
    assert "fix input 'n' with --set" in message and "--set n=" in message


def test_a_shape_that_is_an_input() -> None:
    """The shape that the model declares for the output is tried."""
    proto = network(
        [node("Reshape", "x s", "y")], {"x": (12,)}, {"s": (INT64, (2,))}, output=(3, 4)
    )
    assert "--set s=3,4" in follow(proto)


def test_the_number_of_steps_is_an_input() -> None:
    body = helper.make_graph(
        [node("Identity", "on", "on_"), node("Det", "h", "d"), node("Add", "h d", "g")],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("on", BOOL, []),
            helper.make_tensor_value_info("h", FLOAT, [2, 2]),
        ],
        [
            helper.make_tensor_value_info("on_", BOOL, []),
            helper.make_tensor_value_info("g", FLOAT, [2, 2]),
        ],
    )
    proto = network(
        [node("Loop", "n on x", "y", "steps", body=body)],
        {"x": (2, 2)},
        {"n": (INT64, ())},
        on=True,
    )
    assert "'n' is computed; fix input 'n' with --set" in follow(proto)


def test_sizes_and_branches_together() -> None:
    proto = network(
        [
            node("Equal", "rate k", "c"),
            branch("c", GOOD, REFUSED, "b"),
            node("Slice", "b zero n", "s"),
            node("Add", "s z", "y"),
        ],
        {"x": (3, 4), "z": ("M", "L")},
        {"rate": (INT64, ()), "n": (INT64, (1,))},
        k=8000,
        zero=[0],
    )
    message = follow(proto)
    assert "--set rate=8000" in message and "--set n=" in message and "--shape z=" in message


def test_a_branch_that_data_decide() -> None:
    """No option helps: the message names the branch and the alternative branch."""
    proto = network(
        [node("ReduceSum", "x", "t", keepdims=0), node("Greater", "t zero", "c"),
         branch("c", GOOD, REFUSED)],
        {"x": (3, 4)},
        zero=np.float32(0),
    )  # fmt: skip
    message = refusal(proto)
    assert "--set" not in message and "export the model without the If" in message
    assert "in the else branch of If 'n' with a computed condition, and the then" in message


def test_both_branches_that_are_wrong() -> None:
    proto = network([branch("c", WRONG, WRONG)], {"x": (3, 4)}, {"c": (BOOL, ())}, five=FIVE)
    with pytest.raises(InputError, match="in the else branch of If 'n'") as info:
        import_model(proto)
    assert info.value.exit_status == 1


def test_a_malformed_branch_is_bad_input() -> None:
    """The error does not depend on the condition, unless the condition is known."""
    proto = network(
        [branch("c", GOOD, graph(node("Relu", "nothing", "r")))], {"x": (3, 4)}, {"c": (BOOL, ())}
    )
    with pytest.raises(InputError, match="which no node or input of the model defines") as info:
        import_model(proto)
    assert info.value.exit_status == 1
    import_model(proto, values={"c": [1]})


@pytest.mark.parametrize("bad", ["Det", "Add"])
def test_only_the_branch_that_is_taken_counts(bad: str) -> None:
    """A node outside that only the unused branch needs does not count either."""
    operands = "x" if bad == "Det" else "x five"
    proto = network(
        [
            node(bad, operands, "outside"),
            branch("c", GOOD, graph(node("Neg", "outside", "r"))),
        ],
        {"x": (3, 4)},
        c=True,
        five=FIVE,
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    assert np.array_equal(run(import_model(proto), {"x": x})["y"], np.maximum(x, 0))
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array(False), "c"))
    with pytest.raises(InputError):
        import_model(proto)


def test_a_branch_that_the_number_of_the_step_decides() -> None:
    """Bernoulli would run in step 3 of 3, which is step 2."""
    body = helper.make_graph(
        [
            node("Identity", "on", "on_"),
            node("Equal", "i three", "c"),
            branch("c", graph(node("Bernoulli", "h", "r")), graph(node("Neg", "h", "r")), "g"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("on", BOOL, []),
            helper.make_tensor_value_info("h", FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("on_", BOOL, []),
            helper.make_tensor_value_info("g", FLOAT, [2]),
        ],
    )
    proto = network(
        [node("Loop", "n on x", "y", body=body)], {"x": (2,)}, n=np.array(3), on=True, three=3
    )
    x = np.array([1, -2], np.float32)
    assert np.array_equal(run(import_model(proto), {"x": x})["y"], -x)


SHAPES: dict[str, tuple[Sequence[onnx.NodeProto], Mapping[str, Shape], Mapping[str, object]]] = {
    "sum": ([node("Add", "x z", "y")], {"x": ("N", "A"), "z": ("N", "B")}, {}),
    "sum of different ranks": ([node("Add", "x z", "y")], {"x": ("N", "A", 6), "z": ("L", 6)}, {}),
    "product": (
        [node("MatMul", "x z", "y")], {"x": (1, "T", "A"), "z": (1, "B", 12)}, {},
    ),
    "concatenation": (
        [node("Concat", "x z", "c", axis=1), node("MatMul", "c w", "y")],
        {"x": (1, "A"), "z": (1, "B")},
        {"w": np.ones((40, 3), np.float32)},
    ),
    "one symbol": (
        [node("Concat", "x z", "c", axis=1), node("MatMul", "c w", "y")],
        {"x": ("N", "A"), "z": ("N", "A")},
        {"w": np.ones((46, 3), np.float32)},
    ),
    "a number of features": (
        [node("Flatten", "x", "f"), node("Gemm", "f w", "y")],
        {"x": ("N", 3, "H", "W")},
        {"w": np.ones((3 * 28 * 28, 2), np.float32)},
    ),
    "features of strided convolutions": (
        [
            node("Conv", "x k", "a", strides=[3]),
            node("Conv", "a k", "b", strides=[2]),
            node("Flatten", "b", "f"),
            node("Gemm", "f w", "y"),
        ],
        {"x": ("N", 1, "T")},
        {"k": np.ones((1, 1, 5), np.float32), "w": np.ones((117, 2), np.float32)},
    ),
    "a state": (
        [node("LSTM", "x w r - - h h", "y", hidden_size=4)],
        {"x": (3, "?", 2), "h": (1, "?", 4)},
        {"w": np.ones((1, 16, 2), np.float32), "r": np.ones((1, 16, 4), np.float32)},
    ),
    "heads": (
        [node("Reshape", "x s", "r"), node("Transpose", "r", "y", perm=[0, 2, 1, 3])],
        {"x": ("B", "T", 12)},
        {"s": np.array([1, 7, 3, 4])},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_open_dimensions(name: str) -> None:
    """Each shape that is proposed fits the operator and the other shapes."""
    nodes, inputs, constants = SHAPES[name]
    proto = network(nodes, inputs, initializers=constants)
    if any(isinstance(dim, str) for shape in inputs.values() for dim in shape[1:]):
        assert "dynamic dimension" in follow(proto) or name == "one symbol"


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_do_not_fit(name: str) -> None:
    """The user gave other extents: the message proposes some that fit."""
    nodes, inputs, constants = SHAPES[name]
    proto = network(nodes, inputs, initializers=constants)
    extents: dict[str, int] = {}
    shapes = {
        x: tuple(
            extents.setdefault(d if d != "?" else f"{x}{i}", 5 + 2 * len(extents))
            if isinstance(d, str)
            else d
            for i, d in enumerate(shape)
        )
        for x, shape in inputs.items()
    }
    message = refusal(proto, shapes=shapes)
    assert "for these inputs" in message and "the open dimensions are taken as" in message
    again = dict(shapes)
    for x, shape in re.findall(r"--shape (\w+)=([\dx]+)", message):
        again[x] = tuple(int(extent) for extent in shape.split("x"))
    assert again != shapes
    import_model(proto, shapes=again)


def detector() -> onnx.ModelProto:
    """Build a voice activity detector: rows of samples, a state, and a sampling rate."""

    def cell(stride: int) -> onnx.GraphProto:
        return graph(
            node("Unsqueeze", "x one", "u"),
            node("Conv", "u k", "f", strides=[stride]),
            node("Squeeze", "f one", "q"),
            node("Reshape", "q all", "row"),
            node("MatMul", "row w", "m"),
            node("Add", "m h", "r"),
        )

    return network(
        [node("Equal", "sr k16", "c"), branch("c", cell(4), cell(8), "y")],
        {"x": ("?", "?"), "h": (1, "?", 6)},
        {"sr": (INT64, ())},
        k16=16000,
        one=[1],
        all=[1, 1, 127],
        k=np.ones((1, 1, 8), np.float32),
        w=np.ones((127, 6), np.float32),
    )


def test_a_voice_activity_detector() -> None:
    """512 samples suit the then branch, and 1,016 to 1,023 the else branch."""
    message = follow(detector())
    assert "--set sr=16000" in message
    given = refusal(detector(), shapes={"x": (1, 512), "h": (1, 1, 6)})
    assert "in the else branch of If 'n' with a computed condition, and the then" in given
    assert "--set sr=16000" in given and "--shape" not in given


def test_a_contradiction_is_bad_input() -> None:
    """No extents of the open dimensions remedy it, so no option is proposed."""
    for inputs in ({"x": ("N", 4)}, {"x": ("N", "T", 4)}):
        proto = network([node("Add", "x five", "y")], inputs, five=FIVE)
        shapes = {"x": tuple(3 if isinstance(d, str) else d for d in inputs["x"])}
        with pytest.raises(InputError, match="do not broadcast") as info:
            import_model(proto, shapes=shapes)
        assert info.value.exit_status == 1 and "--shape" not in str(info.value)


def test_no_shape_that_was_tried_fits() -> None:
    """77 is no multiple of 4."""
    proto = network([node("Reshape", "x s", "y")], {"x": ("B", 4, "L")}, s=[1, 77])
    assert "fix it with --shape" in refusal(proto) and "--shape x" not in refusal(proto)
    message = refusal(proto, shapes={"x": (1, 4, 16)})
    assert "taken as 1x4x16, which does not fit; neither do the other" in message


def test_shapes_of_models_with_unsupported_nodes() -> None:
    """All unsupported nodes are reported, and the shapes fit the other nodes."""
    proto = network(
        [
            node("Add", "x z", "a"),
            node("Bernoulli", "a", "b", "first"),
            node("Reshape", "x s", "d"),
            node("Det", "d", "e", "second"),
            node("Add", "b e", "y"),
        ],
        {"x": ("N", "A"), "z": ("N", "B")},
        s=[1, 1, 3, 7],
    )
    message = refusal(proto)
    assert "--shape x=1x21" in message and re.search("--shape z=1x(1|21)", message)
    assert "'first' (Bernoulli)" in message and "'second' (Det)" in message


def test_a_batch_and_shapes() -> None:
    """The proposal agrees with --batch."""
    proto = network([node("Relu", "x", "y")], {"x": ("N", 3, "H", "W")})
    with pytest.raises(UnsupportedError, match="--shape x=2x3x224x224"):
        import_model(proto, batch=2)
    import_model(proto, batch=2, shapes={"x": (2, 3, 224, 224)})
    with pytest.raises(InputError, match="no input has an open batch"):
        import_model(proto, batch=2, shapes={"x": (1, 3, 224, 224)})


def test_axes_that_an_input_decides() -> None:
    """Rules about constants name the input that `--set` can fix."""
    proto = network(
        [node("ReduceSum", "x n", "y", keepdims=1)], {"x": (2, 2)}, {"n": (INT64, (1,))}
    )
    assert "axes must be constants; 'n' is computed; fix input 'n' with --set" in follow(proto)


COMPUTED_SIZES: dict[str, tuple[Sequence[onnx.NodeProto], tuple[int, Shape], str]] = {
    "pads": (
        [node("Concat", "zeros v", "p", axis=0), node("Pad", "x p", "y")],
        (INT64, (2,)),
        "--set v=20,30",
    ),
    "end of a crop": ([node("Slice", "x start v axes", "y")], (INT64, (2,)), "--set v=20,30"),
    "start of a crop": (
        [node("Add", "v eight", "e"), node("Slice", "x v e axes", "y")],
        (INT64, (2,)),
        "--set v=3,20",
    ),
    "scales": (
        [node("Concat", "ones v", "s", axis=0), node("Resize", "x - s", "y")],
        (FLOAT, (2,)),
        "--set v=1",
    ),
    "sizes": (
        [node("Concat", "outer v", "s", axis=0), node("Resize", "x - - s", "y")],
        (INT64, (2,)),
        "--set v=20,30",
    ),
    "size of a picture": (
        [
            node("Cast", "v", "f", to=FLOAT),
            node("Squeeze", "f zero", "sides"),
            node("Div", "square sides", "ratios"),
            node("ReduceMin", "ratios", "ratio", keepdims=0),
            node("Mul", "sides ratio", "fitted"),
            node("Floor", "fitted", "floor"),
            node("Cast", "floor", "n", to=INT64),
            node("Concat", "outer n", "s", axis=0),
            node("Resize", "x - - s", "small", mode="linear"),
            node("Sub", "sixty_four n", "rest"),
            node("Concat", "zeros rest", "p", axis=0),
            node("Pad", "small p", "y"),
        ],
        (FLOAT, (1, 2)),
        "--set v=1",
    ),
    "scales of a batch": (
        [
            node("Reshape", "v minus", "flat"),
            node("Concat", "ones flat", "s", axis=0),
            node("Resize", "x - s", "y"),
        ],
        (FLOAT, ("N", 2)),
        "--set v=1",
    ),
    "parts": ([node("Split", "x v", "y z", axis=3)], (INT64, (2,)), "--set v=15"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED_SIZES)
def test_computed_sizes(name: str) -> None:
    """The message names the input that decides, with values of the right number."""
    nodes, small, option = COMPUTED_SIZES[name]
    proto = network(
        nodes,
        {"x": (1, 3, 20, 30)},
        {"v": small},
        zeros=[0] * 6,
        zero=[0],
        minus=[-1],
        start=[0, 0],
        axes=[2, 3],
        eight=[8, 8],
        ones=np.ones(2, np.float32),
        outer=[1, 3],
        square=np.array([64, 64], np.float32),
        sixty_four=[64, 64],
    )
    message = follow(proto)
    assert "fix input 'v' with --set" in message and message.endswith(option)


@pytest.mark.parametrize("last", ["Slice", "Pad", "Resize"])
def test_sizes_that_data_decide(last: str) -> None:
    """The value of no input decides, so only the maximum is named."""
    nodes = {
        "Slice": [node("Slice", "x zero i zero", "y")],
        "Pad": [node("Concat", "seven i", "p", axis=0), node("Pad", "x p", "y")],
        "Resize": [node("Concat", "outer i", "s", axis=0), node("Resize", "x - - s", "y")],
    }[last]
    proto = network(
        [
            node("ReduceMax", "x", "m", keepdims=0),
            node("Cast", "m", "n", to=INT64),
            node("Unsqueeze", "n zero", "i"),
            *nodes,
        ],
        {"x": (1, 3, 20, 30)},
        zero=[0],
        seven=[0] * 7,
        outer=[1, 3, 20],
    )
    message = follow(proto)
    assert "--set" not in message and "or export with fixed sizes" in message
    maximum = "0..1x3x20x30" if last == "Slice" else "1x3x20x0..30"
    assert f"--shape y={maximum} " in message


@pytest.mark.parametrize("kind", ["Slice", "Pad", "Resize"])
def test_sizes_from_shapes(kind: str) -> None:
    """Arithmetic on the shape of an input is computed at import."""
    nodes = {
        "Slice": [node("Div", "hw two", "e"), node("Slice", "x start e axes", "y")],
        "Pad": [
            node("Sub", "zero hw", "minus"),
            node("Mod", "minus k", "rest"),
            node("Concat", "zeros rest", "p", axis=0),
            node("Pad", "x p", "y"),
        ],
        "Resize": [
            node("Mul", "hw two", "double"),
            node("Slice", "shape zero first", "nc"),
            node("Concat", "nc double", "s", axis=0),
            node("Resize", "x - - s", "y"),
        ],
    }[kind]
    proto = network(
        [node("Shape", "x", "shape"), node("Slice", "shape first last", "hw"), *nodes],
        {"x": (1, 3, 20, 30)},
        first=[2],
        last=[4],
        two=[2, 2],
        k=[16, 16],
        zero=[0],
        zeros=[0] * 6,
        start=[0, 0],
        axes=[2, 3],
    )
    agree(proto, {"x": np.random.default_rng(0).normal(size=(1, 3, 20, 30)).astype(np.float32)})


@pytest.mark.parametrize(
    ("operator", "operands", "kind", "option"),
    [
        ("Pad", "x v", INT64, "--set v=0"),
        ("Resize", "x  v", FLOAT, "--set v=1"),
        ("Resize", "x   v", INT64, "--set v=1,4,6,8"),
    ],
)
def test_operands_that_change_nothing_are_proposed(
    operator: str, operands: str, kind: int, option: str
) -> None:
    """A number for all elements would also pad batch and channels, or remove channels."""
    proto = network(
        [helper.make_node(operator, operands.split(" "), ["y"])],
        {"x": (1, 4, 6, 8)},
        {"v": (kind, (8 if operator == "Pad" else 4,))},
        output=(1, 4, "a", "b"),
    )
    assert option in follow(proto)


@pytest.mark.parametrize("given", [(0,), (1, 1, 1.5, 0.01)])
def test_a_given_value_is_named_and_another_is_proposed(given: Sequence[float]) -> None:
    """The input is a constant already, so the message does not ask to fix it."""
    proto = network([node("Resize", "x - v", "y")], {"x": (1, 4, 6, 8)}, {"v": (FLOAT, (4,))})
    with pytest.raises(UnsupportedError) as error:
        import_model(proto, values={"v": given})
    finding = error.value.findings[-1]
    spelled = ",".join(f"{number:g}" for number in given)
    assert finding.message == (
        f"unsupported value: --set v={spelled} does not fit; give another, for example --set v=1"
    )
    import_model(proto, values={"v": (1,)})
