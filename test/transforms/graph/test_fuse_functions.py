"""Check the formulas of `fuse-functions`, and the names of fused operations."""

from pathlib import Path

import numpy as np
import pytest

from ceras_ir.dialects import graph
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network.function import main_function
from ceras_ir.network.storage import is_kept_in_float
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.support.diagnostics import node_name, node_names
from ceras_ir.transforms.graph.formulas import FORMULAS
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.graph.fuse_functions import POINTS
from ceras_ir.transforms.quantization.set_precision import SetPrecisionPass

PARAMETERS = {
    graph.Function.CLIP: (-1.5, 2.0),
    graph.Function.LEAKY_RELU: (0.25,),
    graph.Function.HARD_SIGMOID: (0.25, 0.5),
    graph.Function.ELU: (1.5,),
}


@pytest.mark.parametrize("kind", FORMULAS)
def test_formula(kind: graph.Function):
    """Each formula equals the interpreter within the rounding of float32."""
    parameters = PARAMETERS.get(kind, ())
    x = POINTS.astype(np.float32)
    if kind in (graph.Function.LOG, graph.Function.SQRT):
        x = x[x > 0]
    if kind is graph.Function.EXP:
        x = x[abs(x) < 20]
    got = apply_function(graph.FunctionAttr(kind, parameters), x)
    expected = FORMULAS[kind](x.astype(np.float64), parameters)
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)


def test_lines_beyond_the_points():
    """A function that equals a candidate at all points must equal it everywhere."""
    far = np.array([-1e4, 1e4])
    for kind in (graph.Function.SWISH, graph.Function.MISH, graph.Function.GELU):
        np.testing.assert_array_equal(FORMULAS[kind](far, ()), [0.0, 1e4])


DIGITS = Path(__file__).parents[3] / "examples/digits/digits.onnx"
WIDE = ["conv/Conv", "norm/BatchNormalization", "silu/Mul", "silu/Sigmoid"]


@pytest.mark.parametrize("node", WIDE)
def test_any_node_names_the_layer(node: str):
    module = read_network(str(DIGITS))
    FusePass().apply(load_context(), module)
    SetPrecisionPass(float=(f"wide/{node}",)).apply(load_context(), module)
    (layer,) = [op for op in main_function(module).body.block.ops if is_kept_in_float(op)]
    assert node_name(layer) == "wide/conv/Conv"
    assert sorted(node_names(layer)) == [f"wide/{name}" for name in WIDE]
