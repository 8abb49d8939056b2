"""
Measure the stack of `model_run` on a microcontroller, if the cross compiler is installed.

`model.c` is compiled once with the flags of the build files, linked with the C library but without
constants, and disassembled; `call_graph` bounds the stack. This takes less than two seconds for
ResNet-8, and the result is cached by content, so it is part of each compilation for a board and
needs no option. Without compiler, or without a bound, the result is the reason. The compiled files
do not depend on it.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.backends.c.call_graph import (
    INSTRUCTION_SETS,
    NoBoundError,
    compiled_functions,
    linked_functions,
    stack_bound,
)
from ceras_ir.backends.c.emitter import files_of
from ceras_ir.backends.c.emulator import linker_script
from ceras_ir.backends.c.machines import Board
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.names import MODEL
from ceras_ir.backends.c.runner import run_tool
from ceras_ir.network.artefacts import Artefact
from ceras_ir.pipeline.summary import used_bytes
from ceras_ir.support.diagnostics import InputError, node_name, shortened
from ceras_ir.support.files import CacheError, ContentCache, key_of
from ceras_ir.support.native import cache_folder
from ceras_ir.support.programs import identity
from ceras_ir.targets import Measurement

ROOT = "model_run"
SOURCES = ("model.c", "model.h", "model_kernels.h", "model_weights.h")
"""The compiled files. Constants have no influence, and long literals are slow to compile."""

MEMORY_BYTES = 1 << 29

C_FLAGS = ("-std=c99", "-ffp-contract=off", "-fcallgraph-info=su")
LINK_FLAGS = ("-nostartfiles", f"-Wl,-e,{ROOT}", "-Wl,--gc-sections,--warn-unresolved-symbols")

MAX_CACHE_BYTES = 1 << 20

_LAYER = re.compile(r"layer_([0-9]+)_")


def measured_stack(model: PrintedModel, board: Board) -> Measurement:
    """
    Return the bytes of stack that `model_run` needs on a board, as entries for the report, the
    manifest and the summary. There is a warning if the board reserves fewer bytes. If the stack is
    unknown, the entries have the reason.
    """
    found = _found(model, board)
    size = found.get("bytes")
    totals: dict[str, object] = {"board_stack_bytes": board.stack_bytes}
    if not isinstance(size, int):
        return Measurement(totals, {"stack": found}, {"stack": f"unknown: {found['unknown']}"})
    totals["stack_bytes"] = size
    text = used_bytes(size, board.stack_bytes)
    if layer := _deepest_layer(model, found):
        text += f", deepest in '{shortened(layer)}'"
    warning = ""
    if size > board.stack_bytes:
        warning = (
            f"warning: {ROOT} needs up to {size:,} bytes of stack, and the description of "
            f"{board.title} reserves {board.stack_bytes:,}: set stack_bytes = {size} or more in a "
            "copy of the board file, and compile with --board FILE.toml"
        )
    manifest: dict[str, object] = {"stack_bytes": size}
    return Measurement(totals, {"stack": found}, {"stack": text}, manifest, warning)


def _deepest_layer(model: PrintedModel, found: Mapping[str, object]) -> str:
    frames = found["frames"]
    assert isa(frames, list[list[str | int]])
    numbers = [int(known[1]) for name, _ in frames if (known := _LAYER.match(str(name)))]
    if not numbers:
        return ""
    owners = [
        m
        for m in (model, *model.members, *model.bodies)
        if 0 <= numbers[-1] - m.first < len(m.layers)
    ]
    return node_name(owners[0].layer(numbers[-1]).op)


def _found(model: PrintedModel, board: Board) -> dict[str, object]:
    """
    Return `bytes` and `frames` of the path of calls with the most stack, or the reason as
    `unknown`.
    """
    compiler = f"{board.known_core.tools.prefix}gcc"
    if shutil.which(compiler) is None:
        return {"unknown": f"{compiler} is not installed"}
    try:
        return _cached(model, board, compiler)
    except (InputError, OSError) as error:
        return {"unknown": f"{str(error).splitlines()[0]}; gcc 10 or later is required"}


def _cached(model: PrintedModel, board: Board, compiler: str) -> dict[str, object]:
    # The names of the sources do not depend on the user.
    named = replace(model, options=replace(model.options, title=MODEL.name, prefix=MODEL))
    sources = {a.path: _content(a) for a in files_of(named) if a.path in SOURCES}
    tools, machine = board.known_core.tools, named.options.machine
    flags = machine.flags if machine.is_bare else (*board.flags, *tools.small)
    libraries = machine.link_flags if machine.is_bare else ()
    version = run_tool([compiler, "--version"]).splitlines()[0]
    compile_command = [compiler, *flags, *C_FLAGS, named.options.level]
    link_command = [compiler, *flags, *libraries, *LINK_FLAGS]

    def make() -> bytes:
        found = {"compiler": version, **_measured(sources, compile_command, link_command, board)}
        return json.dumps(found).encode()

    parts = [part for name, text in sorted(sources.items()) for part in (name, text)]
    key = key_of("stack 3", identity([compiler]), *compile_command, "", *link_command, "", *parts)
    try:
        content = ContentCache(cache_folder() / "stack", MAX_CACHE_BYTES).computed(key, make)
    except CacheError:
        # A bound that cannot be cached can still be used.
        content = make()
    found: object = json.loads(content)
    assert isa(found, dict[str, object])
    return found


def _content(artefact: Artefact) -> bytes:
    artefact.write(stream := BytesIO())
    return stream.getvalue()


def _measured(
    sources: Mapping[str, bytes],
    compile_command: Sequence[str],
    link_command: Sequence[str],
    board: Board,
) -> dict[str, object]:
    prefix = board.known_core.tools.prefix
    if (instructions := INSTRUCTION_SETS.get(prefix)) is None:
        return {"unknown": f"there are no rules for library functions of core {board.core}"}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for path, content in sources.items():
            (work / path).write_bytes(content)
        script, linked = work / "board.ld", str(work / "model.elf")
        # The memories are larger than those of any board: addresses do not matter.
        script.write_text(linker_script(MEMORY_BYTES, MEMORY_BYTES, 0))
        objects = str(work / "model.o")
        run_tool([*compile_command, "-c", str(work / "model.c"), "-o", objects])
        run_tool([*link_command, f"-T{script}", objects, "-lm", "-o", linked])
        disassembly = run_tool([f"{prefix}objdump", "-d", "--no-show-raw-insn", linked])
        compiled = compiled_functions((work / "model.ci").read_text("utf-8"))
    try:
        bound = stack_bound(ROOT, compiled, linked_functions(disassembly, instructions))
    except NoBoundError as error:
        return {"unknown": f"{error}, so there is no bound"}
    return {"bytes": bound.nbytes, "frames": [list(frame) for frame in bound.frames]}
