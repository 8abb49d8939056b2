"""
What a convolution costs in each way that cores with SMLAD have for it: instructions, bytes of
flash, and scratch memory. Coefficients were counted under qemu with -Os; a test holds them to it.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ceras_ir.backends.c.dsp_products import COLUMNS, FILTERS
from ceras_ir.backends.c.dsp_tiles import band_of, whole_words
from ceras_ir.backends.c.dsp_winograd import (
    RUNS,
    fits_winograd,
    scratch_bytes,
    tile_count,
    tiles_at_once,
)
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.sums import Sums
from ceras_ir.dialects.graph import Conv2dOp, shape_of

Kind: TypeAlias = Literal["smlad", "winograd", "stored winograd"]

INSTRUCTIONS_PER_WIDENED_BYTE = 1.75
"""For a byte that becomes a 16-bit number."""


@dataclass(frozen=True)
class Way:
    """One way to compute a layer."""

    kind: Kind
    instructions: float
    flash: int
    """Of its weights."""
    scratch: int


def ways(op: Conv2dOp, geometry: Geometry, sums: Sums, workspace: int) -> list[Way]:
    """Every way to compute 3x3 and other windows within the workspace; the first always can."""
    found = [_windows(op, geometry, workspace)]
    if fits_winograd(op, geometry, sums):
        for stored in (False, True):
            if count := tiles_at_once(op, workspace, stored=stored):
                found.append(_winograd(op, geometry, count, stored=stored))
    return found


def cheapest(
    op: Conv2dOp, geometry: Geometry, sums: Sums, workspace: int, *, may_store: bool
) -> Way:
    """The way with the fewest instructions; with transformed filters in flash if they may be."""
    known = ways(op, geometry, sums, workspace)
    allowed = [way for way in known if may_store or way.kind != "stored winograd"]
    return min(allowed, key=lambda way: way.instructions)


def _windows(op: Conv2dOp, geometry: Geometry, workspace: int) -> Way:
    _, rows, columns, _ = shape_of(op.result)
    band = band_of(op, workspace)
    bands, pairs = -(-rows // band.rows), -(-geometry.n // FILTERS)
    k = geometry.k // geometry.taken * whole_words(geometry.taken)
    tiles = rows * -(-columns // COLUMNS) * pairs
    instructions = (
        tiles * (13 * k / 2 + 210)
        + bands * pairs * INSTRUCTIONS_PER_WIDENED_BYTE * FILTERS * k
        + bands * INSTRUCTIONS_PER_WIDENED_BYTE * band.bytes / 2
    )
    scratch = band.bytes + 4 * k
    return Way("smlad", instructions, pairs * FILTERS * k, scratch)


def _winograd(op: Conv2dOp, geometry: Geometry, count: int, *, stored: bool) -> Way:
    channels, total = shape_of(op.input)[3], tile_count(op)
    blocks, pairs = -(-total // count), -(-geometry.n // FILTERS)
    tiles = blocks * count
    products = RUNS * (11 * channels / 2 + 8) + 35
    instructions = (
        tiles * (70 * channels + 200)
        + tiles // COLUMNS * pairs * products
        + tiles * pairs * FILTERS * 75
        + (0 if stored else blocks * pairs * FILTERS * channels * 57)
    )
    flash = pairs * FILTERS * channels * (2 * RUNS if stored else 9)
    scratch = scratch_bytes(channels, count, stored=stored)
    return Way("stored winograd" if stored else "winograd", instructions, flash, scratch)
