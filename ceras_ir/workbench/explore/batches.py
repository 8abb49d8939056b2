"""
Hand items to one thread, which takes all that are there at once.

While a batch is worked on the next one grows, so that a cost for each batch, such as a
transaction's, is paid as often as there is time for it and never delays a single item.
"""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Batches(Generic[T]):
    """A thread that calls `work` with what was added meanwhile, in order."""

    def __init__(self, work: Callable[[Sequence[T]], None]):
        self._work = work
        self._queue = SimpleQueue[T | None]()
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def add(self, item: T) -> None:
        """Hand over an item; raises what an earlier batch has raised, after which none is done."""
        if self._error is not None:
            self.close()
        if self._thread is None:
            self._thread = Thread(target=self._run, daemon=True)
            self._thread.start()
        self._queue.put(item)

    def close(self) -> None:
        """Wait until all is done; raises what a batch has raised."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        ends = False
        while not ends:
            taken = [self._queue.get()]
            while not self._queue.empty():
                taken.append(self._queue.get())
            batch = [item for item in taken if item is not None]
            ends = len(batch) < len(taken)
            if batch and self._error is None:
                try:
                    self._work(batch)
                except BaseException as error:
                    # Raised where the items come from.
                    self._error = error
