"""
The boxes that the mover copies for one operation, in bytes of shared memory.

What the engine computes from a file (`runtime/fpga_host_moves.cpp`) is computed here from the
operation and its plan; `FpgaMove` in `runtime/fpga.h` says what the registers are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.nnet.limits import limit
from ceras_ir.backends.nnet.rules import MAX_EXTENT, repetitions
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.mem import block_of
from ceras_ir.transforms.memory.analysis.slices import element_bytes, row_bytes

DIMENSIONS = limit("fpga.h", "FPGA_BOX")


@dataclass(frozen=True)
class Box:
    """Extents, and bytes from one element to the next of each dimension, on both sides."""

    dims: Sequence[int]
    source: Sequence[int]
    target: Sequence[int]
    unit: int
    start: int
    """Byte of its first element."""
    end: int
    """Byte to which that goes."""

    @property
    def registers(self) -> tuple[list[int], list[int], list[int], int]:
        """With as many dimensions as the circuit counts, the first of which are of one element."""
        more = DIMENSIONS - len(self.dims)
        if not self.dims:
            return [1] * more, [self.unit] * more, [self.unit] * more, self.unit
        zeros = [0] * more
        return (
            [1] * more + list(self.dims),
            zeros + list(self.source),
            zeros + list(self.target),
            self.unit,
        )

    @property
    def stays(self) -> bool:
        """Whether every byte is where it goes."""
        if self.start != self.end:
            return False
        sides = zip(self.dims, self.source, self.target, strict=True)
        return all(n == 1 or a == b for n, a, b in sides)


def boxes(op: Operation) -> list[Box]:
    """What is to be copied for a placed operation of the mover; nothing of what is in place."""
    match op:
        case graph.ReshapeOp():
            found = _reshaped(op)
        case graph.TransposeOp():
            own = strides(op.input)
            source = [own[int(d)] for d in op.permutation.get_values()]
            found = [_box(op, op.input, shape_of(op.result), source, strides(op.result))]
        case graph.SliceOp():
            own = strides(op.input)
            start = sum(s * int(i) for s, i in zip(own, op.starts.get_values(), strict=True))
            source = [s * int(n) for s, n in zip(own, op.strides.get_values(), strict=True)]
            shape = shape_of(op.result)
            found = [_box(op, op.input, shape, source, strides(op.result), start)]
        case graph.ConcatOp():
            whole, axis, done = strides(op.result), op.axis.value.data, 0
            found: list[Box] = []
            for value in op.inputs:
                own = strides(value)
                found.append(_box(op, value, shape_of(value), own, whole, 0, done * whole[axis]))
                done += shape_of(value)[axis]
        case graph.ResizeOp():
            found = [_repeated(op)]
        case _:
            raise AssertionError(f"the mover has no box for {op.name}")
    return [box for box in found if not box.stays]


def strides(value: SSAValue) -> list[int]:
    """Bytes from one index of each dimension to the next."""
    shape = shape_of(value)
    block = block_of(value)
    assert block is not None
    found: list[int] = []
    apart = element_bytes(value)
    for d in reversed(range(len(shape))):
        found.append(apart)
        is_row = d + 1 == len(shape)
        apart = (block.pitch.data or row_bytes(value)) if is_row else apart * shape[d]
    return found[::-1]


def _box(
    op: graph.GraphOperation,
    value: SSAValue,
    dims: Sequence[int],
    source: Sequence[int],
    target: Sequence[int],
    start: int = 0,
    end: int = 0,
) -> Box:
    own, whole = block_of(value), block_of(op.output)
    assert own is not None and whole is not None
    return Box(
        dims, source, target, element_bytes(op.output), own.offset.data + start,
        whole.offset.data + end,
    )  # fmt: skip


def _reshaped(op: graph.ReshapeOp) -> list[Box]:
    """Rows that are as wide in both, or one run; a counter holds no more than it counts to."""
    own, whole = block_of(op.input), block_of(op.result)
    assert own is not None and whole is not None
    if own.offset == whole.offset:
        return []
    unit = element_bytes(op.result)
    gaps = own.pitch.data or whole.pitch.data
    row = (1, *shape_of(op.result))[-1] if gaps else prod(shape_of(op.result))
    apart = [block.pitch.data or row * unit for block in (own, whole)]
    return [
        _box(
            op, op.input, [min(MAX_EXTENT, row - at)], [unit], [unit],
            i * apart[0] + at * unit, i * apart[1] + at * unit,
        )
        for i in range(prod(shape_of(op.result)) // row)
        for at in range(0, row, MAX_EXTENT)
    ]  # fmt: skip


def _repeated(op: graph.ResizeOp) -> Box:
    factors = repetitions(op)
    assert factors is not None
    rows, columns = factors
    n, h, w, c = shape_of(op.input)
    own, whole = strides(op.input), strides(op.result)
    source = [own[0], own[1], 0, own[2], 0, own[3]]
    target = [whole[0], whole[1] * rows, whole[1], whole[2] * columns, whole[2], whole[3]]
    return _box(op, op.input, [n, h, rows, w, columns, c], source, target)
