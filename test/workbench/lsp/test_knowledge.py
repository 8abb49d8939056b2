"""Check the errors of a text, the meaning of names, and the printed result."""

import pytest

from ceras_ir.pipeline.context import load_context, load_universe
from ceras_ir.support.diagnostics import InputError
from ceras_ir.workbench.lsp.server import (
    diagnose,
    explanation,
    operation_names,
    run_level,
    valid_part,
)

GOOD = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.unary <relu> %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


def found(text: str) -> list[tuple[int | None, str]]:
    return [(d.line, d.message) for d in diagnose(load_context(), text, "t.mlir")]


def test_a_good_text_has_no_errors():
    assert found(GOOD) == [] == found("")


def test_errors_of_every_part_are_where_they_are():
    bad = GOOD.replace("graph.unary <relu>", "graph.unry")
    invalid = GOOD.replace("<relu> %x : tensor<4xf32>", "<relu> %z : tensor<4xf32>")
    errors = found(f"{GOOD}// -----\n{bad}// -----\n{invalid}")
    assert [line for line, _ in errors] == [7, 12]
    assert "graph.unry" in errors[0][1] and "z" in errors[1][1]


def test_verifier_errors_name_their_line():
    wrong = "%z = graph.binary add %y, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<5xf32>"
    text = GOOD.replace("  func.return", f"  {wrong}\n  func.return")
    ((line, message),) = found(text)
    assert line == 3 and "graph.binary" in message


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("graph.conv2d", "operation", "cross-correlation"),
        ("mem.launch", "operation", ""),
        ("fuse", "pass", ""),
        ("--fuse", "pass", ""),
        ("!quant.uniform", "type", ""),
        ("#mem.block", "attribute", ""),
    ],
)
def test_names_are_explained(name: str, kind: str, words: str):
    said = explanation(load_context(), load_universe(), name)
    assert said is not None and said.startswith(f"**{name}** ({kind})\n\n")
    assert words in said.lower() and len(said) > 60


def test_other_names_are_not():
    for name in ("graph.nothing", "x", "!nothing.here", "%a", "nodialect.op"):
        assert explanation(load_context(), load_universe(), name) is None


def test_operations_of_a_dialect_are_completed():
    names = list(operation_names(load_universe(), "graph.co"))
    assert "graph.conv2d" in names and all(name.startswith("graph.") for name in names)
    assert not list(operation_names(load_universe(), "nothing.")) + list(
        operation_names(load_universe(), "graph")
    )


def test_a_level_is_run():
    said = run_level(valid_part(load_context(), GOOD, "t", 1))
    assert said.startswith("output0: float32[4] in [") and "interpreted in" in said
    with pytest.raises(InputError):
        valid_part(load_context(), GOOD.replace("relu", "rlu"), "t", 1)
