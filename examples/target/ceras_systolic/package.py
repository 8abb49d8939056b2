"""
Write a compiled folder for array and host, and load it to run it.

Array and host share a memory, which is the file `array.bin`: the arena of the host from address 0,
then constants and streams, which remain unchanged.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa
from xdsl.utils.target import Target

from ceras_ir.backends.c.emitter import emit as emit_host
from ceras_ir.backends.c.runner import CompiledC
from ceras_ir.dialects.mem import BLOCK, LaunchOp, arena_of, block_of
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_ir.targets import Emission, Manifest
from ceras_systolic.board import Board, load_board
from ceras_systolic.check import StreamChecker, check_stream
from ceras_systolic.machine import WORD, Instruction, simulate
from ceras_systolic.stream import layer_stream, packed_constants
from ceras_systolic.tile_for_array import ARRAY, array_operations, rows_of

IMAGE, ENTRY, ALIGNMENT = "array.bin", "systolic", 16
MOST = 1 << 28
"""The maximum number of elements in a memory of the chip."""


def build_image(module: ModuleOp, board: Board) -> tuple[bytearray, dict[int, list[Instruction]]]:
    """Build the memory before the first launch, and the stream of each layer by address."""
    arena, streams = arena_of(main_function(module)), dict[int, list[Instruction]]()
    image = bytearray(0 if arena is None else arena.size.data)

    def put(data: bytes) -> int:
        image.extend(bytes(-len(image) % ALIGNMENT) + data)
        return len(image) - len(data)

    for op in array_operations(module):
        blocks = [block_of(value) for value in (op.input, op.residual or op.input, op.result)]
        places, rows = [block.offset.data for block in blocks if block is not None], rows_of(op)
        if len(places) < 3 or rows is None:
            raise InputError(f"'{node_name(op)}': run tile-for-array and allocate-blocks=io first")
        places += [put(array.tobytes()) for array in packed_constants(op, board.size)]
        stream = [*layer_stream(op, rows, places, board.size)]
        streams[put(b"".join(i.encode() for i in stream))] = stream
    return image, streams


def host_part(module: ModuleOp) -> ModuleOp:
    """Copy the module to print it as C; launches without kernels replace the array operations."""
    host = module.clone()
    for op in array_operations(host):
        values = [op.input] if op.residual is None else [op.input, op.residual]
        launch = LaunchOp(ARRAY, values, [op.result.type])
        launch.attributes[BLOCK], launch.location = op.attributes[BLOCK], op.location
        assert op.parent is not None
        op.parent.insert_op_before(launch, op)
        op.result.replace_all_uses_with(launch.outputs[0])
        op.detach()
        op.erase()
    return host


def emit_array(module: ModuleOp, board: Board) -> Emission:
    """Emit the image with a description, the C of the host, and entries of the report."""
    image, streams = build_image(module, board)
    cycles = [sum(i.cycles(board) for i in stream) for stream in streams.values()]
    arena = arena_of(main_function(module))
    assert arena is not None
    entry = {
        "sizes": [arena.size.data, board.size, board.scratchpad_rows, board.accumulator_rows],
        "streams": [*streams],
        "instructions": [*map(len, streams.values())],
    }

    def annotate(layers: list[dict[str, object]]) -> None:
        placed = [layer for layer in layers if layer["device"] == ARRAY]
        for layer, count in zip(placed, cycles, strict=True):
            layer["cycles"] = count

    def write(stream: BinaryIO) -> None:
        stream.write(image)

    files = [*emit_host(host_part(module)), Artefact(IMAGE, "arena, constants, streams", write)]
    totals: dict[str, object] = {"launches": len(cycles), "array_cycles": sum(cycles)}
    columns = {"cycles": ("cycles", "{:,}")}
    figures = {"array": f"{sum(cycles):,} cycles in {len(cycles)} launches"}
    return Emission(files, {ENTRY: entry}, totals, annotate, columns, figures=figures)


def open_array(folder: Path, manifest: Manifest) -> CompiledC:
    """Open the C of the host; launches run in the simulator, after a check of the streams."""
    entry, path = manifest.content.get(ENTRY), folder / IMAGE
    if not isa(entry, dict[str, list[int]]) or len(entry.get("sizes", ())) != 4:
        raise InputError(f"the manifest has no entry '{ENTRY}'; compile again", str(folder))
    arena, size, *rows = entry["sizes"]
    if not (0 < size <= 256 and all(0 <= count <= MOST // size for count in rows)):
        raise InputError(f"no array has the sizes {entry['sizes']}", str(folder))
    try:
        image: NDArray[np.uint8] = np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", str(path)) from None
    streams: list[bytes] = []
    for at, count in zip(entry.get("streams", ()), entry.get("instructions", ()), strict=False):
        streams.append(image[at : at + count * WORD.size].tobytes())
        check_stream(streams[-1], StreamChecker(len(image), arena, size, *rows), str(path))

    def launch(number: int, memory: NDArray[np.uint8]) -> None:
        if number >= len(streams):
            raise InputError(f"no stream for launch {number} in the manifest", str(folder))
        simulate(streams[number], memory, size, *rows)

    return CompiledC(folder, manifest.inputs, manifest.outputs, launch, image if streams else None)


@dataclass(frozen=True)
class SystolicText(Target):
    """Print `ceras-opt -t systolic`: streams with an instruction per line, for the given board."""

    name = "systolic"

    board: str | None = None

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        for at, stream in build_image(module, load_board(self.board))[1].items():
            output.write("\n".join([f"# the stream at {at}", *map(str, stream), ""]))
