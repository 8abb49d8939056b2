"""Load malicious archives of arrays: a single message, and no exception of NumPy."""

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.data.array_archive import load_arrays
from ceras_ir.data.samples import samples_of
from ceras_ir.dialects.graph.camera import Channels, FrameFormat
from ceras_ir.dialects.graph.pooling import Resize
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.network.frames import Frame
from ceras_ir.network.pixels import Pixels
from ceras_ir.support.diagnostics import InputError


def archive(path: Path, header: bytes, data: bytes = b"") -> str:
    """Write an .npz file with an array of that header."""
    text = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", text)
    return str(path)


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 16777216)}\n",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}\n",
        b"{'descr': 'no', 'fortran_order': False, 'shape': (1,)}\n",
        b"{'descr': [[], 1], 'fortran_order': False, 'shape': (1,)}\n",
        b"{'descr': '<f4', 'shape': " + b"(" * 5000 + b"\n",
        b"",
        b"\xff\x00",
    ],
)
def test_headers(tmp_path: Path, header: bytes):
    with pytest.raises(InputError, match=r"not a readable \.npz file: "):
        load_arrays(archive(tmp_path / "x.npz", header))


@pytest.mark.slow
def test_damaged_members(tmp_path: Path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.arange(4096))
    data = path.read_bytes()
    refused = 0
    for at in range(0, len(data), max(1, len(data) // 300)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            load_arrays(str(path))
        except InputError:
            refused += 1
    assert refused > 100


def test_a_network_without_inputs() -> None:
    """`--set` may have fixed all inputs."""
    with pytest.raises(InputError, match="no input is named 'x'; the network has no inputs left"):
        samples_of({"x": np.zeros((2, 3))}, [], "x.npz")


def test_floats_of_a_quantized_input() -> None:
    """The message has the conversion to stored integers, which gives the accepted array."""
    tensor = TensorInfo("x", (1, 3), "int8", scale=0.25, zero_point=-3)
    reals = np.array([[0.5, -1.0, 100.0]], np.float32)
    with pytest.raises(InputError, match="expected int8; the input 'x' takes stored") as found:
        samples_of({"x": reals}, [tensor], "x.npz")
    code = str(found.value).partition("integers: ")[2]
    stored = eval(code, {"np": np, "array": reals})
    assert stored.tolist() == [[-1, -7, 127]]
    assert len(samples_of({"x": stored}, [tensor], "x.npz")) == 1


@pytest.mark.parametrize(("format", "first"), [("rgb565_be", 0xF8), ("rgb565_le", 0x07)])
def test_frames_of_words(format: str, first: int) -> None:
    """Numbers of 16 bits per pixel, as most cameras give them, become bytes in the given order."""
    frame = Frame(FrameFormat(format), (2, 3), (0, 0, 2, 3), Channels.RGB, Resize.NEAREST)
    pixels = Pixels((0, 1, 2, 3), 3, 255.0, (0.0,), (1.0,), frame)
    tensor = TensorInfo("x", (1, 2, 3, 2), "uint8", pixels=pixels)
    words = np.full((4, 2, 3), 0xF807, np.uint16)
    found = samples_of({"x": words}, [tensor], "x.npz")
    assert len(found) == 4 and found[0]["x"].shape == (1, 2, 3, 2)
    assert (found[0]["x"][..., 0] == first).all()
    with pytest.raises(InputError, match="has shape"):
        samples_of({"x": words[:, :1]}, [tensor], "x.npz")
