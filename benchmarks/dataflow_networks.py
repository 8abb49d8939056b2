"""
Compile a pruned ResNet-18 to a dataflow circuit and compare it with HPIPE.

The figures are lanes and memories of each layer, frames per second, and the share of busy
multipliers.

    python benchmarks/dataflow_networks.py [--size 224] [--board zcu102] [--model M.onnx]
        [--prune "method=filter sparsity=0.9"]

HPIPE (Hall and Betz, FPL 2020) is the fastest published compiler that gives each layer of a sparse
network a separate circuit: 4,550 images per second of a sparse ResNet-50, with about half of its
multipliers busy. Weights are random here; cycles depend on the number of nonzero weights.
"""

import argparse
import tempfile
from pathlib import Path

from networks import resnet18
from xdsl.utils.hints import isa

from ceras_ir.backends.dataflow.target import DataflowTarget
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions

HPIPE_BUSY = 0.5
Entry = dict[str, object]


def main() -> None:
    parser = argparse.ArgumentParser(description="Networks as dataflow circuits, layer by layer")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--board", default="zcu102")
    parser.add_argument("--model", help="another network, instead of ResNet-18")
    parser.add_argument("--prune", default="method=filter sparsity=0.9", metavar="OPTIONS")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ceras-") as folder:
        path = Path(args.model or Path(folder, "resnet18.onnx"))
        if args.model is None:
            resnet18(path, args.size)
        options = BuildOptions(DataflowTarget(board=args.board), prune=args.prune)
        report = build(read_network(str(path)), options).report
    layers, totals = report["layers"], report["totals"]
    assert isa(layers, list[Entry]) and isa(totals, Entry)
    columns = ("name", "lanes", "products", "cycles", "multipliers", "memories", "tables")
    print("| layer | rows x filters | products | cycles | DSP | RAM18 | LUT |")
    print(f"|{'---|' * len(columns)}")
    for layer in layers:
        if "multipliers" in layer:
            print(f"| {' | '.join(str(layer.get(column, '')) for column in columns)} |")
    busy = totals["busy_multipliers"]
    assert isinstance(busy, float)
    print(
        f"\n{totals['cycles_per_frame']:,} cycles per frame, latency {totals['latency_cycles']:,}"
    )
    print(f"{totals['frames_per_second']} frames per second; estimated {totals['estimated']}")
    print(f"multipliers busy with non-zeros: {busy:.1%}; HPIPE about {HPIPE_BUSY:.0%}")


if __name__ == "__main__":
    main()
