"""Constants of output channels that the GEMM core adds: tiles of digits times one vector."""

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from ceras_ir.backends.vta.rewrites.index_builder import Index
from ceras_ir.backends.vta.rewrites.kernel_builder import KernelBuilder
from ceras_ir.backends.vta.schedule.borders import borders_of
from ceras_ir.backends.vta.schedule.contraction import Contraction
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import INP, WGT


class ChannelProducts:
    """
    Of one contraction. Its tiles stay on chip; `load` comes after the loads of the first block,
    so that the first product need not wait for them.
    """

    def __init__(self, op: tile.Conv2dOp, at: KernelBuilder, shape: Contraction):
        self.op, self.at = op, at
        self.vectors = shape.nblocks * shape.groups
        self.radix = at.alloc(INP, 1)
        self.kinds = borders_of(shape).constants
        bias, border = (self.vectors, shape.bias_tiles), (self.vectors, shape.border_tiles)
        self.bias = at.alloc(WGT, *bias) if shape.bias_tiles else None
        self.border = at.alloc(WGT, self.kinds, *border) if shape.border_tiles else None

    def load(self) -> None:
        """Bring the vector and all tiles on chip."""
        at, zero = self.at, self.at.value(0)
        assert self.op.radix is not None
        radix = at.view(self.op.radix, 1, *at.packed)
        at.add(tile.LoadOp(radix, [zero], self.radix, [], (1, 1)))
        for source, buffer in ((self.op.bias, self.bias), (self.op.border, self.border)):
            if buffer is not None and source is not None:
                count = prod(tile.vectors_in(buffer))
                tiles = at.view(source, count, *at.tile)
                at.add(tile.LoadOp(tiles, [zero], buffer, [], (1, count)))

    def add(
        self,
        acc: tuple[SSAValue, Sequence[SSAValue]],
        digits: SSAValue,
        first: Sequence[Index],
        loops: Sequence[tuple[int, int, int]],
    ) -> None:
        """Constants from `first` on; loops are extents, and strides of sums and of constants."""
        tiles = tile.vectors_in(digits)[-1]
        steps = [(extent, target, 0, step * tiles) for extent, target, step in loops]
        # One instruction for each tile: consecutive iterations write different sums.
        for place in range(tiles):
            source = (digits, self.at.values(*first, place))
            self.at.add(tile.GemmOp(acc, (self.radix, []), source, steps))
