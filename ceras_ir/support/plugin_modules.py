"""
Import Python files of the user, which can consist of several files, without a change of `sys.path`.

A plugin is a file, or a folder with `__init__.py`. The folder that contains the plugin is the path
of a package with a unique name, and the plugin is a module of this package. An absolute import in
such a module, `import helper`, is searched in this folder first, by the function `__import__` of
the module. No other module imports these files: plugins in different folders can have files of the
same name, and a file named `json.py` replaces neither the standard library nor an import of the
compiler.
"""

import builtins
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module, invalidate_caches
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from ceras_ir.support.digests import sha256
from ceras_ir.support.extensions import required_packages

INIT = "__init__.py"

PLUGIN_PREFIX = "ceras_plugin_"


@cache
def reserved_modules() -> frozenset[str]:
    """
    Return the names of modules that a file next to a plugin never replaces: modules of the standard
    library, of this package and of the required packages.
    """
    return frozenset({*sys.stdlib_module_names, "ceras_ir", *required_packages()})


_FOLDERS: dict[str, str] = {}
"""The folder of each package of plugins."""

_FILES: dict[str, str] = {}
"""The file of each module that was loaded as a plugin."""


def load_plugin(path: str) -> ModuleType:
    """
    Return the module of the plugin at `path`, a file or a folder. Exceptions of the plugin are not
    caught, except that `sys.exit` becomes an `ImportError`. A plugin is run a single time in each
    process.
    """
    place = Path(os.path.abspath(path))
    if place.name == INIT:
        place = place.parent
    file = place / INIT if place.is_dir() else place
    names, folder = [place.name.removesuffix(".py").replace(".", "_")], place.parent
    while folder.name.isidentifier() and (folder / INIT).is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    root = PLUGIN_PREFIX + sha256(os.fsencode(folder)).hex()[:12]
    name = ".".join([root, *names])
    if name not in sys.modules:
        _FOLDERS[root], _FILES[name] = str(folder), str(file)
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        invalidate_caches()
    try:
        return import_module(name)
    except SystemExit as error:
        message = f"the plugin calls sys.exit({error.code!r}) when it is loaded"
        raise ImportError(message).with_traceback(error.__traceback__) from None


def plugin_of(module: str) -> str | None:
    """
    Return the name of the generated package that contains the modules of a plugin, if `module` is
    in one; `None` for any other module.
    """
    root = module.partition(".")[0]
    return root if root in _FOLDERS else None


def line_in_plugin(error: BaseException) -> tuple[str, int] | None:
    """
    Return the file and the line of the innermost code of a plugin in the traceback of `error`;
    `None` if no plugin was running.
    """
    found: tuple[str, int] | None = None
    trace = error.__traceback__
    while trace is not None:
        if plugin_of(str(trace.tb_frame.f_globals.get("__name__"))) is not None:
            found = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return found


def plain(text: str) -> str:
    """
    Return `text`, such as an error message, without the prefix that this module adds to the names
    of modules of plugins.
    """
    for root in _FOLDERS:
        text = text.replace(f"{root}.", "").replace(root, ".")
    return text


def qualified(reference: str, user: type) -> str:
    """
    Return `reference`, written `module:attribute`, with a module name that `import_module` accepts.
    If class `user` is in a plugin and the module is a file of the plugin, the prefix of the plugin
    is added. Other references are returned unchanged.
    """
    home = _home(reference.partition(":")[0].partition(".")[0], user.__module__.rpartition(".")[0])
    return reference if home is None else f"{home}.{reference}"


def _home(head: str, package: str) -> str | None:
    """
    Return the prefix under which `import head` in a module of `package` finds a file of the same
    plugin. Return `None` if `package` is in no plugin, or if `head` is another module.
    """
    root = plugin_of(package)
    if root is None or head in reserved_modules():
        return None
    sibling, usual = find_spec(f"{root}.{head}"), _usual_spec(head)
    if sibling is not None and sibling.origin is not None:
        # A plugin can be a part of an installed package.
        return root if usual is None or usual.origin != sibling.origin else None
    if usual is not None:
        return None
    # A file next to a module of a package, or a folder without `__init__.py`.
    return next((home for home in (package, root) if find_spec(f"{home}.{head}")), None)


def _usual_spec(head: str) -> ModuleSpec | None:
    try:
        return find_spec(head)
    except ValueError:
        return None  # A module that a program created has no spec.


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """
    Import like `__import__`, which it replaces in modules of plugins, but search the folder of the
    plugin first.
    """
    head = name.partition(".")[0]
    package = None if globals is None or level else globals.get("__package__")
    home = _home(head, package) if isinstance(package, str) else None
    if home is None:
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    if fromlist:
        return builtins.__import__(f"{home}.{name}", globals, locals, fromlist, 0)
    import_module(f"{home}.{name}")
    return sys.modules[f"{home}.{head}"]


class _PluginLoader(SourceFileLoader):
    # Compiles the source each time, so that no cache is written and no stale code is run.
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": _import}
        super().exec_module(module)


class _FolderLoader(_PluginLoader):
    # The package of plugins: no code, but files such as boards.
    def exec_module(self, module: ModuleType) -> None:
        pass


class _PluginFinder(MetaPathFinder):
    """Find the modules of plugins; import statements of other modules never have such a name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if (root := plugin_of(fullname)) is None:
            return None
        if fullname == root:
            file, loader = os.path.join(_FOLDERS[root], INIT), _FolderLoader
        elif (file := _FILES.get(fullname)) is not None:
            loader = _PluginLoader
        else:
            spec = PathFinder.find_spec(fullname, path)
            if spec is not None and isinstance(spec.loader, SourceFileLoader):
                spec.loader = _PluginLoader(fullname, spec.loader.path)
            return spec
        # The folder of a package is the path that its modules are searched on.
        return spec_from_file_location(fullname, file, loader=loader(fullname, file))


_FINDER = _PluginFinder()
