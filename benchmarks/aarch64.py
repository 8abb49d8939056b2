"""
Instructions per multiplication of layers on 64-bit Arm, counted under qemu's user mode by a
plugin; integers are compared with the interpreter's, floats within a tolerance.

    python benchmarks/aarch64.py
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from cortex_m4 import Case, layer_of, network
from cross_aarch64 import (
    ARCHITECTURES,
    QEMU,
    available,
    build_program,
    run_program,
)
from firmware import write_files
from rich.console import Console
from rich.table import Table

from ceras_ir.backends.c.emitter import emit
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

PLUGIN = Path(__file__).with_name("qemu_count.c")

CASES = (
    Case("3x3, C = 64", (1, 56, 56, 64), (64, 3, 3, 64), 1),
    Case("3x3, C = 256", (1, 14, 14, 256), (256, 3, 3, 256), 1),
    Case("3x3, C = 16", (1, 32, 32, 16), (16, 3, 3, 16), 1),
    Case("1x1, C = 128", (1, 28, 28, 128), (128, 1, 1, 128), 0),
    Case("depthwise 3x3", (1, 28, 28, 96), (96, 3, 3, 1), 1, groups=96),
    Case("FC 1024 to 512", (1, 1024), (512, 1024), 0),
    Case("float 3x3, C = 64", (1, 56, 56, 64), (64, 3, 3, 64), 1, is_float=True),
    Case("float 3x3, stride 2", (1, 56, 56, 64), (64, 3, 3, 64), 1, stride=2, is_float=True),
    Case("float 1x1, C = 128", (1, 28, 28, 128), (128, 1, 1, 128), 0, is_float=True),
)

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


def count(program: Path, plugin: Path, runs: int) -> int:
    """Instructions of so many inferences, and of starting the program."""
    command = [QEMU, "-cpu", "max", "-plugin", str(plugin), str(program), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stderr)


def measure(case: Case, plugin: Path, flags: tuple[str, ...]) -> float:
    """Instructions per multiplication; asserts that the integers are right."""
    module = network(case)
    main = main_function(module)
    ends = network_inputs(main), network_outputs(main)
    with tempfile.TemporaryDirectory(prefix="ceras-aarch64-") as name:
        work = Path(name)
        write_files(emit(module), work)
        rng = np.random.default_rng(1)
        dtype = np.float32 if case.is_float else np.int8
        sample = {"input0": rng.integers(-128, 128, case.shape).astype(dtype)}
        got = run_program(build_program(work, work / "main.c", flags), sample, *ends)
        expected = run(module, sample)["output0"].astype(np.float32)
        error = np.abs(got["output0"].astype(np.float32) - expected).max()
        assert error <= (1e-5 * np.abs(expected).max() if case.is_float else 0), case.name
        caller = work / "count.c"
        text = MAIN.replace("@X@", str(ends[0][0].size)).replace("@Y@", str(ends[1][0].size))
        text = text.replace("@T@", "float" if case.is_float else "int8_t")
        caller.write_text(text)
        program = build_program(work, caller, flags)
        instructions = count(program, plugin, 2) - count(program, plugin, 1)
    return instructions / layer_of(module).macs


def main() -> None:
    argparse.ArgumentParser(description="layers on 64-bit Arm").parse_args()
    if not available():
        raise SystemExit("needs aarch64-linux-gnu-gcc and qemu-aarch64")
    table = Table(box=None, pad_edge=False)
    table.add_column("instructions per MAC")
    for header in ARCHITECTURES:
        table.add_column(header, justify="right")
    with tempfile.TemporaryDirectory(prefix="ceras-plugin-") as name:
        plugin = Path(name) / "count.so"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", PLUGIN, "-o", plugin], check=True)
        for case in CASES:
            # Floats have no kernels beyond plain NEON.
            kinds = ("portable", "neon") if case.is_float else tuple(ARCHITECTURES)
            figures = [f"{measure(case, plugin, ARCHITECTURES[k]):.3f}" for k in kinds]
            table.add_row(case.name, *figures)
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
