"""Target vta: instruction streams for VTA and the C of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.machine.isa import RESIDUAL_WEIGHT_BITS, VtaBoardOptions
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import docstring, inherited
from ceras_ir.targets import (
    MEMORY,
    PLACED,
    Accelerator,
    Arithmetic,
    Emission,
    Manifest,
    RunAction,
    Stage,
    Target,
    option,
)
from ceras_ir.targets.protocol import class_name
from ceras_ir.targets.shared_options import ScheduleJobsOptions, TuneOptions

if TYPE_CHECKING:
    from pathlib import Path

    from ceras_ir.backends.c.runner import CompiledC
    from ceras_ir.dialects.graph import LinearOperation, UnaryOp
    from ceras_ir.network.artefacts import Artefact
    from ceras_ir.targets.board_files import BoardSummary

Streams: TypeAlias = Literal["merged", "layers"]

ConvolutionMethod: TypeAlias = Literal["auto", "direct", "im2col", "kn2row"]
"""The method for convolutions; see the passes `im2col` and `schedule-tiles`."""


@dataclass(frozen=True)
class VtaTarget(TuneOptions, ScheduleJobsOptions, VtaBoardOptions, Target):
    """The instructions and the DRAM image of each launch, and the C of the host."""

    name = "vta"
    arithmetic = Arithmetic(
        floats=False,
        multipliers=False,
        kernels=False,
        costly_channel_shifts=True,
        residual_spread=RESIDUAL_WEIGHT_BITS,
        even_shifts=False,
        half_even=False,
        factor_points=False,
        widths=(8,),
    )
    verified_by_default = True
    board_suffixes = (".toml", ".json")
    text = "ceras_ir.backends.vta.emit:VtaText"
    dialects: ClassVar = {
        "tile": "ceras_ir.dialects.tile:Tile",
        "vta": "ceras_ir.backends.vta.machine.dialect:Vta",
    }
    interpreters: ClassVar = dict.fromkeys(
        ("memref", "tile"), "ceras_ir.backends.vta.interpreter:TileFunctions"
    )
    programs: ClassVar = {
        "build and run the layers of the host": ("cc",),
        "build the simulator": ("g++", "c++", "clang++"),
    }
    passes: ClassVar = {
        name: f"ceras_ir.backends.vta.passes.{module}:{class_name(name)}"
        for module, names in {
            "convert_graph_to_tile": ("convert-graph-to-tile",),
            "fold_packing": ("fold-packing",),
            "launches": ("convert-tile-to-vta", "gather-launches", "merge-launches"),
            "reshape_convolutions": ("im2col", "space-to-depth"),
            "sort_channels": ("sort-channels",),
            "tiling": ("expand-tiles", "schedule-tiles", "tile"),
            "tuning": ("tune-tiles",),
        }.items()
        for name in names
    }
    run_actions: ClassVar = {
        "--vta-stream": RunAction(
            "FILE",
            "instead of a model: print the cycles of a VTA stream, raw or as .vtas text, on "
            "--board; with --inputs and --outputs, flat DRAM images, execute it as well",
            "ceras_ir.backends.vta.execution.stream_file:run_stream",
            {
                "--check": "prove it correct first: tokens, races, ranges, uninitialized data; "
                "for a raw stream, --inputs must have the micro-ops",
                "--relies": "list dependences on behavior that not all VTAs share, and test "
                "whether results depend on initial on-chip contents or on the order of modules",
                "--zeroed": "execute it on zeroed on-chip memories, as in some simulators, instead "
                "of noise",
            },
            {
                "--dram-base": (
                    "ADDRESS",
                    "the address of the first byte of the image for VTA (0); --inputs may list "
                    "several files with addresses, FILE@ADDRESS,FILE@ADDRESS",
                ),
                "--pointers": (
                    "MEMORY=ADDRESS,...",
                    "the contents of the base registers of VTA (0), for uop, wgt, inp, acc and out",
                ),
            },
        )
    }

    convolution: ConvolutionMethod = option(
        "auto",
        "compute windows of several taps with all their inputs on chip (direct), as a product "
        "with a matrix of the host (im2col), or tap by tap (kn2row); auto: by modelled time",
    )
    streams: Streams = option(
        "merged",
        "create a common stream for layers without work of the CPU between them, with early "
        "loads of the next layer (merged), or a stream for each layer (layers)",
    )
    vta_runner: str | None = option(
        None,
        "run each launch in this program instead of the built-in simulator: {config} is the JSON "
        "of VTA, {dram} the flat DRAM image before, {insns} the raw instructions, {out} the file "
        "to which the program writes the image after",
        metavar="'CMD {config} {dram} {insns} {out}'",
        tools=("ceras-run",),
    )
    tune_runner: str | None = inherited(
        TuneOptions, "tune_runner", None, metavar="'CMD {config} {dram} {insns} {out}'"
    )
    """
    With --tune: the program that runs each layer, as --vta-runner of ceras-run, and prints the
    cycles as its last line.
    """

    def check(self) -> None:
        super().check()
        if self.jobs < -1 or self.jobs == 0:
            raise UsageError(f"--jobs must be at least 1, or -1 for all cores, got {self.jobs}")
        if self.tune_runner is not None:
            from ceras_ir.backends.vta.execution.runner import check_command

            if not self.tune:
                raise UsageError("--tune-runner is for --tune")
            check_command(self.tune_runner)

    @classmethod
    def board_types(cls) -> tuple[type, ...]:
        from ceras_ir.backends.vta.machine.board_fields import VtaFields

        return (VtaFields,)

    @classmethod
    def device_rules(cls) -> Sequence[str]:
        from ceras_ir.backends.vta.rules.admission import ADMISSION_RULES, OTHER_RULES

        return [docstring(rule) for rule in (*ADMISSION_RULES, *OTHER_RULES)]

    @classmethod
    def check_board(cls, name: str) -> None:
        from ceras_ir.backends.vta.machine.board import load_board

        load_board(name)

    @classmethod
    def board_summary(cls, name: str) -> BoardSummary:
        from ceras_ir.backends.vta.machine.board import load_board

        return load_board(name).summary

    def form_offer(self) -> Callable[[UnaryOp, LinearOperation], str]:
        from ceras_ir.backends.vta.machine.board import load_board
        from ceras_ir.backends.vta.rules.placement import form_for_alu

        return form_for_alu(load_board(self.board))

    @classmethod
    def why_not(cls, op: Operation) -> str | None:
        from ceras_ir.backends.c.target import why_not_printed

        return why_not_printed(op)

    @classmethod
    def accelerator(cls, board: str | None, jobs: int = 1) -> Accelerator:
        from ceras_ir.backends.vta.rules.placement import VtaAccelerator

        return VtaAccelerator(board, jobs)

    def lower(self) -> list[Stage]:
        from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
        from ceras_ir.backends.vta.passes.fold_packing import FoldPackingPass
        from ceras_ir.backends.vta.passes.launches import GatherLaunchesPass, MergeLaunchesPass
        from ceras_ir.backends.vta.passes.reshape_convolutions import Im2colPass, SpaceToDepthPass
        from ceras_ir.backends.vta.passes.sort_channels import SortChannelsPass
        from ceras_ir.backends.vta.passes.tiling import TilePass
        from ceras_ir.backends.vta.passes.tuning import TuneTilesPass
        from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
        from ceras_ir.transforms.placement import PlacePass
        from ceras_ir.transforms.quantization.fit_inputs import FoldFactorPass

        board = self.board
        reshaping: tuple[ModulePass, ...]
        match self.convolution:
            case "im2col":
                reshaping = (Im2colPass(board, "im2col"),)
            case "auto":
                reshaping = (Im2colPass(board=board), SpaceToDepthPass(board))
            case _:
                reshaping = (SpaceToDepthPass(board),)
        placing = PlacePass(self.name, board, self.jobs)
        windows = "auto" if self.convolution == "im2col" else self.convolution
        tiling = TilePass(board=board, convolution=windows, jobs=self.jobs)
        tuning: tuple[ModulePass, ...] = ()
        is_merged = self.streams == "merged"
        if self.tune:
            tuning = (TuneTilesPass(board, windows, is_merged, self.tune_runner),)
        gathering = (GatherLaunchesPass(),) if is_merged else ()
        merging = (MergeLaunchesPass(),) if is_merged else ()
        return [
            Stage(PLACED, (FoldFactorPass(), SortChannelsPass(board), *reshaping, placing)),
            Stage("packed graph", (ConvertGraphToTilePass(board), FoldPackingPass(), *gathering)),
            Stage("tile", (*tuning, tiling)),
            Stage(MEMORY, (AllocateBlocksPass(), *merging)),
        ]

    def emit(self, module: ModuleOp, title: str) -> Emission:
        from ceras_ir.backends.c.emitter import emit as emit_host
        from ceras_ir.backends.vta.emit import emit

        emission = emit(module, self.board)
        return replace(emission, artefacts=[*emit_host(module), *emission.artefacts])

    def temporaries(self, module: ModuleOp) -> list[Artefact]:
        from ceras_ir.backends.vta.emit import pictures

        return pictures(module, self.board)

    def open(self, folder: Path, manifest: Manifest) -> CompiledC:
        from ceras_ir.backends.c.runner import CompiledC
        from ceras_ir.backends.vta.execution.runner import open_package

        image, runner = open_package(folder, manifest.content, self.vta_runner)
        # Without launches, it is a C network with a workspace in a separate arena.
        shared = image if runner.streams else None
        return CompiledC(folder, manifest.inputs, manifest.outputs, runner.launch, shared)
