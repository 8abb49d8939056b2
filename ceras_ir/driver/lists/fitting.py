"""
Implement `ceras-boards --model`: compile a model for each board of a target, without files, and
print the memory and the predicted time.

Each board is compiled as by `ceras-compile --board`, because kernels, and with `--budget` the bits
of layers, depend on the board.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ceras_ir.command.tool_parser import ToolParser, add_options
from ceras_ir.driver.build_options import add_build_options, build_options
from ceras_ir.driver.data_options import calibration_workers
from ceras_ir.driver.model_options import read_model
from ceras_ir.driver.target_options import (
    BOARD,
    TargetClass,
    add_target,
    add_target_options,
    compiling_targets,
    named_target,
    native_target,
    target_of,
)
from ceras_ir.pipeline.context import plugins
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import (
    DoesNotFitError,
    InputError,
    UnsupportedError,
    UsageError,
    aligned,
    progress,
)
from ceras_ir.targets.registry import with_board

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

MEMORIES = {"flash": "flash_bytes", "SRAM": "sram_bytes"}


def make_parser(target: TargetClass) -> ToolParser:
    """Return the parser of `ceras-boards --model`, with the options of `target`."""
    parser = ToolParser(
        "ceras-boards",
        description="Compile a model for each board with limited memory, without files, and print "
        "the used memory, the memory that a model can use, and the predicted time.",
        epilog="Exit status: 0 if a board fits, 1 if none fits or bad input, 2 wrong usage.",
    )
    parser.add_argument("--model", metavar="MODEL.onnx", required=True, help="an ONNX model")
    parser.add_argument(
        "boards",
        nargs="*",
        metavar="NAME|FILE",
        help="compile for these boards (default: all with limited memory)",
    )
    add_target(parser, compiling_targets(), f"boards of this target (default: {target.name})")
    add_build_options(parser)
    add_options(parser, BuildOptions, ["io"])
    add_target_options(parser, [target])
    return parser


@dataclass(frozen=True)
class BoardResult:
    """The result of compiling the model for a board."""

    board: str
    part: str
    totals: Mapping[str, float] = field(default_factory=dict[str, float])
    reason: str = ""
    """The reason why the model does not fit; empty if it fits."""

    def row(self) -> list[str]:
        """Return the cells of a row of the printed table."""
        from ceras_ir.pipeline.summary import duration

        sizes = [
            f"{self.totals[key]:,.0f}" if key in self.totals else ""
            for total in MEMORIES.values()
            for key in (total, f"board_{total}")
        ]
        latency = self.totals.get("latency_us")
        time = ("" if self.reason else "no model") if latency is None else duration(latency)
        return [self.board, self.part, *sizes, time, f"no: {self.reason}" if self.reason else "yes"]


def compare_boards(argv: Sequence[str]) -> int:
    """
    Compile the model for each board, print the results, boards that fit first, and return the exit
    status.
    """
    with plugins(argv):
        target = named_target(argv, compiling_targets()) or native_target()
        parser = make_parser(target)
        arguments = parser.read(argv)
        if BOARD in parser.given:
            raise UsageError("--model compares boards: name them without --board")
        parts = _parts(target, arguments.boards)
        with calibration_workers(arguments):
            module = read_model(arguments)
            options = build_options(arguments, target_of(target, arguments))
            is_quantized = options.resolved(module).is_quantized
            found = [
                _on_board(module, arguments, target, name, parts[name])
                for name in progress(list(parts), f"compiling for {len(parts)} boards")
            ]
    found.sort(key=lambda result: bool(result.reason))
    heading = ["board", "core or part", *(h for name in MEMORIES for h in (name, "of"))]
    rows = [[*heading, "time", "fits"], *(result.row() for result in found)]
    print("\n".join(aligned(rows, right=range(2, 7))))
    if not is_quantized:
        print("\nThese are figures of float arithmetic. For int8, add --calibrate DATA.npz.")
    if all(result.reason for result in found):
        raise InputError(
            f"fits none of {len(found)} boards of target {target.name}; ceras-compile with --board "
            "prints remedies",
            arguments.model,
        )
    return 0


def _parts(target: TargetClass, boards: Sequence[str]) -> dict[str, str]:
    """
    Return the core or chip of each of `boards` (default: all boards of `target`) that has limited
    memory.
    """
    for board in boards:
        target.check_board(board)
    summaries = {name: target.board_summary(name) for name in boards or target.boards()}
    parts = {name: each.part for name, each in summaries.items() if each.memory}
    if unlimited := [board for board in boards if board not in parts]:
        raise UsageError(f"board '{unlimited[0]}' has no limited memory: a model always fits")
    if not parts:
        raise UsageError(f"target {target.name} has no boards with limited memory")
    return parts


def _on_board(
    module: "ModuleOp", arguments: argparse.Namespace, target: TargetClass, board: str, part: str
) -> BoardResult:
    from ceras_ir.pipeline.build import build
    from ceras_ir.pipeline.totals import total_figures

    options = build_options(arguments, with_board(target_of(target, arguments), board))
    options.check()
    try:
        report = build(module.clone(), options).report
    except DoesNotFitError as error:
        lacking = [
            name
            for name, total in MEMORIES.items()
            if error.totals[total] > error.totals[f"board_{total}"]
        ]
        return BoardResult(board, part, error.totals, " and ".join(lacking))
    except UnsupportedError as error:
        return BoardResult(board, part, reason=str(error).partition("\n")[0])
    return BoardResult(board, part, total_figures(report))
