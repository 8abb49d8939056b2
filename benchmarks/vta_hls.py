"""
Compare S3's matrix products on the HLS source of VTA with `schedule=auto`, in cycles.

The cycles of Algorithm 3 are derived from the times of S3. All models that agree with these times
are used (`vta_hls_fit.py`). `--network` measures ResNet-18 at 256 x 256 instead. S3 reports 156.5
ms for the convolutions except the first (Figure 10).

    python benchmarks/vta_hls.py [--board zcu104] [--network]
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

from networks import resnet18
from vta_hls_fit import FIGURE_10, MEGAHERTZ, MOST, Point, all_fits, cycles
from vta_layers import S3_GEMMS, gemm, lowered

from ceras_ir.backends.vta.execution.image import build_image
from ceras_ir.backends.vta.machine.board import HlsModel, VtaBoard, load_board
from ceras_ir.backends.vta.machine.check import check_program
from ceras_ir.backends.vta.machine.hls_models import MODELS
from ceras_ir.backends.vta.machine.isa import Instruction
from ceras_ir.backends.vta.machine.time import Timing, simulate_time
from ceras_ir.backends.vta.passes.tiling import TilePass
from ceras_ir.backends.vta.target import VtaTarget
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions


def milliseconds(stream: Sequence[Instruction], board: VtaBoard, model: HlsModel) -> float:
    """Return the milliseconds of a stream at the clock of S3."""
    run = simulate_time(stream, board, Timing.hls(model, board))
    return run.cycles / MEGAHERTZ / 1000


def products(name: str) -> None:
    """Print both schedules for each size in Table 2 of S3."""
    board = load_board(name)
    fits = [fit for fit in all_fits() if fit.error <= MOST]
    models = list(dict.fromkeys(fit.model for fit in fits))
    gains = np.zeros((len(fits), len(S3_GEMMS)))
    print(f"| M K N | Algorithm 3, ms | auto, ms | gain | median |\n|{'---|' * 5}")
    for column, size in enumerate(S3_GEMMS):
        image = lowered(gemm(*size)[0], TilePass(board=name))
        (launch,) = image.launches
        assert check_program(launch.program, board, image.size) == []
        stream = launch.program.instructions
        ours = {model: milliseconds(stream, board, model) for model in models}
        point = Point("alg3", size, 0.0)
        theirs = [cycles(point, f.model, f.variant) / MEGAHERTZ / 1000 for f in fits]
        gains[:, column] = np.array(theirs) / np.array([ours[fit.model] for fit in fits])
        cells = [
            " ".join(map(str, size)),
            *(f"{min(v):.2f} to {max(v):.2f}" for v in (theirs, list(ours.values()))),
            f"{gains[:, column].min():.2f} to {gains[:, column].max():.2f}",
            f"{np.median(gains[:, column]):.2f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    means = gains.mean(axis=1)
    print(
        f"\n{len(fits)} ways to explain S3's times, {len(models)} models of the device; mean gain "
        f"of the ten sizes: {means.min():.2f} in the worst, {np.median(means):.2f} in the median"
    )


def network(name: str) -> None:
    """Print ResNet-18 in the models that choose schedules, and the part that S3 measured."""
    board = load_board(name)
    with tempfile.TemporaryDirectory(prefix="ceras-") as folder:
        resnet18(path := Path(folder) / "resnet18.onnx", 256)
        built = build(
            read_network(str(path)), BuildOptions(VtaTarget(board=name, streams="layers"))
        )
    launches = build_image(built.module, board).launches
    parts = {
        "all": launches,
        "convolutions but the first": [o for o in launches if o.name.startswith("layer")],
    }
    for part, chosen in parts.items():
        times = [
            sum(milliseconds(o.program.instructions, board, model) for o in chosen)
            for model in MODELS
        ]
        print(f"{part}: {min(times):.1f} to {max(times):.1f} ms")
    layers = sum(sum(times) for times in FIGURE_10.values())
    theirs = [
        sum(
            len(times) * cycles(Point("figure 10", size, 0.0), fit.model, fit.variant)
            for size, times in FIGURE_10.items()
        )
        / (1000 * MEGAHERTZ)
        for fit in all_fits()
        if fit.error <= MOST
    ]
    print(
        f"S3, convolutions but the first: {layers:.1f} ms with its host's part of each, of which "
        f"{min(theirs):.1f} to {max(theirs):.1f} ms on the device"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="S3's matrix products on VTA's HLS source")
    parser.add_argument("--board", default="zcu104")
    parser.add_argument("--network", action="store_true", help="ResNet-18 instead of products")
    arguments = parser.parse_args()
    (network if arguments.network else products)(arguments.board)


if __name__ == "__main__":
    main()
