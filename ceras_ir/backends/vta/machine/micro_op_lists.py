"""
Place the micro-op lists of a stream on chip, and choose their length for the HLS source of VTA.

A stream is cut into phases, each of which begins with a load of micro-ops. A kernel is a single
phase if all lists fit the micro-op memory, after the lists of earlier kernels if there is space.
Lists on chip are not loaded again, and equal lists of a phase are stored a single time. For the HLS
source, long lists replace loops around short lists. This is exact, because a list has the
iterations of the loop in order. The length is limited: all lists share a small memory, and reloads
cost more than refills of the pipeline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.encoding import MicroOps, field_limits, micro_ops
from ceras_ir.backends.vta.machine.isa import Alu, Gemm, Instruction, MemoryType
from ceras_ir.backends.vta.machine.time import Timing


@dataclass(frozen=True)
class Phase:
    """
    A part of an instruction stream, from the instruction `start` to the next phase. The micro-ops
    of a phase are loaded together at the start.
    """

    start: int
    """
    The position, in the instruction stream, of the first instruction that uses the micro-ops of the
    phase; 0 for the first phase.
    """
    table_base: int
    """The index in the table in DRAM of the first of the `length` micro-ops of the phase."""
    length: int
    place: int = 0
    """The index in on-chip memory of the first micro-op of the phase."""


@dataclass(frozen=True)
class Residency:
    """
    The result of `plan_residency`: the table of all micro-ops in DRAM, the phases in which parts of
    it are loaded, and the on-chip position of the micro-ops of each instruction.
    """

    table: MicroOps
    phases: list[Phase]
    places: list[int | None]
    """
    The on-chip index of the first micro-op of each instruction; `None` for instructions without
    micro-ops.
    """


def plan_residency(
    users: Sequence[MicroOps | None], capacity: int, kernels: Sequence[int] = ()
) -> Residency:
    """
    Choose when the micro-ops of each instruction are loaded, and their position on chip.

    `users` has the micro-op list of each instruction of the stream, in order; `None` is an
    instruction without micro-ops. `capacity` is the size of the on-chip memory in micro-ops. A list
    that is on chip already is not loaded again. If the memory is full, it is cleared and a new
    phase begins.

    `kernels` has the number of the kernel to which each instruction belongs. A phase also begins
    with each kernel, and the memory is cleared if the missing lists of the kernel do not fit. By
    default, all instructions belong to a single kernel.
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
        assert 0 < len(rows) <= capacity, f"{len(rows)} micro-ops in an instruction"
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
    found: dict[int, dict[bytes, int]] = {}
    for kernel, rows in zip(kernels, users, strict=False):
        if rows is not None:
            found.setdefault(kernel, {})[rows.tobytes()] = len(rows)
    return found


Listed = tuple[Instruction, MicroOps | None]

LIST_LENGTHS = (512, 256, 128, 64, 32, 16, 8, 1)
"""The tried values of the maximum length of micro-op lists."""
OPERANDS = ("dst", "src", "wgt")


def lengthen_lists(operations: Sequence[Listed], board: VtaBoard) -> list[Listed]:
    best: tuple[float, list[Listed]] | None = None
    known: dict[tuple[object, ...], float] = {}
    for length in LIST_LENGTHS:
        found = [longer for o in operations for longer in _lengthened(o, length, board)]
        cycles = _cycles(found, board, known)
        if best is None or cycles < best[0]:
            best = cycles, found
    assert best is not None
    return best[1]


def _cycles(
    operations: Sequence[Listed], board: VtaBoard, known: dict[tuple[object, ...], float]
) -> float:
    timing, total = Timing.of(board), 0.0
    for i, uops in operations:
        if not isinstance(i, Gemm | Alu) or uops is None:
            continue
        key = (type(i), len(uops), i.iter_out * i.iter_in)
        if key not in known:
            known[key] = timing.compute_cycles(replace(i, uop_bgn=0, uop_end=len(uops)))
        total += known[key]
    phases = plan_residency([uops for _, uops in operations], board.portable_uops).phases
    bytes_loaded = sum(phase.length for phase in phases) * board.element_bytes(MemoryType.UOP)
    start = timing.read_latency + timing.load_micro_ops
    return total + len(phases) * start + bytes_loaded / timing.bus_bytes


def _lengthened(operation: Listed, length: int, board: VtaBoard) -> list[Listed]:
    """
    Return instructions that replace `operation`, with micro-op lists of at most `length` entries.
    An additional entry of a list replaces an iteration of the inner loop, then of the outer loop,
    so the result is unchanged.
    """
    i, uops = operation
    if not isinstance(i, Gemm | Alu) or uops is None:
        return [operation]
    if i.iter_in == 1:
        i = _inwards(i)
    limit = length // len(uops)
    if limit < 2 or i.iter_in == 1:
        return [(i, uops)]
    moved = max(d for d in range(1, min(limit, i.iter_in) + 1) if i.iter_in % d == 0)
    if i.iter_out == 1 and i.iter_in > limit and i.iter_in // limit + 2 < i.iter_in // moved:
        # Two instructions have fewer entries than a single instruction with lists of equal length.
        cut = i.iter_in // limit * limit
        rest = uops + np.array(_factors(i)[1], np.int64) * cut
        parts = [(replace(i, iter_in=cut), uops), (replace(i, iter_in=i.iter_in - cut), rest)]
        return [one for part in parts for one in _lengthened(part, length, board)]
    while not _fits(i, moved, board):
        moved = max(d for d in range(1, moved) if i.iter_in % d == 0)
    if moved == 1:
        return [(i, uops)]
    steps = np.arange(moved, dtype=np.int64)[:, None, None] * np.array(_factors(i)[1], np.int64)
    listed = (uops[None] + steps).reshape(-1, 3)
    outer, inner = _factors(i)
    count = i.iter_in // moved
    widened = (0, 0, 0) if count == 1 else tuple(step * moved for step in inner)
    longer = _with_loops(i, (i.iter_out, count), outer, widened)
    if count == 1 and i.iter_out > 1:
        return _lengthened((longer, listed), length, board)
    return [(longer, listed)]


def _inwards(i: Gemm | Alu) -> Gemm | Alu:
    return _with_loops(i, (1, i.iter_out), (0, 0, 0), _factors(i)[0])


def _fits(i: Gemm | Alu, moved: int, board: VtaBoard) -> bool:
    if i.iter_in == moved:
        return True
    limits = field_limits(type(i), board)
    return all(
        step * moved <= limits[f"{kind}_factor_in"][1]
        for kind, step in zip(OPERANDS, _factors(i)[1], strict=True)
        if step
    )


def _factors(i: Gemm | Alu) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """
    Return the address increments per iteration of the outer loop and of the inner loop, each for
    destination, source and weights. The weights of an ALU instruction have 0.
    """
    wgt = i.wgt_factors if isinstance(i, Gemm) else (0, 0)
    outer, inner = zip(i.dst_factors, i.src_factors, wgt, strict=True)
    return outer, inner


def _with_loops(
    i: Gemm | Alu, extents: tuple[int, int], outer: Sequence[int], inner: Sequence[int]
) -> Gemm | Alu:
    fields = {
        "dst_factor_out": outer[0],
        "dst_factor_in": inner[0],
        "src_factor_out": outer[1],
        "src_factor_in": inner[1],
    }
    if isinstance(i, Gemm):
        fields |= {"wgt_factor_out": outer[2], "wgt_factor_in": inner[2]}
    return replace(i, iter_out=extents[0], iter_in=extents[1], **fields)
