"""Compare loops that are not unrolled with ONNX Runtime, and check the refusals."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from loop_networks import (
    BOOL,
    FLOAT,
    LONG,
    NETWORKS,
    ROW,
    ends_early,
    inputs,
    make,
    recurrent,
    step_of,
    whole,
)
from onnx import numpy_helper
from onnx_compare import agree

import ceras_ir as ceras
from ceras_ir.dialects.graph import BranchOp, LoopOp, SelectOp
from ceras_ir.frontends.onnx import import_model
from ceras_ir.frontends.onnx.emission.builder import LOOP_BODY_REASON
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UnsupportedError


def loops(proto: onnx.ModelProto) -> list[LoopOp]:
    return [op for op in import_model(proto).walk() if isinstance(op, LoopOp)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", NETWORKS)
def test_loops_are_what_onnxruntime_says(name: str, seed: int) -> None:
    module = agree(NETWORKS[name](), inputs(seed))
    found = [op for op in module.walk() if isinstance(op, LoopOp)]
    assert len(found) == (2 if name == "nested" else 1)
    assert sum(1 for _ in module.walk()) < 60


@pytest.mark.parametrize(("name", "count"), [("branches", 1), ("costly_branches", 2)])
def test_one_branch_runs_where_one_costs_something(name: str, count: int) -> None:
    """A branch with a loop or a product is conditional; two cheap branches are both computed."""
    kinds = [type(op) for op in import_model(NETWORKS[name]()).walk()]
    assert kinds.count(BranchOp) == count
    assert kinds.count(SelectOp) == (name == "branches")


def test_branches_with_short_loops_are_both_run() -> None:
    """Such branches can be quantized and run on all targets, because they are unrolled."""
    module = agree(with_trips(NETWORKS["branches"](), "long", 3), inputs(0))
    kinds = {type(op) for op in module.walk()}
    assert SelectOp in kinds and not kinds & {BranchOp, LoopOp}


def with_trips(proto: onnx.ModelProto, name: str, trips: int) -> onnx.ModelProto:
    """Return the model with another value for the constant `name`."""
    for tensor in proto.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(np.array(trips), name))
    return proto


@pytest.mark.parametrize(("trips", "count"), [(0, 0), (1, 0), (1024, 0), (1025, 1)])
def test_short_loops_are_unrolled(trips: int, count: int) -> None:
    proto = with_trips(NETWORKS["counted"](), "long", trips)
    assert len(loops(proto)) == count
    if count:
        agree(proto, inputs(0))


@pytest.mark.parametrize("trips", [-1, -(1 << 63)])
def test_a_negative_number_of_steps_is_none(trips: int) -> None:
    proto = with_trips(ends_early(trips="long"), "long", trips)
    x = inputs(0)
    assert np.array_equal(run(import_model(proto), x)["y"], x["x"])


def test_a_false_condition_takes_no_step() -> None:
    x = inputs(0)
    assert np.array_equal(run(import_model(ends_early("off")), x)["y"], x["x"])


def test_a_condition_of_constants_ends_a_loop_before_it_is_made() -> None:
    """The condition `n < 5` of the step number allows five steps, for any trip count."""
    nodes = [
        make("Add", ["h", "half"], ["new"]),
        make("Add", ["n_body", "two"], ["later"]),
        make("Less", ["later", "seven"], ["again"]),
    ]
    inner = step_of(nodes, {"h": ROW}, {"again": (BOOL, ()), "new": ROW})
    proto = whole([make("Loop", ["forever", "", "x"], ["y"], body=inner)], y=(5, 3))
    assert not loops(proto)
    agree(proto, inputs(0))


def deep(depth: int, around: str = "x") -> onnx.NodeProto:
    """Build nested loops that terminate only by their conditions."""
    inner = [deep(depth - 1, f"h{depth}")] if depth else []
    last = f"y{depth - 1}" if depth else "h0"
    nodes = [
        *inner,
        make("Abs", [last], [f"p{depth}"]),
        make("ReduceSum", [f"p{depth}"], [f"s{depth}"], keepdims=0),
        make("Less", [f"s{depth}", "limit"], [f"a{depth}"]),
    ]
    results = {f"a{depth}": (BOOL, ()), f"p{depth}": ROW}
    body = step_of(nodes, {f"h{depth}": ROW}, results, f"b{depth}")
    return make("Loop", ["forever", "on", around], [f"y{depth}"], body=body)


def test_loops_in_loops_are_imported_in_no_exponential_time() -> None:
    assert len(loops(whole([deep(14)], y14=(5, 3)))) == 15


def endless(trips: str) -> onnx.ModelProto:
    nodes = [make("Neg", ["h"], ["new"]), make("Identity", ["c_body"], ["again"])]
    inner = step_of(nodes, {"h": ROW}, {"again": (BOOL, ()), "new": ROW})
    node = make("Loop", [trips, "on", "x"], ["y"], body=inner, name="endless")
    return whole([node], y=(5, 3))


@pytest.mark.parametrize("trips", ["", "forever"])
def test_loops_that_nothing_ends_are_refused(trips: str) -> None:
    with pytest.raises(UnsupportedError, match=r"'endless'.*steps without a condition"):
        import_model(endless(trips))


def test_stacked_values_must_fit() -> None:
    proto = with_trips(recurrent(), "long", 1 << 30)
    with pytest.raises(InputError, match=r"'steps'.*is too large"):
        import_model(proto)


def test_carried_values_keep_their_shape() -> None:
    nodes = [make("Concat", ["h", "x"], ["new"], axis=0), make("Identity", ["c_body"], ["again"])]
    inner = step_of(nodes, {"h": ROW}, {"again": (BOOL, ()), "new": (FLOAT, ())})
    node = make("Loop", ["long", "on", "x"], ["y"], body=inner, name="grows")
    with pytest.raises(UnsupportedError, match=r"'grows'.*\[5, 3\].*\[10, 3\].*pad it"):
        import_model(whole([node], y=(5, 3)))


def with_outputs_of_steps(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with an unused output of each step of the loop."""
    body = proto.graph.node[0].attribute[0].g
    body.node.append(make("Neg", ["new"], ["seen"]))
    body.output.add().name = "seen"
    body.output[-1].type.tensor_type.elem_type = FLOAT
    proto.graph.node[0].output.append("all")
    return proto


def test_outputs_of_steps_that_nobody_reads_are_left_out() -> None:
    agree(with_outputs_of_steps(ends_early()), inputs(0))


def test_outputs_of_a_number_of_steps_that_is_computed_are_refused() -> None:
    proto = with_outputs_of_steps(ends_early())
    proto.graph.output.append(onnx.helper.make_tensor_value_info("all", FLOAT, None))
    with pytest.raises(UnsupportedError, match=r"'steps'.*carry them through the loop"):
        import_model(proto)


def test_shapes_that_the_step_decides_are_refused() -> None:
    """The shapes are constant in unrolled steps, but not in a body that all steps share."""
    nodes = [
        make("Unsqueeze", ["n_body", "zero1"], ["at"]),
        make("Expand", ["half", "at"], ["row"]),
        make("ReduceSum", ["row"], ["sum"], keepdims=0),
        make("Add", ["h", "sum"], ["new"]),
        make("Identity", ["c_body"], ["again"]),
    ]
    inner = step_of(nodes, {"h": ROW}, {"again": (BOOL, ()), "new": ROW})
    proto = whole([make("Loop", ["long", "on", "x"], ["y"], body=inner)], y=(5, 3))
    proto.graph.initializer.append(numpy_helper.from_array(np.array([0]), "zero1"))
    with pytest.raises(UnsupportedError, match="'row'"):
        import_model(proto)


def test_a_body_is_no_layer_of_the_network() -> None:
    """Observers of a run see the loop a single time."""
    seen: list[str] = []
    run(import_model(recurrent()), inputs(0), lambda op, _: seen.append(op.name))
    assert seen.count("graph.loop") == 1 and "graph.matmul" not in seen


def test_a_loop_is_said_to_be_float_and_its_work_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(recurrent().SerializeToString())
    compiled = ceras.load(path).compile("c")
    (layer,) = (entry for entry in compiled.layers if entry["op"] == "loop")
    assert layer["macs"] == LONG * 5 * 3 * 3
    assert layer["float_reason"] == LOOP_BODY_REASON
    # One is of the product, and the other is the -1 that multiplies `x`.
    assert compiled.totals["weight_bytes"] == (3 * 3 + 1) * 4


@pytest.mark.parametrize("target", ["nnet", "dataflow", "onnx"])
def test_targets_without_loops_name_them_before_calibration(target: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(recurrent().SerializeToString())
    with pytest.raises(UnsupportedError, match="'steps'"):
        ceras.load(path).compile(target)
