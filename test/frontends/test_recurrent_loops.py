"""Check that recurrent loops become a single operation with ONNX Runtime's values."""

import numpy as np
import onnx
import pytest
from loop_networks import BOOL, FLOAT, body, make
from onnx import TensorProto
from onnx_compare import agree
from recurrent_cells import (
    CELLS,
    HIDDEN,
    SIZE,
    STEPS,
    SUMS,
    Nodes,
    constants,
    layers,
    looped,
    lstm,
    set_constant,
    whole,
)

from ceras_ir.dialects.graph import (
    Cell,
    GatherOp,
    LoopOp,
    MatmulOp,
    RecurrenceOp,
    SliceOp,
    shape_of,
)
from ceras_ir.frontends.onnx import import_model


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", CELLS)
def test_cells_that_are_written_out_are_layers(name: str, batch: int) -> None:
    kind, nodes = CELLS[name]
    module = agree(looped(kind, nodes, batch))
    assert layers(module) == [Cell(kind)]
    assert sum(isinstance(op, MatmulOp) for op in module.walk()) == 1


@pytest.mark.parametrize("index", ["number", "backwards"])
def test_rows_are_those_that_the_steps_count(index: str) -> None:
    kind, nodes = CELLS["lstm of two products"]
    module = agree(looped(kind, nodes, index=index))
    assert layers(module) == [Cell.LSTM]
    assert not any(isinstance(op, GatherOp) for op in module.walk())


@pytest.mark.parametrize(("trips", "count"), [(3, 3), (1 << 62, STEPS)])
def test_a_loop_ends_by_its_trip_count_or_its_condition(trips: int, count: int) -> None:
    proto = looped(*CELLS["gru of two products"])
    set_constant(proto, "steps", np.array(trips))
    proto.graph.output[1].type.tensor_type.shape.dim[0].dim_value = count
    module = agree(proto)
    (layer,) = (op for op in module.walk() if isinstance(op, RecurrenceOp))
    assert layer.result.type.get_shape()[0] == count


def test_one_step_is_its_operations() -> None:
    proto = looped(*CELLS["gru of two products"])
    set_constant(proto, "steps", np.array(1))
    proto.graph.output[1].type.tensor_type.shape.dim[0].dim_value = 1
    assert not layers(agree(proto))


@pytest.mark.parametrize("backwards", [0, 1])
def test_scans_are_layers(backwards: int) -> None:
    kind, nodes = CELLS["lstm of one product"]
    state, row = (FLOAT, [2, HIDDEN]), (FLOAT, [2, SIZE])
    step = body(
        [*nodes, make("Identity", ["h2"], ["seen"])],
        {"h": state, "c": state, "x": row},
        {"h2": state, "c2": state, "seen": state},
    )
    scan = make("Scan", ["h0", "c0", "xs"], ["h1", "c1", "all"], body=step, num_scan_inputs=1,
                scan_input_axes=[1], scan_input_directions=[backwards],
                scan_output_axes=[1], scan_output_directions=[backwards])  # fmt: skip
    proto = whole(
        [scan], {"xs": (FLOAT, [2, STEPS, SIZE])},
        {"h1": state, "c1": state, "all": (FLOAT, [2, STEPS, HIDDEN])}, constants(kind, 2),
    )  # fmt: skip
    assert layers(agree(proto)) == [Cell.LSTM]


def test_keras_hard_sigmoid_is_a_function() -> None:
    """In `min(max(a + 3, 0), 6) / 6`, the addend becomes part of the bias."""

    def hard(gate: str) -> Nodes:
        return [
            make("Add", [f"a{gate}", "three"], [f"{gate}3"]),
            make("Clip", [f"{gate}3", "nought", "six"], [f"{gate}6"]),
            make("Mul", [f"{gate}6", "sixth"], [gate]),
        ]

    nodes = [n for n in lstm("sums") if n.op_type != "Sigmoid"]
    nodes[1:1] = [n for gate in "ifo" for n in hard(gate)]
    proto = looped("lstm", [*SUMS["two products"], *nodes])
    (layer,) = (op for op in agree(proto).walk() if isinstance(op, RecurrenceOp))
    assert str(layer.functions.data[0]).startswith("#graph.function<hard_sigmoid")


def replaced(nodes: Nodes, old: str, *new: onnx.NodeProto) -> Nodes:
    """Return `nodes` with the producer of `old` replaced."""
    at = next(i for i, n in enumerate(nodes) if old in n.output)
    return [*nodes[:at], *new, *nodes[at + 1 :]]


LSTM, RNN = CELLS["lstm of two products"][1], CELLS["rnn of two products"][1]
MIXED = CELLS["gru of two products"][1]

OTHERS: dict[str, tuple[str, Nodes]] = {
    "a peephole": ("lstm", replaced(
        LSTM, "o", make("Add", ["ao", "c"], ["ac"]), make("Sigmoid", ["ac"], ["o"]))),
    "two kinds of gates": ("lstm", replaced(LSTM, "f", make("Tanh", ["af"], ["f"]))),
    "another function": ("rnn", replaced(
        RNN, "h2", make("Atan", ["sums"], ["h2"]))),
    "the state before": ("lstm", replaced(LSTM, "shown", make("Tanh", ["c"], ["shown"]))),
    "no complement": ("gru", replaced(MIXED, "rest", make("Sub", ["halves", "z"], ["rest"]))),
    "another complement": ("gru", replaced(MIXED, "rest", make("Sub", ["ones", "r"], ["rest"]))),
    "a product of states": ("rnn", replaced(
        RNN, "q", make("Mul", ["h", "h"], ["hh"]), make("MatMul", ["hh", "U"], ["q"]))),
    "a factor in the reset": ("gru", replaced(
        MIXED, "rq", make("Mul", ["r", "qn"], ["r0"]), make("Mul", ["r0", "halves"], ["rq"]))),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_such_cell_stays_steps(name: str) -> None:
    assert not layers(agree(looped(*OTHERS[name])))


def test_outputs_that_are_no_states_keep_a_loop() -> None:
    kind, nodes = CELLS["lstm of two products"]
    proto = looped(kind, nodes)
    step = proto.graph.node[0].attribute[0].g
    step.node[-1].input[0] = "c2"
    assert not layers(agree(proto))


def test_a_condition_that_is_computed_keeps_a_loop() -> None:
    kind, nodes = CELLS["rnn of two products"]
    proto = looped(kind, [*nodes, make("ReduceMax", ["h2"], ["top"], keepdims=0)])
    step = proto.graph.node[0].attribute[0].g
    (less,) = (n for n in step.node if n.op_type == "Less")
    less.input[0] = "top"
    del step.output[-1], proto.graph.node[0].output[-1], proto.graph.output[1]
    assert not layers(import_model(proto))


def test_long_loops_capture_what_they_do_not_change() -> None:
    """The body of a loop uses the weights that the model carries, without a copy."""
    proto = long(looped(*OTHERS["another function"]))
    step = proto.graph.node[0].attribute[0].g
    del step.output[-1], proto.graph.node[0].output[-1], proto.graph.output[1]
    (loop,) = (op for op in agree(proto).walk() if isinstance(op, LoopOp))
    assert [shape_of(value) for value in loop.carried] == [(), (1, HIDDEN)]


def long(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with more steps than are unrolled."""
    for name, value in (("steps", np.array(1500)), ("limit", np.array(1500, np.float32))):
        set_constant(proto, name, value)
    for value in (proto.graph.input[0], proto.graph.output[1]):
        value.type.tensor_type.shape.dim[0].dim_value = 1500
    return proto


def test_a_layer_longer_than_what_is_unrolled_is_one() -> None:
    proto = long(looped(*CELLS["rnn of one product"]))
    assert layers(agree(proto)) == [Cell.RNN]


def test_a_sequence_that_is_reversed_is_a_slice() -> None:
    """Keras' backward layers reverse complete sequences."""
    node = make("ReverseSequence", ["xs", "lengths"], ["y"], time_axis=0, batch_axis=1)
    kind = (FLOAT, [STEPS, 2, SIZE])
    proto = whole([node], {"xs": kind}, {"y": kind}, {"lengths": np.array([STEPS, STEPS])})
    assert [type(op) for op in agree(proto).walk()][2:-1] == [SliceOp]


def test_a_state_as_wide_as_an_image_is_no_layer() -> None:
    """A layer would need a matrix of 80 GB."""
    state = (FLOAT, [1, 100_000])
    ends = {"number": (TensorProto.INT64, ()), "go": (BOOL, ()), "h": state}
    nodes = [make("Mul", ["h", "halves"], ["a"]), make("Tanh", ["a"], ["h2"])]
    step = body(
        [make("Identity", ["go"], ["again"]), *nodes], ends, {"again": (BOOL, ()), "h2": state}
    )
    constants = {"trips": np.array(3), "on": np.array(True), "halves": np.array([0.5], np.float32)}
    loop = make("Loop", ["trips", "on", "x"], ["y"], body=step)
    assert not layers(agree(whole([loop], {"x": state}, {"y": state}, constants)))
