"""What each pass did to the IR, and what it took: operations made and erased, time, memory."""

import resource
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ceras_ir.support.text_table import aligned


@dataclass
class Statistic:
    """Of all runs of one pass."""

    runs: int = 0
    before: int = 0
    """Operations before the last run, as those after it."""
    after: int = 0
    made: int = 0
    erased: int = 0
    changed: int = 0
    """Operations that remained, with other operands, properties, attributes, types or order."""
    seconds: float = 0.0
    growth: int = 0
    """KiB by which the process's peak grew."""


@dataclass(frozen=True)
class Statistics:
    """Statistics by pass, in the order of first use."""

    found: dict[str, Statistic] = field(default_factory=dict[str, Statistic])

    @contextmanager
    def of(self, module: ModuleOp, name: str) -> Generator[None]:
        """Book what is done to `module` inside under `name`."""
        before = {op: look(op) for op in module.walk()}
        peak, started = _peak(), time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        after = {op: look(op) for op in module.walk()}
        entry = self.found.setdefault(name, Statistic())
        entry.runs += 1
        entry.before, entry.after = len(before), len(after)
        entry.made += len(after.keys() - before.keys())
        entry.erased += len(before.keys() - after.keys())
        entry.changed += len(changed_operations(before, after) & before.keys() & after.keys())
        entry.seconds += seconds
        entry.growth += max(0, _peak() - peak)

    def report(self) -> None:
        """Print the table to stderr."""
        rows = [["pass", "ops before", "after", "made", "erased", "changed", "seconds", "peak KiB"]]
        for name, s in self.found.items():
            counts = (s.before, s.after, s.made, s.erased, s.changed)
            rows.append([name, *map(str, counts), f"{s.seconds:.4f}", f"+{s.growth:,}"])
        for line in aligned(rows, right=range(1, len(rows[0]))):
            print(line, file=sys.stderr)


def look(op: Operation) -> tuple[object, ...]:
    """The parts of an operation that a rewrite may change."""
    types = tuple(result.type for result in op.results)
    return tuple(op.operands), types, dict(op.properties), dict(op.attributes)


Looks: TypeAlias = Mapping[Operation, tuple[object, ...]]


def changed_operations(before: Looks, after: Looks) -> set[Operation]:
    """The operations that are new, removed, changed, or after another operation than before."""
    found = {op for op, seen in before.items() if after.get(op) != seen}
    found |= after.keys() - before.keys()
    kept = [op for op in after if op in before]
    order = (op for op in before if op in after)
    return found | {op for op, other in zip(kept, order, strict=True) if op is not other}


def _peak() -> int:
    """KiB that the process had at most so far."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size // 1024 if sys.platform == "darwin" else size
