"""
The registers of the FPGA's circuits for one operation, as the initializer of a C++ `Step`.

What the engine computes from a file (`runtime/fpga_host.cpp`) is computed here from the
operation; `hls/steps.h` says what each field is.
"""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.rules import is_product
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import quantized_element, shape_of
from ceras_ir.dialects.mem import block_of
from ceras_ir.dialects.quant import RequantAttr, Rounding
from ceras_ir.transforms.memory.analysis.liveness import byte_size


def step(op: Operation) -> str:
    """The initializer of a placed operation that the FPGA runs."""
    match op:
        case graph.LinearOperation():
            assert op.requant is not None
            products = prod(shape_of(op.weights)[1:])
            by_channel = bool(op.requant.channel_shifts)
            fields = [
                "Circuit::Linear", _linear(op), "{}", "{}", _offset(op.input),
                _offset(op.residual), _offset(op.result), products, by_channel,
            ]  # fmt: skip
        case graph.Pool2dOp():
            fields = [
                "Circuit::Pool", "{}", _pool(op), "{}", _offset(op.input), -1,
                _offset(op.result), 0, False,
            ]  # fmt: skip
        case graph.BinaryOp():
            assert op.requant is not None
            operands = [op.lhs, op.rhs, op.result]
            length = shape_of(op.result)[-1] if any(map(_has_gaps, operands)) else None
            length = length or byte_size(op.result)
            rows = [byte_size(op.result) // length, length, *map(_pitch, operands)]
            zeros = map(_zero_point, operands[:2])
            registers = [*zeros, *op.shifts, _rescale(op.requant), *rows]
            fields = [
                "Circuit::Add", "{}", "{}", _list(registers), _offset(op.lhs),
                _offset(op.rhs), _offset(op.result), 0, False,
            ]  # fmt: skip
        case _:
            raise AssertionError(f"no circuit for {op.name}")
    return _list(fields)


def _linear(op: graph.LinearOperation) -> str:
    assert op.requant is not None
    outputs = shape_of(op.weights)[0]
    pixels = prod(shape_of(op.result)) // outputs
    if isinstance(op, graph.Conv2dOp) and not is_product(op):
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
    """Bytes from row to row, which of int8 are as many as numbers."""
    if value is None:
        return 0
    block = block_of(value)
    assert block is not None
    return block.pitch.data or (1, *shape_of(value))[-1]


def _list(fields: Sequence[object]) -> str:
    words = [str(f).lower() if isinstance(f, bool) else str(f) for f in fields]
    return "{" + ", ".join(words) + "}"
