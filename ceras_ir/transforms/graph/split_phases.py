"""Compute a transposed convolution by what each of its output positions really multiplies."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK
from ceras_ir.transforms.graph.zero_padding import ZeroPadding
from ceras_ir.transforms.pattern_pass import PatternPass

LEAST_OUTPUTS = 16
"""Channels from which on phases with fewer weights are worth a convolution of their own: with
fewer, vectors of several phases together are full."""


@dataclass(frozen=True)
class _Phases:
    """Neighbouring phases of one axis that one convolution computes."""

    first: int
    count: int
    taps: int
    """Weights of each."""
    padding: tuple[int, int]


@dataclass(frozen=True)
class _Axis:
    """
    One axis of a convolution over an input with zeros between its elements: `stride` is how far
    they are apart, `before` what the border adds in front of them.

    Output o meets input i by weight `stride * i + before - o`. All outputs of one phase
    `stride * q + before - o` meet the weights of that phase, from input q on.
    """

    size: int
    stride: int
    before: int
    kernel: int
    outputs: int

    @property
    def taps(self) -> int:
        """Weights of the longest phases."""
        return -(-self.kernel // self.stride)

    @property
    def padding(self) -> tuple[int, int]:
        """What the convolution of phases needs around the input."""
        last = -((self.before - self.outputs + 1) // self.stride)
        return self.before // self.stride, max(last + self.taps - self.size, 0)

    def parts(self, outputs: int) -> list[_Phases]:
        """
        All phases in the order of outputs, those of as many weights together. Phases of few
        `outputs` stay together, as do those of which some have no weights: they get zeros.
        """
        longer, (before, after) = self.kernel % self.stride, self.padding
        if not longer or self.kernel < self.stride or not after or outputs < LEAST_OUTPUTS:
            return [_Phases(0, self.stride, self.taps, self.padding)]
        shorter = self.stride - longer
        return [
            _Phases(0, shorter, self.taps - 1, (before, after - 1)),
            _Phases(shorter, longer, self.taps, self.padding),
        ]

    @property
    def start(self) -> int:
        """The first output among all positions of all phases."""
        return self.stride - 1 - self.before % self.stride

    def phases(self, weights: NDArray[np.generic], axis: int) -> NDArray[np.generic]:
        """`weights` with this axis as two, [phase, tap], in the order of outputs."""
        missing = self.taps * self.stride - self.kernel
        edges = [(0, missing if i == axis else 0) for i in range(weights.ndim)]
        split = list(weights.shape)
        split[axis : axis + 1] = self.taps, self.stride
        parts = np.pad(weights, edges).reshape(split)
        return np.flip(parts.swapaxes(axis, axis + 1), axis)


class SplitPhases(RewritePattern):
    """
    A convolution of stride 1 over `graph.pad` with s - 1 zeros between elements becomes some over
    the elements themselves, with the outputs of s phases as channels, which are then put beside
    each other. See `SplitPhasesPass`.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.Conv2dOp, rewriter: PatternRewriter, /):
        zeros = ZeroPadding.of(op)
        if zeros is None or not any(zeros.between) or not _is_plain(op):
            return
        source = zeros.insert_source(rewriter)
        sizes, borders = graph.shape_of(source)[1:3], op.padding.get_values()
        kernel, outputs = graph.shape_of(op.weights)[1:3], graph.shape_of(op.result)[1:3]
        axes = [
            _Axis(sizes[i], zeros.between[i] + 1, zeros.low[i] + borders[i], kernel[i], outputs[i])
            for i in (0, 1)
        ]
        made = _phases(op, source, axes)
        for each in made:
            each.location = op.location
        rewriter.replace(op, made, [made[-1].results[0]])
        zeros.erase_unused(rewriter)


def _phases(
    op: graph.Conv2dOp, source: SSAValue, axes: Sequence[_Axis]
) -> list[graph.GraphOperation]:
    """What computes the result of `op` from the elements in `source`."""
    rows, columns = axes
    wanted = graph.shape_of(op.result)
    array = rows.phases(columns.phases(graph.known_array(op.weights), 2), 1)
    # [phases, phases, outputs, taps, taps, inputs]
    array = array.transpose(1, 3, 0, 2, 4, 5)
    made: list[graph.GraphOperation] = []
    runs = rows.parts(wanted[3])
    lines: list[SSAValue] = []
    for down in runs:
        parts: list[SSAValue] = []
        for along in columns.parts(wanted[3]):
            made += _convolution(op, source, array, down, along)
            parts.append(made[-1].results[0])
        made += _side_by_side(parts, down.count)
        lines.append(made[-1].results[0])
    n, h = graph.shape_of(lines[0])[:2]
    if len(runs) > 1:
        shaped = [
            _reshaped(line, (n, h, down.count, -1)) for line, down in zip(lines, runs, strict=True)
        ]
        made += shaped
        made.append(graph.ConcatOp([each.result for each in shaped], 2))
    made.append(_reshaped(made[-1].results[0], (n, h * rows.stride, -1, wanted[3])))
    if graph.shape_of(made[-1].results[0]) != wanted:
        starts = (0, rows.start, columns.start, 0)
        made.append(graph.SliceOp(made[-1].results[0], starts, wanted))
    return made


def _convolution(
    op: graph.Conv2dOp,
    source: SSAValue,
    array: NDArray[np.generic],
    down: _Phases,
    along: _Phases,
) -> list[graph.GraphOperation]:
    """The phases `down` by `along`, as channels [down, along, O]; `array` has all weights."""
    own = array[down.first :, along.first :, :, : down.taps, : along.taps]
    own = own[: down.count, : along.count]
    shape = (-1, *own.shape[3:])
    weights = graph.ConstantOp.from_array(np.ascontiguousarray(own).reshape(shape))
    made: list[graph.GraphOperation] = [weights]
    bias = None
    if op.bias is not None:
        repeats = down.count * along.count
        repeated = graph.ConstantOp.from_array(np.tile(graph.known_array(op.bias), repeats))
        made.append(repeated)
        bias = repeated.result
    new = graph.Conv2dOp(
        source,
        weights.result,
        bias,
        result_element=graph.element_of(op.result),
        padding=[part.padding[side] for side in (0, 1) for part in (down, along)],
        activation=op.activation,
    )
    new.attributes |= op.attributes
    return [*made, new]


def _is_plain(op: graph.Conv2dOp) -> bool:
    """Whether a convolution may have other weights: of floats in any order, for no residual."""
    steps = (*op.strides.get_values(), *op.dilations.get_values())
    constants = (op.weights, *([] if op.bias is None else [op.bias]))
    return (
        all(isinstance(value.owner, graph.ConstantOp) for value in constants)
        and op.group_count == 1
        and steps == (1, 1, 1, 1)
        and op.residual is None
        and op.ordered is None
        and not op.is_quantized
        and MASK not in op.attributes
    )


def _side_by_side(parts: Sequence[SSAValue], down: int) -> list[graph.GraphOperation]:
    """
    `parts` [N, H, W, down * C] as one, row by row, with the channels of all: [N, H, down, W, C],
    or [N, H, W, C] if `down` is 1. Empty if there is nothing to do.
    """
    made: list[graph.GraphOperation] = []
    n, h, w, _ = graph.shape_of(parts[0])
    if down > 1:
        made += [_reshaped(part, (n, h, w, down, -1)) for part in parts]
        parts = [each.results[0] for each in made]
    if len(parts) > 1:
        made.append(graph.ConcatOp(parts, len(graph.shape_of(parts[0])) - 1))
        parts = made[-1].results
    if down > 1:
        made.append(graph.TransposeOp(parts[0], (0, 1, 3, 2, 4)))
    return made


def _reshaped(value: SSAValue, shape: Sequence[int]) -> graph.ReshapeOp:
    """`value` in `shape`, of which one extent is -1: what is left."""
    left = prod(graph.shape_of(value)) // -prod(shape)
    return graph.ReshapeOp(value, [left if extent < 0 else extent for extent in shape])


class SplitPhasesPass(PatternPass):
    """
    Make a transposed convolution of stride s convolutions with s * s times the channels, which
    multiply no zeros between elements.

    Each group of channels is a phase of the outputs. A filter of 4x4 at stride 2 multiplies 4
    elements for an output, not 16; one of 2x2 becomes a matrix product. Channels then move beside
    each other. Phases of as many weights are one convolution: a filter of 3x3 at stride 2 becomes
    four, of 1, 2, 2 and 4 weights. With fewer than 16 channels they stay together, and zeros take
    the place of weights that some phases lack; so do those of phases without any. Groups,
    residuals, pruned layers and computed weights stay as they are.

    Sums of floats have another order. Shi et al., Is the deconvolution layer the same as a
    convolutional layer? (2016).
    """

    name = "split-phases"
    pattern = SplitPhases()
    repeats = False
