"""
Divide data into shards: consecutive samples that are read without the samples before them.

A shard has at most `MAX_SHARD_SAMPLES` samples of a file or folder, regardless of the number of
workers. Files are `.npz`, folders of images, or tar archives. In an archive, a sample consists of
the members with a common stem: `0001.npy` or an image, and the class as text in `0001.cls`.
"""

import io
import struct
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import prod
from pathlib import Path, PurePosixPath

import numpy as np

from ceras_ir.data.array_archive import UNREADABLE, read_array, read_header
from ceras_ir.data.image_folder import SUFFIXES, ImageFolder, ImageReader, is_images
from ceras_ir.data.sample_stream import count_streamed, stream_samples
from ceras_ir.data.samples import Array, converted, load_samples, samples_of
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.user_files import regular

MAX_SHARD_SAMPLES, MAX_SHARD_BYTES = 256, 32 << 20
"""Samples and bytes of a shard: enough to keep workers busy, few enough for memory."""


@dataclass(frozen=True)
class Shard:
    """Consecutive samples of a file or folder at `path`: `count` samples from index `first`."""

    path: str
    first: int
    count: int
    start: int
    """The number of samples in all data before the shard, since there may be several files."""

    def __str__(self) -> str:
        return f"{self.path}, samples {self.first} to {self.first + self.count - 1}"


@dataclass(frozen=True)
class BadShard:
    """A shard that cannot be read, and the reason."""

    shard: Shard
    reason: str


@dataclass(frozen=True)
class Labelled:
    """A sample and, if the data has labels, the index of the class."""

    sample: dict[str, Array]
    label: int | None = None


def shards_of(
    paths: str,
    inputs: Sequence[TensorInfo],
    limit: int | None = None,
    bad: list[BadShard] | None = None,
) -> list[Shard]:
    """
    Divide the samples of files and folders, separated by commas in `paths`, into shards. `limit` is
    the maximum number of samples. A file that cannot be read is an error or, if `bad` is given, is
    appended to that list and skipped. Samples after it keep their indices if the header of the file
    is readable.
    """
    # The name of a single file can contain a comma.
    names = [paths] if Path(paths).exists() else paths.split(",")
    shards, start = list[Shard](), 0
    nbytes = sum(prod(t.shape) * np.dtype(t.dtype).itemsize for t in inputs)
    size = min(MAX_SHARD_SAMPLES, max(MAX_SHARD_BYTES // max(nbytes, 1), 1))
    for name in names:
        try:
            count = _count(name, inputs)
        except InputError as error:
            if bad is None:
                raise
            lost = count_streamed(name, inputs) or 0
            bad.append(BadShard(Shard(name, 0, lost, start), str(error)))
            start += lost
            continue
        if limit is not None:
            count = min(count, limit - start)
        for first in range(0, count, size):
            shards.append(Shard(name, first, min(size, count - first), start + first))
        start += count
    return shards


def is_archive(path: str) -> bool:
    """Return whether the samples are in a tar archive."""
    return path.partition("?")[0].endswith((".tar", ".tar.gz", ".tgz"))


def _count(path: str, inputs: Sequence[TensorInfo]) -> int:
    if is_archive(path):
        return sum(1 for _ in _members(path))
    if is_images(path):
        return len(ImageFolder(path, inputs))
    streamed = count_streamed(path, inputs)
    if streamed is not None:
        status = Path(path).stat()
        _check(path, status.st_mtime_ns, status.st_size)
    return len(load_samples(path, inputs)) if streamed is None else streamed


@lru_cache(maxsize=256)
def _check(path: str, _time: int, _size: int) -> None:
    # Shards are read from their offsets, which skips the checksums of the archive.
    with zipfile.ZipFile(regular(path)) as archive:
        try:
            damaged = archive.testzip()
        except UNREADABLE as error:
            raise InputError(f"not a readable .npz file: {error}", path) from None
        if damaged is not None:
            raise InputError(f"not a readable .npz file: '{damaged}' is damaged", path)


def samples_at(
    paths: str, inputs: Sequence[TensorInfo], numbers: Sequence[int]
) -> Iterator[dict[str, Array]]:
    """
    Yield the samples with the indices `numbers`, in ascending order, counted over all files in
    `paths`. Each file is opened a single time.
    """
    # A file can occur several times.
    files = groupby(shards_of(paths, inputs), lambda s: (s.path, s.start - s.first))
    for (path, start), shards in files:
        all_of_file = Shard(path, 0, sum(shard.count for shard in shards), start)
        if inside := [n - start for n in numbers if start <= n < start + all_of_file.count]:
            yield from (each.sample for each in _read(all_of_file, inputs, inside))


def count_samples(paths: str, inputs: Sequence[TensorInfo]) -> int:
    """Return the number of samples in all files and folders of `paths`, separated by commas."""
    return sum(shard.count for shard in shards_of(paths, inputs))


def read_shard(shard: Shard, inputs: Sequence[TensorInfo]) -> Iterator[Labelled]:
    """Yield the samples of a shard one at a time; an `InputError` names a damaged file."""
    return _read(shard, inputs, range(shard.first, shard.first + shard.count))


def _read(shard: Shard, inputs: Sequence[TensorInfo], numbers: Sequence[int]) -> Iterator[Labelled]:
    if is_archive(shard.path):
        yield from _of_archive(shard, inputs, numbers)
    elif is_images(shard.path):
        folder = ImageFolder(shard.path, inputs)
        for number in numbers:
            yield Labelled({folder.input.name: folder.read(folder.files[number])})
    elif (offsets := _stored(shard.path, inputs)) is not None:
        yield from _of_stored(shard, inputs, offsets, numbers)
    elif count_streamed(shard.path, inputs) is not None:
        wanted = set(numbers)
        _, samples = stream_samples(shard.path, inputs, max(wanted, default=-1) + 1)
        yield from (Labelled(each) for number, each in enumerate(samples) if number in wanted)
    else:
        loaded = load_samples(shard.path, inputs)
        yield from (Labelled(loaded[number]) for number in numbers)


@dataclass(frozen=True)
class _Place:
    """The position of an array in an archive without compression."""

    offset: int
    dtype: np.dtype[np.generic]


def _stored(path: str, inputs: Sequence[TensorInfo]) -> list[_Place] | None:
    # None if samples cannot be read from offsets.
    if count_streamed(path, inputs) is None:
        return None
    places = list[_Place]()
    with zipfile.ZipFile(regular(path)) as archive, open(path, "rb") as stream:
        for tensor in inputs:
            info = archive.getinfo(f"{tensor.name}.npy")
            if info.compress_type != zipfile.ZIP_STORED:
                return None
            stream.seek(info.header_offset)
            # The local header: its length is 30 bytes, a name and extras (APPNOTE 4.3.7).
            name, extra = struct.unpack("<26xHH", stream.read(30))
            stream.seek(info.header_offset + 30 + name + extra)
            dtype = read_header(stream).dtype
            places.append(_Place(stream.tell(), dtype))
    return places


def _of_stored(
    shard: Shard,
    inputs: Sequence[TensorInfo],
    places: Sequence[_Place],
    numbers: Sequence[int],
) -> Iterator[Labelled]:
    with open(shard.path, "rb") as stream:
        for number in numbers:
            sample = dict[str, Array]()
            for tensor, place in zip(inputs, places, strict=True):
                size = prod(tensor.shape) * place.dtype.itemsize
                stream.seek(place.offset + number * size)
                data = stream.read(size)
                if len(data) != size:
                    raise InputError("truncated within a sample", shard.path)
                values = np.frombuffer(data, place.dtype).reshape(tensor.shape)
                sample[tensor.name] = converted(values, tensor, shard.path)
            yield Labelled(sample)


def _members(path: str) -> Iterator[dict[str, tarfile.TarInfo]]:
    # The members of each sample by suffix, in the order of the archive.
    try:
        with tarfile.open(regular(path.partition("?")[0])) as archive:
            group, name = dict[str, tarfile.TarInfo](), ""
            for member in archive:
                if not member.isfile():
                    continue
                place = PurePosixPath(member.name)
                stem = str(place.with_suffix(""))
                if stem != name and group:
                    yield group
                    group = {}
                name = stem
                group[place.suffix.lower()] = member
            if group:
                yield group
    except (OSError, tarfile.TarError, EOFError, *UNREADABLE) as error:
        reason = str(error).splitlines()[0] if str(error) else "damaged"
        raise InputError(f"not a readable tar archive: {reason}", path) from None


def _of_archive(
    shard: Shard, inputs: Sequence[TensorInfo], numbers: Sequence[int]
) -> Iterator[Labelled]:
    if len(inputs) != 1:
        raise InputError("tar archives require a network with a single input", shard.path)
    try:
        with tarfile.open(regular(shard.path.partition("?")[0])) as archive:
            groups = list(_members(shard.path))
            for number in numbers:
                yield _sample(archive, groups[number], shard, inputs[0])
    except (OSError, tarfile.TarError, EOFError) as error:
        raise InputError(f"not a readable tar archive: {error}", shard.path) from None


def _sample(
    archive: tarfile.TarFile, group: dict[str, tarfile.TarInfo], shard: Shard, tensor: TensorInfo
) -> Labelled:
    def content(suffix: str) -> bytes:
        stream = archive.extractfile(group[suffix])
        assert stream is not None
        return stream.read()

    label = None
    names = ", ".join(member.name for member in group.values())
    if ".cls" in group:
        text = content(".cls").strip()
        if not text.isdigit():
            raise InputError(f"{group['.cls'].name} is not the number of a class", shard.path)
        label = int(text)
    if ".npy" in group:
        try:
            data = content(".npy")
            array = read_array(io.BytesIO(data), len(data))
        except ValueError as error:
            raise InputError(f"{group['.npy'].name}: {error}", shard.path) from None
        if tensor.shape[:1] == (1,) and array.shape == tensor.shape[1:]:
            array = array[None]
        return Labelled(samples_of({tensor.name: array}, [tensor], shard.path)[0], label)
    if images := [suffix for suffix in group if suffix in SUFFIXES]:
        reader = ImageReader(shard.path, [tensor])
        stream = io.BytesIO(content(images[0]))
        return Labelled({tensor.name: reader.read(stream, group[images[0]].name)}, label)
    raise InputError(f"a sample has neither .npy nor an image: {names}", shard.path)
