"""
Quantized convolution and matrix product for cores that multiply pairs of 16-bit numbers (SMLAD),
and what each way to compute them costs: instructions, bytes of flash, and scratch memory.

Layers with many or few positions are in `dsp_tiles`, depthwise layers and Winograd's transform in
`dsp_windows`. Without the instructions the same C computes the same integers, pair by pair. The
coefficients of costs were counted under qemu with -Os, and a test compares them with new counts.
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from ceras_ir.backends.c.dsp_tiles import (
    COLUMNS,
    FILTERS,
    ROWS,
    band_of,
    direct_rows,
    few_positions,
    whole_words,
    windows,
)
from ceras_ir.backends.c.dsp_windows import (
    RUNS,
    depthwise,
    fits_depthwise,
    fits_winograd,
    scratch_bytes,
    tile_count,
    tiles_at_once,
    winograd,
)
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.sums import LIMIT, Geometry, Sums
from ceras_ir.backends.c.values import Rescaling, half_of, value_type
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

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


def fits_dsp(op: LinearOperation, geometry: Geometry, sums: Sums) -> bool:
    """Whether the layer's shape and types are such that words hold four products."""
    narrow = value_type(op.input) == "int8_t" and sums.weight_type == "int8_t"
    if not narrow or (np.abs(sums.bias) >= LIMIT).any():
        return False
    if geometry.groups != 1:
        return fits_depthwise(op, geometry)
    if geometry.direct:
        if geometry.taken % 4:
            return False
        return geometry.n >= (FILTERS if geometry.positions >= COLUMNS else ROWS)
    assert isinstance(op, Conv2dOp)
    images, _, columns, _ = shape_of(op.result)
    is_plain = images == 1 and op.dilations.get_values() == (1, 1)
    return is_plain and columns >= COLUMNS and geometry.n >= FILTERS


def dsp_linear(of: IntegerLayer) -> None:
    """Print the layer; `fits_dsp` holds."""
    layer, geometry, sums = of.layer, of.geometry, of.sums
    layer.kernel = "smlad"
    bias = layer.array("bias", sums.bias.astype(np.int32), "int32_t")
    of = replace(of, rescale=narrowed(of), bias=bias)
    if geometry.depthwise:
        depthwise(of)
    elif geometry.direct and geometry.positions < COLUMNS:
        few_positions(of)
    elif geometry.direct:
        direct_rows(of)
    else:
        may_store = layer.index in layer.options.stored_filters
        way = cheapest(of.window, geometry, sums, layer.options.workspace, may_store=may_store)
        layer.kernel = way.kind
        if way.kind == "smlad":
            windows(of)
        else:
            winograd(of, stored=way.kind == "stored winograd")


def narrowed(of: IntegerLayer) -> Rescaling:
    """
    The same rescaling by an instruction that shifts and clamps, where it does no more than that
    and its clamp range is all of int8, or none of its negative half.
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
    """`value` shifted right and clamped from `low`, -128 or 0, to 127, by one instruction."""
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
