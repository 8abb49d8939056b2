"""
Build C++ programs from sources of this package, once per source and compiler.

A program is stored in the cache folder of the user. Its name is a hash of its sources and the
command, so that a change of either builds another. The same is true for each object of a program:
programs that share sources compile them once. Verilator makes C++ from circuits in SystemVerilog.
The drivers of all targets on Linux contain the C sources for registers, memory and caches.
"""

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.system import locked
from ceras_ir.support.terminal import progress


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


COMMAND = "verilator"
OPTIONS = (
    *("--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
)
STANDARD = "-std=c++17"
SIMULATED = ("-O2", "-fno-tree-pre", "-fno-schedule-insns2")
"""As fast a simulation as -O3 gives, in half of the time to compile it."""
ONCE = "-O0"
"""Of what runs once, at the start, and is half of the C++."""
RUNTIME = (STANDARD, "-O1", "-pthread")
"""Of what Verilator brings with it, whatever the circuits."""
UNIT_BYTES = 4 << 20
"""Of C++ that is compiled as one: parsing Verilator's headers takes as long as 50 kB of it."""


def has_verilator() -> bool:
    """Whether circuits can be simulated."""
    return shutil.which(COMMAND) is not None


@cache
def include_folder() -> Path:
    """Where Verilator has the sources that every simulation needs."""
    if not has_verilator():
        raise InputError(
            f"cannot run '{COMMAND}', which simulates circuits: install it (apt-get install "
            "verilator)"
        )
    done = subprocess.run(
        [COMMAND, "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip()) / "include"


def verilate(
    top: str,
    modules: Iterable[Path],
    folder: Path,
    flags: Sequence[str],
    options: Sequence[str] = (),
    *,
    kept: bool = False,
) -> list[Part]:
    """
    The parts of a simulation of module `top`, whose header is `folder/V{top}.h`. What Verilator
    makes is compiled with `flags`, and once if `kept`, for circuits that several programs have;
    what it brings with it is compiled once for all.
    """
    include = include_folder()
    command = [COMMAND, *OPTIONS, *options, "--top-module", top, "--Mdir", str(folder)]
    done = subprocess.run(
        [*command, *map(str, modules)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise InputError(f"{COMMAND} cannot read the circuits:\n" + "\n".join(lines[-5:]))
    shared = sorted(include.glob("*.h"))
    found = [f"-I{include}"]
    made = sorted(folder.glob(f"V{top}*.cpp"))
    slow = [path for path in made if path.stem.endswith("__Slow")]
    fast = [path for path in made if path not in slow]
    headers = [*shared, *sorted(folder.glob(f"V{top}*.h")), *made]
    runtime = [include / name for name in ("verilated.cpp", "verilated_threads.cpp")]
    return [
        Part(_units(fast, folder / f"V{top}_fast.cpp"), headers, [*flags, *found], kept=kept),
        Part(_units(slow, folder / f"V{top}_slow.cpp"), headers, [*flags, *found, ONCE], kept=kept),
        Part(runtime, shared, [*RUNTIME, *found]),
    ]


def _units(sources: Sequence[Path], together: Path) -> list[Path]:
    """One source that includes all, or themselves if they are large."""
    if sum(path.stat().st_size for path in sources) > UNIT_BYTES:
        return list(sources)
    together.write_text("".join(f'#include "{path.name}"\n' for path in sources), encoding="ascii")
    return [together]


_FOLDER = Path(__file__).parent / "device"
DEVICE_SOURCES = {
    _FOLDER / "device.c": "driver: registers, and memory by u-dma-buf",
    _FOLDER / "device.h": "driver: the interface to both",
}
"""And what each is."""
STREAM_FIFO = Path(__file__).parent / "hdl" / "stream_fifo.sv"
"""A queue between two modules, for targets nnet and dataflow."""
