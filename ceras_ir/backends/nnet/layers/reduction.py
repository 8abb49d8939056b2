"""Operations that make one element of many."""

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
    expected = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    must(y.shape == expected, "its result has the wrong shape")
    must(kind >= 2 or not y.is_quantized, "a sum of floats expected")


REDUCE = Kind(18, "reduce", _check_reduce, words=None, same_type=True)

record_as(
    REDUCE,
    graph.ReduceOp,
    lambda op: [KINDS.index(op.function), *(int(axis) for axis in op.axes.get_values())],
)
