"""
Whether the tables of an nnet file agree: operands, types and shapes of each layer, and memory.

Where the values are in memory is `memory_checks.py`'s.
"""

import struct
from collections.abc import Callable
from math import prod

from ceras_ir.backends.nnet.file import Layer, NnetFile, Tensor, expect
from ceras_ir.backends.nnet.memory_checks import check_memory

Must = Callable[[bool, str], None]
MOVES = ("reshape", "transpose", "concat", "resize", "slice", "pad", "pool2d")
WORDS = {
    "conv2d": 9, "matmul": 0, "pool2d": 12, "binary": 3, "softmax": 1,
    "reshape": 0, "concat": 1, "quantize": 0, "dequantize": 0, "requantize": 0,
}  # fmt: skip


def check(file: NnetFile) -> None:
    """Refuse a file whose parts do not agree."""
    for number, layer in enumerate(file.layers):

        def must(condition: bool, message: str, number: int = number, layer: Layer = layer) -> None:
            expect(condition, f"layer {number} '{layer.name}' ({layer.opcode}): {message}")

        check_layer(file, layer, must)
    check_memory(file)


def check_layer(file: NnetFile, layer: Layer, must: Must) -> None:
    """Counts, types and shapes of one layer."""
    operands = [file.tensors[i] for i in layer.operands]
    result = file.tensors[layer.result]
    linear = layer.opcode in ("conv2d", "matmul")
    expected = 2 if linear or layer.opcode == "binary" else 1
    expected += layer.bias + layer.multipliers + layer.residual
    if layer.opcode == "concat":
        expected = max(1, len(operands))
    must(len(operands) == expected, f"{expected} operands expected, got {len(operands)}")
    extra = layer.bias or layer.residual or layer.multipliers
    must(linear or not extra, "it takes no bias, residual or multipliers")
    must(layer.residual or layer.residual_shift == 0, "it has no residual to shift")
    words = WORDS.get(layer.opcode, len(layer.attributes))
    if layer.opcode == "binary" and len(layer.attributes) == 5:
        words = 5  # With a multiplier for each operand.
    must(len(layer.attributes) == words, f"{words} attributes expected")
    must(result.location == "arena", "its result is a constant")
    must((layer.table is not None) == (layer.opcode == "lookup"), "only a lookup has a table")
    takes_function = linear or layer.opcode in ("unary", "binary")
    must(takes_function or layer.function == "none", "it takes no function")
    _check_requant(layer, operands, result, must)
    _check_types(layer, operands, result, must)
    if linear:
        _check_linear(file, layer, operands, result, must)
    elif layer.opcode == "pool2d":
        kernel = layer.attributes[1:3]
        _check_window(layer, layer.attributes[3:11], kernel, operands[0], result, must)
        must(operands[0].shape[3] == result.shape[3], "channels differ")
    elif layer.opcode == "binary":
        must(_broadcast(operands) == result.shape, "its shapes do not broadcast to its result's")
        kinds = 6 if result.storage == "f32" else 3
        known = layer.attributes[0] < kinds and max(layer.attributes[1:3]) <= 22
        must(known, "unknown attribute")
        for shift, multiplier in zip(layer.attributes[1:3], layer.attributes[3:], strict=False):
            must(1 <= multiplier << shift <= 1 << 22, "an operand's multiplier")
    elif layer.opcode in ("slice", "pad"):
        _check_boxes(layer, operands[0], result, must)
    elif layer.opcode in ("reshape", "transpose", "concat", "resize"):
        _check_moves(layer, operands, result, must)
    else:
        must(operands[0].shape == result.shape, "its shapes differ")
        axis = layer.attributes[0] if layer.opcode == "softmax" else -1
        must(axis < len(result.shape), "its axis does not exist")
        channels = (1, *result.shape)[-1]
        if layer.opcode == "unary":
            words = [w - ((w >> 31) << 32) for w in layer.attributes]
            must(len(words) in (0, 2 * channels), "two exponents for each channel expected")
            must(all(abs(w) <= 64 for w in words), "its exponents")
        if layer.opcode == "lookup" and layer.attributes:
            _check_tables(file, layer.attributes, channels, must)
        if layer.opcode == "shift_swish":
            must(len(layer.attributes) in (5, 5 * channels), "five bends for each channel")
            must(max(layer.attributes) < 1 << 15, "a bend of at most 15 bits")
            requant = layer.requant
            must(requant is not None and requant.multiplier == 1, "it rescales by a shift")


def _check_tables(file: NnetFile, words: tuple[int, ...], channels: int, must: Must) -> None:
    """The number of entries, then the table of all channels or of each."""
    entries, tables = words[0], words[1:]
    must(entries.bit_count() == 1 and 256 <= entries <= 1 << 16, "entries of its tables")
    must(len(tables) in (1, channels), "one table, or one for each channel")
    stored = len(file.sections["tables"]) // 256
    must(all(t + entries // 256 <= stored for t in tables), "no such lookup table")


def _check_requant(layer: Layer, operands: list[Tensor], result: Tensor, must: Must) -> None:
    quantized = result.storage != "f32"
    needed = layer.opcode in ("conv2d", "matmul", "binary", "requantize", "shift_swish") or (
        layer.opcode == "pool2d" and layer.attributes[0] == 1
    )
    must((layer.requant is not None) == (needed and quantized), "a wrong requantization")
    if needed:
        same = all((t.storage != "f32") == quantized for t in operands)
        must(same, "it mixes float and quantized tensors")
        must(not quantized or layer.function == "none", "a quantized layer has no function")
    if (requant := layer.requant) is not None:
        must(1 <= requant.multiplier < 1 << 31 and requant.shift <= 62, "its rescaling")
        low, high = result.limits
        must(low <= requant.low <= requant.high <= high, "its clamp range")


def _check_types(layer: Layer, operands: list[Tensor], result: Tensor, must: Must) -> None:
    kinds = [t.storage for t in (*operands, result)]
    match layer.opcode:
        case "unary" | "softmax":
            must(set(kinds) == {"f32"}, "float tensors expected")
        case "lookup":
            wide = bool(layer.attributes) and layer.attributes[0] > 256
            must(kinds[0] in ("i8", "i16")[: 1 + bool(layer.attributes)], "int8 expected")
            must(kinds[1] == "i8" and not (wide and kinds[0] == "i8"), "int8 expected")
        case "shift_swish":
            must(kinds[0] in ("i8", "i16") and kinds[1] != "f32", "int8 or int16 expected")
            must(operands[0].zero_point == 0, "no zero point expected")
        case "quantize":
            must(kinds[0] == "f32" != kinds[1], "float to quantized expected")
        case "dequantize":
            must(kinds[0] != "f32" == kinds[1], "quantized to float expected")
        case "requantize":
            must("f32" not in kinds, "quantized tensors expected")
        case "conv2d" | "matmul" if kinds[-1] != "f32":
            must(kinds[1] in ("i8", "u8"), "weights of 8 bits expected")
            must(not layer.bias or kinds[2] == "i32", "a bias of 32 bits expected")
        case "binary":
            must("i32" not in kinds[:2], "operands of 8 or 16 bits expected")
        case _ if layer.opcode in MOVES and layer.requant is None:
            for t in operands:
                same = (t.storage, t.scale, t.zero_point) == (
                    result.storage, result.scale, result.zero_point,
                )  # fmt: skip
                must(same, "it must keep the type of its operands")
        case _:
            pass


def _check_linear(
    file: NnetFile, layer: Layer, operands: list[Tensor], result: Tensor, must: Must
) -> None:
    x, weights = operands[:2]
    must(weights.pitch == 0, "weights have no gaps between rows")
    if layer.opcode == "conv2d":
        must(len(weights.shape) == 4, "weights of rank 4 expected")
        kernel = weights.shape[1:3]
        _check_window(layer, layer.attributes[:8], kernel, x, result, must)
        groups = layer.attributes[8]
        outputs, per_group = weights.shape[0], weights.shape[3]
        divides = groups > 0 and per_group * groups == x.shape[3] and outputs % groups == 0
        must(divides, "its groups do not divide its channels")
        must(result.shape[3] == outputs, "channels differ")
    else:
        must(len(x.shape) == len(weights.shape) == 2, "operands of rank 2 expected")
        must(x.shape[1] == weights.shape[1], "its shapes are not those of a product")
        must(result.shape == (x.shape[0], weights.shape[0]), "its result has the wrong shape")
    must(not layer.bias or operands[2].shape == weights.shape[:1], "bias has the wrong shape")
    if layer.multipliers:
        values = operands[2 + layer.bias]
        must(values.storage == "i32" and values.location == "biases", "constant multipliers")
        must(values.shape == weights.shape[:1], "multipliers have the wrong shape")
        listed = struct.unpack(f"<{values.shape[0]}i", file.data(values))
        greatest = layer.requant is not None and layer.requant.multiplier == max(listed)
        must(min(listed) >= 1 and greatest, "its multipliers")
    must(not layer.residual or operands[-1].shape == result.shape, "residual: wrong shape")
    must(layer.residual_shift <= 23, "its residual shift")


def _check_window(
    layer: Layer, words: tuple[int, ...], kernel: tuple[int, ...], x: Tensor, y: Tensor, must: Must
) -> None:
    must(len(x.shape) == len(y.shape) == 4 and x.shape[0] == y.shape[0], "rank 4 expected")
    for axis in (0, 1):
        stride, dilation = words[axis], words[6 + axis]
        before, after = words[2 + axis], words[4 + axis]
        must(stride > 0 and dilation > 0 and kernel[axis] > 0, "a window attribute is zero")
        padded = x.shape[1 + axis] + before + after - (kernel[axis] - 1) * dilation - 1
        must(padded >= 0 and padded // stride + 1 == y.shape[1 + axis], "its window does not fit")


def _broadcast(operands: list[Tensor]) -> tuple[int, ...] | None:
    rank = max(len(t.shape) for t in operands)
    shapes = [(1,) * (rank - len(t.shape)) + t.shape for t in operands]
    columns = [set(column) - {1} for column in zip(*shapes, strict=True)]
    return None if any(len(c) > 1 for c in columns) else tuple(max(c, default=1) for c in columns)


def _check_moves(layer: Layer, operands: list[Tensor], result: Tensor, must: Must) -> None:
    x, words = operands[0], layer.attributes
    match layer.opcode:
        case "reshape":
            must(prod(x.shape) == prod(result.shape), "its shapes differ in size")
            same_rows = x.shape[-1:] == result.shape[-1:]
            must(same_rows or not (x.pitch or result.pitch), "it changes rows that have gaps")
        case "transpose":
            must(sorted(words) == list(range(len(x.shape))), "not a permutation")
            must(tuple(x.shape[i] for i in words) == result.shape, "its result: wrong shape")
        case "concat":
            axis = words[0]
            must(axis < len(result.shape), "its axis does not exist")
            expected = [(*t.shape[:axis], *t.shape[axis + 1 :]) for t in (*operands, result)]
            must(len(set(expected)) == 1, "an operand does not fit")
            must(sum(t.shape[axis] for t in operands) == result.shape[axis], "it is not filled")
        case _:
            step = 3 if words and words[0] == 1 else 1
            must(bool(words) and words[0] <= 1, "unknown attribute")
            must(len(x.shape) == len(result.shape) == 4, "rank 4 expected")
            must(len(words) == 1 + step * sum(result.shape[1:3]), "wrong number of indices")
            split = 1 + step * result.shape[1]
            for axis, part in ((1, words[1:split]), (2, words[split:])):
                inside = all(i < x.shape[axis] for n in range(min(2, step)) for i in part[n::step])
                must(inside, "an index lies outside its input")


def _check_boxes(layer: Layer, x: Tensor, y: Tensor, must: Must) -> None:
    rank, words = len(y.shape), layer.attributes
    must(len(x.shape) == rank, "it must keep the rank")
    must(len(words) == 2 * rank + (layer.opcode == "pad"), "wrong number of attributes")
    inner, outer = (y, x) if layer.opcode == "slice" else (x, y)
    for d in range(rank):
        step = words[rank + d]
        if layer.opcode == "slice":
            step -= (step >> 31) << 32
            must(step != 0, "a stride is zero")
        else:
            step += 1
        ends = words[d], words[d] + (inner.shape[d] - 1) * step
        must(all(0 <= end < outer.shape[d] for end in ends), "it leaves its tensor")
