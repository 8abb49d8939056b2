"""
The registers of the FPGA's circuits for one operation, as the initializer of a C++ `Step`.

What the engine computes from a file (`runtime/fpga_host.cpp`) is computed here from the
operation; `hls/steps.h` says what each field is.
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.hls_boxes import Box
from ceras_ir.backends.nnet.rules import MOVERS, is_depthwise, is_product
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import quantized_element, shape_of
from ceras_ir.dialects.mem import block_of
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.transforms.memory.analysis.liveness import byte_size
from ceras_ir.transforms.memory.analysis.slices import row_bytes


def step(op: Operation, first_box: int, boxes: int) -> str:
    """The initializer of a placed operation that the FPGA runs; the mover's has `boxes`."""
    linear, pool, add, lookup = "{}", "{}", "{}", "{}"
    other: SSAValue | None = None
    products, by_channel = 0, False
    match op:
        case graph.LinearOperation():
            assert op.requant is not None
            circuit = "Depthwise" if is_depthwise(op) else "Linear"
            linear, other = _linear(op), op.residual
            products, by_channel = prod(shape_of(op.weights)[1:]), bool(op.requant.channel_shifts)
        case graph.Pool2dOp():
            circuit, pool = "Pool", _pool(op)
        case graph.BinaryOp():
            circuit, add, other = "Add", _add(op), op.rhs
        case graph.LookupOp():
            channels = (1, *shape_of(op.result))[-1]
            rows = prod(shape_of(op.result)) // channels
            pitches = [_pitch(op.input), _pitch(op.result)]
            circuit, lookup = "Lookup", _list([rows, channels, *pitches])
        case _:
            assert isinstance(op, MOVERS), f"no circuit for {op.name}"
            circuit = "Move"
    ends = [_offset(op.operands[0]), _offset(other), _offset(op.results[0])]
    fields = [f"Circuit::{circuit}", linear, pool, add, *ends, products, by_channel, lookup]
    return _list([*fields, *_tables(op), first_box, boxes])


def box_registers(box: Box) -> str:
    """The initializer of a `Box`."""
    dims, source, target, unit = box.registers
    return _list([_list([*map(_list, (dims, source, target)), unit]), box.start, box.end])


def _tables(op: Operation) -> list[object]:
    """How many, bytes of an entry, and channels that name theirs."""
    if not isinstance(op, graph.LinearOperation | graph.LookupOp) or op.tables is None:
        return [0, 0, 0]
    return [len(op.tables), op.tables.itemsize, len(op.channel_rows or ())]


def _add(op: graph.BinaryOp) -> str:
    assert op.requant is not None
    operands = [op.lhs, op.rhs, op.result]
    length = shape_of(op.result)[-1] if any(map(_has_gaps, operands)) else None
    length = length or byte_size(op.result)
    rows = [byte_size(op.result) // length, length, *map(_pitch, operands)]
    zeros = map(_zero_point, operands[:2])
    return _list([*zeros, *op.shifts, _rescale(op.requant), *rows])


def _linear(op: graph.LinearOperation) -> str:
    assert op.requant is not None
    outputs = shape_of(op.weights)[0]
    pixels = prod(shape_of(op.result)) // outputs
    if isinstance(op, graph.Conv2dOp) and (is_depthwise(op) or not is_product(op)):
        images = shape_of(op.input)[0]
        window = _window(op, shape_of(op.weights)[1:3])
        fields: list[object] = [window, images, pixels // images, False]
    else:
        channels = prod(shape_of(op.weights)[1:])
        fields = [_list([0, 0, channels, *[0] * 10]), 1, pixels, True]
    zeros = map(_zero_point, (op.input, op.residual))
    pitches = map(_pitch, (op.input, op.residual, op.result))
    rescale = _rescale(op.requant)
    return _list([*fields, outputs, *zeros, op.residual_left_shift, rescale, *pitches])


def _pool(op: graph.Pool2dOp) -> str:
    requant = op.requant or RequantAttr(0)
    numbers = [_zero_point(op.input), requant.multiplier.data, requant.shift.data, *_end(requant)]
    window = _window(op, op.kernel.get_values())
    is_average = op.function is graph.Pool.AVERAGE
    pitches = map(_pitch, (op.input, op.result))
    return _list([window, shape_of(op.input)[0], is_average, *numbers, *pitches])


def _window(op: graph.Conv2dOp | graph.Pool2dOp, kernel: tuple[int, ...]) -> str:
    padding = op.padding.get_values()[:2]
    extents = [*shape_of(op.input)[1:], *shape_of(op.result)[1:3]]
    return _list(
        [*extents, *kernel, *op.strides.get_values(), *padding, *op.dilations.get_values()]
    )


def _rescale(requant: RequantAttr) -> str:
    shift = min(requant.net_shifts)
    return _list([max(-shift, 0), max(shift, 0), *_end(requant)])


def _end(requant: RequantAttr) -> list[object]:
    """How it rounds, what it adds then, and where it clamps."""
    numbers = (requant.zero_point.data, requant.low.data, requant.high.data)
    return [requant.mode is Rounding.HALF_EVEN, *numbers]


def _zero_point(value: SSAValue | None) -> int:
    element = None if value is None else quantized_element(value)
    return 0 if element is None else element.zero_point


def _offset(value: SSAValue | None) -> int:
    if value is None:
        return -1
    block = block_of(value)
    assert block is not None
    return block.offset.data


def _has_gaps(value: SSAValue) -> bool:
    block = block_of(value)
    return block is not None and block.pitch.data != 0


def _pitch(value: SSAValue | None) -> int:
    """Bytes from row to row."""
    if value is None:
        return 0
    block = block_of(value)
    assert block is not None
    return block.pitch.data or row_bytes(value)


def _list(fields: Sequence[object]) -> str:
    words = [str(f).lower() if isinstance(f, bool) else str(f) for f in fields]
    return "{" + ", ".join(words) + "}"
