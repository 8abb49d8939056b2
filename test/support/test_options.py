"""Check the declarations of options, and their docstrings under `python -OO`."""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

import pytest
from xdsl.transforms import get_all_passes

import ceras_ir
from ceras_ir.backends.c.names import WeightStorage
from ceras_ir.driver.opt.modes import describe_pass
from ceras_ir.support import options as options_module
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import (
    docstring,
    field_paragraphs,
    flag_of,
    help_of,
    idle_flags,
    inherited,
    option,
    options,
    options_of,
    out_of_range,
    with_options_of,
)
from ceras_ir.transforms.quantization_options import Silu

SOURCES = Path(ceras_ir.__file__).parent

DECLARING = ("Pass", "Rule", "Target", "Options", "Workers")
"""The suffixes of the names of classes with options."""

ARGUMENTS = {"COptions", "_Options", "Options", "FieldRule"}
"""Classes that are arguments of functions of the compiler and have no option of a user."""

SHARED = {
    "bits": 2,  # Of positions of encoded weights in prune; of weights in training.
    "convolution": 3,  # vta, im2col and schedule-tiles offer different choices.
    "inputs": 2,  # Files of commands; in equalize-channels, whether graph inputs are multiplied.
    "io": 2,  # Types of inputs and outputs; in memory plans, whether they are included.
    # Of samples, for accuracy; the names of classes, for printed answers and for decisions.
    "labels": 3,
    "rows": 3,  # Arithmetic of reductions; in depthwise and equalize-channels, switches.
    "samples": 2,  # The number in comparisons, and in the scan of prune.
    "seed": 3,  # Of stalls, of training, of synthetic samples.
    "target": 4,  # Of commands; of passes, optional or required; a format in ceras-opt.
}
"""The names of options with several meanings, and the number of meanings."""


def declarations() -> dict[str, list[str]]:
    """List the declarations of each option: fields of classes, and `add_argument`."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in declared_by(node):
                found[name].append(str(path.relative_to(SOURCES)))
    return found


def declared_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) if name.endswith(DECLARING) and name not in ARGUMENTS:
            for statement in node.body:
                match statement:
                    case ast.AnnAssign(value=ast.Call(func=ast.Name(id="inherited" | "field"))):
                        pass
                    case ast.AnnAssign(target=ast.Name(id=field), annotation=annotation):
                        if "ClassVar" not in ast.unparse(annotation):
                            yield written_flag(statement.value) or field.replace("_", "-")
                    case _:
                        pass
        case ast.Call(func=ast.Attribute(attr="add_argument") | ast.Name(id="add")):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            flags = [each for each in texts if isinstance(each, str) and each.startswith("-")]
            long = [each.removeprefix("--") for each in flags if each.startswith("--")]
            yield from (long or flags)[:1]
        case _:
            pass


def written_flag(value: ast.expr | None) -> str | None:
    """Return the flag that `option(..., flag=...)` sets for a field."""
    for keyword in value.keywords if isinstance(value, ast.Call) else ():
        if keyword.arg == "flag" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value).removeprefix("--")
    return None


def test_each_option_is_declared_once():
    found = declarations()
    several = {name: places for name, places in found.items() if len(places) > SHARED.get(name, 1)}
    assert not several, "inherit the options of the class that owns them"
    assert len(found) > 150
    fewer = {name for name, count in SHARED.items() if len(found[name]) < count}
    assert not fewer, "lower the numbers in SHARED"


@options
class DepthOptions:
    depth: int = option(4, metavar="N", minimum=1)
    """
    Stop at this depth.

    More about it.
    """


@options
class WordOptions:
    word: str | None = option(None, flag="--the-word")
    """Print this word, 100%."""


@dataclass(frozen=True)
class Inner(DepthOptions):
    other: int = 0


@options
class RefinedOptions(DepthOptions, WordOptions):
    depth: int = inherited(DepthOptions, "depth", 9, metavar="M")
    word: str | None = inherited(WordOptions, "word", "a")
    """Print another word."""


@dataclass(frozen=True)
class Outer(WordOptions, DepthOptions):
    other: int = 7


def test_help_is_the_first_paragraph_with_the_default():
    found = {each.name: help_of(Outer, each) for each, _ in options_of(Outer)}
    assert found == {"depth": "stop at this depth (default: 4)", "word": "print this word, 100%"}
    assert field_paragraphs(Outer)["depth"] == ["Stop at this depth.", "More about it."]


def test_refined_options_keep_the_rest_of_the_declaration():
    shown = {
        each.name: (help_of(RefinedOptions, each), flag_of(each))
        for each, _ in options_of(RefinedOptions)
    }
    assert shown == {
        "word": ("print another word (default: a)", "--the-word"),
        "depth": ("stop at this depth (default: 9)", "--depth"),
    }
    assert [text.metavar for _, text in options_of(RefinedOptions)] == [None, "M"]
    assert [text.minimum for _, text in options_of(RefinedOptions)] == [None, 1]


def test_inherited_options_are_handed_on():
    assert with_options_of(Inner, Outer(depth=9)) == Inner(9, 0)
    assert with_options_of(Inner, Outer(depth=9), other=1) == Inner(9, 1)


def test_idle_and_wrong_options():
    @dataclass(frozen=True)
    class Devices(Outer):
        """Options with conditions."""

        fast: bool = option(False, needs=("cpu", "gpu"))

    idle = idle_flags(Devices, Devices(word="a", fast=True), {"gpu": "no GPU", "fpga": "no FPGA"})
    assert idle == {"no GPU": ["--fast"]}
    assert not idle_flags(Devices, Devices(), {"gpu": "no GPU"})
    assert list(out_of_range(Outer(depth=0))) == [("depth", "must be at least 1")]


def test_keywords_are_checked():
    model = ceras_ir.load(str(Path(__file__).parents[2] / "examples/digits/digits.onnx"))
    for call, message in (
        (
            lambda: model.quantize(silo="table"),
            "quantize has no option 'silo'; did you mean 'silu'",
        ),
        (lambda: model.quantize(quantize="none"), "quantize has no option 'quantize'"),
        (lambda: model.quantize(int16=1.5), "int16 must be str,..., got 1.5"),
        (lambda: model.quantize(budget="all"), "budget must be float or none, got 'all'"),
    ):
        with pytest.raises(UsageError, match=message):
            call()


def test_signatures_list_options():
    for function in (ceras_ir.Model.quantize, ceras_ir.compare):
        shown = signature(function).parameters
        assert (shown["silu"].annotation, shown["silu"].default) == (Silu, "auto")
        assert {"in_float", "calibration_samples", "io"} <= set(shown)
        assert "options" not in shown
    shown = signature(ceras_ir.Model.compile).parameters
    assert (shown["weights"].annotation, shown["weights"].default) == (WeightStorage, "source")
    assert shown["encoding"].default is ...
    assert "options" not in shown


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
        ["compile", "--help-all"],
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
    assert docstring(options_module).startswith(
        "Declare the options of passes, targets and commands"
    )
    assert docstring(docstring).endswith("returned too. Base classes are not searched.")
    assert docstring(type("Plain", (), {})) == ""


@pytest.mark.parametrize("name", ["cse", "canonicalize", "apply-pdl"])
def test_the_help_of_a_pass_of_xdsl_has_a_description(name: str) -> None:
    _, description, *options = describe_pass(get_all_passes()[name]()).split("\n\n")
    known = {"cse": "xDSL pass without description (", "canonicalize": "Applies all canon"}
    assert description.strip().startswith(known.get(name, "xDSL pass without description ("))
    assert ("pdl-file=" in "".join(options)) == (name == "apply-pdl")
