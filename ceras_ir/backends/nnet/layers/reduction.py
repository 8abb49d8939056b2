"""Operations that make one element of many."""

from collections.abc import Sequence

from ceras_ir.backends.nnet.encoding import record_as
from ceras_ir.backends.nnet.file import Case, Kind
from ceras_ir.dialects import graph

KINDS = (graph.Reduce.SUM, graph.Reduce.PRODUCT, graph.Reduce.MAX, graph.Reduce.MIN)
"""By the number that the format has for them."""


def _check_reduce(case: Case) -> None:
    """The kind, then the axes in ascending order, whose extents become 1."""
    x, y, must = case.operands[0], case.result, case.must
    kind, axes = next(iter(case.words), len(KINDS)), case.words[1:]
    must(kind < len(KINDS), "unknown attribute")
    must(list(axes) == sorted(set(axes)), "its axes do not ascend")
    must(all(axis < len(x.shape) for axis in axes), "its axis does not exist")
    _check_reduced(case, axes)
    sums = not y.is_quantized or y.is_plain
    must(kind >= 2 or sums, "a sum of floats or of plain integers expected")


def _check_arg(case: Case) -> None:
    """0 for the greatest or 1 for the least, the axis, and 1 if the last of equal ones counts."""
    x, y, must = case.operands[0], case.result, case.must
    kind, axis, last = case.words
    must(kind <= 1 and last <= 1, "unknown attribute")
    must(axis < len(x.shape), "its axis does not exist")
    must(x.storage != "bool", "numbers expected")
    must(y.storage == "i64", "integers of 64 bits expected")
    _check_reduced(case, (axis,))


def _check_top_k(case: Case) -> None:
    """0 for the greatest or 1 for the least; as many of each row as the result has indices."""
    x, y, must = case.operands[0], case.result, case.must
    must(case.words[0] <= 1, "unknown attribute")
    must(x.storage != "bool", "numbers expected")
    must(y.storage == "i64", "integers of 64 bits expected")
    must(0 < len(x.shape) == len(y.shape), "its result has the wrong shape")
    must(
        x.shape[:-1] == y.shape[:-1] and y.shape[-1] <= x.shape[-1],
        "its result has the wrong shape",
    )


def _check_reduced(case: Case, axes: Sequence[int]) -> None:
    """The extents of `axes` became 1, and the others stayed."""
    expected = tuple(1 if i in axes else n for i, n in enumerate(case.operands[0].shape))
    case.must(case.result.shape == expected, "its result has the wrong shape")


REDUCE = Kind(18, "reduce", _check_reduce, words=None, same_type=True, all_storages=True)
ARG = Kind(30, "arg", _check_arg, words=3, all_storages=True)
TOP_K = Kind(31, "top_k", _check_top_k, words=1, all_storages=True)

record_as(
    REDUCE,
    graph.ReduceOp,
    lambda op: [KINDS.index(op.function), *(int(axis) for axis in op.axes.get_values())],
)
record_as(
    ARG,
    graph.ArgOp,
    lambda op: [int(op.function is graph.Reduce.MIN), op.axis.value.data, int(op.takes_last)],
)
record_as(TOP_K, graph.TopKOp, lambda op: [int(op.function is graph.Reduce.MIN)])
