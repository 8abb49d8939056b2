"""Apply what works row by row to the operands of a concatenation, one by one."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

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
from ceras_ir.network.storage import drop_statistics
from ceras_ir.transforms.pattern_pass import PatternPass


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
