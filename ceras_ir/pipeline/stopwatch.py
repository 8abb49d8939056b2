"""Where the time of a run goes."""

import sys
import time
from dataclasses import dataclass, field


@dataclass
class Stopwatch:
    """Seconds of wall time by what they were spent on, in the order of first use."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _start: float = field(default_factory=time.perf_counter)

    def lap(self, name: str) -> None:
        """Book the time since the last lap under `name`."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._start
        self._start = now

    def report(self) -> None:
        """Print the table to stderr."""
        total = sum(self.seconds.values())
        rows = [*self.seconds.items(), ("total", total)]
        width = max(len(name) for name, _ in rows)
        print(f"{'pass':{width}}  seconds  share", file=sys.stderr)
        for name, seconds in rows:
            share = seconds / total if total else 0.0
            print(f"{name:{width}}  {seconds:7.4f}  {share:5.1%}", file=sys.stderr)
