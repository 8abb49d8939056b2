"""
Compare forms of convolutions on VTA, in thousands of cycles.

The forms are entire windows, space-to-depth, tap by tap (kn2row), a product with the matrix of
windows that the host computes (im2col), and the split of the window into channels that `auto`
chooses.

    python benchmarks/vta_convolutions.py [--board de10nano]
"""

import argparse

from vta_layers import convolution, lowered
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.reshape_convolutions import (
    Im2colPass,
    SpaceToDepthPass,
    apply_windows,
)
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.backends.vta.rules.placement import WindowSplit, best_windows, host_microseconds
from ceras_ir.backends.vta.schedule.search import Convolution
from ceras_ir.dialects import graph

LAYERS = (
    (224, (3, 64), 7, 2, 1),
    (224, (3, 32), 3, 1, 1),
    (28, (1, 8), 5, 1, 1),
    (64, (3, 64), 7, 1, 1),
    (56, (64, 64), 3, 1, 1),
    (56, (64, 128), 3, 2, 1),
    (56, (64, 64), 3, 1, 12),
    (33, (256, 256), 3, 1, 12),
    (14, (128, 128), 5, 1, 1),
)
"""Rows and columns, channels, window, stride, dilation."""

WAYS: tuple[tuple[ModulePass | None, Convolution], ...] = (
    (None, "direct"),
    (SpaceToDepthPass(), "direct"),
    (None, "kn2row"),
    (Im2colPass(convolution="im2col"), "direct"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="ways to convolve on VTA")
    parser.add_argument("--board", default="de10nano")
    name = parser.parse_args().board
    board = load_board(name)
    print("| layer | direct | space-to-depth | kn2row | im2col | + host | parts | of | + host |")
    print(f"|{'---|' * 9}")
    for size, channels, kernel, stride, dilation in LAYERS:
        cycles: list[str] = []
        for before, way in WAYS:
            module = convolution(size, channels, kernel, stride, dilation)
            if before is not None:
                before.apply(Context(), module)
            cycles.append(thousands(timed(module, way, name)))
        module = convolution(size, channels, kernel, stride, dilation)
        conv = next(op for op in module.walk() if isinstance(op, graph.Conv2dOp))
        whole = WindowSplit.unsplit((kernel, kernel), (stride, stride))
        cycles.append(thousands(host_microseconds(conv, whole, board) * board.clock))
        parts, chosen = best_windows(conv, board), ["-", "-", "-"]
        if parts is not None:
            host = thousands(host_microseconds(conv, parts, board) * board.clock)
            apply_windows(conv, parts)
            chosen = [
                thousands(timed(module, "direct", name)),
                "x".join(map(str, parts.size)),
                host,
            ]
        cells = [
            f"{kernel}x{kernel}/{stride}, {channels[0]} to {channels[1]}, {size} x {size}"
            + (f", dilated by {dilation}" if dilation > 1 else ""),
            *cycles,
            *chosen,
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def thousands(cycles: float) -> str:
    return f"{cycles / 1000:.1f}"


def timed(module: ModuleOp, way: Convolution, name: str) -> int:
    """Return the cycles of the only layer."""
    (launch,) = lowered(module, TilePass(board=name, convolution=way)).launches
    return simulate_time(launch.program.instructions, load_board(name)).cycles


if __name__ == "__main__":
    main()
