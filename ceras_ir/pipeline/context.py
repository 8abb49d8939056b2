"""
Collect the dialects, passes and targets of each command: from xDSL, this package, and plugins.

A dialect is imported when its first operation is parsed. Installed plugins are searched when text
is parsed, because only text can contain their operations.

Passes, dialects and targets can also be defined in Python files that are not installed. Each
`ModulePass` with a name, each `Dialect` and each `Target` that a file defines is added; with a
dialect also the `InterpreterFunctions` of the file. An error while the file is loaded is reported
with the line. An error while a pass runs has a traceback, which the author of the pass needs.
"""

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from xdsl.context import Context
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe

from ceras_ir.command.exit_status import Diagnostic, SourceError
from ceras_ir.command.tool_parser import ArgumentContainer, UsageParser
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.files import run_file
from ceras_ir.targets.protocol import Target, with_targets
from ceras_ir.universe import CERAS_UNIVERSE, universe_of

_CURRENT: ContextVar[Universe | None] = ContextVar("universe", default=None)


def load_universe() -> Universe:
    """Return all dialects, passes and targets, installed (`xdsl.universe`) and loaded."""
    return _CURRENT.get() or Universe.get_multiverse()


@contextmanager
def with_universe(universe: Universe) -> Generator[None]:
    """Use `universe` inside the block."""
    token = _CURRENT.set(universe)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def load_context(universe: Universe | None = None, *, allow_unregistered: bool = False) -> Context:
    """
    Return a context in which each dialect of `universe` can be parsed; by default xDSL's dialects,
    ours and those of loaded plugin files.
    """
    ctx = Context(allow_unregistered=allow_unregistered)
    found = universe or _CURRENT.get()
    for some in (XDSL_UNIVERSE, CERAS_UNIVERSE) if found is None else (found,):
        for name, factory in some.all_dialects.items():
            ctx.register_dialect(name, factory)
    return ctx


PLUGIN_KINDS = ("pass", "dialect", "target")

T = TypeVar("T")

LOADED_PLUGINS: ContextVar[list[str] | None] = ContextVar("loaded_plugins", default=None)
"""The options that load the same plugins as this command line, for reproducers."""


def add_plugins(group: ArgumentContainer) -> None:
    """Add the options that name plugin files."""
    for kind in PLUGIN_KINDS:
        group.add_argument(
            f"--load-{kind}-plugin",
            action="append",
            default=[],
            metavar="F.py",
            help=f"add each {kind} that the Python file defines; may be repeated",
        )


@dataclass(frozen=True)
class PluginFiles:
    """The files that a command line names, by the kind of definition that is loaded."""

    passes: list[str]
    dialects: list[str]
    targets: list[str]

    @classmethod
    def of(cls, argv: Sequence[str]) -> "PluginFiles":
        """Find the files in `argv`, before the other options are parsed."""
        parser = UsageParser(add_help=False, allow_abbrev=False)
        add_plugins(parser)
        found, _ = parser.parse_known_args(argv)
        return cls(*(getattr(found, f"load_{kind}_plugin") for kind in PLUGIN_KINDS))

    def options(self) -> list[str]:
        """Return the options that name these files by absolute paths."""
        named = zip(PLUGIN_KINDS, (self.passes, self.dialects, self.targets), strict=True)
        return [
            f"--load-{kind}-plugin={os.path.abspath(path)}"
            for kind, paths in named
            for path in paths
        ]


@contextmanager
def plugins(argv: Sequence[str]) -> Generator[None]:
    """Make the definitions in plugin files of `argv` available inside the block."""
    files = PluginFiles.of(argv)
    if not (files.passes or files.dialects or files.targets):
        yield
        return
    targets = [cls for path in files.targets for cls in _named_in(_load(path), Target)]
    with with_targets(targets), with_universe(_universe(load_universe(), files)):
        token = LOADED_PLUGINS.set(files.options())
        try:
            yield
        finally:
            LOADED_PLUGINS.reset(token)


def _universe(universe: Universe, files: PluginFiles) -> Universe:
    passes, dialects = dict(universe.all_passes), dict(universe.all_dialects)
    texts = dict(universe.all_targets)
    for path in files.dialects:
        module = _load(path)
        found = dialects_in(module)
        if not found:
            raise InputError("defines no xdsl.ir.Dialect", path)
        _add(dialects, {d.name: lambda d=d: d for d in found}, "dialect", path)
        for dialect in found:
            _register_meaning(dialect, module)
    for path in files.passes:
        classes = _named_in(_load(path), ModulePass)
        if not classes:
            raise InputError("defines no subclass of xdsl.passes.ModulePass", path)
        _add(passes, {cls.name: lambda cls=cls: cls for cls in classes}, "pass", path)
    for path in files.targets:
        module = _load(path)
        targets = _named_in(module, Target)
        if not targets:
            raise InputError("defines no subclass of ceras_ir.targets.Target", path)
        for brought in map(universe_of, targets):
            _add(passes, brought.all_passes, "pass", path)
            _add(dialects, brought.all_dialects, "dialect", path)
            _add(texts, brought.all_targets, "text target", path)
        own = {cls.name: lambda cls=cls: cls for cls in _named_in(module, ModulePass)}
        _add(passes, {k: v for k, v in own.items() if k not in passes}, "pass", path)
    return Universe(all_dialects=dialects, all_passes=passes, all_targets=texts)


def _register_meaning(dialect: Dialect, module: ModuleType) -> None:
    # Most commands load no plugin, and importing the interpreter takes time.
    from xdsl.interpreter import InterpreterFunctions

    from ceras_ir.interpreters.registry import register

    for functions in _defined_in(module, InterpreterFunctions):
        register(dialect.name, functions)


def _add(
    table: dict[str, Callable[[], T]], found: dict[str, Callable[[], T]], kind: str, path: str
) -> None:
    for name, factory in found.items():
        if name in table:
            raise UsageError(f"{path}: a {kind} named '{name}' already exists: rename it")
        table[name] = factory


def _named_in(module: ModuleType, base: type[T]) -> list[type[T]]:
    return [c for c in _defined_in(module, base) if isinstance(getattr(c, "name", None), str)]


def _defined_in(module: ModuleType, base: type[T]) -> list[type[T]]:
    values = vars(module).values()
    classes = [v for v in values if isinstance(v, type) and issubclass(v, base)]
    return [cls for cls in classes if cls.__module__ == module.__name__]


def dialects_in(module: ModuleType) -> list[Dialect]:
    """Return the dialects that `module` defines or imports, in order."""
    return [value for value in vars(module).values() if isinstance(value, Dialect)]


def _load(path: str) -> ModuleType:
    absolute = os.path.abspath(path)
    name = _module_name(Path(absolute))
    if (loaded := sys.modules.get(name)) is not None and loaded.__file__ == absolute:
        return loaded
    with open(path, "rb"):
        pass  # A missing file is an OSError with the name of the file.
    if not path.endswith(".py"):
        raise InputError("is not a Python file (its name must end in .py)", path)
    try:
        return run_file(name, absolute)
    except SyntaxError as error:
        message = f"{type(error).__name__}: {error.msg}"
        raise SourceError([Diagnostic(message, path, error.lineno)]) from None
    # Any error here is an error in the file of the user.
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise SourceError([Diagnostic(message, path, _line_in(absolute, error))]) from None


def _module_name(path: Path) -> str:
    """Return the module name of the file at `path`, qualified inside a package for its imports."""
    name, folder = path.stem, path.parent
    while (folder / "__init__.py").exists():
        name, folder = f"{folder.name}.{name}", folder.parent
    if folder == path.parent:
        return f"ceras_plugin_{name}"
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return name


def _line_in(path: str, error: Exception) -> int | None:
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
