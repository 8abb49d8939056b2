"""Recognize ReLU and leaky ReLU, which exporters spell with maxima, selections and masks."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Compare, Function
from ceras_ir.transforms.graph.one_function import replace_by_function
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.rebuilding import erase_dead

Slopes: TypeAlias = tuple[float, float]
"""Of a function that is one line below zero and another above: the factors of `x`."""

NEAR = 2.0**-20
"""Relative; how far a factor may be off 1."""
MOST_TERMS = 12
"""Operations that are looked at for one function."""

SIGNS = {Binary.SUB: -1.0, Binary.ADD: 1.0}
COMBINED = frozenset({*SIGNS, Binary.MUL, Binary.MAX, Binary.MIN})


@dataclass(frozen=True)
class FuseReluPass(NetworkPass):
    """
    Replace what computes `x` above zero, and a multiple of `x` below, by one function: relu where
    that is zero, else leaky_relu.

    Sums, differences, maxima and minima of multiples of `x`, of their clips at zero and of their
    absolute values are such functions, and so are selections and masks by the sign of `x`:
    `max(x, 0.1 * x)`, `where(x > 0, x, 0)`, `x * cast(x > 0)`, `(x + abs(x)) / 2`. A leaky_relu of
    slope 0 is one, too.

    Off by the rounding of factors; zeros may have another sign. Infinities that `x * 0` makes no
    numbers of stay.
    """

    name = "fuse-relu"

    def change(self, main: FuncOp) -> None:
        block = main.body.block
        for inner in list(block.ops):
            if isinstance(inner, graph.GraphOperation) and _is_part(inner):
                _fuse(inner)
        erase_dead(block)


def _fuse(op: graph.GraphOperation) -> None:
    for argument in _arguments(op):
        if argument.type != op.output.type:
            continue
        slopes = _slopes(op.output, argument, [MOST_TERMS])
        if slopes is None or abs(slopes[1] - 1.0) > NEAR:
            continue
        below = slopes[0]
        if below == 1.0:
            return
        function = graph.FunctionAttr(Function.LEAKY_RELU, [below])
        if below == 0.0:
            function = graph.FunctionAttr(Function.RELU)
        if isinstance(op, graph.UnaryOp) and op.function == function:
            return
        replace_by_function(op, argument, function)
        return


def _is_part(op: Operation) -> bool:
    """Whether an operation may make a function of two lines of others, or of its operand."""
    match op:
        case graph.BinaryOp():
            is_float = op.activation is None and graph.element_of(op.result) == f32
            return is_float and op.function in COMBINED
        case graph.UnaryOp():
            return op.function.affine is None and op.channel_exponents is None
        case graph.SelectOp():
            return graph.element_of(op.result) == f32
        case _:
            return False


def _arguments(op: graph.GraphOperation) -> Iterator[SSAValue]:
    """What `op` may be a function of, the nearest first."""
    left, seen = list(op.operands), set[SSAValue]()
    while left and len(seen) < MOST_TERMS:
        value = left.pop(0)
        if value in seen or isinstance(value.owner, graph.ConstantOp):
            continue
        seen.add(value)
        yield value
        if isinstance(value.owner, graph.CompareOp | graph.CastOp) or (
            isinstance(value.owner, Operation) and _is_part(value.owner)
        ):
            left += value.owner.operands


def _slopes(value: SSAValue, argument: SSAValue, left: list[int]) -> Slopes | None:
    """The slopes of `value` below and above zero of `argument`; None if it is something else."""
    left[0] -= 1
    if value is argument:
        return 1.0, 1.0
    op = value.owner
    if graph.constant_number(value) == 0.0:
        return 0.0, 0.0
    if not isinstance(op, Operation) or not _is_part(op) or left[0] < 0:
        return None
    match op:
        case graph.UnaryOp():
            inner = _slopes(op.input, argument, left)
            return None if inner is None else _applied(op.function, inner)
        case graph.SelectOp():
            pair = [_slopes(v, argument, left) for v in (op.lhs, op.rhs)]
            is_above = _is_above(op.condition, argument)
            if pair[0] is None or pair[1] is None or is_above is None:
                return None
            above, below = pair if is_above else reversed(pair)
            assert above is not None and below is not None
            return below[0], above[1]
        case graph.BinaryOp(function=Binary.MUL):
            return _product(op, argument, left)
        case graph.BinaryOp():
            lhs = _slopes(op.lhs, argument, left)
            rhs = None if lhs is None else _slopes(op.rhs, argument, left)
            return None if lhs is None or rhs is None else _combined(op.function, lhs, rhs)
        case _:
            return None


def _product(op: graph.BinaryOp, argument: SSAValue, left: list[int]) -> Slopes | None:
    """A multiple, or what a mask of ones and zeros leaves."""
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        factors: Slopes | None = None
        if (number := graph.constant_number(other)) is not None:
            factors = number, number
        elif isinstance(cast := other.owner, graph.CastOp):
            is_above = _is_above(cast.input, argument)
            factors = None if is_above is None else (float(not is_above), float(is_above))
        if factors is not None:
            inner = _slopes(value, argument, left)
            return None if inner is None else (inner[0] * factors[0], inner[1] * factors[1])
    return None


def _is_above(condition: SSAValue, argument: SSAValue) -> bool | None:
    """Whether a condition says that `argument` is above zero, or below; None for another."""
    op = condition.owner
    if not isinstance(op, graph.CompareOp) or op.function is Compare.EQUAL:
        return None
    if op.lhs is argument and graph.constant_number(op.rhs) == 0.0:
        return False
    return True if op.rhs is argument and graph.constant_number(op.lhs) == 0.0 else None


def _applied(function: graph.FunctionAttr, slopes: Slopes) -> Slopes | None:
    below, above = slopes
    positive = (min(below, 0.0), max(above, 0.0))
    negative = (max(below, 0.0), min(above, 0.0))
    match function.kind, function.values:
        case (Function.RELU, _) | (Function.THRESHOLDED_RELU, (0.0,)):
            factors = (1.0, 0.0)
        case Function.CLIP, (low, high) if low == -inf and high == 0.0:
            factors = (0.0, 1.0)
        case Function.CLIP, (low, high) if low == 0.0 and high == inf:
            factors = (1.0, 0.0)
        case Function.LEAKY_RELU, (alpha,):
            factors = (1.0, alpha)
        case Function.ABS, _:
            factors = (1.0, -1.0)
        case _:
            return None
    pairs = zip(positive, negative, strict=True)
    first, second = (p * factors[0] + n * factors[1] for p, n in pairs)
    return first, second


def _combined(function: Binary, a: Slopes, b: Slopes) -> Slopes:
    if (sign := SIGNS.get(function)) is not None:
        return a[0] + sign * b[0], a[1] + sign * b[1]
    # Below zero the least slope makes the greatest number.
    if function is Binary.MAX:
        return min(a[0], b[0]), max(a[1], b[1])
    return max(a[0], b[0]), min(a[1], b[1])
