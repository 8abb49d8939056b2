"""
Build the C++ engine from the sources of this package, once per source and compiler.

The program lies in the user's cache directory under a name that is a hash of the sources and
the command, so that a change of either builds another.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ceras_ir.diagnostics import InputError

SOURCES = Path(__file__).parent / "runtime"
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
"""Contraction to fused multiply-add would change the bits of float operators."""


def compiler() -> list[str]:
    """The C++ compiler: `CXX`, or the first of the usual ones."""
    if command := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(command[0]) is None:
            raise InputError(f"the C++ compiler that CXX names, '{command[0]}', is not there")
        return command
    for name in ("g++", "c++", "clang++"):
        if shutil.which(name) is not None:
            return [name]
    raise InputError("no C++ compiler to build the nnet engine: install g++, or set CXX")


def cache_folder() -> Path:
    """Where built engines are kept: the user's cache, or a temporary folder without one."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "ceras_ir"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"ceras_ir-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise InputError(f"{folder} belongs to somebody else: set XDG_CACHE_HOME") from None
        return folder


def build(extra_flags: Sequence[str] = ()) -> Path:
    """The program `ceras_engine`, built if it is not in the cache."""
    sources = sorted(SOURCES.glob("*.cpp"))
    command = [*compiler(), *FLAGS, *extra_flags]
    digest = hashlib.sha256("\0".join(command).encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    program = cache_folder() / f"ceras_engine-{digest.hexdigest()[:24]}"
    if program.exists():
        return program
    # Renamed when complete: two processes may build at the same time.
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        built = Path(folder) / "ceras_engine"
        done = subprocess.run(
            [*command, *map(str, sources), "-o", str(built)], capture_output=True, text=True
        )
        if done.returncode:
            last = "\n".join((done.stderr or "no message").strip().splitlines()[-5:])
            raise InputError(f"{command[0]} cannot build the nnet engine:\n{last}")
        built.replace(program)
    return program
