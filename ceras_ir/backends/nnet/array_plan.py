"""
Plan the launches of operations on the FPGA core in Verilog, or return why the core refuses.

This module describes an operation in integers. `core/` computes the plan: the C++ that also
prepares launches for the engine. It is built as a shared library if a board has a core.
"""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from enum import IntEnum
from functools import cache
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.circuits import ARENA_ALIGNMENT_BYTES, CircuitSize, number, register_map
from ceras_ir.backends.nnet.encoding import packed_bits
from ceras_ir.backends.nnet.rules import MOVERS, is_product, repetitions
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.mem import block_of
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.transforms.memory.slices import element_bytes, operand_in_place, slices

BOX_RANK = number("runtime/fpga.h", "FPGA_BOX")
MAX_REASON_BYTES = 256


class CircuitKind(IntEnum):
    """The kinds of layers that `planner/planner.cpp` plans, with their numbers in requests."""

    LINEAR = 0
    POOL = 1
    ADD = 2
    LOOKUP = 3
    MOVE = 4


@dataclass(frozen=True)
class ArrayWindow:
    """
    The windows along an axis of an image: kernel extent, stride, padding before the first element,
    and dilation.
    """

    kernel: int = 1
    stride: int = 1
    before: int = 0
    dilation: int = 1


@dataclass(frozen=True)
class ArrayLayer:
    """
    A layer in the integers that `planner/planner.cpp` plans. `height`, `width` and `channels` are
    the shape of the input; `rows`, `columns` and `outputs` that of the result. A pitch is the
    distance in bytes between two adjacent pixels.
    """

    images: int
    height: int
    width: int
    channels: int
    rows: int
    columns: int
    outputs: int
    input_pitch: int
    result_pitch: int
    residual_pitch: int = 0
    """The bytes from a pixel of the residual to the next; 0 without a residual."""
    down: ArrayWindow = ArrayWindow()
    """The windows along the height; `across` has those along the width."""
    across: ArrayWindow = ArrayWindow()
    by_channel: bool = False
    """
    Whether the layer is depthwise: each output is computed from the input channel of the same
    index.
    """
    pixels: int = 0
    """The rows of a matrix product, sum or lookup; 0 for a window."""
    tables: int = 0
    """The number of different function tables of the channels."""
    result_size: int = 1
    """The bytes of an element of the result: 4 if function tables contain floats."""
    multiplier: int = 0
    """
    The factor of an average, before a right shift by `shift`; 0 for a maximum and other layers.
    """
    shift: int = 0
    weight_bits: int = BYTE_BITS
    """The bits of each weight in the stream of constants: 8, 4 or 2."""
    circuit: CircuitKind = CircuitKind.LINEAR
    starts: tuple[int, int, int] = (0, 0, 0)
    """The byte offsets of input, result and residual modulo `ARENA_ALIGNMENT_BYTES`."""

    @property
    def request(self) -> tuple[int, ...]:
        """The layer as the list of integers that `planner.cpp` parses."""
        return (
            self.circuit, self.images, self.height, self.width, self.channels, self.rows,
            self.columns, self.outputs, self.input_pitch, self.result_pitch, self.residual_pitch,
            *astuple(self.down), *astuple(self.across), self.by_channel, self.pixels, self.tables,
            self.result_size, self.multiplier, self.shift, self.weight_bits,
        )  # fmt: skip


@dataclass(frozen=True)
class Box:
    """
    A multidimensional copy of elements of `unit` bytes. `dims` has the extents; `steps` and
    `result_steps` have the distances in bytes between two elements of input and result along each
    dimension.
    """

    unit: int
    dims: tuple[int, ...]
    steps: tuple[int, ...]
    result_steps: tuple[int, ...]
    starts: tuple[int, int, int]
    """The byte offsets of the first element modulo `ARENA_ALIGNMENT_BYTES`, as in `ArrayLayer`."""

    @property
    def request(self) -> tuple[int, ...]:
        """
        The box as the list of integers that `planner.cpp` parses. Dimensions of extent 1 are
        prepended up to the rank that the core expects.
        """
        more = BOX_RANK - len(self.dims)
        dims = (*(1,) * more, *self.dims)
        steps, result_steps = ((*(0,) * more, *side) for side in (self.steps, self.result_steps))
        return (CircuitKind.MOVE, self.unit, *dims, *steps, *result_steps)


@dataclass(frozen=True)
class Launches:
    """
    The launches that execute a layer or a box: `count` launches with equal registers, at different
    addresses.
    """

    count: int
    registers: Mapping[str, int]
    """The values by register names of `hdl/layer_registers.sv`."""


@cache
def _library() -> ctypes.CDLL:
    from ceras_ir.backends.nnet.engine import planner

    return ctypes.CDLL(str(planner()))


def plan(layer: ArrayLayer | Box, size: CircuitSize) -> Launches | str:
    """
    Return the launches of a layer on a core of `size`, or the reason (text) why the core cannot
    execute it.
    """
    return _plan(layer.request, size)


@cache
def _plan(request: tuple[int, ...], size: CircuitSize) -> Launches | str:
    known = register_map()
    core = (size.lanes, size.bus_bytes, size.line_bytes, size.result_bytes, size.tables)
    words = (ctypes.c_uint32 * known.constant("WORDS"))()
    reason = ctypes.create_string_buffer(MAX_REASON_BYTES)
    count: int = _library().ceras_nnet_plan(
        (ctypes.c_int64 * len(core))(*core), (ctypes.c_int64 * len(request))(*request), words,
        reason, ctypes.c_int64(MAX_REASON_BYTES),
    )  # fmt: skip
    if not count:
        return reason.value.decode()
    found = list(words)
    return Launches(count, {field.name: field.read(found) for field in known.fields})


def launches_of(op: Operation, size: CircuitSize) -> list[tuple[ArrayLayer | Box, Launches]] | str:
    """
    Return the parts of an operation, each with its launches on a core of `size`, or the reason
    (text) why the core cannot execute it. Only data movement operations can have several parts.
    """
    found: list[tuple[ArrayLayer | Box, Launches]] = []
    for layer in _boxes(op) if isinstance(op, MOVERS) else [layer_of(op)]:
        planned = plan(layer, size)
        if isinstance(planned, str):
            return planned
        found.append((layer, planned))
    return found


def why_not_in_verilog(op: Operation, size: CircuitSize) -> str | None:
    """
    Return the reason why a core of `size` cannot execute `op`, or `None` if it can. `op` must
    satisfy the rules of the FPGA (`rules.why_not`).
    """
    launches = launches_of(op, size)
    return launches if isinstance(launches, str) else None


def layer_of(op: Operation) -> ArrayLayer:
    """
    Return the description of `op` as a layer for `planner.cpp`. `op` must satisfy the rules of the
    FPGA and move no data.
    """
    residual = op.residual if isinstance(op, graph.LinearOperation) else None
    if isinstance(op, graph.BinaryOp):
        residual = op.rhs
    source, result = op.operands[0], op.results[0]
    unit, shape = element_bytes(result), shape_of(result)
    a, b = pitch_of(source), pitch_of(result) * unit
    c = 0 if residual is None else pitch_of(residual)
    starts = (start_of(source), start_of(result), 0 if residual is None else start_of(residual))
    tables = _table_count(op)
    bits = packed_bits(op.weights) if isinstance(op, graph.LinearOperation) else 0
    bits = bits or BYTE_BITS
    is_pool = isinstance(op, graph.Pool2dOp)
    kind = CircuitKind.POOL if is_pool else CircuitKind.LINEAR
    if is_pool or (
        isinstance(op, graph.Conv2dOp) and (graph.is_depthwise(op) or not is_product(op))
    ):
        images, height, width, channels = shape_of(source)
        rows, columns, outputs = shape[1:]
        layer = ArrayLayer(
            images, height, width, channels, rows, columns, outputs, a, b, c,
            _window(op, 0), _window(op, 1), is_pool or graph.is_depthwise(op), tables=tables,
            weight_bits=bits, result_size=unit, circuit=kind, starts=starts,
        )  # fmt: skip
        if not is_pool or op.function is graph.Pool.MAX or op.requant is None:
            return layer
        factor, shift = op.requant.multiplier.data, op.requant.shift.data
        return replace(layer, multiplier=factor, shift=shift)
    elements = prod(shape)
    channels = length = (1, *shape)[-1]
    circuit = CircuitKind.LOOKUP
    if isinstance(op, graph.LinearOperation):
        circuit, (length, *patch) = CircuitKind.LINEAR, shape_of(op.weights)
        channels = prod(patch)
    elif isinstance(op, graph.BinaryOp):
        circuit = CircuitKind.ADD
        if {a, b, c} == {length}:
            # Without gaps, all elements are a single row.
            channels = length = a = b = c = elements
    return ArrayLayer(
        1, 1, 1, channels, 1, 1, length, a, b, c, pixels=elements // length, tables=tables,
        weight_bits=bits, result_size=unit, circuit=circuit, starts=starts,
    )  # fmt: skip


def _table_count(op: Operation) -> int:
    if not isinstance(op, graph.LinearOperation | graph.LookupOp):
        return 0
    tables = op.tables
    return 0 if tables is None else len({tables[i].tobytes() for i in op.channel_rows or (0,)})


def _window(op: graph.Conv2dOp | graph.Pool2dOp, axis: int) -> ArrayWindow:
    fields = (op.strides, op.padding, op.dilations)
    is_pool = isinstance(op, graph.Pool2dOp)
    kernel = op.kernel.get_values() if is_pool else shape_of(op.weights)[1:3]
    return ArrayWindow(kernel[axis], *(field.get_values()[axis] for field in fields))


def pitch_of(value: SSAValue) -> int:
    """
    Return the distance in elements between the starts of two adjacent rows (of the last axis) of a
    value in memory. Before memory planning, rows have no gaps, so it is the length of a row.
    """
    block = block_of(value)
    pitch = 0 if block is None else block.pitch.data // element_bytes(value)
    return pitch or (1, *shape_of(value))[-1]


def start_of(value: SSAValue, offset: int = 0) -> int:
    """
    Return the address of byte `offset` of a value, modulo `ARENA_ALIGNMENT_BYTES`; 0 before memory
    planning.
    """
    block = block_of(value)
    return 0 if block is None else (block.offset.data + offset) % ARENA_ALIGNMENT_BYTES


def _boxes(op: MOVERS) -> list[Box]:
    first = 0
    unit, shape, to = element_bytes(op.results[0]), shape_of(op.results[0]), _steps(op.results[0])
    source, own = shape_of(op.operands[0]), _steps(op.operands[0])

    def box(
        dims: Sequence[int], steps: Sequence[int], result_steps: Sequence[int], *starts: int
    ) -> Box:
        read, written = (tuple(step * unit for step in side) for side in (steps, result_steps))
        return Box(unit, tuple(dims), read, written, (starts[0], starts[1], 0))

    match op:
        case graph.ReshapeOp():
            row = (1, *shape)[-1]
            gaps = {pitch_of(op.input), pitch_of(op.result)} != {row}
            dims = (prod(shape) // row, row) if gaps else (1, prod(shape))
            steps, result_steps = (pitch_of(op.input), 1), (pitch_of(op.result), 1)
        case graph.TransposeOp():
            dims, steps, result_steps = shape, [own[d] for d in op.permutation.get_values()], to
        case graph.SliceOp():
            strides = zip(own, op.strides.get_values(), strict=True)
            dims, steps, result_steps = shape, [step * int(stride) for step, stride in strides], to
            first = sum(i * step for i, step in zip(op.starts.get_values(), own, strict=True))
        case graph.ResizeOp():
            rows, columns = repetitions(op) or (1, 1)
            dims = (source[0], source[1], rows, source[2], columns, source[3])
            steps = (own[0], own[1], 0, own[2], 0, own[3])
            result_steps = (to[0], to[1] * rows, to[1], to[2] * columns, to[2], to[3])
        case graph.ConcatOp():
            in_place = [
                part.operand
                for part in slices(op)
                if block_of(op.result) is not None and operand_in_place(op, part)
            ]
            boxes: list[Box] = []
            for value in op.operands:
                if value not in in_place:
                    starts = (start_of(value), start_of(op.result, first * unit))
                    boxes.append(box(shape_of(value), _steps(value), to, *starts))
                first += shape_of(value)[op.axis.value.data] * to[op.axis.value.data]
            return boxes
    starts = (start_of(op.operands[0], first * unit), start_of(op.results[0]))
    return [box(dims, steps, result_steps, *starts)]


def _steps(value: SSAValue) -> list[int]:
    # Elements from one index of each dimension to the next.
    shape = shape_of(value)
    steps: list[int] = []
    elements = 1
    for d in reversed(range(len(shape))):
        steps.insert(0, elements)
        elements = pitch_of(value) if d + 1 == len(shape) else elements * shape[d]
    return steps
