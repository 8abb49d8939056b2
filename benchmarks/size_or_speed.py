"""
Compare flash and instructions of `--optimize size|balanced|speed` on a Cortex-M4 with the
predictions.

    python benchmarks/size_or_speed.py MODEL.onnx... [--calibrate DATA.npz] [--board NAME]
    python benchmarks/size_or_speed.py MODEL.onnx... --levels

The program is linked, and runs under qemu. With `--levels`, each set of kernels is compiled with
each optimization level, and code and instructions are printed relative to -Os: the numbers of
`LEVEL_COSTS`.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from firmware import sizes, write_files
from rich.console import Console
from rich.table import Table
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.emitter import files_of
from ceras_ir.backends.c.emulator import EmulatedModel, available
from ceras_ir.backends.c.machines import Board, COptions, load_board
from ceras_ir.backends.c.model import PrintedModel
from ceras_ir.backends.c.optimize import LEVELS, choose, printed_with_all_kernels
from ceras_ir.backends.c.target import CTarget
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions

BOARD = "nano_33_ble"
"""The flash holds the filters of all layers."""


def compiled(path: str, data: str | None, board: str) -> ModuleOp:
    """Compile the network in int8, with planned memory."""
    options = BuildOptions(CTarget(board=board), quantize="int8", calibration=data, io="int8")
    return build(read_network(path), options).module


def counted(module: ModuleOp, model: PrintedModel, board: Board) -> tuple[int, float]:
    """
    Return the flash of the linked program, and the instructions of an inference, and assert that
    the results are correct.
    """
    main = main_function(module)
    ends = network_inputs(main), network_outputs(main)
    rng = np.random.default_rng(0)
    sample = {t.name: rng.integers(-128, 128, t.shape).astype(t.dtype) for t in ends[0]}
    with tempfile.TemporaryDirectory(prefix="ceras-optimize-") as name:
        work = Path(name)
        write_files(files_of(model), work / "model")
        sources = sorted((work / "model").glob("model*.c"))
        emulated = EmulatedModel(sources, *ends, board, work, flags=(model.options.level,))
        (result,) = emulated.run([sample])
        for key, right in run(module, sample).items():
            assert np.array_equal(result[key], right), key
        return sizes(work / "firmware.elf").flash, emulated.instructions[0]


def goals(module: ModuleOp, board: Board, table: Table, name: str) -> None:
    """Add a row for each goal."""
    found = choose(module, board, "model", levels=LEVELS).goals
    measured = {goal: counted(module, each.model, board) for goal, each in found.items()}
    smallest, fastest = measured["size"][0], measured["speed"][1]
    for goal, candidate in found.items():
        flash, instructions = measured[goal]
        table.add_row(
            name,
            goal,
            candidate.options.level,
            candidate.kernels,
            f"{candidate.flash:,}",
            f"{flash:,}",
            f"{flash / smallest:.2f}",
            f"{candidate.cycles:,.0f}",
            f"{instructions:,.0f}",
            f"{instructions / fastest:.2f}",
        )


def levels(module: ModuleOp, board: Board, table: Table, name: str) -> None:
    """Add a row for each set of kernels."""
    base = COptions("model", vectors=False)
    for model in printed_with_all_kernels(module, board, base):
        rows = [*_at_levels(module, model, board)]
        code = [flash - model.pool.nbytes for flash, _ in rows]
        table.add_row(
            name,
            "dsp" if model.options.dsp else "loops",
            *(f"{size / code[0]:.2f}" for size in code[1:]),
            *(f"{count / rows[0][1]:.2f}" for _, count in rows[1:]),
        )


def _at_levels(module: ModuleOp, model: PrintedModel, board: Board) -> Iterator[tuple[int, float]]:
    for level in LEVELS:
        yield counted(module, replace(model, options=replace(model.options, level=level)), board)


def main() -> None:
    parser = argparse.ArgumentParser(description="--optimize on a Cortex-M4")
    parser.add_argument("models", nargs="+", metavar="MODEL.onnx")
    parser.add_argument("--calibrate", metavar="DATA.npz", help="calibration data of the models")
    parser.add_argument("--board", default=BOARD, help="(default: %(default)s)")
    parser.add_argument("--levels", action="store_true", help="compare optimization levels")
    arguments = parser.parse_args()
    if not available():
        parser.exit(1, "needs arm-none-eabi-gcc and qemu-system-arm\n")
    board, table = load_board(arguments.board), Table(box=None, pad_edge=False)
    table.add_column("network")
    if arguments.levels:
        headings = ["kernels", *(f"{kind} {n}" for kind in ("code", "count") for n in LEVELS[1:])]
    else:
        headings = ["goal", "level", "kernels", "predicted flash", "linked", "of smallest"]
        headings += ["predicted instructions", "counted", "of fewest"]
    for heading in headings:
        table.add_column(heading, justify="right")
    for path in arguments.models:
        module = compiled(path, arguments.calibrate, arguments.board)
        add = levels if arguments.levels else goals
        add(module, board, table, Path(path).stem)
    Console(highlight=False, width=160).print(table)


if __name__ == "__main__":
    main()
