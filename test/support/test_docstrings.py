"""Help pages and refusals print options, also under `python -OO`, which removes them."""

import subprocess
import sys

import pytest

from ceras_ir.support import options
from ceras_ir.support.options import docstring

SCRIPT = """
import sys
from ceras_ir.frontends.onnx.emission.registry import OPERATOR_RULES
from ceras_ir.frontends.onnx.operators import recurrent, reduction
from ceras_ir.support.options import docstring
found = [docstring(rule) for rules in OPERATOR_RULES.values() for rule in rules]
print(sys.flags.optimize, *found, sep=";")
"""


def printed(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["opt", "--list-passes"],
        ["opt", "--help-pass=fuse-functions"],
        ["compile", "--help"],
    ],
    ids=" ".join,
)
def test_help_is_the_same(arguments: list[str]):
    plain, optimized = (printed(*o, "-m", "ceras_ir", *arguments) for o in ([], ["-OO"]))
    assert optimized == plain


@pytest.mark.slow
def test_rules_are_the_same():
    """Docstrings of functions, and docstrings that the code assigns."""
    plain, optimized = (printed(*o, "-c", SCRIPT) for o in (["-O"], ["-OO"]))
    assert plain.partition(";")[0] == "1" and optimized.partition(";")[0] == "2"
    rules = plain.split(";")[1:]
    assert len(rules) > 3 and all(rules) and optimized.split(";")[1:] == rules


def test_module_function_and_class():
    assert docstring(options).startswith("Declare the options of passes, targets and commands")
    assert docstring(docstring).endswith("returned too. Base classes are not searched.")
    assert docstring(type("Plain", (), {})) == ""
