"""
Encode and check elementwise functions, softmax and normalization, and recurrent layers in nnet
files.

A recurrent layer contains all time steps of a direction.
"""

import struct
from collections.abc import Callable, Sequence
from math import inf, isnan

import numpy as np

from ceras_ir.backends.nnet.encoding import (
    FUNCTION_NUMBERS,
    AddTable,
    LayerRecord,
    encodes,
    float_word,
    record_as,
)
from ceras_ir.backends.nnet.file import STORAGE_BYTES, Case, Kind, always
from ceras_ir.backends.nnet.rules import is_int8
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell

FLOAT_STORAGES = ("f32",)
INTEGER_STORAGES = tuple(storage for storage in STORAGE_BYTES if storage not in FLOAT_STORAGES)


def _check_floats(case: Case) -> None:
    case.stored_as(FLOAT_STORAGES, FLOAT_STORAGES, "float tensors expected")


def _check_unary(case: Case) -> None:
    _check_floats(case)
    counts = (0, 2 * case.result.channels)
    case.must(len(case.words) in counts, "two exponents for each channel expected")
    case.must(all(abs(_signed(w)) <= 64 for w in case.words), "an exponent exceeds 64")


def _check_lookup(case: Case) -> None:
    # Without attributes, a table of 256 entries. Otherwise the number of entries, and then a single
    # table or a table per channel.
    must = case.must
    entries, tables = (case.words[0], case.words[1:]) if case.words else (256, ())
    kinds = ("i16",) if entries > 256 else ("i8", "i16", "u8") if case.words else ("i8",)
    case.stored_as(kinds, ("i8", "i16", "f32") if case.words else ("i8",), "int8 expected")
    if not case.words:
        return
    valid = entries.bit_count() == 1 and 256 <= entries <= 1 << 16
    must(valid, "the entries of a table must be a power of two from 256 to 65536")
    must(len(tables) in (1, case.result.channels), "a single table or a table per channel expected")
    stored = len(case.file.sections["tables"]) // 256
    blocks = entries * STORAGE_BYTES[case.result.storage] // 256
    must(all(t + blocks <= stored for t in tables), "no such lookup table")


def _check_softmax(case: Case) -> None:
    _check_floats(case)
    case.must(case.words[0] < len(case.result.shape), "the axis does not exist")


def _storages(
    operands: Sequence[str], results: Sequence[str], message: str
) -> Callable[[Case], None]:
    return lambda case: case.stored_as(operands, results, f"{message} expected")


def _check_shift_swish(case: Case) -> None:
    requant, must = case.layer.requant, case.must
    case.stored_as(("i8", "i16"), INTEGER_STORAGES, "int8 or int16 expected")
    must(case.operands[0].zero_point == 0, "no zero point expected")
    must(len(case.words) in (5, 5 * case.result.channels), "five bends for each channel expected")
    must(max(case.words) < 1 << 15, "a bend exceeds 15 bits")
    must(requant is not None and requant.multiplier == 1, "a requantization by a shift expected")


UNARY = Kind(4, "unary", _check_unary, words=None, function=True, same_shape=True, in_place=True)
LOOKUP = Kind(6, "lookup", _check_lookup, words=None, table=True, same_shape=True, in_place=True)
SOFTMAX = Kind(7, "softmax", _check_softmax, words=1, same_shape=True, in_place=True)
QUANTIZE = Kind(
    12, "quantize", _storages(FLOAT_STORAGES, INTEGER_STORAGES, "float to quantized"),
    same_shape=True, in_place=True,
)  # fmt: skip
DEQUANTIZE = Kind(
    13, "dequantize", _storages(INTEGER_STORAGES, FLOAT_STORAGES, "quantized to float"),
    same_shape=True,
)  # fmt: skip
REQUANTIZE = Kind(
    14, "requantize", _storages(INTEGER_STORAGES, INTEGER_STORAGES, "quantized tensors"),
    requant=always, same_shape=True, in_place=True,
)  # fmt: skip
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
    """
    Return the layer record of a lookup. The attributes list the size and the number of each table,
    except for a single table from int8 to int8, which the field `table` names.
    """
    tables = [add_table(row.tobytes()) for row in op.tables]
    attributes: list[int] = []
    if op.channel_rows is not None or not (is_int8(op.input) and is_int8(op.result)):
        attributes = [op.tables.shape[1], *(tables[row] for row in op.channel_rows or (0,))]
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


MAX_AXIS_ELEMENTS, MAX_SOFTMAX_ENTRIES = 1 << 16, 1 << 12
MIN_EPSILON, MAX_EPSILON = 1 << 10, 1 << 62


def _check_channels(case: Case, *storages: str) -> None:
    for tensor, storage in zip(case.operands[1:], storages, strict=True):
        case.must(tensor.shape == case.result.shape[-1:], "channels differ")
        case.must(tensor.storage == storage and not tensor.zero_point, f"{storage} expected")


def _check_normalize(case: Case) -> None:
    case.must(len(case.operands) in (2, 3), "2 or 3 operands expected")
    case.must(case.operands[0].shape == case.result.shape != (), "equal shapes expected")
    case.must(all(t.storage == "f32" for t in (*case.operands, case.result)), "floats expected")
    _check_channels(case, *["f32"] * (len(case.operands) - 1))
    case.must(case.words[1] < 2, "unknown attribute")


def _check_integers(case: Case, extent: int) -> None:
    requant, must = case.layer.requant, case.must
    must(case.operands[0].shape == case.result.shape, "the shapes differ")
    for tensor in (case.operands[0], case.result):
        must(tensor.storage in ("i8", "i16"), "int8 or int16 expected")
    must(extent <= MAX_AXIS_ELEMENTS, f"an axis of more than {MAX_AXIS_ELEMENTS} elements")
    is_shift = requant is not None and requant.multiplier == 1 and requant.rounding == "half_up"
    must(is_shift, "a requantization by a shift that rounds half up expected")


def _check_integer_normalize(case: Case) -> None:
    case.must(case.result.shape != (), "rank 1 or more expected")
    _check_integers(case, case.result.channels)
    _check_channels(case, "i16", "i32")
    low, high, centred = case.words
    case.must(MIN_EPSILON <= low + (high << 32) <= MAX_EPSILON, "epsilon is out of range")
    case.must(centred < 2, "unknown attribute")


def _check_integer_softmax(case: Case) -> None:
    (axis,), must, table = case.words, case.must, case.operands[1]
    must(axis < len(case.result.shape), "the axis does not exist")
    _check_integers(case, case.result.shape[axis])
    valid = len(table.shape) == 1 and 2 <= table.shape[0] <= MAX_SOFTMAX_ENTRIES
    must(valid, f"the table must have 2 to {MAX_SOFTMAX_ENTRIES} entries")
    must(table.storage == "i32" and table.location == "biases", "a constant table of i32 expected")
    must(not table.zero_point, "a table without zero point expected")
    entries = memoryview(case.file.data(table)).cast("i")
    must(entries[0] == 1 << 15 and min(entries) >= 0, "the first entry must be 2^15, none negative")
    must(max(entries) == 1 << 15, "an entry exceeds 2^15")
    is_right = case.layer.requant is not None and case.layer.requant.shift > 0
    must(is_right, "a requantization by a right shift expected")


NORMALIZE = Kind(19, "normalize", _check_normalize, words=2, operands=None)
INTEGER_NORMALIZE = Kind(
    20, "integer_normalize", _check_integer_normalize, words=3, operands=3, requant=always
)
INTEGER_SOFTMAX = Kind(
    21, "integer_softmax", _check_integer_softmax, words=1, operands=2, requant=always
)


def _integer_normalize_words(op: graph.IntegerNormalizeOp) -> list[int]:
    epsilon = op.epsilon.value.data
    return [epsilon & 0xFFFFFFFF, epsilon >> 32, int(op.is_centred)]


record_as(
    NORMALIZE,
    graph.NormalizeOp,
    lambda op: [float_word(op.epsilon.value.data), int(op.is_centred)],
)
record_as(
    INTEGER_NORMALIZE, graph.IntegerNormalizeOp, _integer_normalize_words, lambda op: op.requant
)
record_as(
    INTEGER_SOFTMAX, graph.IntegerSoftmaxOp, lambda op: [op.axis.value.data], lambda op: op.requant
)


CELL_NUMBERS = (Cell.RNN, Cell.GRU, Cell.GRU_RESET_FIRST, Cell.LSTM)
"""The recurrent cells; the index of a cell is its number in nnet files."""

GATE_COUNTS, FUNCTION_COUNTS = (1, 3, 3, 4), (1, 2, 2, 3)
LSTM = 3
LAST_FUNCTION = len(graph.Function)
MAX_STATE_ELEMENTS, MAX_STATE_EXPONENT = 1 << 14, 60
DYNAMIC = 1 << 31
"""The word -2^31, which replaces the exponent of a state that is quantized at run time."""


def _check_recurrence(case: Case) -> None:
    must = case.must
    must(case.words[:1] in ((0,), (1,), (2,), (LSTM,)), "unknown attribute")
    cell = case.words[0]
    required = 3 + (cell == LSTM)
    counts = (required, required + 1)
    must(len(case.operands) in counts, f"{required} or {required + 1} operands expected")
    x, weights, *rest = case.operands
    must(all(t.storage == "f32" for t in (x, *rest, case.result)), "float tensors expected")
    must(weights.location != "arena", "constant weights expected")
    must(len(weights.shape) == 2 and len(x.shape) == 3, "weights of rank 2 and input of 3 expected")
    width, hidden = weights.shape
    valid = hidden <= MAX_STATE_ELEMENTS and width == GATE_COUNTS[cell] * hidden
    must(valid, "weights: wrong shape")
    steps, batch, columns = x.shape
    must(columns == width, "input: wrong shape")
    must(all(t.shape == (batch, hidden) for t in rest[: required - 2]), "state: wrong shape")
    must(all(t.shape == (width,) for t in rest[required - 2 :]), "bias: wrong shape")
    result = (steps + (cell == LSTM), batch, hidden)
    must(case.result.shape == result, "result: wrong shape")
    _check_recurrence_words(case, FUNCTION_COUNTS[cell])


def _check_recurrence_words(case: Case, functions: int) -> None:
    must, weights = case.must, case.operands[1]
    end = 1 + 3 * functions
    integers = case.words[end:]
    is_dynamic = weights.is_quantized and integers[:1] == (DYNAMIC,)
    expected = (1 + is_dynamic) + weights.shape[0] if weights.is_quantized else 0
    must(len(case.words) == end + expected, f"{end + expected} attributes expected")
    for i in range(1, end, 3):
        must(1 <= case.words[i] <= LAST_FUNCTION, "unknown function")
        is_nan = any(isnan(_float(w)) for w in case.words[i + 1 : i + 3])
        must(not is_nan, "a parameter is not a number")
    if not weights.is_quantized:
        return
    plain = weights.type == ("i8", 1.0, 0)
    must(plain, "weights of 8 bits, of scale 1 without zero point, expected")
    if is_dynamic:
        must(case.words[0] == LSTM, "only an lstm has dynamic scales")
        must(-128 <= _signed(integers[1]) < 128, "the zero point is no int8")
        must(all(0 <= _float(w) < inf for w in integers[2:]), "a scale is negative or infinite")
    else:
        valid = all(abs(_signed(w)) <= MAX_STATE_EXPONENT for w in integers)
        must(valid, f"an exponent exceeds {MAX_STATE_EXPONENT}")


def _float(word: int) -> float:
    return struct.unpack("<f", struct.pack("<I", word))[0]


def _signed(word: int) -> int:
    return word - ((word >> 31) << 32)


RECURRENCE = Kind(22, "recurrence", _check_recurrence, words=None, operands=None)


@encodes(graph.RecurrenceOp)
def encode_recurrence(op: graph.RecurrenceOp, add_table: AddTable) -> LayerRecord:
    words = [CELL_NUMBERS.index(op.cell_kind)]
    for function in op.functions:
        first, second = (*function.values, 0.0, 0.0)[:2]
        words += [FUNCTION_NUMBERS[function.data], float_word(first), float_word(second)]
    if (exponents := op.exponents) is not None:
        state, rows = exponents
        words += [e & 0xFFFFFFFF for e in (state, *rows)]
    if (scales := op.scales) is not None:
        values, zero_point = scales
        rows = np.broadcast_to(values, graph.shape_of(op.weights)[:1])
        words += [DYNAMIC, zero_point & 0xFFFFFFFF, *(float_word(float(v)) for v in rows)]
    return LayerRecord(RECURRENCE, attributes=words)
