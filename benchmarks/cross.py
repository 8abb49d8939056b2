"""Build generated C for other processors, and run it under qemu's user mode."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceras_ir.network.artefacts import TensorInfo

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-O3")

Array = NDArray[np.generic]


MAIN = """\
#include <stdlib.h>
#include "model.h"
static @T@ x[@X@], y[@Y@];
int main(int argc, char **argv)
{
  for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; --i) model_run(x, y);
  return 0;
}
"""


def caller(
    folder: Path, kind: str, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]
) -> Path:
    """Write a program that runs a model of an input and an output of C type `kind`."""
    text = MAIN.replace("@X@", str(inputs[0].size)).replace("@Y@", str(outputs[0].size))
    path = folder / "count.c"
    path.write_text(text.replace("@T@", kind))
    return path


def instructions_of_run(
    emulator: Sequence[str], plugin: Path, program: Path, *arguments: str
) -> int:
    """
    Return the instructions of a run, without those of the start: `program` takes the number of runs
    and `arguments`, and `plugin` of qemu prints the count as the last word on stderr.
    """
    counts: list[int] = []
    for runs in (1, 2):
        command = [*emulator, "-plugin", str(plugin), str(program), str(runs), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        counts.append(int(done.stderr.split()[-1]))
    return counts[1] - counts[0]


@dataclass(frozen=True)
class Cross:
    """A processor that is emulated."""

    compiler: tuple[str, ...]
    emulator: tuple[str, ...]
    builds: Mapping[str, tuple[str, ...]]
    """The flags of each choice of kernels."""

    @property
    def is_available(self) -> bool:
        """Whether compiler and emulator are installed."""
        return all(map(shutil.which, (self.compiler[0], self.emulator[0])))

    def build(self, folder: Path, main: Path, flags: Sequence[str]) -> Path:
        """Build the files of the model in `folder` with a main program, linked statically."""
        sources = [folder / "model.c", folder / "model_weights.c", main]
        program = folder / main.stem
        command = [*self.compiler, *STRICT, *flags, f"-I{folder}", "-static", *map(str, sources)]
        subprocess.run([*command, "-o", str(program), "-lm"], check=True)
        return program

    def run(
        self,
        program: Path,
        sample: Mapping[str, Array],
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
    ) -> dict[str, Array]:
        """Return the results of `model_run` for a sample, through files of raw tensors."""
        source, target = program.parent / "in.bin", program.parent / "out.bin"
        arrays = [np.asarray(sample[t.name], order="C").astype(t.dtype) for t in inputs]
        source.write_bytes(b"".join(a.tobytes() for a in arrays))
        subprocess.run([*self.emulator, program, source, target], check=True)
        data, at, results = target.read_bytes(), 0, dict[str, Array]()
        for info in outputs:
            array = np.frombuffer(data, info.dtype, info.size, at)
            results[info.name], at = array.reshape(info.shape), at + info.nbytes
        assert at == len(data)
        return results

    def assembly(self, folder: Path, flags: Sequence[str]) -> str:
        """Return the assembly of the code of the model in `folder`."""
        command = [*self.compiler, *STRICT, *flags, "-S", "-o", "-", str(folder / "model.c")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


AARCH64 = Cross(
    ("aarch64-linux-gnu-gcc",),
    ("qemu-aarch64", "-cpu", "max"),
    {
        "portable": ("-march=armv8-a", "-DMODEL_NEON=0"),
        "neon": ("-march=armv8-a",),
        "dotprod": ("-march=armv8.2-a+dotprod",),
        "i8mm": ("-march=armv8.6-a",),
    },
)


def riscv(vector_bits: int = 128) -> Cross:
    """Return a 64-bit RISC-V processor with vectors of `vector_bits`."""
    cpu = f"rv64,v=true,vext_spec=v1.0,elen=64,vlen={vector_bits}"
    return Cross(
        ("clang-19", "--target=riscv64-linux-gnu"),
        ("qemu-riscv64", "-cpu", cpu),
        {
            "scalar": ("-march=rv64gc",),
            "portable": ("-march=rv64gcv", "-DMODEL_RVV=0"),
            "rvv": ("-march=rv64gcv",),
        },
    )


RISCV = riscv()
