"""
Define the interface of a target, a class that describes a kind of machine.

A subclass of `Target` is a frozen dataclass. The fields are the options, as in a pass. The driver,
general passes and analyses use this interface and name no target. `registry.py` finds targets by
name, and `docs/new-target.md` develops a target step by step.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, ClassVar, Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.files import files_with_suffix, parse_toml
from ceras_ir.support.plugin_modules import plugin_of
from ceras_ir.targets.board_files import TOML, BoardSummary, board_files
from ceras_ir.targets.capabilities import (
    Accelerator,
    ArenaBuffer,
    GapRule,
    Prediction,
    takes_runs_only,
)
from ceras_ir.targets.definitions import missing_method, require_device, require_methods

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from ceras_ir.dialects.graph import LinearOperation, UnaryOp
    from ceras_ir.dialects.quant import UniformType
    from ceras_ir.network.artefacts import Artefact
    from ceras_ir.support.timeline import Timeline
    from ceras_ir.targets.capabilities import Compiled, Emulated, Executable, Manifest, NotEmulated

PLACED = "placed graph"
"""The level at which each operation has a device and still belongs to `graph`."""

MEMORY = "memory"
"""The level at which each value has memory."""

ROW_SPREAD = 10
"""The supported number of octaves between the scales of channels of a layer."""

BYTE_WIDTHS = tuple(range(1, 9))
"""The bits of weights that a byte can hold."""


@dataclass(frozen=True)
class Arithmetic:
    """The arithmetic that a target computes exactly; quantization creates only such operations."""

    floats: bool = True
    """Whether the target runs float networks; if not, networks are always quantized."""
    multipliers: bool = True
    """Whether requantization can multiply; if not, scales are powers of two."""
    kernels: bool = True
    """
    Whether a requantization can round twice, addends can be requantized and averages can divide, as
    in the kernels of TensorFlow Lite.
    """
    channel_shifts: bool = True
    """Whether each output channel of a layer can have a separate shift."""
    costly_channel_shifts: bool = False
    """Whether separate shifts take time, such as another instruction for each result."""
    residual_spread: int = 0
    """
    The largest difference in bits between the residual shifts of two channels; `ROW_SPREAD` permits
    any difference that occurs.
    """
    even_shifts: bool = True
    """Whether a requantization by a shift can round half to even."""
    half_even: bool = True
    """Whether averages and sums of few values with a zero point round half to even."""
    factor_points: bool = True
    """Whether the second factor of a product of activations can have a zero point."""
    rows: bool = True
    """Whether softmax and normalizations are computed in integers."""
    widths: tuple[int, ...] = (8, 16)
    """The bits of stored activations on the fastest device; the host computes other widths."""
    weight_widths: tuple[int, ...] = (8,)
    """The bits of weights that the target stores, ascending; `widen-weights` widens the others."""
    blocks: bool = False
    """Whether weights can have a scale for each block; if not, `float-blocks` replaces them."""

    activation_widths: tuple[int, ...] = (8,)
    """
    The bits of activations below 16 bits that the target stores, ascending; `widen-activations`
    widens the others.
    """
    bipolar: bool = False
    """Whether the target stores the integers -1 and 1 in a bit, if it stores 1 bit."""
    thresholds: bool = False
    """Whether the target compares sums with thresholds (`graph.threshold`)."""
    wide_share: float | None = None
    """
    The share of the modelled time that 16-bit values may take if the user gives no budget; `None`,
    the default of `choose-precision`.
    """

    @property
    def narrow(self) -> bool:
        """Whether the fastest device stores activations only in 8 bits."""
        return max(self.widths) == 8

    def stored_width(self, element: UniformType, widths: Sequence[int]) -> int:
        """
        Return the bits in which the target stores integers of the type `element`: `widths` are
        `weight_widths` or `activation_widths`.
        """
        fewest = 2 if element.is_bipolar and not self.bipolar else element.width
        return min((w for w in widths if w >= fewest), default=element.width)

    def __str__(self) -> str:
        kinds = [f"int{width}" for width in self.widths] + ["float32"] * self.floats
        rescaling = "multiplier and shift" if self.multipliers else "shift"
        scope = "channel" if self.channel_shifts else "layer"
        return f"{', '.join(kinds)}; requantization by {rescaling}, one per {scope}"


PROCESSOR_ARITHMETIC = Arithmetic(
    residual_spread=ROW_SPREAD,
    weight_widths=BYTE_WIDTHS,
    activation_widths=BYTE_WIDTHS,
    bipolar=True,
    thresholds=True,
    blocks=True,
)
"""The arithmetic of programs in C, which is also that of the interpreter."""


@dataclass(frozen=True)
class Stage:
    """The passes that convert a network to the next level, such as the quantized graph."""

    level: str
    passes: tuple[ModulePass, ...]
    changes_values: bool = False
    """Whether the passes change the results of the network, as quantization does."""
    added: str = ""
    """The user's spelling of these passes, if they are extra passes that run after the level."""

    @property
    def title(self) -> str:
        """The name of the resulting network in reports."""
        return f"{self.level}, {self.added}" if self.added else self.level


@dataclass(frozen=True)
class Measurement:
    """
    Measurements of compiled files by an installed tool, such as the size that a cross compiler
    prints.
    """

    totals: Mapping[str, object]
    """Entries of the totals in the report."""
    details: Mapping[str, object]
    """Further entries of `report.json`."""
    figures: Mapping[str, str]
    """Lines of the summary on stdout."""
    manifest: Mapping[str, object] = field(default_factory=dict[str, object])
    """Entries of `manifest.json`."""
    warning: str = ""


@dataclass
class Emission:
    """The files and the report data that a target generates from the last level."""

    artefacts: list[Artefact]
    manifest: dict[str, object] = field(default_factory=dict[str, object])
    """Entries of `manifest.json` that are specific to the target."""
    totals: dict[str, object] = field(default_factory=dict[str, object])
    """Entries of the totals in the report."""
    annotate: Callable[[list[dict[str, object]]], None] | None = None
    """Add entries of the target to the report entries of the layers of the placed graph."""
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """The annotated entries that stdout shows: entry -> column heading, format."""
    notes: list[str] = field(default_factory=list[str])
    """Lines for the user below the table of layers."""
    figures: Mapping[str, str] = field(default_factory=dict[str, str])
    """Lines of the summary on stdout that do not follow from the totals: label -> text."""
    size_line: str = ""
    """A sentence that compares the sizes with the board, for a remedy that fits."""
    prediction: Prediction | None = None
    """The predicted time of the network; `annotate` adds the time of each layer."""
    buffers: Sequence[ArenaBuffer] = ()
    """The bytes that the target adds to the memory plan: workspaces and states."""
    timelines: Callable[[], list[Timeline]] | None = None
    """Return the activity of the parts of a device, for the page of `--report`."""
    details: Mapping[str, object] = field(default_factory=dict[str, object])
    """Further entries of `report.json`."""
    measure: Callable[[], Measurement] | None = None
    """Measure the files with an installed tool. `ceras-compile` calls it, trials do not."""


@dataclass(frozen=True)
class RunAction:
    """An option of `ceras-run` that performs another action than a run of a network."""

    metavar: str
    help: str
    function: str
    """`module:function`, called with the parsed arguments."""
    switches: Mapping[str, str] = field(default_factory=dict[str, str])
    """Boolean options of the action: flag -> help."""
    values: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Options of the action with a value: flag -> metavar, help."""


SCHEMA_SUFFIX = ".schema.json"
"""The suffix of files with a JSON schema."""


@dataclass(frozen=True)
class Target(ABC):
    """A kind of machine: the options, boards, rules, lowering, files and execution."""

    name: ClassVar[str]
    """The name after `--target`; the base class has no name and represents any machine."""
    arithmetic: ClassVar[Arithmetic] = Arithmetic()
    compiles: ClassVar[bool] = True
    """Whether the target writes files; the interpreter does not."""
    writes_models: ClassVar[bool] = False
    """Whether the only file is a model, which `emit` writes from a graph at any level."""
    verified_by_default: ClassVar[bool] = False
    """Whether `ceras-verify` checks the target by default."""
    keeps_states: ClassVar[bool] = False
    """Whether the compiled network keeps states from call to call."""
    accepts_lengths: ClassVar[bool] = False
    """Whether `emit_lengths` writes a program for several lengths of an input."""
    runs_natively: ClassVar[bool] = False
    """Whether the compiled network runs on this machine at full speed, for each quantization."""
    board_suffixes: ClassVar[tuple[str, ...]] = (TOML,)
    """The suffixes of board files. Boards of the package are in TOML."""

    # Contributions: name -> `module:attribute`.
    passes: ClassVar[Mapping[str, str]] = {}
    dialects: ClassVar[Mapping[str, str]] = {}
    interpreters: ClassVar[Mapping[str, str]] = {}
    text: ClassVar[str | None] = None
    """An `xdsl.utils.target.Target` for `ceras-opt -t NAME`."""
    run_actions: ClassVar[Mapping[str, RunAction]] = {}
    programs: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Optional installed programs: the use -> the commands, of which one is sufficient."""

    @classmethod
    def boards(cls) -> Mapping[str, Traversable]:
        """Return the boards of the target: the files in `boards/` next to the module."""
        package = cls.__module__.rpartition(".")[0]
        # A class of a notebook has no folder.
        return board_files(package) if package else {}

    @classmethod
    def board_types(cls) -> tuple[type, ...]:
        """Return the dataclasses that declare the fields of board files (see `read_fields`)."""
        return ()

    @classmethod
    def schema_parts(cls) -> Mapping[str, Traversable]:
        """
        Return the partial JSON schemas next to the module, which describe the entries that the
        target adds to `report` and `manifest`.
        """
        package = cls.__module__.rpartition(".")[0]
        return files_with_suffix(files(package), SCHEMA_SUFFIX) if package else {}

    @classmethod
    def check_board(cls, name: str) -> None:
        """
        Raise a `UsageError` if no board of the target has the name `name`, and an `InputError` for
        an invalid board file.
        """
        raise UsageError(f"target {cls.name} supports no boards, got '{name}'; leave out --board")

    @classmethod
    def board_summary(cls, name: str) -> BoardSummary:
        """Return the properties of the built-in board `name`, for lists of boards."""
        content = parse_toml(cls.boards()[name].read_text("utf-8"), name)
        title = content.get("title")
        return BoardSummary(title if isinstance(title, str) else name)

    @property
    def board_name(self) -> str | None:
        """The name or file of the selected board, or `None`."""
        board = getattr(self, "board", None)
        return board if isinstance(board, str) else None

    def check(self) -> None:
        """Raise an error for contradictory options, before any work is done."""
        if self.board_name is not None:
            self.check_board(self.board_name)

    def check_lengths(self) -> None:
        """
        Raise an error for an option that needs a single length, if a program for several lengths of
        an input is compiled.
        """
        return None

    def for_host(self) -> Self:
        """
        Return this target with options for the shortest compilation. It is used for a network that
        runs a single time on this machine.
        """
        return self

    def form_offer(self) -> Callable[[UnaryOp, LinearOperation], str] | None:
        """
        Return a function that chooses how an activation of the sum of a layer is computed (the
        `Form`, such as `table16`), or `None` if the target has no preference. The pass `silu` uses
        it.
        """
        return None

    def encode(self) -> list[Stage]:
        """
        Return the stages after quantization that choose encodings, such as the storage of sparse
        weights.
        """
        return []

    @classmethod
    def why_not(cls, op: Operation) -> str | None:
        """
        Return the reason why no device of the target can run the float operation `op`, as a
        sentence. `None` means that a device can, or that a later level decides.
        """
        return None

    @classmethod
    def device_rules(cls) -> Sequence[str]:
        """
        Return the rules that operations on the accelerator must satisfy, as sentences; empty
        without an accelerator.
        """
        return ()

    @classmethod
    def accelerator(cls, board: str | None, jobs: int = 1) -> Accelerator | None:
        """
        Return the accelerator of the target, or `None`. With a `board`, it has modelled times,
        which may be computed in `jobs` processes.
        """
        return None

    @classmethod
    def gap_rule(cls) -> GapRule:
        """
        Return the rule for operations that can read or write rows with gaps, see `takes_runs_only`.
        """
        return takes_runs_only

    def lower(self) -> list[Stage]:
        """
        Return the stages after the quantized graph, of which `PLACED` is the first. They must not
        change the results of the network.
        """
        return []

    def emit(self, module: ModuleOp, title: str) -> Emission:
        """Return the files of a module at the last level. `title` is the name of the network."""
        raise missing_method(type(self), "emit")

    def emit_lengths(
        self, modules: Sequence[ModuleOp], values: Sequence[int], title: str
    ) -> Emission:
        """
        Return the files of a single program for `modules`, the network at each of the ascending
        lengths `values` of an input. Only a target that `accepts_lengths` implements it.
        """
        raise missing_method(type(self), "emit_lengths")

    def temporaries(self, module: ModuleOp) -> list[Artefact]:
        """Return the files that `--save-temps` writes in addition to the IR of each level."""
        return []

    @classmethod
    def viewer_model(cls, module: ModuleOp, title: str) -> tuple[str, bytes] | None:
        """
        Return the suffix and the bytes of a file for network viewers such as Netron, or `None` if
        the target has no such format. Raise an `UnsupportedError` for operations without a
        representation.
        """
        return None

    def open(self, folder: Path, manifest: Manifest) -> Compiled:
        """
        Return the compiled network in `folder`, ready to run. Raise a `MissingToolError` if a
        program for it is not installed; `ceras-verify` then skips the level.
        """
        raise missing_method(type(self), "open")

    def other_machines(
        self, folder: Path, manifest: Manifest
    ) -> Iterator[tuple[str, Emulated | NotEmulated]]:
        """
        Yield the names of further machines that can run the network in `folder`, such as the
        emulated core of a board, and how. `ceras-verify` and `ceras-run --emulate` use them.
        """
        yield from ()

    def interpret(self, module: ModuleOp) -> Executable | None:
        """Return `module` as an executable if this target is the interpreter, else `None`."""
        return None


def require_members(target: type[Target], *names: str) -> None:
    """
    Raise an error if the class `target`, which writes files, lacks one of the methods `names`, or
    if the accelerator of a plugin has no name.
    """
    if target.compiles:
        require_methods(target, Target, *names)
    if plugin_of(target.__module__) and (found := target.accelerator(None)) is not None:
        require_device(target.name, found)


def by_convention(package: str, *names: str) -> dict[str, str]:
    """Map pass names such as `fold-packing` to `fold_packing:FoldPackingPass`."""
    return {name: f"{package}.{name.replace('-', '_')}:{class_name(name)}" for name in names}


def class_name(name: str) -> str:
    """Return the class name of the pass `name`: `FoldPackingPass` for `fold-packing`."""
    return "".join(part.capitalize() for part in name.split("-")) + "Pass"
