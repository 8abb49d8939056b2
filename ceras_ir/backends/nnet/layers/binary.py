"""Operations of two operands under broadcasting."""

from ceras_ir.backends.nnet.encoding import AddTable, LayerRecord, encodes
from ceras_ir.backends.nnet.file import Case, Kind, Tensor, always
from ceras_ir.dialects import graph

BINARIES = {
    graph.Binary.ADD: 0,
    graph.Binary.SUB: 1,
    graph.Binary.MUL: 2,
    graph.Binary.DIV: 3,
    graph.Binary.MIN: 4,
    graph.Binary.MAX: 5,
}


def _check(case: Case) -> None:
    words, must = case.words, case.must
    must(len(words) in (3, 5), "3 attributes expected, or 5 with multipliers")
    must(all(t.storage != "i32" for t in case.operands), "operands of 8 or 16 bits expected")
    must(
        _broadcast(case.operands) == case.result.shape,
        "its shapes do not broadcast to its result's",
    )
    kinds = 3 if case.result.is_quantized else 6
    must(words[0] < kinds and max(words[1:3]) <= 22, "unknown attribute")
    for shift, multiplier in zip(words[1:3], words[3:], strict=False):
        must(1 <= multiplier << shift <= 1 << 22, "an operand's multiplier")


def _broadcast(operands: list[Tensor]) -> tuple[int, ...] | None:
    rank = max(len(t.shape) for t in operands)
    shapes = [(1,) * (rank - len(t.shape)) + t.shape for t in operands]
    columns = [set(column) - {1} for column in zip(*shapes, strict=True)]
    return None if any(len(c) > 1 for c in columns) else tuple(max(c, default=1) for c in columns)


BINARY = Kind(
    5, "binary", _check, words=None, operands=2, function=True, requant=always, in_place=True
)


@encodes(graph.BinaryOp)
def encode_binary(op: graph.BinaryOp, add_table: AddTable) -> LayerRecord:
    attributes = [BINARIES[op.function], *op.shifts]
    if op.multipliers != (1, 1):
        attributes += op.multipliers
    record = LayerRecord(BINARY, attributes=attributes, requant=op.requant)
    return record.with_function(op.activation)
