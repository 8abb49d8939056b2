"""Test the driver of a compiled folder on a mock device at 0x10000000 with caches."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from backends.device.folder import build_caches, make_folder, operations
from backends.vta_driver.board import (
    MEMORY_BYTES,
    Mock,
    build,
    compile_example,
    samples,
    served,
)
from backends.vta_driver.mock_device import DIRTY
from numpy.typing import NDArray

from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.encoding import decode
from ceras_ir.backends.vta.machine.isa import Load, MemoryType, Store
from ceras_ir.pipeline.build import open_folder

pytestmark = pytest.mark.slow
BOARDS = ["pynq", "de10nano"]
COUNT = 2
"""The number of samples. The second sample finds the caches as the first leaves them."""


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_caches(tmp_path_factory.mktemp("caches"))


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("networks")
    return {board: compile_example(folder, board) for board in BOARDS}


@pytest.fixture(scope="module")
def expected(networks: dict[str, Path]) -> NDArray[np.float32]:
    """Return the results of the built-in simulator without a driver."""
    run = open_folder(networks["pynq"]).run([{"image": image[None]} for image in samples(COUNT)])
    return np.concatenate([outputs["probabilities"] for outputs in run]).astype(np.float32)


def wanted_operations(network: Path) -> list[tuple[str, int, int]]:
    """Return the cache operations of a run, as listed in the manifest."""
    launches = json.loads((network / "manifest.json").read_text())["vta"]["launches"]
    found: list[tuple[str, int, int]] = []
    for launch in launches:
        for kind in ("clean", "invalidate"):
            found += [(kind, offset, size) for offset, size in launch[kind]]
    return found


def read_again(network: Path) -> list[tuple[str, int, int]]:
    """Return the clean operations of memory that a launch stores and then loads again."""
    board = load_board(str(network / "vta_config.json"))
    unit = board.element_bytes(MemoryType.OUT)
    found: list[tuple[str, int, int]] = []
    for launch in json.loads((network / "manifest.json").read_text())["vta"]["launches"]:
        stored: set[int] = set()
        again: set[int] = set()
        for i in decode((network / launch["instructions"]).read_bytes(), board):
            if not isinstance(i, Store | Load):
                continue
            rows = (i.dram_base + row * i.x_stride for row in range(i.y_size))
            touched = {start + x for start in rows for x in range(i.x_size)}
            if isinstance(i, Store):
                stored |= touched
            elif i.memory is MemoryType.INP:
                again |= touched & stored
        for offset, size in launch["clean"]:
            if again & set(range(offset // unit, (offset + size) // unit)):
                found.append(("clean", offset, size))
    return found


@pytest.mark.parametrize("board", BOARDS)
def test_samples_are_exact_and_caches_see_the_manifest_alone(
    board: str,
    networks: dict[str, Path],
    caches: Path,
    expected: NDArray[np.float32],
    tmp_path: Path,
):
    with served(tmp_path / "device", networks[board], caches, board) as mock:
        log = tmp_path / "log"
        done = mock.run(samples(COUNT), "--times", MOCK_LOG=str(log))
        assert (done.returncode, done.stderr) == (0, "")
        np.testing.assert_array_equal(mock.outputs(), expected)
        again = mock.run(samples(1))  # Another process, after the first.
        assert (again.returncode, again.stderr) == (0, "")
        np.testing.assert_array_equal(mock.outputs(), expected[:1])
    first, *others = operations(log)
    assert first[:2] == ("clean", 0)  # Constants and instructions, a single time.
    assert others == COUNT * wanted_operations(networks[board])
    lines = done.stdout.splitlines()
    assert lines[0].startswith("launch 0 (stem/conv/Conv to ")
    # The counter of the Chisel design equals the prediction of the compiler.
    launches = json.loads((networks[board] / "manifest.json").read_text())["vta"]["launches"]
    cycles = [int(line.split()[-2]) for line in lines]
    predicted = [launch["cycles"] for launch in launches]
    assert sum(len(launch["layers"]) for launch in launches) > len(launches)
    assert cycles == (predicted if board == "de10nano" else [0] * len(launches))


def differs(
    mock: Mock, expected: NDArray[np.float32], ignored: int, evicted: Sequence[int]
) -> bool:
    """
    Return whether a run without an operation is wrong if lines are written back at one of the
    times.
    """
    for at in evicted:
        done = mock.run(samples(COUNT), MOCK_IGNORE=str(ignored), MOCK_EVICT=str(at))
        assert done.returncode == 0, done.stderr
        if not np.array_equal(mock.outputs(), expected):
            return True
    return False


def test_every_missing_flush_or_invalidation_shows(
    networks: dict[str, Path], caches: Path, expected: NDArray[np.float32], tmp_path: Path
):
    """
    Each operation in the manifest is needed, for some behavior of the caches. If a launch loads its
    stores again, the operation is needed if lines are written back while the launch runs.
    """
    with served(tmp_path / "device", networks["de10nano"], caches, "de10nano") as mock:
        wanted, inner = wanted_operations(networks["de10nano"]), read_again(networks["de10nano"])
        count = len(wanted)
        assert 0 < sum(operation in inner for operation in wanted) < count / 2
        for number in range(count + 2, 2 * count + 2):
            if wanted[number - count - 2] in inner:
                mock.run(samples(COUNT), MOCK_IGNORE=str(number), MOCK_DIRTY=DIRTY)
                assert not np.array_equal(mock.outputs(), expected), f"operation {number}"
                (mock.folder / DIRTY).unlink()
                continue
            following = range(number + 1, 2 * count + 3)
            assert differs(mock, expected, number, [-1, *following]), f"operation {number}"
        # With all operations, the caches may write lines back at any time.
        assert not differs(mock, expected, -1, range(1, 2 * count + 2))
        mock.run(samples(COUNT), MOCK_DIRTY=DIRTY)
        np.testing.assert_array_equal(mock.outputs(), expected)


def test_a_flush_that_the_driver_leaves_out_fails(
    networks: dict[str, Path], caches: Path, expected: NDArray[np.float32], tmp_path: Path
):
    """The result is wrong if the source does not contain the call."""
    network = copied(networks["de10nano"], tmp_path)
    source = network / "driver" / "vta.c"
    text = source.read_text()
    call = "memory->clean(memory->context, launch->clean[i].offset, launch->clean[i].size)"
    assert text.count(call) == 1
    source.write_text(text.replace(call, "0"))
    build(network)
    with served(tmp_path / "device", network, caches, "de10nano") as mock:
        assert differs(mock, expected, -1, [-1])


def test_done_of_the_last_stream_is_not_taken_for_this_one(
    networks: dict[str, Path], caches: Path, expected: NDArray[np.float32], tmp_path: Path
):
    network = copied(networks["pynq"], tmp_path)
    source = network / "driver" / "vta_registers.c"
    text, condition = source.read_text(), "if (read_register(COMPUTE + COMPUTE_DONE) & 1) {"
    assert text.count(condition) == 1
    source.write_text(text.replace(condition, "if (no_op == 0) {"))
    build(network)
    with served(tmp_path / "device", network, caches, "pynq") as mock:
        assert differs(mock, expected, -1, [-1])


def copied(network: Path, folder: Path) -> Path:
    subprocess.run(["cp", "-r", str(network), str(folder / "network")], check=True)
    return folder / "network"


@pytest.mark.parametrize(
    ("board", "message"),
    [
        (
            "pynq",
            "not done within 50 ms (fetch 0x1, load 0x81, compute 0x81, ",
        ),
        (
            "de10nano",
            "not finished within 50 ms (control 0x1, count 0x",
        ),
    ],
)
def test_time_out(
    board: str, message: str, networks: dict[str, Path], caches: Path, tmp_path: Path
):
    with served(tmp_path / "device", networks[board], caches, board, "--hang") as mock:
        done = mock.run(samples(1), "--timeout", "50")
    assert done.returncode == 1
    assert done.stderr.startswith(f"vta_run: error: stem/conv/Conv to wide/conv/Conv: {message}")
    assert "load the bitstream again" in done.stderr


def test_addresses_beyond_the_memory_stop_the_device(
    networks: dict[str, Path], caches: Path, tmp_path: Path
):
    """Without the offset that VTA adds to addresses, the time-out message names the remedy."""
    with served(tmp_path / "device", networks["de10nano"], caches, "de10nano") as mock:
        done = mock.run(samples(1), "--offset", "0", "--timeout", "300")
    assert done.returncode == 1 and "check bitstream and addresses" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory", "udmabuf7"], "no buffer udmabuf7 in class/u-dma-buf: load the module"),
        (["--register-file", "absent"], "absent: No such file or directory"),
        (["--registers", "0"], "has no DRIVER_REGISTERS"),
        (["--registers", "0x43c00010"], "registers at 0x43c00010, expected a multiple of 4096"),
        (["--folder", "absent"], "absent/dram.bin: No such file or directory"),
        (["--offset", "0xf0000000"], "VTA reaches the first 4 GiB only"),
    ],
)
def test_refused(
    options: list[str], message: str, networks: dict[str, Path], caches: Path, tmp_path: Path
):
    make_folder(tmp_path / "device", 0x10000000, MEMORY_BYTES)
    done = Mock(tmp_path / "device", networks["pynq"], caches).run(samples(1), *options)
    assert done.returncode == 1
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


def test_too_little_memory(networks: dict[str, Path], caches: Path, tmp_path: Path):
    make_folder(tmp_path / "device", 0x10000000, 4096)
    done = Mock(tmp_path / "device", networks["pynq"], caches).run(samples(1))
    found = re.search(r"4096 bytes of contiguous memory, the network needs (\d+)$", done.stderr)
    assert found is not None and int(found[1]) > (networks["pynq"] / "dram.bin").stat().st_size


def test_input_ends_early(networks: dict[str, Path], caches: Path, tmp_path: Path):
    with served(tmp_path / "device", networks["pynq"], caches, "pynq") as mock:
        done = mock.run(samples(2)[:, :, :5])
    assert "the input ends in the middle of a sample" in done.stderr
