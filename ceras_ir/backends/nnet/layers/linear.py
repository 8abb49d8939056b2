"""Convolutions and matrix products, with bias, multipliers and residual behind their operands."""

import struct

from ceras_ir.backends.nnet.checks import check_window
from ceras_ir.backends.nnet.encoding import AddTable, LayerRecord, encodes, table_words, words_of
from ceras_ir.backends.nnet.file import Case, Kind, always
from ceras_ir.dialects import graph
from ceras_ir.transforms.quantization.rewrites.tables import FUNCTION


def _check_conv2d(case: Case) -> None:
    x, weights, must = case.operands[0], case.operands[1], case.must
    must(len(weights.shape) == 4, "weights of rank 4 expected")
    check_window(case, case.words[:8], weights.shape[1:3])
    groups = case.words[8]
    outputs, per_group = weights.shape[0], weights.shape[3]
    divides = groups > 0 and per_group * groups == x.shape[3] and outputs % groups == 0
    must(divides, "its groups do not divide its channels")
    must(case.result.shape[3] == outputs, "channels differ")
    _check_epilogue(case)


def _check_matmul(case: Case) -> None:
    x, weights, must = case.operands[0], case.operands[1], case.must
    must(len(x.shape) == len(weights.shape) == 2, "operands of rank 2 expected")
    must(x.shape[1] == weights.shape[1], "its shapes are not those of a product")
    must(case.result.shape == (x.shape[0], weights.shape[0]), "its result has the wrong shape")
    _check_epilogue(case)


def _check_epilogue(case: Case) -> None:
    layer, operands, must = case.layer, case.operands, case.must
    weights = operands[1]
    must(weights.pitch == 0, "weights have no gaps between rows")
    if case.is_quantized:
        must(weights.storage in ("i8", "u8"), "weights of 8 bits expected")
        must(not layer.bias or operands[2].storage == "i32", "a bias of 32 bits expected")
    must(not layer.bias or operands[2].shape == weights.shape[:1], "bias has the wrong shape")
    if layer.multipliers:
        values = operands[2 + layer.bias]
        must(values.storage == "i32" and values.location == "biases", "constant multipliers")
        must(values.shape == weights.shape[:1], "multipliers have the wrong shape")
        listed = struct.unpack(f"<{values.shape[0]}i", case.file.data(values))
        greatest = layer.requant is not None and layer.requant.multiplier == max(listed)
        must(min(listed) >= 1 and greatest, "its multipliers")
    must(not layer.residual or operands[-1].shape == case.result.shape, "residual: wrong shape")
    must(layer.residual_shift <= 23, "its residual shift")


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
        # Of the channel with the greatest multiplier: all multiply their residual by one number.
        residual_shift=min(op.residual_shifts),
    )
    if (tables := op.tables) is None:
        return record.with_function(op.activation)
    stored = [add_table(row.tobytes()) for row in tables]
    record.table, words = table_words(stored, op.channel_rows)
    record.attributes, record.fused = [*attributes, *words], True
    # What the table is of, for people.
    tabulated = op.attributes.get(FUNCTION)
    return record.with_function(tabulated if isinstance(tabulated, graph.FunctionAttr) else None)
