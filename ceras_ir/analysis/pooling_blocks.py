"""How maximum pooling is cut into blocks, and which poolings can be."""

from dataclasses import dataclass

from ceras_ir.analysis.blocks import even_blocks, widest_pad
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.timing import Timing


@dataclass(frozen=True)
class Pooling:
    """Windows over planes of `height` x `width` vectors."""

    planes: int
    height: int
    width: int
    rows: int
    columns: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]

    def window(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns on chip that a block of output positions needs."""
        (kh, kw), (sh, sw) = self.kernel, self.strides
        return (rows - 1) * sh + kh, (columns - 1) * sw + kw

    @property
    def is_separable_in_place(self) -> bool:
        """
        Whether maxima along a row can replace its elements: with stride 1 one step at a time,
        else if a window meets only one position of the next.
        """
        kw, sw = self.kernel[1], self.strides[1]
        return sw == 1 or kw <= 2 * sw


def pooling_blocks(p: Pooling, board: VtaBoard) -> tuple[int, int] | None:
    """Rows and columns of the cheapest block that fits twice, or None."""
    best: tuple[float, int, int] | None = None
    for rows in even_blocks(p.rows):
        for columns in even_blocks(p.columns):
            ih, iw = p.window(rows, columns)
            outputs = rows * columns
            if 2 * ih * iw > board.inp or ih * iw + 2 * outputs > board.acc:
                continue
            if max(_pads(p, rows, columns)) > widest_pad(board):
                continue
            blocks = -(-p.rows // rows) * -(-p.columns // columns)
            passes = p.kernel[0] + p.kernel[1] + 2
            along = 2 * (p.kernel[1] - 1) * ih * (iw if p.strides[1] == 1 else columns)
            cycles = 2 * ih * iw + along + outputs * (1 + 2 * p.kernel[0])
            total = blocks * (cycles + passes * Timing.pipeline)
            if best is None or total < best[0]:
                best = (total, rows, columns)
    return None if best is None else best[1:]


def _pads(p: Pooling, rows: int, columns: int) -> tuple[int, int, int, int]:
    """Widest padding of any load, at each side."""
    top, left, _, _ = p.padding
    ih, iw = p.window(rows, columns)
    last_row = ((p.rows - 1) // rows) * rows * p.strides[0] - top
    last_column = ((p.columns - 1) // columns) * columns * p.strides[1] - left
    return top, left, last_row + ih - p.height, last_column + iw - p.width
