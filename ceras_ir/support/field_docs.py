"""Read the strings that document the fields of a class: those under its assignments."""

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from types import ModuleType


@cache
def field_docs(cls: type) -> dict[str, str]:
    """Map names to the string under each assignment in the body of `cls` and its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= _documented(_class_body(base))
    return found


def _class_body(cls: type) -> list[ast.stmt]:
    module = sys.modules.get(cls.__module__)
    if module is None:
        return []
    classes = (n for n in ast.walk(_parsed(module)) if isinstance(n, ast.ClassDef))
    return next((node.body for node in classes if node.name == cls.__name__), list[ast.stmt]())


@cache
def _parsed(module: ModuleType) -> ast.Module:
    try:
        return ast.parse(inspect.getsource(module))
    except (OSError, TypeError):  # Built in, or typed into an interpreter: no source to read.
        return ast.Module([], [])


def _documented(body: list[ast.stmt]) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement, following in pairwise(body):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found
