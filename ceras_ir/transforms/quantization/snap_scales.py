"""Move the scales of a Q/DQ network to powers of two, for targets that cannot multiply."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import frexp, inf, log2, log10

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.exponents import (
    WEIGHT_LOW,
    fitting_exponent,
    least_squares_exponent,
    squared_error,
)
from ceras_ir.network.quantizable import SNAPPED
from ceras_ir.network.ranges import exponent, network_values, set_exponent
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.remarks import remark
from ceras_ir.support.text_table import shortened
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import is_quantized_alike, only_moves
from ceras_ir.transforms.quantization.analysis.rescaling import has_power_scales
from ceras_ir.transforms.quantization.fold_dequantized_constants import FoldDequantize
from ceras_ir.transforms.quantization.rewrites.repadding import repadded
from ceras_ir.transforms.rebuilding import erase_dead, with_data

WORST = 5
"""How many layers the note on stderr names, and in how many characters."""

WIDEST = 16
"""Bits of numbers whose storage says something of their range; sums in 32 bits never fill it."""


@dataclass(frozen=True)
class SnapScalesPass(NetworkPass):
    """
    Replace the Q/DQ pairs of a network by `graph.exponent`: the least power of two at which
    symmetric int8 holds the whole range. `quantize` then works with these. Where each channel has a
    scale, the range is that of all channels. Types of arguments and results stay. A network without
    Q/DQ stays as it is, and so does one whose scales are all powers of two already.

    QuantizeLinear also saturates, and quantizers leave out a Relu or Clip that it repeats. So sums
    and products get a clip to the range that was stored, which costs integers nothing.

    Not exact: steps become coarser, by a factor of 1 to 4. A note on stderr says the cost: decibels
    of signal to noise per activation, and the signal-to-noise ratio of constant weights stored with
    one power of two against those of the model.
    """

    name = "snap-scales"

    def change(self, main: FuncOp) -> None:
        block = main.body.block
        computed = [
            o
            for o in block.ops
            if isinstance(o, graph.GraphOperation) and o.is_quantized and not _is_border(o)
        ]
        if any(not only_moves(o) and not isinstance(o, graph.PadOp) for o in computed):
            return  # Quantized to the end already; there are no floats to snap.
        if not any(isinstance(o, graph.QuantizeOp | graph.DequantizeOp) for o in block.ops):
            return
        if all(map(has_power_scales, _stored_types(main))):
            return
        costs = _Costs()
        _unpaired(main, costs)
        main.attributes[SNAPPED] = UnitAttr()
        costs.note(self.name)


def _stored_types(main: FuncOp) -> Iterator[UniformType]:
    """How the values of a network are stored that are."""
    for value in network_values(main.body.block):
        if isinstance(value.type, TensorType) and (element := graph.quantized_element(value)):
            yield element


def _is_border(op: Operation) -> bool:
    return isinstance(op, graph.QuantizeOp | graph.DequantizeOp | graph.ConstantOp)


class _Costs:
    """What snapping takes from each layer, in decibels."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, str]] = []
        self.weights: list[tuple[float, str]] = []

    def step(self, op: Operation | None, old: float, new: int) -> None:
        name = "input" if op is None else node_name(op)
        self.steps.append((20 * log10(2) * (new - log2(old)), shortened(name)))

    def weight(self, op: graph.LinearOperation) -> None:
        owner = op.weights.owner
        if not isinstance(owner, graph.ConstantOp) or graph.quantized_element(op.weights):
            return
        real = owner.array().astype(np.float32, copy=False)
        chosen = least_squares_exponent(real, WEIGHT_LOW)
        error, power = squared_error(real, chosen, WEIGHT_LOW), float((real**2).sum())
        if error > 0.0 < power:
            self.weights.append((10 * log10(power / error), shortened(node_name(op))))

    def note(self, name: str) -> None:
        if self.steps:
            mean = sum(cost for cost, _ in self.steps) / len(self.steps)
            worst = sorted(self.steps, key=lambda s: -s[0])[:WORST]
            _say(name, f"{len(self.steps)} scales moved to powers of two; steps are coarser by "
                 f"{mean:.1f} dB on average; most: {_listed(worst)}")  # fmt: skip
        if self.weights:
            worst = sorted(self.weights, key=lambda w: w[0])[:WORST]
            _say(name, "signal to noise of weights with one power of two, least first: "
                 f"{_listed(worst)}")  # fmt: skip


def _say(name: str, text: str) -> None:
    remark(f"{name}: note: {text}")


def _listed(entries: list[tuple[float, str]]) -> str:
    return ", ".join(f"{name} {cost:.1f} dB" for cost, name in entries)


def _unpaired(main: FuncOp, costs: _Costs) -> None:
    """Replace what is read of stored integers by the floats that were stored."""
    block = main.body.block
    floats: dict[SSAValue, SSAValue] = {}
    for op in list(block.ops):
        match op:
            case graph.QuantizeOp():
                floats[op.result] = op.input
                if not isinstance(op.input.owner, graph.ConstantOp):
                    _snap(op.input, graph.stored_element(op.result), costs)
                    floats[op.result] = _saturated(op)
            case graph.DequantizeOp() if op.input in floats:
                op.result.replace_all_uses_with(floats[op.input])
            case graph.DequantizeOp() if not isinstance(op.input.owner, graph.ConstantOp):
                _snap(op.result, graph.stored_element(op.input), costs)
            case graph.PadOp() if op.input in floats:
                padded = repadded(op, floats[op.input])
                assert padded is not None
                Rewriter.insert_op(padded, InsertPoint.before(op))
                floats[op.result] = padded.result
                _snap(padded.result, graph.stored_element(op.result), None)
            case graph.GraphOperation() if op.is_quantized and only_moves(op):
                if all(v in floats for v in op.data_operands):
                    moved = with_data(op, [floats[v] for v in op.data_operands], f32)
                    Rewriter.insert_op(moved, InsertPoint.before(op))
                    floats[op.output] = moved.output
                    _snap(moved.output, graph.stored_element(op.output), None)
            case _:
                pass
    erase_dead(block)
    folding = GreedyRewritePatternApplier([FoldDequantize()])
    PatternRewriteWalker(folding).rewrite_region(main.body)
    for op in block.ops:
        if isinstance(op, graph.LinearOperation):
            costs.weight(op)


def _range(element: UniformType) -> tuple[float, float]:
    """The least and the greatest number that `element` stores, in any channel."""
    channels = list(zip(element.scales, element.zero_points, strict=True))
    low = min((element.low - z.data) * s.data for s, z in channels)
    return low, max((element.high - z.data) * s.data for s, z in channels)


def _saturated(quantize: graph.QuantizeOp) -> SSAValue:
    """
    What `quantize` reads, clipped to what it stores where sums or products made it. Values of
    other operations are within the ranges of those that they are made of.
    """
    element = graph.stored_element(quantize.result)
    low, high = (float(np.float32(end)) for end in _range(element))
    makers = [(o, bounds) for o in _makers(quantize.input) if (bounds := _clip_range(o))]
    if makers and not is_quantized_alike(quantize):
        clip = graph.UnaryOp(quantize.input, _clip(low, high))
        clip.location = quantize.location
        Rewriter.insert_op(clip, InsertPoint.before(quantize))
        _snap(clip.result, element, None)
        return clip.result
    for maker, (least, most) in makers:
        if max(low, least) <= min(high, most):
            maker.activation = _clip(max(low, least), min(high, most))
    return quantize.input


def _makers(value: SSAValue) -> list[graph.LinearOperation | graph.BinaryOp]:
    """The sums and products whose elements `value` has, and nothing else."""
    op = value.owner
    if isinstance(op, graph.LinearOperation | graph.BinaryOp):
        return [op]
    if not (isinstance(op, graph.GraphOperation) and only_moves(op)):
        return []
    if not all(operand.has_one_use() for operand in op.data_operands):
        return []
    return [maker for operand in op.data_operands for maker in _makers(operand)]


def _clip_range(op: graph.LinearOperation | graph.BinaryOp) -> tuple[float, float] | None:
    """What the function of `op` clips to, None if it does more."""
    return (-inf, inf) if op.activation is None else op.activation.clip_range


def _clip(low: float, high: float) -> graph.FunctionAttr:
    return graph.FunctionAttr(graph.Function.CLIP, (low, high))


def _snap(value: SSAValue, element: UniformType, costs: _Costs | None) -> None:
    """Record the least power of two that holds the range of `element` in int8."""
    if element.storage.width.data > WIDEST:
        return
    finest, coarsest = min(s.data for s in element.scales), max(s.data for s in element.scales)
    low, high = _range(element)
    chosen = fitting_exponent(max(high, -low))
    # A power-of-two scale without zero point already is one; only -128 would not fit.
    is_symmetric = element.is_signed and not any(point.data for point in element.zero_points)
    if is_symmetric and has_power_scales(element) and element.storage.width.data == 8:
        chosen = frexp(coarsest)[1] - 1
    if (known := exponent(value)) is not None:
        chosen = max(known, chosen)
    set_exponent(value, chosen)
    if costs is not None:
        costs.step(value.owner if isinstance(value.owner, Operation) else None, finest, chosen)
