"""Define target c: portable C99 for hosts and bare microcontrollers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ceras_ir.backends.c.names import (
    EncodingChoice,
    EncodingOptions,
    OptimizeOptions,
    Package,
    Prefix,
    PrefixOptions,
    WeightStorage,
)
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import inherited
from ceras_ir.targets import (
    MEMORY,
    PLACED,
    PROCESSOR_ARITHMETIC,
    Emission,
    Emulated,
    Manifest,
    NotEmulated,
    Stage,
    Target,
    option,
)
from ceras_ir.targets.shared_options import BoardOptions, TuneOptions
from ceras_ir.transforms.memory.region_options import RegionOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ceras_ir.backends.c.machines import Board, COptions, Machine
    from ceras_ir.backends.c.model import PrintedModel
    from ceras_ir.backends.c.optimize import Choice
    from ceras_ir.backends.c.runner import CompiledC
    from ceras_ir.network.artefacts import Artefact
    from ceras_ir.targets.board_files import BoardSummary


@dataclass(frozen=True)
class CTarget(
    TuneOptions,
    RegionOptions,
    PrefixOptions,
    EncodingOptions,
    OptimizeOptions,
    BoardOptions,
    Target,
):
    """Readable C99 without malloc, in a static arena, for hosts and microcontrollers."""

    name = "c"
    arithmetic = PROCESSOR_ARITHMETIC
    verified_by_default = True
    runs_natively = True
    keeps_states = True
    accepts_lengths = True
    programs: ClassVar = {
        "build and run on this machine": ("cc",),
        "build for Cortex-M": ("arm-none-eabi-gcc",),
        "emulate Cortex-M": ("qemu-system-arm",),
    }
    passes: ClassVar = {
        "choose-encodings": "ceras_ir.backends.c.passes:ChooseEncodingsPass",
        "encode-weights": "ceras_ir.backends.c.passes:EncodeWeightsPass",
        "store-unsigned": "ceras_ir.backends.c.passes:StoreUnsignedPass",
    }
    text = "ceras_ir.backends.c.emitter:CText"

    weights: WeightStorage = option(
        "source",
        "store constants as string literals (source), in a file that the program loads (file), "
        "or in a file that the assembler includes (incbin)",
    )
    winograd: bool = option(
        True,
        "compute float 3x3 windows directly, without the faster Winograd transforms",
        unused="the network has no float 3x3 windows for which a transform is faster",
    )
    python_wrapper: bool = option(
        False,
        "make the folder a Python module: import it and call run() on numpy arrays",
        tools=("ceras-compile",),
    )
    package: Package | None = option(
        None,
        "make the folder a package of this framework: a Zephyr module, a component of ESP-IDF, a "
        "CMSIS-Pack, or a library of PlatformIO",
        tools=("ceras-compile",),
    )
    tune_runner: str | None = inherited(TuneOptions, "tune_runner", None, metavar="'CMD {binary}'")
    """
    With --tune: the command that runs a program and prints the output, such as a script that first
    copies it to a board.
    """

    @classmethod
    def board_types(cls) -> tuple[type, ...]:
        from ceras_ir.backends.c.machines import Board, Computer

        return Board, Computer

    @classmethod
    def check_board(cls, name: str) -> None:
        from ceras_ir.backends.c.machines import load_machine

        load_machine(name)

    @classmethod
    def board_summary(cls, name: str) -> BoardSummary:
        from ceras_ir.backends.c.machines import load_machine

        return load_machine(name).summary

    def check(self) -> None:
        super().check()
        prefix = Prefix(self.prefix)
        if self.regions:
            from ceras_ir.transforms.memory.regions import parse_regions

            parse_regions(self.regions)
        if self.package is not None:
            from ceras_ir.backends.c.packages import check_package

            check_package(self.package, prefix, self.weights)
        if self.tune_runner is not None and not self.tune:
            raise UsageError("--tune-runner requires --tune")
        if self.tune_runner is not None and "{binary}" not in self.tune_runner:
            raise UsageError("--tune-runner must contain {binary}, the name of the program")
        if self.tune and self._is_microcontroller:
            raise UsageError("--tune is for computers, and the board is a microcontroller")
        if self.tune and self.board is not None and self.tune_runner is None:
            raise UsageError("--tune for another machine needs --tune-runner 'CMD {binary}'")
        if self.weights != "source" and self._is_microcontroller:
            raise UsageError(f"--weights {self.weights} is for computers: remove the option")

    @property
    def _machine(self) -> Machine | Board:
        from ceras_ir.backends.c.machines import NATIVE_MACHINE, load_machine

        return NATIVE_MACHINE if self.board is None else load_machine(self.board)

    @property
    def _is_microcontroller(self) -> bool:
        if self.board is None:
            return False
        from ceras_ir.backends.c.machines import Board

        return isinstance(self._machine, Board)

    @classmethod
    def why_not(cls, op: Operation) -> str | None:
        return why_not_printed(op)

    def for_host(self) -> Self:
        # C compilers are slow on long string literals. Microcontrollers have no files.
        return self if self._is_microcontroller else replace(self, weights="file")

    def encode(self) -> list[Stage]:
        return [] if self.encoding is None else [encoding_stage(self.encoding)]

    def lower(self) -> list[Stage]:
        return lowered(self.regions, self.board if self._is_microcontroller else None)

    def emit(self, module: ModuleOp, title: str) -> Emission:
        from ceras_ir.backends.c.emitter import files_of
        from ceras_ir.backends.c.fit import on_board

        notes: list[str] = []
        choice = self._chosen(module)
        model = self._printed(module, notes) if choice is None else choice.model
        if choice is None:
            return self._emission(model, notes)
        files = files_of(model, self.package)
        if self.python_wrapper:
            files.append(importable())
        manifest = model.options.prefix.entry()
        return on_board(files, manifest | {"board": self.board}, choice)

    def emit_lengths(
        self, modules: Sequence[ModuleOp], values: Sequence[int], title: str
    ) -> Emission:
        from ceras_ir.backends.c.emitter import build_lengths, files_of
        from ceras_ir.backends.c.fit import check_fit, on_board

        choice = self._chosen(modules[-1])
        if choice is None:
            return self._emission(build_lengths(modules, values, self._options()), [])
        # Filters are stored for layers of the largest length only.
        options = replace(choice.model.options, stored_filters=frozenset())
        choice = choice.of_model(build_lengths(modules, values, options))
        check_fit(choice.model, choice.footprint)
        manifest = choice.model.options.prefix.entry() | {"board": self.board}
        return on_board(files_of(choice.model, self.package), manifest, choice)

    def check_lengths(self) -> None:
        unsupported = {
            "--python-wrapper": self.python_wrapper,
            "--tune": self.tune,
            "--regions": self.regions,
        }
        for flag, given in unsupported.items():
            if given:
                raise UsageError(
                    f"{flag} needs a single length: give a single shape, or remove the option"
                )

    def _emission(self, model: PrintedModel, notes: list[str]) -> Emission:
        """Return the files of a network for a computer."""
        from ceras_ir.backends.c.costs import annotate, latency_of
        from ceras_ir.backends.c.emitter import files_of

        files = files_of(model, self.package)
        if self.python_wrapper:
            files.append(importable())
        manifest = model.options.prefix.entry()
        latency = latency_of(model, self._machine)
        return Emission(
            files,
            manifest,
            totals=model.memory_totals() | {"sram_bytes": model.arena_bytes},
            notes=notes,
            figures={} if latency else {"time": "no model of this machine"},
            annotate=lambda layers: annotate(layers, model.layers, latency),
            prediction=None if latency is None else latency.prediction,
            buffers=model.added_buffers,
        )

    def _printed(self, module: ModuleOp, notes: list[str]) -> PrintedModel:
        """
        Return the network as printed C for a computer (not a microcontroller). With `--tune`, a
        sentence about the measured choices is appended to `notes`.
        """
        from ceras_ir.backends.c.emitter import build

        options = self._options()
        if self.tune:
            from ceras_ir.backends.c.tuning import tuned

            found = tuned(module, options, self.tune_runner)
            options = replace(options, choices=found.choices)
            notes.append(found.line())
        return build(module, options)

    def _options(self) -> COptions:
        from ceras_ir.backends.c.machines import COptions, Machine

        prefix, machine = Prefix(self.prefix), self._machine
        assert isinstance(machine, Machine)
        winograd = COptions.winograd if self.winograd else 0
        level = "-Os" if self.optimize == "size" else "-O3"
        return COptions(prefix.name, prefix, self.weights, machine, winograd=winograd, level=level)

    def _chosen(self, module: ModuleOp) -> Choice | None:
        """
        Return the build for a microcontroller: kernels and optimization level by the goal of
        `--optimize`. Return `None` for a computer. A network that does not fit the memories of the
        board raises `DoesNotFitError`.
        """
        from ceras_ir.backends.c.fit import check_fit
        from ceras_ir.backends.c.machines import Machine, bare_machine
        from ceras_ir.backends.c.optimize import LEVELS, choose

        prefix, board = Prefix(self.prefix), self._machine
        if isinstance(board, Machine):
            return None
        choice = choose(
            module,
            board,
            prefix.name,
            goal=self.optimize,
            levels=LEVELS,
            machine=bare_machine(board),
            prefix=prefix,
        )
        check_fit(choice.model, choice.footprint)
        return choice

    def open(self, folder: Path, manifest: Manifest) -> CompiledC:
        from ceras_ir.backends.c.runner import CompiledC
        from ceras_ir.network.length_table import LengthTable

        prefix = Prefix.of_manifest(manifest.content)
        tensors = manifest.inputs, manifest.outputs
        lengths = LengthTable.from_manifest(manifest.content, *tensors)
        return CompiledC(folder, *tensors, prefix=prefix, lengths=lengths)

    def other_machines(
        self, folder: Path, manifest: Manifest
    ) -> Iterator[tuple[str, Emulated | NotEmulated]]:
        from ceras_ir.backends.c.emulator import emulated_core

        return emulated_core(folder, manifest)


def importable() -> Artefact:
    from importlib.resources import files

    from ceras_ir.network.artefacts import Artefact

    text = files("ceras_ir.backends.c") / "runtime" / "importable.py"
    return Artefact.of_text(
        "__init__.py", "run() on numpy arrays: import this folder", text.read_text("utf-8")
    )


def why_not_printed(op: Operation) -> str | None:
    """Return the reason why the C backend does not support an operation, or `None` if it does."""
    from ceras_ir.backends.c.layer import printer_of

    return None if printer_of(op) else f"there is no C for '{op.name}'"


def encoding_stage(encoding: EncodingChoice, board: str | None = None) -> Stage:
    """
    Return the stage of the pipeline that chooses how the weights of float matrix products are
    stored in flash (dense, sparse, int8 or code). The storage fixes the order of float sums, so the
    stage may change results. `board` limits the flash for the encoding `auto`.
    """
    from ceras_ir.backends.c.passes import EncodeWeightsPass

    return Stage("encoded graph", (EncodeWeightsPass(encoding, board),), changes_values=True)


def lowered(regions: tuple[str, ...] = (), board: str | None = None) -> list[Stage]:
    """
    Return the stages that lower a network to memory addresses: the placement of operations on the
    CPU, and the plan of the arena. `regions` are the memories of `--regions`, and `board` is the
    name of a microcontroller, or `None` for a computer.
    """
    from ceras_ir.backends.c.passes import ChooseEncodingsPass, StoreUnsignedPass
    from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
    from ceras_ir.transforms.memory.read_states import ReadStatesPass
    from ceras_ir.transforms.memory.reorder_for_memory import ReorderForMemoryPass
    from ceras_ir.transforms.memory.update_states import UpdateStatesPass
    from ceras_ir.transforms.placement import PlacePass
    from ceras_ir.transforms.quantization.fit_inputs import FoldFactorPass

    states = UpdateStatesPass(), ReadStatesPass()
    placed = FoldFactorPass(), *states, PlacePass(), ChooseEncodingsPass(board)
    if board is None:
        placed = *placed, StoreUnsignedPass()
    allocate = AllocateBlocksPass(regions=regions, in_slices=not regions)
    return [Stage(PLACED, placed), Stage(MEMORY, (ReorderForMemoryPass(), allocate))]
