"""
One operation of the `graph` dialect as one layer record, operands and names left to the caller.

Whatever could be decided at run time is decided here: resizing and borders that repeat elements
become lists of indices.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerType
from xdsl.ir import Operation

from ceras_ir.backends.nnet.encoding import FUNCTIONS, LayerRecord, Opcode
from ceras_ir.dialects import graph
from ceras_ir.interpreters.resampling import border_indices, linear_weights, nearest_indices

BINARIES = {
    graph.Binary.ADD: 0,
    graph.Binary.SUB: 1,
    graph.Binary.MUL: 2,
    graph.Binary.DIV: 3,
    graph.Binary.MIN: 4,
    graph.Binary.MAX: 5,
}


@dataclass
class LayerEncoder:
    """Makes records; `add_table` stores a table and gives the number of its first 256 bytes."""

    add_table: Callable[[bytes], int]

    def encode(self, op: Operation) -> LayerRecord | None:
        """The record of `op`, or None for an operation that the format does not have."""
        match op:
            case graph.Conv2dOp():
                words = _words(op.strides, op.padding, op.dilations)
                return self._linear(op, Opcode.CONV2D, [*words, op.group_count])
            case graph.MatmulOp():
                return self._linear(op, Opcode.MATMUL, ())
            case graph.Pool2dOp():
                words = _words(op.kernel, op.strides, op.padding, op.dilations)
                kind = int(op.function is graph.Pool.AVERAGE)
                words = [kind, *words, int(op.includes_padding)]
                return LayerRecord(Opcode.POOL2D, attributes=words, requant=op.requant)
            case graph.UnaryOp():
                words = [e & 0xFFFFFFFF for side in op.channel_exponents or () for e in side]
                return _with_function(LayerRecord(Opcode.UNARY, attributes=words), op.function)
            case graph.BinaryOp():
                words = [BINARIES[op.function], *op.shifts]
                if op.multipliers != (1, 1):
                    words += op.multipliers
                record = LayerRecord(Opcode.BINARY, attributes=words, requant=op.requant)
                return _with_function(record, op.activation)
            case graph.LookupOp():
                return self._lookup(op)
            case graph.ShiftSwishOp():
                words = [k for bends in op.channel_bends for k in bends]
                return LayerRecord(Opcode.SHIFT_SWISH, attributes=words, requant=op.requant)
            case graph.SoftmaxOp():
                return LayerRecord(Opcode.SOFTMAX, attributes=[op.axis.value.data])
            case graph.ConcatOp():
                return LayerRecord(Opcode.CONCAT, attributes=[op.axis.value.data])
            case graph.ReshapeOp():
                return LayerRecord(Opcode.RESHAPE)
            case graph.TransposeOp():
                return LayerRecord(Opcode.TRANSPOSE, attributes=_words(op.permutation))
            case graph.SliceOp():
                return LayerRecord(Opcode.SLICE, attributes=_words(op.starts, op.strides))
            case graph.PadOp() if op.function is graph.Pad.CONSTANT:
                words = [*_words(op.low, op.interior), pad_word(op)]
                return LayerRecord(Opcode.PAD, attributes=words)
            case graph.PadOp() if repeats_image(op):
                return LayerRecord(Opcode.RESIZE, attributes=border_words(op))
            case graph.ResizeOp():
                return LayerRecord(Opcode.RESIZE, attributes=resize_words(op))
            case graph.QuantizeOp():
                return LayerRecord(Opcode.QUANTIZE)
            case graph.DequantizeOp():
                return LayerRecord(Opcode.DEQUANTIZE)
            case graph.RequantizeOp():
                return LayerRecord(Opcode.REQUANTIZE, requant=op.requant)
            case _:
                return None

    def _lookup(self, op: graph.LookupOp) -> LayerRecord:
        """A table of 256 for all channels is the record's own; else the attributes say which."""
        tables = [self.add_table(row.tobytes()) for row in op.tables]
        entries, rows = op.tables.shape[1], op.channel_rows
        stored = graph.stored_element(op.input)
        if rows is None and stored.storage.width.data == 8:
            return LayerRecord(Opcode.LOOKUP, table=tables[0])
        words = [entries, *(tables[row] for row in rows or (0,))]
        return LayerRecord(Opcode.LOOKUP, attributes=words, table=tables[0])

    def _linear(
        self, op: graph.LinearOperation, opcode: Opcode, words: Sequence[int]
    ) -> LayerRecord:
        record = LayerRecord(
            opcode,
            attributes=words,
            bias=op.bias is not None,
            residual=op.residual is not None,
            requant=op.requant,
            residual_shift=op.residual_left_shift,
        )
        return _with_function(record, op.activation)


def _words(*fields: DenseArrayBase[IntegerType]) -> list[int]:
    """Numbers of several lists, one after the other, as 32 bits."""
    return [int(v) & 0xFFFFFFFF for field in fields for v in field.get_values()]


def _with_function(record: LayerRecord, function: graph.FunctionAttr | None) -> LayerRecord:
    if function is not None:
        record.function = FUNCTIONS[function.kind]
        record.parameters = function.values
    return record


def repeats_image(op: graph.PadOp) -> bool:
    """Whether a border repeats elements of the image, along its rows and columns alone."""
    low, high = op.low.get_values(), op.high.get_values()
    is_image = len(low) == 4 and not any((low[0], low[3], high[0], high[3]))
    return op.function is not graph.Pad.CONSTANT and is_image


def border_words(op: graph.PadOp) -> list[int]:
    """A resize by indices: for each output row and column the one that it repeats."""
    words = [0]
    for axis in (1, 2):
        low, high = op.low.get_values()[axis], op.high.get_values()[axis]
        extent = graph.shape_of(op.input)[axis]
        words += border_indices(op.function, extent, low, high).tolist()
    return words


def pad_word(op: graph.PadOp) -> int:
    """The stored number around the input, as 32 bits."""
    match op.value:
        case FloatAttr():
            return struct.unpack("<I", struct.pack("<f", op.value.value.data))[0]
        case number:
            return number.value.data & 0xFFFFFFFF


def resize_words(op: graph.ResizeOp) -> list[int]:
    """Kind, then for each output row and column its index, or two indices and a weight."""
    mode = op.coordinates.data
    source, target = graph.shape_of(op.input), graph.shape_of(op.result)
    words = [int(op.function is graph.Resize.LINEAR)]
    for axis, scale in zip((1, 2), op.scales.get_values(), strict=True):
        if op.function is graph.Resize.NEAREST:
            rounding = op.rounding.data
            words += nearest_indices(source[axis], target[axis], scale, mode, rounding)
            continue
        low, high, weights = linear_weights(source[axis], target[axis], scale, mode)
        for first, second, weight in zip(low, high, weights.tolist(), strict=True):
            words += [first, second, *struct.unpack("<I", struct.pack("<f", weight))]
    return words
