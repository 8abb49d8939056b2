"""
Which operands of concatenations to write where they end up.

A slice is alive from its first operand to the last reader of the whole, which can be longer
than the values that it saves. So of all that could be slices those are chosen that save most
copying without more memory than the network needs when everything is copied, the largest first
and not all of them in a network of thousands of operations.
"""

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import ConcatOp
from ceras_ir.targets.capabilities import GapRule
from ceras_ir.transforms.memory.analysis.liveness import Liveness, analyse, byte_size, steps
from ceras_ir.transforms.memory.analysis.slices import Slicing, slices

Pair: TypeAlias = tuple[Operation, SSAValue]
ROUNDS = 2

EFFORT = 200_000
"""About how many operations are looked at in all tries: a few seconds."""


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
    wanted: frozenset[Pair] = frozenset()
    order = steps(main)
    tries = EFFORT // max(len(order), 1)

    def add(pairs: Sequence[Pair]) -> list[Pair]:
        """Take those of `pairs` that need no more memory, many at a time; give back the rest."""
        nonlocal best, wanted, tries
        if not tries:
            return [*pairs]
        tries -= 1
        if (found := tried(Slicing(rule, wanted | frozenset(pairs)))) is not None:
            best, wanted = found, wanted | frozenset(pairs)
            return []
        if len(pairs) == 1:
            return [*pairs]
        middle = len(pairs) // 2
        return [*add(pairs[:middle]), *add(pairs[middle:])]

    rest: list[Pair] = [
        (op, part.operand) for op in order if isinstance(op, ConcatOp) for part in slices(op)
    ]
    rest.sort(key=lambda pair: -byte_size(pair[1]))
    # What was too much alone may be free beside others.
    for _ in range(ROUNDS):
        if rest:
            rest = add(rest)
    return best, plain
