"""
The clip that `graph.quantize` applies, as an operation or epilogue of the float network.

QuantizeLinear rounds and clips. A pass that removes QuantizeLinear, or stores the result in a wider
range, must keep the clip: quantizers leave out a Relu or Clip that QuantizeLinear repeats, and
ranges that cut off outliers are common. `saturated` keeps the clip for any operation before it. It
has no cost if the value cannot exceed the range, or if a sum of products has the clip as its
epilogue.
"""

from math import inf

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FloatAttr, IntAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.storage import exponent
from ceras_ir.transforms.quantization.analysis.proven_bounds import proven_bounds, range_of
from ceras_ir.transforms.quantization.analysis.qdq import is_quantized_alike, only_moves


def saturated(quantize: graph.QuantizeOp, coarsest: int | None) -> SSAValue:
    """
    Return the operand of `quantize` within the range that `quantize` stores.

    The clip becomes part of the operations that compute the elements, if these are sums, products
    or clips, nothing else needs their results, and their `graph.exponent` is at most `coarsest`:
    the model rounds coarser results before it clips them. Otherwise the clip is a new operation
    before `quantize`, unless the operand is proven to be in the range, to one step.
    """
    clip, value = _Clip(quantize, coarsest), quantize.input
    if is_quantized_alike(quantize) and clip.is_absorbed(value):
        clip.absorb(value)
    elif not clip.holds(value):
        value = clip.before(value, quantize)
    return _clipped_channels(value, quantize)


class _Clip:
    """The clip to the `limits` of a quantization, which a value may exceed by `step`."""

    def __init__(self, quantize: graph.QuantizeOp, coarsest: int | None):
        self.coarsest = coarsest
        element = graph.stored_element(quantize.result)
        low, high = range_of(element)
        self.limits = float(np.float32(low)), float(np.float32(high))
        self.step = min(scale.data for scale in element.scales)

    def holds(self, value: SSAValue) -> bool:
        """Whether the bounds of `value` are proven, to one step."""
        low, high = proven_bounds(value)
        return self.limits[0] - self.step <= low and high <= self.limits[1] + self.step

    def before(self, value: SSAValue, reader: Operation) -> SSAValue:
        """`value` clipped by an operation before `reader`, or a constant."""
        array = graph.constant_array(value)
        if array is not None:
            new = graph.ConstantOp.from_array(np.clip(array.astype(np.float32), *self.limits))
        else:
            new = graph.UnaryOp(value, graph.FunctionAttr(graph.Function.CLIP, self.limits))
        new.location = reader.location
        Rewriter.insert_op(new, InsertPoint.before(reader))
        return new.result

    def is_absorbed(self, value: SSAValue) -> bool:
        """Whether operations that make elements of `value`, and of nothing else, can clip them."""
        op, known = value.owner, exponent(value)
        match op:
            case graph.LinearOperation() | graph.BinaryOp() | graph.UnaryOp():
                function = op.function if isinstance(op, graph.UnaryOp) else op.activation
                if known is not None and self.coarsest is not None and known > self.coarsest:
                    return False
                return function is None or function.clip_range is not None
            case graph.GraphOperation() if only_moves(op) or isinstance(op, graph.PadOp):
                moved = op.data_operands
                return all(v.has_one_use() for v in moved) and any(map(self.is_absorbed, moved))
            case _:
                return False

    def absorb(self, value: SSAValue) -> None:
        """Let the operations that compute the elements of `value` clip them."""
        op = value.owner
        match op:
            case graph.LinearOperation() | graph.BinaryOp():
                op.activation = self._narrowed(op.activation)
            case graph.UnaryOp():
                if not self.holds(value):
                    op.properties["function"] = self._narrowed(op.function)
            case graph.PadOp():
                fill = min(max(float(op.stored_value), self.limits[0]), self.limits[1])
                op.properties["value"] = FloatAttr(fill, f32)
                self._of_operand(op, op.input)
            case graph.GraphOperation():
                for operand in op.data_operands:
                    self._of_operand(op, operand)
            case _:
                pass

    def _of_operand(self, op: graph.GraphOperation, operand: SSAValue) -> None:
        if self.is_absorbed(operand):
            self.absorb(operand)
        elif not self.holds(operand):
            op.operands[op.operands.index(operand)] = self.before(operand, op)

    def _narrowed(self, function: graph.FunctionAttr | None) -> graph.FunctionAttr:
        """A clip to the limits after `function`, which only clips."""
        bounds = (-inf, inf) if function is None else function.clip_range
        assert bounds is not None
        low, high = self.limits
        return graph.FunctionAttr(
            graph.Function.CLIP, [min(max(bound, low), high) for bound in bounds]
        )


def _clipped_channels(value: SSAValue, quantize: graph.QuantizeOp) -> SSAValue:
    """`value` within the range of each channel, where channels have different ranges."""
    element = graph.stored_element(quantize.result)
    if not isinstance(element.axis, IntAttr):
        return value
    scales = np.array([scale.data for scale in element.scales])
    points = np.array([point.data for point in element.zero_points])
    shape = [1] * len(graph.shape_of(value))
    shape[element.axis.data] = len(scales)
    low, high = proven_bounds(value)
    lows, highs = (element.low - points) * scales, (element.high - points) * scales
    sides: list[tuple[graph.Binary, NDArray[np.float64]]] = []
    if (highs + scales < high).any():
        sides.append((graph.Binary.MIN, highs))
    if (lows - scales > low).any():
        sides.append((graph.Binary.MAX, lows))
    for kind, limits in sides:
        array = limits.astype(np.float32).reshape(shape)
        constant = graph.ConstantOp.from_array(array, location=quantize.location)
        bounded = graph.BinaryOp(kind, value, constant.result, result_element=f32)
        bounded.location = quantize.location
        Rewriter.insert_op([constant, bounded], InsertPoint.before(quantize))
        value = bounded.result
    return value
