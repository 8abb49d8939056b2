"""Test the Python package of a compiled folder, with a buffer like PYNQ's, on the mock device."""

import ast
from collections.abc import Generator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from backends.device.folder import NAME
from backends.vta_driver.board import (
    BASE,
    MEMORY_BYTES,
    compile_example,
    samples,
    served,
)
from numpy.typing import NDArray

from ceras_ir.backends.vta.runtime import ceras_vta
from ceras_ir.pipeline.build import open_folder

Bytes = NDArray[np.uint8]


class CachedBuffer:
    """The bytes that VTA sees and the bytes that the CPU sees, aligned to a page as in PYNQ."""

    def __init__(self, memory: Bytes, address: int):
        raw = np.zeros(len(memory) + 4096, np.uint8)
        start = -raw.ctypes.data % 4096
        self.memory, self.copy = memory, raw[start : start + len(memory)]
        self.device_address, self.nbytes = address, len(memory)
        self.ctypes = self.copy.ctypes
        self.flushes = True
        self.broken = False

    def __getitem__(self, part: slice) -> "Part":
        return Part(self, part)


class Part:
    def __init__(self, whole: CachedBuffer, part: slice):
        self.whole, self.part = whole, part

    def flush(self) -> None:
        if self.whole.broken:
            raise ValueError("the buffer was freed")
        if self.whole.flushes:
            self.whole.memory[self.part] = self.whole.copy[self.part]

    def invalidate(self) -> None:
        self.whole.copy[self.part] = self.whole.memory[self.part]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_example(tmp_path_factory.mktemp("network"), "pynq")


@pytest.fixture
def buffer(network: Path, tmp_path: Path) -> Generator[CachedBuffer]:
    folder = tmp_path / "device"
    with served(folder, network, tmp_path, "pynq"):
        memory = np.memmap(folder / "dev" / NAME, np.uint8, "r+")
        yield CachedBuffer(cast(Bytes, memory), BASE)


def load(network: Path, buffer: CachedBuffer, folder: Path) -> ceras_vta.Network:
    registers = str(folder / "device" / "mem")
    shared = cast("ceras_vta.Buffer", buffer)
    return ceras_vta.load(network, buffer=shared, register_file=registers, timeout_ms=5000)


@pytest.mark.slow
def test_network(network: Path, buffer: CachedBuffer, tmp_path: Path):
    images = [{"image": image[None]} for image in samples(2)]
    expected = list(open_folder(network).run(images))
    with load(network, buffer, tmp_path) as loaded:
        for inputs, wanted in zip(images, expected, strict=True):
            found = loaded.run(inputs)
            np.testing.assert_array_equal(found["probabilities"], wanted["probabilities"])
        names = [name for name, _, _ in loaded.times()]
        assert names[0] == "stem/conv/Conv to wide/conv/Conv" and all(
            us > 0 for _, us, _ in loaded.times()
        )
        with pytest.raises(ValueError, match=r"input 'image' is missing; got picture"):
            loaded.run({"picture": images[0]["image"]})
        with pytest.raises(ValueError, match=r"is float32 \[1, 8, 8\], expected float32 \[1, 1"):
            loaded.run({"image": images[0]["image"][0]})
        buffer.flushes = False
        other = loaded.run({"image": 16 - images[0]["image"]})["probabilities"]
        assert not np.array_equal(other, expected[0]["probabilities"])
        buffer.broken = True
        with pytest.raises(ceras_vta.VtaError, match=r"launch 0 .* cannot clean") as raised:
            loaded.run(images[0])
        assert str(raised.value.__cause__) == "the buffer was freed"


@pytest.mark.slow
def test_errors_are_the_drivers(network: Path, tmp_path: Path):
    small = CachedBuffer(np.zeros(MEMORY_BYTES // 256, np.uint8), BASE)
    with pytest.raises(ceras_vta.VtaError, match="4096 bytes of contiguous memory, the network"):
        load(network, small, tmp_path)
    with pytest.raises(ceras_vta.VtaError, match="no buffer udmabuf7 in "):
        ceras_vta.load(network, udmabuf="udmabuf7", classes=str(tmp_path))


def test_pynq_has_older_pythons():
    text = Path(ceras_vta.__file__).read_text()
    assert "from __future__ import annotations" in text
    ast.parse(text, feature_version=(3, 8))
