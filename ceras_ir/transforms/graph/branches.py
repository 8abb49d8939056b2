"""
Merge parallel branches of a network, and split operations on concatenated branches.

The pass `fuse-branches` merges two convolutions of the same value if the results are added. The
pass `distribute-concat` applies operations to the operands of a concatenation separately.
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


class FuseBranches(RewritePattern):
    """
    Rewrite `conv2d(x, w) + conv2d(x, v)` to `conv2d(x, w + v)`. The smaller window must be inside
    the larger window, and each group of the convolution with the larger window must be a union of
    groups of the other. The two results must have no other consumers. Equal over the reals. In
    float32 each bias, and each weight that is a sum, is rounded a second time.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.BinaryOp, rewriter: PatternRewriter, /):
        first, second = _branch(op.lhs), _branch(op.rhs)
        if op.function is not graph.Binary.ADD or first is None or second is None:
            return
        if first.input is not second.input:
            return
        fused = _fused(first, second) or _fused(second, first)
        if fused is None:
            return
        larger, *arrays = fused
        constants = [graph.ConstantOp.from_array(a, location=larger.location) for a in arrays]
        rewriter.insert(constants)
        weights, bias = (constant.result for constant in constants)
        new = rebuild_linear(larger, {"activation": op.activation}, weights=weights, bias=bias)
        copy_statistics(op, new)
        new.location = fused_location(larger, first, second, op)
        rewriter.replace(op, new)
        rewriter.erase(first)
        rewriter.erase(second)


def _branch(value: SSAValue) -> graph.Conv2dOp | None:
    op = value.owner
    if not isinstance(op, graph.Conv2dOp) or not value.has_one_use() or op.is_quantized:
        return None
    if op.activation is not None or op.residual is not None or op.ordered is not None:
        return None
    return None if MASK in op.attributes or graph.element_of(op.weights) != f32 else op


def _fused(
    base: graph.Conv2dOp, part: graph.Conv2dOp
) -> tuple[graph.Conv2dOp, NDArray[np.float32], NDArray[np.float32]] | None:
    # Weights and bias with which `base` computes the sum; none if `part` accesses other elements.
    import numpy as np

    if base.strides != part.strides or base.group_count > part.group_count:
        return None
    if part.group_count % base.group_count:
        return None
    weights, added = graph.constant_array(base.weights), graph.constant_array(part.weights)
    outputs = graph.shape_of(base.weights)[0]
    biases = known_bias(base, outputs), known_bias(part, outputs)
    if weights is None or added is None or biases[0] is None or biases[1] is None:
        return None
    rows, columns = _taps(base, part, 0), _taps(base, part, 1)
    if rows is None or columns is None:
        return None
    total = weights.astype(np.float32)
    # The input channels of an output of `part`, as indices in the group of `base`.
    channels, wide = added.shape[3], total.shape[3]
    group = np.arange(outputs) // (outputs // part.group_count)
    for o, first in enumerate(group * channels % wide):
        total[o, rows, columns, first : first + channels] += added[o]
    return base, total, biases[0] + biases[1]


def _taps(base: graph.Conv2dOp, part: graph.Conv2dOp, axis: int) -> slice | None:
    # The taps of `base` along an axis that read the same elements as the taps of `part`.
    size, inner = base.window[axis], part.window[axis]
    step = base.dilations.get_values()[axis]
    if inner > 1 and part.dilations.get_values()[axis] != step:
        return None
    before = base.padding.get_values()[axis] - part.padding.get_values()[axis]
    first, left = divmod(before, step)
    return None if left or first < 0 or first + inner > size else slice(first, first + inner)


class FuseBranchesPass(PatternPass):
    """
    Merge convolutions of the same value if the results are added.

    Networks are trained in this form (RepVGG, MobileOne): with a 1x1 convolution and batch
    normalizations parallel to a 3x3 convolution. The larger convolution must read all elements of
    the smaller, so that the number of multiplications does not increase.

    Before:

        %w = graph.constant dense<[[[[1.0], [2.0], [3.0]]]]> : tensor<1x1x3x1xf32>
            : tensor<1x1x3x1xf32>
        %v = graph.constant dense<10.0> : tensor<1x1x1x1xf32> : tensor<1x1x1x1xf32>
        %p = graph.conv2d %x, %w {padding = array<i64: 0, 1, 0, 1>}
            : (tensor<1x1x5x1xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x5x1xf32>
        %q = graph.conv2d %x, %v : (tensor<1x1x5x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x5x1xf32>
        %y = graph.binary add %p, %q
            : (tensor<1x1x5x1xf32>, tensor<1x1x5x1xf32>) -> tensor<1x1x5x1xf32>

    After:

        %w = graph.constant dense<[[[[1.0], [12.0], [3.0]]]]> : tensor<1x1x3x1xf32>
            : tensor<1x1x3x1xf32>
        %b = graph.constant dense<0.0> : tensor<1xf32> : tensor<1xf32>
        %y = graph.conv2d %x, %w bias %b : tensor<1xf32> {padding = array<i64: 0, 1, 0, 1>}
            : (tensor<1x1x5x1xf32>, tensor<1x1x3x1xf32>) -> tensor<1x1x5x1xf32>
    """

    name = "fuse-branches"
    pattern = GreedyRewritePatternApplier([FuseBranches()])


@dataclass(frozen=True)
class Run:
    """
    A range of consecutive elements of a tensor in row-major order, such as the elements that an
    operand of a concatenation contributes.
    """

    start: int
    length: int

    def block_in(self, shape: Sequence[int]) -> tuple[list[int], list[int]] | None:
        """
        Return the starts and sizes of a slice of a tensor of `shape` that has exactly the elements
        of this run. Return `None` if there is no such slice, or if rows (along the last axis) would
        be cut.
        """
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
    """
    Return the range of elements that a slice selects, or `None` if they are not consecutive in
    row-major order.
    """
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
    """
    Map the range of elements of each operand in the result of a concatenation to the operand.
    Return an empty dictionary if the elements of an operand are not consecutive in row-major order.
    """
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
    Rewrite `slice(f(concat(a, b, ...)))` to `f(a)`. Each slice must select exactly the elements of
    an operand. `f` is a chain of elementwise operations, softmax along rows and reshapes. Exact:
    each element is computed from the same elements in the same order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: graph.ConcatOp, rewriter: PatternRewriter, /):
        parts = runs_of(op)
        found = _chain_to_slices(op) if len(parts) > 1 else None
        if found is None:
            return
        chain, slices = found
        runs = [run for each in slices if (run := run_of(each)) and run in parts]
        shapes = [graph.shape_of(link.results[0]) for link in chain]
        if len(runs) < len(slices) or any(
            run.block_in(shape) is None for run in runs for shape in shapes
        ):
            return
        results: dict[Run, SSAValue] = {}
        for consumer, run in zip(slices, runs, strict=True):
            if run not in results:
                rewriter.insertion_point = InsertPoint.before(consumer)
                results[run] = _applied(chain, op.result, parts[run], run, rewriter)
            shape = graph.shape_of(consumer.result)
            rewriter.insertion_point = InsertPoint.before(consumer)
            rewriter.replace(consumer, [], [_reshaped(results[run], shape, consumer, rewriter)])
        for link in reversed(chain):
            rewriter.erase(link)
        rewriter.erase(op)


def _chain_to_slices(
    op: graph.ConcatOp,
) -> tuple[list[graph.GraphOperation], list[graph.SliceOp]] | None:
    # The operations after a concatenation, and the slices after them in their order.
    chain: list[graph.GraphOperation] = []
    value: SSAValue = op.result
    while True:
        consumers = {use.operation for use in value.uses}
        if consumers and all(isinstance(each, graph.SliceOp) for each in consumers):
            assert op.parent is not None
            in_order = (each for each in op.parent.ops if each in consumers)
            return chain, [each for each in in_order if isinstance(each, graph.SliceOp)]
        if len(consumers) != 1:
            return None
        (consumer,) = consumers
        if not _maps_rows(consumer, value) or not isinstance(consumer, graph.GraphOperation):
            return None
        chain.append(consumer)
        value = consumer.results[0]


def _maps_rows(op: Operation, value: SSAValue) -> bool:
    # Each row of the result, along the last axis, depends only on the same row of `value`.
    if op.has_trait(View, value_if_unregistered=False):
        return True
    shape = graph.shape_of(value)
    if isinstance(op, graph.SoftmaxOp):
        return op.axis.value.data == len(shape) - 1
    is_elementwise = op.has_trait(Elementwise, value_if_unregistered=False)
    return is_elementwise and graph.shape_of(op.results[0]) == shape


def _applied(
    chain: Sequence[graph.GraphOperation],
    source: SSAValue,
    part: SSAValue,
    run: Run,
    rewriter: PatternRewriter,
) -> SSAValue:
    for link in chain:
        block = run.block_in(graph.shape_of(link.results[0]))
        assert block is not None
        if not link.has_trait(View, value_if_unregistered=False):
            part = _reshaped(part, block[1], link, rewriter)
            operands = [
                part if operand is source else _sliced(operand, block, link, rewriter)
                for operand in link.operands
            ]
            new = link.rebuilt(operands, shape=block[1])
            drop_statistics(new)
            rewriter.insert(new)
            part = new.results[0]
        source = link.results[0]
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
    # The part of an operand, with numpy broadcasting, that belongs to a block.
    shape = graph.shape_of(value)
    starts, sizes = (numbers[len(numbers) - len(shape) :] for numbers in block)
    begin = [0 if extent == 1 else start for extent, start in zip(shape, starts, strict=True)]
    count = [1 if extent == 1 else size for extent, size in zip(shape, sizes, strict=True)]
    if tuple(count) == tuple(shape):
        return value
    if isinstance(value.owner, graph.ConstantOp) and not value.owner.is_elided:
        window = tuple(slice(b, b + n) for b, n in zip(begin, count, strict=True))
        new = graph.ConstantOp.from_array(
            value.owner.array()[window], graph.element_of(value), location=value.owner.location
        )
        return rewriter.insert(new).result
    part = graph.SliceOp(value, begin, count)
    part.location = named.location
    return rewriter.insert(part).result


class DistributeConcatPass(PatternPass):
    """
    Apply elementwise operations and softmax to the operands of a concatenation separately, if all
    consumers are slices that undo the concatenation.

    The heads of attention thus remain separate from the scores to the products with values: the
    scores of a head fit in a cache, and the scores of a single head are live.

    Before:

        %c = graph.concat %x, %y {axis = 0 : i64}
            : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
        %f = graph.softmax %c {axis = 1 : i64} : tensor<2x4xf32>
        %a = graph.slice %f {starts = array<i64: 0, 0>, strides = array<i64: 1, 1>}
            : (tensor<2x4xf32>) -> tensor<1x4xf32>
        %b = graph.slice %f {starts = array<i64: 1, 0>, strides = array<i64: 1, 1>}
            : (tensor<2x4xf32>) -> tensor<1x4xf32>
        %z = graph.binary add %a, %b : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>

    After:

        %a = graph.softmax %x {axis = 1 : i64} : tensor<1x4xf32>
        %b = graph.softmax %y {axis = 1 : i64} : tensor<1x4xf32>
        %z = graph.binary add %a, %b : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
    """

    name = "distribute-concat"
    pattern = GreedyRewritePatternApplier([DistributeConcat()])
