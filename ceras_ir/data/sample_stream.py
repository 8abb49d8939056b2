"""
Yield single samples from `.npz` files or folders of images, in constant memory, or generate them.

The contents of files are checked before the first sample is read, as in `ceras_ir.data.samples`.
Several files, separated by commas, are concatenated.

Synthetic samples are reproducible, in the declared range of each input. Noise would average out in
the first convolution, whereas real data has structure. Sample i is therefore constant over blocks
of `2**(i % 6)` elements per dimension, uniformly distributed.
"""

import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp

from ceras_ir.data.array_archive import UNREADABLE, read_header
from ceras_ir.data.image_folder import ImageFolder, image_names, is_images
from ceras_ir.data.samples import Array, Samples, converted, is_accepted, load_samples
from ceras_ir.dialects.graph import element_of, is_plain, numpy_dtype, quantized_element, shape_of
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.network.function import input_names, states_of
from ceras_ir.network.storage import INPUT_RANGE, interval
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.user_files import regular


@dataclass(frozen=True)
class StreamedSamples:
    """
    Samples in files that are read again in each iteration, so that they need not fit in memory.
    """

    paths: str
    inputs: Sequence[TensorInfo]
    count: int
    batched: bool = True

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return stream_samples(self.paths, self.inputs, self.count)[1]

    def first(self, limit: int | None) -> "StreamedSamples":
        """Return only the first `limit` samples, or all if `limit` is `None`."""
        return self if limit is None else replace(self, count=min(limit, self.count))


def open_samples(paths: str, inputs: Sequence[TensorInfo]) -> Samples | StreamedSamples:
    """
    Return the samples of files or folders, separated by commas in `paths`. They are read when they
    are iterated; a single file for which `count_streamed` returns `None` is loaded into memory.
    """
    if Path(paths).is_file() and not is_images(paths) and count_streamed(paths, inputs) is None:
        return load_samples(paths, inputs)
    return StreamedSamples(paths, inputs, stream_samples(paths, inputs, sys.maxsize)[0])


def stream_samples(
    paths: str, inputs: Sequence[TensorInfo], limit: int
) -> tuple[int, Iterator[dict[str, Array]]]:
    """
    Return the number of samples in the files or folders `paths`, at most `limit`, and an iterator
    over the samples, which are loaded one at a time.
    """
    # The name of a single file can contain a comma.
    names = [paths] if Path(paths).exists() else paths.split(",")
    folders = {name: ImageFolder(name, inputs) for name in names if is_images(name)}
    counts = [len(folders[n]) if n in folders else count_streamed(n, inputs) for n in names]

    def samples() -> Iterator[dict[str, Array]]:
        left = limit
        for name, count in zip(names, counts, strict=True):
            if name in folders:
                yield from folders[name].samples(left)
                left -= min(left, len(folders[name]))
                continue
            taken = min(left, len(load_samples(name, inputs)) if count is None else count)
            yield from _read(name, inputs, taken, count is not None)
            left -= taken

    # The samples of a file that cannot be streamed are loaded to count them.
    total = sum(
        len(load_samples(name, inputs)) if count is None else count
        for name, count in zip(names, counts, strict=True)
    )
    return min(total, limit), samples()


def sample_names(paths: str, count: int) -> list[str]:
    """
    Return names for the first `count` samples in messages: the names of image files, or `sample 0`,
    `sample 1` and so on.
    """
    parts = [paths] if Path(paths).exists() else paths.split(",")
    if all(map(is_images, parts)):
        return [name for part in parts for name in image_names(part)][:count]
    return [f"sample {number}" for number in range(count)]


def count_streamed(path: str, inputs: Sequence[TensorInfo]) -> int | None:
    """
    Return the number of samples in an `.npz` file that can be read one at a time. Return `None` if
    the file must be loaded completely: it is a single sample without an axis of samples, has
    Fortran order, or has an error, which loading reports.
    """
    counts: set[int] = set()
    try:
        with zipfile.ZipFile(regular(path)) as archive:
            if sorted(archive.namelist()) != sorted(f"{t.name}.npy" for t in inputs):
                return None
            for tensor in inputs:
                member = archive.getinfo(f"{tensor.name}.npy")
                with archive.open(member) as stream:
                    header = read_header(stream)
                    is_complete = stream.tell() + header.byte_count == member.file_size
                shape, dtype = header.shape, header.dtype
                kept = tensor.shape[1:] if tensor.shape[:1] == (1,) else tensor.shape
                is_single = shape == tensor.shape or shape[1:] != kept or not shape
                if header.is_fortran or is_single or not is_complete or dtype == np.bool_:
                    return None
                if not is_accepted(dtype, np.dtype(tensor.dtype)):
                    return None
                counts.add(shape[0])
    except (OSError, *UNREADABLE):
        return None
    count = counts.pop() if len(counts) == 1 else 0
    return count or None


def _read(
    path: str, inputs: Sequence[TensorInfo], count: int, streamed: bool
) -> Iterator[dict[str, Array]]:
    if not streamed:
        samples = load_samples(path, inputs)
        yield from (samples[i] for i in range(count))
        return
    with ExitStack() as stack:
        archive = stack.enter_context(zipfile.ZipFile(regular(path)))
        streams = [stack.enter_context(archive.open(f"{t.name}.npy")) for t in inputs]
        types = [read_header(stream).dtype for stream in streams]
        for _ in range(count):
            sample: dict[str, Array] = {}
            for tensor, stream, dtype in zip(inputs, streams, types, strict=True):
                data = _exactly(stream, prod(tensor.shape) * dtype.itemsize, path)
                array = np.frombuffer(data, dtype).reshape(tensor.shape)
                sample[tensor.name] = converted(array, tensor, path)
            yield sample


def _exactly(stream: IO[bytes], size: int, path: str) -> bytes:
    try:
        data = stream.read(size)
    except (OSError, *UNREADABLE) as error:
        raise InputError(f"not a readable .npz file: {error}", path) from None
    if len(data) != size:
        raise InputError("not a readable .npz file: truncated within a sample", path)
    return data


DEFAULT_RANGE = (0.0, 1.0)
"""The range of an input without `graph.input_range`."""
PIXEL_RANGE = (0.0, 255.0)
"""The default range of an input of plain ui8."""
BLOCK_SIZES = 6
"""The number of block sizes: 1, 2, ..., 32 elements in each dimension."""


def synthetic_samples(main: FuncOp, count: int, seed: int) -> list[dict[str, NDArray[np.generic]]]:
    """
    Return `count` generated samples for the inputs of `main`, within the declared range of each
    input. Equal seeds give equal samples.
    """
    # PCG64 and raw doubles are stable across numpy versions (NEP 19).
    generator = np.random.Generator(np.random.PCG64(seed))
    samples: list[dict[str, NDArray[np.generic]]] = []
    for i in range(count):
        sample: dict[str, NDArray[np.generic]] = {}
        for name, argument in zip(input_names(main), main.body.block.args, strict=True):
            unit = _blocks(shape_of(argument), 1 << i % BLOCK_SIZES, generator)
            element = quantized_element(argument)
            if element is not None:
                # Stored integers can have any value of the type.
                numbers = element.low + np.floor((element.high - element.low + 1) * unit)
                sample[name] = numbers.astype(numpy_dtype(element))
                continue
            default = PIXEL_RANGE if element_of(argument) == BYTE else DEFAULT_RANGE
            low, high = interval(argument, INPUT_RANGE) or default
            if is_plain(argument):
                # For indices, lengths and masks, 0 and 1 are always in range.
                numbers = np.floor(low + (high - low + 1) * unit)
                sample[name] = numbers.astype(numpy_dtype(element_of(argument)))
                continue
            sample[name] = (low + (high - low) * unit).astype(np.float32)
        samples.append(sample)
    return samples


def synthetic_steps(main: FuncOp, count: int, seed: int) -> list[dict[str, NDArray[np.generic]]]:
    """
    Return `synthetic_samples` without the inputs that are states, such as the state of an LSTM. The
    caller runs the samples in sequence and feeds back the states.
    """
    kept = {state.name for state in states_of(main)}
    samples = synthetic_samples(main, count, seed)
    return [{k: v for k, v in sample.items() if k not in kept} for sample in samples]


SIGNED_RANGE = np.float32(4)
"""The largest magnitude of the synthetic sample with both signs."""

ZERO_SHARE = 1 / 8
"""The share of zeros in this sample, at which functions have corners."""


def signed_sample(main: FuncOp) -> dict[str, NDArray[np.generic]]:
    """
    Return a generated sample. Floats have both signs, and some are 0, unlike in
    `synthetic_samples`, where they are from 0 to 1 unless the input declares a range.
    """
    (sample,) = synthetic_steps(main, 1, seed=1)
    random = np.random.default_rng(1)
    signed = dict[str, NDArray[np.generic]]()
    for name, array in sample.items():
        if array.dtype == np.float32:
            kept = random.random(array.shape) >= ZERO_SHARE
            array = np.where(kept, SIGNED_RANGE * (2 * array.astype(np.float32) - 1), np.float32(0))
        signed[name] = array
    return signed


def _blocks(
    shape: tuple[int, ...], size: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    result = generator.random([-(-extent // size) for extent in shape])
    for axis, extent in enumerate(shape):
        result = np.repeat(result, size, axis).take(range(extent), axis)
    return result
