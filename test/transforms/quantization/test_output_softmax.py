"""Outputs after a softmax are found, and their ratios before it are measured."""

import pytest

from ceras_ir.driver.differences import after_softmax
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis.output_softmax import softmax_of_outputs

HEAD = """
!t = tensor<1x4xf32>
func.func @main(%x: !t {graph.name = "x"}) -> (!t {graph.name = "y"}, !t {graph.name = "z"}) {
  %s = graph.softmax %x {axis = 1 : i64} : !t
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("func.return %x, %x : !t, !t", []),
        ("func.return %s, %x : !t, !t", ["y"]),
        ("func.return %s, %s : !t, !t", ["y", "z"]),
        (
            "%r = graph.reshape %s : (!t) -> tensor<4xf32>\n"
            "%m = graph.reshape %r : (tensor<4xf32>) -> !t\n"
            "func.return %x, %m : !t, !t",
            ["z"],
        ),
        ("%r = graph.unary <relu> %s : !t\nfunc.return %s, %r : !t, !t", ["y"]),
    ],
)
def test_outputs_of_a_softmax(text: str, found: list[str]) -> None:
    module = parse_text(load_context(), f"{HEAD}{text}\n}}\n", "n.mlir")
    assert list(softmax_of_outputs(main_function(module))) == found


def test_the_text_names_outputs_if_only_some_are_results_of_a_softmax() -> None:
    assert after_softmax(["y"], {}) == ""
    assert after_softmax(["y"], ["y"]) == ", after softmax"
    assert after_softmax(["y", "z"], ["z"]) == ", after softmax: z"
