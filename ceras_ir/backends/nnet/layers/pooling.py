"""Pooling."""

from ceras_ir.backends.nnet.checks import check_window
from ceras_ir.backends.nnet.encoding import record_as, words_of
from ceras_ir.backends.nnet.file import Case, Kind, Layer
from ceras_ir.dialects import graph


def _is_average(layer: Layer) -> bool:
    return layer.attributes[0] == 1


def _check(case: Case) -> None:
    if case.layer.requant is None:
        case.keeps_type()
    check_window(case, case.words[3:11], case.words[1:3])
    case.must(case.operands[0].shape[3] == case.result.shape[3], "channels differ")


POOL2D = Kind(3, "pool2d", _check, words=12, requant=_is_average)


def _words(op: graph.Pool2dOp) -> list[int]:
    window = words_of(op.kernel, op.strides, op.padding, op.dilations)
    return [int(op.function is graph.Pool.AVERAGE), *window, int(op.includes_padding)]


record_as(POOL2D, graph.Pool2dOp, _words, lambda op: op.requant)
