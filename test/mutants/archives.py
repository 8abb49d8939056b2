"""Create mutants of `.npz` files: other headers, members and bytes."""

import io
import warnings
import zipfile
from random import Random

import numpy as np

EXTENTS = (-1, -(1 << 63), 0, 1, 2, 1 << 20, 1 << 31, 1 << 62, 10**30)
TYPES = ("<f4", "<f8", "|i1", "|u1", "<i8", "|b1", "|O", "<U4", "|V3", "<M8[s]", "<c8", "(2,)<f4")
HEADERS = (
    "{}", "[]", "None", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}",
    "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 'x')}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 90 + ")" * 90 + "}",
)  # fmt: skip
NAMES = ("x", "y", "", "../x", "/etc/x", "a\nb", "é" * 100, "x/y", "arr_0")


def mutant(seed: int, shape: tuple[int, ...]) -> bytes:
    """Return a mutant of an archive with the array `x` of the given shape."""
    random = Random(seed)
    members = [(f"{name}.npy", _array(random, shape)) for name in _names(random)]
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as archive:
        warnings.simplefilter("ignore", UserWarning)  # Two members can have one name.
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    data = buffer.getvalue()
    return changed(random, data) if random.random() < 0.5 else data


def _names(random: Random) -> list[str]:
    return ["x", *random.sample(NAMES, random.choice((0, 0, 0, 1, 2)))]


def _array(random: Random, shape: tuple[int, ...]) -> bytes:
    extents = list(shape)
    dtype = random.choice(TYPES) if random.random() < 0.4 else "<f4"
    if random.random() < 0.4:
        extents[random.randrange(len(extents))] = random.choice(EXTENTS)
    header = f"{{'descr': '{dtype}', 'fortran_order': {random.random() < 0.2}, "
    header += f"'shape': {tuple(extents)}}}"
    if random.random() < 0.2:
        header = random.choice(HEADERS)
    text = header.encode() + b" " * random.choice((0, 7, 70)) + b"\n"
    version = random.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
    length = len(text).to_bytes(2 if version[0] == 1 else 4, "little")
    values = np.array([0, 1, -1, np.nan, np.inf, 1e38], np.float32)
    count = int(np.prod(shape)) * random.choice((0, 1, 1, 1, 2, 3))
    elements = np.resize(values[: random.choice((1, 3, 6))], count).tobytes()
    return b"\x93NUMPY" + version + length + text + elements


def changed(random: Random, data: bytes) -> bytes:
    """Return `data` with a few bytes changed, removed or repeated."""
    content = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(content) + 1)
        match random.randrange(4):
            case 0:
                content[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del content[at : at + random.choice((1, 4, 100))]
            case 2:
                content[at:at] = content[at : at + random.choice((1, 30))] * random.choice((1, 40))
            case _:
                content[at:at] = random.choice((b"\0", b"\xff" * 8, b"{", b'"', b"[" * 3000, b"-"))
    return bytes(content)
