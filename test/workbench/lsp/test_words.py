"""Find the words at a position of a text."""

import pytest

from ceras_ir.workbench.lsp.server import definition, functions, uses, word_at

TEXT = """\
func.func @first(%x: tensor<4xf32>, %unused: i1) -> tensor<4xf32> {
  %a, %b:2 = "test.two"(%x) : (tensor<4xf32>) -> (i1, i1, i1)
  %y = graph.unary <relu> %x : tensor<4xf32> // %y = of a comment
  func.return %y : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @first(%x, %y#1) : (tensor<4xf32>) -> tensor<4xf32>
  scf.for %i = %x to %x step %x {
    "test.use"(%i) : (i1) -> ()
  }
  func.return %y : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("line", "word", "made"),
    [
        (3, "%y", (2, 2)),
        (2, "%x", (0, 17)),
        (10, "%y", (6, 2)),
        (6, "%x", (5, 16)),
        (1, "%b", (1, 6)),
        (8, "%i", (7, 10)),
        (6, "@first", (0, 10)),
    ],
)
def test_a_value_is_defined_in_its_function(line: int, word: str, made: tuple[int, int]):
    column = TEXT.split("\n")[line].index(word)
    found = word_at(TEXT, line, column + 1)
    assert found is not None and found.text.startswith(word)
    there = definition(TEXT, found)
    assert there is not None and (there.line, there.start) == made


def test_what_is_nowhere_has_no_definition():
    word = word_at("%a = test.op %nowhere", 0, 14)
    assert word is not None and word.text == "%nowhere"
    assert definition("%a = test.op %nowhere", word) is None
    assert word_at(TEXT, 99, 0) is None and word_at("", 0, 0) is None


def test_uses_stay_in_the_function():
    word = word_at(TEXT, 3, 15)
    assert word is not None
    assert [(w.line, w.start) for w in uses(TEXT, word)] == [(2, 2), (3, 14)]


def test_networks_have_a_lens():
    assert list(functions(TEXT)) == [5]
    assert list(functions('  "func.func"() <{sym_name = "main"}> ({')) == [0]
