"""
Build C++ programs from sources of this package, once per source and compiler.

A program lies in the user's cache directory under a name that is a hash of its sources and
the command, so that a change of either builds another.
"""

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from ceras_ir.support.diagnostics import InputError


def compiler(purpose: str) -> list[str]:
    """The C++ compiler: `CXX`, or the first of the usual ones; `purpose` is for the message."""
    if command := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(command[0]) is None:
            raise InputError(f"the C++ compiler that CXX names, '{command[0]}', is not there")
        return command
    for name in ("g++", "c++", "clang++"):
        if shutil.which(name) is not None:
            return [name]
    raise InputError(f"no C++ compiler to build {purpose}: install g++, or set CXX")


def has_compiler() -> bool:
    """Whether there is a C++ compiler."""
    try:
        return bool(compiler("anything"))
    except InputError:
        return False


@lru_cache
def host_flags(purpose: str) -> tuple[str, ...]:
    """
    Flags for a program that runs on this machine alone: every instruction that it has. The
    processor is in them, so that machines that share a cache do not share such programs.
    """
    command = [*compiler(purpose), "-march=native", "-x", "c++", "-E", os.devnull]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return ()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = [platform.processor()]
    known = [line for line in lines if line.startswith(("flags", "Features"))][:1] or lines[:1]
    return ("-march=native", f"-DCERAS_HOST_{digest([''.join(known).encode()])[:12]}")


def cache_folder() -> Path:
    """Where built programs are kept: the user's cache, or a temporary folder without one."""
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


def build_program(
    name: str,
    purpose: str,
    sources: Sequence[Path],
    headers: Sequence[Path],
    flags: Sequence[str],
    made: Mapping[str, str] | None = None,
    generate: Callable[[Path], Sequence[Path]] | None = None,
) -> Path:
    """
    The program `name` made of `sources`, built if it is not in the cache; `made` are the texts of
    further headers. `generate` writes further sources to a folder; what it makes them of must be
    among `headers`.
    """
    made = made or {}
    command = [*compiler(purpose), *flags]
    parts = ["\0".join(command).encode()]
    parts += [path.name.encode() + b"\0" + path.read_bytes() for path in (*sources, *headers)]
    parts += [header.encode() + b"\0" + text.encode() for header, text in made.items()]
    program = cache_folder() / f"{name}-{digest(parts)[:24]}"
    if program.exists():
        return program
    # Renamed when complete: two processes may build at the same time.
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        built = Path(folder) / name
        for header, text in made.items():
            (Path(folder) / header).write_text(text, encoding="utf-8")
        further: Sequence[Path] = () if generate is None else generate(Path(folder))
        command += [f"-I{folder}", *map(str, (*sources, *further)), "-o", str(built)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            last = "\n".join((done.stderr or "no message").strip().splitlines()[-5:])
            raise InputError(f"{command[0]} cannot build {purpose}:\n{last}")
        built.replace(program)
    return program


def digest(parts: Sequence[bytes]) -> str:
    """The hash of everything that what is kept was made of, in hexadecimal."""
    # OpenSSL takes a while to load, and most commands build nothing.
    import hashlib

    return hashlib.sha256(b"".join(parts)).hexdigest()
