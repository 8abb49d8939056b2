"""Test C for 32-bit RISC-V without operating system, floats or vectors, under qemu."""

from pathlib import Path

import firmware
import pytest
from backends.c.bare_programs import outputs_of, sources_of
from backends.c.test_files import small_network
from backends.c.test_machine import DIGITS, agree, shell
from c_harness import needs_rv32, place, random_inputs

from ceras_ir.backends.c.machines import load_board
from ceras_ir.backends.c.target import CTarget
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions

pytestmark = [pytest.mark.slow, needs_rv32]

BOARD = load_board("esp32_c3")

LINUX = """\
enum { READ = 63, WRITE = 64, EXIT = 93 };

/* Linux's calls, which qemu answers. Library functions keep errno at tp. */
static long call(long number, long a, const void *b, long c)
{
  register long a0 __asm__("a0") = a;
  register const void *a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c, a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
  return a0;
}

char thread_data[64];

__attribute__((naked)) void _start(void)
{
  __asm__ volatile(".option push\\n\\t.option norelax\\n\\tla gp, __global_pointer$\\n\\t"
                   ".option pop\\n\\tla tp, thread_data\\n\\tj begin");
}
"""


def test_integers_are_the_interpreters(tmp_path: Path):
    module = place(small_network())
    sources = sources_of(module, BOARD, LINUX, tmp_path)
    tools = BOARD.known_core.tools
    flags = [*BOARD.flags, *tools.small, "-O2", "-ffp-contract=off", f"-I{tmp_path}"]
    link = ["-nostartfiles", "-Wl,--defsym=__flash_size=4194304"]
    program = str(tmp_path / "program")
    shell(f"{tools.prefix}gcc", *flags, *link, *sources, "-lm", "-o", program)
    got = outputs_of(module, ["qemu-riscv32", program])
    agree(got, run(module, random_inputs(module)))


def test_make(tmp_path: Path):
    """
    The program is linked for a debugger console in the memories of the board; no time is predicted.
    """
    model, data = str(DIGITS / "digits.onnx"), str(DIGITS / "digits_calibration.npz")
    target = CTarget(board="esp32_c3")
    options = BuildOptions(target, quantize="int8", calibration=data, recipe=("none",))
    result = build(read_network(model), options)
    write_artefacts(tmp_path, result.files())
    assert "CMAKE_SYSTEM_PROCESSOR riscv32" in (tmp_path / "toolchain.cmake").read_text()
    assert result.report.get("prediction") is None
    shell("make", "-C", tmp_path, "model_run")
    assert firmware.sizes(tmp_path / "model_run", BOARD.known_core.tools.prefix).flash > 0
