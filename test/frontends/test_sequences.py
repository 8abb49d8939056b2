"""Compare sequences of tensors with ONNX Runtime: lists that exporters keep."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_compare import agree
from onnx_models import model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.support.diagnostics import InputError, UnsupportedError


def of(*nodes: onnx.NodeProto, **constants: object) -> onnx.ModelProto:
    given = {name: np.array(value) for name, value in constants.items()}
    return model(nodes, {"x": (4, 6)}, ["y"], given, infer=False)


def joined(name: str = "s", new: int = 0, axis: int = 0) -> onnx.NodeProto:
    return node("ConcatFromSequence", name, "y", new_axis=new, axis=axis)


CASES = {
    "parts of one size": of(
        node("SplitToSequence", "x n", "s", axis=1), node("SequenceAt", "s i", "y"), n=4, i=-1
    ),
    "parts of sizes": of(
        node("SplitToSequence", "x n", "s"), node("SequenceAt", "s i", "y"), n=[1, 3], i=1
    ),
    "rows": of(node("SplitToSequence", "x", "s", keepdims=0), joined(new=1, axis=-1)),
    "unbound": of(node("SplitToSequence", "x n", "s", keepdims=0), joined(axis=-1), n=1),
    "sizes of one": of(
        node("SplitToSequence", "x n", "s", keepdims=0), joined(axis=0), n=[1, 1, 2]
    ),
    "rows of one": of(node("SplitToSequence", "x", "s"), joined(axis=1)),
    "a list that grows": of(
        node("Relu", "x", "r"),
        node("SequenceEmpty", "", "e"),
        node("SequenceInsert", "e x", "a"),
        node("SequenceInsert", "a r i", "b"),
        node("SequenceInsert", "b r", "c"),
        node("SequenceErase", "c j", "s"),
        joined(),
        i=0,
        j=1,
    ),
    "how long": of(
        node("SequenceConstruct", "x x x", "s"),
        node("SequenceLength", "s", "n"),
        node("Cast", "n", "f", to=TensorProto.FLOAT),
        node("Add", "x f", "y"),
    ),
    "constants": of(
        node("SequenceConstruct", "a b", "s"),
        node("ConcatFromSequence", "s", "k", axis=0),
        node("Reshape", "x k", "y"),
        a=[3],
        b=[8],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sequence(name: str) -> None:
    agree(CASES[name])


def test_a_list_of_steps() -> None:
    """Return the result of torch.stack for a list to which a scripted loop appends."""
    body = helper.make_graph(
        [
            node("Identity", "going", "again"),
            node("Mul", "h h", "h2"),
            node("SequenceInsert", "list h2", "more"),
        ],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, [4, 6]),
            helper.make_tensor_sequence_value_info("list", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h2", TensorProto.FLOAT, [4, 6]),
            helper.make_tensor_sequence_value_info("more", TensorProto.FLOAT, None),
        ],
    )
    agree(
        of(
            node("SequenceEmpty", "", "e"),
            node("Loop", "trips going0 x e", "last s", body=body),
            joined(new=1),
            trips=3,
            going0=True,
        )
    )


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="a sequence; export the model with tensors"):
        import_model(of(node("SequenceConstruct", "x x", "y")))
    with pytest.raises(UnsupportedError, match="unsupported Relu: of a sequence of tensors"):
        import_model(of(node("SequenceConstruct", "x x", "s"), node("Relu", "s", "y")))
    with pytest.raises(InputError, match="index 2 of a sequence of 2"):
        import_model(of(node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s i", "y"), i=2))
    with pytest.raises(InputError, match="'x' is a tensor, expected a sequence"):
        import_model(of(node("SequenceAt", "x i", "y"), i=0))
