"""
The FPGA side of a network as a C++ project of its own, with test bench and golden data.

The circuits are the engine's own sources; what is made here is the table of launches
(`network.cpp`), the constants, and the golden data: what the interpreter computes on one
sample, as the writes and results that the memory of CPU and FPGA sees, in order.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from itertools import accumulate
from typing import BinaryIO

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.hls_boxes import boxes
from ceras_ir.backends.nnet.hls_registers import box_registers, step
from ceras_ir.backends.nnet.rules import FPGA, MOVERS
from ceras_ir.dialects.graph import (
    ConstantOp,
    LinearOperation,
    LookupOp,
    constant_array,
    known_array,
    shape_of,
)
from ceras_ir.dialects.mem import arena_of, block_of, device_of
from ceras_ir.interpreters.network import Array, run
from ceras_ir.network.artefacts import Artefact
from ceras_ir.network.function import input_names, main_function
from ceras_ir.support.diagnostics import InputError, node_name
from ceras_ir.transforms.memory.analysis.liveness import steps
from ceras_ir.transforms.memory.analysis.slices import row_count

FOLDER = "hls"
CIRCUITS = (
    "fpga.h", "fpga_epilogue.h", "lanes.h", "translate.h", "fpga_linear.cpp", "fpga_circuits.cpp",
    "fpga_depthwise.cpp", "fpga_movement.cpp",
)  # fmt: skip
PROJECT = ("README.md", "Makefile", "run_hls.tcl", "steps.h", "top.cpp", "testbench.cpp")
RECORD = "<IIQQQQ"
"""
Of golden.bin: whether a step, its number, offset in shared memory, and the rows, bytes of each
and bytes from one to the next, of the bytes that follow.
"""


def emit(module: ModuleOp, sample: Mapping[str, Array]) -> list[Artefact]:
    """The project for a network with placed memory; `sample` is what its golden data is of."""
    order = [op for op in steps(main_function(module)) if device_of(op) == FPGA]
    if not order:
        raise InputError("--emit-hls: no operation of the network runs on the FPGA")
    linear = [op for op in order if isinstance(op, LinearOperation)]
    package = files("ceras_ir.backends.nnet")
    copied = [("runtime", name) for name in CIRCUITS] + [("hls", name) for name in PROJECT]
    project = [
        Artefact.of_text(
            f"{FOLDER}/{name}",
            "FPGA side of the network: source",
            (package / folder / name).read_text(encoding="utf-8"),
        )
        for folder, name in copied
    ]
    made: list[tuple[str, str, Callable[[BinaryIO], None]]] = [
        ("weights.bin", "int8 weights", partial(_write_weights, linear)),
        ("biases.bin", "int32 biases", partial(_write_biases, linear)),
        ("shifts.bin", "int8 shifts", partial(_write_shifts, linear)),
        ("tables.bin", "function tables", partial(_write_tables, order)),
        ("golden.bin", "writes and results in shared memory", partial(_golden, module, sample)),
    ]
    network = Artefact.of_text(
        f"{FOLDER}/network.cpp", "FPGA side of the network: its launches", _network(module, order)
    )
    data = [Artefact(f"{FOLDER}/{name}", f"FPGA side: {what}", w) for name, what, w in made]
    return [*project, network, *data]


def _network(module: ModuleOp, order: Sequence[Operation]) -> str:
    arena = arena_of(main_function(module))
    assert arena is not None
    moved = [boxes(op) if isinstance(op, MOVERS) else [] for op in order]
    starts = accumulate(map(len, moved), initial=0)
    registers = "".join(
        f"    {step(op, start, len(parts))},\n"
        for op, start, parts in zip(order, starts, moved, strict=False)
    )
    # A C++ array has one element at least.
    parts = [box_registers(box) for found in moved for box in found] or ["{}"]
    lines = "".join(f"    {part},\n" for part in parts)
    names = "".join(f"    {_quoted(node_name(op))},\n" for op in order)
    return (
        "// The launches of this network's FPGA side, in the order in which they run.\n"
        '#include "steps.h"\n\n'
        "namespace ceras {\n\n"
        f"const int STEP_COUNT = {len(order)};\n"
        f"const int64_t MEMORY_BYTES = {arena.size.data};\n\n"
        f"const Step STEPS[] = {{\n{registers}}};\n\n"
        f"const Box BOXES[] = {{\n{lines}}};\n\n"
        f"const char* const STEP_NAMES[] = {{\n{names}}};\n\n"
        "}  // namespace ceras\n"
    )


def _quoted(text: str) -> str:
    """A C++ literal: what is not plain ASCII as bytes of three octal digits."""
    plain = (
        chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode()
    )
    return f'"{"".join(plain)}"'


def _write_weights(layers: Sequence[LinearOperation], stream: BinaryIO) -> None:
    for op in layers:
        array = known_array(op.weights)
        stream.write(array.tobytes())


def _write_biases(layers: Sequence[LinearOperation], stream: BinaryIO) -> None:
    """One for each output channel; zeros where a layer has none."""
    for op in layers:
        array = None if op.bias is None else constant_array(op.bias)
        if array is None:
            array = np.zeros(shape_of(op.weights)[0], np.int32)
        stream.write(array.astype("<i4").tobytes())


def _write_shifts(layers: Sequence[LinearOperation], stream: BinaryIO) -> None:
    """One for each output channel, of layers where they differ."""
    for op in layers:
        assert op.requant is not None
        stream.write(np.array(op.requant.channel_shifts, np.int8).tobytes())


def _write_tables(order: Sequence[Operation], stream: BinaryIO) -> None:
    """Those of each step, then which of them each channel has."""
    for op in order:
        if not isinstance(op, LinearOperation | LookupOp) or (tables := op.tables) is None:
            continue
        stream.write(tables.astype(tables.dtype.newbyteorder("<")).tobytes())
        stream.write(bytes(op.channel_rows or ()))


def _golden(module: ModuleOp, sample: Mapping[str, Array], stream: BinaryIO) -> None:
    main = main_function(module)
    count = 0

    def record(value: SSAValue, array: Array, is_step: bool) -> None:
        nonlocal count
        block = block_of(value)
        assert block is not None
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        pitch = block.pitch.data
        rows = row_count(value) if pitch else 1
        place = (block.offset.data, rows, len(data) // rows, pitch)
        stream.write(struct.pack(RECORD, is_step, count, *place))
        stream.write(data)
        count += is_step

    def trace(op: Operation, results: Sequence[Array]) -> None:
        if isinstance(op, ConstantOp) or not op.results:
            return
        on_fpga = device_of(op) == FPGA
        if on_fpga or read_by_fpga(op.results[0]):
            record(op.results[0], results[0], on_fpga)

    for name, argument in zip(input_names(main), main.body.block.args, strict=True):
        if read_by_fpga(argument):
            record(argument, sample[name], False)
    run(module, sample, trace)


def read_by_fpga(value: SSAValue) -> bool:
    """Whether an operation on the FPGA reads `value`."""
    return any(device_of(use.operation) == FPGA for use in value.uses)
