"""
Collect the dialects, passes and targets of each command: from xDSL, this package, and plugins.

A dialect is imported when its first operation is parsed. Installed plugins are searched when text
is parsed, because only text can contain their operations.

Passes, dialects and targets can also be defined in Python files that are not installed, or in a
folder with `__init__.py`. Each `ModulePass` with a name, each `Dialect` and each `Target` that the
file or the modules of the folder define is added; with a dialect also the `InterpreterFunctions`.
An error while a file is loaded is reported with the line. An error while a pass runs has a
traceback, which the author of the pass needs.
"""

import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TypeVar

from xdsl.context import Context
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe

from ceras_ir.command.exit_status import Diagnostic, SourceError, excerpt
from ceras_ir.command.tool_parser import ArgumentContainer, UsageParser
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.plugin_modules import INIT, line_in_plugin, load_plugin, plain
from ceras_ir.support.user_files import regular
from ceras_ir.targets.capabilities import Accelerator
from ceras_ir.targets.definitions import Contract
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import with_targets
from ceras_ir.universe import CERAS_UNIVERSE, universe_of

_CURRENT: ContextVar[Universe | None] = ContextVar("universe", default=None)


def load_universe() -> Universe:
    """
    Return the table of all dialects, passes and targets, both installed and from loaded plugin
    files.
    """
    return _CURRENT.get() or Universe.get_multiverse()


@contextmanager
def with_universe(universe: Universe) -> Generator[None]:
    """Let `load_universe` return `universe` inside the `with` block."""
    token = _CURRENT.set(universe)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def load_context(universe: Universe | None = None, *, allow_unregistered: bool = False) -> Context:
    """
    Return a context in which each dialect of `universe` can be parsed. By default these are the
    dialects of xDSL, of this package and of loaded plugin files.
    """
    ctx = Context(allow_unregistered=allow_unregistered)
    found = universe or _CURRENT.get()
    for some in (XDSL_UNIVERSE, CERAS_UNIVERSE) if found is None else (found,):
        for name, factory in some.all_dialects.items():
            ctx.register_dialect(name, factory)
    return ctx


PLUGIN_KINDS = ("pass", "dialect", "target")

CONTRACTS = (
    Contract(ModulePass, "docs/new-pass.md", ("name",)),
    Contract(Target, attributes=("name",)),
    Contract(Accelerator),
)

T = TypeVar("T")

LOADED_PLUGINS: ContextVar[list[str] | None] = ContextVar("loaded_plugins", default=None)
"""The options that load the same plugins as this command line, for reproducers and workers."""


def add_plugins(group: ArgumentContainer) -> None:
    """
    Add the options `--load-pass-plugin`, `--load-dialect-plugin` and `--load-target-plugin`, which
    name plugin files, to a command.
    """
    for kind in PLUGIN_KINDS:
        group.add_argument(
            f"--load-{kind}-plugin",
            action="append",
            default=[],
            metavar="F.py",
            help=f"add each {kind} of a Python file, or of a package folder; may be repeated",
        )


@dataclass(frozen=True)
class PluginFiles:
    """
    The plugin files that a command line names, by the kind of definition that is loaded from them.
    """

    passes: list[str]
    dialects: list[str]
    targets: list[str]

    @classmethod
    def of(cls, argv: Sequence[str]) -> "PluginFiles":
        """
        Find the plugin files in the arguments `argv`. Other options are ignored, because they are
        parsed only after the plugins have added theirs.
        """
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
    """
    Load the plugin files that `argv` names, and make their passes, dialects and targets available
    inside the `with` block.
    """
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


def plugin_loader() -> Callable[[], None] | None:
    """
    Return a function that loads the same plugins in a worker process, or `None` if none are loaded.
    """
    options = LOADED_PLUGINS.get()
    return partial(_load_for_good, tuple(options)) if options else None


_UNTIL_EXIT = ExitStack()


def _load_for_good(options: Sequence[str]) -> None:
    _UNTIL_EXIT.enter_context(plugins(options))


def _universe(universe: Universe, files: PluginFiles) -> Universe:
    passes, dialects = dict(universe.all_passes), dict(universe.all_dialects)
    texts = dict(universe.all_targets)
    loaded: dict[str, Dialect] = {}
    for path in files.dialects:
        module = _load(path)
        found = dialects_in(module)
        if not found:
            raise InputError("defines no xdsl.ir.Dialect", path)
        for dialect in found:
            if (earlier := loaded.get(dialect.name)) is not None:
                dialect = _joined(earlier, dialect, path)
                del dialects[dialect.name]
            loaded[dialect.name] = dialect
            _add(dialects, {dialect.name: lambda d=dialect: d}, "dialect", path)
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


def _joined(first: Dialect, second: Dialect, path: str) -> Dialect:
    """
    Return a dialect with the operations and attributes of `first` and `second`, which have the same
    name and come from two plugins. `path` is the plugin of `second`. A name in both is an error.
    """
    parts = [[*d.operations, *d.attributes] for d in (first, second)]
    names = {member.name for member in parts[0]}
    for member in parts[1]:
        if member.name in names and member not in parts[0]:
            raise UsageError(f"{path}: '{member.name}' already exists: rename it")
    operations = dict.fromkeys([*first.operations, *second.operations])
    attributes = dict.fromkeys([*first.attributes, *second.attributes])
    return Dialect(first.name, [*operations], [*attributes])


def _register_meaning(dialect: Dialect, module: ModuleType) -> None:
    # Most commands load no plugin, and importing the interpreter takes time.
    from xdsl.interpreter import InterpreterFunctions

    from ceras_ir.interpreters.registry import register

    for functions in _defined_in(module, InterpreterFunctions):
        register(dialect.name, functions)


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
"""The names that pipelines and IR text can contain."""


def _add(
    table: dict[str, Callable[[], T]], found: dict[str, Callable[[], T]], kind: str, path: str
) -> None:
    for name, factory in found.items():
        if not NAME.fullmatch(name):
            raise InputError(
                f"a {kind} is named {name!r}: use letters, digits, '-', '_' and '.' only", path
            )
        if name in table:
            raise UsageError(f"{path}: a {kind} named '{name}' already exists: rename it")
        table[name] = factory


def _named_in(module: ModuleType, base: type[T]) -> list[type[T]]:
    return [c for c in _defined_in(module, base) if isinstance(getattr(c, "name", None), str)]


def _defined_in(module: ModuleType, base: type[T]) -> list[type[T]]:
    values = vars(module).values()
    classes = [v for v in values if isinstance(v, type) and issubclass(v, base)]
    # The `__init__.py` of a folder imports classes that other files of the folder define.
    inside = f"{module.__name__}."
    return [c for c in classes if f"{c.__module__}.".startswith(inside)]


def dialects_in(module: ModuleType) -> list[Dialect]:
    """Return the dialects that `module` defines or imports, in order."""
    return [value for value in vars(module).values() if isinstance(value, Dialect)]


def _load(path: str) -> ModuleType:
    if not os.path.isdir(path):
        regular(path)  # A missing file is an OSError with the name of the file.
        if not path.endswith(".py"):
            raise InputError("is not a Python file (its name must end in .py)", path)
    elif not os.path.isfile(os.path.join(path, INIT)):
        raise InputError(f"has no {INIT}: add it, or name a Python file of the folder", path)
    try:
        module = load_plugin(path)
    except SyntaxError as error:
        raise SourceError([_syntax_diagnostic(error, path)]) from None
    # Any error here is an error in a file of the user.
    except Exception as error:
        raise SourceError([_diagnostic(error, path)]) from None
    shown = partial(_shown, path=path)
    found = [(contract, _defined_in(module, contract.base)) for contract in CONTRACTS]
    if defects := [x for each, classes in found for c in classes for x in each.defects(c, shown)]:
        raise SourceError(defects)
    return module


def _syntax_diagnostic(error: SyntaxError, path: str) -> Diagnostic:
    """Return `error` at the line and column in a file of the plugin at `path`."""
    place, column = _shown(error.filename or path, path), error.offset or 1
    message = f"{type(error).__name__}: {error.msg}"
    # A file that is not UTF-8 has no text. The end of the range may be on another line, or missing.
    line = (error.text or "").rstrip("\r\n")
    is_one_line = error.end_lineno == error.lineno and error.end_offset
    end = error.end_offset if is_one_line else column + 1
    source = excerpt(line, column - 1, (end or 0) - 1)
    return Diagnostic(message, place, error.lineno, column, source)


def _diagnostic(error: Exception, path: str) -> Diagnostic:
    """Return `error` at the innermost line of the plugin at `path`."""
    message = plain(f"{type(error).__name__}: {error}")
    file, line = line_in_plugin(error) or (path, None)
    return Diagnostic(message, _shown(file, path), line)


def _shown(file: str, path: str) -> str:
    """
    Return the name of `file` for messages: relative, if `path` (the plugin file or folder) is
    relative.
    """
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return os.path.join(folder, os.path.relpath(file, folder or os.curdir))
