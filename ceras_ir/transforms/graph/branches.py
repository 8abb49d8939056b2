"""
Parallel branches of a network.

The pass `fuse-branches` makes one convolution of two that read one value and whose results are
added. The pass `distribute-concat` applies what works row by row to the operands of a
concatenation, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import Elementwise, View
from ceras_ir.dialects.sparse import MASK
from ceras_ir.network.storage import copy_statistics, drop_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.graph.affine_backward import known_bias
from ceras_ir.transforms.pass_kinds import PatternPass
from ceras_ir.transforms.rebuilding import rebuild_linear

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Make one convolution of two that read one value and whose results are added.


class FuseBranches(RewritePattern):
    """
    `conv2d(x, w) + conv2d(x, v)` becomes `conv2d(x, w + v)`, where one window covers the other and
    its groups do too. Nothing else may read the two.

    Equal over the reals. In float32 every bias, and every weight that meets another, is rounded
    once more.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        one, other = _branch(op.lhs), _branch(op.rhs)
        if op.function is not graph.Binary.ADD or one is None or other is None:
            return
        if one.input is not other.input:
            return
        fused = _fused(one, other) or _fused(other, one)
        if fused is None:
            return
        whole, weights, bias = fused
        constants = [
            graph.ConstantOp.from_array(array, location=whole.location) for array in (weights, bias)
        ]
        rewriter.insert(constants)
        values = [constant.result for constant in constants]
        new = rebuild_linear(
            whole, {"activation": op.activation}, weights=values[0], bias=values[1]
        )
        copy_statistics(op, new)
        new.location = fused_location(whole, one, other, op)
        rewriter.replace(op, new)
        rewriter.erase(one)
        rewriter.erase(other)


def _branch(value: SSAValue) -> graph.Conv2dOp | None:
    """The convolution that makes a value for one reader, if it has no epilogue but its bias."""
    op = value.owner
    if not isinstance(op, graph.Conv2dOp) or not value.has_one_use() or op.is_quantized:
        return None
    if op.activation is not None or op.residual is not None or op.ordered is not None:
        return None
    return None if MASK in op.attributes or graph.element_of(op.weights) != f32 else op


def _fused(
    whole: graph.Conv2dOp, part: graph.Conv2dOp
) -> tuple[graph.Conv2dOp, NDArray[np.float32], NDArray[np.float32]] | None:
    """
    Weights and bias with which `whole` computes the sum of both; None where it would have to read
    more elements for it.
    """
    import numpy as np

    if whole.strides != part.strides or whole.group_count > part.group_count:
        return None
    if part.group_count % whole.group_count:
        return None
    weights, added = graph.constant_array(whole.weights), graph.constant_array(part.weights)
    outputs = graph.shape_of(whole.weights)[0]
    biases = known_bias(whole, outputs), known_bias(part, outputs)
    if weights is None or added is None or biases[0] is None or biases[1] is None:
        return None
    rows, columns = _taps(whole, part, 0), _taps(whole, part, 1)
    if rows is None or columns is None:
        return None
    total = weights.astype(np.float32)
    # Channels that an output of `part` reads, as those of its group in `whole`.
    channels, wide = added.shape[3], total.shape[3]
    group = np.arange(outputs) // (outputs // part.group_count)
    for o, first in enumerate(group * channels % wide):
        total[o, rows, columns, first : first + channels] += added[o]
    return whole, total, biases[0] + biases[1]


def _taps(whole: graph.Conv2dOp, part: graph.Conv2dOp, axis: int) -> slice | None:
    """Which taps of `whole` along rows or columns read what those of `part` read, in order."""
    size, inner = whole.window[axis], part.window[axis]
    step = whole.dilations.get_values()[axis]
    if inner > 1 and part.dilations.get_values()[axis] != step:
        return None
    before = whole.padding.get_values()[axis] - part.padding.get_values()[axis]
    first, left = divmod(before, step)
    return None if left or first < 0 or first + inner > size else slice(first, first + inner)


class FuseBranchesPass(PatternPass):
    """
    Fuse convolutions of one value whose results are added, as networks are trained with (RepVGG,
    MobileOne): 1x1 beside 3x3, batch normalizations beside both.

    One of the two must read all elements that the other reads, so that nothing is multiplied more
    often than before.
    """

    name = "fuse-branches"
    pattern = GreedyRewritePatternApplier([FuseBranches()])


# Apply what works row by row to the operands of a concatenation, one by one.


@dataclass(frozen=True)
class Run:
    """Contiguous elements of a tensor, in row-major order."""

    start: int
    length: int

    def block_in(self, shape: Sequence[int]) -> tuple[list[int], list[int]] | None:
        """Starts and sizes of the run as a slice that has its last dimension whole, or None."""
        inner = shape[-1] if shape else 0
        for d in reversed(range(len(shape) - 1)):
            first, count = self.start // inner, self.length // inner
            is_whole = first * inner == self.start and count * inner == self.length
            if not is_whole:
                return None
            if first % shape[d] + count <= shape[d]:
                outside = [first // prod(shape[i + 1 : d + 1]) % shape[i] for i in range(d)]
                starts = [*outside, first % shape[d], *(0 for _ in shape[d + 1 :])]
                return starts, [*(1 for _ in outside), count, *shape[d + 1 :]]
            inner *= shape[d]
        return None


def run_of(op: graph.SliceOp) -> Run | None:
    """The elements that a slice takes, if they are contiguous."""
    shape, sizes = graph.shape_of(op.input), graph.shape_of(op.result)
    if any(step != 1 for step in op.strides.get_values()):
        return None
    partial = [d for d, (a, b) in enumerate(zip(shape, sizes, strict=True)) if a != b]
    if partial and any(size != 1 for size in sizes[: partial[-1]]):
        return None
    starts = op.starts.get_values()
    start = sum(s * prod(shape[d + 1 :]) for d, s in enumerate(starts))
    return Run(start, prod(sizes))


def runs_of(op: graph.ConcatOp) -> dict[Run, SSAValue]:
    """The operands of a concatenation by their elements, or none if these are not contiguous."""
    runs: dict[Run, SSAValue] = {}
    if prod(graph.shape_of(op.result)[: op.axis.value.data]) != 1:
        return runs
    start = 0
    for operand in op.operands:
        length = prod(graph.shape_of(operand))
        runs[Run(start, length)] = operand
        start += length
    return runs


class DistributeConcat(RewritePattern):
    """
    `slice(f(concat(a, b, ...)))` becomes `f(a)`, where each slice is all of one operand and `f`
    is a chain of elementwise operations, softmax within rows and changes of shape.

    Exact: every element is computed from the same elements in the same order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ConcatOp, rewriter: PatternRewriter, /):
        parts = runs_of(op)
        found = _readers(op) if len(parts) > 1 else None
        if found is None:
            return
        chain, slices = found
        wanted = [run_of(reader) for reader in slices]
        shapes = [graph.shape_of(link.results[0]) for link in chain]
        if any(run is None or run not in parts for run in wanted) or any(
            run.block_in(shape) is None for run in {*wanted} - {None} for shape in shapes if run
        ):
            return
        made: dict[Run, SSAValue] = {}
        for reader, run in zip(slices, wanted, strict=True):
            assert run is not None
            if run not in made:
                rewriter.insertion_point = InsertPoint.before(reader)
                made[run] = _applied(chain, op.result, parts[run], run, rewriter)
            shape = graph.shape_of(reader.result)
            rewriter.insertion_point = InsertPoint.before(reader)
            rewriter.replace(reader, [], [_reshaped(made[run], shape, reader, rewriter)])
        for link in reversed(chain):
            rewriter.erase(link)
        rewriter.erase(op)


def _readers(
    op: graph.ConcatOp,
) -> tuple[list[graph.GraphOperation], list[graph.SliceOp]] | None:
    """The chain of operations behind a concatenation, and the slices at its end, in their order."""
    chain: list[graph.GraphOperation] = []
    value: SSAValue = op.result
    while True:
        readers = list(dict.fromkeys(use.operation for use in value.uses))
        if readers and all(isinstance(reader, graph.SliceOp) for reader in readers):
            block, found = op.parent, set(readers)
            assert block is not None
            in_order = (each for each in block.ops if each in found)
            return chain, [each for each in in_order if isinstance(each, graph.SliceOp)]
        if len(readers) != 1 or not _works_by_rows(readers[0], value):
            return None
        (reader,) = readers
        assert isinstance(reader, graph.GraphOperation)
        chain.append(reader)
        value = reader.results[0]


def _works_by_rows(op: Operation, value: SSAValue) -> bool:
    """Whether a row of the result, along the last dimension, depends on that of `value` alone."""
    if op.has_trait(View, value_if_unregistered=False):
        return True
    shape = graph.shape_of(value)
    if isinstance(op, graph.SoftmaxOp):
        return op.axis.value.data == len(shape) - 1
    is_elementwise = op.has_trait(Elementwise, value_if_unregistered=False)
    return is_elementwise and graph.shape_of(op.results[0]) == shape


def _applied(
    chain: Sequence[graph.GraphOperation],
    whole: SSAValue,
    part: SSAValue,
    run: Run,
    rewriter: PatternRewriter,
) -> SSAValue:
    """What the chain makes of one operand."""
    for link in chain:
        block = run.block_in(graph.shape_of(link.results[0]))
        assert block is not None
        if not link.has_trait(View, value_if_unregistered=False):
            part = _reshaped(part, block[1], link, rewriter)
            operands = [
                part if operand is whole else _sliced(operand, block, link, rewriter)
                for operand in link.operands
            ]
            new = link.rebuilt(operands, shape=block[1])
            drop_statistics(new)
            rewriter.insert(new)
            part = new.results[0]
        whole = link.results[0]
    return part


def _reshaped(
    value: SSAValue, shape: Sequence[int], named: Operation, rewriter: PatternRewriter
) -> SSAValue:
    if tuple(graph.shape_of(value)) == tuple(shape):
        return value
    new = graph.ReshapeOp(value, shape)
    new.location = named.location
    return rewriter.insert(new).result


def _sliced(
    value: SSAValue,
    block: tuple[list[int], list[int]],
    named: Operation,
    rewriter: PatternRewriter,
) -> SSAValue:
    """What of an operand, broadcast as numpy does, belongs to a block."""
    shape = graph.shape_of(value)
    starts, sizes = (numbers[len(numbers) - len(shape) :] for numbers in block)
    begin = [0 if extent == 1 else start for extent, start in zip(shape, starts, strict=True)]
    taken = [1 if extent == 1 else size for extent, size in zip(shape, sizes, strict=True)]
    if tuple(taken) == tuple(shape):
        return value
    if isinstance(value.owner, graph.ConstantOp) and not value.owner.is_elided:
        window = tuple(slice(b, b + t) for b, t in zip(begin, taken, strict=True))
        new = graph.ConstantOp.from_array(
            value.owner.array()[window], graph.element_of(value), location=value.owner.location
        )
        return rewriter.insert(new).result
    part = graph.SliceOp(value, begin, taken)
    part.location = named.location
    return rewriter.insert(part).result


class DistributeConcatPass(PatternPass):
    """
    Apply elementwise operations and softmax to the operands of a concatenation, where only slices
    that undo it read the result. The heads of attention so stay apart from the scores to the
    products with values: their scores fit a cache, and the most that is alive is those of one.
    """

    name = "distribute-concat"
    pattern = GreedyRewritePatternApplier([DistributeConcat()])
