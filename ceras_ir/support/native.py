"""
Build C++ programs from sources of this package, once per source and compiler.

A program lies in the user's cache directory under a name that is a hash of its sources and
the command, so that a change of either builds another. So does each object that it is linked of:
programs that share sources compile them once.
"""

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.file_lock import locked
from ceras_ir.support.progress import progress


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


@dataclass(frozen=True)
class Part:
    """Sources that are compiled alike."""

    sources: Sequence[Path]
    headers: Sequence[Path]
    """Every file that they may include."""
    flags: Sequence[str]
    made: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts of headers that are no files, by name."""
    kept: bool = True
    """Whether other programs may use the objects; not where sources include what is generated."""

    def key(self, command: Sequence[str]) -> bytes:
        """All that objects depend on, but for their source."""
        parts = ["\0".join([*command, *self.flags]).encode()]
        parts += [path.name.encode() + b"\0" + path.read_bytes() for path in self.headers]
        parts += [name.encode() + b"\0" + text.encode() for name, text in self.made.items()]
        return b"".join(parts)


def build_program(
    name: str,
    purpose: str,
    parts: Sequence[Part],
    generate: Callable[[Path], Sequence[Part]] | None = None,
    generated_from: Sequence[bytes] = (),
) -> Path:
    """
    The program `name` made of `parts`, built on all processors if it is not in the cache.
    `generate` writes further parts to a folder that all parts include headers from; what it makes
    them of is `generated_from`.
    """
    command = compiler(purpose)
    keys = [part.key(command) for part in parts]
    texts = [path.read_bytes() for part in parts for path in part.sources]
    program = cache_folder() / f"{name}-{digest([*keys, *texts, *generated_from])[:24]}"
    if program.exists():
        return program
    # Renamed when complete: two processes may build at the same time.
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        here = Path(folder)
        everything = [*parts, *(() if generate is None else generate(here))]
        build(here / name, purpose, everything)
        (here / name).replace(program)
    return program


def build(program: Path, purpose: str, parts: Sequence[Part]) -> None:
    """
    Compile `parts` on all processors and link `program`. Its folder has the headers that are
    generated, and gets the objects that are not kept.
    """
    command = compiler(purpose)
    folder = program.parent
    for part in parts:
        for header, text in part.made.items():
            (folder / header).write_text(text, encoding="utf-8")
    keys = [part.key(command) if part.kept else None for part in parts]
    sources = [
        ([*command, *part.flags], path, key)
        for part, key in zip(parts, keys, strict=True)
        for path in part.sources
    ]

    def compiled(number: int) -> Path:
        return _compiled(*sources[number], folder / f"{number}.o", purpose)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(compiled, range(len(sources)))
        objects = list(progress(made, f"building {purpose}", len(sources)))
    flags = dict.fromkeys(flag for part in parts for flag in part.flags)
    _run([*command, *flags, *map(str, objects), "-o", str(program)], purpose)


def _compiled(
    command: Sequence[str], source: Path, key: bytes | None, target: Path, purpose: str
) -> Path:
    """The object of a source: one that is kept if there is a `key`, or else `target`."""
    command = [*command, f"-I{target.parent}", "-c", str(source), "-o", str(target)]
    if key is None:
        _run(command, purpose)
        return target
    name = digest([key, source.name.encode(), b"\0", source.read_bytes()])[:24]
    kept = cache_folder() / f"{source.stem}-{name}.o"
    if not kept.exists():
        # What two programs share is compiled by the process that comes first.
        with locked(kept.with_suffix(".lock")):
            if not kept.exists():
                _run(command, purpose)
                target.replace(kept)
    return kept


def _run(command: Sequence[str], purpose: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join((done.stderr or "no message").strip().splitlines()[-5:])
        raise InputError(f"{command[0]} cannot build {purpose}:\n{last}")


def digest(parts: Sequence[bytes]) -> str:
    """The hash of everything that what is kept was made of, in hexadecimal."""
    # OpenSSL takes a while to load, and most commands build nothing.
    import hashlib

    return hashlib.sha256(b"".join(parts)).hexdigest()
