"""
A target: everything that the compiler knows of one kind of machine, behind one class.

A subclass of `Target` is a frozen dataclass whose fields are its options, as a pass is. The
driver, general passes and analyses ask it and name no target. Installed targets are found through
the entry point group `ceras_ir.targets`, others by `--load-target-plugin`. `docs/new-target.md`
builds one step by step.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.support.diagnostics import InputError
from ceras_ir.targets.capabilities import (
    Accelerator,
    GapRule,
    Prediction,
    board_files,
    takes_runs_only,
)

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from ceras_ir.dialects.graph import LinearOperation, UnaryOp
    from ceras_ir.network.artefacts import Artefact
    from ceras_ir.support.timeline import Timeline
    from ceras_ir.targets.capabilities import Compiled, Executable, Manifest

PLACED = "placed graph"
"""The level at which every operation has a device and still is one of the network's."""

MEMORY = "memory"
"""The level at which every value has its bytes."""

ROW_SPREAD = 10
"""Octaves that channels of one layer may be apart: shifts and accumulators must have room."""


@dataclass(frozen=True)
class Arithmetic:
    """What a target computes exactly; quantization makes nothing else for it."""

    floats: bool = True
    """Networks in float run on it; else it quantizes without being asked."""
    multipliers: bool = True
    """Requantization may multiply; else scales are powers of two and it shifts."""
    channel_shifts: bool = True
    """Every output channel of a layer may have its own shift; else a layer has one."""
    residual_spread: int = 0
    """
    By how many bits more the residual of one channel may be shifted than of another; `ROW_SPREAD`
    is any that occurs.
    """
    half_even: bool = True
    """Sums of few values and averages round half to even where a zero point takes part."""
    factor_points: bool = True
    """The second factor of a product of activations may have a zero point."""
    rows: bool = True
    """Softmax and normalization of rows are computed in integers."""
    widths: tuple[int, ...] = (8, 16)
    """Bits of stored activations that its fastest device takes; others are for its host."""

    @property
    def narrow(self) -> bool:
        """Whether that device stores 8 bits only."""
        return max(self.widths) == 8

    def __str__(self) -> str:
        kinds = [f"int{width}" for width in self.widths] + ["float32"] * self.floats
        rescaling = "multiplier and shift" if self.multipliers else "shift"
        scope = "channel" if self.channel_shifts else "layer"
        return f"{', '.join(kinds)}; requantization by {rescaling}, one per {scope}"


@dataclass(frozen=True)
class Stage:
    """The passes that lead to one level."""

    level: str
    passes: tuple[ModulePass, ...]
    changes_values: bool = False
    """Whether the network computes something else afterwards, as after quantization."""
    added: str = ""
    """How the user spelled these passes, if they run behind the level instead."""

    @property
    def title(self) -> str:
        """What reports call the state of the network after it."""
        return f"{self.level}, {self.added}" if self.added else self.level


@dataclass
class Emission:
    """What a target makes of a module at its last level."""

    artefacts: list[Artefact]
    manifest: dict[str, object] = field(default_factory=dict[str, object])
    """Entries of `manifest.json` that only this target has."""
    totals: dict[str, object] = field(default_factory=dict[str, object])
    """Entries of the report's totals."""
    annotate: Callable[[list[dict[str, object]]], None] | None = None
    """Adds what the target knows to the report's entries of the layers of the placed graph."""
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Of those, what the table on stdout shows: entry -> head of its column, how it prints."""
    notes: list[str] = field(default_factory=list[str])
    """Lines for the user below the table of layers."""
    prediction: Prediction | None = None
    """How long the network takes, if there is a model of that; `annotate` has it per layer."""
    timelines: Callable[[], list[Timeline]] | None = None
    """When the parts of a device are busy, for the page of `--report`."""


@dataclass(frozen=True)
class RunAction:
    """An option of `ceras-run` that does something else than running a network."""

    metavar: str
    help: str
    function: str
    """`module:function`, called with the parsed arguments."""
    switches: Mapping[str, str] = field(default_factory=dict[str, str])
    """Options that only go with it, each given or not: flag -> help."""
    values: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Those that take a value: flag -> what stands for the value, and help."""


@dataclass(frozen=True)
class Target(ABC):
    """One kind of machine: its options, boards, rules, lowering, files and ways to run."""

    name: ClassVar[str]
    """As `--target` takes it; the base class has none, and stands for any machine."""
    arithmetic: ClassVar[Arithmetic] = Arithmetic()
    compiles: ClassVar[bool] = True
    """Whether it makes files; the interpreter does not."""
    writes_models: ClassVar[bool] = False
    """Whether its only file is a model, which `emit` makes of a graph at any level."""
    verified_by_default: ClassVar[bool] = False
    """Whether `ceras-verify` takes it without being told."""
    keeps_states: ClassVar[bool] = False
    """Whether what it makes keeps the states of a network from call to call."""
    runs_natively: ClassVar[bool] = False
    """Whether what it makes runs on this machine as fast as the machine can, whatever was quantized
    for which target."""
    board_suffix: ClassVar[str] = ".toml"
    """How the name of a file that describes a board ends."""

    # What it brings along: names, and `module:attribute` where each is.
    passes: ClassVar[Mapping[str, str]] = {}
    dialects: ClassVar[Mapping[str, str]] = {}
    interpreters: ClassVar[Mapping[str, str]] = {}
    text: ClassVar[str | None] = None
    """An `xdsl.utils.target.Target` for `ceras-opt -t NAME`."""
    run_actions: ClassVar[Mapping[str, RunAction]] = {}

    # Boards and options.

    @classmethod
    def boards(cls) -> Mapping[str, Traversable]:
        """The boards that come with it: the files in `boards/` beside its module."""
        package = cls.__module__.rpartition(".")[0]
        # A plugin of one file has no folder of its own.
        return board_files(package, cls.board_suffix) if package else {}

    @classmethod
    def check_board(cls, name: str) -> None:
        """Refuse with an `InputError` a board, by name or file, that the target does not know."""
        raise InputError(f"target {cls.name} takes no board, got '{name}'")

    @property
    def board_name(self) -> str | None:
        """The board that was chosen, if there is one to choose."""
        board = getattr(self, "board", None)
        return board if isinstance(board, str) else None

    def check(self) -> None:
        """Refuse options that contradict each other, before any work."""
        if self.board_name is not None:
            self.check_board(self.board_name)

    def for_host(self) -> Self:
        """The same, compiled only to run once on this machine."""
        return self

    # The graph: what the target needs before its own levels.

    def form_offer(self) -> Callable[[UnaryOp, LinearOperation], str] | None:
        """The form (a `Form`) for a function of a sum, as `set-functions` asks; or None."""
        return None

    def encode(self) -> list[Stage]:
        """Stages behind quantization that decide how numbers come out, as the order of sums."""
        return []

    # Placement and memory.

    @classmethod
    def why_not(cls, op: Operation) -> str | None:
        """
        Why no device of it runs an operation of the float graph that stays as it is, in one
        sentence; None where one does, or where its own levels find out.
        """
        return None

    @classmethod
    def accelerator(cls, board: str | None, jobs: int = 1) -> Accelerator | None:
        """The device beside the CPU, with its times if there is a `board`; None without one."""
        return None

    @classmethod
    def gap_rule(cls) -> GapRule:
        """Which operations can write and read rows with gaps between them."""
        return takes_runs_only

    # From the graph to files.

    def lower(self) -> list[Stage]:
        """The stages behind the quantized graph, `PLACED` first; none changes a value."""
        return []

    def emit(self, module: ModuleOp, title: str) -> Emission:
        """The files of a module at the last level; `title` is what the network is called."""
        raise InputError(f"target {self.name} makes no files: its class has no method 'emit'")

    def temporaries(self, module: ModuleOp) -> list[Artefact]:
        """What `--save-temps` adds to the IR of every level."""
        return []

    # Viewers.

    @classmethod
    def viewer_model(cls, module: ModuleOp, title: str) -> tuple[str, bytes] | None:
        """
        The graph of a module as a file that viewers of networks open: how its name ends, and its
        bytes; None where this target has no such format. What it cannot say it refuses.
        """
        return None

    # Running.

    def open(self, folder: Path, manifest: Manifest) -> Compiled:
        """What `emit` wrote into `folder`, ready to run."""
        raise InputError(f"no way to run target {self.name}", str(folder))

    def other_machines(self, folder: Path, manifest: Manifest) -> Iterator[tuple[str, Executable]]:
        """Further machines that `ceras-verify` runs `folder` on, such as an emulated core."""
        yield from ()

    def interpret(self, module: ModuleOp) -> Executable | None:
        """The module itself, ready to run, for a target that makes no files."""
        return None


def by_convention(package: str, *names: str) -> dict[str, str]:
    """Pass name -> `module:class`: `fold-packing` is `FoldPackingPass` in `fold_packing.py`."""
    return {name: f"{package}.{name.replace('-', '_')}:{class_name(name)}" for name in names}


def class_name(name: str) -> str:
    """The class of the pass called `name`."""
    return "".join(part.capitalize() for part in name.split("-")) + "Pass"
