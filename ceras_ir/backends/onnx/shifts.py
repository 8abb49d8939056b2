"""
Shifts of unsigned integers, which the importer makes products and quotients with powers of two.

ONNX has an operator for the shift, and none for a power of these integers: the power itself is
written only where something else reads it, for which ONNX has no form.
"""

from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary

DIRECTIONS = {Binary.MUL: "LEFT", Binary.DIV: "RIGHT"}


class Shift(NamedTuple):
    """The operands of a `BitShift`."""

    value: SSAValue
    places: SSAValue
    direction: str


def shift_of(op: Operation) -> Shift | None:
    """The shift that a product or a quotient of integers is."""
    if not isinstance(op, graph.BinaryOp) or op.function not in DIRECTIONS:
        return None
    power = op.rhs.owner
    if not isinstance(power, graph.BinaryOp) or not _is_power_of_two(power):
        return None
    return Shift(op.lhs, power.rhs, DIRECTIONS[op.function])


def is_count_of_shifts(op: graph.BinaryOp) -> bool:
    """Whether shifts alone read a power of two, each of which says it by its exponent."""
    return _is_power_of_two(op) and all(
        use.index == 1 and shift_of(use.operation) is not None for use in op.result.uses
    )


def _is_power_of_two(op: graph.BinaryOp) -> bool:
    if op.function is not Binary.POW or not graph.is_plain(op.result):
        return False
    base, dtype = graph.constant_array(op.lhs), graph.numpy_dtype(graph.element_of(op.result))
    return dtype.kind == "u" and base is not None and bool(np.all(base == 2))
