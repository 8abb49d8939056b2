"""Check that imports have no cycles, and that only the folder of a target names the target."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ceras_ir"
TARGETS = frozenset(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "ceras_ir.targets"
    ]
)
FORMATS = frozenset({"mlir"})
"""Targets with the name of the text format of all levels."""
UNMISTAKABLE = TARGETS - FORMATS - {"c", "interp", "onnx"}
"""Targets with names that have no other meaning."""


def test_no_circle_of_files():
    """Include `__init__` files, imports in functions, and imports only for type checkers."""
    graph = grimp.build_graph("ceras_ir")
    imports = {m: graph.find_modules_directly_imported_by(m) for m in sorted(graph.modules)}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_no_target_is_named_outside_backends():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "backends")
        for line, text in names_of_targets(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def names_of_targets(source: str) -> Iterator[tuple[int, str]]:
    """List lines that name a target, with the words; docstrings and comments are ignored."""
    tree = ast.parse(source)
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings and _names_target(node.value):
                yield node.lineno, repr(node.value)
        elif isinstance(node, ast.expr | ast.stmt | ast.alias | ast.arg | ast.keyword):
            for field in ("name", "id", "attr", "arg", "module"):
                name = getattr(node, field, None)
                if isinstance(name, str) and not UNMISTAKABLE.isdisjoint(_words(name)):
                    yield node.lineno, name


def _names_target(text: str) -> bool:
    """Return whether a literal names a target or an option value, or contains a unique name."""
    whole = re.sub(r"^(.*\s)?(--)?targets?[= ]|^--(no-)?", "", text.strip())
    return whole in TARGETS - FORMATS or not UNMISTAKABLE.isdisjoint(_words(text))


@cache
def _words(text: str) -> frozenset[str]:
    """Return the words of a text, or of an identifier in any spelling, in lower case."""
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)
    return frozenset(w.lower() for w in found)


@pytest.mark.parametrize(
    "code",
    (
        'x = "c"',
        'x = "--target onnx"',
        'x = f"pick VTA for {y}"',
        'add("--nnet-file")',
        "class NnetRule: pass",
        "from a.b import vta",
        "import ceras_ir.backends.arduino.sketch",
        "f(vta_block=1)",
    ),
)
def test_a_name_is_found(code: str):
    assert list(names_of_targets(code))


@pytest.mark.parametrize(
    "code",
    (
        '"""For vta."""',
        'def f():\n    """For nnet."""',
        'x = ".onnx"',
        "import onnx",
        'x = f"groups divide {c} input"',
        "c = 1  # nnet has two",
    ),
)
def test_other_words_are_none(code: str):
    assert not list(names_of_targets(code))
