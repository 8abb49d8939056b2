"""Read the strings that document the fields of a class: those under its assignments."""

import ast
import inspect
import sys
from functools import cache
from inspect import get_annotations
from itertools import pairwise, takewhile
from types import ModuleType


@cache
def field_docs(cls: type) -> dict[str, str]:
    """Map names to the string under each assignment in the body of `cls` and its bases."""
    return {name: " ".join(texts) for name, texts in field_paragraphs(cls).items()}


@cache
def field_paragraphs(cls: type) -> dict[str, list[str]]:
    """The same, by paragraph; a paragraph is a single line."""
    found: dict[str, list[str]] = {}
    for base in reversed(cls.__mro__):
        found |= _documented(_class_body(base))
    return found


def _class_body(cls: type) -> list[ast.stmt]:
    module = sys.modules.get(cls.__module__)
    has_names = any(not name.startswith("__") for name in (*vars(cls), *get_annotations(cls)))
    if module is None or not has_names:
        return []
    try:
        source = _source(module)
    except (OSError, TypeError):  # Built in, or typed into an interpreter: no source to read.
        return []
    classes = (n for n in ast.walk(_parsed(source, cls.__name__)) if isinstance(n, ast.ClassDef))
    return next((node.body for node in classes if node.name == cls.__name__), list[ast.stmt]())


def _parsed(source: str, name: str) -> ast.Module:
    """The class `name` at the top level of a module, which is quick to parse, or the module."""
    _, body, rest = source.partition(f"\nclass {name}(")
    if not body:
        _, body, rest = source.partition(f"\nclass {name}:")
    if body and body not in rest:
        # The class ends before the next line without indentation that is not a parenthesis.
        first, *lines = rest.split("\n")
        inside = takewhile(lambda line: line[:1] in ("", " ", ")"), lines)
        try:
            return ast.parse("\n".join([body + first, *inside]))
        except SyntaxError:  # A string in the class has lines without indentation.
            pass
    return ast.parse(source)


@cache
def _source(module: ModuleType) -> str:
    return inspect.getsource(module)


def _documented(body: list[ast.stmt]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for statement, following in pairwise(body):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                paragraphs = inspect.cleandoc(text).split("\n\n")
                found[name] = [" ".join(each.split()) for each in paragraphs]
            case _:
                pass
    return found
