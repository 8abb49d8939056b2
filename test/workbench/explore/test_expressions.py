"""Test expressions over figures: values and refusals."""

import pickle

import pytest

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.figure_names import UnknownFigure, identifier
from ceras_ir.workbench.explore.expressions import parse_expression

VALUES = {"flash_bytes": 1000.0, "top_1": 0.5, "top_5": 0.9, "target": "nnet"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("flash < 2000", True),
        ("flash_bytes < 2000 and top_1 > 0.8", False),
        ("not (top_1 > 0.8) or flash > 5", True),
        ("0.4 < top_1 <= 0.5", True),
        ("target == 'nnet'", True),
        ("target != 'nnet'", False),
        ("flash * 2 + 1 - 3 / 2", 1999.5),
        ("-flash", -1000.0),
    ],
)
def test_values(text: str, value: object):
    assert parse_expression(text).value(VALUES) == value


@pytest.mark.parametrize(
    "text",
    ["", "flash <", "open('x')", "a.b", "[1]", "lambda: 1", "a if b else c", "x := 1", "None"],
)
def test_refuses_what_is_no_expression(text: str):
    with pytest.raises(UsageError):
        parse_expression(text)


def test_unknown_names_have_a_suggestion():
    with pytest.raises(UnknownFigure, match="did you mean 'flash_bytes'"):
        parse_expression("flsh_bytes < 3").holds(VALUES)
    with pytest.raises(UnknownFigure, match="'top' may be top_1 or top_5"):
        parse_expression("top < 3").holds(VALUES)


@pytest.mark.parametrize("text", ["target < 3", "flash / (top_1 - 0.5)", "target + 1 > 2"])
def test_refuses_what_has_no_value(text: str):
    with pytest.raises(UsageError):
        parse_expression(text).value(VALUES)


def test_identifiers():
    assert identifier("signal to noise (dB)") == "signal_to_noise_db"
    assert identifier("top-1") == "top_1"
    assert identifier("4 bits") == "n4_bits"


@pytest.mark.parametrize(
    ("term", "result"),
    [(" + flash", 2_001_000), (" - 1", -1000), (" * 1", 1000), (" and top_1 > 0", True)],
)
def test_thousands_of_terms(term: str, result: float):
    expression = parse_expression("flash" + 2000 * term)
    for each in (expression, pickle.loads(pickle.dumps(expression))):
        assert each.value(VALUES) == result


@pytest.mark.parametrize("text", [2000 * "-" + "1", 2000 * "not " + "1", "1" + 10**5 * " + 1"])
def test_deep_expressions_are_refused(text: str):
    with pytest.raises(UsageError) as error:
        parse_expression(text).value(VALUES)
    assert len(str(error.value)) < 300
