"""
Build C++ programs from sources of this package.

A program is cached under a hash of the sources, the command and the compiler. Objects are cached in
the same way, so that programs share them. Verilator generates C++ from SystemVerilog. The drivers
of all Linux targets contain the C sources for registers, memory and caches.
"""

import os
import platform
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from ceras_ir.support.diagnostics import InputError, progress
from ceras_ir.support.files import locked
from ceras_ir.support.private_files import private_file, private_folder
from ceras_ir.support.programs import identity, run_compiler


def find_program(commands: Iterable[str]) -> str | None:
    """
    Return the path of the first of `commands` that is installed, on the PATH or next to this
    Python, or `None`.
    """
    # An extra installs commands next to Python, which works without an active environment.
    places = [os.environ.get("PATH", os.defpath), sysconfig.get_path("scripts")]
    path = os.pathsep.join(places)
    return next((found for name in commands if (found := shutil.which(name, path=path))), None)


def compiler(purpose: str) -> list[str]:
    """
    Return the command of the C++ compiler: the environment variable `CXX`, or the first of `g++`,
    `c++` and `clang++` that is installed. Without a compiler, raise an `InputError`: there is no
    compiler to build `purpose`.
    """
    if command := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(command[0]) is None:
            raise InputError(f"the C++ compiler '{command[0]}' in CXX is not installed")
        return command
    for name in ("g++", "c++", "clang++"):
        if shutil.which(name) is not None:
            return [name]
    raise InputError(f"no C++ compiler to build {purpose}: install g++, or set CXX")


def has_compiler() -> bool:
    """Return whether a C++ compiler is installed."""
    try:
        return bool(compiler("anything"))
    except InputError:
        return False


@lru_cache
def host_flags(purpose: str) -> tuple[str, ...]:
    """
    Return compiler flags that permit all instructions of this processor, or () if the compiler has
    no such flag. A hash of the processor's features is part of the flags and so of cache keys:
    machines that share a cache folder do not share programs. `purpose` is as in `compiler`.
    """
    command = [*compiler(purpose), "-march=native", "-x", "c++", "-E", os.devnull]
    if run_compiler(command).returncode:
        return ()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = [platform.processor()]
    known = [line for line in lines if line.startswith(("flags", "Features"))][:1] or lines[:1]
    return ("-march=native", f"-DCERAS_HOST_{digest([''.join(known).encode()])[:12]}")


def cache_folder() -> Path:
    """
    Return the cache folder of the user, or a temporary folder if the cache is not writable. Raise
    an `InputError` if other users can write the folder.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "ceras_ir"
    try:
        private_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"ceras_ir-{os.getuid()}"
        private_folder(folder)
        return folder


@dataclass(frozen=True)
class Part:
    """C++ sources that are compiled with the same flags, as part of a program."""

    sources: Sequence[Path]
    headers: Sequence[Path]
    """All files that the sources can include."""
    flags: Sequence[str]
    generated: Mapping[str, str] = field(default_factory=dict[str, str])
    """Headers without a file: name -> text."""
    is_shared: bool = True
    """Whether other programs can use the objects; False if sources include generated headers."""

    def key(self, command: Sequence[str]) -> bytes:
        """
        Return the data, except the sources, on which the objects depend: compiler (`command`),
        flags and headers. It is part of the key of a cache.
        """
        parts = ["\0".join([*command, *self.flags, identity(command)]).encode()]
        parts += [path.name.encode() + b"\0" + path.read_bytes() for path in self.headers]
        parts += [name.encode() + b"\0" + text.encode() for name, text in self.generated.items()]
        return b"".join(parts)


def build_program(
    name: str,
    purpose: str,
    parts: Sequence[Part],
    generate: Callable[[Path], Sequence[Part]] | None = None,
    generated_from: Sequence[bytes] = (),
) -> Path:
    """
    Return the path of the program `name`, compiled from `parts` on all processors if it is not
    cached. `purpose` names the program in errors. `generate` writes further sources to a temporary
    folder and returns them as parts; all parts can include headers from that folder.
    `generated_from` is the input of the generation, as part of the cache key.
    """
    command = compiler(purpose)
    keys = [part.key(command) for part in parts]
    texts = [path.read_bytes() for part in parts for path in part.sources]
    program = cache_folder() / f"{name}-{digest([*keys, *texts, *generated_from])[:24]}"
    if private_file(program):
        return program
    # The complete program is renamed, because two processes can build at the same time.
    with tempfile.TemporaryDirectory(dir=program.parent) as name_of_folder:
        folder = Path(name_of_folder)
        build(folder / name, purpose, [*parts, *(generate(folder) if generate else ())])
        (folder / name).replace(program)
    return program


def build(program: Path, purpose: str, parts: Sequence[Part]) -> None:
    """
    Compile `parts` on all processors and link them to the file `program`. Generated headers and the
    objects of parts that are not shared are written to the folder of `program`. `purpose` names the
    program in errors.
    """
    command = compiler(purpose)
    folder = program.parent
    for part in parts:
        for header, text in part.generated.items():
            (folder / header).write_text(text, encoding="utf-8")
    keys = [part.key(command) if part.is_shared else None for part in parts]
    sources = [
        ([*command, *part.flags], path, key)
        for part, key in zip(parts, keys, strict=True)
        for path in part.sources
    ]

    def compiled(number: int) -> Path:
        return _compiled(*sources[number], folder / f"{number}.o", purpose)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(compiled, range(len(sources)))
        objects = list(progress(found, f"building {purpose}", len(sources)))
    flags = dict.fromkeys(flag for part in parts for flag in part.flags)
    _run([*command, *flags, *map(str, objects), "-o", str(program)], purpose)


def _compiled(
    command: Sequence[str], source: Path, key: bytes | None, target: Path, purpose: str
) -> Path:
    command = [*command, f"-I{target.parent}", "-c", str(source), "-o", str(target)]
    if key is None:
        _run(command, purpose)
        return target
    name = digest([key, source.name.encode(), b"\0", source.read_bytes()])[:24]
    cached = cache_folder() / f"{source.stem}-{name}.o"
    if not private_file(cached):
        # A second process waits for the object that the first process compiles.
        with locked(cached.with_suffix(".lock")):
            if not private_file(cached):
                _run(command, purpose)
                target.replace(cached)
    return cached


def _run(command: Sequence[str], purpose: str) -> None:
    done = run_compiler(command)
    if done.returncode:
        last = "\n".join((done.stderr or "no message").strip().splitlines()[-5:])
        raise InputError(f"{command[0]} cannot build {purpose}:\n{last}")


def digest(parts: Sequence[bytes]) -> str:
    """Return the hash of `parts` in hexadecimal digits."""
    # OpenSSL loads slowly, and most commands build no program.
    import hashlib

    return hashlib.sha256(b"".join(parts)).hexdigest()


COMMAND = "verilator"
VERILATOR_OPTIONS = (
    *("--cc", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"),
    *("-Wno-fatal", "-Wno-lint", "-Wno-style"),
)
STANDARD = "-std=c++17"
STARTUP_FLAG = "-O0"
"""The flag for code that runs a single time at the start, half of the generated C++."""
RUNTIME_FLAGS = (STANDARD, "-O1", "-pthread")
"""Flags for Verilator's library."""
MAX_UNIT_BYTES = 4 << 20
"""Bytes of C++ in a compilation unit. Verilator's headers take as long to parse as 50 kB."""


def has_verilator() -> bool:
    """Return whether Verilator is installed."""
    return shutil.which(COMMAND) is not None


@cache
def include_folder() -> Path:
    """
    Return the folder with the C++ headers of Verilator. Raise an `InputError` if Verilator is not
    installed.
    """
    if not has_verilator():
        raise InputError(
            f"cannot run '{COMMAND}', which simulates circuits: install it (apt-get install "
            "verilator)"
        )
    done = run_compiler([COMMAND, "--getenv", "VERILATOR_ROOT"])
    if done.returncode:
        raise InputError(
            f"'{COMMAND} --getenv' failed with status {done.returncode}: {done.stderr}"
        )
    return Path(done.stdout.strip()) / "include"


def verilate(
    top: str,
    modules: Iterable[Path],
    folder: Path,
    flags: Sequence[str],
    options: Sequence[str] = (),
    *,
    is_shared: bool = False,
) -> list[Part]:
    """
    Translate the SystemVerilog files `modules` to C++ with Verilator, and return the parts of a
    simulation of the module `top`. The C++ is written to `folder`, with the header `V{top}.h`, and
    is to be compiled with `flags`. `options` are further options of Verilator. With `is_shared`,
    the objects are cached for other programs with the same circuit.
    """
    include = include_folder()
    command = [COMMAND, *VERILATOR_OPTIONS, *options, "--top-module", top, "--Mdir", str(folder)]
    done = run_compiler([*command, *map(str, modules)])
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise InputError(f"{COMMAND} cannot read the circuits:\n" + "\n".join(lines[-5:]))
    shared = sorted(include.glob("*.h"))
    generated = sorted(folder.glob(f"V{top}*.cpp"))
    headers = [*shared, *sorted(folder.glob(f"V{top}*.h")), *generated]
    parts: list[Part] = []
    for is_slow, more in ((False, ()), (True, (STARTUP_FLAG,))):
        sources = [path for path in generated if path.stem.endswith("__Slow") == is_slow]
        units = _units(sources, folder / f"V{top}_{'slow' if is_slow else 'fast'}.cpp")
        parts.append(Part(units, headers, [*flags, f"-I{include}", *more], is_shared=is_shared))
    runtime = [include / name for name in ("verilated.cpp", "verilated_threads.cpp")]
    return [*parts, Part(runtime, shared, [*RUNTIME_FLAGS, f"-I{include}"])]


def _units(sources: Sequence[Path], unit: Path) -> list[Path]:
    if sum(path.stat().st_size for path in sources) > MAX_UNIT_BYTES:
        return list(sources)
    unit.write_text("".join(f'#include "{path.name}"\n' for path in sources), encoding="ascii")
    return [unit]


_FOLDER = Path(__file__).parent / "device"
DEVICE_SOURCES = {
    _FOLDER / "device.c": "driver: registers, and memory by u-dma-buf",
    _FOLDER / "device.h": "driver: the interface to both",
}
"""Sources of the device driver: file -> description."""
NETWORK_DRIVER_SOURCES = DEVICE_SOURCES | {
    _FOLDER / "samples.c": "driver: raw tensors of files",
    _FOLDER / "samples.h": "driver: the interface to raw tensors",
    _FOLDER / "ceras_device.py": "driver: shared memory and arrays in Python",
}
"""Sources of a driver for a single network, with programs in C and Python: file -> description."""
STREAM_FIFO = Path(__file__).parent / "hdl" / "stream_fifo.sv"
"""A queue between two modules, for the targets nnet and dataflow."""
AXI_LITE_PORT = STREAM_FIFO.parent / "axi_lite_port.sv"
"""The bus interface of a file of registers, for the same targets."""
SKID_BUFFER = STREAM_FIFO.parent / "skid_buffer.sv"
"""A stage of a stream whose READY is a register, for the targets nnet and dataflow."""
