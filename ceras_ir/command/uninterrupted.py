"""Delay signals during changes of files that belong together."""

import signal
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from types import FrameType

DELAYED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""The signals that end a command by an exception, which could be raised between two renames."""


@contextmanager
def uninterrupted() -> Generator[None]:
    """
    Delay signals that have a Python handler until the end of the block; each is then handled once.
    In other threads than the main thread, signals are not delayed, because handlers never run
    there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []

    def delay(number: int, _: FrameType | None) -> None:
        pending.append(number)

    with ExitStack() as stack:
        stack.callback(lambda: [signal.raise_signal(n) for n in dict.fromkeys(pending)])
        for number in DELAYED:
            if callable(before := signal.getsignal(number)):
                stack.callback(signal.signal, number, before)
                signal.signal(number, delay)
        yield
