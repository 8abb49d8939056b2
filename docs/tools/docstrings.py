"""Docstrings, those under fields and enumeration members included, as Markdown."""

import ast
import inspect
import re
from functools import cache
from itertools import pairwise
from types import ModuleType


def markdown(doc: str | None) -> str:
    """A docstring as Markdown: a paragraph that is nothing but code becomes a block of it."""
    paragraphs = inspect.cleandoc(doc or "").split("\n\n")
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    if len(text) <= 40 or not re.fullmatch(r"`[^`]+`(\n`[^`]+`)*", text):
        return text
    return "```\n" + text.replace("`", "") + "\n```"


def sentence(doc: str) -> str:
    """A docstring on one line."""
    return " ".join(doc.split())


@cache
def field_docs(cls: type) -> dict[str, str]:
    """The string under each assignment in the body of `cls` and its bases, on one line."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("ceras_ir"):
            found |= _documented(_class_body(base))
    return found


def _class_body(cls: type) -> list[ast.stmt]:
    module = inspect.getmodule(cls)
    assert module is not None
    return next(
        node.body
        for node in ast.walk(_parsed(module))
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    )


@cache
def _parsed(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _documented(body: list[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement, following in pairwise(body):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = sentence(text)
            case _:
                pass
    return found
