"""
Where the micro-ops of each instruction are on chip.

A stream is cut into phases, each of which begins with one UOP load of its sequences. A kernel is
one phase if its sequences fit the micro-op memory together, behind those of the kernels before it
if they fit beside them; what is on chip already is not loaded again. Equal sequences of one phase
are kept once, in DRAM and on chip.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ceras_ir.backends.vta.micro_ops import MicroOps, micro_ops


@dataclass(frozen=True)
class Phase:
    """Micro-ops that are on chip from position `start` of the stream on."""

    start: int
    """The first user, as a position in the list of sequences; 0 of the first phase."""
    table_base: int
    """Where the phase begins in the table."""
    length: int
    place: int = 0
    """Where it is put on chip."""


@dataclass(frozen=True)
class Residency:
    """The micro-op table in DRAM, its phases, and the place of every user's sequence."""

    table: MicroOps
    phases: list[Phase]
    places: list[int | None]
    """Index on chip of the first micro-op of each user; None for users without micro-ops."""


def plan_residency(
    users: Sequence[MicroOps | None], capacity: int, kernels: Sequence[int] = ()
) -> Residency:
    """
    Place the sequence of each user, in the order of the stream; `kernels` has the number of each
    user's kernel, one kernel for all if it is left out.
    """
    phases: list[Phase] = []
    places: list[int | None] = []
    parts: list[MicroOps] = []
    resident: dict[bytes, int] = {}
    start, table_base, place, used = 0, 0, 0, 0
    needs = _needs(users, kernels)
    kernel = kernels[0] if kernels else 0

    def close() -> None:
        nonlocal table_base, place
        if used > place:
            phases.append(Phase(start, table_base, used - place, place))
        table_base, place = table_base + used - place, used

    for position, rows in enumerate(users):
        if rows is None:
            places.append(None)
            continue
        assert 0 < len(rows) <= capacity, f"{len(rows)} micro-ops in one instruction"
        key = rows.tobytes()
        if kernels and kernels[position] != kernel:
            kernel = kernels[position]
            close()
            missing = (n for k, n in needs[kernel].items() if k not in resident)
            if used + sum(missing) > capacity:
                resident.clear()
                place = used = 0
        if key not in resident:
            if used + len(rows) > capacity:
                close()
                resident.clear()
                place = used = 0
            if used == place and phases:
                start = position
            resident[key] = used
            used += len(rows)
            parts.append(rows)
        places.append(resident[key])
    close()
    return Residency(np.concatenate(parts) if parts else micro_ops([]), phases, places)


def _needs(users: Sequence[MicroOps | None], kernels: Sequence[int]) -> dict[int, dict[bytes, int]]:
    """The lengths of the distinct sequences of each kernel."""
    found: dict[int, dict[bytes, int]] = {}
    for kernel, rows in zip(kernels, users, strict=False):
        if rows is not None:
            found.setdefault(kernel, {})[rows.tobytes()] = len(rows)
    return found
