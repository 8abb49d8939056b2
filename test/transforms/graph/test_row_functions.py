"""Check that softmax and normalizations are recognized in all forms that exporters write."""

import numpy as np
import pytest
from onnx_models import model, node

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.graph.row_rules import NormalizationRule

LENGTH = 6
RNG = np.random.default_rng(0)
CONSTANTS = {
    "gamma": RNG.uniform(-2, 2, LENGTH).astype(np.float32),
    "beta": RNG.uniform(-2, 2, LENGTH).astype(np.float32),
    "axis": np.array([2], np.int64),
    "two": np.array(2, np.float32),
    "half": np.array(0.5, np.float32),
    "minus_half": np.array(-0.5, np.float32),
    "one": np.array(1, np.float32),
    "count": np.array(LENGTH, np.float32),
    "least": np.array(-np.inf, np.float32),
    "epsilon": np.array(1e-3, np.float32),
}

MEAN = ("ReduceMean x axis m", "Sub x m d")
VARIANCES = {
    "product": (*MEAN, "Mul d d q", "ReduceMean q axis v"),
    "power": (*MEAN, "Pow d two q", "ReduceMean q axis v"),
    "two_differences": (*MEAN, "Sub x m c", "Mul c d q", "ReduceMean q axis v"),
    "sum_of_squares": (*MEAN, "ReduceSumSquare d axis q", "Div q count v"),
    "mean_of_squares_less_square": (
        *(*MEAN, "Mul x x p", "ReduceMean p axis w"),
        *("Mul m m k", "Sub w k v"),
    ),
    "negated_mean": (
        "ReduceMean x axis m",
        "Neg m n",
        "Add x n d",
        "Mul d d q",
        "ReduceMean q axis v",
    ),
}
TOPS = {
    "division": ("Sqrt t r", "Div d r z", "Mul z gamma g", "Add g beta y"),
    "reversed": ("Sqrt t r", "Div d r z", "Mul gamma z g", "Add beta g y"),
    "reciprocal": ("Sqrt t r", "Reciprocal r i", "Mul d i z", "Mul z gamma g", "Add g beta y"),
    "power_of_root": ("Pow t half r", "Div d r z", "Mul z gamma g", "Add g beta y"),
    "negative_power": ("Pow t minus_half i", "Mul d i z", "Mul z gamma g", "Add g beta y"),
    "factor": ("Sqrt t r", "Reciprocal r i", "Mul i gamma f", "Mul d f g", "Add g beta y"),
    "keras": (
        *("Sqrt t r", "Div one r i", "Mul i gamma f", "Mul x f g"),
        *("Mul m f h", "Sub beta h b", "Add g b y"),
    ),
}
SOFTMAX = {
    "plain": ("Exp x e", "ReduceSum e axis s", "Div e s y"),
    "maximum": ("ReduceMax x axis m", "Sub x m d", "Exp d e", "ReduceSum e axis s", "Div e s y"),
    "finite_maximum": (
        *("ReduceMax x axis m", "Max m least n", "Sub x n d", "Exp d e"),
        *("ReduceSum e axis s", "Div e s y"),
    ),
    "reciprocal": ("Exp x e", "ReduceSum e axis s", "Reciprocal s i", "Mul i e y"),
    "logarithm": ("Exp x e", "ReduceSum e axis s", "Log s l", "Sub x l d", "Exp d y"),
    "log_sum_exp": ("ReduceLogSumExp x axis l", "Sub x l d", "Exp d y"),
}


def fused(lines: tuple[str, ...]) -> list[str]:
    """Return the remaining operations, which compute equal values."""
    nodes = [
        node(kind, " ".join(operands), result)
        for kind, *operands, result in (line.split() for line in lines)
    ]
    module = import_model(model(nodes, {"x": (2, 3, LENGTH)}, ["y"], CONSTANTS, opset=18))
    x = {"x": (RNG.normal(size=(2, 3, LENGTH)) * 3 + 1).astype(np.float32)}
    expected = run(module, x)["y"].astype(np.float64)
    FusePass().apply(load_context(), module)
    NormalizationRule().apply(load_context(), module)
    np.testing.assert_allclose(
        run(module, x)["y"].astype(np.float64), expected, rtol=1e-4, atol=1e-5
    )
    names = [op.name for op in main_function(module).body.block.ops]
    return [name for name in names if name not in ("graph.constant", "func.return")]


@pytest.mark.parametrize("top", TOPS)
@pytest.mark.parametrize("variance", VARIANCES)
def test_normalization(variance: str, top: str) -> None:
    lines = (*VARIANCES[variance], "Add v epsilon t", *TOPS[top])
    assert fused(lines) == ["graph.normalize"]


@pytest.mark.parametrize("spelled", SOFTMAX)
def test_softmax(spelled: str) -> None:
    assert fused(SOFTMAX[spelled]) == ["graph.softmax"]


@pytest.mark.parametrize(
    "lines",
    [
        # The epsilon is added to the deviation, or bounds it from below.
        (*VARIANCES["product"], "Sqrt v r", "Add r epsilon t", "Div d t y"),
        (*VARIANCES["product"], "Max v epsilon t", "Sqrt t r", "Div d r y"),
        ("Exp x e", "ReduceSum e axis s", "Add s epsilon t", "Div e t y"),
    ],
)
def test_what_is_alike_stays(lines: tuple[str, ...]) -> None:
    assert {"graph.normalize", "graph.softmax"}.isdisjoint(fused(lines))
