"""
Run the network of this folder on numpy arrays, with Python 3.10 or later:

    import out  # compiles the C in this folder, a single time for each kind of processor
    probabilities = out.run({"image": image})["probabilities"]

Arrays have the names, shapes and types of `out.INPUTS` and `out.OUTPUTS`. Threads may call `run` at
the same time: each thread has separate intermediate results. The compiler is $CC, or the first of
cc, gcc and clang. $CFLAGS replaces `-O3 -march=native`.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.generic]

__all__ = ["INPUTS", "OUTPUTS", "Network", "Tensor", "run"]

FOLDER = Path(__file__).resolve().parent

WEIGHTS_ALIGNMENT = 64

ABOUT = """\
#include "@PREFIX@.h"
#ifdef @MACRO@_REGIONS
static const unsigned long sizes[] = @MACRO@_REGIONS;
#else
static const unsigned long sizes[] = {@MACRO@_ARENA_BYTES};
#endif
unsigned long ceras_arenas(void);
unsigned long ceras_arenas(void) { return sizeof sizes / sizeof sizes[0]; }
unsigned long ceras_arena_bytes(unsigned long i);
unsigned long ceras_arena_bytes(unsigned long i) { return sizes[i]; }
unsigned long ceras_arena_alignment(void);
unsigned long ceras_arena_alignment(void) { return @MACRO@_ARENA_ALIGNMENT; }
"""
"""Functions about the memory of the model, compiled with the model."""


class Tensor(NamedTuple):
    """The name, shape and type of a graph input or output."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scale: float | None = None
    """The scale of a quantized tensor: real = scale * (stored - zero_point)."""
    zero_point: int = 0

    def __str__(self) -> str:
        return f"'{self.name}' ({self.dtype}{list(self.shape)})"


def _manifest() -> dict[str, Any]:
    """Return the description of this folder; check that the C is unchanged."""
    try:
        content: dict[str, Any] = json.loads((FOLDER / "manifest.json").read_text("utf-8"))
        digests: dict[str, str] = content["sha256"]
        for name in content["files"]:
            if not name.endswith((".c", ".h", ".weights")):
                continue
            if hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() != digests[name]:
                raise ImportError(f"{FOLDER / name}: not the file that was compiled; compile again")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ImportError(f"{FOLDER}: not a complete compiled folder: {error!r}") from None
    return content


def _tensors(entries: list[dict[str, Any]]) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(
            entry["name"],
            tuple(entry["shape"]),
            np.dtype(entry["dtype"]),
            entry.get("scale"),
            entry.get("zero_point", 0),
        )
        for entry in entries
    )


_MANIFEST = _manifest()
_PREFIX: str = _MANIFEST.get("prefix", "model")

INPUTS = _tensors(_MANIFEST["inputs"])
OUTPUTS = _tensors(_MANIFEST["outputs"])


def _compiler() -> list[str]:
    """Return the command of the C compiler. Raise an `ImportError` if there is none."""
    if command := shlex.split(os.environ.get("CC", "")):
        return command
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise ImportError(
        f"{FOLDER}: no C compiler to build it with: install gcc or clang, or name one in CC"
    )


def _call(command: list[str]) -> bytes:
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise ImportError(
            f"{FOLDER}: cannot run the C compiler '{command[0]}': {error.strerror}; install gcc or "
            "clang, or name one in CC"
        ) from None
    if done.returncode:
        said = "\n".join(done.stderr.decode(errors="replace").splitlines()[:12])
        raise ImportError(f"{FOLDER}: the C compiler '{command[0]}' failed:\n{said}")
    return done.stdout


def _processor() -> str:
    """Return the properties of the processor on which compiled code depends."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = [platform.processor()]
    known = [line for line in lines if line.startswith(("flags", "Features", "isa"))] or lines
    return " ".join((platform.system(), platform.machine(), *known[:1]))


def _identity() -> str | None:
    """Return the version and the file of the C compiler, None if there is none."""
    try:
        command = _compiler()
    except ImportError:
        return None
    path = shutil.which(command[0])
    if path is None:
        return None
    status = os.stat(path)
    try:
        version = _call([*command, "--version"]).decode(errors="replace")
    except ImportError:
        version = ""
    return f"{os.path.realpath(path)} {status.st_size} {status.st_mtime_ns} {version}"


def _can_be_foreign(path: Path) -> bool:
    """Return whether a user other than the owner of this process can have written `path`."""
    status = path.stat()
    return status.st_uid not in (os.geteuid(), 0) or bool(status.st_mode & 0o002)


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


def _build() -> Path:
    """
    Return the shared library for this processor; compile it if it is missing.

    The name of the file identifies the processor, the options and the C first, then the compiler.
    Without a compiler, the newest library with the same first part is returned.
    """
    settings = (
        *(_processor(), os.environ.get("CC"), os.environ.get("CFLAGS")),
        _MANIFEST["sha256"],
    )
    key, compiler = _digest(settings), _identity()
    folder = _cache()
    library = folder / f"{_PREFIX}-{key}-{_digest(compiler)}.so"
    if compiler is None:
        built = folder.glob(f"{_PREFIX}-{key}-*.so")
        library = max(built, key=lambda path: path.lstat().st_mtime_ns, default=library)
    if library.is_symlink() or (library.exists() and _can_be_foreign(library)):
        raise ImportError(f"{library}: other users can write it: remove it, or copy the folder")
    if library.exists():
        return library
    command = [*_compiler(), "-std=c99", "-fPIC", "-shared", f"-I{FOLDER}"]
    command += [f"-Wa,-I,{FOLDER}", *_flags(command), "-ffp-contract=off"]
    with tempfile.TemporaryDirectory(dir=folder) as work:
        about = Path(work, "about.c")
        about.write_text(ABOUT.replace("@PREFIX@", _PREFIX).replace("@MACRO@", _PREFIX.upper()))
        sources = [FOLDER / f"{_PREFIX}.c", FOLDER / f"{_PREFIX}_weights.c", about]
        command += [str(source) for source in sources if source.exists()]
        built = Path(work, "library.so")
        _call([*command, "-o", str(built)])
        # Renamed when complete: two processes may build at the same time.
        built.replace(library)
    return library


def _flags(command: list[str]) -> list[str]:
    """Return $CFLAGS, or the best optimization that the compiler supports."""
    if (given := os.environ.get("CFLAGS")) is not None:
        return shlex.split(given)
    best = ["-O3", "-march=native"]
    try:
        _call([command[0], *best, "-x", "c", "-E", os.devnull])
    except ImportError:
        if shutil.which(command[0]) is None:
            raise
        return best[:1]
    return best


_temporary: list[tempfile.TemporaryDirectory[str]] = []


def _cache() -> Path:
    """
    Return the folder for libraries: in this folder, or temporary if this user cannot write it or
    others can.
    """
    folder = FOLDER / "__pycache__"
    try:
        folder.mkdir(exist_ok=True)
        if not _can_be_foreign(folder):
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except OSError:
        pass
    if not _temporary:
        _temporary.append(tempfile.TemporaryDirectory(prefix=f"{_PREFIX}-"))
    return Path(_temporary[0].name)


def _aligned(size: int, alignment: int) -> NDArray[np.uint8]:
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


def _pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


_library = ctypes.CDLL(str(_build()))
_run_in = _library[f"{_PREFIX}_run_in"]
if _rule := _library[f"{_PREFIX}_self_test"]():
    _test = f"rule {_rule} of {_PREFIX}_self_test in {_PREFIX}.h"
    raise ImportError(f"{FOLDER}: this build breaks {_test}; change CC or CFLAGS")


def _weights() -> NDArray[np.uint8] | None:
    """Return the constants if the program loads them. C stores the pointer."""
    if not hasattr(_library, f"{_PREFIX}_load_weights"):
        return None
    data = np.fromfile(FOLDER / f"{_PREFIX}.weights", np.uint8)
    weights = _aligned(data.size, WEIGHTS_ALIGNMENT)
    weights[:] = data
    load = _library[f"{_PREFIX}_load_weights"]
    if load(_pointer(weights), ctypes.c_ulong(data.size)):
        raise ImportError(f"{FOLDER}: {_PREFIX}.weights is damaged; compile again")
    return weights


_loaded = _weights()


class Network:
    """The network with separate intermediate results, for a single thread at a time."""

    def __init__(self) -> None:
        alignment = _library.ceras_arena_alignment()
        self._arenas = [
            _aligned(_library.ceras_arena_bytes(i), alignment)
            for i in range(_library.ceras_arenas())
        ]
        self.reset()

    def reset(self) -> None:
        """Restore the first states, if the network has states."""
        if hasattr(_library, name := f"{_PREFIX}_reset_in"):
            status = _library[name](*map(_pointer, self._arenas))
            if status:
                raise RuntimeError(f"{name} returned {status}")

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by name."""
        arrays = _checked(inputs)
        results = [np.empty(tensor.shape, tensor.dtype) for tensor in OUTPUTS]
        status = _run_in(*map(_pointer, (*self._arenas, *arrays, *results)))
        if status:
            raise RuntimeError(f"{_PREFIX}_run_in returned {status}")
        return {tensor.name: array for tensor, array in zip(OUTPUTS, results, strict=True)}


def _checked(inputs: Mapping[str, Array]) -> list[Array]:
    """Return the arrays in C order; check names, types and shapes."""
    wanted = ", ".join(map(str, INPUTS))
    if not hasattr(inputs, "keys"):
        name, kind = INPUTS[0].name, type(inputs).__name__
        raise TypeError(f"inputs are arrays by name, such as run({{'{name}': array}}); got {kind}")
    if set(inputs) != {tensor.name for tensor in INPUTS}:
        raise ValueError(f"inputs are {wanted}; got {', '.join(map(repr, inputs)) or 'none'}")
    arrays = [np.asarray(inputs[tensor.name], order="C") for tensor in INPUTS]
    for tensor, array in zip(INPUTS, arrays, strict=True):
        if array.dtype != tensor.dtype or array.shape != tensor.shape:
            raise ValueError(f"input {tensor}: got {array.dtype}{list(array.shape)}")
    return arrays


_own = threading.local()


def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs by name for the inputs by name."""
    if not hasattr(_own, "network"):
        _own.network = Network()
    return _own.network.run(inputs)
