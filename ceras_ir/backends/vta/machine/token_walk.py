"""
One walk over the instructions of a stream that runs nothing but their dependence tokens.

It gives an order that the tokens allow, and the happens-before relation as vector clocks, on which
all checks of `check` rest.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from ceras_ir.backends.vta.machine.isa import (
    QUEUE_LENGTH,
    TOKEN_LIMIT,
    Finish,
    Instruction,
    Module,
    TokenQueue,
    describe,
    module_of,
    tokens_given,
    tokens_taken,
)

Clock = tuple[int, int, int]


@dataclass(frozen=True)
class StreamFinding:
    """An instruction that is wrong, and the reason."""

    index: int
    """Position in the stream."""
    rule: str
    """`tokens`, `finish`, `hazard`, `range`, `uninitialised` or `portable`."""
    message: str

    def __str__(self) -> str:
        return f"instruction {self.index}: {self.rule}: {self.message}"


@dataclass
class TokenWalk:
    """What must have happened before each instruction, by the tokens of the stream."""

    sequence: list[int] = field(default_factory=list[int])
    """Instructions in one order that the tokens allow."""
    clocks: dict[int, Clock] = field(default_factory=dict[int, Clock])
    """How many instructions of each module are surely done when this one is."""
    positions: dict[int, int] = field(default_factory=dict[int, int])
    """Which instruction of its module it is, from 1."""
    members: list[list[int]] = field(default_factory=lambda: [[], [], []])
    """The instructions of each module."""
    findings: list[StreamFinding] = field(default_factory=list[StreamFinding])
    """What is wrong with the tokens."""


def walk(stream: Sequence[Instruction]) -> TokenWalk:
    """
    Run the tokens of `stream`. Fetch hands instructions out in order to three queues of bounded
    length; each module takes from its queue. Which module goes first makes no difference to what is
    waited for, so one run gives the happens-before relation, as vector clocks.
    """
    order = TokenWalk()
    findings = order.findings
    queues = [deque[int]() for _ in Module]
    tokens: dict[TokenQueue, deque[Clock]] = {q: deque() for q in ((0, 1), (1, 0), (1, 2), (2, 1))}
    gives_at: dict[TokenQueue, list[int]] = {q: [] for q in tokens}
    takes_at: dict[TokenQueue, list[int]] = {q: [] for q in tokens}
    now: list[Clock] = [(0, 0, 0)] * 3
    modules = [module_of(i) for i in stream]
    fetched, progress = 0, True
    while progress:
        progress = False
        while fetched < len(stream) and len(queues[modules[fetched]]) < QUEUE_LENGTH:
            queues[modules[fetched]].append(fetched)
            fetched += 1
            progress = True
        for module in Module:
            queue = queues[module]
            while queue:
                takes, gives = tokens_taken(stream[queue[0]]), tokens_given(stream[queue[0]])
                if not all(tokens[q] for q in takes):
                    break
                index = queue.popleft()
                members = order.members[module]
                members.append(index)
                clock = list(now[module])
                for q in takes:
                    clock = [max(a, b) for a, b in zip(clock, tokens[q].popleft(), strict=True)]
                    takes_at[q].append(len(members))
                clock[module] = order.positions[index] = len(members)
                now[module] = order.clocks[index] = (clock[0], clock[1], clock[2])
                order.sequence.append(index)
                for q in gives:
                    tokens[q].append(now[module])
                    gives_at[q].append(index)
                progress = True

    for queue in queues:
        if queue:
            name = describe(stream[queue[0]])
            findings.append(
                StreamFinding(queue[0], "tokens", f"{name} waits for a token that never comes")
            )
    if fetched < len(stream):
        findings.append(
            StreamFinding(
                fetched, "tokens", f"cannot be fetched: a queue of {QUEUE_LENGTH} is full"
            )
        )
    for q, left in tokens.items():
        names = f"{Module(q[0]).name.lower()} to {Module(q[1]).name.lower()}"
        if left:
            findings.append(
                StreamFinding(gives_at[q][-1], "tokens", f"{len(left)} tokens {names} never taken")
            )
        for count, index in enumerate(gives_at[q], 1):
            taken = bisect_right(takes_at[q], order.clocks[index][q[1]])
            if count - taken > TOKEN_LIMIT:
                message = f"{count - taken} tokens {names} outstanding, at most {TOKEN_LIMIT}"
                findings.append(StreamFinding(index, "tokens", message))
                break
    findings += _check_finish(stream, order)
    return order


def _check_finish(stream: Sequence[Instruction], order: TokenWalk) -> list[StreamFinding]:
    """There is one finish, the last instruction, and all else is done before."""
    at = [k for k, i in enumerate(stream) if isinstance(i, Finish)]
    if at != [len(stream) - 1]:
        index = at[0] if at else len(stream) - 1
        return [StreamFinding(index, "finish", "a stream ends with its only finish")]
    if (clock := order.clocks.get(at[0])) is None:
        return []
    return [
        StreamFinding(members[known], "finish", "may still run when the stream finishes")
        for members, known in zip(order.members, clock, strict=True)
        if known < len(members)
    ]
