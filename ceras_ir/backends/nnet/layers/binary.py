"""Operations of two operands under broadcasting."""

from ceras_ir.backends.nnet.encoding import AddTable, LayerRecord, encodes
from ceras_ir.backends.nnet.file import Case, Kind, Tensor, always
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import is_plain

BINARIES = {
    graph.Binary.ADD: 0,
    graph.Binary.SUB: 1,
    graph.Binary.MUL: 2,
    graph.Binary.DIV: 3,
    graph.Binary.MIN: 4,
    graph.Binary.MAX: 5,
    graph.Binary.POW: 9,
}
"""Of floats; of quantized numbers the first three."""


INTEGER_BINARIES = {
    **BINARIES,
    graph.Binary.AND: 6,
    graph.Binary.OR: 7,
    graph.Binary.XOR: 8,
}
"""Of plain integers, which wrap around."""


def _check(case: Case) -> None:
    words, must = case.words, case.must
    must(len(words) in (3, 5), "3 attributes expected, or 5 with multipliers")
    must(all(t.storage != "i32" for t in case.operands), "operands of 8 or 16 bits expected")
    check_broadcast(case)
    known = range(3) if case.result.is_quantized else BINARIES.values()
    must(words[0] in known and max(words[1:3]) <= 22, "unknown attribute")
    for shift, multiplier in zip(words[1:3], words[3:], strict=False):
        must(1 <= multiplier << shift <= 1 << 22, "an operand's multiplier")


def _check_integers(case: Case) -> None:
    case.must(case.words[0] < len(INTEGER_BINARIES), "unknown attribute")
    case.must(case.result.is_plain, "integers of scale 1 without zero point expected")
    check_broadcast(case)


def check_broadcast(case: Case) -> None:
    """The operands broadcast to the result as numpy's do."""
    fits = _broadcast(case.operands) == case.result.shape
    case.must(fits, "its shapes do not broadcast to its result's")


def _broadcast(operands: list[Tensor]) -> tuple[int, ...] | None:
    rank = max(len(t.shape) for t in operands)
    shapes = [(1,) * (rank - len(t.shape)) + t.shape for t in operands]
    columns = [set(column) - {1} for column in zip(*shapes, strict=True)]
    return None if any(len(c) > 1 for c in columns) else tuple(max(c, default=1) for c in columns)


BINARY = Kind(
    5, "binary", _check, words=None, operands=2, function=True, requant=always, in_place=True
)

INTEGER_BINARY = Kind(
    26, "integer_binary", _check_integers, words=1, operands=2, same_type=True, all_storages=True,
    in_place=True,
)  # fmt: skip


@encodes(graph.BinaryOp)
def encode_binary(op: graph.BinaryOp, add_table: AddTable) -> LayerRecord:
    if is_plain(op.result):
        return LayerRecord(INTEGER_BINARY, attributes=[INTEGER_BINARIES[op.function]])
    attributes = [BINARIES[op.function], *op.shifts]
    if op.multipliers != (1, 1):
        attributes += op.multipliers
    record = LayerRecord(BINARY, attributes=attributes, requant=op.requant)
    return record.with_function(op.activation)
