"""C for 32-bit RISC-V without an operating system, floats or vectors, run under qemu."""

import subprocess
from pathlib import Path

import firmware
import numpy as np
import pytest
from backends.c.test_files import small_network
from backends.c.test_machine import DIGITS, agree, shell
from c_harness import Array, needs_rv32, place, random_inputs
from firmware import write_files

from ceras_ir.backends.c.board import load_board
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.fitted_model import printed_model
from ceras_ir.backends.c.model import tensor_c_type
from ceras_ir.backends.c.target import CTarget
from ceras_ir.command.output_folder import write_artefacts
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.reading import read_network

pytestmark = [pytest.mark.slow, needs_rv32]

BOARD = load_board("esp32_c3")

CALLER = """\
#include "model.h"

/* Linux's calls, which qemu answers: read, write and exit. Library functions keep errno at tp. */
static long call(long number, long a, const void *b, long c)
{
  register long a0 __asm__("a0") = a;
  register const void *a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c, a7 __asm__("a7") = number;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
  return a0;
}

@BUFFERS@
char thread_data[64];

__attribute__((used)) static void begin(void)
{
  @READ@
  if (model_run(@ARGUMENTS@) != MODEL_OK) call(93, 4, 0, 0);
  @WRITE@
  call(93, 0, 0, 0);
}

__attribute__((naked)) void _start(void)
{
  __asm__ volatile(".option push\\n\\t.option norelax\\n\\tla gp, __global_pointer$\\n\\t"
                   ".option pop\\n\\tla tp, thread_data\\n\\tj begin");
}
"""


def test_integers_are_the_interpreters(tmp_path: Path):
    module = place(small_network())
    main = main_function(module)
    inputs, outputs = network_inputs(main), network_outputs(main)
    model, options, _ = printed_model(module, BOARD, "model")
    sources = [p for p in write_files(emit(module, options), tmp_path) if p.stem != "main"]
    pairs = list(zip((*inputs, *outputs), model.names, strict=True))

    def calls(number: int, part: slice) -> str:
        file = number - 63
        each = (f"call({number}, {file}, {n}_data, sizeof {n}_data)" for _, n in pairs[part])
        return " ".join(f"if ({text} < 0) call(93, 3, 0, 0);" for text in each)

    text = CALLER.replace("@ARGUMENTS@", ", ".join(f"{n}_data" for _, n in pairs))
    buffers = (f"static {tensor_c_type(t)} {n}_data[{t.size}];" for t, n in pairs)
    text = text.replace("@BUFFERS@", "\n".join(buffers))
    text = text.replace("@READ@", calls(63, slice(len(inputs))))
    text = text.replace("@WRITE@", calls(64, slice(len(inputs), None)))
    (tmp_path / "caller.c").write_text(text)
    tools = BOARD.known_core.tools
    flags = [*BOARD.flags, *tools.small, "-O2", "-ffp-contract=off", f"-I{tmp_path}"]
    link = ["-nostartfiles", "-Wl,--defsym=__flash_size=4194304"]
    program = str(tmp_path / "program")
    files = [str(p) for p in (tmp_path / "caller.c", *sources)]
    shell(f"{tools.prefix}gcc", *flags, *link, *files, "-lm", "-o", program)
    sample = random_inputs(module)
    given = b"".join(np.ascontiguousarray(sample[t.name]).tobytes() for t in inputs)
    done = subprocess.run(["qemu-riscv32", program], input=given, capture_output=True, check=True)
    at, got = 0, dict[str, Array]()
    for info in outputs:
        array = np.frombuffer(done.stdout, info.dtype, info.size, at)
        got[info.name], at = array.reshape(info.shape), at + info.nbytes
    assert at == len(done.stdout)
    agree(got, run(module, sample))


def test_make(tmp_path: Path):
    """Linked for a debugger's console, in the board's memories; no time is predicted."""
    model, data = str(DIGITS / "digits.onnx"), str(DIGITS / "digits_calibration.npz")
    target = CTarget(board="esp32_c3")
    options = BuildOptions(target, quantize="int8", calibrate=data, recipe=("none",))
    result = build(read_network(model), options)
    write_artefacts(tmp_path, result.files())
    assert "CMAKE_SYSTEM_PROCESSOR riscv32" in (tmp_path / "toolchain.cmake").read_text()
    assert result.report.get("prediction") is None
    shell("make", "-C", tmp_path)
    assert firmware.sizes(tmp_path / "model_run", BOARD.known_core.tools.prefix).flash > 0
