"""Recurrent layers: all steps of one direction in one layer."""

import struct
from math import isnan

from ceras_ir.backends.nnet.encoding import (
    FUNCTIONS,
    AddTable,
    LayerRecord,
    encodes,
    float_word,
)
from ceras_ir.backends.nnet.file import Case, Kind
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Cell

CELLS = (Cell.RNN, Cell.GRU, Cell.GRU_RESET_FIRST, Cell.LSTM)
"""By the number that the format has for them."""

GATES, FUNCTION_COUNTS = (1, 3, 3, 4), (1, 2, 2, 3)
LSTM = 3
LAST_FUNCTION = len(graph.Function)
MAX_WIDTH, MAX_EXPONENT = 1 << 14, 60


def _check_recurrence(case: Case) -> None:
    must = case.must
    must(case.words[:1] in ((0,), (1,), (2,), (LSTM,)), "unknown attribute")
    cell = case.words[0]
    least = 3 + (cell == LSTM)
    must(len(case.operands) in (least, least + 1), f"{least} or {least + 1} operands expected")
    x, weights, *rest = case.operands
    must(all(t.storage == "f32" for t in (x, *rest, case.result)), "float tensors expected")
    must(weights.location != "arena", "constant weights expected")
    must(len(weights.shape) == 2 and len(x.shape) == 3, "weights of rank 2 and input of 3 expected")
    width, hidden = weights.shape
    must(hidden <= MAX_WIDTH and width == GATES[cell] * hidden, "its weights: wrong shape")
    steps, batch, columns = x.shape
    must(columns == width, "its input: wrong shape")
    must(all(t.shape == (batch, hidden) for t in rest[: least - 2]), "its state: wrong shape")
    must(all(t.shape == (width,) for t in rest[least - 2 :]), "its bias: wrong shape")
    result = (steps + (cell == LSTM), batch, hidden)
    must(case.result.shape == result, "its result: wrong shape")
    _check_words(case, FUNCTION_COUNTS[cell])


def _check_words(case: Case, functions: int) -> None:
    """Functions with their parameters; for integers the exponents of state and rows."""
    must, weights = case.must, case.operands[1]
    end = 1 + 3 * functions
    exponents = 1 + weights.shape[0] if weights.is_quantized else 0
    must(len(case.words) == end + exponents, f"{end + exponents} attributes expected")
    for i in range(1, end, 3):
        must(1 <= case.words[i] <= LAST_FUNCTION, "unknown function")
        values = struct.unpack("<2f", struct.pack("<2I", *case.words[i + 1 : i + 3]))
        must(not any(map(isnan, values)), "a parameter is not a number")
    if weights.is_quantized:
        plain = weights.type == ("i8", 1.0, 0)
        must(plain, "weights of 8 bits, of scale 1 without zero point, expected")
        signed = [w - ((w >> 31) << 32) for w in case.words[end:]]
        must(all(abs(e) <= MAX_EXPONENT for e in signed), "its exponents")


RECURRENCE = Kind(22, "recurrence", _check_recurrence, words=None, operands=None)


@encodes(graph.RecurrenceOp)
def encode_recurrence(op: graph.RecurrenceOp, add_table: AddTable) -> LayerRecord:
    words = [CELLS.index(op.type_of_cell)]
    for function in op.functions:
        first, second = (*function.values, 0.0, 0.0)[:2]
        words += [FUNCTIONS[function.kind], float_word(first), float_word(second)]
    if (exponents := op.exponents) is not None:
        state, rows = exponents
        words += [e & 0xFFFFFFFF for e in (state, *rows)]
    return LayerRecord(RECURRENCE, attributes=words)
