"""Compare If, Loop and Scan with ONNX Runtime, and check the refusals."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compare import agree

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import UnsupportedError

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
W = np.random.default_rng(1).uniform(-1, 1, (3, 3)).astype(np.float32)

info = helper.make_tensor_value_info
make = helper.make_node


def whole(
    nodes: list[onnx.NodeProto], outputs: dict[str, list[int]], **constants: np.ndarray
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", FLOAT, [5, 3])],
        [info(name, FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    proto.ir_version = 8
    return proto


def loop_body(condition: str) -> onnx.GraphProto:
    """Compute `h = tanh(h W + number)` while `condition` holds: `true`, or `below` a limit."""
    nodes = [
        make("MatMul", ["h", "w"], ["p"]),
        make("Cast", ["number"], ["step"], to=FLOAT),
        make("Add", ["p", "step"], ["q"]),
        make("Tanh", ["q"], ["next"]),
        make("Identity", ["next"], ["seen"]),
        make("ReduceSum", ["next"], ["sum"], keepdims=0),
        make("Less", ["sum", "limit"], ["below"]),
        make("Identity", ["going"], ["true"]),
    ]
    outputs = [info(condition, BOOL, []), info("next", FLOAT, [1, 3])]
    if condition == "true":
        outputs.append(info("seen", FLOAT, [1, 3]))
    limit = numpy_helper.from_array(np.array(1.5, np.float32), "limit")
    inputs = [info("number", INT64, []), info("going", BOOL, []), info("h", FLOAT, [1, 3])]
    return helper.make_graph(nodes, "body", inputs, outputs, [limit])


def loop(condition: str, trips: int) -> onnx.ModelProto:
    results = ["h5", "all"] if condition == "true" else ["h5"]
    shapes = {"h5": [1, 3], "all": [trips, 1, 3]}
    node = make("Loop", ["trips", "on", "h0"], results, body=loop_body(condition))
    constants = {
        "trips": np.array(trips), "on": np.array(True), "w": W,
        "starts": np.array([0]), "ends": np.array([1]),
    }  # fmt: skip
    first = make("Slice", ["x", "starts", "ends"], ["h0"])
    return whole([first, node], {name: shapes[name] for name in results}, **constants)


def scan(**attributes: list[int]) -> onnx.ModelProto:
    """Build a running sum with scaled steps; attributes define the axis and the direction."""
    nodes = [
        make("Add", ["state", "element"], ["next"]),
        make("Mul", ["next", "half"], ["out"]),
    ]
    size = 5 if attributes.get("scan_input_axes") == [1] else 3
    body = helper.make_graph(
        nodes,
        "body",
        [info("state", FLOAT, [size]), info("element", FLOAT, [size])],
        [info("next", FLOAT, [size]), info("out", FLOAT, [size])],
        [numpy_helper.from_array(np.array(0.5, np.float32), "half")],
    )
    node = make("Scan", ["zero", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    shape = [8 - size, size] if attributes.get("scan_output_axes") != [1] else [size, 8 - size]
    return whole([node], {"last": [size], "y": shape}, zero=np.zeros(size, np.float32))


def scan_of_two(read: int) -> onnx.ModelProto:
    """Build a scan with two outputs along separate axes; the second is unused."""
    proto = scan(scan_output_axes=[0, 1], scan_output_directions=[1, 0])
    node = proto.graph.node[0]
    body = next(a.g for a in node.attribute if a.name == "body")
    body.node.append(make("Neg", ["next"], ["less"]))
    body.output.append(info("less", FLOAT, [3]))
    node.output.append("z")
    name = node.output[1 + read]
    del proto.graph.output[1]
    proto.graph.output.append(info(name, FLOAT, [[5, 3], [3, 5]][read]))
    return proto


def branches(shape: list[int]) -> onnx.ModelProto:
    """Build a detector, after which a boolean of some rank decides whether a verifier runs."""
    then = helper.make_graph([make("Tanh", ["x"], ["t"])], "then", [], [info("t", FLOAT, [5, 3])])
    other = helper.make_graph([make("Neg", ["x"], ["n"])], "else", [], [info("n", FLOAT, [5, 3])])
    nodes = [
        make("ReduceMax", ["x"], ["most"], keepdims=0),
        make("Reshape", ["most", "shape"], ["found"]),
        make("GreaterOrEqual", ["found", "least"], ["asked"]),
        make("If", ["asked"], ["y"], then_branch=then, else_branch=other),
    ]
    least = np.array(0.5, np.float32)
    return whole(nodes, {"y": [5, 3]}, shape=np.array(shape), least=least)


MODELS = {
    "if of one value": branches([1]),
    "if of a matrix of one value": branches([1, 1]),
    "loop": loop("true", 4),
    "loop that stops": loop("below", 12),
    "scan": scan(),
    "scan columns backwards": scan(scan_input_axes=[1], scan_input_directions=[1]),
    "scan into columns": scan(scan_output_axes=[1], scan_output_directions=[1]),
    "scan of which the first output is read": scan_of_two(0),
    "scan of which the second output is read": scan_of_two(1),
}


@pytest.mark.parametrize("name", MODELS)
def test_as_onnx_runtime(name: str) -> None:
    proto = MODELS[name]
    agree(proto, {"x": X})


def test_weights_of_a_body_are_one_constant() -> None:
    text = str(import_model(loop("true", 6)))
    assert text.count("graph.matmul") == 6 and text.count("tensor<3x3xf32>}") <= 1


@pytest.mark.slow
def test_steps_without_end_are_refused() -> None:
    proto = loop("true", 1 << 40)
    with pytest.raises(UnsupportedError, match="steps without a condition"):
        import_model(proto)


def test_all_refusals_come_at_once() -> None:
    """Report a dimension, an operator, and an operator inside a subgraph."""
    body = loop_body("true")
    body.node.append(make("Bernoulli", ["next"], ["det"]))
    node = make("Loop", ["trips", "on", "h0"], ["h5", "all"], body=body)
    nodes = [make("Unique", ["x"], ["u"]), node, make("Add", ["h5", "u"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", FLOAT, ["N", "H"]), info("h0", FLOAT, [1, 3])],
        [info("y", FLOAT, None)],
        [
            numpy_helper.from_array(np.array(2), "trips"),
            numpy_helper.from_array(np.array(True), "on"),
            numpy_helper.from_array(W, "w"),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(UnsupportedError) as info_:
        import_model(proto)
    text = "\n".join(info_.value.lines("m"))
    for expected in ("dynamic dimension 1 'H'", "unsupported Unique", "unsupported Bernoulli"):
        assert expected in text


def branch(name: str, op: str, value: str) -> onnx.GraphProto:
    return helper.make_graph([make(op, [value], [name])], name, [], [info(name, FLOAT, [5, 3])])


def test_refusals_behind_control_flow_are_in_the_list() -> None:
    """No name that they depend on is a constant, whatever the branch or the number of steps."""
    body = helper.make_graph(
        [make("Identity", ["going"], ["on_"]), make("Neg", ["h"], ["g"])],
        "body",
        [info("number", INT64, []), info("going", BOOL, []), info("h", FLOAT, [5, 3])],
        [info("on_", BOOL, []), info("g", FLOAT, [5, 3])],
    )
    nodes = [
        make("If", ["on"], ["v"], then_branch=branch("a", "Neg", "x"),
             else_branch=branch("b", "Abs", "x")),
        make("Loop", ["trips", "on", "v"], ["l"], body=body),
        make("Unique", ["v"], ["u"], name="behind the branches"),
        make("Bernoulli", ["l"], ["d"], name="behind the loop"),
        make("TfIdfVectorizer", ["x"], ["t"], name="before"),
        make("Shrink", ["x"], ["s"]),
        make("Unique", ["s"], ["n"], name="behind a function"),
        make("Sum", ["u", "d", "t", "n"], ["y"]),
    ]  # fmt: skip
    with pytest.raises(UnsupportedError) as info_:
        import_model(whole(nodes, {"y": [5, 3]}, on=np.array(True), trips=np.array(2)))
    names = {finding.node for finding in info_.value.findings}
    assert names == {"behind the branches", "behind the loop", "behind a function", "before"}


def nested_loops(depth: int) -> onnx.NodeProto:
    """Build loops; each list starts with `x` and has a constant at the end."""
    inner = [] if depth == 0 else [nested_loops(depth - 1)]
    ones = numpy_helper.from_array(np.ones((5, 3), np.float32))
    body = helper.make_graph(
        [*inner, make("Identity", ["going"], ["on_"]), make("Constant", [], ["g"], value=ones)],
        "body",
        [info("number", INT64, []), info("going", BOOL, []), info("h", FLOAT, [5, 3])],
        [info("on_", BOOL, []), info("g", FLOAT, [5, 3])],
    )
    return make("Loop", ["trips", "on", "x"], [f"y{depth}"], body=body)


def test_loops_in_loops_are_looked_at_in_no_exponential_time() -> None:
    nodes = [nested_loops(27), make("Unique", ["x"], ["u"]), make("Sum", ["u", "y27"], ["y"])]
    with pytest.raises(UnsupportedError, match="Unique"):
        import_model(whole(nodes, {"y": [5, 3]}, on=np.array(True), trips=np.array(2)))


@pytest.mark.parametrize("taken", [True, False])
def test_what_a_constant_condition_chooses_may_be_constant(taken: bool) -> None:
    """GatherND has no importer: constants of a branch are not changed."""
    nodes = [
        make("If", ["on"], ["v"], then_branch=branch("a", "Neg", "table"),
             else_branch=branch("b", "Abs", "table")),
        make("GatherND", ["v", "at"], ["row"]),
        make("Add", ["x", "row"], ["y"]),
    ]  # fmt: skip
    table = np.arange(15, dtype=np.float32).reshape(5, 3)
    proto = whole(nodes, {"y": [5, 3]}, table=table, at=np.array([[2]]), on=np.array(taken))
    (found,) = run(import_model(proto), {"x": X}).values()
    assert np.array_equal(found, X + (-table if taken else table)[2])


def test_constants_fold_whatever_the_operator() -> None:
    """GatherND has no importer, but Sin does: neither changes constants."""
    nodes = [
        make("GatherND", ["table", "at"], ["row"]),
        make("Sin", ["row"], ["wave"]),
        make("MatMul", ["wave", "w"], ["state"]),
        make("Add", ["x", "state"], ["y"]),
    ]
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    proto = whole(nodes, {"y": [5, 3]}, table=table, at=np.array([[2]]), w=W)
    module = import_model(proto)
    names = [op.name for op in module.walk()]
    assert [n for n in names if n.startswith("graph.")] == ["graph.constant", "graph.binary"]
    expected = X + np.sin(table[[2]]) @ W
    assert np.allclose(run(module, {"x": X})["y"], expected, rtol=1e-5)
