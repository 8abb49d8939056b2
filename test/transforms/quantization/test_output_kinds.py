"""Check the kinds of outputs that the graph shows."""

import pytest

from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis.output_kinds import OutputKind, kind_of
from ceras_ir.transforms.quantization.analysis.sensitivity import SensitivityMeter

LAYER = """
func.func @main(%x: INPUT) -> RESULT {
  %w = graph.constant dense<0.5> : WEIGHTS : WEIGHTS
  %y = graph.LAYER %x, %w : (INPUT, WEIGHTS) -> VALUE
  TAIL
}
"""


def network(inputs: str, outputs: str, tail: str = "", result: str = "") -> str:
    """Return a layer from `inputs` to `outputs`, shapes such as 1x8, and operations after it."""
    weights = f"{outputs.rsplit('x', 1)[-1]}x" + "1x1x" * (inputs.count("x") == 3)
    layer = "conv2d" if inputs.count("x") == 3 else "matmul"
    text = LAYER.replace("WEIGHTS", f"tensor<{weights}{inputs.rsplit('x', 1)[-1]}xf32>")
    value = f"tensor<{outputs}xf32>"
    returned = f"func.return %{'z' if tail else 'y'} : {result or value}"
    text = text.replace("TAIL", f"{tail.replace('VALUE', value)}\n  {returned}")
    text = text.replace("graph.LAYER", f"graph.{layer}").replace("VALUE", value)
    return text.replace("INPUT", f"tensor<{inputs}xf32>").replace("RESULT", result or value)


SIGMOID = "%z = graph.unary <sigmoid> %y : VALUE"
SOFTMAX = "%z = graph.softmax %y {axis = 1 : i64} : VALUE"
ARGMAX = "%z = graph.arg max %y {axis = 1 : i64} : (VALUE) -> tensor<1x1xi64>"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (network("1x64", "1x10"), OutputKind.SCORES),
        (network("1x64", "1x10", SOFTMAX), OutputKind.SCORES),
        (network("1x64", "1x10", ARGMAX, "tensor<1x1xi64>"), OutputKind.SCORES),
        (network("1x64", "1x10", SIGMOID), OutputKind.PROBABILITIES),
        (network("1x64", "1x2"), OutputKind.REGRESSION),
        (network("1x64", "1x64"), OutputKind.SIGNAL),
        (network("1x64", "1x64", SIGMOID), OutputKind.MASK),
        (network("1x16x16x3", "1x16x16x12"), OutputKind.SIGNAL),
        (network("1x16x16x3", "1x16x16x1", SIGMOID), OutputKind.MASK),
    ],
)
def test_kind_of_output(text: str, kind: OutputKind) -> None:
    module = parse_text(load_context(), text, "n.mlir")
    (value,) = SensitivityMeter(module, []).outputs
    assert kind_of(main_function(module), value) is kind
