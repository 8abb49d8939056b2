"""
Choose kernels and the optimization level for a microcontroller board: `--optimize`.

The candidates differ in four choices:

1. loops in C, kernels for the DSP extension, or also Winograd's F(2x2, 3x3);
2. scratch memory: the largest workspace with which the network fits;
3. filters of Winograd layers that are stored transformed, which saves instructions and costs
   flash. Filters are added in the order of instructions saved per byte;
4. the optimization level of the C compiler.

Flash and instructions of a candidate are modelled (`costs`). The three goals select from the same
candidates, so the report can show all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c import emitter
from ceras_ir.backends.c.costs import Footprint, model_cycles
from ceras_ir.backends.c.linear_dsp import Way, cheapest, fits_dsp
from ceras_ir.backends.c.linear_helium import HELIUM
from ceras_ir.backends.c.machines import NATIVE_MACHINE, Board, COptions, Level, Machine
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.names import MODEL, Goal, Prefix
from ceras_ir.backends.c.program import Occupied
from ceras_ir.backends.c.sums import Geometry, analyse
from ceras_ir.dialects.graph import Conv2dOp
from ceras_ir.support.diagnostics import aligned

MAX_SIZE_RATIO, MAX_TIME_RATIO = 1.3, 1.1
"""The limits of `balanced`, relative to the smallest flash and to the fewest instructions."""

LEVELS: tuple[Level, ...] = get_args(Level)

WORKSPACES = (24 << 10, 16 << 10, 12 << 10, 8 << 10, 4 << 10, 2 << 10, 1 << 10, 0)
"""Bytes of scratch memory that a layer may use, the fastest first."""


@dataclass(frozen=True)
class Candidate:
    """A possible build of the network for a board, with modelled flash and cycles of a run."""

    model: PrintedModel
    """The model; while candidates are compared, without the stored filters of `options`."""
    options: COptions
    footprint: Footprint
    cycles: float

    @property
    def flash(self) -> int:
        return self.footprint.flash

    @property
    def microseconds(self) -> float | None:
        """The modelled time of an inference, or `None` if there is no model of the core."""
        board = self.footprint.board
        return self.cycles / board.clock_mhz if board.known_core.has_times else None

    @property
    def kernels(self) -> str:
        """
        The kernels of this build as the report names them: `loops`, `helium`, `dsp`, `dsp,
        winograd` or `dsp, winograd with 3 stored` (layers with stored filters).
        """
        if not self.options.dsp:
            return "loops"
        if self.options.helium:
            return HELIUM
        stored = len(self.options.stored_filters)
        if not self.options.winograd:
            return "dsp"
        return f"dsp, winograd with {stored} stored" if stored else "dsp, winograd"

    def cells(self) -> tuple[str, str]:
        """Return flash in bytes and time in milliseconds as texts of a table."""
        time = self.microseconds
        return f"{self.flash:,}", "unknown" if time is None else f"{time / 1000:,.2f} ms"

    def to_json(self) -> dict[str, object]:
        time = self.microseconds
        return {
            "flash_bytes": self.flash,
            "sram_bytes": self.footprint.sram,
            **({} if time is None else {"microseconds": round(time, 3)}),
            "level": self.options.level,
            "kernels": self.kernels,
        }

    def printed(self, module: ModuleOp) -> "Candidate":
        """
        Return the candidate for the network `module` printed again with `options`, with its costs.
        A candidate is unchanged if it was already printed with these options.
        """
        if self.model.options == self.options:
            return self
        model, board = emitter.build(module, self.options), self.footprint.board
        cycles = model_cycles(model, board, self.options.level)
        return Candidate(model, self.options, Footprint.of(model, board), cycles)


@dataclass(frozen=True)
class Choice:
    """
    The builds that the goals of `--optimize` (size, balanced, speed) select, and the goal of the
    user.
    """

    selected: Goal
    goals: dict[Goal, Candidate]
    candidates: Sequence[Candidate]
    """The candidates that fit, by flash. No other candidate is both smaller and faster."""

    @property
    def model(self) -> PrintedModel:
        return self.goals[self.selected].model

    @property
    def footprint(self) -> Footprint:
        return self.goals[self.selected].footprint

    def of_model(self, model: PrintedModel) -> "Choice":
        """Return the choice with another printed network as the selected build."""
        board, level = self.footprint.board, model.options.level
        cycles = model_cycles(model, board, level)
        found = Candidate(model, model.options, Footprint.of(model, board), cycles)
        return replace(self, goals={**self.goals, self.selected: found})

    def lines(self) -> list[str]:
        """Return the lines of a table of flash and time for each goal of `--optimize`."""
        if len({candidate.options for candidate in self.goals.values()}) == 1:
            return ["--optimize has no effect here: the smallest build is also the fastest"]
        rows = [["--optimize", "flash", "time", ""]]
        for goal, candidate in self.goals.items():
            selected = ", selected" if goal == self.selected else ""
            rows.append([f"  {goal}", *candidate.cells(), f"{candidate.options.level}{selected}"])
        return aligned(rows, right=(1, 2))

    def to_json(self) -> dict[str, object]:
        return {
            "selected": self.selected,
            "goals": {name: candidate.to_json() for name, candidate in self.goals.items()},
            "curve": [candidate.to_json() for candidate in self.candidates],
        }


def choose(
    module: ModuleOp,
    board: Board,
    title: str,
    *,
    goal: Goal = "balanced",
    levels: Sequence[Level] = ("-Os",),
    machine: Machine = NATIVE_MACHINE,
    prefix: Prefix = MODEL,
) -> Choice:
    """
    Return the build of a network for `board` that `goal` selects, and the builds of the other
    goals.

    `levels` are the optimization levels of the C compiler to try, `machine` has the compiler for
    the build files, and `title` is the name in comments. If no build fits the board, the builds
    with the smallest excess are compared; the caller refuses them.
    """
    base = COptions(title, prefix, machine=machine, vectors=False)
    found = [
        candidate
        for model in printed_with_all_kernels(module, board, base)
        for level in levels
        for candidate in _with_stored_filters(model, board, level)
    ]
    best = min(candidate.footprint.excess for candidate in found)
    found = [candidate for candidate in found if candidate.footprint.excess == best]
    goals: dict[Goal, Candidate] = {}
    for name in get_args(Goal):
        candidate = select(found, name)
        same = (known for known in goals.values() if known.options == candidate.options)
        goals[name] = next(same, None) or candidate.printed(module)
    return Choice(goal, goals, curve(found))


def select(candidates: Sequence[Candidate], goal: Goal) -> Candidate:
    """
    Return the candidate of a goal: the smallest flash (size), the fewest cycles (speed), or
    balanced.

    `balanced` minimizes the product of flash and cycles, first among candidates within 1.3 times
    the smallest flash and 1.1 times the fewest cycles, or among all if there are none within.
    """
    smallest = min(candidates, key=lambda c: (c.flash, c.cycles))
    fastest = min(candidates, key=lambda c: (c.cycles, c.flash))
    if goal != "balanced":
        return smallest if goal == "size" else fastest
    within = [
        c
        for c in candidates
        if c.flash <= MAX_SIZE_RATIO * smallest.flash
        and c.cycles <= MAX_TIME_RATIO * fastest.cycles
    ]
    return min(within or candidates, key=lambda c: c.flash * max(c.cycles, 1.0))


def curve(candidates: Sequence[Candidate]) -> list[Candidate]:
    """
    Return the Pareto front: the candidates for which no other needs at most the same flash and the
    same cycles. The smallest is first.
    """
    found: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.flash, c.cycles)):
        if not found or candidate.cycles < found[-1].cycles:
            found.append(candidate)
    return found


def printed_with_all_kernels(
    module: ModuleOp, board: Board, base: COptions
) -> Iterator[PrintedModel]:
    """
    Yield the network printed with each set of kernels that `board` supports (Helium, or DSP with
    and without Winograd; then loops), each with the largest workspace that fits the SRAM. `base`
    has the other options.

    A set is omitted if no layer would differ.
    """
    if board.has_helium:
        options = replace(base, dsp=True, helium=True, winograd=0)
        model = _with_largest_workspace(module, board, options)
        yield model
        if all(layer.kernel != HELIUM for layer in model.layers):
            return
    elif board.has_dsp:
        model = _with_largest_workspace(module, board, replace(base, dsp=True))
        yield model
        used = {layer.kernel for layer in model.layers}
        if "winograd" in used:
            yield _with_largest_workspace(module, board, replace(base, dsp=True, winograd=0))
        if used.isdisjoint(("smlad", "winograd")):
            return
    yield _with_largest_workspace(module, board, base)


def _with_largest_workspace(module: ModuleOp, board: Board, options: COptions) -> PrintedModel:
    found: list[tuple[PrintedModel, Footprint]] = []
    for workspace in WORKSPACES:
        model = emitter.build(module, replace(options, workspace=workspace, level="-Os"))
        footprint = Footprint.of(model, board)
        found.append((model, footprint))
        # Without a workspace there is no memory to save.
        if footprint.fits or not model.scratch_bytes:
            break
    return min(found, key=lambda item: item[1].excess)[0]


def _with_stored_filters(model: PrintedModel, board: Board, level: Level) -> Iterator[Candidate]:
    """
    Yield candidates that store the transformed Winograd filters of more and more layers in flash,
    the first candidate of none. Stored filters save instructions at run time. All fit the flash of
    the board, except possibly the first.
    """
    options = replace(model.options, level=level)
    model = replace(model, options=options)
    footprint = Footprint.of(model, board)
    cycles = model_cycles(model, board, level)
    yield Candidate(model, options, footprint, cycles)
    # The margin for the error of the code estimate remains free.
    flash = board.free_flash - footprint.flash - int(board.known_core.code_margin * footprint.code)
    stored: frozenset[int] = frozenset()
    for filters in stored_filters(model, footprint, board):
        if filters.flash > flash:
            continue
        flash -= filters.flash
        stored |= {filters.index}
        cycles -= filters.instructions
        footprint = replace(footprint, constants=footprint.constants + filters.flash)
        yield Candidate(model, replace(options, stored_filters=stored), footprint, cycles)


@dataclass(frozen=True)
class StoredFilters:
    """
    A layer that can store transformed Winograd filters in flash: the instructions saved per run,
    and the additional bytes of flash.
    """

    index: int
    instructions: float
    flash: int


def stored_filters(model: PrintedModel, footprint: Footprint, board: Board) -> list[StoredFilters]:
    """
    Return the layers that can store transformed Winograd filters, if the workspace fits the SRAM.
    Layers with the most instructions saved per byte of flash are first.
    """
    arena, occupied = board.free_sram - footprint.buffers, Occupied(model.program)
    found: list[StoredFilters] = []
    for layer in model.layers:
        if not isinstance(layer.op, Conv2dOp) or not layer.op.is_quantized:
            continue
        now, then = _ways(layer.op, model.options)
        end = occupied.place(layer.index, then.scratch) + then.scratch
        if then.kind != now.kind and end <= arena:
            saved = now.instructions - then.instructions
            found.append(StoredFilters(layer.index, saved, then.flash - now.flash))
    return sorted(found, key=lambda f: (-f.instructions / f.flash, f.index))


def _ways(op: Conv2dOp, options: COptions) -> tuple[Way, Way]:
    """
    Return the cheapest kernel of a convolution without transformed Winograd filters in flash, and
    the cheapest with them. Both are a kernel of cost 0 if no choice exists.
    """
    geometry, sums = Geometry.of(op), analyse(op)
    has_kernel = options.dsp and options.winograd and not geometry.is_direct
    if not has_kernel or not fits_dsp(op, geometry, sums):
        none = Way("smlad", 0, 0, 0)
        return none, none
    now, then = (
        cheapest(op, geometry, sums, options.workspace, may_store=stored)
        for stored in (False, True)
    )
    return now, then
