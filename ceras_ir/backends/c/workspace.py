"""
Where each layer's workspace lies: in bytes of the arena that hold nothing while the layer runs,
as low as it can, and behind the plan only where no gap is wide enough.
"""

from collections.abc import Mapping

from xdsl.ir import Operation

from ceras_ir.backends.c.program import Arena, Program
from ceras_ir.support.diagnostics import Finding, InputError, node_name
from ceras_ir.transforms.memory.analysis.liveness import byte_size

ALIGNMENT = 64


class Occupied:
    """
    For each step, the bytes of one memory that hold operands, results, or what is read later.
    """

    def __init__(self, program: Program, region: str = ""):
        steps = {op: i for i, op in enumerate(program.steps)}
        self.bytes: list[list[tuple[int, int]]] = [[] for _ in program.steps]
        for value, place in program.places.items():
            if not isinstance(place, Arena) or place.region != region:
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


def place_workspaces(program: Program, sizes: Mapping[int, int]) -> dict[int, Arena]:
    """
    Step -> place, for the steps that need a workspace: the first memory that has room, beside the
    states where these stay.
    """
    home = program.state_region if program.state_bytes else None
    occupied = {region: Occupied(program, region) for region in program.regions}
    found: dict[int, Arena] = {}
    for step, size in sizes.items():
        if not size:
            continue
        for region in program.regions:
            start = occupied[region].place(step, size)
            if program.has_room(region, start + size, states=region == home):
                found[step] = Arena(start, region)
                break
        else:
            op = program.steps[step]
            reason = f"no region has room for the {size:,} bytes in which its kernel works"
            raise InputError([Finding(node_name(op), op.name, reason)])
    return found
