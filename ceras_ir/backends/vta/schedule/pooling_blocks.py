"""How poolings are cut into blocks, and which maxima can be."""

from dataclasses import dataclass

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.isa import MemoryType
from ceras_ir.backends.vta.machine.time import Timing
from ceras_ir.backends.vta.schedule.blocks import even_blocks, widest_pad


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
    def is_global(self) -> bool:
        """Whether a plane is one window, and so consecutive in DRAM."""
        return self.rows == self.columns == 1 and self.kernel == (self.height, self.width)

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
            total = maximum_cycles(p, rows, columns)
            if best is None or total < best[0]:
                best = (total, rows, columns)
    return None if best is None else best[1:]


def maximum_cycles(p: Pooling, rows: int, columns: int) -> float:
    """About how long the maxima of one plane take, in blocks of this size."""
    ih, iw = p.window(rows, columns)
    blocks = -(-p.rows // rows) * -(-p.columns // columns)
    (kh, kw), (sh, sw) = p.kernel, p.strides
    right, along = (len(doubled(kw)), iw) if sw == 1 else (kw - 1, columns)
    down, lines = (len(doubled(kh)), ih * len(doubled(kh)) + rows) if sh == 1 else (kh, kh * rows)
    cycles = 2 * ih * iw + 2 * right * along * ih + (2 * lines + rows) * columns
    return blocks * (cycles + (right + down + 3) * Timing.instruction)


def doubled(window: int) -> list[int]:
    """
    Distances whose maxima in place make those of `window` neighbours: as many elements as are
    known already, or what is missing.
    """
    steps: list[int] = []
    known = 1
    while known < window:
        steps.append(min(known, window - known))
        known += steps[-1]
    return steps


def averaging_blocks(p: Pooling, weight_tiles: int, board: VtaBoard) -> tuple[int, int, int] | None:
    """Planes, rows and columns of the cheapest block that fits twice, or None."""
    best: tuple[float, int, int, int] | None = None
    for rows in even_blocks(p.rows):
        for columns in even_blocks(p.columns):
            ih, iw = p.window(rows, columns)
            most = min(board.inp // (2 * ih * iw), (board.acc - 1) // (2 * rows * columns))
            if not most or max(_pads(p, rows, columns)) > widest_pad(board):
                continue
            planes = min(most, p.planes, board.portable_uops // 2)
            planes = -(-p.planes // -(-p.planes // planes))
            cycles = averaging_cycles(p, weight_tiles, (planes, rows, columns), board)
            if best is None or cycles < best[0]:
                best = (cycles, planes, rows, columns)
    return None if best is None else best[1:]


def averaging_cycles(
    p: Pooling, weight_tiles: int, blocks: tuple[int, int, int], board: VtaBoard
) -> float:
    """About how long an average takes: the longer of its loads and its arithmetic."""
    timing = Timing.of(board)
    planes, rows, columns = blocks
    ih, iw = p.window(rows, columns)
    count = -(-p.planes // planes) * -(-p.rows // rows) * -(-p.columns // columns)
    vectors = planes * rows * columns
    passes = p.kernel[0] * p.kernel[1] * weight_tiles
    compute = passes * (vectors + timing.pipeline) + 7 * (vectors + timing.pipeline)
    loads = 1 if p.is_global else planes
    beats = timing.beats(ih * iw * planes * board.element_bytes(MemoryType.INP))
    load = loads * (timing.read_latency + timing.load) + beats
    store = vectors * timing.store_element + timing.write_latency
    return count * max(compute, load, store) + min(compute, load) + store


def _pads(p: Pooling, rows: int, columns: int) -> tuple[int, int, int, int]:
    """Widest padding of any load, at each side."""
    top, left, _, _ = p.padding
    ih, iw = p.window(rows, columns)
    last_row = ((p.rows - 1) // rows) * rows * p.strides[0] - top
    last_column = ((p.columns - 1) // columns) * columns * p.strides[1] - left
    return top, left, last_row + ih - p.height, last_column + iw - p.width
