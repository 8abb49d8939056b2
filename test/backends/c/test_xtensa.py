"""
Test C for Xtensa under qemu.

The compiler of Debian is for the LX106. An LX7 has all instructions of the LX106. The library lacks
functions in the ROM of the ESP8266: float sums (so only integers are tested), and quotients, which
an LX7 has instructions for and these tests provide.
"""

from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path

import firmware
import numpy as np
import pytest
from backends.arduino.test_sizes import agree as sizes_agree
from backends.arduino.test_sizes import calling
from backends.c.bare_programs import outputs_of, sources_of
from backends.c.test_files import TABLE
from backends.c.test_machine import agree, shell
from c_harness import constant, make_network, needs_xtensa, place, random_inputs
from firmware import write_files
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c import machines
from ceras_ir.backends.c.emitter import emit, files_of
from ceras_ir.backends.c.emulator import build_elf, linker_script
from ceras_ir.backends.c.machines import COptions, bare_machine, load_board
from ceras_ir.backends.c.optimize import choose
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Pool
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run

pytestmark = [pytest.mark.slow, needs_xtensa]

BOARD = load_board("esp32_s3")
LX106 = machines.Tools(
    "xtensa-lx106-elf-",
    ("-specs=/usr/lib/xtensa-lx106-elf/picolibc.specs",),
    (),
    startup="startup_xtensa.c",
)
FLASH, SRAM = 0x5000_0000, 0x6000_0000
"""Memories of the simulated machine of qemu."""
SIMULATOR = ["qemu-system-xtensa", "-M", "sim", "-cpu", "lx106", "-m", "32M", "-nographic"]
Q, SUMS = UniformType(0.5), UniformType(0.25, storage=i32)

DIVISION = """\
int __divsi3(int a, int b)
{
  unsigned left = a < 0 ? 0u - (unsigned)a : (unsigned)a;
  unsigned by = b < 0 ? 0u - (unsigned)b : (unsigned)b;
  unsigned rest = 0, found = 0;
  for (int bit = 31; bit >= 0; --bit) {
    rest = rest << 1 | (left >> bit & 1);
    if (rest >= by) rest -= by, found |= 1u << bit;
  }
  return (a < 0) == (b < 0) ? (int)found : -(int)found;
}
"""
CALLS = """\
enum { EXIT = 1, READ = 3, WRITE = 4 };

/* The calls of Tensilica's simulator, which qemu answers. */
static int call(int number, int a, const void *b, int c)
{
  register int a2 __asm__("a2") = number, a3 __asm__("a3") = a, a5 __asm__("a5") = c;
  register const void *a4 __asm__("a4") = b;
  __asm__ volatile("simcall" : "+r"(a2), "+r"(a3) : "r"(a4), "r"(a5) : "memory");
  return a2;
}

static void begin(void);

@DIVISION@
int main(void)
{
  begin();
  return 0;
}
""".replace("@DIVISION@", DIVISION)


@pytest.fixture(autouse=True)
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the installed compiler instead of the compiler of Espressif."""
    monkeypatch.setitem(machines.CORES, BOARD.core, replace(BOARD.known_core, tools=LX106))


def integers() -> ModuleOp:
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> SSAValue:
        return constant(rng.integers(-128, 128, shape).astype(np.int8), Q)

    def body(x: SSAValue) -> list[SSAValue]:
        bias = constant(rng.integers(-9000, 9000, 16).astype(np.int32), SUMS)
        how, around = RequantAttr(10), (1, 1, 1, 1)
        y = graph.Conv2dOp(
            x, weights(16, 3, 3, 8), bias, result_element=Q, requant=how, padding=around
        ).result
        alone = graph.Conv2dOp(
            y, weights(16, 3, 3, 1), result_element=Q, requant=how, padding=around, groups=16
        ).result
        total = graph.BinaryOp(
            Binary.ADD, y, alone, result_element=Q, requant=RequantAttr(1)
        ).result
        largest = graph.Pool2dOp(
            Pool.MAX, graph.LookupOp(total, TABLE, Q).result, (2, 2), result_element=Q,
            strides=(2, 2),
        ).result  # fmt: skip
        flat = graph.ReshapeOp(largest, (1, 400)).result
        return [
            graph.MatmulOp(
                flat, weights(10, 400), None, result_element=Q, requant=RequantAttr(9)
            ).result,
            largest,
        ]

    return place(make_network([(Q, (1, 10, 10, 8))], body), io=True)


def test_integers_are_the_interpreters(tmp_path: Path):
    module = integers()
    sources = sources_of(module, BOARD, CALLS, tmp_path)
    runtime = resources("ceras_ir.backends.c") / "emulation"
    simulated = machines.Emulation("sim", 1, FLASH + 64, SRAM, FLASH)
    (tmp_path / "board.ld").write_text(linker_script(1 << 24, 1 << 24, 4096, simulated))
    start, program = tmp_path / LX106.startup, str(tmp_path / "program")
    for name in (LX106.startup, "prepare_memory.h"):
        (tmp_path / name).write_text((runtime / name).read_text())
    flags = [*BOARD.flags, *LX106.small, "-O2", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}"]
    link = ["-nostartfiles", f"-T{tmp_path / 'board.ld'}"]
    shell(f"{LX106.prefix}gcc", *flags, *link, str(start), *sources, "-o", program)
    command = [*SIMULATOR, "-monitor", "none", "-semihosting", "-kernel", program]
    agree(outputs_of(module, command), run(module, random_inputs(module)))


def test_size(tmp_path: Path):
    """The size is within the margin of the core."""
    module = integers()
    choice = choose(module, BOARD, "model")
    files = [a for a in files_of(choice.model) if a.path.startswith("model")]
    sources = write_files(files, tmp_path)
    caller = tmp_path / "caller.c"
    caller.write_text(f"{calling(choice.model)}\n{DIVISION}")
    elf = build_elf([caller, *sources], BOARD, tmp_path, include=[tmp_path], flags=("-Os",))
    sizes_agree(choice.footprint, firmware.sizes(elf, LX106.prefix))


def test_a_folder_for_the_board(tmp_path: Path):
    """The Makefile compiles the model; the framework of the board links it."""
    machine = bare_machine(BOARD)
    assert machine.is_bare and not machine.link_flags
    options = COptions(machine=machine)
    write_files(emit(integers(), options), tmp_path)
    assert "CMAKE_SYSTEM_NAME Generic" in (tmp_path / "toolchain.cmake").read_text()
    compiler = " ".join([f"CC={machine.compiler}", *LX106.small])
    shell("make", "-C", tmp_path, compiler)
