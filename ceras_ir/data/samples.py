"""
Data for a network from `.npz` files: one array per graph input, the first axis samples.

For an input whose first dimension is 1 the array is [N, *shape[1:]]; otherwise [N, *shape].
An array of exactly the input's shape is one sample. Files are not trusted: no pickles, and
every array's size is checked by numpy against the bytes that are there.
"""

import os
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from pickle import HIGHEST_PROTOCOL
from tokenize import TokenError
from typing import IO, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.network.artefacts import TensorInfo, network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import InputError

Array: TypeAlias = NDArray[np.generic]

PICKLE_MARK = 0x80
"""The first byte of a pickle; the protocol's number follows."""

UNREADABLE = (
    *(ValueError, EOFError, KeyError, OverflowError, MemoryError, SyntaxError),
    *(NotImplementedError, RuntimeError, TokenError, zipfile.BadZipFile, zlib.error),
)
"""What numpy and its parts raise on archives that are damaged, encrypted or lie."""

CONSTANT_INPUT = "; if it is a constant, --set NAME=NUMBER fixes it when the model is read"
"""What becomes of inputs that are none of the caller's."""


@dataclass(frozen=True)
class Samples:
    """Inputs of several inferences."""

    arrays: Mapping[str, Array]
    """By input name, [N, *shape of the input]."""
    count: int
    batched: bool = True
    """Whether the file had an axis of samples; if not, results have none either."""

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Array]:
        return {name: array[index] for name, array in self.arrays.items()}

    def first(self, limit: int | None) -> "Samples":
        """At most `limit` samples, from the start."""
        count = self.count if limit is None else min(limit, self.count)
        return Samples({k: v[:count] for k, v in self.arrays.items()}, count, self.batched)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return (self[i] for i in range(self.count))


def load_arrays(path: str) -> dict[str, Array]:
    """All arrays of an `.npz` file, by name."""
    try:
        loaded = np.load(path, allow_pickle=False)
        # An array is no context manager, so that this is asked before `with`.
        if isinstance(loaded, np.ndarray):
            raise InputError("not an .npz file: it holds one array without a name", path)
        with loaded as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise InputError("no such file", path) from None
    except IsADirectoryError:
        raise InputError("a folder, not an .npz file", path) from None
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or 'not an .npz file'}", path) from None
    except UNREADABLE as error:
        reason = str(error).splitlines()[0] if str(error) else "damaged"
        if "contains pickled" in reason and not _is_pickle(path):
            # So numpy calls whatever is no archive and no array.
            raise InputError("not an .npz file", path) from None
        if "pickle" in reason:
            reason = "it holds Python objects, which are not loaded: they could run anything"
        raise InputError(f"not a readable .npz file: {reason}", path) from None


def _is_pickle(path: str) -> bool:
    """Whether a file begins as pickles have since Python 3.0."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(2)
    except OSError:
        return False
    return len(head) == 2 and head[0] == PICKLE_MARK and head[1] <= HIGHEST_PROTOCOL


def load_samples(path: str, network: ModuleOp | Sequence[TensorInfo]) -> Samples:
    """The samples in `path` for a network, all checked against its inputs."""
    inputs = network_inputs(main_function(network)) if isinstance(network, ModuleOp) else network
    return samples_of(load_arrays(path), inputs, path)


def samples_of(arrays: Mapping[str, Array], inputs: Sequence[TensorInfo], path: str) -> Samples:
    """The samples in `arrays` for a network with `inputs`; errors say that they are in `path`."""
    names = [tensor.name for tensor in inputs]
    # An input without elements is none of the network's.
    if unknown := sorted(k for k, array in arrays.items() if k not in names and array.size):
        known = ", ".join(names) or "no inputs left"
        raise InputError(f"no input is named '{unknown[0]}'; the network has {known}", path)
    result: dict[str, Array] = {}
    batched = bool(inputs)
    for tensor in inputs:
        name, shape = tensor.name, tensor.shape
        if name not in arrays:
            found = ", ".join(arrays) or "none"
            # Exporters make inputs of constants, such as the means of a normalization.
            way_out = CONSTANT_INPUT if prod(shape) == 1 and arrays else ""
            raise InputError(f"no array for input '{name}'; found {found}{way_out}", path)
        array = arrays[name]
        if array.shape == shape:
            result[name], batched = array[None], False
        elif shape and shape[0] == 1 and array.shape[1:] == shape[1:] and array.ndim:
            result[name] = array[:, None]
        elif array.shape[1:] == shape and array.ndim:
            result[name] = array
        else:
            wanted = ["N", *map(str, shape[1:] if shape and shape[0] == 1 else shape)]
            raise InputError(
                f"array '{name}' has shape {list(array.shape)}, expected [{', '.join(wanted)}]",
                path,
            )
        dtype = np.dtype(tensor.dtype)
        if not np.can_cast(array.dtype, dtype, "same_kind"):
            raise InputError(f"array '{name}' has type {array.dtype}, expected {dtype}", path)
        given = result[name]
        with np.errstate(over="ignore"):
            result[name] = given.astype(dtype, copy=False)
        if given.dtype != dtype and dtype.kind == "f":
            lost = given[np.isinf(result[name]) & np.isfinite(given)]
            if lost.size:
                raise InputError(f"array '{name}' has {lost[0]}, which {dtype} cannot hold", path)
    lengths = {name: len(array) for name, array in result.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"arrays hold different numbers of samples: {lengths}", path)
    count = next(iter(lengths.values()), 1)
    if count == 0:
        raise InputError("there are no samples in it", path)
    return Samples(result, count, batched)


def require_finite(
    samples: Iterable[Mapping[str, Array]],
    path: str,
    first: int = 0,
    lacking: Collection[str] = (),
) -> None:
    """
    Refuse what no result can be compared on: NaN and infinities. `first` counts the samples; the
    inputs `lacking` may have NaN.
    """
    for number, sample in enumerate(samples, first):
        for name, array in sample.items():
            if not is_finite(array, lacks=name in lacking):
                raise InputError(f"sample {number} of '{name}' has NaN or infinite elements", path)


def is_finite(array: Array, *, lacks: bool) -> bool:
    """Whether all elements are finite; or NaN, if it may lack some."""
    wrong = np.isinf(array) if lacks else ~np.isfinite(array)
    return not wrong.any()


def join(results: Sequence[Mapping[str, Array]], *, batched: bool) -> dict[str, Array]:
    """Results of all samples as one array per output, by the rule that inputs follow."""
    joined: dict[str, Array] = {}
    for name, first in results[0].items():
        parts = [result[name] for result in results]
        if not batched:
            joined[name] = first
        elif first.ndim and first.shape[0] == 1:
            joined[name] = np.concatenate(parts)
        else:
            joined[name] = np.stack(parts)
    return joined


def as_samples(result: Mapping[str, Array], *, batched: bool) -> dict[str, Array]:
    """The results of one sample with an axis of samples in front, as `join` has them."""
    return {
        name: array if batched and array.ndim and array.shape[0] == 1 else array[None]
        for name, array in result.items()
    }


def as_declared(arrays: Mapping[str, Array], outputs: Sequence[TensorInfo]) -> dict[str, Array]:
    """Results in the types that the model declares."""
    types = {tensor.name: tensor.model_dtype for tensor in outputs}
    with np.errstate(over="ignore"):  # A float16 beyond its range is infinite.
        return {
            name: array if (other := types.get(name)) is None else array.astype(other)
            for name, array in arrays.items()
        }


def save_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """Write an `.npz` file, completely or not at all."""
    destination = Path(path).resolve()
    # Two processes may write to one destination.
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}.partial")
    try:
        if destination.exists() and not destination.is_file():
            # Pipes and devices cannot be renamed onto, nor archives written to them piece by piece.
            buffer = BytesIO()
            write_arrays(buffer, arrays)
            destination.write_bytes(buffer.getvalue())
            return
        with open(temporary, "wb") as stream:
            write_arrays(stream, arrays)
        temporary.replace(destination)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", path) from None
    finally:
        # A file system that is read-only says so again.
        with suppress(OSError):
            temporary.unlink()


def write_arrays(stream: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """As `numpy.savez`, but for names that clash with its parameters."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            # A fixed date, so that equal results are equal files.
            entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
