"""
Encode and check convolutions, matrix products, pooling, reductions, and binary operations.

Bias, multipliers and residual of a convolution or matrix product follow the operands.
"""

import struct
from collections.abc import Sequence

import numpy as np

from ceras_ir.backends.nnet.encoding import (
    AddTable,
    LayerRecord,
    encodes,
    record_as,
    table_words,
    words_of,
)
from ceras_ir.backends.nnet.file import Case, Kind, always, check_window
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import is_plain
from ceras_ir.dialects.graph.lookup import FUNCTION


def _check_conv2d(case: Case) -> None:
    x, weights, must = case.operands[0], case.operands[1], case.must
    must(len(weights.shape) == 4, "weights of rank 4 expected")
    check_window(case, case.words[:8], weights.shape[1:3])
    groups = case.words[8]
    outputs, per_group = weights.shape[0], weights.shape[3]
    divides = groups > 0 and per_group * groups == x.shape[3] and outputs % groups == 0
    must(divides, "the groups do not divide the channels")
    must(case.result.shape[3] == outputs, "channels differ")
    _check_epilogue(case)


def _check_matmul(case: Case) -> None:
    x, weights, must = case.operands[0], case.operands[1], case.must
    must(len(x.shape) == len(weights.shape) == 2, "operands of rank 2 expected")
    must(x.shape[1] == weights.shape[1], "the shapes do not fit a matrix product")
    must(case.result.shape == (x.shape[0], weights.shape[0]), "the result has the wrong shape")
    _check_epilogue(case)


def _check_epilogue(case: Case) -> None:
    layer, operands, must = case.layer, case.operands, case.must
    weights = operands[1]
    must(weights.pitch == 0, "weights without gaps between rows expected")
    if case.is_quantized:
        must(weights.storage in ("i8", "u8"), "weights of 8 bits expected")
        must(not layer.bias or operands[2].storage == "i32", "a bias of 32 bits expected")
    must(not layer.bias or operands[2].shape == weights.shape[:1], "bias has the wrong shape")
    if layer.multipliers:
        values = operands[2 + layer.bias]
        must(values.storage == "i32" and values.location == "biases", "constant multipliers")
        must(values.shape == weights.shape[:1], "multipliers have the wrong shape")
        listed = struct.unpack(f"<{values.shape[0]}i", case.file.data(values))
        is_max = layer.requant is not None and layer.requant.multiplier == max(listed)
        must(min(listed) >= 1 and is_max, "invalid multipliers")
    must(not layer.residual or operands[-1].shape == case.result.shape, "residual: wrong shape")
    must(layer.residual_shift <= 23, "the residual shift exceeds 23")


CONV2D = Kind(
    1, "conv2d", _check_conv2d, words=9, operands=2, epilogue=True, function=True, requant=always
)
MATMUL = Kind(2, "matmul", _check_matmul, operands=2, epilogue=True, function=True, requant=always)


@encodes(graph.Conv2dOp)
def encode_conv2d(op: graph.Conv2dOp, add_table: AddTable) -> LayerRecord:
    words = [*words_of(op.strides, op.padding, op.dilations), op.group_count]
    return _record(op, CONV2D, words, add_table)


@encodes(graph.MatmulOp)
def encode_matmul(op: graph.MatmulOp, add_table: AddTable) -> LayerRecord:
    return _record(op, MATMUL, [], add_table)


def _record(
    op: graph.LinearOperation, kind: Kind, attributes: list[int], add_table: AddTable
) -> LayerRecord:
    record = LayerRecord(
        kind,
        attributes=attributes,
        bias=op.bias is not None,
        residual=op.residual is not None,
        requant=op.requant,
        # All channels multiply the residual by the same factor (a rule of the engine), so the
        # smallest shift is that of the channel with the largest multiplier, which `requant` holds.
        residual_shift=min(op.residual_shifts),
    )
    if (tables := op.tables) is None:
        return record.with_function(op.activation)
    stored = [add_table(row.tobytes()) for row in tables]
    record.table, words = table_words(stored, op.channel_rows)
    record.attributes, record.fused = [*attributes, *words], True
    # The record names the tabulated function for `ceras-nnet dump`.
    tabulated = op.attributes.get(FUNCTION)
    return record.with_function(tabulated if isinstance(tabulated, graph.FunctionAttr) else None)


def _check_pool(case: Case) -> None:
    if case.layer.requant is None:
        case.keeps_type()
    check_window(case, case.words[3:11], case.words[1:3])
    case.must(case.operands[0].shape[3] == case.result.shape[3], "channels differ")


POOL2D = Kind(3, "pool2d", _check_pool, words=12, requant=lambda layer: layer.attributes[0] == 1)


def _pool_words(op: graph.Pool2dOp) -> list[int]:
    window = words_of(op.kernel, op.strides, op.padding, op.dilations)
    return [int(op.function is graph.Pool.AVERAGE), *window, int(op.includes_padding)]


record_as(POOL2D, graph.Pool2dOp, _pool_words, lambda op: op.requant)


REDUCTION_NUMBERS = (graph.Reduce.SUM, graph.Reduce.PRODUCT, graph.Reduce.MAX, graph.Reduce.MIN)
"""The reductions; the index of a reduction is its number in nnet files."""


def _check_reduce(case: Case) -> None:
    x, y, must = case.operands[0], case.result, case.must
    kind, axes = next(iter(case.words), len(REDUCTION_NUMBERS)), case.words[1:]
    must(kind < len(REDUCTION_NUMBERS), "unknown attribute")
    must(list(axes) == sorted(set(axes)), "the axes are not in ascending order")
    must(all(axis < len(x.shape) for axis in axes), "the axis does not exist")
    _check_reduced_axes(case, axes)
    sums = not y.is_quantized or y.is_plain
    must(kind >= 2 or sums, "a sum of floats or of plain integers expected")


def _check_arg(case: Case) -> None:
    # 0 for maximum or 1 for minimum; the axis; 1 if the last of equal elements is selected.
    kind, axis, last = case.words
    case.must(kind <= 1 and last <= 1, "unknown attribute")
    case.must(axis < len(case.operands[0].shape), "the axis does not exist")
    _check_indices_of_numbers(case)
    _check_reduced_axes(case, (axis,))


def _check_top_k(case: Case) -> None:
    x, y, must = case.operands[0].shape, case.result.shape, case.must
    must(case.words[0] <= 1, "unknown attribute")
    _check_indices_of_numbers(case)
    fits = 0 < len(x) == len(y) and x[:-1] == y[:-1] and y[-1] <= x[-1]
    must(fits, "the result has the wrong shape")


def _check_indices_of_numbers(case: Case) -> None:
    case.must(case.operands[0].storage != "bool", "numbers expected")
    case.must(case.result.storage == "i64", "integers of 64 bits expected")


def _check_reduced_axes(case: Case, axes: Sequence[int]) -> None:
    expected = tuple(1 if i in axes else n for i, n in enumerate(case.operands[0].shape))
    case.must(case.result.shape == expected, "the result has the wrong shape")


REDUCE = Kind(18, "reduce", _check_reduce, words=None, same_type=True, all_storages=True)
ARG = Kind(30, "arg", _check_arg, words=3, all_storages=True)
TOP_K = Kind(31, "top_k", _check_top_k, words=1, all_storages=True)

record_as(
    REDUCE,
    graph.ReduceOp,
    lambda op: [
        REDUCTION_NUMBERS.index(op.function),
        *(int(axis) for axis in op.axes.get_values()),
    ],
)
record_as(
    ARG,
    graph.ArgOp,
    lambda op: [int(op.function is graph.Reduce.MIN), op.axis.value.data, int(op.takes_last)],
)
record_as(TOP_K, graph.TopKOp, lambda op: [int(op.function is graph.Reduce.MIN)])


_BITWISE = (graph.Binary.AND, graph.Binary.OR, graph.Binary.XOR)

INTEGER_BINARIES = (
    graph.Binary.ADD, graph.Binary.SUB, graph.Binary.MUL, graph.Binary.DIV, graph.Binary.MIN,
    graph.Binary.MAX, *_BITWISE, graph.Binary.POW,
)  # fmt: skip
"""
The functions of plain integers (scale 1, no zero point), which wrap around. The index of a function
is its number in nnet files.
"""

FLOAT_BINARIES = {f: n for n, f in enumerate(INTEGER_BINARIES) if f not in _BITWISE}
"""
The numbers in nnet files of the functions of floats. Quantized operands accept the numbers 0 to 2:
addition, subtraction and multiplication.
"""


def _check_binary(case: Case) -> None:
    words, must = case.words, case.must
    must(len(words) in (3, 5), "3 attributes expected, or 5 with multipliers")
    must(all(t.storage != "i32" for t in case.operands), "operands of 8 or 16 bits expected")
    check_broadcast(case)
    known = range(3) if case.result.is_quantized else FLOAT_BINARIES.values()
    must(words[0] in known and max(words[1:3]) <= 22, "unknown attribute")
    for shift, multiplier in zip(words[1:3], words[3:], strict=False):
        must(1 <= multiplier << shift <= 1 << 22, "invalid multiplier of an operand")


def _check_integer_binary(case: Case) -> None:
    case.must(case.words[0] < len(INTEGER_BINARIES), "unknown attribute")
    case.must(case.result.is_plain, "integers of scale 1 without zero point expected")
    check_broadcast(case)


def check_broadcast(case: Case) -> None:
    """
    Refuse the file unless the shapes of the operands broadcast to the shape of the result, as in
    numpy.
    """
    try:
        shape = np.broadcast_shapes(*(t.shape for t in case.operands))
    except ValueError:
        shape = None
    case.must(shape == case.result.shape, "the shapes do not broadcast to that of the result")


BINARY = Kind(
    5, "binary", _check_binary, words=None, operands=2, function=True, requant=always, in_place=True
)

INTEGER_BINARY = Kind(
    26, "integer_binary", _check_integer_binary, words=1, operands=2, same_type=True,
    all_storages=True, in_place=True,
)  # fmt: skip


@encodes(graph.BinaryOp)
def encode_binary(op: graph.BinaryOp, add_table: AddTable) -> LayerRecord:
    if is_plain(op.result):
        return LayerRecord(INTEGER_BINARY, attributes=[INTEGER_BINARIES.index(op.function)])
    attributes = [FLOAT_BINARIES[op.function], *op.shifts]
    if op.multipliers != (1, 1):
        attributes += op.multipliers
    record = LayerRecord(BINARY, attributes=attributes, requant=op.requant)
    return record.with_function(op.activation)


RELATION_NUMBERS = (graph.Compare.EQUAL, graph.Compare.LESS, graph.Compare.LESS_OR_EQUAL)
"""The comparisons; the index of a comparison is its number in nnet files."""


def _check_compare(case: Case) -> None:
    (kind,), (a, b), must = case.words, case.operands, case.must
    must(kind < len(RELATION_NUMBERS), "unknown attribute")
    must(a.type == b.type, "the operands differ in type")
    must(case.result.storage == "bool", "a result of booleans expected")
    check_broadcast(case)


def _check_select(case: Case) -> None:
    condition, a, b = case.operands
    case.must(condition.storage == "bool", "a condition of booleans expected")
    same_type = a.type == b.type == case.result.type
    case.must(same_type, "both choices and the result have different types")
    check_broadcast(case)


def _check_cast(case: Case) -> None:
    plain = all(t.is_plain or not t.is_quantized for t in (case.operands[0], case.result))
    case.must(plain, "floats, or integers of scale 1 without zero point, expected")


COMPARE = Kind(27, "compare", _check_compare, words=1, operands=2, all_storages=True)
SELECT = Kind(28, "select", _check_select, operands=3, all_storages=True)
CAST = Kind(29, "cast", _check_cast, same_shape=True, all_storages=True)

record_as(COMPARE, graph.CompareOp, lambda op: [RELATION_NUMBERS.index(op.function)])
record_as(SELECT, graph.SelectOp)
record_as(CAST, graph.CastOp)
