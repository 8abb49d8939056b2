"""Keep quotients by constants if the last bit matters, and use products otherwise."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx_models import model, node, run_onnxruntime

from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run

X = np.arange(1, 101, dtype=np.float32)[None]

ROUNDED = {
    "floor": [node("Floor", "q", "y")],
    "ceil": [node("Ceil", "q", "y")],
    "to integers": [node("Cast", "q", "y", to=7)],
    "sum": [node("Add", "q one", "s"), node("Floor", "s", "y")],
    "bound": [node("Clip", "q one", "s"), node("Floor", "s", "y")],
    "moved": [node("Transpose", "q", "t", perm=[1, 0]), node("Floor", "t", "y")],
    "compared": [node("Less", "q one", "y")],
}


def quotient(nodes: Sequence[onnx.NodeProto], divisor: np.float32) -> onnx.ModelProto:
    given = {"c": divisor, "one": np.float32(1)}
    return model([node("Div", "x c", "q"), *nodes], {"x": X.shape}, ["y"], given)


def functions(proto: onnx.ModelProto) -> list[graph.Binary]:
    ops = import_model(proto).walk()
    return [op.function for op in ops if isinstance(op, graph.BinaryOp)]


@pytest.mark.parametrize("divisor", [41.0, 255.0, 0.3])
@pytest.mark.parametrize("nodes", ROUNDED)
def test_a_rounded_quotient_is_exact(nodes: str, divisor: float) -> None:
    proto, data = quotient(ROUNDED[nodes], np.float32(divisor)), X * np.float32(divisor)
    got = run(import_model(proto), {"x": data})["y"]
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": data})["y"])
    assert functions(proto)[0] is graph.Binary.DIV


def test_the_reciprocal_of_a_power_of_two_is_exact() -> None:
    assert functions(quotient(ROUNDED["floor"], np.float32(8))) == [graph.Binary.MUL]


@pytest.mark.parametrize("nodes", [[node("Tanh", "q", "t"), node("Floor", "t", "y")], []])
def test_other_quotients_are_products(nodes: list[onnx.NodeProto]) -> None:
    proto = quotient(nodes or [node("Relu", "q", "y")], np.float32(41))
    assert functions(proto) == [graph.Binary.MUL]
