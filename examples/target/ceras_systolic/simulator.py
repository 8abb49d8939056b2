"""The array in numpy: what each instruction of `isa.py` does, to the bit."""

import numpy as np
from numpy.typing import NDArray

from ceras_systolic.isa import Op, decode

Bytes = NDArray[np.uint8]


def simulate(stream: bytes, memory: Bytes, size: int, scratchpad: int, accumulators: int) -> None:
    """
    Run a stream on `memory`, in place, with so many rows of scratchpad and accumulators. The
    stream has passed `check_stream`: nothing is checked again here.
    """
    bytes_ = memory.view(np.int8)
    sp = np.full((scratchpad, size), 0x55, np.int8)
    acc = np.full((accumulators, size), 0x55555555, np.int32)
    pad = shift = point = low = high = 0

    def cells(dram: int, stride: int, rows: int, cols: int) -> NDArray[np.int64]:
        return dram + stride * np.arange(rows)[:, None] + np.arange(cols)

    for instruction in decode(stream):
        match instruction.op, instruction.words:
            case Op.CONFIG, (pad, shift, point, low, high):
                pass
            case Op.MVIN, (dram, stride, row, rows, cols):
                sp[row : row + rows] = 0
                sp[row : row + rows, :cols] = bytes_[cells(dram, stride, rows, cols)]
            case Op.FILL, (row, rows):
                sp[row : row + rows] = pad
            case Op.PRELOAD, (dram, row, rows):
                acc[row : row + rows] = memory[dram : dram + 4 * size].view("<i4")
            case Op.ADD, (dram, stride, row, rows, cols, left):
                added = bytes_[cells(dram, stride, rows, cols)].astype(np.int32) << left
                acc[row : row + rows, :cols] += added
            case Op.COMPUTE, (a, step, b, row, rows):
                left_side = sp[a : a + step * (rows - 1) + 1 : step].astype(np.int32)
                acc[row : row + rows] += left_side @ sp[b : b + size].astype(np.int32)
            case Op.MVOUT, (dram, stride, row, rows, cols):
                sums = acc[row : row + rows, :cols].astype(np.int64)
                scaled = ((sums + (1 << shift >> 1)) >> shift) + point
                bytes_[cells(dram, stride, rows, cols)] = np.clip(scaled, low, high)
            case other:
                raise AssertionError(other)
