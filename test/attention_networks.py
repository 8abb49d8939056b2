"""Build a block with several heads, as exporters of vision transformers write it."""

import numpy as np
from onnx_models import model, node


def heads(tokens: int, count: int, width: int) -> bytes:
    """Use a single projection for all heads, attention, a projection and a residual."""
    random = np.random.default_rng(7)
    nodes = [
        node("MatMul", "x wqkv", "a"),
        node("Reshape", "a split", "b"),
        node("Transpose", "b", "c", perm=[2, 0, 3, 1, 4]),
        *(node("Gather", f"c i{i}", name, axis=0) for i, name in enumerate("qkv")),
        node("Mul", "q factor", "scaled"),
        node("Transpose", "k", "kt", perm=[0, 1, 3, 2]),
        node("MatMul", "scaled kt", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p v", "o"),
        node("Transpose", "o", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t joined", "j"),
        node("MatMul", "j wo", "m"),
        node("Add", "x m", "y"),
    ]
    channels = count * width
    tensors = {
        "wqkv": random.normal(0, channels**-0.5, (channels, 3 * channels)).astype(np.float32),
        "wo": random.normal(0, channels**-0.5, (channels, channels)).astype(np.float32),
        "split": np.array([1, tokens, 3, count, width], np.int64),
        "joined": np.array([1, tokens, channels], np.int64),
        "factor": np.array(width**-0.5, np.float32),
        **{f"i{i}": np.array(i, np.int64) for i in range(3)},
    }
    network = model(nodes, {"x": (1, tokens, channels)}, ["y"], tensors, opset=17)
    return network.SerializeToString()
