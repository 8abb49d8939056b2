"""Load untrusted archives of arrays: the right values, or a single message, no crash."""

import struct
import zipfile
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ceras_ir.data.array_archive import load_arrays
from ceras_ir.data.sample_stream import open_samples
from ceras_ir.data.samples import load_samples
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.limits import MEMORY_VARIABLE

VALUES = np.arange(8, dtype="<f4")

DATA = VALUES.tobytes()


def array(
    descr: object = "<f4",
    shape: object = (2, 4),
    data: bytes = DATA,
    version: tuple[int, int] = (1, 0),
    is_fortran: bool = False,
) -> bytes:
    """Return a member in the .npy format."""
    return with_header(
        f"{{'descr': {descr!r}, 'fortran_order': {is_fortran}, 'shape': {shape!r}}}".encode(),
        data,
        version,
    )


def with_header(text: bytes, data: bytes = DATA, version: tuple[int, int] = (1, 0)) -> bytes:
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes(version) + length + text + b"\n" + data


def archive(*members: bytes | tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return the bytes of an archive; a member without a name is `x.npy`."""
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for member in members:
            name, data = ("x.npy", member) if isinstance(member, bytes) else member
            file.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def network(dtype: str) -> list[TensorInfo]:
    return [TensorInfo("x", (1, 4), dtype)]


MATRIX = VALUES.reshape(2, 4)

VALID: dict[str, tuple[bytes, npt.NDArray[np.generic]]] = {
    "version 2": (archive(array(version=(2, 0))), MATRIX),
    "version 3": (archive(array(version=(3, 0))), MATRIX),
    "Python 2": (
        archive(with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 4L)}")),
        MATRIX,
    ),
    "Fortran order": (archive(array(is_fortran=True)), VALUES.reshape(4, 2).T),
    "big-endian": (archive(array(">f4", data=VALUES.astype(">f4").tobytes())), MATRIX),
    "float16": (archive(array("<f2", data=VALUES.astype("<f2").tobytes())), MATRIX),
    "float64": (archive(array(">f8", data=VALUES.astype(">f8").tobytes())), MATRIX),
    "int16": (archive(array(">i2", data=VALUES.astype(">i2").tobytes())), MATRIX),
    "booleans": (
        archive(array("|b1", data=b"\0\1\1\0\1\0\0\1")),
        np.array([[0, 1, 1, 0], [1, 0, 0, 1]]),
    ),
    "deflated": (archive(array(), method=zipfile.ZIP_DEFLATED), MATRIX),
    "bzip2": (archive(array(), method=zipfile.ZIP_BZIP2), MATRIX),
    "lzma": (archive(array(), method=zipfile.ZIP_LZMA), MATRIX),
    "no suffix": (archive(("x", array())), MATRIX),
}


@pytest.mark.parametrize("name", VALID)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_valid_archives(name: str, is_streamed: bool, tmp_path: Path) -> None:
    data, expected = VALID[name]
    path = tmp_path / "x.npz"
    path.write_bytes(data)
    samples = (open_samples if is_streamed else load_samples)(str(path), network("float32"))
    found = np.concatenate([sample["x"] for sample in samples])
    assert found.dtype == np.float32 and (found == expected).all()


SHAPES: list[object] = [
    (-1, 4), (2, -4), (-2, -4), (-2, -2, 2), (-8,), (True, 4), (2.0, 4), [2, 4], None, "2",
    (1 << 62, 4), (1 << 31, 4), (1 << 64, 4), (0, 4), (), (4,),
]  # fmt: skip

TYPES: list[object] = [
    "|O", "<U1", "<S4", "|V4", "<c8", "<M8[s]", "<m8[s]", [("a", "<f4")], ("<f4", (4,)), "4f4",
    "f4,f4", "", "no", None, 5, {"names": ["a"], "formats": ["<f4"]}, [[], 1],
]  # fmt: skip

HEADERS = {
    "empty": b"",
    "no dictionary": b"[1, 2]",
    "no shape": b"{'descr': '<f4', 'fortran_order': False}",
    "another key": b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), 'x': 1}",
    "call": b"__import__('os')",
    "brackets": b"(" * 5000,
    "not terminated": b"{'descr': '<f4",
    "not UTF-8": b"\xff\xfe{}",
    "long": b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}" + b" " * 20_000,
    "order": b"{'descr': '<f4', 'fortran_order': 2, 'shape': (2, 4)}",
    "digits": b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 5000 + b", 4)}",
}

WRONG: dict[str, bytes] = {
    **{f"shape {shape}": archive(array(shape=shape)) for shape in SHAPES},
    **{f"type {descr}": archive(array(descr, data=DATA * 4)) for descr in TYPES},
    **{f"type {descr}, 32 bytes": archive(array(descr)) for descr in TYPES},
    **{
        f"header {name}, version {version}": archive(with_header(text, version=(version, 0)))
        for name, text in HEADERS.items()
        for version in (1, 2, 3)
    },
    "version 0": archive(array(version=(0, 0))),
    "version 4": archive(array(version=(4, 0))),
    "too few bytes": archive(array(data=DATA[:-1])),
    "too many bytes": archive(array(data=DATA + b"\0")),
    "boolean of 2": archive(array("|b1", data=bytes(range(8)))),
    "no header": archive(b"\x93NUMPY\1\0"),
    "no array": archive(b"text"),
    "no bytes": archive(b""),
    "other member": archive(array(), ("readme.txt", b"text")),
    "folder": archive(("x.npy/", b"")),
    "two arrays": archive(("x.npy", array()), ("x", array())),
    "unknown array": archive(("a/x.npy", array())),
    "no arrays": archive(),
    "no file": b"",
    "text": b"1, 2, 3\n",
    "single array": array(),
    "pickle": b"\x80\x04\x95" + bytes(20),
    "deflated": zlib.compress(array()),
    "cut": archive(array())[:-30],
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_wrong_archives(name: str, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(WRONG[name])
    with pytest.raises(InputError) as info:
        list(open_samples(str(path), network(dtype)))
    assert info.value.exit_status == 1
    (line,) = info.value.lines("")
    assert "\n" not in line and len(line) < 400


def test_two_members_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with pytest.warns(UserWarning, match="Duplicate name"):
        path.write_bytes(archive(array(), array()))
    with pytest.raises(InputError, match="two arrays of the file are called 'x'"):
        load_arrays(str(path))


def test_a_size_that_the_archive_does_not_have(tmp_path: Path) -> None:
    """The array and the archive declare 4 GiB, but only 32 bytes exist."""
    path = tmp_path / "x.npz"
    member = array(shape=(1 << 28, 4))
    declared = struct.pack("<I", len(member) - 32 + (1 << 32) - 256)
    data = archive(member, method=zipfile.ZIP_DEFLATED)
    at = data.rindex(struct.pack("<I", len(member)))
    path.write_bytes(data[:at] + declared + data[at + 4 :])
    with pytest.raises(InputError, match=r"not a readable \.npz file: 'x': "):
        load_arrays(str(path))


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("given", "dtype", "message"),
    [
        (np.array([[0, 300, 0, 0]] * 2), "int8", "array 'x' has 300, which int8 cannot hold"),
        (np.array([[0, -1, 0, 0]] * 2), "uint8", "array 'x' has type int64, expected uint8"),
        (np.full((2, 4), 1e300), "float32", "array 'x' has 1e+300, which float32 cannot hold"),
    ],
)
def test_values_that_the_input_cannot_hold(
    is_streamed: bool, given: npt.NDArray[np.generic], dtype: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=given)
    with pytest.raises(InputError) as info:
        list((open_samples if is_streamed else load_samples)(str(path), network(dtype)))
    assert info.value.message == message


def test_small_archives_of_large_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit counts all arrays of a file, before memory is allocated."""
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(1 << 20), y=np.zeros(1 << 20))
    assert path.stat().st_size < 100_000
    assert len(load_arrays(str(path))) == 2
    monkeypatch.setenv(MEMORY_VARIABLE, str(12 << 20))
    with pytest.raises(InputError, match="'y': 8,388,608 bytes, where 4,194,304 bytes are left"):
        load_arrays(str(path))
    monkeypatch.setenv(MEMORY_VARIABLE, "much")
    with pytest.raises(InputError, match="CERAS_SAMPLE_MEMORY must be a number of bytes"):
        load_arrays(str(path))
