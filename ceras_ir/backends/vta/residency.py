"""
Where the micro-ops of each instruction are on chip.

The stream is cut into phases whose distinct sequences fit the micro-op memory together; a
phase begins with one UOP load of all its sequences. A program that fits has one phase, and so
one load. Equal sequences are kept once a phase, in DRAM and on chip.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ceras_ir.backends.vta.micro_ops import MicroOps, micro_ops


@dataclass(frozen=True)
class Phase:
    """Micro-ops that are on chip from position `start` of the stream on."""

    start: int
    """The first user, as a position in the list of sequences."""
    table_base: int
    """Where the phase begins in the table."""
    length: int


@dataclass(frozen=True)
class Residency:
    """The micro-op table in DRAM, its phases, and the place of every user's sequence."""

    table: MicroOps
    phases: list[Phase]
    places: list[int | None]
    """Index on chip of the first micro-op of each user; None for users without micro-ops."""


def plan_residency(users: Sequence[MicroOps | None], capacity: int) -> Residency:
    """Place the sequence of each user, in the order of the stream."""
    phases: list[Phase] = []
    places: list[int | None] = []
    parts: list[MicroOps] = []
    resident: dict[bytes, int] = {}
    start, table_base, used = 0, 0, 0

    def close() -> None:
        if used:
            phases.append(Phase(start, table_base, used))

    for position, rows in enumerate(users):
        if rows is None:
            places.append(None)
            continue
        assert 0 < len(rows) <= capacity, f"{len(rows)} micro-ops in one instruction"
        key = rows.tobytes()
        if key not in resident:
            if used + len(rows) > capacity:
                close()
                start, table_base, used = position, table_base + used, 0
                resident.clear()
            resident[key] = used
            used += len(rows)
            parts.append(rows)
        places.append(resident[key])
    close()
    return Residency(np.concatenate(parts) if parts else micro_ops([]), phases, places)
