"""Read docstrings that help pages and messages print; `python -OO` removes them from the code."""

import ast
import inspect
import sys
from collections.abc import Callable
from textwrap import dedent
from types import ModuleType


def docstring(described: type | Callable[..., object] | ModuleType) -> str:
    """
    Return the docstring of a class, function or module without indentation, or "" without one.

    A docstring that the code assigns is returned too. Base classes are not searched.
    """
    written = _written(described) if sys.flags.optimize > 1 else None
    return written or inspect.cleandoc(described.__doc__ or "")


def _written(described: type | Callable[..., object] | ModuleType) -> str | None:
    """Read the docstring from the source file; None if there is no file or no docstring."""
    try:
        tree = ast.parse(dedent(inspect.getsource(described)))
    except (OSError, TypeError):  # Built in, or entered in an interactive session.
        return None
    found = tree if isinstance(described, ModuleType) else tree.body[0]
    is_documented = isinstance(found, ast.Module | ast.ClassDef | ast.FunctionDef)
    return ast.get_docstring(found) if is_documented else None
