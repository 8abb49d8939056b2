"""
What a stream relies on that not every VTA gives: findings of the checker by kind, and a trial.

The trial runs it on on-chip memories that are zero at the start and on such that hold noise, as
they do on hardware after another stream: where results differ, they depend on it.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.image import Dram
from ceras_ir.backends.vta.isa import Instruction, Module
from ceras_ir.backends.vta.machine.token_walk import StreamFinding
from ceras_ir.backends.vta.simulator import simulate
from ceras_ir.support.diagnostics import InputError

KINDS = {
    "uninitialised": "on-chip memory that was never written",
    "hazard": "the order in which modules happen to run",
    "tokens": "tokens that are left over, or come from nowhere",
    "finish": "an end that is no FINISH",
    "range": "memory that is not there",
    "portable": "what implementations of VTA do differently",
}
"""Rule of the checker -> what a stream relies on that breaks it."""

NUMBER = re.compile(r"\d+")
MOST_COUNTED = 1_000_000
"""Findings; to count, all are wanted."""
NOISE_SEED = 1
SWITCHES = (None, 1)
"""Instructions before another module may run: as many as it can, or one."""


def reliance(findings: Sequence[StreamFinding]) -> list[str]:
    """
    A line for each kind of finding, with how many instructions and the first. Messages that differ
    in numbers alone are of one kind.
    """
    kinds: dict[tuple[str, str], list[StreamFinding]] = {}
    for finding in findings:
        plain = NUMBER.sub("", finding.message)
        kinds.setdefault((finding.rule, plain), []).append(finding)
    lines: list[str] = []
    for rule, text in KINDS.items():
        for found in (found for (of, _), found in kinds.items() if of == rule):
            count = len({f.index for f in found})
            one = "instruction" if count == 1 else "instructions"
            lines.append(f"  {text}: {count} {one}, first {found[0].index}: {found[0].message}")
    return lines or ["  nothing: it is portable"]


def trial(stream: Sequence[Instruction], dram: Dram, board: VtaBoard) -> list[str]:
    """Whether results depend on what is on chip at the start, or on which module runs first."""
    expected = _result(stream, dram, board, seed=None)
    lines = [_difference("on-chip memory full of noise", expected, stream, dram, board)]
    orders = [
        _result_of_order(stream, dram, board, order, switch)
        for order in permutations(Module)
        for switch in SWITCHES
    ]
    wrong = sum(other is None or not np.array_equal(expected, other) for other in orders)
    lines.append(f"  modules in {len(orders)} other orders: {wrong or 'no'} other results")
    return lines


def _result(stream: Sequence[Instruction], dram: Dram, board: VtaBoard, seed: int | None) -> Dram:
    image = dram.copy()
    simulate(image, stream, board, seed=seed)
    return image


def _result_of_order(
    stream: Sequence[Instruction],
    dram: Dram,
    board: VtaBoard,
    order: Iterable[Module],
    switch: int | None,
) -> Dram | None:
    image = dram.copy()
    try:
        simulate(image, stream, board, order=tuple(order), switch_every=switch, seed=None)
    except InputError:
        return None
    return image


def _difference(
    name: str, expected: Dram, stream: Sequence[Instruction], dram: Dram, board: VtaBoard
) -> str:
    try:
        other = _result(stream, dram, board, NOISE_SEED)
    except InputError as error:
        return f"  {name}: it fails: {error}"
    count = int((expected != other).sum())
    return f"  {name}: {f'{count:,} other bytes' if count else 'the same results'}"
