"""Recurrent layers: a layer has all steps of a direction."""

import struct
from math import inf, isnan

import numpy as np

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
DYNAMIC = 1 << 31
"""-2^31, in place of the exponent of a state that is quantized dynamically."""


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
    """Check functions and parameters, and the exponents or scales of integer weights."""
    must, weights = case.must, case.operands[1]
    end = 1 + 3 * functions
    integers = case.words[end:]
    is_dynamic = weights.is_quantized and integers[:1] == (DYNAMIC,)
    expected = (1 + is_dynamic) + weights.shape[0] if weights.is_quantized else 0
    must(len(case.words) == end + expected, f"{end + expected} attributes expected")
    for i in range(1, end, 3):
        must(1 <= case.words[i] <= LAST_FUNCTION, "unknown function")
        must(
            not any(isnan(_float(w)) for w in case.words[i + 1 : i + 3]),
            "a parameter is not a number",
        )
    if not weights.is_quantized:
        return
    plain = weights.type == ("i8", 1.0, 0)
    must(plain, "weights of 8 bits, of scale 1 without zero point, expected")
    if is_dynamic:
        must(case.words[0] == LSTM, "only an lstm has dynamic scales")
        must(-128 <= _signed(integers[1]) < 128, "its zero point")
        must(all(0 <= _float(w) < inf for w in integers[2:]), "its scales")
    else:
        must(all(abs(_signed(w)) <= MAX_EXPONENT for w in integers), "its exponents")


def _float(word: int) -> float:
    return struct.unpack("<f", struct.pack("<I", word))[0]


def _signed(word: int) -> int:
    return word - ((word >> 31) << 32)


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
    if (scales := op.scales) is not None:
        values, zero_point = scales
        rows = np.broadcast_to(values, graph.shape_of(op.weights)[:1])
        words += [DYNAMIC, zero_point & 0xFFFFFFFF, *(float_word(float(v)) for v in rows)]
    return LayerRecord(RECURRENCE, attributes=words)
