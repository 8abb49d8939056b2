"""
Print the layers of ResNet-18 on VTA: cycles, share of the peak, and throughput compared with S3.

The timed simulator counts cycles on the 64-bit board. Throughput is at the 333 MHz of S3 (Figure
10, at 256 x 256).

    python benchmarks/vta_networks.py [--size 224 256] [--board de10nano] [--model M.onnx]
    python benchmarks/vta_networks.py --size 224 --prune "method=block block=16x16 sparsity=0.75"

With `--prune`, zero blocks of 16 x 16 weights need no product.
"""

import argparse
import tempfile
import time
from pathlib import Path

from networks import resnet18
from xdsl.utils.hints import isa

from ceras_ir.backends.vta.machine.encoding import DEFAULT_VTA_BOARD
from ceras_ir.backends.vta.target import VtaTarget
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions

MEGAHERTZ = 333
S3_GOPS = (
    *(32.119, 33.395, 33.517, 33.414, 29.786, 35.368, 8.356, 35.482, 35.440),
    *(28.376, 29.192, 10.320, 28.916, 28.926, 20.895, 22.165, 10.863, 22.235, 22.224),
)
"""The convolutions after the stem. The shortcut of a block follows its two convolutions."""

Entry = dict[str, object]


def number(entry: Entry, key: str) -> int:
    value = entry[key]
    assert isinstance(value, int)
    return value


def table(path: str, board: str, prune: str | None) -> None:
    """Compile a network and print its layers on VTA."""
    start = time.perf_counter()
    options = BuildOptions(VtaTarget(board=board), prune=prune)
    content = build(read_network(path), options).report
    seconds = time.perf_counter() - start
    layers, totals = content["layers"], content["totals"]
    assert isa(layers, list[Entry]) and isa(totals, Entry)
    placed = [layer for layer in layers if "cycles" in layer]
    convolutions = [layer for layer in placed if layer["op"] == "conv2d"]
    print("| layer | MACs | cycles | of peak | GOPS | S3 | DRAM MB | bound MB | bound by |")
    print(f"|{'---|' * 9}")
    measured = {id(c): g for c, g in zip(convolutions[1:], S3_GOPS, strict=False)}
    for layer in placed:
        macs, cycles = number(layer, "macs"), number(layer, "cycles")
        cells = [
            str(layer["name"]),
            f"{macs:,}",
            f"{cycles:,}",
            f"{macs / DEFAULT_VTA_BOARD.macs_per_cycle / cycles:.1%}",
            f"{gops(macs, cycles):.1f}",
            f"{measured[id(layer)]:.1f}" if id(layer) in measured else "",
            f"{number(layer, 'dram_bytes') / 1e6:.2f}",
            f"{number(layer, 'dram_lower_bound_bytes') / 1e6:.2f}",
            str(layer["bound_by"]),
        ]
        print(f"| {' | '.join(cells)} |")
    macs = sum(number(c, "macs") for c in convolutions)
    weighted = sum(
        number(c, "macs") ** 2 / DEFAULT_VTA_BOARD.macs_per_cycle / number(c, "cycles")
        for c in convolutions
    )
    rates = [gops(number(c, "macs"), number(c, "cycles")) for c in convolutions]
    print(
        f"\n{number(totals, 'vta_cycles'):,} cycles in all, "
        f"{number(totals, 'vta_instructions'):,} instructions; convolutions at "
        f"{weighted / macs:.1%} of peak weighted by MACs, {sum(rates) / len(rates):.1f} GOPS mean "
        f"at {MEGAHERTZ} MHz (S3: 26); compiled in {seconds:.1f} s\n"
    )


def gops(macs: int, cycles: int) -> float:
    """Return the rate with two operations per multiplication."""
    return 2 * macs * MEGAHERTZ / cycles / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="ResNet-18 on VTA, layer by layer")
    parser.add_argument("--size", type=int, nargs="+", default=[224, 256])
    parser.add_argument("--board", default="de10nano")
    parser.add_argument("--model", help="another network, instead of ResNet-18")
    parser.add_argument("--prune", metavar="OPTIONS", help="of the pass prune")
    arguments = parser.parse_args()
    if arguments.model is not None:
        table(arguments.model, arguments.board, arguments.prune)
        return
    with tempfile.TemporaryDirectory(prefix="ceras-") as folder:
        for size in arguments.size:
            resnet18(path := Path(folder) / f"resnet18_{size}.onnx", size)
            print(f"ResNet-18 at {size} x {size}, {arguments.board}\n")
            table(str(path), arguments.board, arguments.prune)


if __name__ == "__main__":
    main()
