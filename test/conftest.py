"""
Define fixtures for all tests: the commands as a user runs them, and a cache of compiled C.

With `--forked`, the fixture `tool` runs a command in a fork of a process that has imported all
modules (`lit/fork_server.py`), which saves the start-up time. `make test` starts the commands
in some cases of lit.
"""

import gc
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import fork_server
import pytest
import reference_imports
import sampled_cases
from core import COMMANDS, EXTENSIONS, ROOT
from hypothesis import HealthCheck, settings

from ceras_ir.backends.c import runner
from ceras_ir.backends.c.names import Prefix

WEEK_SECONDS = 7 * 24 * 3600

# Garbage collection of large graphs is rare, and objects that pytest collected remain.
gc.set_threshold(100_000, 50, 100)
# On a busy machine, a draw or a case may need seconds.
settings.register_profile("ceras", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("ceras")
# nohup ignores the first signal in its commands, and a shell the second in background jobs; the
# commands of the tests would inherit this.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forked", action="store_true", help="fork commands, do not start them")
    parser.addoption("--all-cases", action="store_true", help="run all cases of sampled tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases of tests with the marker `sample`, unless an argument names a case."""
    is_named = any("[" in argument for argument in config.args)
    if not is_named and not config.getoption("--all-cases"):
        items[:], left_out = sampled_cases.reduce(items)
        config.hook.pytest_deselected(items=left_out)


@cache
def _missing_extensions() -> set[str]:
    """Return the extensions that were deleted, as `core.py` does."""
    return {name for name, (folder, *_) in EXTENSIONS.items() if not (ROOT / folder).exists()}


def _words(value: object) -> Iterator[str]:
    """List the words of the texts in a parameter; for a command, the name of its extension."""
    if isinstance(value, str):
        for word in map(str, re.findall(r"[\w-]+", value)):
            yield COMMANDS.get(word, word)
    elif isinstance(value, list | tuple):
        for each in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _words(each)  # pyright: ignore[reportUnknownArgumentType]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a deleted extension: by the marker `needs`, or by a parameter."""
    needed = {name for mark in item.iter_markers("needs") for name in mark.args}
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        needed |= set(_words([*item.callspec.params.values()]))
    if missing := sorted(_missing_extensions() & needed):
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.fixture(scope="session", autouse=True)
def compiled_once(request: pytest.FixtureRequest, compiler_version: str) -> Iterator[None]:
    """Reuse libraries of the same C, flags and compiler, in later runs too."""
    build = runner.build_library
    cache = request.config.cache
    assert cache is not None
    folder = cache.mkdir("compiled")
    for old in folder.iterdir():
        # Another worker may have compiled it in the meantime.
        with suppress(FileNotFoundError):
            if old.stat().st_mtime < time.time() - WEEK_SECONDS:
                old.unlink()

    def cached(
        source: Path,
        library: Path,
        prefix: Prefix,
        *,
        trace: bool = False,
        flags: Sequence[str] = runner.LIBRARY_LEVEL,
    ) -> None:
        parts = [compiler_version, *runner.compiler(), *runner.LIBRARY_FLAGS, *flags, str(trace)]
        parts.append(runner.CALLBACKS)
        digest = hashlib.sha256("\0".join(parts).encode())
        for path in sorted(path for path in source.iterdir() if path.is_file()):
            digest.update(b"\0" + path.name.encode() + b"\0" + path.read_bytes())
        kept = folder / digest.hexdigest()[:32]
        if kept.exists():
            shutil.copyfile(kept, library)
            os.utime(kept)
            return
        # This loads the library, which must not be written after that.
        build(source, library, prefix, trace=trace, flags=flags)
        # The file is renamed when complete: two processes may compile at the same time.
        shutil.copy(library, part := kept.with_suffix(f".{os.getpid()}"))
        part.replace(kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "build_library", cached)
        yield


@pytest.fixture(scope="session", autouse=True)
def imports_are_compared() -> Iterator[None]:
    """Compare models that tests import with a reference, see `reference_imports.py`."""
    with pytest.MonkeyPatch.context() as patch:
        reference_imports.install(patch)
        yield


@pytest.fixture(scope="session")
def compiler_version() -> str:
    command = [*runner.compiler(), "--version"]
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="session")
def commands(request: pytest.FixtureRequest) -> Path:
    """Return the folder of the commands."""
    if not request.config.getoption("--forked"):
        return Path(sys.executable).parent
    return Path(fork_server.start())


@dataclass(frozen=True)
class Result:
    """The status and output of a command."""

    status: int
    stdout: str
    stderr: str


Tool = Callable[..., Result]
"""`tool(command, *arguments, stdin=...)` runs a command of this project in the test's folder."""


@pytest.fixture
def tool(tmp_path: Path, commands: Path) -> Tool:
    """Run a command of this project in a separate folder of the test."""

    def run(command: str, *arguments: str | Path, stdin: str | bytes = "") -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [commands / command, *arguments],
            input=data,
            capture_output=True,
            cwd=tmp_path,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
