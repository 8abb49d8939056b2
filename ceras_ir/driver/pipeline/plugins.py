"""
Passes and dialects from a Python file that is not installed: the researcher's short way in.

Every `ModulePass` with a name, and every `Dialect`, that the file itself defines is taken. An
error while the file is loaded is reported by its line; one while a pass runs keeps its
traceback, because that is what its author needs to see.
"""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from ceras_ir.command.exit_status import Diagnostic, SourceError
from ceras_ir.support.diagnostics import InputError, UsageError

LOADED = list[str]()
"""Options of a command line that loads the same plugins as this one, for reproducers."""


def load_plugins(universe: Universe, pass_files: list[str], dialect_files: list[str]) -> Universe:
    """`universe` with what the files define added to it."""
    passes = dict(universe.all_passes)
    dialects = dict(universe.all_dialects)
    LOADED[:] = (
        f"--load-{what}-plugin={os.path.abspath(path)}"
        for what, paths in (("pass", pass_files), ("dialect", dialect_files))
        for path in paths
    )
    for path in dialect_files:
        found = dialects_in(_load(path))
        if not found:
            raise InputError("defines no xdsl.ir.Dialect", path)
        for dialect in found:
            if dialect.name in dialects:
                raise UsageError(f"{path}: there already is a dialect named '{dialect.name}'")
            dialects[dialect.name] = lambda dialect=dialect: dialect
    for path in pass_files:
        classes = passes_in(_load(path))
        if not classes:
            raise InputError("defines no subclass of xdsl.passes.ModulePass", path)
        for cls in classes:
            if cls.name in passes:
                raise UsageError(f"{path}: there already is a pass named '{cls.name}'")
            passes[cls.name] = lambda cls=cls: cls
    return Universe(
        all_dialects=dialects, all_passes=passes, all_targets=dict(universe.all_targets)
    )


def passes_in(module: ModuleType) -> list[type[ModulePass]]:
    """The passes that `module` defines, in its order."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ModulePass)
        and value.__module__ == module.__name__
        and isinstance(getattr(value, "name", None), str)
    ]


def dialects_in(module: ModuleType) -> list[Dialect]:
    """The dialects that `module` defines or imports under a name of its own, in its order."""
    return [value for value in vars(module).values() if isinstance(value, Dialect)]


def _load(path: str) -> ModuleType:
    """Run the file at `path` as a module; a file given twice is loaded once."""
    absolute = os.path.abspath(path)
    name = f"ceras_plugin_{Path(path).stem}"
    if (loaded := sys.modules.get(name)) is not None and loaded.__file__ == absolute:
        return loaded
    with open(path, "rb"):  # a missing file is an OSError with its name
        spec = spec_from_file_location(name, absolute)
    if spec is None or spec.loader is None:
        raise InputError("is not a Python file (its name must end in .py)", path)
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        message = f"{type(error).__name__}: {error.msg}"
        raise SourceError([Diagnostic(message, path, error.lineno)]) from None
    # Whatever a user's file raises is the user's: name the line of it that did.
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise SourceError([Diagnostic(message, path, _line_in(absolute, error))]) from None
    return module


def _line_in(path: str, error: Exception) -> int | None:
    """The innermost line of `path` in the traceback of `error`."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
