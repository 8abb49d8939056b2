"""
Split transposed convolutions into convolutions without zeros: the pass `split-phases`.

`StridedAxis` determines which weights meet which elements if the input has zeros between elements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK
from ceras_ir.transforms.graph.zero_padding import ZeroPadding
from ceras_ir.transforms.pass_kinds import PatternPass


@dataclass(frozen=True)
class PhaseGroup:
    """
    Phases along an axis that a single convolution computes, each as a group of consecutive
    channels. A phase has each s-th output of a transposed convolution with stride s.
    """

    taps: Sequence[Sequence[int]]
    """For each phase the index of the weight of each tap; the axis's `kernel` represents a zero."""
    padding: tuple[int, int]


@dataclass(frozen=True)
class StridedAxis:
    """
    The height or width of a transposed convolution with `size` input elements, `kernel` weights and
    `outputs` results. The input elements are `stride` positions from each other, with zeros in
    between, and `before` zeros precede the first.

    Output o is the sum over i of input element i times weight `stride * i + before - o`. A phase
    has the outputs `stride * q + phase`. It uses each stride-th weight, and consecutive input
    elements from about q on.
    """

    size: int
    stride: int
    before: int
    kernel: int
    outputs: int

    def separate(self) -> list[PhaseGroup]:
        """
        Return a separate convolution for each phase. Each computes `ceil(outputs / stride)`
        positions.
        """
        positions = -(-self.outputs // self.stride)
        parts: list[PhaseGroup] = []
        for phase in range(self.stride):
            before, first = divmod(self.before - phase, self.stride)
            taps = list(range(first, self.kernel, self.stride))
            # A zero weight meets the elements that no weight of the phase meets.
            taps = [self.kernel] * -before + taps if taps else [self.kernel]
            before = max(before, 0)
            after = positions - 1 + len(taps) - before - self.size
            taps += [self.kernel] * -after
            parts.append(PhaseGroup([taps], (before, max(after, 0))))
        return parts

    def together(self) -> PhaseGroup:
        """
        Return a single convolution for all phases, which are groups of channels. Phases with fewer
        weights are padded with zeros. It computes `start` additional outputs before the first.
        """
        count = -(-self.kernel // self.stride)
        last = -((self.before - self.outputs + 1) // self.stride)
        phases = [
            [min(first + i * self.stride, self.kernel) for i in range(count)]
            for first in reversed(range(self.stride))
        ]
        return PhaseGroup(phases, (self.before // self.stride, max(last + count - self.size, 0)))

    @property
    def start(self) -> int:
        """
        The number of additional outputs before the first output, if all phases are computed
        together.
        """
        return self.stride - 1 - self.before % self.stride


MIN_SEPARATE_OUTPUTS = 16
"""
Output channels from which phases with fewer weights are separate convolutions.

With fewer channels, only several phases together fill a vector.
"""


class SplitPhases(RewritePattern):
    """
    Split a transposed convolution, which is a convolution of stride 1 over a `graph.pad` with s - 1
    zeros between elements, as described in `SplitPhasesPass`.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.Conv2dOp, rewriter: PatternRewriter, /):
        zeros = ZeroPadding.of(op)
        if zeros is None or not any(zeros.between) or not _is_plain(op):
            return
        strides = [count + 1 for count in zeros.between]
        outputs = graph.shape_of(op.result)[1:3]
        # The residual of a phase has each stride-th row and column, an equal number for each phase.
        if op.residual is not None and any(n % s for n, s in zip(outputs, strides, strict=True)):
            return
        source = zeros.insert_source(rewriter)
        sizes, borders = graph.shape_of(source)[1:3], op.padding.get_values()
        kernel = graph.shape_of(op.weights)[1:3]
        axes = [
            StridedAxis(sizes[i], strides[i], zeros.low[i] + borders[i], kernel[i], outputs[i])
            for i in (0, 1)
        ]
        ops = _phases(op, source, axes)
        for each in ops:
            each.location = op.location
        dequantize = op.weights.owner
        rewriter.replace(op, ops, [ops[-1].results[0]])
        if isinstance(dequantize, graph.DequantizeOp) and dequantize.result.first_use is None:
            rewriter.erase(dequantize)
        zeros.erase_unused(rewriter)


def _phases(
    op: graph.Conv2dOp, source: SSAValue, axes: Sequence[StridedAxis]
) -> list[graph.GraphOperation]:
    down, along = axes
    wanted = graph.shape_of(op.result)
    columns = _parts(op, along, wanted[3])
    rows = _parts(op, down, wanted[3] * len(columns[0].taps))
    ops: list[graph.GraphOperation] = []
    results: list[SSAValue] = []
    for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
        ops += _convolution(op, source, (row, column), (i, j), [a.stride for a in axes])
        results.append(ops[-1].results[0])
    if len(results) > 1:
        ops.append(graph.ConcatOp(results, 0))
    n, h, w, _ = graph.shape_of(results[0])
    together = len(rows[0].taps)
    ops += _side_by_side(
        ops[-1].results[0],
        [len(rows), len(columns), n * h, w, together, len(columns[0].taps) * wanted[3]],
    )
    ops.append(_reshaped(ops[-1].results[0], (n, h * down.stride, w * along.stride, wanted[3])))
    if graph.shape_of(ops[-1].results[0]) != wanted:
        starts = [
            axis.start if len(parts) < axis.stride else 0
            for axis, parts in ((down, rows), (along, columns))
        ]
        ops.append(graph.SliceOp(ops[-1].results[0], (0, *starts, 0), wanted))
    return ops


def _parts(op: graph.Conv2dOp, axis: StridedAxis, outputs: int) -> list[PhaseGroup]:
    # Phases as channels require separate weights and biases for each phase.
    has_constants = all(
        value is None or isinstance(value.owner, graph.ConstantOp)
        for value in (op.weights, op.bias)
    )
    is_free = has_constants and op.group_count == 1 and op.residual is None and not op.is_quantized
    are_equal = not axis.kernel % axis.stride or axis.kernel < axis.stride
    if is_free and (are_equal or outputs < MIN_SEPARATE_OUTPUTS):
        return [axis.together()]
    return axis.separate()


def _convolution(
    op: graph.Conv2dOp,
    source: SSAValue,
    parts: tuple[PhaseGroup, PhaseGroup],
    phase: tuple[int, int],
    strides: Sequence[int],
) -> list[graph.GraphOperation]:
    # The channels of the result are [down, along, O]; `phase` is the first phase of both axes.
    down, along = parts
    ops = _weights(op, down, along)
    weights, bias, residual = ops[-1].results[0], op.bias, op.residual
    repeats = len(down.taps) * len(along.taps)
    if bias is not None and repeats > 1:
        repeated = graph.ConstantOp.from_array(np.tile(graph.known_array(bias), repeats))
        ops.append(repeated)
        bias = repeated.result
    padding = [part.padding[side] for side in (0, 1) for part in parts]
    if residual is not None:
        n, h, w, outputs = graph.shape_of(op.result)
        sizes = (n, h // strides[0], w // strides[1], outputs)
        rows = graph.SliceOp(residual, (0, *phase, 0), sizes, (1, *strides, 1))
        ops.append(rows)
        residual = rows.result
    new = graph.Conv2dOp(
        source, weights, bias, residual, result_element=graph.element_of(op.result),
        padding=padding,
    )  # fmt: skip
    new.properties |= op.properties | {"padding": new.padding}
    new.attributes |= op.attributes
    return [*ops, new]


def _weights(op: graph.Conv2dOp, down: PhaseGroup, along: PhaseGroup) -> list[graph.GraphOperation]:
    # The result of the last operation is the weights of the phases, [down, along, O] by taps.
    dequantize = op.weights.owner if isinstance(op.weights.owner, graph.DequantizeOp) else None
    stored = op.weights if dequantize is None else dequantize.input
    element, array = graph.element_of(stored), graph.known_array(stored)
    quantized = graph.quantized_element(stored)
    points = [0] if quantized is None else [z.data for z in quantized.zero_points]
    axis = _scaled_axis(stored)
    zeros = np.array(points, array.dtype).reshape([-1 if i == axis else 1 for i in range(4)])
    outputs, kernel_h, kernel_w, inputs = array.shape
    padded = np.empty((outputs, kernel_h + 1, kernel_w + 1, inputs), array.dtype)
    padded[:] = zeros
    padded[:, :-1, :-1] = array
    # [O, down, taps, along, taps, inputs]
    phases = padded[:, np.array(down.taps)][:, :, :, np.array(along.taps)]
    phases = phases.transpose(1, 3, 0, 2, 4, 5)
    weights: NDArray[np.generic] = np.ascontiguousarray(phases).reshape(-1, *phases.shape[3:])
    constant = graph.ConstantOp.from_array(weights, element)
    if dequantize is None:
        return [constant]
    return [constant, graph.DequantizeOp(constant.result)]


def _scaled_axis(weights: SSAValue) -> int:
    element = graph.quantized_element(weights)
    return element.axis.data if element is not None and isinstance(element.axis, IntAttr) else 0


def _is_plain(op: graph.Conv2dOp) -> bool:
    # Scales per row or column of the window would not match the rows and columns of a phase.
    weights: Operation | object = op.weights.owner
    stored = weights.input if isinstance(weights, graph.DequantizeOp) else op.weights
    if _scaled_axis(stored) in (1, 2):
        return False
    if isinstance(weights, graph.DequantizeOp):
        weights = weights.input.owner
    steps = (*op.strides.get_values(), *op.dilations.get_values())
    return (
        isinstance(weights, graph.ConstantOp)
        and weights.encoded is None
        and steps == (1, 1, 1, 1)
        and op.ordered is None
        and MASK not in op.attributes
    )


def _side_by_side(value: SSAValue, extents: Sequence[int]) -> list[graph.GraphOperation]:
    # Transpose [rows, columns, H, W, down, along] to the order of the outputs,
    # [H, rows, down, W, columns, along]. Phases are `rows` or `down`, and `columns` or `along`.
    order = [d for d in (2, 0, 4, 3, 1, 5) if extents[d] > 1]
    source = sorted(order)
    if order == source:
        return []
    axes = _reshaped(value, [extents[d] for d in source])
    return [axes, graph.TransposeOp(axes.result, [source.index(d) for d in order])]


def _reshaped(value: SSAValue, shape: Sequence[int]) -> graph.ReshapeOp:
    assert prod(graph.shape_of(value)) == prod(shape)
    return graph.ReshapeOp(value, shape)


class SplitPhasesPass(PatternPass):
    """
    Split a transposed convolution of stride s into s * s phases without multiplications by zeros.

    A phase computes each s-th row and column of the outputs. A 4x4 filter at stride 2 then
    multiplies 4 elements per output instead of 16, and a 2x2 filter becomes a matrix product. The
    outputs are interleaved afterwards.

    1. Phases with equal numbers of weights are groups of channels of a single convolution. The
       phases of a filter with fewer than 16 channels are also, with zeros for missing weights.
    2. The other phases are separate convolutions: a 3x3 filter at stride 2 becomes four, with 1, 2,
       2 and 4 weights. So are all phases of layers with groups, with quantized weights (integers
       and scales are kept), or with a residual (each phase adds its rows and columns).

    Pruned layers, ordered sums and computed weights remain unchanged. Integer results are equal;
    float sums have another order. Shi et al., Is the deconvolution layer the same as a
    convolutional layer? (2016).

    Before:

        %w = graph.constant dense<[[[[1.0], [2.0]]]]> : tensor<1x1x2x1xf32> : tensor<1x1x2x1xf32>
        %p = graph.pad constant %x {low = array<i64: 0, 0, 1, 0>, high = array<i64: 0, 0, 1, 0>,
            interior = array<i64: 0, 0, 1, 0>, value = 0.0 : f32}
            : (tensor<1x1x3x1xf32>) -> tensor<1x1x7x1xf32>
        %y = graph.conv2d %p, %w : (tensor<1x1x7x1xf32>, tensor<1x1x2x1xf32>) -> tensor<1x1x6x1xf32>

    After:

        %w = graph.constant dense<[[[[2.0]]], [[[1.0]]]]> : tensor<2x1x1x1xf32>
            : tensor<2x1x1x1xf32>
        %a = graph.conv2d %x, %w
            : (tensor<1x1x3x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x3x2xf32>
        %y = graph.reshape %a : (tensor<1x1x3x2xf32>) -> tensor<1x1x6x1xf32>
    """

    name = "split-phases"
    pattern = SplitPhases()
    repeats = False
