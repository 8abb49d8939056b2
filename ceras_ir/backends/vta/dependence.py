"""
Insert the dependence tokens that a stream needs to run as if in order.

The input is in dataflow order. An instruction needs what earlier instructions of the other
two modules have done to the memory that it touches: read after write, write after read, write
after write. Such a need becomes a token from the *latest* instruction needed, unless that one
is already known to be done, which vector clocks tell. Then, for each pair of neighbours,
givers and takers both come in increasing order, one token each:

- the k-th token taken is the k-th given, so anonymous tokens mean what they should;
- no instruction gives or takes two tokens of one kind, and every token given is taken;
- all tokens go forward in the stream, so it cannot deadlock, however short the queues.

Load and store are no neighbours: between them a no-op of compute passes the token on.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ceras_ir.backends.vta.footprint import Footprint, Shadow
from ceras_ir.backends.vta.hardware import TOKEN_LIMIT
from ceras_ir.backends.vta.isa import Instruction, Load, MemoryType, Module, module_of

MOST_TOKENS = (TOKEN_LIMIT + 1) // 2
"""Tokens of one kind that may be outstanding."""

Clock = tuple[int, int, int]
"""How many instructions of each module are known to be done."""

NO_OP = Load(MemoryType.UOP, 0, 0, 0, 0, 0)
"""Does nothing, in the compute module."""


@dataclass
class _Node:
    instruction: Instruction
    clock: Clock
    """What is done when this instruction is, itself included."""
    flags: dict[str, bool] = field(default_factory=dict[str, bool])
    """The token flags that are on."""


class DependenceInserter:
    """Takes instructions in dataflow order, without flags; `finish` returns them with flags."""

    def __init__(self, shadow: Shadow):
        self._shadow = shadow
        self._stream: list[_Node] = []
        self._modules: dict[Module, list[_Node]] = {m: [] for m in Module}
        self._pops: dict[tuple[Module, Module], list[int]] = {}
        """Per giver and taker: the positions, in the taker's module, of the takers."""
        self._floor: dict[tuple[Module, Module], int] = {}
        """Per taker and giver: what the next instruction of the taker must know."""

    def __len__(self) -> int:
        """Instructions so far."""
        return len(self._stream)

    def add(self, instruction: Instruction, footprint: Footprint) -> None:
        """Append `instruction`, which touches `footprint`."""
        module = module_of(instruction)
        position = len(self._modules[module]) + 1
        self._emit(module, instruction, self._shadow.needs(module, footprint))
        self._shadow.record(module, position, footprint)

    def _emit(self, module: Module, instruction: Instruction, needs: Sequence[int]) -> None:
        needed = [
            max(n, self._floor.get((module, m), 0)) for m, n in zip(Module, needs, strict=True)
        ]
        for far in Module:
            if abs(far - module) == 2:
                relay = self._relay(module, far, needed[far])
                needed[Module.COMPUTE] = max(needed[Module.COMPUTE], relay)
        queue = self._modules[module]
        clock = queue[-1].clock if queue else (0, 0, 0)
        node = _Node(instruction, clock)
        for giver in Module:
            if abs(giver - module) == 1 and needed[giver] > node.clock[giver]:
                self._token(giver, module, needed[giver], node)
        done = list(node.clock)
        done[module] = len(queue) + 1
        node.clock = (done[0], done[1], done[2])
        queue.append(node)
        self._stream.append(node)

    def _relay(self, taker: Module, giver: Module, needed: int) -> int:
        """The first instruction of compute that knows `needed` of the far module `giver`."""
        taken = self._modules[taker]
        if needed <= (taken[-1].clock[giver] if taken else 0):
            return 0
        compute = self._modules[Module.COMPUTE]
        if not compute or compute[-1].clock[giver] < needed:
            needs = [0, 0, 0]
            needs[giver] = needed
            self._emit(Module.COMPUTE, NO_OP, needs)
        return bisect_right(compute, needed - 1, key=lambda node: node.clock[giver]) + 1

    def _token(self, giver: Module, taker: Module, position: int, node: _Node) -> None:
        """Let `node`, next of `taker`, wait for instruction `position` of `giver`."""
        pops = self._pops.setdefault((giver, taker), [])
        source = self._modules[giver][position - 1]
        if len(pops) + 1 - bisect_right(pops, source.clock[taker]) > MOST_TOKENS:
            # Wait for all that giver has been told to do, and let it wait for us in turn.
            position = len(self._modules[giver])
            source = self._modules[giver][-1]
            self._floor[giver, taker] = len(self._modules[taker]) + 1
        if giver < taker:
            source.flags["push_next"] = node.flags["pop_prev"] = True
        else:
            source.flags["push_prev"] = node.flags["pop_next"] = True
        pops.append(len(self._modules[taker]) + 1)
        before, known = node.clock, source.clock
        node.clock = (
            max(before[0], known[0]),
            max(before[1], known[1]),
            max(before[2], known[2]),
        )

    def drain(self) -> None:
        """Let compute wait until the other modules are done."""
        compute = self._modules[Module.COMPUTE]
        known = compute[-1].clock if compute else (0, 0, 0)
        needs = [len(self._modules[m]) for m in Module]
        needs[Module.COMPUTE] = 0
        if any(n > k for n, k in zip(needs, known, strict=True)):
            self._emit(Module.COMPUTE, NO_OP, needs)

    def instructions(self) -> list[Instruction]:
        """The stream so far, with its token flags."""
        return [replace(node.instruction, **node.flags) for node in self._stream]
