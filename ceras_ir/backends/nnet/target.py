"""Define target nnet: a file for the Ceras engine, with CPU and FPGA in a shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ceras_ir.support.options import inherited
from ceras_ir.targets import (
    MEMORY,
    PLACED,
    ROW_SPREAD,
    Accelerator,
    Arithmetic,
    Emission,
    GapRule,
    Manifest,
    Stage,
    Target,
    option,
)
from ceras_ir.targets.shared_options import BoardOptions

if TYPE_CHECKING:
    from pathlib import Path

    from ceras_ir.backends.nnet.engine import CompiledNnet
    from ceras_ir.targets.board_files import BoardSummary


@dataclass(frozen=True)
class NnetTarget(BoardOptions, Target):
    """Compile to a binary file that the Ceras engine executes on CPU and FPGA."""

    name = "nnet"
    arithmetic = Arithmetic(
        floats=False, kernels=False, residual_spread=ROW_SPREAD, factor_points=False, widths=(8,),
        weight_widths=(2, 4, 8),
    )  # fmt: skip
    verified_by_default = True
    keeps_states = True
    programs: ClassVar = {
        "build and run the engine": ("g++", "c++", "clang++"),
        "simulate the circuits": ("verilator",),
    }
    passes: ClassVar = {
        "fuse-lookup": "ceras_ir.backends.nnet.tabulation:FuseLookupPass",
        "tabulate": "ceras_ir.backends.nnet.tabulation:TabulatePass",
    }
    text = "ceras_ir.backends.nnet.reader:NnetText"

    board: str | None = inherited(BoardOptions, "board", None)
    """Place operations by the modelled time on this board: a built-in name or a .toml file."""
    fpga: Literal["cpp", "rtl"] = option(
        "cpp",
        "execute layers of the FPGA in C++, or in the circuits in Verilog, which Verilator "
        "simulates cycle by cycle",
        tools=("ceras-run",),
    )

    @classmethod
    def board_types(cls) -> tuple[type, ...]:
        from ceras_ir.backends.nnet.board import NnetFields

        return (NnetFields,)

    @classmethod
    def check_board(cls, name: str) -> None:
        from ceras_ir.backends.nnet.board import load_board

        load_board(name)

    @classmethod
    def board_summary(cls, name: str) -> BoardSummary:
        from ceras_ir.backends.nnet.board import load_board

        return load_board(name).summary

    @classmethod
    def accelerator(cls, board: str | None, jobs: int = 1) -> Accelerator:
        from ceras_ir.backends.nnet.placement import FpgaAccelerator

        return FpgaAccelerator(board)

    @classmethod
    def why_not(cls, op: Operation) -> str | None:
        from ceras_ir.backends.nnet.writer import why_not_written

        return why_not_written(op)

    @classmethod
    def gap_rule(cls) -> GapRule:
        from ceras_ir.backends.nnet.engine_rules import why_without_gaps

        return why_without_gaps

    def lower(self) -> list[Stage]:
        from ceras_ir.backends.nnet.circuits import ARENA_ALIGNMENT_BYTES
        from ceras_ir.backends.nnet.tabulation import FuseLookupPass, TabulatePass
        from ceras_ir.transforms.graph.fold_affine import SplitAffinePass
        from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
        from ceras_ir.transforms.memory.reorder_for_memory import ReorderForMemoryPass
        from ceras_ir.transforms.placement import PlacePass
        from ceras_ir.transforms.quantization.channel_slopes import SeparateSlopesPass

        allocate = AllocateBlocksPass(
            io=True, alignment=ARENA_ALIGNMENT_BYTES, in_slices=True, target=self.name
        )
        place = PlacePass(self.name, self.board)
        functions = TabulatePass(), FuseLookupPass(), SplitAffinePass(), SeparateSlopesPass()
        return [
            Stage(PLACED, (*functions, place)),
            Stage(
                MEMORY, (ReorderForMemoryPass(io=True, alignment=ARENA_ALIGNMENT_BYTES), allocate)
            ),
        ]

    def emit(self, module: ModuleOp, title: str) -> Emission:
        from ceras_ir.backends.nnet import emit
        from ceras_ir.backends.nnet.placement import annotate_skipped, annotate_times, prediction
        from ceras_ir.network.function import main_function, states_of
        from ceras_ir.transforms.memory.liveness import byte_size

        files, board = emit(module), self.board
        states = [byte_size(state.argument) for state in states_of(main_function(module))]
        totals: dict[str, object] = {"state_bytes": sum(states)} if states else {}

        def annotate(layers: list[dict[str, object]]) -> None:
            if board is not None:
                annotate_times(layers, module, board)
            annotate_skipped(layers, module)

        times = None if board is None else prediction(board)
        return Emission(files, totals=totals, annotate=annotate, prediction=times)

    def open(self, folder: Path, manifest: Manifest) -> CompiledNnet:
        from ceras_ir.backends.nnet.engine import CompiledNnet, Rtl

        return CompiledNnet(folder, Rtl() if self.fpga == "rtl" else None)
