"""Check that a fused operation has the names of all merged nodes."""

from pathlib import Path

import pytest

from ceras_ir.network.function import main_function
from ceras_ir.network.storage import is_kept_in_float
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.support.diagnostics import node_name, node_names
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.set_precision import SetPrecisionPass

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
