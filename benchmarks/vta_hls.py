"""
S3's matrix products on VTA's HLS source: cycles of Algorithm 3 as S3's times tell them, and of
`schedule=auto`, in every model that agrees with those times (`vta_hls_fit.py`).

    python benchmarks/vta_hls.py [--board zcu104]
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

from vta_hls_fit import MEGAHERTZ, MOST, Point, all_fits, cycles
from vta_layers import S3_GEMMS, gemm, lowered

from ceras_ir.backends.vta.board import load_board
from ceras_ir.backends.vta.checker import check_program
from ceras_ir.backends.vta.hls_timing import HlsTiming
from ceras_ir.backends.vta.passes.tile import TilePass
from ceras_ir.backends.vta.timed_simulator import simulate_time


def main() -> None:
    parser = argparse.ArgumentParser(description="S3's matrix products on VTA's HLS source")
    parser.add_argument("--board", default="zcu104")
    arguments = parser.parse_args()
    board = load_board(arguments.board)
    fits = [fit for fit in all_fits() if fit.error <= MOST]
    models = list(dict.fromkeys(fit.model for fit in fits))
    gains = np.zeros((len(fits), len(S3_GEMMS)))
    print(f"| M K N | Algorithm 3, ms | auto, ms | gain | median |\n|{'---|' * 5}")
    for column, size in enumerate(S3_GEMMS):
        image = lowered(gemm(*size)[0], TilePass(board=arguments.board))
        (launch,) = image.launches
        stream = launch.program.instructions
        assert check_program(launch.program, replace(board), image.size) == []
        ours = {
            model: simulate_time(stream, board, HlsTiming.with_model(model, board)).cycles
            for model in models
        }
        theirs = [cycles(Point("alg3", size, 0.0), fit.model, fit.variant) for fit in fits]
        times = np.array([ours[fit.model] for fit in fits])
        gains[:, column] = np.array(theirs) / times
        cells = [
            " ".join(map(str, size)),
            *(
                f"{min(v) / MEGAHERTZ / 1000:.2f} to {max(v) / MEGAHERTZ / 1000:.2f}"
                for v in (theirs, list(ours.values()))
            ),
            f"{gains[:, column].min():.2f} to {gains[:, column].max():.2f}",
            f"{np.median(gains[:, column]):.2f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    means = gains.mean(axis=1)
    print(
        f"\n{len(fits)} ways to explain S3's times, {len(models)} models of the device; mean gain "
        f"of the ten sizes: {means.min():.2f} in the worst, {np.median(means):.2f} in the median"
    )


if __name__ == "__main__":
    main()
