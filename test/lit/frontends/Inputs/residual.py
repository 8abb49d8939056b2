"""Write a small model: symbolic batch, BatchNormalization, a shared weight, a residual."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def main(path: str) -> None:
    constants = {
        "weight": np.arange(4, dtype=np.float32).reshape(2, 2, 1, 1),
        "gamma": np.array([1, 2], np.float32),
        "beta": np.array([0, 1], np.float32),
        "mean": np.array([0, 0], np.float32),
        "var": np.array([4, 4], np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["image", "weight"], ["c1"], "first"),
        helper.make_node(
            "BatchNormalization",
            ["c1", "gamma", "beta", "mean", "var"],
            ["n1"],
            "norm",
            epsilon=0.0,
        ),
        helper.make_node("Relu", ["n1"], ["r1"]),
        helper.make_node("Conv", ["r1", "weight"], ["c2"], "second"),
        helper.make_node("Add", ["c2", "image"], ["sum"], "add"),
        helper.make_node("Identity", ["sum"], ["scores"], "copy"),
    ]
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 2, 3, 5])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 2, 3, 5])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)


main(sys.argv[1])
