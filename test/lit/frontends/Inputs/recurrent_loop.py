"""Write Keras' SimpleRNN as tf2onnx exports it: a loop with the cell in operations."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def main(path: str) -> None:
    info, node = helper.make_tensor_value_info, helper.make_node
    constants = {
        "steps": np.array(3),
        "on": np.array(True),
        "zero": np.array(0),
        "one": np.array(1),
        "kernel": np.array([[1, 2]], np.float32),
        "state_kernel": np.array([[3, 4], [5, 6]], np.float32),
        "bias": np.array([7, 8], np.float32),
        "start": np.zeros((1, 2), np.float32),
    }
    step = helper.make_graph(
        [
            node("Gather", ["xs", "time"], ["x"]),
            node("Gemm", ["x", "kernel", "bias"], ["by_input"]),
            node("MatMul", ["h", "state_kernel_in"], ["by_state"]),
            node("Add", ["by_input", "by_state"], ["sum"]),
            node("Tanh", ["sum"], ["new"]),
            node("Add", ["time", "one"], ["later"]),
            node("Less", ["later", "steps"], ["again"]),
            node("Identity", ["new"], ["seen"]),
        ],
        "step",
        [
            info("number", INT64, []),
            info("going", BOOL, []),
            info("time", INT64, []),
            info("h", FLOAT, [1, 2]),
            info("state_kernel_in", FLOAT, [2, 2]),
        ],
        [
            info("again", BOOL, []),
            info("later", INT64, []),
            info("new", FLOAT, [1, 2]),
            info("state_kernel_in", FLOAT, [2, 2]),
            info("seen", FLOAT, [1, 2]),
        ],
    )
    loop = node(
        "Loop",
        ["steps", "on", "zero", "start", "state_kernel"],
        ["end", "last", "kernel_out", "states"],
        "rnn",
        body=step,
    )
    graph = helper.make_graph(
        [loop],
        "recurrent_loop",
        [info("xs", FLOAT, [3, 1, 1])],
        [info("states", FLOAT, [3, 1, 2])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


main(sys.argv[1])
