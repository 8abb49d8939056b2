"""Check that no `assert` does work that later statements need: `python -O` removes them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("ceras_ir", "examples", "benchmarks", "docs")

BUILT_IN = ["abs", "all", "any", "callable", "isinstance", "issubclass", "len", "max", "set"]
LISTS = ["list", "range", "sorted"]
IMPORTED = ["array_equal", "get_args", "isa", "isnan", "prod", "tobytes"]
DEFINED = ["check_program", "constant", "is_integer", "is_tensor", "numpy_dtype", "shape_of"]
PURE = frozenset([*BUILT_IN, *LISTS, *IMPORTED, *DEFINED, "why_not"])
"""Functions and methods that an `assert` may call: they only compute a result."""


def impure(source: str) -> Iterator[tuple[int, str]]:
    """Return the line and the text of each `assert` that may do more than test a condition."""
    for statement in ast.walk(ast.parse(source)):
        if not isinstance(statement, ast.Assert):
            continue
        for part in ast.walk(statement.test):
            assigns = isinstance(part, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Await)
            if assigns or (isinstance(part, ast.Call) and _name(part.func) not in PURE):
                yield statement.lineno, ast.unparse(statement.test)


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ast.unparse(function)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_assert_does_required_work(folder: str):
    files = sorted((ROOT / folder).rglob("*.py"))
    found = [
        f"{path.relative_to(ROOT)}:{line}: assert {text}"
        for path in files
        for line, text in impure(path.read_text(encoding="utf-8"))
    ]
    assert files and not found, "\n".join(found)


@pytest.mark.parametrize(
    "statement",
    [
        "assert texts.setdefault(name, text) == text",
        "assert queue.pop()",
        "assert (first := found) is not None",
        "assert table[0](1)",
        "assert [(yield)] == []",
    ],
)
def test_required_work_is_found(statement: str):
    assert len(list(impure(f"def function():\n    {statement}"))) == 1


def test_conditions_are_accepted():
    source = "assert isinstance(a, int) and len(b) == 2, f'{b.pop()}'\nassert (a == b).all()"
    assert not list(impure(source))
