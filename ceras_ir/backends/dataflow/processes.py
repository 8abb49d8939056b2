"""
Simulate processes that exchange words at known cycles: the engine of the model in `cycles.py`.

A process is a generator. It yields a request and receives the cycle at which the request was
fulfilled. A word is transferred when the sender offers it and the receiver is ready. Both know
only their own past, so the result does not depend on the order in which processes run.
"""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(eq=False)
class Link:
    """A stream between two simulated processes. At most one word is offered at a time."""

    offer: int | None = None
    """The cycle from which a word is offered, or `None`."""
    sender: "_Sending | None" = None
    receiver: "Receive | None" = None


@dataclass(eq=False)
class Events:
    """
    A queue of events, which one simulated process posts and another waits for. An event is the
    cycle at which it happened.
    """

    cycles: deque[int] = field(default_factory=deque[int])
    waiting: "_Running | None" = None


@dataclass(frozen=True, eq=False)
class Send:
    """
    A request of a process: offer a word to all `links` from cycle `offer` on, and wait until each
    receiver has taken it. The result is the cycle in which the last receiver takes it.
    """

    links: Sequence[Link]
    offer: int


@dataclass(frozen=True, eq=False)
class Receive:
    """
    A request of a process: take a word from `link`. The result is the cycle in which it is taken:
    `delay` cycles after the word is offered and the process is ready (from cycle `ready` on).
    """

    link: Link
    ready: int
    delay: int = 0


@dataclass(frozen=True, eq=False)
class Peek:
    """
    A request of a process: wait until a word is offered, and leave it offered. The result is the
    cycle of the offer. `Engine.accept` takes the word later.
    """

    link: Link


@dataclass(frozen=True, eq=False)
class Next:
    """A request of a process: wait for the next event. The result is the cycle of the event."""

    events: Events


@dataclass(frozen=True, eq=False)
class Registers:
    """
    `count` registers in sequence that advance together, in each cycle in which the last is empty or
    its word leaves.
    """

    count: int
    waits: deque[range] = field(default_factory=deque[range])
    """The cycles in which the last `count` words waited in the last register."""

    def advance(self, cycle: int, steps: int = 1) -> int:
        """Return the cycle in which the registers advance, from `cycle` on, the `steps`-th time."""
        last = cycle + steps - 1
        for wait in self.waits:
            start = max(wait.start, cycle)
            if start <= last and start < wait.stop:
                last += wait.stop - start
        return last

    def offer(self, taken: int) -> int:
        """Return the cycle from which a word is offered that the first register took at `taken`."""
        return self.advance(taken + 1, self.count - 1) + 1 if self.count > 1 else taken + 1

    def leave(self, offer: int, left: int) -> None:
        """Record a word that was offered from cycle `offer` on and left in cycle `left`."""
        self.waits.append(range(offer, left))
        if len(self.waits) > self.count:
            self.waits.popleft()


ProcessRequest: TypeAlias = Send | Receive | Peek | Next
Process: TypeAlias = Generator[ProcessRequest, int, None]


@dataclass(eq=False)
class _Running:
    process: Process
    is_peeking: bool = False


@dataclass(eq=False)
class _Sending:
    owner: _Running
    left: int
    latest: int = 0


class Engine:
    """The scheduler of a simulation of processes that exchange words and events."""

    def __init__(self) -> None:
        self._ready: deque[tuple[_Running, int]] = deque()
        self._owners: dict[int, _Running] = {}

    def start(self, process: Process) -> None:
        """Add a process. It begins when `run` is called."""
        self._ready.append((_Running(process), -1))

    def post(self, events: Events, cycle: int) -> None:
        """
        Record an event that happened at `cycle`, and wake the process that waits for it, if there
        is one.
        """
        if events.waiting is not None:
            owner, events.waiting = events.waiting, None
            self._ready.append((owner, cycle))
        else:
            events.cycles.append(cycle)

    def accept(self, link: Link, cycle: int) -> None:
        """Take, at `cycle`, the word that a `Peek` on `link` has seen."""
        self._transfer(link, cycle)

    def run(self) -> None:
        """Run all processes until each has ended or waits for another."""
        while self._ready:
            running, value = self._ready.popleft()
            try:
                request = running.process.send(value) if value >= 0 else next(running.process)
            except StopIteration:
                continue
            self._handle(running, request)

    def _handle(self, running: _Running, request: ProcessRequest) -> None:
        match request:
            case Send():
                sending = _Sending(running, len(request.links))
                for link in request.links:
                    assert link.sender is None
                    link.offer, link.sender = request.offer, sending
                for link in request.links:
                    self._match(link)
            case Receive() | Peek():
                running.is_peeking = isinstance(request, Peek)
                link = request.link
                link.receiver = Receive(link, 0) if isinstance(request, Peek) else request
                self._owners[id(link)] = running
                self._match(link)
            case Next():
                if request.events.cycles:
                    self._ready.append((running, request.events.cycles.popleft()))
                else:
                    request.events.waiting = running

    def _match(self, link: Link) -> None:
        receiver = link.receiver
        if link.sender is None or link.offer is None or receiver is None:
            return
        owner, link.receiver = self._owners[id(link)], None
        if owner.is_peeking:
            self._ready.append((owner, link.offer))
            return
        cycle = max(link.offer, receiver.ready) + receiver.delay
        self._ready.append((owner, cycle))
        self._transfer(link, cycle)

    def _transfer(self, link: Link, cycle: int) -> None:
        sending, link.sender, link.offer = link.sender, None, None
        assert sending is not None
        sending.left -= 1
        sending.latest = max(sending.latest, cycle)
        if sending.left == 0:
            self._ready.append((sending.owner, sending.latest))
