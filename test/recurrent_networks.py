"""Build streaming networks: cells of small operators, and ONNX's LSTM with external states."""

import numpy as np
import onnx
import onnx_models as om

INPUTS, UNITS = 6, 8


def _weights(seed: int, *shape: int) -> om.Array:
    scale = 1.5 / np.sqrt(shape[0])
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def gru_cell() -> onnx.ModelProto:
    """Build a GRU step from x [1, 6] and h [1, 8] to y [1, 3] and hn, as torch exports cells."""
    nodes = [
        om.node("Gemm", "x wx bx", "gx"),
        om.node("Gemm", "h wh bh", "gh"),
        om.node("Split", "gx", "rx zx nx", axis=1),
        om.node("Split", "gh", "rh zh nh", axis=1),
        om.node("Add", "rx rh", "ra"),
        om.node("Sigmoid", "ra", "r"),
        om.node("Add", "zx zh", "za"),
        om.node("Sigmoid", "za", "z"),
        om.node("Mul", "r nh", "rn"),
        om.node("Add", "nx rn", "na"),
        om.node("Tanh", "na", "n"),
        om.node("Sub", "h n", "d"),
        om.node("Mul", "z d", "zd"),
        om.node("Add", "n zd", "hn"),
        om.node("Gemm", "hn wo bo", "y"),
    ]
    weights = {
        "wx": _weights(1, INPUTS, 3 * UNITS),
        "bx": _weights(2, 3 * UNITS),
        "wh": _weights(3, UNITS, 3 * UNITS),
        "bh": _weights(4, 3 * UNITS),
        "wo": _weights(5, UNITS, 3),
        "bo": _weights(6, 3),
    }
    return om.model(nodes, {"x": [1, INPUTS], "h": [1, UNITS]}, ["y", "hn"], weights)


def lstm_layer(steps: int = 2) -> onnx.ModelProto:
    """Build ONNX's LSTM over a frame of steps, with h and c as inputs and outputs, as in Silero."""
    nodes = [
        om.node("LSTM", "x w r b - h c", "s hn cn", hidden_size=UNITS),
        om.node("Squeeze", "hn zero", "last"),
        om.node("Gemm", "last wo bo", "y"),
    ]
    weights = {
        "w": _weights(1, 1, 4 * UNITS, INPUTS) / 2,
        "r": _weights(2, 1, 4 * UNITS, UNITS) / 3,
        "b": _weights(3, 1, 8 * UNITS) / 4,
        "zero": np.array([0], np.int64),
        "wo": _weights(5, UNITS, 3),
        "bo": _weights(6, 3),
    }
    ends = {"x": [steps, 1, INPUTS], "h": [1, 1, UNITS], "c": [1, 1, UNITS]}
    return om.model(nodes, ends, ["y", "hn", "cn"], weights, opset=14)


def delay_line() -> onnx.ModelProto:
    """Delay two samples, and swap two states: an early write of a state gives wrong results."""
    nodes = [
        om.node("Add", "a b", "ab"),
        om.node("Add", "ab x", "y"),
        om.node("Identity", "x", "an"),
        om.node("Identity", "a", "bn"),
        om.node("Identity", "d", "cn"),
        om.node("Add", "c x", "dn"),
    ]
    return om.model(nodes, {key: [1, 4] for key in "xabcd"}, ["y", "an", "bn", "cn", "dn"], {})


STATES = {
    "gru": {"h": "hn"},
    "lstm": {"h": "hn", "c": "cn"},
    "delay": {"a": "an", "b": "bn", "c": "cn", "d": "dn"},
}
NETWORKS = {"gru": gru_cell, "lstm": lstm_layer, "delay": delay_line}


def sequence(name: str, steps: int = 10, seed: int = 7) -> om.Array:
    """Draw the new inputs of all steps, in order."""
    shape = {"gru": (1, INPUTS), "lstm": (2, 1, INPUTS), "delay": (1, 4)}[name]
    return np.random.default_rng(seed).normal(0, 1, (steps, *shape)).astype(np.float32)
