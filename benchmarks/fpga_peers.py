"""
Compare circuits of MLPerf Tiny's networks with the published circuits of other projects.

    python benchmarks/fpga_peers.py [NAME ...] [--equal dsp|products] [--nnet]

Each row has the cycles of a published circuit, which are the clock over the inferences per second,
and the cycles of target dataflow on the same board with no more multipliers, for both objectives.
Cycles are from the exact model (`cycles.py`), which tests compare with Verilator; resources are
estimated (`--synthesize` of `ceras-compile` counts them). A multiplier of target dataflow computes
two products of int8 per cycle, and a multiplier of the published circuits a single product:
`--equal products` therefore uses half as many multipliers. `--nnet` adds the cycles of the nnet
core with 16 x 16 products. Weights are random; cycles do not depend on them.

Only the published figures include the time of the host. They are from MLPerf Tiny: the logs and
README tables of the results repositories v0.5 to v1.1 (github.com/mlcommons/tiny_results_*), read
in November 2026. fpgaConvNet is in the closed division (the reference networks in int8). FINN and
hls4ml are in the open division, with the networks of few bits in `finn_networks.py`, and may use
all multipliers of the chip. The results of `cnv_*` and `ad08_w8` get a quantizer of 8 bits; the
last layer of `kws_w3a3`, with 1% of the products, runs on the host. Not compared yet: ResNet-18
with AMD's DPU.
"""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from finn_networks import NETWORKS as FINN_NETWORKS
from finn_networks import QuantizedBuilder
from networks import autoencoder, ds_cnn, person_detector, resnet8, save
from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.board import Objective
from ceras_ir.backends.dataflow.target import DataflowTarget
from ceras_ir.backends.nnet.target import NnetTarget
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.targets.protocol import Target


def few_bits(name: str) -> Callable[[Path], None]:
    """
    Return the function that writes a network of `finn_networks.py`. The result of the last layer
    is quantized to 8 bits, if the scale of its sums is a power of two.
    """

    def write(path: Path) -> None:
        proto = FINN_NETWORKS[name].build(FINN_NETWORKS[name].bits)
        graph, kinds = proto.graph, ("MatMul", "Gemm")
        while graph.node[-1].op_type not in kinds:
            graph.node.pop()
        if name in RESULT_SCALES:
            b = QuantizedBuilder(0)
            result = b.quantized(graph.node[-1].output[0], "result", 8, RESULT_SCALES[name])
            graph.node.extend(b.nodes)
            graph.initializer.extend(b.initializers)
            graph.output[0].name = result
        save(proto, path)

    return write


RESULT_SCALES = {"cnv_w1a1": 4.0, "cnv_w2a2": 4.0, "ad08_w8": 0.5}

NETWORKS: dict[str, Callable[[Path], None]] = {
    "resnet8": resnet8,
    "person": person_detector,
    "keywords": ds_cnn,
    "autoencoder": autoencoder,
    **{name: few_bits(name) for name in ("cnv_w1a1", "cnv_w2a2", "kws_w3a3", "ad08_w8")},
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
    Published("cnv_w1a1", "FINN, PYNQ-Z2", "pynq_z2", 100, 661, 220),
    Published("kws_w3a3", "FINN, PYNQ-Z2", "pynq_z2", 100, 57_268, 220),
    Published("ad08_w8", "hls4ml, PYNQ-Z2", "pynq_z2", 100, 53_365, 220),
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
