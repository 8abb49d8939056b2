"""
Quantized convolution and matrix product for cores that multiply pairs of 16-bit numbers (SMLAD).

Many positions go through `dsp_tiles.py` or, 3x3 windows, through `dsp_winograd.py`, as
`dsp_costs.py` counts; few go through `dsp_rows.py`, depthwise ones through
`dsp_depthwise.py`. Without the instructions the
same C computes the same integers, pair by pair.
"""

from dataclasses import replace

import numpy as np

from ceras_ir.backends.c.dsp_costs import cheapest
from ceras_ir.backends.c.dsp_depthwise import depthwise, fits_depthwise
from ceras_ir.backends.c.dsp_rows import ROWS, few_positions
from ceras_ir.backends.c.dsp_tiles import FILTERS, POSITIONS, direct_rows, windows
from ceras_ir.backends.c.dsp_winograd import winograd
from ceras_ir.backends.c.integer_layer import IntegerLayer
from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.requant import Rescaling, half_of
from ceras_ir.backends.c.rows import Geometry
from ceras_ir.backends.c.sums import LIMIT, Sums
from ceras_ir.backends.c.types import value_type
from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of


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
        return geometry.n >= (FILTERS if geometry.positions >= POSITIONS else ROWS)
    assert isinstance(op, Conv2dOp)
    images, _, columns, _ = shape_of(op.result)
    is_plain = images == 1 and op.dilations.get_values() == (1, 1)
    return is_plain and columns >= POSITIONS and geometry.n >= FILTERS


def dsp_linear(of: IntegerLayer) -> None:
    """Print the layer; `fits_dsp` holds."""
    layer, geometry, sums = of.layer, of.geometry, of.sums
    layer.kernel = "smlad"
    bias = layer.array("bias", sums.bias.astype(np.int32), "int32_t")
    of = replace(of, rescale=narrowed(of), bias=bias)
    if geometry.depthwise:
        depthwise(of)
    elif geometry.direct and geometry.positions < POSITIONS:
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
