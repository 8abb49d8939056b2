"""Truth, choice and conversion of plain numbers."""

from ceras_ir.backends.nnet.encoding import record_as
from ceras_ir.backends.nnet.file import Case, Kind, Tensor
from ceras_ir.backends.nnet.layers.binary import check_broadcast
from ceras_ir.dialects import graph

RELATIONS = (graph.Compare.EQUAL, graph.Compare.LESS, graph.Compare.LESS_OR_EQUAL)
"""By the number that the format has for them."""


def _check_compare(case: Case) -> None:
    (kind,), (a, b), must = case.words, case.operands, case.must
    must(kind < len(RELATIONS), "unknown attribute")
    must(a.type == b.type, "its operands differ in type")
    must(case.result.storage == "bool", "a result of booleans expected")
    check_broadcast(case)


def _check_select(case: Case) -> None:
    condition, a, b = case.operands
    case.must(condition.storage == "bool", "a condition of booleans expected")
    one_type = a.type == b.type == case.result.type
    case.must(one_type, "both choices and the result have one type")
    check_broadcast(case)


def _check_cast(case: Case) -> None:
    def converts(tensor: Tensor) -> bool:
        return tensor.is_plain or not tensor.is_quantized

    plain = converts(case.operands[0]) and converts(case.result)
    case.must(plain, "floats, or integers of scale 1 without zero point, expected")


COMPARE = Kind(27, "compare", _check_compare, words=1, operands=2, all_storages=True)
SELECT = Kind(28, "select", _check_select, operands=3, all_storages=True)
CAST = Kind(29, "cast", _check_cast, same_shape=True, all_storages=True)

record_as(COMPARE, graph.CompareOp, lambda op: [RELATIONS.index(op.function)])
record_as(SELECT, graph.SelectOp)
record_as(CAST, graph.CastOp)
