"""Build generated C for 64-bit Arm with a cross compiler, and run it under qemu's user mode."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceras_ir.network.artefacts import TensorInfo

PREFIX = "aarch64-linux-gnu-"
QEMU = "qemu-aarch64"

ARCHITECTURES: dict[str, tuple[str, ...]] = {
    "portable": ("-march=armv8-a", "-DMODEL_NEON=0"),
    "neon": ("-march=armv8-a",),
    "dotprod": ("-march=armv8.2-a+dotprod",),
    "i8mm": ("-march=armv8.6-a",),
}
"""Flags of every choice of kernels."""

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-O3")

Array = NDArray[np.generic]


def available() -> bool:
    """Whether compiler and emulator are installed."""
    return all(shutil.which(tool) for tool in (f"{PREFIX}gcc", QEMU))


def build_program(folder: Path, main: Path, flags: Sequence[str]) -> Path:
    """The model's files in `folder` with a main program, linked statically."""
    sources = [folder / "model.c", folder / "model_weights.c", main]
    program = folder / main.stem
    command = [f"{PREFIX}gcc", *STRICT, *flags, f"-I{folder}", "-static", *map(str, sources)]
    subprocess.run([*command, "-o", str(program), "-lm"], check=True)
    return program


def run_program(
    program: Path,
    sample: Mapping[str, Array],
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    emulator: str = QEMU,
) -> dict[str, Array]:
    """What `model_run` makes of one sample, through files of raw tensors."""
    source, target = program.parent / "in.bin", program.parent / "out.bin"
    arrays = [np.asarray(sample[t.name], order="C").astype(t.dtype) for t in inputs]
    source.write_bytes(b"".join(a.tobytes() for a in arrays))
    cpu = ["-cpu", "max"] if emulator == QEMU else []
    subprocess.run([emulator, *cpu, program, source, target], check=True)
    data, at, results = target.read_bytes(), 0, dict[str, Array]()
    for info in outputs:
        results[info.name] = np.frombuffer(data, info.dtype, info.size, at).reshape(info.shape)
        at += info.nbytes
    assert at == len(data)
    return results


def has_instruction(program: Path, name: str) -> bool:
    """Whether the program uses an instruction."""
    command = [f"{PREFIX}objdump", "-d", str(program)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.search(rf"\t{name}\t", text) is not None
