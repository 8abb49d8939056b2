"""Compile a network with the driver, and serve mock devices that run it."""

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from backends.device.folder import make_folder
from backends.vta_driver.mock_device import REGISTERS
from numpy.typing import NDArray

from ceras_ir.driver.compile import main as compile_model

BASE = 0x10000000
OFFSETS = {"pynq": 0, "de10nano": 0x80000000}
FLOWS = {"pynq": "hls", "de10nano": "chisel"}
MEMORY_BYTES = 1 << 20
HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "digits"

Samples = NDArray[np.float32]


def compile_example(folder: Path, board: str) -> Path:
    """Compile the example network for a board, and build `vta_run`."""
    out = folder / board
    arguments = ["--target", "vta", "--board", board, "-o", str(out)]
    calibration = ["--calibrate", str(EXAMPLE / "digits_calibration.npz")]
    assert compile_model([str(EXAMPLE / "digits.onnx"), *calibration, *arguments]) == 0
    build(out)
    return out


def build(out: Path) -> None:
    """Build the driver again without optimization, which needs most of the time."""
    make = ["make", "-s", "-C", str(out / "driver"), "CFLAGS=-O0"]
    done = subprocess.run(make, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def samples(count: int) -> Samples:
    return np.load(EXAMPLE / "digits_test.npz")["image"][:count].astype(np.float32)


@dataclass
class Mock:
    """A served device, for a network with a single input and a single output."""

    folder: Path
    network: Path
    caches: Path

    def command(self, *options: str) -> list[str]:
        places = ["--register-file", "mem", "--devices", "dev", "--classes", "class"]
        places += ["--folder", str(self.network), *options]
        return [str(self.network / "driver" / "vta_run"), *places, "in.bin", "out.bin"]

    def run(
        self, inputs: Samples, *options: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """
        Run `vta_run` with simulated caches. `environment` contains the settings of `caches.c`.
        """
        inputs.tofile(self.folder / "in.bin")
        return subprocess.run(
            self.command(*options),
            cwd=self.folder,
            env={**os.environ, "LD_PRELOAD": str(self.caches), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def outputs(self) -> NDArray[np.float32]:
        return np.fromfile(self.folder / "out.bin", np.float32).reshape(-1, 10)


@contextmanager
def served(folder: Path, network: Path, caches: Path, board: str, *options: str) -> Generator[Mock]:
    """Serve a mock device of a board in a separate process. The memory is at BASE."""
    folder.mkdir()
    make_folder(folder, BASE, MEMORY_BYTES)
    server = [sys.executable, str(HERE / "mock_device.py"), str(folder), FLOWS[board]]
    server += [str(network / "vta_config.json"), hex(BASE + OFFSETS[board]), *options]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield Mock(folder, network, caches)
        finally:
            process.kill()


def registers(board: str) -> int:
    return REGISTERS[FLOWS[board]]
