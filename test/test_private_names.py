"""
Check that only public names of xDSL, NumPy and onnx are used, so that new releases do not break.

Pyright in strict mode reports a private attribute of an object of another class. It permits such a
name in a subclass; the rules here do not.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("ceras_ir", "tools", "test", "docs", "examples", "benchmarks")
PACKAGES = ("xdsl", "numpy", "onnx")

DOCUMENTED = frozenset(["_run"])
"""ONNX documents that an operator of its reference evaluator implements `_run`."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_foreign(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


class Source:
    """A file: the classes, and the names that it imports."""

    def __init__(self, text: str) -> None:
        self.nodes = list(ast.walk(ast.parse(text)))
        self.classes = {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}
        self.imported: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self.imported[name] = alias.name if alias.asname else name

    def origin(self, node: ast.expr) -> str:
        """Return the full name of an imported object or of an attribute of it; else ""."""
        if isinstance(node, ast.Attribute):
            origin = self.origin(node.value)
            return origin and f"{origin}.{node.attr}"
        return self.imported.get(node.id, "") if isinstance(node, ast.Name) else ""


def private_uses(sources: dict[str, Source], module: str) -> Iterator[tuple[int, str]]:
    """List the line and the text of each use of a private name in `module`."""
    source = sources[module]
    for node in source.nodes:
        match node:
            case ast.ImportFrom(module=str(origin), level=0) if is_foreign(origin):
                parts = [*origin.split("."), *(alias.name for alias in node.names)]
                if any(map(is_private, parts)):
                    yield node.lineno, ast.unparse(node)
            case ast.Import():
                for alias in node.names:
                    if is_foreign(alias.name) and any(map(is_private, alias.name.split("."))):
                        yield node.lineno, ast.unparse(node)
            case ast.Attribute(attr=name) if is_private(name) and is_foreign(source.origin(node)):
                yield node.lineno, ast.unparse(node)
            case ast.ClassDef():
                yield from _uses_in_class(node, _bases(sources, module, node.name))
            case _:
                pass


def _bases(sources: dict[str, Source], module: str, name: str) -> Iterator[type]:
    """List the classes of other packages that a class of `module` is derived from."""
    source = sources.get(module)
    if source is not None and name in source.classes:
        for base in source.classes[name].bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(base, ast.Name) and base.id in source.classes and base.id != name:
                yield from _bases(sources, module, base.id)
            else:
                origin, _, last = source.origin(base).rpartition(".")
                yield from _bases(sources, origin, last)
    elif source is not None and name in source.imported:
        origin, _, last = source.imported[name].rpartition(".")
        yield from _bases(sources, origin, last)
    elif is_foreign(module):
        found: object = resolve_name(f"{module}.{name}")
        if isinstance(found, type):
            yield found


def _uses_in_class(node: ast.ClassDef, bases: Iterator[type]) -> Iterator[tuple[int, str]]:
    ancestors = {ancestor for base in bases for ancestor in base.__mro__}
    foreign = [ancestor for ancestor in ancestors if is_foreign(ancestor.__module__)]
    known = {name for a in foreign for name in (*vars(a), *vars(a).get("__annotations__", ()))}
    private = {name for name in known if is_private(name)} - DOCUMENTED
    fields = {name for a in foreign for name in vars(a).get("__dataclass_fields__", ())}
    generated = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    if generated and any(map(is_private, fields)):
        yield node.lineno, f"the constructor of {node.name} depends on private fields"
    for part in ast.walk(node):
        match part:
            case ast.FunctionDef(name=name) if name in private:
                yield part.lineno, f"{node.name}.{name}"
            case ast.Name(id=name, ctx=ast.Store()) if name in private:
                yield part.lineno, f"{node.name}.{name}"
            case ast.Attribute(attr=name) if name in private and _is_self(part.value):
                yield part.lineno, ast.unparse(part)
            case _:
                pass


def _is_self(node: ast.expr) -> bool:
    return ast.unparse(node) in ("self", "cls", "super()")


@pytest.mark.slow
def test_no_private_name_is_used():
    sources: dict[str, Source] = {}
    for path in [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        sources[module.removesuffix(".__init__")] = Source(path.read_text(encoding="utf-8"))
    found = [
        f"{module}:{line}: {text}"
        for module in sources
        for line, text in private_uses(sources, module)
    ]
    assert not found, "\n".join(found)


HEADER = """
from dataclasses import dataclass
import numpy as np
from xdsl import interpreter
from xdsl.interpreter import Interpreter
from base import Ours
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from numpy._core import multiarray", ["from numpy._core import multiarray"]),
        ("from xdsl.irdl import _x", ["from xdsl.irdl import _x"]),
        ("import onnx._custom", ["import onnx._custom"]),
        ("np._core.x()", ["np._core"]),
        ("class A(Interpreter):\n  def _run_op(self): pass", ["A._run_op"]),
        ("class A(Interpreter):\n  _ctx = 3", ["A._ctx"]),
        ("class A(Interpreter):\n  def f(self): return self._ctx.x", ["self._ctx"]),
        ("class A(interpreter.Interpreter):\n  def f(self): self._impls = 1", ["self._impls"]),
        ("class A(Ours):\n  def f(self): super()._run_op()", ["super()._run_op"]),
        (
            "@dataclass\nclass A(Interpreter):\n  x: int = 0",
            ["the constructor of A depends on private fields"],
        ),
        ("from __future__ import annotations", []),
        ("class A(Interpreter):\n  def _x(self): return self._x() + self.__class__", []),
        ("class A:\n  def _run_op(self): return self._ctx", []),
        ("class A(interpreter.InterpreterFunctions):\n  def f(self): return self._ctx", []),
        ("def _run_op(a): return a._ctx", []),
    ],
)
def test_the_rules(text: str, found: list[str]):
    sources = {
        "base": Source("from xdsl.interpreter import Interpreter\nclass Ours(Interpreter): pass"),
        "here": Source(HEADER + text),
    }
    assert [use for _, use in private_uses(sources, "here")] == found
