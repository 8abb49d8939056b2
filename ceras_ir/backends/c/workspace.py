"""
Where each layer's workspace lies: in bytes of the arena that hold nothing while the layer runs,
as low as it can, and behind the plan only where no gap is wide enough.
"""

from collections.abc import Mapping

from xdsl.ir import Operation

from ceras_ir.analysis.liveness import byte_size
from ceras_ir.backends.c.program import Arena, Program

ALIGNMENT = 64


class Occupied:
    """For each step, the bytes of the arena that hold operands, results, or what is read later."""

    def __init__(self, program: Program):
        steps = {op: i for i, op in enumerate(program.steps)}
        self.bytes: list[list[tuple[int, int]]] = [[] for _ in program.steps]
        for value, place in program.places.items():
            if not isinstance(place, Arena):
                continue
            first = steps.get(value.owner, 0) if isinstance(value.owner, Operation) else 0
            last = max((steps.get(use.operation, len(steps)) for use in value.uses), default=first)
            span = (place.offset, place.offset + byte_size(value))
            for step in range(first, min(last + 1, len(steps))):
                self.bytes[step].append(span)

    def place(self, step: int, size: int) -> int:
        """The lowest offset at which `size` bytes are free during a step."""
        at = 0
        for start, end in sorted(self.bytes[step]):
            if at + size <= start:
                break
            at = max(at, -(-end // ALIGNMENT) * ALIGNMENT)
        return at


def place_workspaces(program: Program, sizes: Mapping[int, int]) -> dict[int, int]:
    """Step -> offset, for the steps that need a workspace."""
    occupied = Occupied(program)
    return {step: occupied.place(step, size) for step, size in sizes.items() if size}
