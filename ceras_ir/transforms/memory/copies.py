"""
Bytes that are only moved from one place to another, and how many of them no plan could save.

A concatenation moves the operands that are not written where they end up, a reshape one that
lies elsewhere, and data changes layout at the border of an accelerator of its own memory
(`mem.pack`, `mem.unpack`). Both sides of nnet share one memory: what changes sides is not moved.

The second part chooses which operands of concatenations to write where they end up. A slice is
alive from its first operand to the last reader of the whole, which can be longer than the values
that it saves. So of all that could be slices those are chosen that save most copying without more
memory than the network needs when everything is copied, the largest first and not all of them in a
network of thousands of operations.
"""

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects.graph import ConcatOp, ConstantOp
from ceras_ir.dialects.graph.attributes import ConvertsLayout, viewed_operand
from ceras_ir.dialects.mem import (
    block_of,
)
from ceras_ir.targets.capabilities import GapRule
from ceras_ir.transforms.memory.liveness import (
    Liveness,
    analyse,
    byte_size,
    steps,
)
from ceras_ir.transforms.memory.slices import (
    Slicing,
    operand_in_place,
    slices,
)


def copied_bytes(main: FuncOp) -> int:
    """Bytes that the plan of `main` moves."""
    return sum(map(bytes_copied_by, steps(main)))


def bytes_copied_by(op: Operation) -> int:
    """Bytes that an operation of a finished plan moves without computing anything."""
    if isinstance(op, ConcatOp):
        there = {part.operand for part in slices(op) if operand_in_place(op, part)}
        return sum(byte_size(v) for v in op.operands if v not in there)
    if (source := viewed_operand(op)) is not None:
        old, new = block_of(source), block_of(op.results[0])
        here = (
            old is not None
            and new is not None
            and (old.region, old.offset) == (new.region, new.offset)
        )
        return 0 if here else byte_size(op.results[0])
    return byte_size(op.results[0]) if _crosses(op) else 0


def _crosses(op: Operation) -> bool:
    return op.has_trait(ConvertsLayout, value_if_unregistered=False)


def fewest_copied_bytes(main: FuncOp) -> int:
    """
    Bytes that every plan moves, if producers could write rows of any distance: an operand that a
    concatenation has twice, or that nobody in the network makes, or that is in two of them,
    unless all of the first is, in its order, a part of the second.
    """
    total = 0
    placed: dict[SSAValue, list[SSAValue]] = {}
    for op in steps(main):
        if _crosses(op):
            total += byte_size(op.results[0])
        if not isinstance(op, ConcatOp):
            continue
        own, seen = list(op.operands), set[SSAValue]()
        for operand in own:
            before = placed.get(operand)
            is_free = before is None or _is_run(before, own)
            if operand in seen or not is_free or not _is_made(operand):
                total += byte_size(operand)
            seen.add(operand)
        placed |= {operand: own for operand in own if _is_run(placed.get(operand, []), own)}
    return total


def _is_run(part: list[SSAValue], whole: list[SSAValue]) -> bool:
    """Whether all of `part` is in `whole`, side by side and in its order."""
    starts = range(len(whole) - len(part) + 1)
    return any(all(a is b for a, b in zip(part, whole[i:], strict=False)) for i in starts)


def _is_made(value: SSAValue) -> bool:
    return not isinstance(value, BlockArgument) and not isinstance(value.owner, ConstantOp)


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
