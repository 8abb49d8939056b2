"""Give every channel its own power of two, at no cost at run time."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.network.function import module_of
from ceras_ir.network.storage import EQUALIZED, ROW_EXPONENTS, WEIGHT_EXPONENT, forget
from ceras_ir.transforms.quantization.analysis.channel_factors import ChannelFactors, Vector
from ceras_ir.transforms.quantization.analysis.channel_slots import (
    ChannelSlots,
    channel_addend,
    is_channel_scale,
)
from ceras_ir.transforms.quantization.analysis.function_forms import is_table
from ceras_ir.transforms.quantization.rewrites.calibrated_pass import CalibratedPass
from ceras_ir.transforms.quantization.rewrites.channel_scales import (
    insert_channel_scales,
    settle_channel_scales,
)
from ceras_ir.transforms.rebuilding import replace_constant, spread_columns

EXPONENTS = "input_exponents", "result_exponents"
"""Of `graph.unary`."""


@dataclass(frozen=True)
class EqualizeChannelsPass(CalibratedPass):
    """
    Multiply channels by powers of two between layers, so that one scale per tensor serves large and
    small channels alike. The rows of one layer's weights, its bias and constants that are added to
    channels are divided; the columns of the next layer's weights are multiplied.

    Without data nothing is done. A channel that is raised keeps one bit of headroom, and as many
    bits more as two halves of the samples disagree on its range, or on those of all channels of its
    value (twice the root mean square); one that only a half has seen, or none, is not raised. With
    `rows` none is raised further than until its sums of products are exact in half a step.
    Recorded ranges of values that change are dropped. Functions other than relu and clip get
    `input_exponents` and `result_exponents`, which their tables take in. What callers hand over, or
    floats make, and only layers of integers read is multiplied in float: features in units of their
    own, a spectrum. Channels of inputs are raised by three octaves or more.

    Exact, because powers of two are, and relu, pooling, addition and moves commute with positive
    factors. A clip from 0 to a bound keeps its place: its channels are raised only so far that
    twice the largest value seen stays below the bound. Larger values are clipped earlier, as int8
    would clip them.

    `graph.equalized` on the function says that channels have changed.
    """

    name = "equalize-channels"

    rows: bool = False
    """Every row of weights will have its own scale, so activations alone decide."""
    inputs: bool = True
    """Multiply inputs too. They come in one scale where callers hand over integers."""

    def improve(self, main: FuncOp) -> None:
        from ceras_ir.transforms.quantization.analysis.calibration import channel_statistics

        insert_channel_scales(main, inputs=self.inputs)
        slots = ChannelSlots(main)
        data = self.data(main)
        statistics = channel_statistics(module_of(main), data, slots.ids, powers=not self.rows)
        factors = ChannelFactors(main, slots, statistics)
        exponents = factors.choose(rows=self.rows)
        if exponents.any():
            main.attributes[EQUALIZED] = UnitAttr()
        _apply(factors, exponents)
        settle_channel_scales(main)


def _apply(factors: ChannelFactors, exponents: Vector) -> None:
    slots = factors.slots
    for op in factors.layers:
        columns = spread_columns(op, exponents[slots[op.input]])
        rows = exponents[slots[op.result]]
        if not columns.any() and not rows.any():
            continue
        old = graph.known_array(op.weights)
        across = rows.reshape(-1, *[1] * (old.ndim - 1))
        scaled = old * np.exp2(columns - across)
        replace_constant(op, op.weights, scaled.astype(np.float32))
        for name in (WEIGHT_EXPONENT, ROW_EXPONENTS):
            op.attributes.pop(name, None)
        if op.bias is not None:
            bias = graph.known_array(op.bias)
            replace_constant(op, op.bias, (bias * np.exp2(-rows)).astype(np.float32))
    for op in list(factors.main.body.block.ops):
        if is_channel_scale(op):
            across = exponents[slots[op.lhs]] - exponents[slots[op.result]]
            old = graph.known_array(op.rhs)
            replace_constant(op, op.rhs, (old * np.exp2(across)).astype(np.float32))
        elif (added := channel_addend(op)) is not None:
            across = exponents[slots[op.results[0]]]
            if across.any():
                scaled = graph.known_array(added) * np.exp2(-across)
                replace_constant(op, added, scaled.astype(np.float32))
        elif isinstance(op, graph.UnaryOp) and is_table(op):
            old = op.channel_exponents or ((0,), (0,))
            pair = [
                exponents[slots[v]] + e for v, e in zip((op.input, op.result), old, strict=True)
            ]
            if any(side.any() for side in pair):
                for name, side in zip(EXPONENTS, pair, strict=True):
                    op.properties[name] = graph.integers([int(e) for e in side])
    for value, ids in slots.ids.items():
        if exponents[ids].any():
            forget(value)
