"""Run the driver of a compiled folder on a mock device in Verilog, with caches between them."""

import ast
import os
import re
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.dataflow_driver.shells import build_bench
from backends.device.folder import build_caches, make_folder, operations
from numpy.typing import NDArray

from ceras_ir.backends.dataflow.runtime import ceras_circuit
from ceras_ir.driver.compile import main as compile_model
from ceras_ir.pipeline.build import open_folder
from ceras_ir.support.native import has_verilator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_verilator(), reason="verilator is not installed"),
]

BASE, REGISTERS = 0x3_1000_0000, 0x43C0_0000
MEMORY_BYTES = 1 << 16
HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "digits"
COUNT = 2

Samples = NDArray[np.float32]


def compile_digits(folder: Path, *options: str) -> Path:
    data = ["--calibrate", str(EXAMPLE / "digits_calibration.npz"), *options]
    command = ["--target", "dataflow", "--board", "zedboard", *data, "-o", str(folder)]
    assert compile_model([str(EXAMPLE / "digits.onnx"), *command]) == 0
    make = ["make", "-s", "-C", str(folder / "driver"), "CFLAGS=-O0"]
    done = subprocess.run(make, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_digits(tmp_path_factory.mktemp("network") / "out", "--dsp", "40")


@pytest.fixture(scope="module")
def device(network: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bench(network, HERE / "mock_device.cpp", tmp_path_factory.mktemp("device"))


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_caches(tmp_path_factory.mktemp("caches"))


def samples(count: int = COUNT) -> Samples:
    return np.load(EXAMPLE / "digits_test.npz")["image"][:count].astype(np.float32)


@pytest.fixture(scope="module")
def expected(network: Path) -> Samples:
    """Return the results of the simulated circuit without shell and driver."""
    run = open_folder(network).run([{"image": image[None]} for image in samples()])
    return np.concatenate([outputs["probabilities"] for outputs in run]).astype(np.float32)


@dataclass
class Board:
    """A mock device, and a compiled network for it."""

    folder: Path
    network: Path
    caches: Path
    log: Path

    def run(
        self, inputs: Samples, *options: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        inputs.tofile(self.folder / "in.bin")
        places = ["--devices", "dev", "--classes", "class", "--register-file", "mem", *options]
        return subprocess.run(
            [str(self.network / "driver" / "circuit_run"), *places, "in.bin", "out.bin"],
            cwd=self.folder,
            env={**os.environ, "LD_PRELOAD": str(self.caches), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def outputs(self) -> Samples:
        return np.fromfile(self.folder / "out.bin", np.float32).reshape(-1, 10)

    def frames(self) -> list[int]:
        """Return the number of frames of each launch and reset of the device."""
        return [int(line.split()[0]) for line in self.log.read_text().splitlines()[1:]]

    def load(self, **settings: Any) -> ceras_circuit.Network:
        """Load the network in this process, without caches."""
        places = {"devices": str(self.folder / "dev"), "classes": str(self.folder / "class")}
        file = str(self.folder / "mem")
        return ceras_circuit.load(
            self.network, udmabuf="udmabuf0", register_file=file, **places, **settings
        )


@contextmanager
def served(
    folder: Path, device: Path, network: Path, caches: Path, *options: str
) -> Generator[Board]:
    folder.mkdir()
    make_folder(folder, BASE, MEMORY_BYTES)
    command = [str(device), str(folder), hex(REGISTERS), hex(BASE), *options]
    log = folder / "launches"
    with (
        log.open("w") as output,
        subprocess.Popen(command, stdout=output, cwd=network / "hdl") as process,
    ):
        try:
            while log.read_text() != "ready\n":
                assert process.poll() is None
                time.sleep(0.01)
            yield Board(folder, network, caches, log)
        finally:
            process.kill()


@pytest.fixture
def board(tmp_path: Path, device: Path, network: Path, caches: Path) -> Generator[Board]:
    with served(tmp_path / "device", device, network, caches) as found:
        yield found


def test_samples_are_exact(board: Board, expected: Samples, tmp_path: Path):
    log = tmp_path / "log"
    done = board.run(samples(), "--times", MOCK_LOG=str(log))
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(board.outputs(), expected)
    assert re.fullmatch(r"1 frames: [\d.]+ us, \d+ cycles\n", done.stdout)
    again = board.run(samples(1))  # Another process, after the first.
    assert (again.returncode, again.stderr) == (0, "")
    np.testing.assert_array_equal(board.outputs(), expected[:1])
    # The entire memory a single time, then the input before and the outputs after each launch.
    found = operations(log)
    assert found[0] == ("clean", 0, MEMORY_BYTES)
    assert [kind for kind, _, _ in found[1:]] == ["clean", "invalidate"] * COUNT


def test_every_cache_operation_is_needed(board: Board, expected: Samples, tmp_path: Path):
    """Without one, the second sample is wrong; with all, lines may be written at any time."""
    for number in (4, 5):
        board.run(samples(), MOCK_IGNORE=str(number))
        assert not np.array_equal(board.outputs(), expected)
    for number in range(1, 6):
        board.run(samples(), MOCK_EVICT=str(number))
        np.testing.assert_array_equal(board.outputs(), expected)
    board.run(samples(), MOCK_DIRTY="dirty")
    np.testing.assert_array_equal(board.outputs(), expected)


def test_an_interrupt_ends_the_wait(board: Board, expected: Samples):
    """A pipe behaves as a UIO device: a write enables the interrupt, a read waits for it."""
    os.mkfifo(board.folder / "interrupt")
    done = board.run(samples(), "--interrupt", "interrupt")
    assert (done.returncode, done.stderr) == (0, "")
    np.testing.assert_array_equal(board.outputs(), expected)


@pytest.mark.parametrize(
    ("mode", "status", "message"),
    [
        ("--read-error", 4, "the memory answered a read of the circuit with an error: check"),
        ("--write-error", 4, "the memory answered a write of the circuit with an error: check"),
        ("--stuck", 6, r"not done within 50 ms: 0 frames sent, 0 written; the launch was ended"),
        ("--hang", 7, r"not done within 50 ms: .*; a reset does not end either"),
        ("--other", 3, "the bitstream has the circuit 0x12345678, this network needs 0x"),
    ],
)
def test_failures(
    mode: str, status: int, message: str, tmp_path: Path, device: Path, network: Path, caches: Path
):
    with served(tmp_path / "device", device, network, caches, mode) as board:
        limit = ["--timeout", "50"] if mode in ("--stuck", "--hang") else []
        done = board.run(samples(1), *limit)
        assert done.returncode == status, done.stderr
        assert re.match(f"circuit_run: error: {message}", done.stderr)
        assert len(done.stderr.splitlines()) == 1
        if mode == "--hang":
            done = board.run(samples(1), "--timeout", "50")
            assert done.returncode == 7 and "does not become idle within 50 ms" in done.stderr


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--memory", "udmabuf7"], 1, "no buffer udmabuf7 in class/u-dma-buf: load the module"),
        (["--register-file", "absent"], 1, "absent: No such file or directory"),
        (["--interrupt", "absent"], 1, "absent: No such file or directory"),
        (["--uio", "/dev/uio99"], 1, "/dev/uio99: No such file or directory"),
        (["--registers", "0x43c00010"], 1, "registers at 0x43c00010, expected a multiple of 4096"),
        (["--registers", "0x50000000"], 3, "no circuit at 0x50000000: the identity reads 0x0,"),
    ],
)
def test_refused(board: Board, options: list[str], status: int, message: str):
    done = board.run(samples(1), *options)
    assert done.returncode == status
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


def test_memory_that_does_not_fit(board: Board):
    size = board.folder / "class/u-dma-buf/udmabuf0/size"
    size.write_text("4096\n")
    done = board.run(samples(1))
    assert re.search(r"4096 bytes of contiguous memory, the network needs \d+$", done.stderr)
    size.write_text(f"{MEMORY_BYTES}\n")
    (board.folder / "class/u-dma-buf/udmabuf0/phys_addr").write_text(f"{1 << 40:#x}\n")
    done = board.run(samples(1))
    assert done.returncode == 1 and "addresses below 2^40" in done.stderr


def test_python(board: Board, expected: Samples):
    """Run single inferences, frames back to back in several launches, and wrong frames."""
    (board.folder / "class/u-dma-buf/udmabuf0/size").write_text("8192\n")
    with board.load(timeout_ms=60000) as loaded:
        for image, wanted in zip(samples(), expected, strict=True):
            found = loaded.run({"image": image[None]})["probabilities"]
            np.testing.assert_array_equal(found.reshape(-1), wanted)
        with pytest.raises(ValueError, match=r"input 'image' is missing; got picture"):
            loaded.run({"picture": samples(1)})
        (_, rows, columns, channels) = frame_shape(board.network)
        rng = np.random.default_rng(1)
        frames = rng.integers(-128, 128, (60, rows, columns, channels)).astype(np.int8)
        before = len(board.frames())
        (found,) = loaded.run_circuit(frames)
        launches = board.frames()[before:]
        assert sum(launches) == len(frames) and len(launches) > 1 and launches[0] > 10
        singles = [loaded.run_circuit(frame[None])[0] for frame in frames[:5]]
        np.testing.assert_array_equal(found[:5], np.concatenate(singles))
        (last,) = loaded.run_circuit(frames[-1:])
        np.testing.assert_array_equal(found[-1:], last)
        assert loaded.times()[0] == 1 and loaded.times()[1] > 0
        # A frame that is too short is reported, and the next is exact.
        with pytest.raises(ceras_circuit.CircuitError, match="the last frame is incomplete") as e:
            loaded.transfer(np.zeros(8, np.uint8))
        assert e.value.kind == "wrong frame"
        np.testing.assert_array_equal(loaded.run_circuit(frames[-1:])[0], last)
        with pytest.raises(ceras_circuit.CircuitError, match="rejected the registers") as e:
            loaded.transfer(np.zeros(5, np.uint8))
        assert e.value.status == 8
    with pytest.raises(ceras_circuit.CircuitError, match="no network is open"):
        loaded.run({"image": samples(1)})


def frame_shape(network: Path) -> tuple[int, int, int, int]:
    """Return frames, rows, columns and channels of an inference at the input port."""
    text = (network / "circuit_frames.py").read_text()
    found = re.search(r"INPUT = \((\d+), (\d+), (\d+), (\d+), ", text)
    assert found is not None
    count, rows, columns, channels = map(int, found.groups())
    return count, rows, columns, channels


def test_another_network_is_refused(board: Board, tmp_path: Path):
    """The driver refuses the bitstream of the same network with other lanes."""
    board.network = compile_digits(tmp_path / "other", "--dsp", "60")
    done = board.run(samples(1))
    assert done.returncode == 3 and "load the bitstream that was built from this" in done.stderr


def test_pynq_has_older_pythons(network: Path):
    for name in ("ceras_circuit.py", "ceras_device.py"):
        text = (network / "driver" / name).read_text()
        assert "from __future__ import annotations" in text
        ast.parse(text, feature_version=(3, 8))


def test_the_sources_of_a_bitstream(network: Path, tmp_path: Path):
    """The overlay and the wrapper are accepted by dtc and Verilator."""
    command = ["verilator", "--lint-only", "-Wno-lint", "-Wno-style", "--top-module", "circuit_axi"]
    package = network / "board" / "circuit_registers.sv"
    sources = sorted({*network.glob("board/*v"), *network.glob("hdl/*.sv")} - {package})
    done = subprocess.run(
        [*command, str(package), *map(str, sources)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if shutil.which("dtc"):
        tree = ["dtc", "-@", "-I", "dts", "-O", "dtb", "-o", "/dev/null", "circuit.dtso"]
        subprocess.run(tree, cwd=network / "board", check=True)
