"""
Compile the files of `emit` with the C compiler of the host and run them through ctypes.

The compiler is `$CERAS_CC`, else `$CC`, else `cc`. The library is built in a temporary directory,
so that the directory of the artefacts does not change. A copy is stored in the cache of the user:
several workers that evaluate a network compile it a single time.
"""

import ctypes
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.model import declarations, length_name
from ceras_ir.backends.c.names import MODEL, Prefix, identifiers
from ceras_ir.network.artefacts import Artefact, TensorInfo
from ceras_ir.network.length_table import LengthTable
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import CacheError, ContentCache, key_of
from ceras_ir.support.native import cache_folder
from ceras_ir.support.programs import identity, run_compiler
from ceras_ir.targets.capabilities import Array, Sample, Trace

Launch: TypeAlias = Callable[[int, NDArray[np.uint8]], None]
"""A function of the number of a launch and the arena, which it changes in place."""

LIBRARY_FLAGS = (
    "-std=c99",
    "-pedantic",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffp-contract=off",
    "-fPIC",
)

LIBRARY_LEVEL = ("-O2",)
"""The optimization level for a few runs."""

LIBRARIES = 256 << 20
"""The limit of the cache of libraries in bytes."""

SOURCE_SUFFIXES = (".c", ".h", ".weights")
"""Suffixes of the files that compiling uses; the assembler may include weights."""

CALLBACKS = """\
#include "model.h"
static void (*trace)(int, const void *, unsigned long);
static int (*launch)(int, void *);
void set_callbacks(void (*t)(int, const void *, unsigned long), int (*l)(int, void *));
void set_callbacks(void (*t)(int, const void *, unsigned long), int (*l)(int, void *))
{
  trace = t;
  launch = l;
}
void model_trace(int layer, const void *data, unsigned long bytes);
void model_trace(int layer, const void *data, unsigned long bytes) { trace(layer, data, bytes); }
int model_launch(int number, void *arena);
int model_launch(int number, void *arena) { return launch(number, arena); }
#ifndef MODEL_REGIONS
#define MODEL_REGIONS {MODEL_ARENA_BYTES}
#endif
static const unsigned long sizes[] = MODEL_REGIONS;
unsigned long arenas(void);
unsigned long arenas(void) { return sizeof sizes / sizeof sizes[0]; }
unsigned long arena_bytes(unsigned long i);
unsigned long arena_bytes(unsigned long i) { return sizes[i]; }
unsigned long arena_alignment(void);
unsigned long arena_alignment(void) { return MODEL_ARENA_ALIGNMENT; }
"""
"""Functions that a caller would have to provide, compiled with the model."""

_TRACE = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong)
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CERAS_CC") or os.environ.get("CC") or "cc")


def build_library(
    source: Path,
    library: Path,
    prefix: Prefix,
    *,
    trace: bool = False,
    flags: Sequence[str] = LIBRARY_LEVEL,
) -> None:
    """
    Compile the C files in the directory `source` to the new shared library `library`, or copy it
    from the cache if sources, compiler and flags are equal. With `trace`, the library reports the
    result of each layer. `prefix` is the name that replaces `model`.
    """
    callbacks = library.with_name("callbacks.c")
    callbacks.write_text(prefix.renamed(CALLBACKS))
    files = [source / prefix.renamed("model.c"), callbacks]
    if (constants := source / prefix.renamed("model_weights.c")).exists():
        files.append(constants)
    defines = [prefix.renamed("-DMODEL_TRACE")] if trace else []
    # The second is for constants that the assembler includes.
    directories = [f"-I{source}", f"-Wa,-I,{source}"]
    command = [*compiler(), *LIBRARY_FLAGS, *flags, *defines, *directories, "-shared"]
    command += [*map(str, files), "-o", str(library)]

    def make() -> bytes:
        run_tool(command, "the C compiler ", "install one, or name it in CERAS_CC")
        return library.read_bytes()

    # The directory differs in each call, so the key has only the content of the sources.
    known = identity(compiler()), *compiler(), *LIBRARY_FLAGS, *flags, *defines
    read = sorted(path for path in {callbacks, *source.iterdir()} if path.suffix in SOURCE_SUFFIXES)
    parts = [part for path in read for part in (path.name, path.read_bytes())]
    cache, key = ContentCache(cache_folder() / "libraries", LIBRARIES), key_of(*known, "", *parts)
    try:
        content = cache.computed(key, make)
    except CacheError:
        # A library that cannot be cached can still be used.
        content = make()
    if not library.exists():
        library.write_bytes(content)
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        cache.discard(key)
        raise InputError(
            f"the C compiler '{command[0]}' wrote no library that can be loaded ({error}): name "
            "another in CERAS_CC"
        ) from None


def run_tool(command: Sequence[str], kind: str = "", remedy: str = "install it") -> str:
    """
    Run a command and return its standard output. Raise `InputError` if the program is missing or
    fails. In the message, `kind` (such as "the C compiler ", with a space at the end) precedes the
    name of the program; the message about a missing program ends with `remedy`.
    """
    try:
        done = run_compiler(command)
    except OSError as error:
        raise InputError(f"cannot run {kind}'{command[0]}': {error.strerror}; {remedy}") from None
    if done.returncode:
        shown = "\n".join(done.stderr.splitlines()[:12])
        raise InputError(f"{kind}'{command[0]}' failed with status {done.returncode}: {shown}")
    return done.stdout


class CModel:
    """
    A network in C, compiled to a shared library of this process. Input and output arrays have the
    types and shapes of the manifest.
    """

    def __init__(
        self,
        source: Path | Sequence[Artefact],
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        *,
        trace: Trace | None = None,
        launch: Launch | None = None,
        flags: Sequence[str] = LIBRARY_LEVEL,
        prefix: Prefix = MODEL,
        lengths: LengthTable | None = None,
    ):
        """
        Compile C for this machine and load it as a shared library.

        `source` is a directory with the C files, or the files in memory. `trace`, if given, is
        called with the index and the stored bytes of the result of each layer. `launch` executes a
        launch of an accelerator: it is called with the number of the launch and the arena, which it
        changes in place. `flags` are compiler options, and `prefix` replaces `model` in the names
        of C functions and files.
        """
        self.lengths = lengths
        self.inputs, self.outputs, self.prefix = list(inputs), list(outputs), prefix
        # A loaded library needs no file.
        with tempfile.TemporaryDirectory(prefix="ceras-c-") as folder:
            self._library = self._load(source, Path(folder), flags, is_traced=trace is not None)
        self._run = self._library[prefix.renamed("model_run_in")]
        self._error: BaseException | None = None
        sizes = [self._library.arena_bytes(i) for i in range(self._library.arenas())]
        self._size, alignment = sizes[0], self._library.arena_alignment()
        self.arena, *self._region_sizes = (aligned(size, alignment) for size in sizes)
        # Stored as attributes, because C has no reference that keeps them alive.
        self._callbacks = _TRACE(self._tracer(trace)), _LAUNCH(self._launcher(launch))
        self._library.set_callbacks(*self._callbacks)
        self.reset()

    def _load(
        self,
        source: Path | Sequence[Artefact],
        work: Path,
        flags: Sequence[str],
        *,
        is_traced: bool,
    ) -> ctypes.CDLL:
        """Compile the library in the folder `work`, and load it and its weights."""
        directory = work
        if isinstance(source, Path):
            directory = source
        else:
            for artefact in source:
                with open(work / artefact.path, "wb") as stream:
                    artefact.write(stream)
        prefix, path = self.prefix, work / "model.so"
        _check_header(
            directory / prefix.renamed("model.h"), self.inputs, self.outputs, prefix, self.lengths
        )
        build_library(directory, path, prefix, trace=is_traced, flags=flags)
        library = ctypes.CDLL(str(path))
        if hasattr(library, prefix.renamed("model_load_weights")):
            self._load_weights(library, directory / prefix.renamed("model.weights"))
        return library

    def _tracer(self, trace: Trace | None) -> Callable[[int, int, int], None]:
        def call(layer: int, data: int, size: int) -> None:
            assert trace is not None
            try:
                trace(layer, ctypes.string_at(data, size))
            except BaseException as error:
                self._error = self._error or error

        return call

    def _launcher(self, launch: Launch | None) -> Callable[[int, int], int]:
        def call(number: int, _arena: int) -> int:
            try:
                if launch is None:
                    raise InputError("the model launches an accelerator and none is given")
                launch(number, self.arena)
            except BaseException as error:
                self._error = self._error or error
                return 1
            return 0

        return call

    def _load_weights(self, library: ctypes.CDLL, path: Path) -> None:
        data = np.fromfile(path, np.uint8)
        self._weights = aligned(data.size, 64)
        self._weights[:] = data
        size = ctypes.c_ulong(data.size)
        load = library[self.prefix.renamed("model_load_weights")]
        if load(ctypes.c_void_p(self._weights.ctypes.data), size):
            raise InputError("not the weights of this model, or damaged", str(path))

    def use_arena(self, image: NDArray[np.uint8]) -> None:
        """
        Replace the arena of the network by a copy of `image`. A network that launches an
        accelerator needs this, because `image` also holds the constants of the accelerator.
        """
        if image.size < self._size:
            raise InputError(f"an image of {image.size} bytes, expected at least {self._size}")
        arena = aligned(image.size, 4096)
        arena[:] = image
        self.arena = arena

    def reset(self) -> None:
        """Set the states of the network to their initial values; without states, do nothing."""
        name = self.prefix.renamed("model_reset_in")
        if hasattr(self._library, name):
            memory = (self.arena, *self._region_sizes)
            status = self._library[name](*(ctypes.c_void_p(a.ctypes.data) for a in memory))
            if status != 0:
                raise AssertionError(f"{name} returned {status}")

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """
        Run the network on arrays by input name, and return arrays by output name. Shapes and types
        must match exactly, at one of the lengths if there are several.
        """
        given, outputs, length = self.inputs, self.outputs, list[ctypes.c_int32]()
        if self.lengths is not None:
            index = self.lengths.index_of({name: np.shape(a) for name, a in inputs.items()})
            given, outputs = self.lengths.inputs[index], self.lengths.outputs[index]
            length = [ctypes.c_int32(self.lengths.values[index])]
        arrays = [_checked(inputs, info) for info in given]
        results = [np.empty(info.shape, info.dtype) for info in outputs]
        memory = (self.arena, *self._region_sizes, *arrays, *results)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in memory]
        self._error = None
        status = self._run(*pointers, *length)
        if self._error is not None:
            raise self._error
        if status != 0:
            raise AssertionError(f"model_run_in returned {status}")
        return {info.name: a for info, a in zip(outputs, results, strict=True)}


def _check_header(
    path: Path,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    prefix: Prefix,
    lengths: LengthTable | None,
) -> None:
    """
    Raise `InputError` if the inputs and outputs of the manifest differ from the declarations in
    `model.h` (`path`), because the C code would access memory outside of the arrays.
    """
    header, tensors = path.read_text(encoding="utf-8", errors="replace"), [*inputs, *outputs]
    names = identifiers([tensor.name for tensor in tensors], prefix.name)
    lines = [
        prefix.renamed(f"#define MODEL_{name.upper()}_SIZE {tensor.size}\n")
        for name, tensor in zip(names, tensors, strict=True)
    ]
    more: list[str] = []
    if lengths is not None:
        more.append(f"int32_t {length_name(names)}")
        lines.append(prefix.renamed(f"#define MODEL_LENGTHS {_braces(lengths.values)}\n"))
        for i, name in enumerate(names):
            at = zip(lengths.inputs, lengths.outputs, strict=True)
            sizes = [[*given, *found][i].size for given, found in at]
            lines.append(prefix.renamed(f"#define MODEL_{name.upper()}_SIZES {_braces(sizes)}\n"))
    parameters = f", {', '.join([*declarations(inputs, outputs, prefix), *more])});\n"
    run_in = prefix.renamed("model_run_in")
    started = re.search(rf"^int {run_in}\((void \*\w+(, )?)+", header, re.MULTILINE)
    end = -1 if started is None else started.end()
    if not header[:end].endswith(", ") or not header[end - 2 :].startswith(parameters):
        raise InputError("has other inputs and outputs than the manifest", str(path))
    if missing := [line for line in lines if line not in header]:
        raise InputError(f"has no '{missing[0].strip()}', unlike the manifest", str(path))


def _braces(values: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def aligned(size: int, alignment: int) -> NDArray[np.uint8]:
    """Return an array of `size` bytes of 0 whose address is a multiple of `alignment`."""
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


def _checked(inputs: Mapping[str, Array], info: TensorInfo) -> Array:
    if info.name not in inputs:
        raise InputError(f"input '{info.name}' is missing; got {', '.join(sorted(inputs))}")
    array = np.asarray(inputs[info.name], order="C")
    if array.shape != info.shape:
        raise InputError(
            f"input '{info.name}' has shape {list(array.shape)}, expected {list(info.shape)}"
        )
    if array.dtype != np.dtype(info.dtype):
        raise InputError(f"input '{info.name}' has type {array.dtype}, expected {info.dtype}")
    return array


class CompiledC:
    """
    The C files in `folder`, compiled for this machine. If the network launches an accelerator,
    `launch` simulates it on the shared memory; `image` is the initial content.
    """

    def __init__(
        self,
        folder: Path,
        inputs: list[TensorInfo],
        outputs: list[TensorInfo],
        launch: Launch | None = None,
        image: NDArray[np.uint8] | None = None,
        prefix: Prefix = MODEL,
        lengths: LengthTable | None = None,
    ):
        self.lengths = lengths
        self.folder, self.inputs, self.outputs = folder, inputs, outputs
        self.launch, self.image, self.prefix = launch, image, prefix
        self._model: CModel | None = None

    def build(self, trace: Trace | None = None) -> CModel:
        tensors = self.inputs, self.outputs
        model = CModel(
            self.folder,
            *tensors,
            trace=trace,
            launch=self.launch,
            prefix=self.prefix,
            lengths=self.lengths,
        )
        if self.image is not None:
            model.use_arena(self.image)
        return model

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        self._model = self._model or self.build()
        self._model.reset()
        for sample in samples:
            yield self._model.run(sample)

    def trace(self, sample: Sample, trace: Trace) -> None:
        self.build(trace).run(sample)
