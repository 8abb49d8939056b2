"""Recognize layer and root-mean-square normalization, which exporters spell as a dozen nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float32Type
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.ranges import copy_statistics
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.rebuilding import computed_between, erase_dead

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class FuseNormalizationPass(FloatNetworkPass):
    """
    Fuse mean, deviation, quotient, scale and offset of rows along the last dimension into
    `graph.normalize`.

    `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon)`, or without the means of `x`, with
    constant factors and addends for the channels behind it. Exact where squares are products and
    the quotient is a division; powers and reciprocals in their place differ in the last bits. A
    quantized network stays as it is.
    """

    name = "fuse-normalization"

    def change(self, main: FuncOp) -> None:
        block = main.body.block
        for inner in list(block.ops):
            if inner.parent is not None and isinstance(inner, graph.BinaryOp):
                _fuse(inner)
        erase_dead(block)


def _fuse(quotient: graph.BinaryOp) -> None:
    found = _normalized(quotient)
    if found is None:
        return
    source, epsilon, centred = found
    n = graph.shape_of(source)[-1]
    last: graph.BinaryOp = quotient
    scale, bias = np.ones(n, np.float32), None
    if (following := _channelwise(last, graph.Binary.MUL)) is not None:
        last, scale = following
    if (following := _channelwise(last, graph.Binary.ADD)) is not None:
        last, bias = following
    constants = [graph.ConstantOp.from_array(v) for v in (scale, bias) if v is not None]
    new = graph.NormalizeOp(
        source,
        constants[0].result,
        constants[1].result if bias is not None else None,
        epsilon=epsilon,
        centred=centred,
    )
    new.location = fused_location(last, *computed_between(last, source))
    for constant in constants:
        constant.location = new.location
    copy_statistics(last, new)
    Rewriter.insert_op([*constants, new], InsertPoint.before(last))
    new.result.name_hint = last.result.name_hint
    last.result.replace_all_uses_with(new.result)


def _normalized(op: graph.BinaryOp) -> tuple[SSAValue, float, bool] | None:
    """What a quotient normalizes, with which epsilon, and whether its mean is taken off."""
    if (quotient := _quotient(op)) is None:
        return None
    top, variance = quotient
    squares = _mean_of(variance[0])
    if squares is None or (rooted := _square_of(_rows(squares))) is None:
        return None
    if _rows(rooted) is not _rows(top) or graph.shape_of(top) != graph.shape_of(op.result):
        return None
    centre = top.owner
    if not isinstance(centre, graph.BinaryOp) or not _is_plain(centre, graph.Binary.SUB):
        return top, variance[1], False
    if _mean_of(centre.rhs) is centre.lhs:
        return centre.lhs, variance[1], True
    return top, variance[1], False


def _quotient(op: graph.BinaryOp) -> tuple[SSAValue, tuple[SSAValue, float]] | None:
    """What is divided by the root of a sum, or multiplied by its reciprocal, and the sum."""
    if _is_plain(op, graph.Binary.DIV) and (variance := _root_of_sum(op.rhs)) is not None:
        return op.lhs, variance
    if not _is_plain(op, graph.Binary.MUL):
        return None
    for top, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        inverse = other.owner
        if not isinstance(inverse, graph.BinaryOp) or not _is_plain(inverse, graph.Binary.DIV):
            continue
        variance = _root_of_sum(inverse.rhs)
        if graph.constant_number(inverse.lhs) == 1.0 and variance is not None:
            return top, variance
    return None


def _rows(value: SSAValue) -> SSAValue:
    """What a value is in another shape, of rows of the same length."""
    while isinstance(reshape := value.owner, graph.ReshapeOp):
        if graph.shape_of(reshape.input)[-1:] != graph.shape_of(value)[-1:]:
            break
        value = reshape.input
    return value


def _root_of_sum(value: SSAValue) -> tuple[SSAValue, float] | None:
    """`v` and the number where a value is `sqrt(v + number)`."""
    owner = value.owner
    if isinstance(owner, graph.UnaryOp) and owner.function.kind is graph.Function.SQRT:
        addition, function = owner.input.owner, None
    else:
        addition, function = owner, graph.Function.SQRT
    if not isinstance(addition, graph.BinaryOp) or addition.function is not graph.Binary.ADD:
        return None
    if (None if addition.activation is None else addition.activation.kind) is not function:
        return None
    for value, other in (addition.operands, reversed(addition.operands)):
        if (number := graph.constant_number(other)) is not None:
            return value, number
    return None


def _mean_of(value: SSAValue) -> SSAValue | None:
    """What a value is the mean of, along the last dimension."""
    owner = value.owner
    if not isinstance(owner, graph.BinaryOp) or not _is_plain(owner, graph.Binary.DIV):
        return None
    total = owner.lhs.owner
    if not isinstance(total, graph.ReduceOp) or total.function is not graph.Reduce.SUM:
        return None
    shape = graph.shape_of(total.input)
    is_last = list(total.axes.get_values()) == [len(shape) - 1]
    return total.input if is_last and graph.constant_number(owner.rhs) == shape[-1] else None


def _square_of(value: SSAValue) -> SSAValue | None:
    owner = value.owner
    if not isinstance(owner, graph.BinaryOp) or owner.activation is not None:
        return None
    if owner.function is graph.Binary.MUL and owner.lhs is owner.rhs:
        return owner.lhs
    is_square = owner.function is graph.Binary.POW and graph.constant_number(owner.rhs) == 2.0
    return owner.lhs if is_square else None


def _channelwise(
    op: graph.BinaryOp, function: graph.Binary
) -> tuple[graph.BinaryOp, Vector] | None:
    """The only reader, if it combines with a constant for each channel, and that constant."""
    if not op.result.has_one_use():
        return None
    reader: Operation = next(iter(op.result.uses)).operation
    if not isinstance(reader, graph.BinaryOp) or not _is_plain(reader, function):
        return None
    others: Sequence[SSAValue] = [v for v in reader.operands if v is not op.result]
    shape = graph.shape_of(op.result)
    if len(others) != 1 or graph.shape_of(reader.result) != shape:
        return None
    array = graph.constant_array(others[0])
    if array is None or array.size not in (1, shape[-1]):
        return None
    if array.size > 1 and array.shape[-1] != array.size:
        return None
    flat = array.reshape(-1).astype(np.float32)
    return reader, np.ascontiguousarray(np.broadcast_to(flat, shape[-1:]))


def _is_plain(op: graph.BinaryOp, function: graph.Binary) -> bool:
    is_float = isinstance(graph.element_of(op.result), Float32Type)
    return op.function is function and op.activation is None and is_float
