"""Run the driver on a mock device in Verilog, with caches between them."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from backends.device.folder import build_caches, make_folder, operations
from backends.nnet.networks import written
from backends.nnet.test_computed_weights import attention
from graph_networks import random_array
from numpy.typing import NDArray

from ceras_ir.backends.nnet.circuits import CircuitSize
from ceras_ir.backends.nnet.engine import NnetModel, build_board_engine, build_simulation
from ceras_ir.backends.nnet.reader import read
from ceras_ir.backends.nnet.tool import main as nnet
from ceras_ir.dialects.graph import element_of, shape_of
from ceras_ir.driver.compile import main as compile_model
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import open_folder
from ceras_ir.support.native import has_verilator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_verilator(), reason="verilator is not installed"),
]

BASE, REGISTERS = 0x3_1000_0000, 0xA000_0000
MEMORY_BYTES = 1 << 18
SIZE = CircuitSize(lanes=4, bus_bytes=8, line_bytes=32768, result_bytes=8192, paired=False)
HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "digits"
COUNT = 2
"""The number of samples. The second sample finds the caches as the first leaves them."""

Samples = NDArray[np.float32]


@dataclass
class Board:
    """A mock device, and an engine that runs a network on it."""

    folder: Path
    engine: Path
    model: Path
    caches: Path
    log: Path
    """The output of the device: the number of layers of each start."""

    def layers(self) -> list[int]:
        """Return the number of layers that each start executed."""
        return [int(line.split()[0]) for line in self.log.read_text().splitlines()[1:]]

    def run(
        self, inputs: Samples | NDArray[np.int8], *options: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        inputs.tofile(self.folder / "in.bin")
        places = ["--memory", "udmabuf0", "--devices", "dev", "--classes", "class"]
        places += ["--registers", hex(REGISTERS), "--register-file", "mem", *options]
        files = [str(self.model), "in.bin", "out.bin", "--samples", str(len(inputs))]
        return subprocess.run(
            [str(self.engine), *files, *places],
            cwd=self.folder,
            env={**os.environ, "LD_PRELOAD": str(self.caches), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def outputs(self) -> Samples:
        return np.fromfile(self.folder / "out.bin", np.float32).reshape(-1, 10)


@pytest.fixture(scope="module")
def device() -> Path:
    folders = [HERE.parent / "device"]
    return build_simulation("nnet_mock_device", [HERE / "mock_device.cpp"], SIZE, folders)


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_caches(tmp_path_factory.mktemp("caches"))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("network")
    data = ["--calibrate", str(EXAMPLE / "digits_calibration.npz")]
    options = ["--target", "nnet", "--quantize", "int8", *data, "-o", str(folder)]
    assert compile_model([str(EXAMPLE / "digits.onnx"), *options]) == 0
    return folder


def samples(count: int = COUNT) -> Samples:
    return np.load(EXAMPLE / "digits_test.npz")["image"][:count].astype(np.float32)


@pytest.fixture(scope="module")
def expected(network: Path) -> Samples:
    """Return the results of the engine on the development machine."""
    run = open_folder(network).run([{"image": image[None]} for image in samples()])
    return np.concatenate([outputs["probabilities"] for outputs in run]).astype(np.float32)


@contextmanager
def served(
    folder: Path, device: Path, network: Path, caches: Path, *options: str
) -> Generator[Board]:
    folder.mkdir()
    make_folder(folder, BASE, MEMORY_BYTES)
    command = [str(device), str(folder), hex(REGISTERS), hex(BASE), *options]
    log = folder / "starts"
    with log.open("w") as output, subprocess.Popen(command, stdout=output) as process:
        try:
            while log.read_text() != "ready\n":
                assert process.poll() is None
                time.sleep(0.01)
            yield Board(folder, build_board_engine(), network / "model.nnet", caches, log)
        finally:
            process.kill()


@pytest.fixture
def board(tmp_path: Path, device: Path, network: Path, caches: Path) -> Generator[Board]:
    with served(tmp_path / "device", device, network, caches) as found:
        yield found


def crossings(engine: Path, model: Path, folder: Path) -> list[tuple[str, int, int]]:
    """Return the transfer log: values that one side writes and the other side loads."""
    inputs = samples(1)
    inputs.tofile(folder / "in.bin")
    command = [str(engine), str(model), "in.bin", "out.bin", "--transfers"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    lines = re.findall(r"on (fpga|cpu) reads \[(\d+), (\d+)\)", done.stdout)
    kinds = {"fpga": "clean", "cpu": "invalidate"}
    return [(kinds[side], int(start), int(end)) for side, start, end in lines]


def covers(found: Sequence[tuple[str, int, int]], wanted: tuple[str, int, int]) -> bool:
    kind, start, end = wanted
    return any(k == kind and at <= start and at + size >= end for k, at, size in found)


def test_samples_are_exact_and_each_crossing_is_maintained(
    board: Board, expected: Samples, tmp_path: Path
):
    log = tmp_path / "log"
    done = board.run(samples(), "--cycles", "cycles", MOCK_LOG=str(log))
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(board.outputs(), expected)
    again = board.run(samples(1))  # Another process, after the first.
    assert (again.returncode, again.stderr) == (0, "")
    np.testing.assert_array_equal(board.outputs(), expected[:1])
    found = operations(log)
    assert found[0][:2] == ("clean", 0)  # Constants are transferred a single time.
    assert all(covers(found, wanted) for wanted in crossings(board.engine, board.model, tmp_path))
    lines = (board.folder / "cycles").read_text().splitlines()
    assert sum(line != "0" and int(line.split()[0]) > 0 for line in lines) >= COUNT * 5


def test_what_the_cpu_packs_reaches_the_core(tmp_path: Path, device: Path, caches: Path):
    """In products of activations, weights change for each sample, and layers share the address."""
    module = attention(tokens=21, width=9)
    (model := tmp_path / "model.nnet").write_bytes(written(module))
    arguments = main_function(module).body.block.args
    inputs = [
        random_array((COUNT, *shape_of(value)), element_of(value), i).astype(np.int8)
        for i, value in enumerate(arguments)
    ]
    named = {f"input{i}": array for i, array in enumerate(inputs)}
    expected = NnetModel(model).run_samples(named)
    given = np.concatenate([array.reshape(COUNT, -1) for array in inputs], axis=1)
    with served(tmp_path / "device", device, tmp_path, caches) as board:
        done = board.run(given, "--cycles", "cycles")
        assert (done.returncode, done.stderr) == (0, "")
        outputs = np.fromfile(board.folder / "out.bin", np.int8).reshape(COUNT, -1)
        cycles = (board.folder / "cycles").read_text().splitlines()
    wanted = [array.reshape(COUNT, -1) for array in expected.values()]
    np.testing.assert_array_equal(outputs, np.concatenate(wanted, axis=1))
    assert len(cycles) == COUNT * 6 and all(int(line) > 0 for line in cycles)


def test_an_engine_that_cmake_builds(board: Board, expected: Samples, tmp_path: Path):
    """
    The output of `ceras-nnet engine` is complete, and all parts use the same order of weights.
    """
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    folder = tmp_path / "engine"
    assert nnet(["engine", str(folder)]) == 0
    build = folder / "build"
    options = ["-DCERAS_BOARD=ON", "-DCMAKE_BUILD_TYPE=None"]
    subprocess.run(["cmake", "-S", str(folder), "-B", str(build), *options], check=True)
    subprocess.run(["cmake", "--build", str(build)], check=True)
    board.engine = build / "ceras_engine"
    done = board.run(samples())
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(board.outputs(), expected)


def test_an_interrupt_ends_the_wait(board: Board, expected: Samples):
    """A pipe behaves as a UIO device: a write enables the interrupt, a read waits for it."""
    os.mkfifo(board.folder / "interrupt")
    done = board.run(samples(), "--interrupt", "interrupt")
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(board.outputs(), expected)


def test_every_left_out_operation_shows(board: Board, expected: Samples, tmp_path: Path):
    """
    Each cache operation of the second sample is needed.

    Without it, the result is wrong, or it is wrong if dirty lines are written back while a launch
    runs. The only exception is the invalidation of a line that the CPU writes in part, because the
    line has no other contents here.
    """
    tensors = read(board.model.read_bytes()).tensors
    parts = {t.offset + t.nbytes // 64 * 64 for t in tensors if t.nbytes % 64}
    log = tmp_path / "log"
    board.run(samples(), MOCK_LOG=str(log))
    found = operations(log)
    half = (len(found) - 1) // 2
    assert half >= 3
    unneeded: list[str] = []
    for number in range(half + 2, len(found) + 1):
        wrong = False
        for dirty in ({}, {"MOCK_DIRTY": "dirty"}):
            board.run(samples(), MOCK_IGNORE=str(number), **dirty)
            wrong = wrong or not np.array_equal(board.outputs(), expected)
            (board.folder / "dirty").unlink(missing_ok=True)
        kind, at, size = found[number - 1]
        if not wrong and (kind, size, at in parts) != ("invalidate", 64, True):
            unneeded.append(f"{number}: {kind} {at} {size}")
    assert not unneeded
    # With all operations, the caches may write lines back at any time.
    for number in range(half + 2, len(found) + 1):
        board.run(samples(), MOCK_EVICT=str(number))
        np.testing.assert_array_equal(board.outputs(), expected)
    board.run(samples(), MOCK_DIRTY="dirty")
    np.testing.assert_array_equal(board.outputs(), expected)


def test_successive_layers_need_a_single_start(
    tmp_path: Path, device: Path, network: Path, caches: Path, expected: Samples
):
    """Layers form queues, unless the cycles of each layer are requested."""
    starts: list[list[int]] = []
    for number, options in enumerate(([], ["--cycles", "cycles"])):
        with served(tmp_path / f"device{number}", device, network, caches) as board:
            done = board.run(samples(1), *options)
            np.testing.assert_array_equal(board.outputs(), expected[:1])
            assert (done.returncode, done.stderr) == (0, "")
        starts.append(board.layers())
    queued, single = starts
    assert sum(queued) == len(single) and set(single) == {1}
    assert len(single) >= 5 and len(queued) <= 2


def test_an_error_of_the_memory_is_reported(
    tmp_path: Path, device: Path, network: Path, caches: Path
):
    with served(tmp_path / "device", device, network, caches, "--error") as board:
        done = board.run(samples(1))
        names = [layer.name for layer in read(board.model.read_bytes()).layers]
        (finished, *_) = board.layers()
    assert done.returncode == 1
    found = re.search(
        r"error: layer (\d+) '(\S+)': the memory answered a read of the core with an error: check "
        r"the memory port, and the address of the buffer$",
        done.stderr,
    )
    assert found is not None and found[2] == names[int(found[1])]
    assert finished > 0 and int(found[1]) >= finished


@pytest.mark.parametrize(
    ("mode", "end", "after"),
    [
        ("--hang", "the abort does not end; check clock, reset and addresses, and load the "
         "bitstream again", "is busy with another process's launch, or hangs"),
        ("--stuck", "and aborted; increase --timeout, or check the memory port", "and aborted"),
    ],
)  # fmt: skip
def test_time_out(
    mode: str, end: str, after: str, tmp_path: Path, device: Path, network: Path, caches: Path
):
    with served(tmp_path / "device", device, network, caches, mode) as board:
        done = board.run(samples(1), "--timeout", "50")
        assert done.returncode == 1
        start = r"error: layer \d+ '\S+': not done within 50 ms \(control 0x"
        found = re.search(start, done.stderr)
        assert found is not None and end in done.stderr
        assert after in board.run(samples(1), "--timeout", "50").stderr


def test_another_design_is_refused(tmp_path: Path, device: Path, network: Path, caches: Path):
    with served(tmp_path / "device", device, network, caches, "--other") as board:
        done = board.run(samples(1))
    assert done.returncode == 1
    assert "no nnet core at 0xa0000000: the identity reads 0xdeadbeef" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory", "udmabuf7"], "no buffer udmabuf7 in class/u-dma-buf: load the module"),
        (["--register-file", "absent"], "absent: No such file or directory"),
        (["--registers", "0xa0000010"], "registers at 0xa0000010, expected a multiple of 4096"),
        (["--registers", "/dev/uio99"], "/dev/uio99: No such file or directory"),
        (["--interrupt", "absent"], "absent: No such file or directory"),
    ],
)
def test_refused(board: Board, options: list[str], message: str):
    done = board.run(samples(1), *options)
    assert done.returncode == 1
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


def test_too_little_memory(board: Board, tmp_path: Path):
    (board.folder / "class/u-dma-buf/udmabuf0/size").write_text("8192\n")
    done = board.run(samples(1))
    found = re.search(
        r"the model needs (\d+) bytes, the buffer udmabuf0 has 8192: load u-dma-buf with "
        r"udmabuf0=(\d+)$",
        done.stderr,
    )
    assert found is not None and int(found[2]) >= int(found[1]) > 8192


def test_a_buffer_beyond_the_addresses_of_the_core(board: Board):
    (board.folder / "class/u-dma-buf/udmabuf0/phys_addr").write_text(f"{1 << 40:#x}\n")
    done = board.run(samples(1))
    assert "the core reaches addresses below 0x10000000000" in done.stderr
