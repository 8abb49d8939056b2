"""Replace the scales of a Q/DQ network by powers of two, for targets that cannot multiply."""

from dataclasses import dataclass
from math import frexp, isfinite, log2, log10

import numpy as np
from xdsl.dialects.builtin import TensorType, UnitAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.function import SNAPPED, keeps_scale, observed_values
from ceras_ir.network.integer import (
    fitting_exponent,
    least_squares_exponent,
    squared_error,
    weight_bounds,
)
from ceras_ir.network.storage import exponent, network_values, set_exponent
from ceras_ir.support.diagnostics import node_name, remark, shortened
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import only_moves
from ceras_ir.transforms.quantization.analysis.rescaling import has_power_scales
from ceras_ir.transforms.quantization.fold_qdq import FoldDequantize
from ceras_ir.transforms.quantization.qdq_rules import TieRule, repadded
from ceras_ir.transforms.quantization.saturation import proven_bounds, range_of, saturated
from ceras_ir.transforms.rebuilding import erase_dead, with_data

MAX_LISTED_LAYERS = 5

MIN_UNUSED_BITS = 3
"""
The number of bits that the proven bounds must leave unused, so that the scale fits the bounds.
Models store values of fewer bits in 8 bits, after a clip.
"""

MAX_STORAGE_BITS = 16
"""The maximum width of a storage that implies a range. Sums do not use all 32 bits."""


@dataclass(frozen=True)
class SnapScalesPass(NetworkPass):
    """
    Replace the Q/DQ pairs of a network by `graph.exponent`, the smallest power of two at which
    symmetric int8 holds the entire range. `quantize` then uses these exponents.

    With per-channel scales, the range is that of all channels. If a clip before QuantizeLinear
    leaves at most an eighth of the range, as for integers of 4 bits, the exponent fits the clip.
    Arguments and results keep their types. A network is left unchanged if it has no Q/DQ, or if all
    its scales are powers of two.

    QuantizeLinear also saturates, so a clip to the range replaces each removed pair. The clip is
    part of the sum or product before it, or otherwise a `graph.unary`. It is omitted only if the
    operations prove that the value cannot exceed the range by more than one step, as after a
    sigmoid. If channels have different ranges, a minimum and a maximum clip each channel.

    Additions and factors that only decide ties are removed first, as by the rule `ties` of
    `fold-qdq`.

    Not exact: steps become coarser by a factor of 1 to 4. A note on stderr prints the cost: the
    signal-to-noise ratio in decibels that each activation loses, and the signal-to-noise ratio of
    constant weights with a single power of two, compared with the weights of the model.

    Before:

        func.func @main(%x: tensor<2xf32>, %z: tensor<2xf32>) -> tensor<2xf32> {
          %a = graph.binary add %x, %z : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          %q = graph.quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.3:-128>>
          %y = graph.dequantize %q : (tensor<2x!quant.uniform<i8:f32, 0.3:-128>>) -> tensor<2xf32>
          func.return %y : tensor<2xf32>
        }

    After:

        func.func @main(%x: tensor<2xf32>, %z: tensor<2xf32>) -> tensor<2xf32>
            attributes {graph.snapped} {
          %y = graph.binary add %x, %z {activation = #graph.function<clip, 0.0, 76.5>,
              graph.exponent = 0 : i64} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          func.return %y : tensor<2xf32>
        }
    """

    name = "snap-scales"

    def change(self, main: FuncOp) -> None:
        # Constants that decide ties depend on the scales of the model.
        TieRule().change(main)
        block = main.body.block
        border = graph.QuantizeOp | graph.DequantizeOp | graph.ConstantOp
        if any(
            isinstance(o, graph.GraphOperation)
            and o.is_quantized
            and not isinstance(o, border | graph.PadOp)
            and not only_moves(o)
            for o in block.ops
        ):
            return  # Quantized to the end already; there are no floats to snap.
        if not any(isinstance(o, graph.QuantizeOp | graph.DequantizeOp) for o in block.ops):
            return
        tensors = [v for v in network_values(block) if isinstance(v.type, TensorType)]
        if all(has_power_scales(e) for e in map(graph.quantized_element, tensors) if e):
            return
        costs = _Costs()
        _remove_pairs(main, costs)
        main.attributes[SNAPPED] = UnitAttr()
        costs.note(self.name)


class _Costs:
    """
    Collects the cost of new scales, for notes to the user: the loss of resolution of each
    activation, and the signal-to-noise ratio of the weights of each layer, in dB.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[float, str]] = []
        self.weights: list[tuple[float, str]] = []

    def step(self, value: SSAValue, element: UniformType, new: int) -> None:
        name = node_name(value.owner) if isinstance(value.owner, Operation) else "input"
        old = min(scale.data for scale in element.scales)
        self.steps.append((20 * log10(2) * (new - log2(old)), shortened(name)))

    def weight(self, op: graph.LinearOperation) -> None:
        owner = op.weights.owner
        if not isinstance(owner, graph.ConstantOp) or graph.quantized_element(op.weights):
            return
        real = owner.array().astype(np.float32, copy=False)
        bounds = weight_bounds()
        chosen = least_squares_exponent(real, *bounds)
        error, power = squared_error(real, chosen, *bounds), float((real**2).sum())
        if error > 0.0 < power:
            self.weights.append((10 * log10(power / error), shortened(node_name(op))))

    def note(self, name: str) -> None:
        if self.steps:
            mean = sum(cost for cost, _ in self.steps) / len(self.steps)
            worst = sorted(self.steps, key=lambda s: -s[0])[:MAX_LISTED_LAYERS]
            text = (
                f"{len(self.steps)} scales changed to powers of two; steps are coarser by "
                f"{mean:.1f} dB on average; most: {_listed(worst)}"
            )
            remark(f"{name}: note: {text}")
        if self.weights:
            worst = sorted(self.weights, key=lambda w: w[0])[:MAX_LISTED_LAYERS]
            text = "signal-to-noise ratio of weights with one power of two, lowest first: "
            remark(f"{name}: note: {text}{_listed(worst)}")


def _listed(entries: list[tuple[float, str]]) -> str:
    return ", ".join(f"{name} {cost:.1f} dB" for cost, name in entries)


def _remove_pairs(main: FuncOp, costs: _Costs) -> None:
    """
    Remove the pairs of QuantizeLinear and DequantizeLinear of a network. Consumers get the float
    value before the pair, clipped to the range of the pair. Exponents of new scales are recorded.
    """
    block = main.body.block
    floats: dict[SSAValue, SSAValue] = {}
    clipped: dict[tuple[SSAValue, Attribute], SSAValue] = {}
    for op in list(block.ops):
        match op:
            case graph.QuantizeOp():
                key = op.input, op.result.type
                if key not in clipped:
                    clipped[key] = _clip_to_storage(op, costs)
                floats[op.result] = clipped[key]
            case graph.DequantizeOp() if op.input in floats:
                op.result.replace_all_uses_with(floats[op.input])
            case graph.DequantizeOp() if not isinstance(op.input.owner, graph.ConstantOp):
                element = graph.stored_element(op.input)
                _snap(op.result, element)
                if (chosen := exponent(op.result)) is not None:
                    costs.step(op.result, element, chosen)
            case graph.PadOp() if op.input in floats:
                padded = repadded(op, floats[op.input])
                assert padded is not None
                Rewriter.insert_op(padded, InsertPoint.before(op))
                floats[op.result] = padded.result
                _snap(padded.result, graph.stored_element(op.result))
            case graph.GraphOperation() if op.is_quantized and only_moves(op):
                if all(v in floats for v in op.data_operands):
                    moved = with_data(op, [floats[v] for v in op.data_operands], f32)
                    Rewriter.insert_op(moved, InsertPoint.before(op))
                    floats[op.output] = moved.output
                    _snap(moved.output, graph.stored_element(op.output))
            case _:
                pass
    erase_dead(block)
    folding = GreedyRewritePatternApplier([FoldDequantize()])
    PatternRewriteWalker(folding).rewrite_region(main.body)
    _set_missing_exponents(main)
    for op in block.ops:
        if isinstance(op, graph.LinearOperation):
            costs.weight(op)


def _clip_to_storage(quantize: graph.QuantizeOp, costs: _Costs) -> SSAValue:
    """
    Return the operand of `quantize`, clipped to the range of the stored type, and record the
    exponent of the new scale for it.
    """
    element, value = graph.stored_element(quantize.result), quantize.input
    chosen, known = _fitting_exponent(element), exponent(value)
    if chosen is None or isinstance(value.owner, graph.ConstantOp):
        return saturated(quantize, chosen)
    chosen = _exponent_of_few_bits(value, element, chosen)
    result = saturated(quantize, chosen)
    kept = chosen if known is None else max(known, chosen)
    set_exponent(value, kept)
    if result is not value:
        set_exponent(result, chosen)
    costs.step(value, element, kept)
    return result


def _exponent_of_few_bits(value: SSAValue, element: UniformType, chosen: int) -> int:
    owner = value.owner
    if isinstance(owner, graph.PadOp) or keeps_scale(owner):  # The operand decides.
        return chosen
    min_integer, max_integer = range_of(element)
    low, high = (min(max(end, min_integer), max_integer) for end in proven_bounds(value))
    finer = fitting_exponent(max(-low, high))
    return finer if chosen - finer >= MIN_UNUSED_BITS else chosen


def _set_missing_exponents(main: FuncOp) -> None:
    """
    Record an exponent of the scale for values that the model does not quantize. An operand that is
    only moved or clipped gets the exponent of the result. The other values get the smallest
    exponent that represents the proven bounds, if there are finite bounds; they are more reliable
    than synthetic samples.
    """
    for op in reversed(list(main.body.block.ops)):
        if not isinstance(op, graph.GraphOperation) or not _keeps_range(op):
            continue
        chosen = exponent(op.output)
        for value in op.data_operands:
            is_free = exponent(value) is None and value.has_one_use()
            if chosen is not None and is_free and not isinstance(value.owner, graph.ConstantOp):
                set_exponent(value, chosen)
    for value in observed_values(main):
        if exponent(value) is None and isfinite(magnitude := max(map(abs, proven_bounds(value)))):
            set_exponent(value, fitting_exponent(magnitude))


def _keeps_range(op: graph.GraphOperation) -> bool:
    match op:
        case graph.UnaryOp():
            return op.function.clip_range is not None
        case graph.BinaryOp():
            return op.function in (graph.Binary.MIN, graph.Binary.MAX)
        case _:
            return only_moves(op) or isinstance(op, graph.PadOp)


def _snap(value: SSAValue, element: UniformType) -> None:
    chosen, known = _fitting_exponent(element), exponent(value)
    if chosen is not None:
        set_exponent(value, chosen if known is None else max(known, chosen))


def _fitting_exponent(element: UniformType) -> int | None:
    if element.storage.width.data > MAX_STORAGE_BITS:
        return None
    # A power-of-two scale without zero point is used unchanged. Only -128 would not fit.
    is_symmetric = element.is_signed and not any(point.data for point in element.zero_points)
    if is_symmetric and has_power_scales(element) and element.storage.width.data == 8:
        return frexp(max(s.data for s in element.scales))[1] - 1
    low, high = range_of(element)
    return fitting_exponent(max(high, -low))
