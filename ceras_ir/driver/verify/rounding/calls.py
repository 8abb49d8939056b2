"""Rules of calls: the functions of the module are computed again, with bounds."""

from math import inf

import numpy as np

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.calls import packed_offsets
from ceras_ir.driver.verify.rounding.real import Doubles
from ceras_ir.driver.verify.rounding.rules import Applied, rule


@rule(graph.ExtractOp)
def _extract(op: graph.ExtractOp, at: Applied) -> Doubles:
    caller = op.input.owner
    assert isinstance(caller, graph.CallingOperation)
    index = packed_offsets(caller.packed_types).index(op.start)
    return at.evaluation.packed[op.input][index]


@rule(graph.BranchOp)
def _branch(op: graph.BranchOp, at: Applied) -> Doubles:
    taken, other = op.functions
    function = taken if at.operands[0].item() else other
    _, found = at.evaluation.call(function, (at.operands[1:], at.errors[1:]))
    at.evaluation.packed[op.output] = _known(found, unknown=bool(at.errors[0].any()))
    return at.nothing


@rule(graph.LoopOp)
def _loop(op: graph.LoopOp, at: Applied) -> Doubles:
    values, bounds = list(at.operands), list(at.errors)
    going = (values.pop(0), bounds.pop(0)) if op.going is not None else None
    first, last = len(op.carried), len(op.carried) + len(op.scanned)
    state, spread = values[:first], bounds[:first]
    (body,), steps = op.functions, op.step_count
    backwards = op.backwards.get_values()
    stacked = [np.zeros(kind.get_shape()) for kind in list(op.packed_types)[first:]]
    unknown = going is not None and bool(going[1].any())
    step = 0
    while step < steps and (going is None or going[0].item()) and not unknown:
        # Where a value that is backwards has its element, and where any other has.
        places = step, steps - 1 - step
        seen = [places[back] for back in backwards[: last - first]]
        elements = [np.asarray(v[i]) for v, i in zip(values[first:last], seen, strict=True)]
        errors = [np.asarray(e[i]) for e, i in zip(bounds[first:last], seen, strict=True)]
        number = np.array(step, np.int64)
        found, off = at.evaluation.call(
            body,
            (
                [number, *state, *elements, *values[last:]],
                [np.zeros(()), *spread, *errors, *bounds[last:]],
            ),
        )
        if going is not None:
            going = found.pop(0), off.pop(0)
            unknown = bool(going[1].any())
        state, spread = found[:first], off[:first]
        for whole, error, back in zip(stacked, off[first:], backwards[last - first :], strict=True):
            whole[places[back]] = error
        step += 1
    at.evaluation.packed[op.output] = _known([*spread, *stacked], unknown=unknown)
    return at.nothing


def _known(errors: list[Doubles], *, unknown: bool) -> list[Doubles]:
    return [np.full(error.shape, inf) for error in errors] if unknown else errors
