"""What stands around an input instead of zeros, added to the sums whose windows reach there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.rewrites.channel_products import ChannelProducts
from ceras_ir.backends.vta.rewrites.index_builder import Index
from ceras_ir.backends.vta.rewrites.kernel_builder import KernelBuilder
from ceras_ir.backends.vta.rewrites.positions import Planes, RowMajor
from ceras_ir.backends.vta.schedule.blocks import Blocks
from ceras_ir.backends.vta.schedule.borders import Run, borders_of
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import ACC
from ceras_ir.support.diagnostics import InputError


@dataclass(frozen=True)
class _Part:
    """What of a run lies in the block of output positions that begins at `block`."""

    constant: int
    block: int
    first: int
    """From the beginning of the block on."""
    count: int


class Border:
    """
    Of one contraction in blocks. Loads pad with zeros; what the padding should have contributed is
    a constant for each channel and kind of position, which stays on chip and is added by the ALU,
    or by the GEMM core if it is a product.
    """

    def __init__(
        self,
        op: tile.Conv2dOp,
        at: KernelBuilder,
        shape: Contraction,
        blocks: Blocks,
        positions: RowMajor | Planes,
        products: ChannelProducts | None,
    ):
        assert op.border is not None
        self.all = borders_of(shape)
        kinds, *_ = tile.memref_type(op.border).get_shape()
        if kinds != self.all.constants:
            raise InputError(
                f"'tile.conv2d' looks over the edge of its input in {self.all.constants} ways, but "
                f"its border has constants for {kinds}"
            )
        self.at, self.source, self.blocks, self.positions = at, op.border, blocks, positions
        self.box = (self.all.constants, shape.nblocks * shape.groups)
        self.products = products if shape.border_tiles else None
        self.constants = None if shape.border_tiles else at.alloc(ACC, *self.box)

    def load(self) -> None:
        """Bring the constants on chip that the ALU adds."""
        if self.constants is None:
            return
        start = [self.at.value(0), self.at.value(0)]
        self.at.add(tile.LoadOp(self.source, start, self.constants, [], self.box))

    def add(self, acc: SSAValue, n: Index, count: int, y: Index, x: Index) -> None:
        """To all of `count` output vectors, `n` of all the first, of the block at `y`, `x`."""
        at, b = self.at, self.blocks
        across = list(_parts(self.all.columns, b.columns, len(self.all.rows)))
        for row, part in enumerate(self.all.rows):
            for rows in _parts((part,), b.rows, row):
                for _ in at.where(y, rows.block):
                    self._add(acc, n, count, rows.constant, (rows.first, rows.count), None)
                    for columns in across:
                        corner = self.all.corner(row, columns.constant - len(self.all.rows))
                        place = (rows.first, rows.count), (columns.first, columns.count)
                        for _ in at.where(x, columns.block):
                            self._add(acc, n, count, corner, *place)
        for columns in across:
            for _ in at.where(x, columns.block):
                place = (columns.first, columns.count)
                self._add(acc, n, count, columns.constant, None, place)

    def _add(
        self,
        acc: SSAValue,
        n: Index,
        count: int,
        constant: int,
        rows: tuple[int, int] | None,
        columns: tuple[int, int] | None,
    ) -> None:
        """A constant to a box of positions: first and number of rows and columns, None for all."""
        at, vectors = self.at, (count, self.blocks.positions, 1)
        for start, loops in self.positions.boxes(rows, columns):
            box = [vectors, *((extent, step, 0) for extent, step in loops)]
            target = (acc, at.values(0, *start))
            if self.products is not None and self.products.border is not None:
                self.products.add(target, self.products.border, (constant, n), box)
                continue
            assert self.constants is not None
            source = (self.constants, at.values(constant, n))
            at.add(tile.AluOp(tile.Alu.ADD, target, box, source=source))


def _parts(runs: Sequence[Run], block: int, constant: int) -> Iterator[_Part]:
    """Runs cut at the beginnings of blocks; their constants count from `constant` on."""
    for number, run in enumerate(runs, constant):
        end = run.first + run.count
        for start in range(run.first // block * block, end, block):
            first = max(run.first, start)
            yield _Part(number, start, first - start, min(end, start + block) - first)
