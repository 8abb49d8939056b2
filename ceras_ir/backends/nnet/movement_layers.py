"""
Encode and check data movement operations and resizes in nnet files.

Data movement preserves the type. The indices of a resize are computed at compile time.
"""

from math import prod

from xdsl.dialects.builtin import FloatAttr

from ceras_ir.backends.nnet.encoding import (
    AddTable,
    LayerRecord,
    encodes,
    float_word,
    record_as,
    words_of,
)
from ceras_ir.backends.nnet.file import (
    STORAGE_BYTES,
    Case,
    FileLayer,
    FileTensor,
    Kind,
    NnetFile,
    Place,
)
from ceras_ir.dialects import graph
from ceras_ir.interpreters.selection import border_indices, linear_weights, nearest_indices


def _check_reshape(case: Case) -> None:
    x, y = case.operands[0], case.result
    case.must(prod(x.shape) == prod(y.shape), "the shapes differ in size")
    same_rows = x.shape[-1:] == y.shape[-1:]
    case.must(same_rows or not (x.pitch or y.pitch), "rows with gaps cannot be reshaped")


def _kept_by_reshape(file: NnetFile, layer: FileLayer) -> list[Place]:
    x, y = file.tensors[layer.operands[0]], file.tensors[layer.result]
    return [x.place] if x.location == "arena" and x.place == y.place else []


def _check_transpose(case: Case) -> None:
    x, order = case.operands[0], case.words
    case.must(sorted(order) == list(range(len(x.shape))), "not a permutation")
    case.must(tuple(x.shape[i] for i in order) == case.result.shape, "result: wrong shape")


def _check_concat(case: Case) -> None:
    (axis,), y, must = case.words, case.result, case.must
    must(axis < len(y.shape), "the axis does not exist")
    expected = [(*t.shape[:axis], *t.shape[axis + 1 :]) for t in (*case.operands, y)]
    must(len(set(expected)) == 1, "the shape of an operand does not fit")
    filled = sum(t.shape[axis] for t in case.operands) == y.shape[axis]
    must(filled, "the operands do not fill the result")


def _kept_by_concat(file: NnetFile, layer: FileLayer) -> list[Place]:
    result = file.tensors[layer.result]
    axis, rank = layer.attributes[0], len(result.shape)
    is_run, unit = prod(result.shape[:axis]) == 1, STORAGE_BYTES[result.storage]
    if not is_run and axis != rank - 1:
        return []
    row = result.shape[-1] * unit
    pitch = result.pitch or row
    found: list[Place] = []
    index = 0
    for id in layer.operands:
        operand = file.tensors[id]
        width = operand.shape[-1] * unit
        count = prod(operand.shape[:-1])
        start = result.offset + index // row * pitch + index % row
        place: Place = (start, count, width, pitch)
        if count == 1 or pitch == width:
            place = (start, 1, count * width, count * width)
        if operand.location == "arena" and operand.place == place:
            found.append(place)
        index += width * (count if is_run else 1)
    return found


def _check_slice(case: Case) -> None:
    # The attributes are the starts, then the signed strides.
    rank = _check_rank(case, 0)
    for start, word, extent, source in zip(
        case.words, case.words[rank:], case.result.shape, case.operands[0].shape, strict=False
    ):
        stride = word - ((word >> 31) << 32)
        case.must(stride != 0, "a stride is zero")
        last = start + (extent - 1) * stride
        case.must(start < source and 0 <= last < source, "the slice exceeds the tensor")


def _check_pad(case: Case) -> None:
    # The attributes are the elements before, the elements between two neighbours, and the value.
    rank = _check_rank(case, 1)
    for before, between, source, extent in zip(
        case.words, case.words[rank:], case.operands[0].shape, case.result.shape, strict=False
    ):
        fits = before + (source - 1) * (between + 1) < extent
        case.must(fits, "the operand exceeds the result")


def _check_gather(case: Case) -> None:
    # The attributes are the dimensions that have lists, as bits, and these lists.
    x, y, words, must = case.operands[0], case.result, case.words, case.must
    must(len(x.shape) == len(y.shape), "equal ranks expected")
    must(bool(words) and words[0] < 1 << len(y.shape), "unknown attribute")
    mask, at = words[0], 1
    for d, (extent, count) in enumerate(zip(x.shape, y.shape, strict=True)):
        if not mask >> d & 1:
            must(extent == count, "result: wrong shape")
            continue
        must(len(words) >= at + count, "wrong number of attributes")
        must(all(i < extent for i in words[at : at + count]), "an index is outside the input")
        at += count
    must(at == len(words), "wrong number of attributes")


def _check_rank(case: Case, more: int) -> int:
    rank = len(case.result.shape)
    case.must(len(case.operands[0].shape) == rank, "equal ranks expected")
    case.must(len(case.words) == 2 * rank + more, "wrong number of attributes")
    return rank


def _check_take(case: Case) -> None:
    x, indices = case.operands
    _check_rows(case, x, indices, case.result)


def _check_put(case: Case) -> None:
    x, indices, rows = case.operands
    case.must(x.shape == case.result.shape, "result: wrong shape")
    case.must(x.type == case.result.type, "matrix and rows have different types")
    _check_rows(case, x, indices, rows)


def _check_rows(case: Case, matrix: FileTensor, indices: FileTensor, rows: FileTensor) -> None:
    must, both = case.must, len(matrix.shape) == 2 and len(indices.shape) == 1
    must(both, "a matrix and a list of indices expected")
    must(rows.shape == (*indices.shape, matrix.shape[1]), "rows: wrong shape")
    must(matrix.type == rows.type, "matrix and rows have different types")
    plain = indices.is_plain and indices.storage != "bool"
    must(plain, "indices of scale 1 without zero point expected")


RESHAPE = Kind(
    8, "reshape", _check_reshape, same_type=True, all_storages=True, in_place=True,
    kept=_kept_by_reshape,
)  # fmt: skip
TRANSPOSE = Kind(9, "transpose", _check_transpose, words=None, same_type=True, all_storages=True)
CONCAT = Kind(
    10, "concat", _check_concat, words=1, operands=None, same_type=True, all_storages=True,
    kept=_kept_by_concat,
)  # fmt: skip
SLICE = Kind(15, "slice", _check_slice, words=None, same_type=True, all_storages=True)
PAD = Kind(16, "pad", _check_pad, words=None, same_type=True, all_storages=True)
TAKE = Kind(23, "take", _check_take, operands=2, all_storages=True)
PUT = Kind(24, "put", _check_put, operands=3, all_storages=True)
GATHER = Kind(25, "gather", _check_gather, words=None, same_type=True, all_storages=True)


record_as(RESHAPE, graph.ReshapeOp)
record_as(TRANSPOSE, graph.TransposeOp, lambda op: words_of(op.permutation))
record_as(CONCAT, graph.ConcatOp, lambda op: [op.axis.value.data])
record_as(SLICE, graph.SliceOp, lambda op: words_of(op.starts, op.strides))
record_as(TAKE, graph.TakeOp)
record_as(PUT, graph.PutOp)
record_as(GATHER, graph.GatherOp, lambda op: [1 << op.axis.value.data, *words_of(op.indices)])


@encodes(graph.PadOp)
def encode_pad(op: graph.PadOp, add_table: AddTable) -> LayerRecord:
    if op.function is graph.Pad.CONSTANT:
        is_float, value = isinstance(op.value, FloatAttr), op.value.value.data
        word = float_word(value) if is_float else int(value) & 0xFFFFFFFF
        return LayerRecord(PAD, attributes=[*words_of(op.low, op.interior), word])
    bits, words = 0, list[int]()
    for axis, extent in enumerate(graph.shape_of(op.input)):
        low, high = op.low.get_values()[axis], op.high.get_values()[axis]
        if low or high:
            bits |= 1 << axis
            words += border_indices(op.function, extent, low, high).tolist()
    return LayerRecord(GATHER, attributes=[bits, *words])


def _check_resize(case: Case) -> None:
    x, y, words, must = case.operands[0], case.result, case.words, case.must
    step = 3 if words and words[0] == 1 else 1
    must(bool(words) and words[0] <= 1, "unknown attribute")
    must(len(x.shape) == len(y.shape) == 4, "rank 4 expected")
    must(len(words) == 1 + step * sum(y.shape[1:3]), "wrong number of indices")
    split = 1 + step * y.shape[1]
    for axis, part in ((1, words[1:split]), (2, words[split:])):
        inside = all(i < x.shape[axis] for n in range(min(2, step)) for i in part[n::step])
        must(inside, "an index is outside the input")


RESIZE = Kind(11, "resize", _check_resize, words=None, same_type=True)


def _resize_words(op: graph.ResizeOp) -> list[int]:
    # 1 if linear. Then an index for each row and column of the result; if linear, two and a weight.
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
            words += [first, second, float_word(weight)]
    return words


record_as(RESIZE, graph.ResizeOp, _resize_words)
