"""Build the operations of a kernel; its buffers have the vectors that the operands' types say."""

from xdsl.dialects import memref
from xdsl.ir import SSAValue

from ceras_ir.backends.vta.rewrites.index_builder import IndexBuilder
from ceras_ir.dialects import tile
from ceras_ir.dialects.tile.memory import WGT, buffer_type, packed_vector


class KernelBuilder(IndexBuilder):
    """Inserts before `start`, the operation that is cut into blocks."""

    def __init__(self, start: tile.Conv2dOp | tile.MaxPoolOp | tile.AveragePoolOp):
        super().__init__(start)
        self.packed = packed_vector(start.input)
        """The last dimensions of feature maps in DRAM."""
        rows, self.lanes = (1, *self.packed)[-2:]
        self.tile = (self.lanes, self.lanes)
        self._vector = (rows, self.lanes)

    def view(self, value: SSAValue, *shape: int) -> SSAValue:
        """A buffer in DRAM under another shape."""
        if tile.memref_type(value).get_shape() == shape:
            return value
        self.add(view := tile.ViewOp(value, shape))
        return view.result

    def alloc(self, space: str, *shape: int) -> SSAValue:
        """A buffer on chip for so many vectors, or tiles."""
        vector = self.tile if space == WGT else self._vector
        self.add(alloc := memref.AllocOp([], [], buffer_type(space, shape, vector)))
        return alloc.memref

    def rotate(self, ring: SSAValue) -> SSAValue:
        """The next buffer of a ring."""
        self.add(rotate := tile.RotateOp(ring))
        return rotate.buffer
