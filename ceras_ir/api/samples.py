"""
Read inputs of a network from Python: arrays, arrays by name, generators of either, files, and
folders of images.

An array without an axis of samples is a single sample, as in `.npz` files; see
`ceras_ir.data.samples`. Passes read calibration data from files. Arrays are therefore written to
files, 64 samples at a time, so that memory does not grow with the number of samples.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.data.image_folder import is_images
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.data.sample_stream import StreamedSamples, open_samples
from ceras_ir.data.samples import Array, Samples, samples_of
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError, UsageError, missing_file_remedy

PathOf: TypeAlias = str | PathLike[str]
Batch: TypeAlias = ArrayLike | Mapping[str, ArrayLike]
"""Samples of the only input, or of each input by name."""
Data: TypeAlias = PathOf | Batch | Iterable[PathOf] | Iterable[Batch]

PER_FILE = 64
"""The number of samples in memory before they are written."""


def paths_of(data: object) -> list[str] | None:
    """
    Return the paths if `data` is a path or a list of paths; `None` if `data` is anything else, such
    as arrays.
    """
    if isinstance(data, str | PathLike):
        return [fspath(cast("PathOf", data))]
    if isinstance(data, list | tuple):
        items = cast("Sequence[object]", data)
        paths = [fspath(cast("PathOf", i)) for i in items if isinstance(i, str | PathLike)]
        return paths if paths and len(paths) == len(items) else None
    return None


def read_samples(
    data: Data, inputs: Sequence[TensorInfo], label: str, images: ImageOptions | None = None
) -> Samples | StreamedSamples:
    """
    Return the samples in `data` (paths, arrays or a generator) for a network with `inputs`.
    `images` are the options for image files. Errors call the data `label`.
    """
    if (paths := paths_of(data)) is not None:
        return open_samples(_with_images(paths, images), inputs)
    _refuse_images(images)
    if isinstance(data, Mapping) or _is_array(data):
        return _batch(cast("Batch", data), inputs, label)
    return _joined(list(_batches(data, inputs, label)), label)


def reusable(data: Data) -> Data:
    """Return `data` in a form that can be read several times: a generator becomes a list."""
    return cast("Data", list(data)) if isinstance(data, Iterator) else data


class SampleFiles:
    """
    A temporary folder with samples of the caller, deleted with this object. Passes read calibration
    data from files.
    """

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="ceras-data-")
        self._names: dict[str, str] = {}
        """The name of the data in a file, as the caller knows it."""

    def paths(
        self,
        data: Data,
        inputs: Sequence[TensorInfo],
        label: str,
        images: ImageOptions | None = None,
    ) -> str:
        """
        Return `data` in the form that passes accept, names of files and folders separated by
        commas. Arrays are first written to files. Errors call the data `label`.
        """
        if (paths := paths_of(data)) is not None:
            return _with_images(paths, images)
        _refuse_images(images)
        if isinstance(data, Mapping) or _is_array(data):
            return self._save(_batch(cast("Batch", data), inputs, label), label)
        files: list[str] = []
        waiting: list[Samples] = []
        for batch in _batches(data, inputs, label):
            waiting.append(batch)
            if sum(map(len, waiting)) >= PER_FILE:
                files.append(self._save(_joined(waiting, label), label))
                waiting = []
        if waiting or not files:
            files.append(self._save(_joined(waiting, label), label))
        return ",".join(files)

    def _save(self, samples: Samples, label: str) -> str:
        arrays = {
            name: array.reshape(-1, *array.shape[2:]) if array.shape[1:2] == (1,) else array
            for name, array in samples.arrays.items()
        }
        return self.save(arrays, label)

    def save(self, arrays: Mapping[str, Array], label: str) -> str:
        """
        Write `arrays` to a new file in the folder, and return the path. Later errors about this
        file call it `label`.
        """
        path = str(Path(self._folder.name) / f"{len(self._names) + 1}.npz")
        self._names[path] = label
        save_arrays(path, arrays)
        return path

    @contextmanager
    def named(self) -> Generator[None]:
        """Replace the temporary paths in errors inside the block by the labels of the data."""
        try:
            yield
        except InputError as error:
            first = (error.file or "").partition(",")[0]
            error.file = self._names.get(first, error.file)
            raise


def _with_images(paths: Sequence[str], images: ImageOptions | None) -> str:
    for path in paths:
        if not Path(path.partition("?")[0]).exists() and "," not in path:
            raise InputError(f"no such file or folder{missing_file_remedy(path)}", path)
    if images is None:
        return ",".join(paths)
    if not any(map(is_images, paths)):
        raise UsageError("image options apply only to images")
    options = images.spell()
    return ",".join(f"{p}?{options}" if is_images(p) and options else p for p in paths)


def _refuse_images(images: ImageOptions | None) -> None:
    if images is not None:
        raise UsageError("image options apply only to images")


def _is_array(data: object) -> bool:
    """Return whether numpy converts `data` to an array, such as a tensor of another library."""
    return isinstance(data, np.ndarray) or hasattr(data, "__array__")


def _batches(data: object, inputs: Sequence[TensorInfo], label: str) -> Iterator[Samples]:
    if not isinstance(data, Iterable):
        raise UsageError(
            f"{label}: expected a path, an array, arrays by name, or an iterable of these, got "
            f"{type(data).__name__}"
        )
    for item in cast("Iterable[object]", data):
        if not isinstance(item, Mapping) and not _is_array(item):
            raise UsageError(
                f"{label}: expected arrays, or arrays by name, one after the other, got "
                f"{type(item).__name__}"
            )
        yield _batch(cast("Batch", item), inputs, label)


def _batch(data: Batch, inputs: Sequence[TensorInfo], label: str) -> Samples:
    if not isinstance(data, Mapping):
        if len(inputs) != 1:
            names = ", ".join(tensor.name for tensor in inputs)
            raise InputError(
                f"one array for {len(inputs)} inputs: give a dict with the keys {names}", label
            )
        data = {inputs[0].name: data}
    by_name = cast("Mapping[str, ArrayLike]", data)
    arrays: dict[str, Array] = {str(name): np.asarray(value) for name, value in by_name.items()}
    for tensor in inputs:
        array = arrays.get(tensor.name)
        # A single sample may lack an axis of size 1 for samples.
        if array is not None and tensor.shape[:1] == (1,) and array.shape == tensor.shape[1:]:
            arrays[tensor.name] = array[None]
    return samples_of(arrays, inputs, label)


def _joined(batches: Sequence[Samples], label: str) -> Samples:
    if not batches:
        raise InputError("the file has no samples", label)
    names = batches[0].arrays
    arrays = {name: np.concatenate([batch.arrays[name] for batch in batches]) for name in names}
    return Samples(arrays, sum(map(len, batches)))
