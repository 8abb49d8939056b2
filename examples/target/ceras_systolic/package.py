"""The array's part of a compiled folder: written by `emit_array`, read back by `open_array`."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.backends.c.compiled import CompiledC
from ceras_ir.backends.c.emitter import emit as emit_host
from ceras_ir.dialects.mem import BLOCK, LaunchOp
from ceras_ir.network.artefacts import Artefact
from ceras_ir.support.diagnostics import InputError
from ceras_ir.targets import Emission, Manifest
from ceras_systolic.board import Board
from ceras_systolic.check import StreamChecker, check_stream
from ceras_systolic.isa import WORD
from ceras_systolic.program import ArrayProgram
from ceras_systolic.rules import ARRAY
from ceras_systolic.simulator import simulate
from ceras_systolic.tile_for_array import array_operations

IMAGE, ENTRY = "array.bin", "systolic"
"""The file, and the key of the manifest."""
LAUNCHES = "launches"
SIZES = ("arena_bytes", "size", "scratchpad_rows", "accumulator_rows")

Entry = dict[str, object]


def emit_array(module: ModuleOp, board: Board) -> Emission:
    """The image with its description, the C of the host, and entries of the report."""
    program = ArrayProgram.of(module, board)
    cycles = [launch.cycles(board) for launch in program.launches]
    entry: Entry = {
        "image": IMAGE,
        "arena_bytes": program.arena_bytes,
        "size": board.size,
        "scratchpad_rows": board.scratchpad_rows,
        "accumulator_rows": board.accumulator_rows,
        LAUNCHES: [
            {"name": each.name, "offset": each.offset, "count": len(each.instructions)}
            for each in program.launches
        ],
    }

    def annotate(layers: list[Entry]) -> None:
        placed = [layer for layer in layers if layer["device"] == ARRAY]
        for layer, count in zip(placed, cycles, strict=True):
            assert isinstance(macs := layer["macs"], int)
            layer |= {"cycles": count, "share_of_peak": round(macs / count / board.size**2, 4)}

    image = Artefact(IMAGE, "memory: arena, constants, streams", lambda s: _write(s, program))
    totals: Entry = {
        LAUNCHES: len(cycles),
        "array_cycles": sum(cycles),
        "array_us": round(sum(cycles) / board.clock_mhz, 1),
    }
    return Emission([*emit_host(host_part(module)), image], {ENTRY: entry}, totals, annotate)


def _write(stream: "BinaryIO", program: ArrayProgram) -> None:
    stream.write(program.image)


def host_part(module: ModuleOp) -> ModuleOp:
    """
    A copy in which launches stand for what the array runs, only to be printed as C: the launches
    have no kernels.
    """
    host = module.clone()
    for op in array_operations(host):
        values = [op.input] if op.residual is None else [op.input, op.residual]
        launch = LaunchOp(ARRAY, values, [op.result.type])
        launch.attributes[BLOCK] = op.attributes[BLOCK]
        launch.location = op.location
        assert op.parent is not None
        op.parent.insert_op_before(launch, op)
        op.result.replace_all_uses_with(launch.outputs[0])
        op.detach()
        op.erase()
    return host


def open_array(folder: Path, manifest: Manifest) -> CompiledC:
    """The C of the host, with every launch in the simulator; streams are checked before."""
    entry, path = manifest.content.get(ENTRY), folder / IMAGE
    try:
        image: NDArray[np.uint8] = np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
    if not isa(entry, Entry) or not isa(launches := entry.get(LAUNCHES), list[Entry]):
        raise InputError(f"the manifest has no entry '{ENTRY}'; compile again", str(folder))
    arena, *sizes = (_number(entry, name, folder) for name in SIZES)
    streams: list[bytes] = []
    for launch in launches:
        offset, count = (_number(launch, name, folder) for name in ("offset", "count"))
        stream = image[offset : offset + count * WORD.size].tobytes()
        if len(stream) != count * WORD.size:
            raise InputError("ends before its last instruction", str(path))
        check_stream(stream, StreamChecker(len(image), arena, *sizes), str(path))
        streams.append(stream)

    def run(number: int, memory: NDArray[np.uint8]) -> None:
        simulate(streams[number], memory, *sizes)

    inputs, outputs = manifest.inputs, manifest.outputs
    if not streams:
        return CompiledC(folder, inputs, outputs)
    return CompiledC(folder, inputs, outputs, run, image)


def _number(entry: Entry, name: str, folder: Path) -> int:
    value = entry.get(name)
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise InputError(f"'{name}' of the manifest is no size: {value!r}", str(folder))
    return value
