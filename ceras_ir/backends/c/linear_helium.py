"""
Print quantized convolutions and matrix products for cores with Helium (Cortex-M55, Cortex-M85).

A convolution reads windows from a band: rows of the input with border, in the workspace. A row of a
window is contiguous there. If rows are short, windows are copied to patches without gaps. Other
processors compute the same integers in plain C.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.dsp_tiles import earlier
from ceras_ir.backends.c.helium_band import Band
from ceras_ir.backends.c.helium_depthwise import depthwise, depthwise_cost
from ceras_ir.backends.c.helium_output import ITEMS, Cost, Finish, HeliumLayer, OutputStage
from ceras_ir.backends.c.helium_tiles import (
    MAX_OUTPUTS,
    NIBBLE_BITS,
    VECTOR_BYTES,
    Tile,
    fits_nibbles,
    output_order,
)
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.sums import Geometry, Sums, analyse
from ceras_ir.backends.c.values import value_type
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

HELIUM = "helium"
"""The name of the kernels in reports."""

POSITIONS = 4
"""The maximum number of positions of a tile."""

SUMS_BYTES = 4 * POSITIONS * MAX_OUTPUTS
"""Bytes of the sums of a tile."""

MAX_ROW_BYTES = 1 << 16
"""The maximum distance of rows that an addition of a constant reaches."""


def fits_helium(op: LinearOperation, geometry: Geometry, sums: Sums) -> bool:
    """
    Return whether a kernel with Helium can compute the layer: supported types, output stage and
    shape.
    """
    item = ITEMS.get(value_type(op.input))
    if item is None or sums.weight_type != "int8_t" or OutputStage.of(op, sums) is None:
        return False
    if geometry.is_direct:
        return geometry.k * item < MAX_ROW_BYTES
    assert isinstance(op, Conv2dOp)
    if shape_of(op.result)[0] != 1 or op.dilations.get_values() != (1, 1):
        return False
    if geometry.groups > 1 and not geometry.is_depthwise:
        return False
    return Band.of(op, 0).row_bytes < MAX_ROW_BYTES


@dataclass(frozen=True)
class Plan:
    """The register tile with which Helium computes a layer, and the copies of input rows for it."""

    tile: Tile
    rows: int
    """The number of output rows (or rows of a matrix product) that are computed at a time."""
    band: Band | None = None
    """The copy of input rows of a convolution; None for a matrix product."""
    has_patches: bool = False
    filling: float = 0.0
    """The number of instructions that copy the input."""

    @classmethod
    def of(
        cls, op: LinearOperation, geometry: Geometry, workspace: int, *, is_packed: bool
    ) -> "Plan":
        """
        Return the plan with the fewest modelled instructions for a layer other than a depthwise
        convolution. Copies of the input use at most about `workspace` bytes.
        """
        item = ITEMS[value_type(op.input)]
        lanes = VECTOR_BYTES // item
        if geometry.is_direct:
            return cls._direct(geometry, workspace, item, is_packed=is_packed)
        assert isinstance(op, Conv2dOp)
        channels, (_, _, out_columns, _) = shape_of(op.input)[3], shape_of(op.result)
        _, kernel_h, kernel_w, _ = shape_of(op.weights)
        row, stride = kernel_w * channels, op.strides.get_values()[1]
        vectors = -(-kernel_h * row // lanes)
        size = (POSITIONS * vectors + 1) * VECTOR_BYTES
        band = Band.of(op, workspace - SUMS_BYTES - size)
        pitch = band.columns * channels
        count = min(POSITIONS, band.rows * out_columns)
        copied = kernel_h * (2 * -(-row // lanes) + 2) + 8
        patches = band.blocks * band.rows * out_columns
        found = [
            cls(
                Tile(count, 1, vectors, vectors * lanes, 0, item, is_packed),
                band.rows,
                band,
                True,
                band.instructions + patches * copied,
            )
        ]
        for count in range(min(POSITIONS, out_columns), 0, -1):
            tile = Tile(
                count, kernel_h, -(-row // lanes), stride * channels, pitch, item, is_packed
            )
            found.append(cls(tile, band.rows, band, False, band.instructions))
        return min(found, key=lambda plan: plan.instructions(geometry, out_columns))

    @classmethod
    def _direct(cls, geometry: Geometry, workspace: int, item: int, *, is_packed: bool) -> "Plan":
        lanes, k, rows = VECTOR_BYTES // item, geometry.k, geometry.positions
        filling = 0.0
        if k % lanes:
            # The last vector of the last row would extend beyond the input.
            room = max((workspace - SUMS_BYTES - VECTOR_BYTES) // (k * item), 1)
            rows = -(-rows // -(-rows // room))
            filling = 3 * geometry.positions * k / lanes
        tile = Tile(min(POSITIONS, rows), 1, -(-k // lanes), k, 0, item, is_packed)
        return cls(tile, rows, filling=filling)

    def has_copy(self, geometry: Geometry) -> bool:
        """
        Return whether the rows of a matrix product are copied to the workspace. Rows that do not
        fill the last vector must be, because the vector load of the last row passes the end of the
        input.
        """
        return geometry.k % self.tile.lanes != 0

    def tiles(self, geometry: Geometry, columns: int) -> int:
        """
        Return the number of tiles that cover all output positions. `columns` is the width of the
        result.
        """
        if self.band is None:
            return -(-geometry.positions // self.rows) * -(-self.rows // self.tile.positions)
        if self.has_patches:
            return self.band.blocks * -(-self.rows * columns // self.tile.positions)
        return self.band.blocks * self.rows * -(-columns // self.tile.positions)

    def instructions(self, geometry: Geometry, columns: int) -> float:
        """
        Return the modelled instructions of a layer without the output stage. `columns` is the width
        of the result.
        """
        groups = -(-geometry.n // self.tile.filters)
        chunks = -(-geometry.n // MAX_OUTPUTS)
        each = self.tile.instructions(groups) + 40 * chunks
        return self.filling + self.tiles(geometry, columns) * each


def helium_cost(op: LinearOperation, workspace: int) -> Cost:
    """
    Return the modelled instructions and cycles of a run of a layer for which `fits_helium` holds.
    """
    geometry, sums = Geometry.of(op), analyse(op)
    stage, columns = OutputStage.of(op, sums), shape_of(op.result)[-2]
    assert stage is not None
    if geometry.is_depthwise:
        assert isinstance(op, Conv2dOp)
        return depthwise_cost(op, sums, stage, workspace)
    plan = Plan.of(op, geometry, workspace, is_packed=fits_nibbles(sums))
    rows = plan.tiles(geometry, columns) * plan.tile.positions
    products = plan.instructions(geometry, columns)
    outputs = stage.cost(geometry.n, has_residual=op.residual is not None)
    return Cost(products, products * plan.tile.cycles_per_instruction) + outputs * rows


def helium_linear(layer: Layer, op: LinearOperation, geometry: Geometry, sums: Sums) -> None:
    layer.kernel = HELIUM
    of = HeliumLayer.of(layer, op, geometry, sums)
    if geometry.is_depthwise:
        depthwise(of)
        return
    is_packed = fits_nibbles(sums)
    plan = Plan.of(op, geometry, layer.options.workspace, is_packed=is_packed)
    layer.packed_bits = NIBBLE_BITS if is_packed else 0
    if plan.band is None:
        _rows(of, plan)
    elif plan.has_patches:
        _patches(of, plan, plan.band)
    else:
        _windows(of, plan, plan.band)


def _rows(of: HeliumLayer, plan: Plan) -> None:
    """Print a matrix product or a 1x1 convolution. Its input rows are contiguous in memory."""
    layer, geometry, tile = of.layer, of.geometry, plan.tile
    k, rows, has_copy = geometry.k, plan.rows, plan.has_copy(geometry)
    x, row = ("copy", "first + row") if has_copy else (of.x, "row")
    body = _outputs(of, plan, f"{x} + row * {k}", row)
    if has_copy:
        layer.scratch(value_type(of.op.input), x, rows * k + tile.lanes, tile.item)
        start = earlier(f"block * {rows}", geometry.positions, rows)
        layer.line(f"for (int32_t block = 0; block < {-(-geometry.positions // rows)}; ++block) {{")
        layer.line(f"const int32_t first = {start};", 1)
        layer.line(f"helium_copy({x}, {of.x} + first * {k}, {rows * k * tile.item});", 1)
    start = earlier(f"p * {tile.positions}", rows, tile.positions)
    layer.loop(
        "p", -(-rows // tile.positions), [f"const int32_t row = {start};", *body], int(has_copy)
    )
    if has_copy:
        layer.line("}")


def _windows(of: HeliumLayer, plan: Plan, band: Band) -> None:
    """
    Print a convolution with tiles that load windows from the band, the copied input rows with
    border.
    """
    layer, count = of.layer, plan.tile.positions
    columns, stride = shape_of(of.op.result)[2], of.window.strides.get_values()[0]
    source = f"band + r * {stride * plan.tile.pitch} + column * {plan.tile.pixel}"
    outputs = _outputs(of, plan, source, f"(first + r) * {columns} + column")
    band.open(of)
    body = [f"const int32_t column = {earlier(f'p * {count}', columns, count)};", *outputs]
    layer.line(f"for (int32_t r = 0; r < {band.rows}; ++r)", 1)
    layer.loop("p", -(-columns // count), body, 1)
    layer.line("}")


def _patches(of: HeliumLayer, plan: Plan, band: Band) -> None:
    """
    Print a convolution with tiles that load patches: copies of single windows of the band without
    gaps.
    """
    layer, op, tile, count = of.layer, of.window, plan.tile, plan.tile.positions
    columns, channels = shape_of(op.result)[2], shape_of(op.input)[3]
    _, kernel_h, kernel_w, _ = shape_of(op.weights)
    (stride_h, stride_w), total = op.strides.get_values(), band.rows * columns
    patches = layer.scratch(
        value_type(op.input), "patches", count * tile.pixel + tile.lanes, tile.item
    )
    outputs = _outputs(of, plan, patches, f"first * {columns} + start")
    band.open(of)
    row, pitch = kernel_w * channels * tile.item, band.row_bytes
    function = layer.kernels.use(
        "helium_patch",
        NAME=f"{kernel_h}x{row}_{pitch}",
        ROWS=str(kernel_h),
        BYTES=str(row),
        PITCH=str(pitch),
    )
    down, right = stride_h * band.columns * channels, stride_w * channels
    body = [
        f"const int32_t start = {earlier(f'p * {count}', total, count)};",
        f"for (int32_t i = 0; i < {count}; ++i) {{",
        f"  const int32_t r = (start + i) / {columns}, column = (start + i) % {columns};",
        f"  {function}({patches} + i * {tile.pixel}, band + r * {down} + column * {right});",
        "}",
        *outputs,
    ]
    layer.loop("p", -(-total // count), body, 1)
    layer.line("}")


def _outputs(of: HeliumLayer, plan: Plan, x: str, at: str) -> list[str]:
    """
    Return the C statements that compute all output channels for the positions of a tile. The C
    expression `x` is the address of the input of the first position, and `at` is its index.
    """
    layer, n, tile = of.layer, of.geometry.n, plan.tile
    order = output_order(n, in_blocks=of.stage.in_blocks)

    def packed() -> NDArray[np.int8]:
        weights = of.sums.centred()[order]
        return tile.packed(weights.reshape(n, tile.rows, -1))

    w = layer.constant("weights", "int8_t", tile.packed_bytes(n), 1, packed)
    sums = layer.scratch("int32_t", "sums", POSITIONS * MAX_OUTPUTS, 4)
    finish, multiply = Finish.of(of, order, in_blocks=of.stage.in_blocks), tile.function(layer)
    if n <= MAX_OUTPUTS:
        return [
            f"{multiply}({sums}, {x}, {w}, {-(-n // tile.filters)});",
            finish.call(f"({at}) * {n}", "", tile.positions, str(n)),
        ]
    size = tile.packed_bytes(tile.filters) // tile.filters
    return [
        f"for (int32_t o = 0; o < {n}; o += {MAX_OUTPUTS}) {{",
        f"  const int32_t count = {n} - o < {MAX_OUTPUTS} ? {n} - o : {MAX_OUTPUTS};",
        f"  {multiply}({sums}, {x}, {w} + o * {size}, "
        f"(count + {tile.filters - 1}) / {tile.filters});",
        f"  {finish.call(f'({at}) * {n} + o', ' + o', tile.positions, 'count')}",
        "}",
    ]
