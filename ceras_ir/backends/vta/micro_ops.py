"""
Micro-operations as arrays: `[n, 3]` of destination, source and weight index, and as the 32-bit
words (`VTAUop` in `hw_spec.h`) that a UOP load brings on chip.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.encoding import DEFAULT_BOARD, micro_op_limits

MicroOps = NDArray[np.int64]
"""Shape `[n, 3]`: dst, src, wgt."""


def micro_ops(rows: Iterable[Sequence[int]] | MicroOps) -> MicroOps:
    """An array of micro-ops from rows of one to three indices each, the missing ones zero."""
    # A table is taken as it is: going through rows would take milliseconds.
    if hasattr(rows, "dtype"):
        table = np.asarray(rows, np.int64)
        assert table.shape[1:] == (3,), "micro-ops are [n, 3]"
        return table.copy()
    padded = [(*row, 0, 0)[:3] for row in rows]
    return np.array(padded, np.int64).reshape(-1, 3)


def encode_micro_ops(table: MicroOps, board: VtaBoard = DEFAULT_BOARD) -> NDArray[np.uint32]:
    """The words of `table`."""
    limits = zip(("dst", "src", "wgt"), micro_op_limits(board), strict=True)
    for column, (name, limit) in enumerate(limits):
        values = table[:, column]
        bad = np.flatnonzero((values < 0) | (values >= limit))
        if bad.size:
            raise ValueError(
                f"micro-op {bad[0]}: {name} must be in [0, {limit - 1}], got {values[bad[0]]}"
            )
    src_at, wgt_at = _positions(board)
    words = table[:, 0] | table[:, 1] << src_at | table[:, 2] << wgt_at
    return words.astype(np.uint32)


def decode_micro_ops(words: NDArray[np.uint32], board: VtaBoard = DEFAULT_BOARD) -> MicroOps:
    """The micro-ops of `words`."""
    wide = words.astype(np.int64)
    src_at, wgt_at = _positions(board)
    dst = wide & (board.acc - 1)
    src = (wide >> src_at) & ((1 << (wgt_at - src_at)) - 1)
    return np.stack([dst, src, (wide >> wgt_at) & (board.wgt - 1)], axis=1)


def _positions(board: VtaBoard) -> tuple[int, int]:
    return board.log_acc, board.log_acc + max(board.log_acc, board.log_inp)
