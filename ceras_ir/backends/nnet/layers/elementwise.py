"""Operations of one operand whose result has its shape."""

from ceras_ir.backends.nnet.encoding import AddTable, LayerRecord, encodes, record_as
from ceras_ir.backends.nnet.file import BYTES, Case, Kind, always
from ceras_ir.backends.nnet.rules import is_int8
from ceras_ir.dialects import graph

FLOAT = ("f32",)
INTEGERS = tuple(storage for storage in BYTES if storage not in FLOAT)


def _check_floats(case: Case) -> None:
    case.stored_as(FLOAT, FLOAT, "float tensors expected")


def _check_unary(case: Case) -> None:
    _check_floats(case)
    words = [w - ((w >> 31) << 32) for w in case.words]
    case.must(
        len(words) in (0, 2 * case.result.channels), "two exponents for each channel expected"
    )
    case.must(all(abs(w) <= 64 for w in words), "its exponents")


def _check_lookup(case: Case) -> None:
    """Without attributes a table of 256; else the entries, then one table or each channel's."""
    must = case.must
    entries, tables = (case.words[0], case.words[1:]) if case.words else (256, ())
    kinds = ("i16",) if entries > 256 else ("i8", "i16", "u8") if case.words else ("i8",)
    case.stored_as(kinds, ("i8", "i16", "f32") if case.words else ("i8",), "int8 expected")
    if not case.words:
        return
    must(entries.bit_count() == 1 and 256 <= entries <= 1 << 16, "entries of its tables")
    must(len(tables) in (1, case.result.channels), "one table, or one for each channel")
    stored = len(case.file.sections["tables"]) // 256
    blocks = entries * BYTES[case.result.storage] // 256
    must(all(t + blocks <= stored for t in tables), "no such lookup table")


def _check_softmax(case: Case) -> None:
    _check_floats(case)
    case.must(case.words[0] < len(case.result.shape), "its axis does not exist")


def _check_quantize(case: Case) -> None:
    case.stored_as(FLOAT, INTEGERS, "float to quantized expected")


def _check_dequantize(case: Case) -> None:
    case.stored_as(INTEGERS, FLOAT, "quantized to float expected")


def _check_requantize(case: Case) -> None:
    case.stored_as(INTEGERS, INTEGERS, "quantized tensors expected")


def _check_shift_swish(case: Case) -> None:
    requant, must = case.layer.requant, case.must
    case.stored_as(("i8", "i16"), INTEGERS, "int8 or int16 expected")
    must(case.operands[0].zero_point == 0, "no zero point expected")
    must(len(case.words) in (5, 5 * case.result.channels), "five bends for each channel")
    must(max(case.words) < 1 << 15, "a bend of at most 15 bits")
    must(requant is not None and requant.multiplier == 1, "it rescales by a shift")


UNARY = Kind(4, "unary", _check_unary, words=None, function=True, same_shape=True, in_place=True)
LOOKUP = Kind(6, "lookup", _check_lookup, words=None, table=True, same_shape=True, in_place=True)
SOFTMAX = Kind(7, "softmax", _check_softmax, words=1, same_shape=True, in_place=True)
QUANTIZE = Kind(12, "quantize", _check_quantize, same_shape=True, in_place=True)
DEQUANTIZE = Kind(13, "dequantize", _check_dequantize, same_shape=True)
REQUANTIZE = Kind(
    14, "requantize", _check_requantize, requant=always, same_shape=True, in_place=True
)
SHIFT_SWISH = Kind(
    17, "shift_swish", _check_shift_swish, words=None, requant=always, same_shape=True,
    in_place=True,
)  # fmt: skip


@encodes(graph.UnaryOp)
def encode_unary(op: graph.UnaryOp, add_table: AddTable) -> LayerRecord:
    exponents = [e & 0xFFFFFFFF for side in op.channel_exponents or () for e in side]
    return LayerRecord(UNARY, attributes=exponents).with_function(op.function)


@encodes(graph.LookupOp)
def encode_lookup(op: graph.LookupOp, add_table: AddTable) -> LayerRecord:
    """A table of 256 for all channels is the record's own; else the attributes say which."""
    tables = [add_table(row.tobytes()) for row in op.tables]
    entries, rows = op.tables.shape[1], op.channel_rows
    are_bytes = [is_int8(v) for v in (op.input, op.result)]
    if rows is None and all(are_bytes):
        return LayerRecord(LOOKUP, table=tables[0])
    attributes = [entries, *(tables[row] for row in rows or (0,))]
    return LayerRecord(LOOKUP, attributes=attributes, table=tables[0])


record_as(SOFTMAX, graph.SoftmaxOp, lambda op: [op.axis.value.data])
record_as(QUANTIZE, graph.QuantizeOp)
record_as(DEQUANTIZE, graph.DequantizeOp)
record_as(REQUANTIZE, graph.RequantizeOp, requant=lambda op: op.requant)
record_as(
    SHIFT_SWISH,
    graph.ShiftSwishOp,
    lambda op: [k for bends in op.channel_bends for k in bends],
    lambda op: op.requant,
)
