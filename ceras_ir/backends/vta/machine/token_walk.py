"""
Execute the dependence tokens of an instruction stream of VTA, without the instructions.

The result is an order that the tokens allow, and the happens-before relation as vector clocks, on
which all checks of `check` are based.
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
    tokens_popped,
    tokens_pushed,
)

Clock = tuple[int, int, int]


@dataclass(frozen=True)
class StreamFinding:
    """
    An error in an instruction stream: the index of the instruction, the rule that it violates, and
    a message.
    """

    index: int
    """The position of the instruction in the stream."""
    rule: str
    """
    The name of the rule: `tokens`, `finish`, `hazard`, `range`, `uninitialised` or `portable`.
    """
    message: str

    def __str__(self) -> str:
        return f"instruction {self.index}: {self.rule}: {self.message}"


@dataclass
class TokenWalk:
    """
    The happens-before relation of a stream: which instructions must be complete before each
    instruction starts, because of tokens. Instructions are given by their index in the stream.
    """

    sequence: list[int] = field(default_factory=list[int])
    """The instructions that can be executed, in an order that the tokens allow."""
    clocks: dict[int, Clock] = field(default_factory=dict[int, Clock])
    """
    For each instruction, the numbers of instructions of load, compute and store that are certainly
    done when it is done.
    """
    positions: dict[int, int] = field(default_factory=dict[int, int])
    """The position of each instruction among those of its module, from 1 on."""
    members: list[list[int]] = field(default_factory=lambda: [[], [], []])
    """The instructions of load, compute and store, in order."""
    findings: list[StreamFinding] = field(default_factory=list[StreamFinding])
    """The errors of tokens: an instruction that waits forever, and tokens that are left over."""


def walk(stream: Sequence[Instruction]) -> TokenWalk:
    """
    Return the happens-before relation that the tokens of `stream` define, and the errors of tokens.

    Fetch issues instructions in order to three queues of bounded length, and each module executes a
    queue. The order of modules does not change the dependences, so a single run gives the relation,
    as vector clocks.
    """
    order = TokenWalk()
    findings = order.findings
    queues = [deque[int]() for _ in Module]
    tokens: dict[TokenQueue, deque[Clock]] = {q: deque() for q in ((0, 1), (1, 0), (1, 2), (2, 1))}
    pushed_at: dict[TokenQueue, list[int]] = {q: [] for q in tokens}
    popped_at: dict[TokenQueue, list[int]] = {q: [] for q in tokens}
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
                pops, pushes = tokens_popped(stream[queue[0]]), tokens_pushed(stream[queue[0]])
                if not all(tokens[q] for q in pops):
                    break
                index = queue.popleft()
                members = order.members[module]
                members.append(index)
                clock = list(now[module])
                for q in pops:
                    clock = [max(a, b) for a, b in zip(clock, tokens[q].popleft(), strict=True)]
                    popped_at[q].append(len(members))
                clock[module] = order.positions[index] = len(members)
                now[module] = order.clocks[index] = (clock[0], clock[1], clock[2])
                order.sequence.append(index)
                for q in pushes:
                    tokens[q].append(now[module])
                    pushed_at[q].append(index)
                progress = True

    for queue in queues:
        if queue:
            name = describe(stream[queue[0]])
            findings.append(
                StreamFinding(queue[0], "tokens", f"{name} waits for a token that is never pushed")
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
                StreamFinding(pushed_at[q][-1], "tokens", f"{len(left)} tokens {names} not popped")
            )
        for count, index in enumerate(pushed_at[q], 1):
            popped = bisect_right(popped_at[q], order.clocks[index][q[1]])
            if count - popped > TOKEN_LIMIT:
                message = f"{count - popped} tokens {names} outstanding, at most {TOKEN_LIMIT}"
                findings.append(StreamFinding(index, "tokens", message))
                break
    findings += _check_finish(stream, order)
    return order


def _check_finish(stream: Sequence[Instruction], order: TokenWalk) -> list[StreamFinding]:
    at = [k for k, i in enumerate(stream) if isinstance(i, Finish)]
    if at != [len(stream) - 1]:
        index = at[0] if at else len(stream) - 1
        return [StreamFinding(index, "finish", "the last instruction must be the only finish")]
    if (clock := order.clocks.get(at[0])) is None:
        return []
    return [
        StreamFinding(members[known], "finish", "may still run when the stream finishes")
        for members, known in zip(order.members, clock, strict=True)
        if known < len(members)
    ]
