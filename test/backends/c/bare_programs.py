"""
Run C without an operating system under qemu, in a program that calls a model.

An architecture provides `call`, which asks qemu to READ, WRITE or EXIT, and the code before
`begin`.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from c_harness import Array, random_inputs
from firmware import write_files
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.emitter import files_of
from ceras_ir.backends.c.machines import Board
from ceras_ir.backends.c.model import tensor_c_type
from ceras_ir.backends.c.optimize import choose
from ceras_ir.backends.c.values import filled
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

CALLER = """\
#include "model.h"

@ARCHITECTURE@

@BUFFERS@

__attribute__((used)) static void begin(void)
{
  @READ@
  if (model_run(@ARGUMENTS@) != MODEL_OK) call(EXIT, 4, 0, 0);
  @WRITE@
  call(EXIT, 0, 0, 0);
}
"""


def sources_of(module: ModuleOp, board: Board, architecture: str, work: Path) -> list[str]:
    """Return the files of a program that loads inputs from file 0 and writes outputs to file 1."""
    main = main_function(module)
    inputs, outputs = network_inputs(main), network_outputs(main)
    model = choose(module, board, "model", goal="speed").model
    sources = [p for p in write_files(files_of(model), work) if p.stem != "main"]
    pairs = list(zip((*inputs, *outputs), model.names, strict=True))

    def calls(what: str, file: int, part: slice) -> str:
        each = (f"call({what}, {file}, {n}_data, sizeof {n}_data)" for _, n in pairs[part])
        return "\n  ".join(f"if ({text} < 0) call(EXIT, 3, 0, 0);" for text in each)

    holes = {
        "ARCHITECTURE": architecture,
        "ARGUMENTS": ", ".join(f"{n}_data" for _, n in pairs),
        "BUFFERS": "\n".join(f"static {tensor_c_type(t)} {n}_data[{t.size}];" for t, n in pairs),
        "READ": calls("READ", 0, slice(len(inputs))),
        "WRITE": calls("WRITE", 1, slice(len(inputs), None)),
    }
    caller = work / "caller.c"
    caller.write_text(filled(CALLER, holes))
    return [str(caller), *map(str, sources)]


def outputs_of(module: ModuleOp, command: Sequence[str]) -> dict[str, Array]:
    """Return the outputs of the program for `random_inputs(module)`."""
    main, sample = main_function(module), random_inputs(module)
    given = b"".join(np.ascontiguousarray(sample[t.name]).tobytes() for t in network_inputs(main))
    done = subprocess.run(command, input=given, capture_output=True, check=True, timeout=120)
    at, got = 0, dict[str, Array]()
    for info in network_outputs(main):
        array = np.frombuffer(done.stdout, info.dtype, info.size, at)
        got[info.name], at = array.reshape(info.shape), at + info.nbytes
    assert at == len(done.stdout)
    return got
