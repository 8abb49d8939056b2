"""Copy rows of an input, with border, to the workspace, for vectors of Helium."""

from dataclasses import dataclass

from ceras_ir.backends.c.dsp_tiles import earlier
from ceras_ir.backends.c.helium_output import ITEMS, HeliumLayer
from ceras_ir.backends.c.helium_tiles import VECTOR_BYTES
from ceras_ir.backends.c.values import less, value_type, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, shape_of

INSTRUCTIONS_PER_VECTOR, INSTRUCTIONS_PER_ROW = 3, 30
"""The instructions to copy a vector of 16 bytes, and the additional instructions for each row."""


@dataclass(frozen=True)
class Band:
    """
    The copies of input rows, with padding, from which a convolution is computed. Each band serves
    `rows` output rows, and the `blocks` bands of a layer are copied one after the other.
    """

    rows: int
    """The number of output rows that are computed from a band."""
    blocks: int
    """The number of bands. The last band may overlap the previous band."""
    input_rows: int
    columns: int
    """The number of pixels of a row, border included."""
    pixel_bytes: int

    @property
    def row_bytes(self) -> int:
        return self.columns * self.pixel_bytes

    @property
    def instructions(self) -> float:
        """The modelled instructions that copy the input rows of all bands of a layer."""
        vectors = self.row_bytes / VECTOR_BYTES
        each = INSTRUCTIONS_PER_VECTOR * vectors + INSTRUCTIONS_PER_ROW
        return self.blocks * self.input_rows * each

    @classmethod
    def of(cls, op: Conv2dOp, workspace: int) -> "Band":
        """
        Return bands of equal height that fit `workspace` bytes. The minimum is one output row, even
        if it does not fit.
        """
        _, _, width, channels = shape_of(op.input)
        _, out_rows, out_columns, _ = shape_of(op.result)
        _, kernel_h, kernel_w, _ = shape_of(op.weights)
        (stride_h, stride_w), left = op.strides.get_values(), op.padding.get_values()[1]
        columns = max((out_columns - 1) * stride_w + kernel_w, left + width)
        pixel = channels * ITEMS[value_type(op.input)]
        room = (workspace - VECTOR_BYTES) // (columns * pixel)
        blocks = -(-out_rows // max((room - kernel_h) // stride_h + 1, 1))
        rows = -(-out_rows // blocks)
        return cls(rows, blocks, (rows - 1) * stride_h + kernel_h, columns, pixel)

    def open(self, of: HeliumLayer) -> None:
        """
        Print the start of the C loop over the bands of a layer, and the copy of the input rows. The
        caller closes the loop. The C variable `first` is the first output row of a band.
        """
        layer, op = of.layer, of.window
        stored = value_type(op.input)
        _, height, width, _ = shape_of(op.input)
        stride, (top, left, _, _) = op.strides.get_values()[0], op.padding.get_values()
        layer.kernels.use("helium_band")
        size = self.input_rows * self.row_bytes + VECTOR_BYTES
        layer.scratch(stored, "band", size // ITEMS[stored], ITEMS[stored])
        start = earlier(f"block * {self.rows}", shape_of(op.result)[1], self.rows)
        layer.line(f"for (int32_t block = 0; block < {self.blocks}; ++block) {{")
        layer.line(f"const int32_t first = {start};", 1)
        point = zero_point_of(of.sums.x)
        border = (point & 0xFF) * 0x01010101 if ITEMS[stored] == 1 else (point & 0xFFFF) * 0x10001
        row = less(f"first * {stride}" if stride > 1 else "first", top)
        right = self.columns - left - width
        widths = ", ".join(str(n * self.pixel_bytes) for n in (width, left, right))
        layer.line(
            f"helium_band(band, {of.x}, {row}, {self.input_rows}, {height}, {widths}, {border}u);",
            1,
        )
