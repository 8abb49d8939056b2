"""Build the network of S4 with random weights: 3-H-H-3, ReLU, ReLU, sigmoid."""

import numpy as np
from c_harness import constant, make_network
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Function, FunctionAttr, MatmulOp

Floats = NDArray[np.float32]


def sparse(rng: np.random.Generator, shape: tuple[int, ...], zeros: float) -> Floats:
    """Return normal values with a share of exact zeros."""
    weights = rng.normal(size=shape)
    count = int(zeros * weights.size)
    weights.reshape(-1)[rng.permutation(weights.size)[:count]] = 0
    return weights.astype(np.float32)


def colour_mlp(hidden: int, *, zeros: float = 0.0, seed: int = 0) -> ModuleOp:
    """Return the color corrector, with a share of zeros in the hidden weights."""
    rng = np.random.default_rng(seed)
    relu, sigmoid = FunctionAttr(Function.RELU), FunctionAttr(Function.SIGMOID)
    layers = [(3, hidden, relu), (hidden, hidden, relu), (hidden, 3, sigmoid)]

    def body(x: SSAValue) -> list[SSAValue]:
        for k, n, activation in layers:
            weights = sparse(rng, (n, k), zeros if n != 3 else 0.0) / np.float32(k**0.5)
            bias = rng.normal(size=n).astype(np.float32)
            x = MatmulOp(
                x, constant(weights), constant(bias), result_element=f32, activation=activation
            ).result
        return [x]

    return make_network([(f32, (1, 3))], body)


def colours(count: int, seed: int = 1) -> list[dict[str, Floats]]:
    """Return inputs that start with the bounds of the range."""
    rng = np.random.default_rng(seed)
    values = rng.random((count, 1, 3)).astype(np.float32)
    values[0], values[-1] = 0, 1
    return [{"input0": v} for v in values]
