"""Resizing of images by lists of indices: whatever could be decided at run time is decided here."""

from ceras_ir.backends.nnet.encoding import float_word, record_as
from ceras_ir.backends.nnet.file import Case, Kind
from ceras_ir.dialects import graph
from ceras_ir.interpreters.resampling import linear_weights, nearest_indices


def _check(case: Case) -> None:
    x, y, words, must = case.operands[0], case.result, case.words, case.must
    step = 3 if words and words[0] == 1 else 1
    must(bool(words) and words[0] <= 1, "unknown attribute")
    must(len(x.shape) == len(y.shape) == 4, "rank 4 expected")
    must(len(words) == 1 + step * sum(y.shape[1:3]), "wrong number of indices")
    split = 1 + step * y.shape[1]
    for axis, part in ((1, words[1:split]), (2, words[split:])):
        inside = all(i < x.shape[axis] for n in range(min(2, step)) for i in part[n::step])
        must(inside, "an index lies outside its input")


RESIZE = Kind(11, "resize", _check, words=None, same_type=True)


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
            words += [first, second, float_word(weight)]
    return words


record_as(RESIZE, graph.ResizeOp, resize_words)
