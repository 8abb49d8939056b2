"""
Fusion keeps bounds and addends that keep the next operation finite.

Expected values are computed by numpy in float32, in the operations of the model.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pytest
from onnx import NodeProto
from onnx_models import model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.graph.row_rules import NormalizationRule

Floats = npt.NDArray[np.float32]

EPSILONS = [1e-45, 1e-30, 1e-20, 1e-12, 1e-8, 1.1920929e-07, 5e-7, 1e-5]
BINADES = 2.0 ** np.arange(-149, 10)
VALUES = np.concatenate([BINADES, 1.5 * BINADES, [0.0, 1.2e-7, 3.3e-8, 100.0]])
X = np.concatenate([VALUES, -VALUES]).astype(np.float32)

GUARDS: Mapping[str, tuple[list[str], Callable[[Floats, np.float32], Floats]]] = {
    "max": (["Max x e g"], lambda x, e: np.maximum(x, e)),
    "clip": (["Clip x e g"], lambda x, e: np.clip(x, e, None)),
    "relu_plus": (["Relu x r", "Add r e g"], lambda x, e: np.maximum(x, 0) + e),
    "abs_plus": (["Abs x r", "Add e r g"], lambda x, e: np.abs(x) + e),
    "max_of_abs": (["Abs x r", "Max r e g"], lambda x, e: np.maximum(np.abs(x), e)),
    "threshold": (
        ["Greater x e c", "Where c x zero g"],
        lambda x, e: np.where(x > e, x, np.float32(0)),
    ),
    "less_replaced": (["Less x e c", "Where c e x g"], lambda x, e: np.where(x < e, e, x)),
    "relu_less": (["Relu x r", "Sub r e g"], lambda x, e: np.maximum(x, 0) - e),
    "leaky_max": (
        ["Mul x tenth s", "Max x s l", "Max l e g"],
        lambda x, e: np.maximum(np.maximum(x, x * np.float32(0.1)), e),
    ),
    "minus_min": (
        ["Neg e n", "Neg x m", "Min m n k", "Neg k g"],
        lambda x, e: -np.minimum(-x, -e),
    ),
}
CONSUMERS: Mapping[str, tuple[list[str], Callable[[Floats], Floats]]] = {
    "log": (["Log g y"], np.log),
    "reciprocal": (["Reciprocal g y"], np.reciprocal),
    "quotient": (["Div one g y"], lambda g: np.float32(1) / g),
    "root": (["Sqrt g y"], np.sqrt),
    "sign": (["Sign g y"], np.sign),
    "power": (["Pow g minus y"], lambda g: np.power(g, np.float32(-0.5))),
}


def fused(lines: list[str], x: Floats, e: float, opset: int = 17) -> Floats:
    """Return the result of a network after fusion."""
    nodes: list[NodeProto] = [
        node(kind, " ".join(operands), result)
        for kind, *operands, result in (line.split() for line in lines)
    ]
    constants = {
        "e": np.float32(e),
        "zero": np.float32(0),
        "one": np.float32(1),
        "minus": np.float32(-0.5),
        "tenth": np.float32(0.1),
        "axis": np.array([1]),
    }
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    used = {name: a for name, a in arrays.items() if any(name in n.input for n in nodes)}
    module = import_model(model(nodes, {"x": x.shape}, ["y"], used, opset=opset))
    FusePass().apply(load_context(), module)
    NormalizationRule().apply(load_context(), module)
    return run(module, {"x": x})["y"].astype(np.float32)


@pytest.mark.sample(24)
@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("guard", GUARDS)
def test_elementwise(guard: str, consumer: str) -> None:
    before, guarded = GUARDS[guard]
    after, consumed = CONSUMERS[consumer]
    for e in EPSILONS:
        with np.errstate(all="ignore"):
            expected = consumed(guarded(X, np.float32(e)))
        np.testing.assert_allclose(fused([*before, *after], X, e), expected, rtol=1e-5)


@pytest.mark.parametrize("e", EPSILONS)
def test_after_an_activation(e: float) -> None:
    """The logarithm is of softplus plus an epsilon, which exceeds the softplus of -100."""
    with np.errstate(all="ignore"):
        softplus = np.logaddexp(X.astype(np.float64), 0.0).astype(np.float32)
        expected = np.log(softplus + np.float32(e))
    got = fused(["Softplus x s", "Add s e g", "Log g y"], X, e)
    # The float32 exponential is 0 below -87.
    shown = (softplus > 1e-37) | (softplus == 0)
    np.testing.assert_allclose(got[shown], expected[shown], rtol=1e-5, atol=1e-6)


SIZES = np.concatenate([2.0 ** np.arange(-100, 20, 3), [0.0]])[:, None]
ROWS = (np.random.default_rng(0).normal(size=(len(SIZES), 8)) * SIZES).astype(np.float32)


@pytest.mark.parametrize("e", [1e-12, 1e-8, 1e-6, 1e-3])
@pytest.mark.parametrize("guard", ["Max r e t", "Add r e t"])
def test_norms(guard: str, e: float) -> None:
    """A bound of the root mean square, or an addend to it, is not an epsilon under the root."""
    squares = np.square(ROWS.astype(np.float64))
    # Squares below the smallest float32 number are 0.
    root = np.sqrt(np.where(squares < 2e-45, 0, squares).mean(axis=1, keepdims=True))
    expected = ROWS / (np.maximum(root, e) if guard.startswith("Max") else root + e)
    lines = ["Mul x x q", "ReduceMean q axis v", "Sqrt v r", guard, "Div x t y"]
    sizes = np.abs(ROWS).max(axis=1)
    shown = (sizes > 1e-18) | (sizes == 0)
    got = fused(lines, ROWS, e, opset=18)
    np.testing.assert_allclose(got[shown], expected[shown], rtol=1e-4)


SCORES = np.array([[-200, -100, -50, 0], [-40, -41, -42, -43], [3, 2, 1, -15]], np.float32)


@pytest.mark.parametrize("e", [1e-12, 1e-9, 1e-7, 1e-5])
def test_softmax(e: float) -> None:
    """The guards are a bound of probabilities, or an addend to the sum of exponentials."""
    powers = np.exp(SCORES.astype(np.float64))
    sums = powers.sum(axis=1, keepdims=True)
    softmax = ["Exp x p", "ReduceSum p axis s", "Div p s q"]
    got = fused([*softmax, "Max q e t", "Log t y"], SCORES, e, opset=18)
    np.testing.assert_allclose(got, np.log(np.maximum(powers / sums, e)), rtol=1e-4, atol=1e-5)
    got = fused(["Exp x p", "ReduceSum p axis s", "Add s e t", "Div p t y"], SCORES, e, opset=18)
    np.testing.assert_allclose(got, powers / (sums + e), rtol=1e-4, atol=1e-38)


def test_clip_far_from_the_mean() -> None:
    """Only rows of a single large element reach the clip of the normalized values."""
    x = np.eye(2, 64, dtype=np.float32) * 100
    lines = [
        *("Mul x x q", "ReduceMean q axis v", "Add v e t", "Sqrt t r", "Div x r n"),
        *("Add one one two", "Clip n zero two y"),
    ]
    np.testing.assert_array_equal(fused(lines, x, 1e-5, opset=18), np.where(x > 0, 2, 0))


def test_rounding_to_integers() -> None:
    """The sum with 1.5 * 2^23 rounds, and the difference is no ReLU of the argument."""
    x = np.array([-0.7, 0.2, 0.5, 1.5, 2.7], np.float32)
    got = fused(["Add x e a", "Sub a e b", "Relu b y"], x, 12582912.0)
    np.testing.assert_array_equal(got, [0, 0, 0, 2, 3])
