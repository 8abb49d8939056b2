"""
Which operands of concatenations to write where they end up.

A slice is alive from its first operand to the last reader of the whole, which can be longer
than the values that it saves. So of all that could be slices those are chosen that save most
copying without more memory than the network needs when everything is copied.
"""

from dataclasses import replace

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.analysis.liveness import Liveness, analyse, byte_size, steps
from ceras_ir.analysis.slices import GapRule, Slicing, slices
from ceras_ir.dialects.graph import ConcatOp


def choose_slices(
    main: FuncOp, *, include_io: bool, alignment: int, rule: GapRule
) -> tuple[Liveness, Liveness]:
    """Lifetimes with slices, no higher than without, and lifetimes without."""
    plain = analyse(main, include_io=include_io)
    cap = plain.lower_bound(alignment)

    def tried(slicing: Slicing) -> Liveness | None:
        found = analyse(main, include_io=include_io, slicing=slicing)
        return found if found.lower_bound(alignment) <= cap else None

    if (all_of_them := tried(Slicing(rule))) is not None:
        return all_of_them, plain
    best = analyse(main, include_io=include_io, slicing=Slicing(rule, frozenset()))
    wanted: frozenset[tuple[Operation, SSAValue]] = frozenset()
    candidates = [
        (op, part.operand) for op in steps(main) if isinstance(op, ConcatOp) for part in slices(op)
    ]
    candidates.sort(key=lambda pair: -byte_size(pair[1]))
    # What was too much alone may be free beside others: until a round finds nothing.
    while candidates:
        rest: list[tuple[ConcatOp, SSAValue]] = []
        for pair in candidates:
            more = replace(Slicing(rule), wanted=wanted | {pair})
            if (found := tried(more)) is None:
                rest.append(pair)
            else:
                best, wanted = found, wanted | {pair}
        if len(rest) == len(candidates):
            break
        candidates = rest
    return best, plain
