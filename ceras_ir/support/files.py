"""Lock files between processes, run Python files of the user, and parse TOML files."""

import fcntl
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from ceras_ir.support.diagnostics import InputError


@contextmanager
def locked(path: Path) -> Generator[None]:
    """
    Hold the lock at `path`, a file that is created and removed, or raise an `OSError`. The system
    frees the lock when the process terminates.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        # The previous holder removed the file, and another process may have created a new file.
        with suppress(FileNotFoundError):
            if os.fstat(handle).st_ino == path.stat().st_ino:
                break
        os.close(handle)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def parse_toml(text: str, file: str):  # As untyped as TOML is.
    """Return the tables in `text`; raise an `InputError` for `file` if it is not TOML."""
    # Most commands read no TOML and do not load the parser.
    import tomllib

    try:
        return tomllib.loads(text)
    # An integer of thousands of digits is a plain ValueError.
    except ValueError as error:
        raise InputError(f"not TOML: {error}", file) from None
    except RecursionError:
        raise InputError("unsupported TOML: nested too deeply", file) from None


class _SourceLoader(SourceFileLoader):
    # Compiles the source each time, so that no cache is written and no stale code is run.
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def run_file(name: str, path: str) -> ModuleType:
    """Run the file at `path` as the module `name`; exceptions of the file are not caught."""
    spec = spec_from_file_location(name, path, loader=_SourceLoader(name, path))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
