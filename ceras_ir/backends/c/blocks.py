"""
Print products and lookups with packed weights that have a float scale for each block.

The input is quantized to bytes in the workspace, then each sum of a block is an integer dot product
(`runtime/block_products.c`). A vector holds outputs, so that no sum of floats is reordered. Weights
remain packed in memory, in panels of as many outputs as vectors have lanes.
"""

from dataclasses import dataclass

import numpy as np

from ceras_ir.backends.c.constants import Array
from ceras_ir.backends.c.layer import Layer, from_row, prints
from ceras_ir.backends.c.register_tiles import LANES_PER_VECTOR
from ceras_ir.backends.c.selection import row_lines
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import element_of, known_array, shape_of
from ceras_ir.dialects.graph.blocks import STEP_BYTES, BlockOperation
from ceras_ir.dialects.quant import BYTE_BITS, unpacked

MAX_ROWS, MAX_SMALL_ROWS = 32, 4
"""The rows of the input that are quantized at once, with and without vectors."""


@dataclass(frozen=True)
class BlockWeights:
    """The packed weights, scales and zero points of an operation, in panels of `lanes` rows."""

    op: BlockOperation
    lanes: int

    @property
    def rows(self) -> int:
        """The number of rows, including rows of zeros in the last panel."""
        return -(-shape_of(self.op.weights)[0] // self.lanes) * self.lanes

    @property
    def row_bytes(self) -> int:
        return shape_of(self.op.weights)[1]

    def panels(self) -> Array:
        """
        Return the weights as [panels, steps, lanes, STEP_BYTES]. In a step, field `f` (the lowest
        bits first) of byte `j` is element `f * STEP_BYTES + j` of the row.
        """
        weights, bits = known_array(self.op.weights).astype(np.uint8), self.op.width
        n, row = weights.shape
        fields = BYTE_BITS // bits
        integers = unpacked(weights.reshape(-1), weights.size * fields, bits)
        split = integers.reshape(n, row // STEP_BYTES, fields, STEP_BYTES)
        shifts = np.arange(fields, dtype=np.uint8)[:, None] * np.uint8(bits)
        steps = np.bitwise_or.reduce(split << shifts, axis=2)
        return self._in_panels(steps)

    def _in_panels(self, rows: Array) -> Array:
        padded = np.zeros((self.rows, *rows.shape[1:]), rows.dtype)
        padded[: len(rows)] = rows
        split = padded.reshape(-1, self.lanes, *rows.shape[1:])
        return np.ascontiguousarray(split.swapaxes(1, 2))

    @property
    def scale_format(self) -> str:
        """The type of scales: `f16` or `f32`."""
        return str(element_of(self.op.scales))

    def add(self, layer: Layer) -> tuple[str, str, str]:
        """
        Add the constants to the layer. Return the C names of weights, scales, and zero points or
        `NULL`.
        """
        layer.packed_bits = self.op.width
        weights = layer.constant("weights", "uint8_t", self.rows * self.row_bytes, 1, self.panels)
        values = known_array(self.op.scales)
        count, ctype = self.rows * self.op.block_count, SCALE_TYPES[self.scale_format]
        size = values.itemsize
        scales = layer.constant("scales", ctype, count, size, lambda: self._in_panels(values))
        if (points := self.op.points) is None:
            return weights, scales, "NULL"
        stored = known_array(points).astype(np.uint8)
        at = layer.constant("points", "uint8_t", count, 1, lambda: self._in_panels(stored))
        return weights, scales, at

    def function(self, layer: Layer, name: str, **holes: str) -> str:
        """Add the C function `name` for these weights, and return the C name."""
        form, bits = self.scale_format, self.op.width
        own = {"NAME": f"{bits}_{form}", "SCALE": SCALE_TYPES[form], "BITS": str(bits)}
        if "LOAD" not in holes:
            own["LOAD"] = layer.kernels.use("block_scale") if form == "f16" else ""
        return layer.kernels.use(name, **own, **holes)

    def product(self, layer: Layer) -> str:
        """Add the C function that multiplies quantized rows, and return the C name."""
        if layer.options.dsp:
            return self.function(layer, "block_rows")
        portable = self.function(layer, "block_products", LANES=str(self.lanes))
        if self.lanes == 1:
            return portable
        load = f"BLOCK_LOAD_{self.scale_format.upper()}"
        return self.function(layer, "block_panels", LOAD=load, PORTABLE=portable)


SCALE_TYPES = {"f32": "float", "f16": "uint16_t"}
"""The C type of each stored type of scales."""


@prints(graph.BlockMatmulOp)
def block_matmul(layer: Layer, op: graph.BlockMatmulOp) -> None:
    """
    Print `graph.block_matmul`: quantize some rows of the input, then multiply them by all panels,
    which threads share.
    """
    lanes = LANES_PER_VECTOR if layer.options.vectors else 1
    packed = BlockWeights(op, lanes)
    (m, k), n = shape_of(op.input), shape_of(op.weights)[0]
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    weights, scales, points = packed.add(layer)
    bias = layer.read_if(op.bias, "bias")
    blocks, size = op.block_count, op.block_size
    rows = min(m, MAX_ROWS if layer.options.vectors else MAX_SMALL_ROWS)
    layer.scratch("int8_t", "integers", rows * blocks * size, 1)
    layer.scratch("float", "steps", rows * blocks, 4)
    layer.scratch("int32_t", "sums", rows * blocks, 4)
    quantize = layer.kernels.use("quantize_blocks")
    multiply = packed.product(layer)

    def call(first: str, count: str) -> str:
        at = [
            from_row(weights, first, packed.row_bytes),
            from_row(scales, first, blocks),
            points if op.points is None else from_row(points, first, blocks),
            "NULL" if bias is None else from_row(bias, first, 1),
            from_row(to, first, 1),
        ]
        return (
            f"{multiply}({count}, {taken}, {blocks}, {size}, integers, steps, sums, "
            f"{', '.join(at)}, {n});"
        )

    if rows == m:
        taken, to = str(m), y
        layer.line(f"{quantize}({m}, {k}, {size}, {x}, integers, steps, sums);")
        layer.rows(n, n * k, call, lanes)
        return
    taken, to = "some", "to"
    layer.line(f"for (int32_t r = 0; r < {m}; r += {rows}) {{")
    layer.line(f"const int32_t some = {m} - r < {rows} ? {m} - r : {rows};")
    layer.line(f"float *to = {y} + r * {n};")
    layer.line(f"{quantize}(some, {k}, {size}, {x} + r * {k}, integers, steps, sums);")
    layer.rows(n, n * k, call, lanes)
    layer.line("}")


@prints(graph.BlockTakeOp)
def block_take(layer: Layer, op: graph.BlockTakeOp) -> None:
    """Print `graph.block_take`, which unpacks the selected rows."""
    packed = BlockWeights(op, 1)
    (count, columns), rows = shape_of(op.result), shape_of(op.weights)[0]
    at, y = layer.read(op.indices, "at"), layer.write(op.result)
    weights, scales, points = packed.add(layer)
    unpack = packed.function(layer, "block_row")
    blocks = op.block_count
    given = "NULL" if op.points is None else f"{points} + row * {blocks}"
    body = [
        *row_lines(at, rows),
        f"{unpack}({columns}, {op.block_size}, {weights} + row * {packed.row_bytes}, "
        f"{scales} + row * {blocks}, {given}, {y} + i * {columns});",
    ]
    layer.loop("i", count, body)
