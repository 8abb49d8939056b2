"""
Processes that exchange words at known cycles: the engine of the model in `cycles.py`.

A process is a generator. It yields what it waits for and gets the cycle at which that came. Words
pass when the sender offers and the receiver is ready; since both only know their own past, the
result does not depend on the order in which processes run.
"""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(eq=False)
class Link:
    """A stream: at most one word is on offer."""

    offer: int | None = None
    sender: "_Sending | None" = None
    receiver: "Receive | None" = None


@dataclass(eq=False)
class Events:
    """Cycles at which something happened, to be read in order."""

    cycles: deque[int] = field(default_factory=deque[int])
    waiting: "_Running | None" = None


@dataclass(frozen=True, eq=False)
class Send:
    """Offer a word to all of `links` from cycle `offer` on; gives when the last took it."""

    links: Sequence[Link]
    offer: int


@dataclass(frozen=True, eq=False)
class Receive:
    """Take a word `delay` cycles after it is offered and `ready` has come; gives that cycle."""

    link: Link
    ready: int
    delay: int = 0


@dataclass(frozen=True, eq=False)
class Peek:
    """Wait for an offer without taking it; gives its cycle."""

    link: Link


@dataclass(frozen=True, eq=False)
class Next:
    """The cycle of the next event."""

    events: Events


Request: TypeAlias = Send | Receive | Peek | Next
Process: TypeAlias = Generator[Request, int, None]


@dataclass(eq=False)
class _Running:
    process: Process
    peeking: bool = False


@dataclass(eq=False)
class _Sending:
    """A word on its way to several receivers."""

    owner: _Running
    left: int
    latest: int = 0


class Engine:
    """Runs processes until none can go on."""

    def __init__(self) -> None:
        self._ready: deque[tuple[_Running, int]] = deque()
        self._owners: dict[int, _Running] = {}

    def start(self, process: Process) -> None:
        """Add a process; its first request is asked for when `run` begins."""
        self._ready.append((_Running(process), -1))

    def post(self, events: Events, cycle: int) -> None:
        """Record an event, and wake who waits for it."""
        if events.waiting is not None:
            owner, events.waiting = events.waiting, None
            self._ready.append((owner, cycle))
        else:
            events.cycles.append(cycle)

    def accept(self, link: Link, cycle: int) -> None:
        """Take the word that was peeked at."""
        self._pass(link, cycle)

    def run(self) -> None:
        """Until every process waits or has ended."""
        while self._ready:
            running, value = self._ready.popleft()
            try:
                request = running.process.send(value) if value >= 0 else next(running.process)
            except StopIteration:
                continue
            self._handle(running, request)

    def _handle(self, running: _Running, request: Request) -> None:
        match request:
            case Send():
                sending = _Sending(running, len(request.links))
                for link in request.links:
                    assert link.sender is None
                    link.offer, link.sender = request.offer, sending
                for link in request.links:
                    self._meet(link)
            case Receive():
                request.link.receiver = request
                self._owners[id(request.link)] = running
                self._meet(request.link)
            case Peek():
                running.peeking = True
                request.link.receiver = Receive(request.link, 0)
                self._owners[id(request.link)] = running
                self._meet(request.link)
            case Next():
                if request.events.cycles:
                    self._ready.append((running, request.events.cycles.popleft()))
                else:
                    request.events.waiting = running

    def _meet(self, link: Link) -> None:
        receiver = link.receiver
        if link.sender is None or link.offer is None or receiver is None:
            return
        owner, link.receiver = self._owners[id(link)], None
        if owner.peeking:
            owner.peeking = False
            self._ready.append((owner, link.offer))
            return
        cycle = max(link.offer, receiver.ready) + receiver.delay
        self._ready.append((owner, cycle))
        self._pass(link, cycle)

    def _pass(self, link: Link, cycle: int) -> None:
        sending, link.sender, link.offer = link.sender, None, None
        assert sending is not None
        sending.left -= 1
        sending.latest = max(sending.latest, cycle)
        if sending.left == 0:
            self._ready.append((sending.owner, sending.latest))
