"""
Files that a user wrote: Python code to run, and TOML descriptions of boards and machines.
"""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import CodeType, ModuleType

from ceras_ir.support.diagnostics import InputError


def parse_toml(text: str, file: str):  # As untyped as TOML is.
    """The tables in `text`; `file` is named where it is not TOML."""
    # Commands that read no description do without the parser.
    import tomllib

    try:
        return tomllib.loads(text)
    # An integer of thousands of digits is a plain ValueError.
    except ValueError as error:
        raise InputError(f"not TOML: {error}", file) from None
    except RecursionError:
        raise InputError("not TOML that is taken: nested too deeply", file) from None


class _SourceLoader(SourceFileLoader):
    """Compiles the source each time: nothing is written beside it, and nothing stale is run."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def run_file(name: str, path: str) -> ModuleType:
    """The file at `path`, run as the module `name`; what it raises is raised."""
    spec = spec_from_file_location(name, path, loader=_SourceLoader(name, path))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
