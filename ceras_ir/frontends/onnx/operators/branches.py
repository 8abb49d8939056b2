"""
Import If: the operations of both branches are added to the list of operations of the network.

If only the chosen branch may be computed, the branches are functions that the network calls.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeVar

import numpy as np
from xdsl.ir import Block, Operation

from ceras_ir.dialects.graph import Binary, CallingOperation, LinearOperation, RecurrenceOp
from ceras_ir.frontends.onnx.emission.builder import Branches, emit_branch
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator
from ceras_ir.frontends.onnx.emission.values import Constant, Value, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.model.node import (
    MalformedError,
    Node,
    as_unsupported,
    fix_with_set,
    in_branch,
)
from ceras_ir.support.diagnostics import InputError, UnsupportedError

V = TypeVar("V", bound=Value)

BRANCH_ATTRIBUTES = {"then": "then_branch", "else": "else_branch"}


@operator("If")
def if_(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import If. With a constant condition, emit only the chosen branch. Otherwise emit both branches,
    of which the results must have equal shapes and types, and select each result. If a branch has a
    loop that is not unrolled, or the node is in such a loop, only the chosen branch is computed at
    run time.
    """
    condition = known_condition(emitter, emitter.value(0))
    node.ignore(*BRANCH_ATTRIBUTES.values())
    if isinstance(condition, bool):
        return emitter.subgraph(BRANCH_ATTRIBUTES["then" if condition else "else"], {})
    if emitter.is_in_loop_body or node.has_loops():
        return _called(node, emitter, condition)
    then, other = (_attempt(emitter, name, lambda value: value) for name in BRANCH_ATTRIBUTES)
    branches = results_of_both(node, then, other)
    return [selected(emitter, condition, a, b) for a, b in zip(*branches, strict=True)]


def _attempt(
    emitter: Emitter, branch: str, convert: Callable[[Value], V]
) -> Sequence[V] | InputError:
    """
    Emit a branch (`then` or `else`), and return the results after `convert`. Return the error if
    the branch cannot be imported with these shapes and values.
    """
    try:
        return [convert(value) for value in emitter.subgraph(BRANCH_ATTRIBUTES[branch], {})]
    except MalformedError:
        raise
    except InputError as error:
        if not error.findings:
            raise
        return error


def _called(node: Node, emitter: Emitter, condition: Value) -> Sequence[Value]:
    """
    Emit a call that computes only the chosen branch, if a branch is costly; otherwise emit both
    branches and select the results. A branch is costly if it has a loop. Inside of a loop, a
    convolution, product or recurrent layer is costly too. Outside of loops, these are computed in
    both branches, so that they can be quantized and run on all targets.
    """
    costly = (CallingOperation, LinearOperation, RecurrenceOp)
    kinds = costly if emitter.is_in_loop_body else (CallingOperation,)
    outer, branches = emitter.block, None
    with emitter.trial() as first:
        then = _attempt(emitter, "then", emitter.materialize)
        with emitter.trial() as second:
            a, b = results_of_both(node, then, _attempt(emitter, "else", emitter.materialize))
            for x, y in zip(a, b, strict=True):
                check_equal_types(emitter, x, y)
            ops = [*first.ops, *second.ops]
            if any(isinstance(op, kinds) for op in ops):
                branches = Branches.of((first, a), (second, b))
            else:
                move_operations(ops, outer)
    if branches is None:
        return [selected(emitter, condition, x, y) for x, y in zip(a, b, strict=True)]
    return emit_branch(emitter, emitter.materialize(emitter.reshaped(condition, ())), branches)


def move_operations(ops: Sequence[Operation], to: Block) -> None:
    """Move `ops`, which were emitted on trial into another block, to the end of the block `to`."""
    for op in ops:
        op.detach()
        to.add_op(op)


def known_condition(emitter: Emitter, value: Value) -> bool | Value:
    """
    Return a boolean condition as a Python bool if it is a constant, otherwise as a scalar value.
    Refuse a condition that is not a single boolean.
    """
    shape, dtype = shape_of_value(value), dtype_of_value(value)
    if prod(shape) != 1 or dtype != np.bool_:
        raise emitter.node.wrong(f"the condition must be a boolean, got {list(shape)} of {dtype}")
    if isinstance(value, Constant):
        return bool(value.load().reshape(-1)[0])
    return emitter.reshaped(value, ()) if len(shape) > 1 else value


def both(emitter: Emitter, a: bool | Value, b: bool | Value) -> bool | Value:
    """Return `a and b`: a Python bool if the constants determine it, otherwise an emitted value."""
    if a is False or b is False:
        return False
    if a is True or b is True:
        return b if a is True else a
    return emitter.binary(Binary.AND, emitter.reshaped(a, ()), emitter.reshaped(b, ()))


def selected(emitter: Emitter, condition: Value, a: Value, b: Value) -> Value:
    """
    Emit `a` if `condition` is true, else `b`. `condition` is a boolean scalar, so `a` or `b` is
    selected completely. Both values are computed at run time. Refuse values of different shapes or
    types.
    """
    if a is b:
        return a
    check_equal_types(emitter, a, b)
    return emitter.select(condition, a, b)


def check_equal_types(emitter: Emitter, a: Value, b: Value) -> None:
    """
    Raise an error if `a` and `b` have different shapes or types, since a condition that is computed
    at run time selects between them.
    """
    shapes, dtypes = zip(*((shape_of_value(v), dtype_of_value(v)) for v in (a, b)), strict=True)
    if shapes[0] == shapes[1] and dtypes[0] == dtypes[1]:
        return
    decided = emitter.node.deciding_inputs(0) if emitter.node.operator == "If" else ()
    raise emitter.node.unsupported(
        f"results of shapes {list(shapes[0])} and {list(shapes[1])} and of types {dtypes[0]} and "
        f"{dtypes[1]}, from which a computed condition selects; {fix_with_set(decided)}"
        f"{'' if decided else ', or export the model without the If'}"
    )


def results_of_both(
    node: Node, then: Sequence[V] | InputError, other: Sequence[V] | InputError
) -> tuple[Sequence[V], Sequence[V]]:
    """
    Return the results of both branches of an If. If a branch has an error, raise it, as
    `unsupported` if the other branch can be imported.
    """
    if not isinstance(then, InputError) and not isinstance(other, InputError):
        return then, other
    named = {"then": then, "else": other}
    errors = {name: e for name, e in named.items() if isinstance(e, InputError)}
    fine = next((name for name in named if name not in errors), "")
    found = [in_branch(f, node, name, fine) for name, e in errors.items() for f in e.findings]
    if fine or any(isinstance(e, UnsupportedError) for e in errors.values()):
        raise UnsupportedError([as_unsupported(finding) for finding in found])
    raise InputError(found)
