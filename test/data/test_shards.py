"""Load data in shards: the samples, tar archives, and damaged files."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.data import shards
from ceras_ir.data.shards import BadShard, count_samples, read_shard, samples_at, shards_of
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError

INPUTS = [TensorInfo("x", (1, 2, 3), "float32")]


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.setattr(shards, "MAX_SHARD_SAMPLES", 4)
    return np.arange(60, dtype=np.float32).reshape(10, 2, 3)


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_shards_of_an_archive_are_its_samples(tmp_path: Path, values: np.ndarray, save):  # pyright: ignore
    path = str(tmp_path / "x.npz")
    save(path, x=values)
    found = shards_of(path, INPUTS)
    assert [(s.first, s.count, s.start) for s in found] == [(0, 4, 0), (4, 4, 4), (8, 2, 8)]
    read = [each.sample["x"] for shard in found for each in read_shard(shard, INPUTS)]
    assert np.array_equal(np.concatenate(read), values)
    some = [sample["x"][0] for sample in samples_at(path, INPUTS, [1, 5, 9])]
    assert np.array_equal(some, values[[1, 5, 9]])


def test_several_files_and_a_limit(tmp_path: Path, values: np.ndarray):
    for name, part in (("a", values[:3]), ("b", values[3:])):
        np.savez(tmp_path / f"{name}.npz", x=part)
    paths = f"{tmp_path / 'a.npz'},{tmp_path / 'b.npz'}"
    assert count_samples(paths, INPUTS) == 10
    assert [(s.first, s.count, s.start) for s in shards_of(paths, INPUTS, 6)] == [
        (0, 3, 0),
        (0, 3, 3),
    ]
    # Use the same file twice, and samples across files.
    again = f"{tmp_path / 'a.npz'},{paths}"
    some = [sample["x"][0] for sample in samples_at(again, INPUTS, [2, 3, 8, 12])]
    assert np.array_equal(some, values[[2, 0, 5, 9]])


def test_tar_archives_have_samples_and_classes(tmp_path: Path, values: np.ndarray):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        for number, value in enumerate(values):
            add(archive, f"set/{number:04}.npy", npy(value))
            add(archive, f"set/{number:04}.cls", str(number % 3).encode())
    found = shards_of(str(path), INPUTS)
    read = [each for shard in found for each in read_shard(shard, INPUTS)]
    assert np.array_equal(np.concatenate([each.sample["x"] for each in read]), values)
    assert [each.label for each in read] == [n % 3 for n in range(10)]


def test_damaged_files_are_named_and_counted(tmp_path: Path, values: np.ndarray):
    good, torn, flipped = (tmp_path / f"{name}.npz" for name in ("good", "torn", "flipped"))
    for path in (good, torn, flipped):
        np.savez(path, x=values)
    torn.write_bytes(torn.read_bytes()[:200])
    data = bytearray(flipped.read_bytes())
    data[250] ^= 1
    flipped.write_bytes(data)
    bad: list[BadShard] = []
    found = shards_of(f"{good},{torn},{flipped}", INPUTS, None, bad)
    assert {shard.path for shard in found} == {str(good)}
    assert [each.shard.path for each in bad] == [str(torn), str(flipped)]
    with pytest.raises(InputError, match="not a readable"):
        shards_of(str(flipped), INPUTS)


def test_samples_behind_damaged_ones_keep_their_numbers(tmp_path: Path):
    """
    The header of the damaged file has the number of samples: the later samples keep their labels.
    """
    damaged, good = tmp_path / "damaged.npz", tmp_path / "good.npz"
    for path in (damaged, good):
        np.savez(path, x=np.ones((2000, *INPUTS[0].shape[1:]), np.float32))
    data = bytearray(damaged.read_bytes())
    data[10000] ^= 1
    damaged.write_bytes(data)
    bad: list[BadShard] = []
    found = shards_of(f"{damaged},{good}", INPUTS, None, bad)
    assert [each.shard.count for each in bad] == [2000]
    assert found[0].start == 2000


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.txt": b"x"}, "neither .npy nor an image"),
        ({"a.npy": b"no array"}, "a.npy"),
        (
            {"a.npy": npy(np.zeros((2, 3), np.float32)), "a.cls": b"cat"},
            "not the number",
        ),
    ],
)
def test_refuses_samples_that_are_none(tmp_path: Path, members: dict[str, bytes], message: str):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            add(archive, name, content)
    (shard,) = shards_of(str(path), INPUTS)
    with pytest.raises(InputError, match=message):
        list(read_shard(shard, INPUTS))
