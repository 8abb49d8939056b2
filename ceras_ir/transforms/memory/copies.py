"""
Count the bytes that a memory plan copies, and choose operands that need no copy.

A concatenation copies the operands that were not written at their positions in the result. A
reshape copies an operand at another address, and `mem.pack` and `mem.unpack` copy data at the
border of an accelerator with a separate memory. Both devices of nnet share a memory, so that a
change of the device copies no data.

A slice is live from the first operand to the last use of the result, which can cost more memory
than it saves. Among all possible slices, `choose_slices` selects the slices that save the most
copies without more memory than the network with all copies needs. It tries the largest first and
limits the number of attempts.
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
    Part,
    Steps,
    analyse,
    byte_size,
    steps,
)
from ceras_ir.transforms.memory.offsets import Span, max_live_bytes
from ceras_ir.transforms.memory.slices import (
    Slicing,
    operand_in_place,
    slices,
)


def copied_bytes(main: FuncOp) -> int:
    """
    Return the total bytes that the operations of `main` copy without computation, such as operands
    of concatenations, according to the memory plan.
    """
    return sum(map(bytes_copied_by, steps(main)))


def bytes_copied_by(op: Operation) -> int:
    """
    Return the bytes that `op` copies without computation, according to the memory plan of the
    function; 0 for operations that compute.
    """
    if isinstance(op, ConcatOp):
        in_place = {part.operand for part in slices(op) if operand_in_place(op, part)}
        return sum(byte_size(v) for v in op.operands if v not in in_place)
    if (source := viewed_operand(op)) is not None:
        old, new = block_of(source), block_of(op.results[0])
        is_copied = not old or not new or (old.region, old.offset) != (new.region, new.offset)
    else:
        is_copied = op.has_trait(ConvertsLayout, value_if_unregistered=False)
    return byte_size(op.results[0]) if is_copied else 0


def fewest_copied_bytes(main: FuncOp) -> int:
    """
    Return the bytes that each memory plan of `main` must copy, even if all kernels support gaps
    between rows. It is a lower bound, to judge a plan.

    These are the results of layout conversions, and some operands of concatenations: graph inputs,
    constants, an operand that occurs twice, and operands of an earlier concatenation. The last kind
    is not copied if all operands of the earlier concatenation are adjacent operands of the later,
    in the same order.
    """
    total = 0
    placed: dict[SSAValue, list[SSAValue]] = {}
    for op in steps(main):
        if op.has_trait(ConvertsLayout, value_if_unregistered=False):
            total += byte_size(op.results[0])
        if not isinstance(op, ConcatOp):
            continue
        operands, previous = list(op.operands), set[SSAValue]()
        for operand in operands:
            is_free = _is_run(placed.get(operand, []), operands)
            is_outside = isinstance(operand, BlockArgument) or isinstance(operand.owner, ConstantOp)
            if operand in previous or not is_free or is_outside:
                total += byte_size(operand)
            previous.add(operand)
        placed |= {v: operands for v in operands if _is_run(placed.get(v, []), operands)}
    return total


def _is_run(part: list[SSAValue], operands: list[SSAValue]) -> bool:
    starts = range(len(operands) - len(part) + 1)
    return any(all(a is b for a, b in zip(part, operands[i:], strict=False)) for i in starts)


OperandPair: TypeAlias = tuple[Operation, SSAValue]
MAX_ROUNDS = 2

MAX_OPERATIONS_TRIED = 200_000
"""The approximate number of operations in all attempts: a few seconds."""


def choose_slices(
    main: FuncOp, *, include_io: bool, alignment: int, rule: GapRule
) -> tuple[Liveness, Liveness]:
    """
    Return two results of the liveness analysis. In the first, as many operands of concatenations as
    possible are stored directly in the memory of the result, as long as the peak of live bytes does
    not rise. In the second, all operands are copied.

    `include_io` includes graph inputs and outputs, sizes are rounded up to multiples of `alignment`
    bytes, and `rule` specifies which kernels support gaps between rows.
    """
    known = Steps(main)
    plain = analyse(main, include_io=include_io, known=known)
    cap = plain.lower_bound(alignment)
    peaks = Peaks(main, plain, rule, alignment, include_io)

    def result(wanted: frozenset[OperandPair] | None) -> tuple[Liveness, Liveness]:
        slicing = Slicing(rule, wanted)
        return analyse(main, include_io=include_io, slicing=slicing, known=known), plain

    if peaks.of(None) <= cap:
        return result(None)
    chosen: frozenset[OperandPair] = frozenset()
    attempts = MAX_OPERATIONS_TRIED // known.end

    def add(pairs: Sequence[OperandPair]) -> list[OperandPair]:
        # Choose the pairs that need no more memory, by bisection; return the remaining pairs.
        nonlocal chosen, attempts
        if not attempts:
            return [*pairs]
        attempts -= 1
        if peaks.of(chosen | frozenset(pairs)) <= cap:
            chosen |= frozenset(pairs)
            return []
        if len(pairs) == 1:
            return [*pairs]
        middle = len(pairs) // 2
        return [*add(pairs[:middle]), *add(pairs[middle:])]

    rest: list[OperandPair] = [
        (op, part.operand) for op in known.order if isinstance(op, ConcatOp) for part in slices(op)
    ]
    rest.sort(key=lambda pair: -byte_size(pair[1]))
    # A slice that needed more memory by itself can be free together with the chosen slices.
    for _ in range(MAX_ROUNDS):
        if rest:
            rest = add(rest)
    return result(chosen)


class Peaks:
    """
    The peaks of live bytes of choices of slices. Only the parts of the network with a changed
    choice are analysed again.
    """

    def __init__(
        self, main: FuncOp, plain: Liveness, rule: GapRule, alignment: int, include_io: bool
    ) -> None:
        self.main, self.known, self.rule = main, plain.steps, rule
        self.alignment, self.include_io = alignment, include_io
        order = self.known.order
        self.parts = [
            part
            for part in self.known.parts
            if any(isinstance(order[step], ConcatOp) for step in part.steps)
        ]
        inside = {value for part in self.parts for value in part.values}
        self.fixed = [b.span for b in plain.buffers if inside.isdisjoint(b.values)]
        """The buffers without a choice."""
        self.spans: dict[tuple[Part, frozenset[OperandPair] | None], list[Span]] = {}

    def of(self, wanted: frozenset[OperandPair] | None) -> int:
        """Return the peak for the pairs `wanted`, or for all slices that are possible."""
        found = [*self.fixed]
        for part in self.parts:
            found += self._spans(part, wanted)
        return max_live_bytes(found, self.alignment)

    def _spans(self, part: Part, wanted: frozenset[OperandPair] | None) -> list[Span]:
        if wanted is not None:
            wanted = frozenset(pair for pair in wanted if pair[0].results[0] in part.values)
        if (part, wanted) not in self.spans:
            found = analyse(
                self.main,
                include_io=self.include_io,
                slicing=Slicing(self.rule, wanted),
                known=self.known,
                part=part,
            )
            self.spans[part, wanted] = found.spans
        return self.spans[part, wanted]
