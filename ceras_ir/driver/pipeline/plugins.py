"""
Passes and dialects from a Python file that is not installed: the researcher's short way in.

Every `ModulePass` with a name, and every `Dialect`, that the file itself defines is taken; with a
dialect also what its operations mean, the file's `InterpreterFunctions`. An error while the file
is loaded is reported by its line; one while a pass runs keeps its traceback, because that is what
its author needs to see.
"""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe

from ceras_ir.command.exit_status import Diagnostic, SourceError
from ceras_ir.support.diagnostics import InputError, UsageError

ClassT = TypeVar("ClassT")


def load_plugins(universe: Universe, pass_files: list[str], dialect_files: list[str]) -> Universe:
    """`universe` with what the files define added to it."""
    passes = dict(universe.all_passes)
    dialects = dict(universe.all_dialects)
    for path in dialect_files:
        module = _load(path)
        found = dialects_in(module)
        if not found:
            raise InputError("defines no xdsl.ir.Dialect", path)
        for dialect in found:
            if dialect.name in dialects:
                raise UsageError(f"{path}: there already is a dialect named '{dialect.name}'")
            dialects[dialect.name] = lambda dialect=dialect: dialect
            _register_meaning(dialect, module)
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


def _register_meaning(dialect: Dialect, module: ModuleType) -> None:
    """Have the interpreter take what the module of a dialect says of its operations."""
    # Most commands load no plugin, and the interpreter takes a while to load.
    from xdsl.interpreter import InterpreterFunctions

    from ceras_ir.interpreters.registry import register

    for functions in _defined_in(module, InterpreterFunctions):
        register(dialect.name, functions)


def passes_in(module: ModuleType) -> list[type[ModulePass]]:
    """The passes that `module` defines, in its order."""
    defined = _defined_in(module, ModulePass)
    return [cls for cls in defined if isinstance(getattr(cls, "name", None), str)]


def dialects_in(module: ModuleType) -> list[Dialect]:
    """The dialects that `module` defines or imports under a name of its own, in its order."""
    return [value for value in vars(module).values() if isinstance(value, Dialect)]


def _defined_in(module: ModuleType, base: type[ClassT]) -> list[type[ClassT]]:
    """The subclasses of `base` that `module` itself defines, in its order."""
    values = vars(module).values()
    classes = [v for v in values if isinstance(v, type) and issubclass(v, base)]
    return [cls for cls in classes if cls.__module__ == module.__name__]


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
