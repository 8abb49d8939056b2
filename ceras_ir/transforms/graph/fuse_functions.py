"""
Replace operations that compute an activation by the activation: the pass `fuse-functions`.

The results are compared, not the operations, because exporters write functions in different ways.
The pass `swish-to-hard-swish` replaces an activation by an approximation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import is_side_effect_free

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function
from ceras_ir.network.storage import copy_statistics, drop_statistics
from ceras_ir.support.diagnostics import fused_location, remark
from ceras_ir.transforms.graph.formulas import FORMULAS, Doubles
from ceras_ir.transforms.graph.point_values import POINTS, PointValues
from ceras_ir.transforms.graph.row_rules import NormalizationRule, SoftmaxRule
from ceras_ir.transforms.pass_kinds import NetworkPass, RulePass
from ceras_ir.transforms.rebuilding import computed_between, erase_dead

if TYPE_CHECKING:
    from ceras_ir.transforms.graph.function_equality import FunctionEquality

Match: TypeAlias = tuple[SSAValue, graph.FunctionAttr]
"""The argument of a function and the function."""

CANDIDATE_TOLERANCE = 2.0**-20
"""Difference from a candidate, as a multiple of `1 + abs(x)`; `FunctionEquality` decides."""
TOLERANCES = CANDIDATE_TOLERANCE * (1.0 + np.abs(POINTS))
PROBE = int(np.searchsorted(POINTS, 1.5))
"""The index of a positive point."""

PARAMETERLESS = (
    *(Function.RELU, Function.SIGMOID, Function.TANH, Function.SWISH, Function.HARD_SWISH),
    *(Function.SOFTPLUS, Function.SOFTSIGN, Function.MISH, Function.GELU, Function.GELU_TANH),
)
"""Activations without parameters that are recognized."""


def _candidate(kind: Function, *parameters: float) -> tuple[Function, tuple[float, ...], Doubles]:
    return kind, parameters, FORMULAS[kind](POINTS, parameters)


CANDIDATES = (*map(_candidate, PARAMETERLESS), _candidate(Function.HARD_SIGMOID, 1 / 6, 0.5))
"""Functions, parameters and the results at `POINTS`."""
AT_PROBE = sorted([POINTS.item(PROBE), *(expected.item(PROBE) for _, _, expected in CANDIDATES)])
"""The results at the probe; functions with a slope return the argument."""

CHEAP_FUNCTIONS = (
    *(Function.RELU, Function.CLIP, Function.LEAKY_RELU, Function.ABS),
    *(Function.HARD_SIGMOID, Function.HARD_SWISH),
)
"""Functions that cost no more than a clip."""


@dataclass(frozen=True)
class ElementwiseRule(NetworkPass):
    """
    Replace elementwise operations on a value by the activation function that they compute.

    The functions are relu, leaky_relu, sigmoid, tanh, swish, hard_sigmoid, hard_swish, gelu,
    gelu_tanh, elu, mish, softplus and softsign. Exporters write them in different ways: `1 / (1 +
    exp(-x))`, `max(x, 0.1 * x)`, `where(x > 0, x, exp(x) - 1)`, `x * (erf(x / sqrt 2) + 1) * 0.5`,
    `x * clip(x + 3, 0, 6) / 6`. The pass therefore compares the results, not the operations.

    The operations remain in two cases:

    1. Another operation uses an inner function that costs more than a clip, such as the sigmoid of
       a swish. The function would otherwise be computed twice.
    2. A clip has a scaled and shifted argument. The preceding layer can absorb the scale.

    The replacement equals the operations for each consumer: over the reals to a relative 2^-40 in
    each binade, with equal infinities, NaN and, before a quotient, signs of zeros. `max(x, 1e-7)`
    and `relu(x) + 1e-12` therefore remain, which keep a logarithm or a quotient finite. Float32
    results differ by the rounding of the parts; `x * sigmoid(x)` is exact.

    Before:

        %a = graph.unary <sigmoid> %x : tensor<1x4xf32>
        %y = graph.binary mul %x, %a : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>

    After:

        %y = graph.unary <swish> %x : tensor<1x4xf32>
    """

    name = "elementwise"

    def change(self, main: FuncOp) -> None:
        block = main.body.block
        ops = list(block.ops)
        values, equality = PointValues(_candidates), cache(partial(_equality, main))
        found = {op: match for op in ops if (match := _match(op, values, equality)) is not None}
        while computed_twice := _computed_twice(ops, found):
            for op in computed_twice:
                del found[op]
        # In reverse order, because arguments are replaced too.
        for op, (argument, function) in reversed(found.items()):
            _replace(op, argument, function)
        erase_dead(block)


def _equality(main: FuncOp) -> FunctionEquality:
    # Few networks need it, and importing it takes time.
    from ceras_ir.transforms.graph.function_equality import FunctionEquality

    return FunctionEquality(main)


def _match(
    op: Operation,
    values: PointValues[Sequence[graph.FunctionAttr]],
    equality: Callable[[], FunctionEquality],
) -> Match | None:
    if not isinstance(op, graph.BinaryOp | graph.UnaryOp | graph.SelectOp):
        return None
    if not values.is_part(op):
        return None
    kind = op.function.data if isinstance(op, graph.UnaryOp) else None
    output = op.output
    for argument in values.arguments(op):
        if argument.type != output.type:
            continue
        for function in values.derived(output, argument) or ():
            if op.operands[0] is argument and kind is function.data:
                continue
            if kind is Function.CLIP and function.data is Function.HARD_SIGMOID:
                continue
            if equality().computes(output, argument, function):
                return argument, function
    return None


def _computed_twice(ops: Sequence[Operation], found: Mapping[Operation, Match]) -> list[Operation]:
    # Matches with an inner function that remains for another consumer.
    live = set[Operation]()
    for op in reversed(ops):
        if not op.results or not is_side_effect_free(op):
            live.add(op)
        if op in live:
            operands = op.operands if op not in found else (found[op][0],)
            live.update(v.owner for v in operands if isinstance(v.owner, Operation))
    costly = {op for op in live if _function_of(op, found) not in (None, *CHEAP_FUNCTIONS)}
    return [op for op in found if op in live and not costly.isdisjoint(_inside(op, found[op][0]))]


def _function_of(op: Operation, found: Mapping[Operation, Match]) -> Function | None:
    if op in found:
        return found[op][1].data
    return op.function.data if isinstance(op, graph.UnaryOp) else None


def _inside(op: Operation, argument: SSAValue) -> list[Operation]:
    # The operations between `argument` and `op`.
    inside = [op]
    for each in inside:
        for value in each.operands:
            owner = value.owner
            if value is not argument and isinstance(owner, Operation) and owner not in inside:
                inside.append(owner)
    return inside[1:]


def _replace(op: Operation, argument: SSAValue, function: graph.FunctionAttr) -> None:
    new = graph.UnaryOp(argument, function)
    new.location = fused_location(op, *computed_between(op, argument))
    copy_statistics(op, new)
    Rewriter.insert_op(new, InsertPoint.before(op))
    new.result.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(new.result)


def _candidates(values: Doubles) -> Sequence[graph.FunctionAttr]:
    # Few functions are near a candidate at the probe.
    at_probe, tolerance = values.item(PROBE), 2 * TOLERANCES.item(PROBE)
    near = bisect_left(AT_PROBE, at_probe - tolerance)
    if near == len(AT_PROBE) or not AT_PROBE[near] <= at_probe + tolerance:
        return ()
    if not np.isfinite(values).all():
        return ()
    candidates = list(CANDIDATES)
    first = values.item(0)
    if first < 0.0:
        candidates.append(_candidate(Function.ELU, -first))
    # A slope of 1 is the identity.
    if (slope := first / POINTS.item(0)) > 0.0 and abs(slope - 1.0) > CANDIDATE_TOLERANCE:
        candidates.append(_candidate(Function.LEAKY_RELU, slope))
    return [
        graph.FunctionAttr(kind, parameters)
        for kind, parameters, expected in candidates
        if (np.abs(values - expected) <= TOLERANCES).all()
    ]


@dataclass(frozen=True)
class FuseFunctionsPass(RulePass):
    """
    Replace operations that compute a function by the operation of that function.

    Exporters write functions in different ways. The rules compare results, not operations.
    """

    name = "fuse-functions"

    def table(self) -> tuple[ModulePass, ...]:
        return ElementwiseRule(), SoftmaxRule(), NormalizationRule()


MAX_HARD_SWISH_ERROR = 0.142
"""The maximum of `|swish(x) - hard_swish(x)|`: `3 / (1 + e^3)`, at x = -3 and x = 3."""


@dataclass(frozen=True)
class SwishToHardSwishPass(ModulePass):
    """
    Replace each swish, separate or fused, by hard_swish (paper S1, section 3.1.3).

    Not exact: a value can change by 0.142 (`3 / (1 + e^3)`, at x = -3 and x = 3). A network that
    was not trained with hard_swish can lose accuracy. Therefore no pipeline runs the pass by
    default, and stderr reports the replacements. Recorded ranges are removed, because they are no
    longer valid.

    Before:

        %y = graph.unary <swish> %x : tensor<1x4xf32>

    After:

        %y = graph.unary <hard_swish> %x : tensor<1x4xf32>
    """

    name = "swish-to-hard-swish"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if replaced := replace_swish(op):
            remark(
                f"{self.name}: warning: {replaced} swish became hard_swish, each off by up to "
                f"{MAX_HARD_SWISH_ERROR}; measure the accuracy, the network may need retraining"
            )


def replace_swish(module: ModuleOp) -> int:
    """
    Replace each swish, separate or in an output stage, by hard_swish. Remove the ranges of
    calibration, which are no longer valid. Return the number of replacements.
    """
    replaced = sum(_approximate(inner) for inner in module.walk())
    if replaced:
        for inner in module.walk():
            drop_statistics(inner)
    return replaced


def _approximate(op: Operation) -> bool:
    match op:
        case graph.UnaryOp(function=swish) if swish.data is graph.Function.SWISH:
            op.function = graph.FunctionAttr(graph.Function.HARD_SWISH, affine=swish.affine)
        case graph.LinearOperation() | graph.BinaryOp() if (
            swish := op.activation
        ) is not None and swish.data is graph.Function.SWISH:
            op.activation = graph.FunctionAttr(graph.Function.HARD_SWISH, affine=swish.affine)
        case _:
            return False
    return True
