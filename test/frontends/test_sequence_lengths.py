"""Compare LSTM with lengths of sequences, and cell states at their ends, with ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx_models import Array, model, node, run_onnxruntime

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import UnsupportedError

STEPS, BATCH, SIZE, HIDDEN = 6, 3, 4, 5


def lstm(direction: str, **attributes: object) -> onnx.ModelProto:
    random, count = np.random.default_rng(5), 1 + (direction == "bidirectional")
    tensors = {
        "w": random.normal(0, 1, (count, 4 * HIDDEN, SIZE)).astype(np.float32),
        "r": random.normal(0, 1, (count, 4 * HIDDEN, HIDDEN)).astype(np.float32),
        "b": random.normal(0, 1, (count, 8 * HIDDEN)).astype(np.float32),
    }
    found = node("LSTM", "x w r b lengths", "y h c", hidden_size=HIDDEN, direction=direction)
    found.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in attributes.items())
    shapes = {"x": (STEPS, BATCH, SIZE), "lengths": (BATCH,)}
    result = model([found], shapes, ["y", "h", "c"], tensors, infer=False)
    result.graph.input[1].type.tensor_type.elem_type = TensorProto.INT32
    return result


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_the_cell_state_at_the_end_of_each_sequence(direction: str) -> None:
    proto = lstm(direction)
    x = np.random.default_rng(1).normal(0, 1, (STEPS, BATCH, SIZE)).astype(np.float32)
    inputs: dict[str, Array] = {"x": x, "lengths": np.array([6, 2, 4], np.int32)}
    results, expected = run(import_model(proto), inputs), run_onnxruntime(proto, inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(results[name].astype(np.float32), array, rtol=0, atol=1e-6)


def test_gates_without_a_sigmoid_are_refused() -> None:
    proto = lstm("forward", activations=["Relu", "Tanh", "Tanh"])
    with pytest.raises(UnsupportedError, match=r"fix 'sequence_lens' with --set"):
        import_model(proto)
