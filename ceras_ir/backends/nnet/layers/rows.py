"""Functions of whole rows: normalization, and softmax and normalization of integers."""

from ceras_ir.backends.nnet.encoding import AddTable, LayerRecord, encodes, float_word, record_as
from ceras_ir.backends.nnet.file import Case, Kind, always
from ceras_ir.dialects import graph

MAX_EXTENT, MAX_TABLE = 1 << 16, 1 << 12
LEAST_EPSILON, MOST_EPSILON = 1 << 10, 1 << 62


def _check_channels(case: Case, *storages: str) -> None:
    """Constants for the elements of a row, stored as `storages`."""
    for tensor, storage in zip(case.operands[1:], storages, strict=True):
        case.must(tensor.shape == case.result.shape[-1:], "channels differ")
        case.must(tensor.storage == storage and not tensor.zero_point, f"{storage} expected")


def _check_normalize(case: Case) -> None:
    case.must(len(case.operands) in (2, 3), "2 or 3 operands expected")
    case.must(case.operands[0].shape == case.result.shape != (), "rows of one shape expected")
    case.must(all(t.storage == "f32" for t in (*case.operands, case.result)), "floats expected")
    _check_channels(case, *["f32"] * (len(case.operands) - 1))
    case.must(case.words[1] < 2, "unknown attribute")


def _check_integers(case: Case, extent: int) -> None:
    requant, must = case.layer.requant, case.must
    must(case.operands[0].shape == case.result.shape, "its shapes differ")
    for tensor in (case.operands[0], case.result):
        must(tensor.storage in ("i8", "i16"), "int8 or int16 expected")
    must(extent <= MAX_EXTENT, "rows that are too long")
    is_shift = requant is not None and requant.multiplier == 1 and requant.rounding == "half_up"
    must(is_shift, "it rescales by a shift that rounds half up")


def _check_integer_normalize(case: Case) -> None:
    case.must(case.result.shape != (), "rows expected")
    _check_integers(case, case.result.channels)
    _check_channels(case, "i16", "i32")
    low, high, centred = case.words
    case.must(LEAST_EPSILON <= low + (high << 32) <= MOST_EPSILON, "its epsilon")
    case.must(centred < 2, "unknown attribute")


def _check_integer_softmax(case: Case) -> None:
    (axis,), must, table = case.words, case.must, case.operands[1]
    must(axis < len(case.result.shape), "its axis does not exist")
    _check_integers(case, case.result.shape[axis])
    must(len(table.shape) == 1 and 2 <= table.shape[0] <= MAX_TABLE, "entries of its table")
    must(table.storage == "i32" and table.location == "biases", "a constant table of i32 expected")
    must(not table.zero_point, "a table without zero point expected")
    entries = memoryview(case.file.data(table)).cast("i")
    must(entries[0] == 1 << 15 and min(entries) >= 0, "a table from 2^15 expected")
    must(max(entries) == 1 << 15, "a table of at most 2^15 expected")
    must(case.layer.requant is not None and case.layer.requant.shift > 0, "it shifts to the right")


NORMALIZE = Kind(19, "normalize", _check_normalize, words=2, operands=None)
INTEGER_NORMALIZE = Kind(
    20, "integer_normalize", _check_integer_normalize, words=3, operands=3, requant=always
)
INTEGER_SOFTMAX = Kind(
    21, "integer_softmax", _check_integer_softmax, words=1, operands=2, requant=always
)


@encodes(graph.NormalizeOp)
def encode_normalize(op: graph.NormalizeOp, add_table: AddTable) -> LayerRecord:
    attributes = [float_word(op.epsilon.value.data), int(op.is_centred)]
    return LayerRecord(NORMALIZE, attributes=attributes)


@encodes(graph.IntegerNormalizeOp)
def encode_integer_normalize(op: graph.IntegerNormalizeOp, add_table: AddTable) -> LayerRecord:
    epsilon = op.epsilon.value.data
    words = [epsilon & 0xFFFFFFFF, epsilon >> 32, int(op.is_centred)]
    return LayerRecord(INTEGER_NORMALIZE, attributes=words, requant=op.requant)


record_as(
    INTEGER_SOFTMAX,
    graph.IntegerSoftmaxOp,
    lambda op: [op.axis.value.data],
    lambda op: op.requant,
)
