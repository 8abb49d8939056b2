"""
Print quantized convolutions and matrix products for cores with SMLAD, which multiplies pairs of 16
bits.

The module chooses a kernel by instructions, flash and scratch memory. Layers with many or few
positions are in `dsp_tiles`, depthwise layers and the Winograd transform in `dsp_windows`. Without
SMLAD, the same C computes the same integers pair by pair. The coefficients of the cost model were
counted under qemu with -Os, and a test compares them with new counts.
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.backends.c.dsp_tiles import (
    FILTERS,
    TILE_COLUMNS,
    TILE_ROWS,
    RowBlock,
    band_of,
    direct_rows,
    earlier,
    few_positions,
    windows,
)
from ceras_ir.backends.c.dsp_windows import (
    WINOGRAD_RUNS,
    depthwise,
    fits_depthwise,
    fits_winograd,
    scratch_bytes,
    tile_count,
    tiles_at_once,
    winograd,
)
from ceras_ir.backends.c.integer_layer import Epilogue, IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.packed_weights import flash_bytes, stored_bits
from ceras_ir.backends.c.planes import FIELD, PairedPlanes, Planes
from ceras_ir.backends.c.sparse_code import SPARSE, SparseSource
from ceras_ir.backends.c.sums import LIMIT, Geometry, Sums
from ceras_ir.backends.c.values import Rescaling, half_of, value_type, zero_point_of
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of
from ceras_ir.dialects.quant import BYTE_BITS

Kind: TypeAlias = Literal["smlad", "patches", "winograd", "stored winograd"]

INSTRUCTIONS_PER_WIDENED_BYTE = 1.75
"""The number of instructions to widen a byte to 16 bits."""

INSTRUCTIONS_PER_EXPANDED_BYTE = 1.4
"""The number of instructions to expand a weight of 4 bits to a byte."""

PAIR_CYCLES, PAIR_OUTPUT = 0.77, 10.5
"""Instructions per product and per output of blocks of rows."""

INSTRUCTIONS_PER_PATCH_BYTE = 2.0
"""Instructions to copy a byte of a window."""


@dataclass(frozen=True)
class Way:
    """
    A kernel that can compute a layer, and its costs: instructions per run, bytes of flash for
    weights, and bytes of workspace (`scratch`).
    """

    kind: Kind
    instructions: float
    flash: int
    scratch: int


def ways(op: Conv2dOp, geometry: Geometry, sums: Sums, workspace: int) -> list[Way]:
    """
    Return the kernels that can compute a convolution with at most `workspace` bytes of workspace.
    The first has no further conditions; Winograd kernels follow if they are possible.
    """
    bits = stored_bits(sums)
    if geometry.group_channels % 4:
        return [_patches(geometry, workspace, bits)]
    found = [_windows(op, geometry, workspace, bits)]
    if fits_winograd(op, geometry, sums):
        for stored in (False, True):
            if count := tiles_at_once(op, workspace, stored=stored, bits=bits):
                found.append(_winograd(op, geometry, count, stored=stored, bits=bits))
    return found


def cheapest(
    op: Conv2dOp,
    geometry: Geometry,
    sums: Sums,
    workspace: int,
    *,
    may_transform: bool = True,
    may_store: bool = False,
) -> Way:
    """
    Return the kernel of a convolution with the fewest instructions. Winograd kernels are considered
    if filters may be transformed at run time (`may_transform`) or stored in flash after the
    transform (`may_store`).
    """
    refused = {"winograd": not may_transform, "stored winograd": not may_store}
    known = [w for w in ways(op, geometry, sums, workspace) if not refused.get(w.kind, False)]
    return min(known, key=lambda way: way.instructions)


def _windows(op: Conv2dOp, geometry: Geometry, workspace: int, bits: int) -> Way:
    _, rows, columns, _ = shape_of(op.result)
    band = band_of(op, workspace)
    bands, pairs = -(-rows // band.rows), -(-geometry.n // FILTERS)
    k = geometry.k
    tiles = rows * -(-columns // TILE_COLUMNS) * pairs
    instructions = (
        tiles * (13 * k / 2 + 210)
        + bands * pairs * INSTRUCTIONS_PER_WIDENED_BYTE * FILTERS * k
        + bands * INSTRUCTIONS_PER_WIDENED_BYTE * band.bytes / 2
    )
    scratch = band.bytes + 4 * k
    return Way("smlad", instructions, flash_bytes(bits, pairs, FILTERS * k), scratch)


def _patches(geometry: Geometry, workspace: int, bits: int) -> Way:
    block, pairs = RowBlock.of(geometry, workspace), -(-geometry.n // FILTERS)
    blocks = -(-geometry.positions // block.rows)
    tiles = blocks * block.groups * pairs
    instructions = tiles * TILE_COLUMNS * FILTERS * (PAIR_CYCLES * block.k + PAIR_OUTPUT)
    instructions += blocks * block.rows * (INSTRUCTIONS_PER_PATCH_BYTE * geometry.k + 60)
    flash = flash_bytes(bits, pairs, FILTERS * block.k)
    return Way("patches", instructions, flash, block.scratch)


def _winograd(op: Conv2dOp, geometry: Geometry, count: int, *, stored: bool, bits: int) -> Way:
    channels, total = shape_of(op.input)[3], tile_count(op)
    blocks, pairs = -(-total // count), -(-geometry.n // FILTERS)
    tiles = blocks * count
    products = WINOGRAD_RUNS * (11 * channels / 2 + 8) + 35
    instructions = (
        tiles * (70 * channels + 200)
        + tiles // TILE_COLUMNS * pairs * products
        + tiles * pairs * FILTERS * 75
        + (0 if stored else blocks * pairs * FILTERS * channels * 57)
    )
    flash = flash_bytes(bits, pairs, FILTERS * channels * 9)
    if stored:
        flash = pairs * FILTERS * channels * 2 * WINOGRAD_RUNS
    elif bits < BYTE_BITS:
        instructions += blocks * pairs * FILTERS * channels * 9 * INSTRUCTIONS_PER_EXPANDED_BYTE
    scratch = scratch_bytes(channels, count, stored=stored, bits=bits)
    return Way("stored winograd" if stored else "winograd", instructions, flash, scratch)


def fits_dsp(op: LinearOperation, geometry: Geometry, sums: Sums) -> bool:
    """
    Return whether a kernel with SMLAD supports the layer: int8 input and weights, and a shape with
    enough outputs and, for matrix products, a multiple of four channels.
    """
    narrow = value_type(op.input) == "int8_t" and sums.weight_type == "int8_t"
    if not narrow or (np.abs(sums.bias) >= LIMIT).any():
        return False
    if geometry.groups != 1:
        return fits_depthwise(op, geometry)
    if geometry.is_direct:
        if geometry.group_channels % 4:
            return False
        return geometry.n >= (FILTERS if geometry.positions >= TILE_COLUMNS else TILE_ROWS)
    assert isinstance(op, Conv2dOp)
    images, _, columns, _ = shape_of(op.result)
    is_plain = images == 1 and op.dilations.get_values() == (1, 1)
    return is_plain and columns >= TILE_COLUMNS and geometry.n >= FILTERS


def dsp_linear(of: IntegerLayer) -> None:
    layer, geometry, sums = of.layer, of.geometry, of.sums
    layer.kernel = "smlad"
    bias = layer.integers("bias", sums.bias)
    of = replace(of, rescale=narrowed(of), bias=bias)
    if geometry.is_depthwise:
        depthwise(of)
    elif geometry.is_direct and geometry.positions < TILE_COLUMNS:
        few_positions(of)
    elif geometry.is_direct:
        direct_rows(of)
    else:
        options = layer.options
        way = cheapest(
            of.window,
            geometry,
            sums,
            options.workspace,
            may_transform=options.winograd > 0,
            may_store=layer.index in options.stored_filters,
        )
        layer.kernel = way.kind
        if way.kind == "smlad":
            windows(of)
        elif way.kind == "patches":
            direct_rows(of)
        else:
            winograd(of, stored=way.kind == "stored winograd")


def narrowed(of: IntegerLayer) -> Rescaling:
    """
    Return the requantization as a single instruction that shifts and clamps to int8. If no
    instruction computes it (multiplier, zero point, other clamps), return `of.rescale`.
    """
    requant, rescale = of.op.requant, of.rescale
    assert requant is not None
    low, high = requant.low.data, requant.high.data
    only_shifts = requant.multiplier.data == 1 and not requant.is_per_channel
    rounds_down = of.sums.half_folded or half_of(requant) == 0
    plain = only_shifts and rounds_down and requant.zero_point.data == 0
    if not plain or rescale.type != "int32_t" or high != 127 or low not in (-128, 0):
        return rescale
    return replace(rescale, statements=(), result=narrow(of.layer, "v", low, requant.shift.data))


def narrow(layer: Layer, value: str, low: int, shift: int) -> str:
    """
    Return the C expression of `value >> shift`, clamped to [`low`, 127]. `low` must be -128 or 0.
    """
    moved = f", asr #{shift}" if shift else ""
    function = layer.kernels.use(
        "dsp_narrow",
        NAME=f"{'s8' if low else 'u7'}_{shift}",
        SHIFT=str(shift),
        LOW=str(low),
        HIGH="127",
        INSTRUCTION=f"{'ssat %0, #8' if low else 'usat %0, #7'}, %1{moved}",
    )
    return f"(int8_t){function}({value})"


# Sparse weights on cores with SMLAL: a product multiplies a weight by two positions, in the words
# of `PairedPlanes`. Sums and biases are in 64-bit registers. If the output stage is a shift and a
# clamp, bytes are computed there. Other output stages load the sums of a filter from memory.


MAX_ENTRIES_AT_ONCE = 8
"""The maximum number of stored weights between checks of the number of remaining weights."""

UPPER_SHIFT = 32 - FIELD
"""The position of the sums of the first position in the low half of 64 bits."""

UPPER_SCALE = 1 << UPPER_SHIFT
"""The factor of weights for that position."""

INSTRUCTIONS_PER_ENTRY, INSTRUCTIONS_PER_CHECK = 8, 3
"""Instructions for each stored weight, and for each check of the number of remaining weights."""


@dataclass(frozen=True)
class _Finish:
    """
    The conversion of the 64-bit sum of a sparse filter to the stored element: initial value, shift
    and clamp.
    """

    start: NDArray[np.int64]
    """The initial value of the sum of each filter."""
    element: str = "int32_t"
    shift: int = 0
    shifts: tuple[int, ...] = ()
    """A shift for each filter, which replaces `shift`."""
    low: int = 0
    high: int = 0

    @classmethod
    def of(cls, of: IntegerLayer) -> "_Finish":
        """
        Return the conversion to bytes if the output stage is only a shift and a clamp. Otherwise
        the sums are stored in 32 bits, and the output stage follows.
        """
        found = Epilogue.to_bytes(of.op, of.sums, of.rescale)
        if found is None:
            return cls(of.sums.bias)
        storage, start = value_type(of.op.result), of.sums.bias + found.extra
        return cls(start, storage, found.shift, found.shifts, found.low, found.high)

    @property
    def is_sum(self) -> bool:
        return self.element == "int32_t"

    def stored(self, layer: Layer, above: int) -> str:
        """
        Return the C expression of the stored element for the C variable `v`, which contains the sum
        shifted left by `above` bits.
        """
        if self.is_sum:
            return f"v >> {above}" if above else "v"
        is_whole = self.high == 127 and self.low in (-128, 0)
        if is_whole and not self.shifts:
            return narrow(layer, "v", self.low, above + self.shift)
        shift = f"(shift + {above})" if self.shifts else above + self.shift
        if is_whole:
            return narrow(layer, f"v >> {shift}", self.low, 0)
        low, high = self.low, self.high
        return f"(v >>= {shift}, v < {low} ? {low} : v > {high} ? {high} : v)"


def sparse_pairs(of: IntegerLayer, planes: Planes) -> bool:
    """
    Print a sparse layer with a kernel that computes two output positions with each product. Return
    `False`, without printing, if sums, shape or inputs do not allow it. `planes` is the layout of
    the input in the workspace.
    """
    layer, op, finish = of.layer, of.op, _Finish.of(of)
    weights = of.sums.centred().astype(np.int64)
    largest = 128 * np.abs(weights).sum(1) + np.abs(finish.start)
    shifts = finish.shifts or (finish.shift,)
    if value_type(op.input) != "int8_t":
        return False
    if largest.max() >= 1 << (FIELD - 1) or max(shifts) >= FIELD:
        return False
    pairs = PairedPlanes.of(planes, layer.options.workspace)
    if pairs is None:
        return False
    _print(of, pairs, finish, np.ascontiguousarray(weights.astype(np.int8)))
    return True


def _print(
    of: IntegerLayer, pairs: PairedPlanes, finish: _Finish, weights: NDArray[np.int8]
) -> None:
    layer, op, near, strip_planes = of.layer, of.op, pairs.near, pairs.all_positions
    layer.kernel = SPARSE
    outputs = len(weights)
    point = np.full(near.channels, zero_point_of(of.sums.x), np.int8)
    border = layer.array("border", point, "int8_t")
    start = layer.integers("start", np.resize(finish.start, outputs))
    shift = "0"
    if finish.shifts:
        shift = f"{layer.array('shifts', np.array(finish.shifts, np.int8), 'int8_t')}[o]"
    source = SparseSource.of(layer, op, weights, pairs.taps(), scale=UPPER_SCALE)
    count, column = _entries_at_once(source.counts), 1 if finish.is_sum else outputs
    rows, columns = pairs.distance
    kernel = layer.kernels.use(
        "sparse_pairs",
        NAME=str(layer.index),
        COUNT=str(count),
        ROWS=str(near.strip),
        COLUMNS=str(near.columns),
        PITCH=str(pairs.pitch),
        ELEMENT=finish.element,
        NEAR=finish.stored(layer, UPPER_SHIFT),
        NEXT=finish.stored(layer, 0),
        STEP="4" if near.columns % 4 == 0 else "(left < 4 ? left : 4)",
        ROW=str(strip_planes.columns * column),
        COLUMN=str(column),
        FAR=str((rows * strip_planes.columns + columns) * column),
    )
    layer.scratch("int32_t", "planes", pairs.words, 4)
    source.reserve(count)
    if finish.is_sum:
        layer.scratch("int32_t", "sums", pairs.positions, 4)
    x = of.x
    if near.images > 1:
        layer.line(f"for (int32_t image = 0; image < {near.images}; ++image)")
        x += f" + image * {prod((near.height, near.width, near.channels))}"
    layer.line(f"for (int32_t strip = 0; strip < {pairs.strips}; ++strip) {{")
    strip = strip_planes.strip
    first = earlier(f"strip * {strip}", strip_planes.rows, strip)
    layer.line(f"const int32_t first = {first};", 1)
    pairs.fill(layer, x, border)
    source.declare(1)
    image = f"image * {strip_planes.rows} + " if near.images > 1 else ""
    layer.line(f"const int32_t base = ({image}first) * {strip_planes.columns * outputs};", 1)
    layer.line(f"for (int32_t o = 0; o < {outputs}; ++o) {{", 1)
    layer.line(f"const int32_t n = {source.next_filter(near.channels, near.plane_columns)};", 2)
    to = "sums" if finish.is_sum else f"{of.y} + base + o"
    layer.line(f"{kernel}(planes, entries, n, {start}[o], {shift}, {to});", 2)
    if finish.is_sum:
        layer.line("int32_t at = base;", 2)
        layer.line(f"for (int32_t p = 0; p < {pairs.positions}; ++p, at += {outputs}) {{", 2)
        layer.block(replace(of, rescale=narrowed(of)).epilogue("sums[p]"), 3)
        layer.line("}", 2)
    for depth in (1, 0):
        layer.line("}", depth)


def _entries_at_once(counts: NDArray[np.int64]) -> int:
    """
    Return the number of weights that a loop iteration of the sparse kernel processes, for the
    fewest modelled instructions with padding and end checks. `counts` has the number of nonzero
    weights of each filter.
    """

    def cost(count: int) -> int:
        iterations = np.maximum(-(-counts // count), 1)
        return int((iterations * (INSTRUCTIONS_PER_ENTRY * count + INSTRUCTIONS_PER_CHECK)).sum())

    return min(range(2, MAX_ENTRIES_AT_ONCE + 1), key=cost)
