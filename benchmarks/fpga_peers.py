"""
Compare circuits of MLPerf Tiny's networks with the published circuits of other projects.

    python benchmarks/fpga_peers.py [NAME ...] [--equal dsp|products] [--nnet]

Each row has the cycles of a published circuit, which are its clock over its inferences per second,
and those of target dataflow on the same board with at most as many multipliers, for both
objectives. Cycles are from the exact model (`cycles.py`), which tests compare with Verilator;
resources are estimated (`--synthesize` of `ceras-compile` counts them). A multiplier of our
circuits computes two products of int8 per cycle. The published circuits compute a single product:
`--equal products` therefore uses half as many multipliers. `--nnet` adds the cycles of the nnet
core with 16 x 16 products. Weights are random; cycles do not depend on them.

Published circuits include the time of the host, and those of this project do not. The figures of
fpgaConvNet are from the closed division of MLPerf Tiny (the reference networks in int8): the logs
and README tables of the results repositories v0.5 to v1.1 (github.com/mlcommons/tiny_results_*),
read in November 2026. FINN and hls4ml submitted other, smaller networks to the open division, so
there is no row for them. Not compared yet: ResNet-18 with AMD's DPU, and counts of yosys.
"""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from networks import autoencoder, ds_cnn, person_detector, resnet8
from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.board import Objective
from ceras_ir.backends.dataflow.target import DataflowTarget
from ceras_ir.backends.nnet.target import NnetTarget
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.targets.protocol import Target

NETWORKS: dict[str, Callable[[Path], None]] = {
    "resnet8": resnet8,
    "person": person_detector,
    "keywords": ds_cnn,
    "autoencoder": autoencoder,
}
BOARD = "zc706"
"""The board of networks without a published circuit."""
NNET_BOARD = "ceras_zcu104"


@dataclass(frozen=True)
class Published:
    """A published circuit: its board, clock in MHz, inferences per second and multipliers."""

    network: str
    circuit: str
    board: str
    clock_mhz: float
    rate: float
    dsp: int

    @property
    def cycles(self) -> int:
        return round(self.clock_mhz * 1e6 / self.rate)


PUBLISHED = (
    Published("resnet8", "fpgaConvNet, ZedBoard", "zedboard", 143, 2431, 211),
    Published("resnet8", "fpgaConvNet, ZC706", "zc706", 187, 6790, 525),
    Published("person", "fpgaConvNet, ZedBoard", "zedboard", 111, 105, 189),
    Published("keywords", "fpgaConvNet, ZedBoard", "zedboard", 143, 3088, 188),
)


def report(path: Path, target: Target) -> dict[str, object]:
    return build(read_network(str(path)), BuildOptions(target)).report


def circuit(path: Path, board: str, dsp: int, objective: Objective) -> tuple[int, int, str]:
    """Return the latency and the cycles per frame of a dataflow circuit, and its resources."""
    totals = report(path, DataflowTarget(board=board, dsp=dsp, objective=objective))["totals"]
    assert isa(totals, dict[str, object])
    latency, interval, used = (
        totals[key] for key in ("latency_cycles", "cycles_per_frame", "estimated")
    )
    assert isinstance(latency, int) and isinstance(interval, int) and isa(used, dict[str, int])
    return latency, interval, f"{used['dsp']}, {used['ram18']}, {used['lut']:,}"


def core_cycles(path: Path) -> int:
    """Return the sum of the cycles of all layers on the nnet core, by its model."""
    layers = report(path, NnetTarget(board=NNET_BOARD))["layers"]
    assert isa(layers, list[dict[str, object]])
    return sum(n for layer in layers if isinstance(n := layer.get("cycles"), int))


def main() -> None:
    parser = argparse.ArgumentParser(description="Published circuits for equal networks")
    parser.add_argument("networks", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--equal", choices=("dsp", "products"), default="dsp")
    parser.add_argument("--nnet", action="store_true", help="also the nnet core")
    args = parser.parse_args()
    if unknown := set(args.networks) - set(NETWORKS):
        parser.error(f"unknown network {', '.join(sorted(unknown))}")
    print(
        "| network | circuit | cycles | objective | latency | cycles per frame | DSP, RAM18, LUT |"
    )
    print("|---|---|---:|---|---:|---:|---|")
    objectives: tuple[Objective, ...] = ("throughput", "latency")
    with tempfile.TemporaryDirectory(prefix="ceras-") as folder:
        for name in args.networks or NETWORKS:
            NETWORKS[name](path := Path(folder, f"{name}.onnx"))
            for other in (p for p in PUBLISHED if p.network == name):
                dsp = other.dsp // 2 if args.equal == "products" else other.dsp
                for objective in objectives:
                    latency, interval, used = circuit(path, other.board, dsp, objective)
                    cells = (
                        f"{latency:,} ({other.cycles / latency:.2f}x)",
                        f"{interval:,} ({other.cycles / interval:.2f}x)",
                    )
                    row = (name, other.circuit, f"{other.cycles:,}", objective, *cells, used)
                    print(f"| {' | '.join(row)} |", flush=True)
            if name not in {p.network for p in PUBLISHED}:
                for objective in objectives:
                    latency, interval, used = circuit(path, BOARD, 0, objective)
                    row = (name, "", "", objective, f"{latency:,}", f"{interval:,}", used)
                    print(f"| {' | '.join(row)} |", flush=True)
            if args.nnet:
                cycles = f"{core_cycles(path):,}"
                print(f"| {name} | nnet core, 16 x 16 | | | {cycles} | | |", flush=True)


if __name__ == "__main__":
    main()
