"""Compute a transposed convolution by what each of its output positions really multiplies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK
from ceras_ir.transforms.graph.zero_padding import ZeroPadding
from ceras_ir.transforms.pattern_pass import PatternPass


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
        """Weights of a phase; those that a phase has not are zero."""
        return -(-self.kernel // self.stride)

    @property
    def padding(self) -> tuple[int, int]:
        """What the convolution of phases needs around the input."""
        last = -((self.before - self.outputs + 1) // self.stride)
        return self.before // self.stride, max(last + self.taps - self.size, 0)

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
    A convolution of stride 1 over `graph.pad` with s - 1 zeros between elements becomes one over
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
    count, wanted = rows.stride * columns.stride, graph.shape_of(op.result)
    array = rows.phases(columns.phases(graph.known_array(op.weights), 2), 1)
    # [outputs, phases, taps, phases, taps, inputs]
    array = np.ascontiguousarray(array.transpose(1, 3, 0, 2, 4, 5))
    weights = graph.ConstantOp.from_array(
        array.reshape(count * wanted[3], rows.taps, columns.taps, -1)
    )
    made: list[graph.GraphOperation] = [weights]
    bias = None
    if op.bias is not None:
        repeated = graph.ConstantOp.from_array(np.tile(graph.known_array(op.bias), count))
        made.append(repeated)
        bias = repeated.result
    new = graph.Conv2dOp(
        source,
        weights.result,
        bias,
        result_element=graph.element_of(op.result),
        padding=[axis.padding[side] for side in (0, 1) for axis in axes],
        activation=op.activation,
    )
    new.attributes |= op.attributes
    made += [new, *_side_by_side(new, (rows.stride, columns.stride), wanted[3])]
    if graph.shape_of(made[-1].results[0]) != wanted:
        starts = (0, rows.start, columns.start, 0)
        made.append(graph.SliceOp(made[-1].results[0], starts, wanted))
    return made


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


def _side_by_side(op: graph.Conv2dOp, strides: Sequence[int], o: int) -> list[graph.GraphOperation]:
    """[N, H, W, s * t * O] as [N, s * H, t * W, O]."""
    n, h, w, _ = graph.shape_of(op.result)
    down, along = strides
    made: list[graph.GraphOperation] = []
    value = op.result
    if down > 1:
        apart = graph.ReshapeOp(value, (n, h, w, down, along * o))
        turned = graph.TransposeOp(apart.result, (0, 1, 3, 2, 4))
        made += [apart, turned]
        value = turned.result
    return [*made, graph.ReshapeOp(value, (n, h * down, w * along, o))]


class SplitPhasesPass(PatternPass):
    """
    Make a transposed convolution of stride s one convolution with s * s times the channels, which
    multiplies no zeros between elements.

    Each group of channels is a phase of the outputs. A filter of 4x4 at stride 2 multiplies 4
    elements for an output, not 16; one of 2x2 becomes a matrix product. Channels then move beside
    each other. Phases with fewer weights than others get zeros. Groups, residuals, pruned layers
    and computed weights stay as they are.

    Sums of floats have another order. Shi et al., Is the deconvolution layer the same as a
    convolutional layer? (2016).
    """

    name = "split-phases"
    pattern = SplitPhases()
    repeats = False
