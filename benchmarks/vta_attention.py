"""
Compare the modelled time of a network on VTA and host, for two placements of products of
activations.

The products run on the cheaper side, or all of them run on the host.

    python benchmarks/vta_attention.py MODEL.onnx [--board de10nano] [--calibrate DATA.npz]
"""

import argparse

from xdsl.ir import Operation

import ceras_ir as ceras
from ceras_ir.backends.vta.rules.channel_constants import has_computed_weights
from ceras_ir.backends.vta.rules.placement import VtaAccelerator
from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.targets import Cost
from ceras_ir.transforms.memory.liveness import steps
from ceras_ir.transforms.placement import cheapest


def is_product(op: Operation) -> bool:
    """Return whether both factors are computed."""
    return isinstance(op, graph.LinearOperation) and has_computed_weights(op)


def main() -> None:
    parser = argparse.ArgumentParser(description="products of activations, on VTA and not")
    parser.add_argument("model")
    parser.add_argument("--board", default="de10nano")
    parser.add_argument("--calibrate", help="data as ceras-compile takes it")
    arguments = parser.parse_args()
    quantized = ceras.load(arguments.model).quantize(arguments.calibrate, target="vta")
    network = main_function(quantized.module)
    device = VtaAccelerator(arguments.board, 1)
    order = steps(network)
    admitted = {op for op in order if device.why_not(op) is None}
    costs = {op: device.cost(op, admitted=op in admitted) for op in order}
    pins = {op: True for op in admitted if device.must_run(op)}
    products = [op for op in order if is_product(op)]
    macs = sum(op.macs for op in products if isinstance(op, graph.LinearOperation))
    print(f"{len(products)} products of activations, {macs:,} multiplications")
    print("| products | on VTA | they take, ms, without transfers | the network takes, ms |")
    print(f"|{'---|' * 4}")
    for title, more in (
        ("where they take least", {}),
        ("on the host", dict.fromkeys(products, False)),
    ):
        total, chosen = cheapest(network, costs, pins | more, device.transfer, device.host_operands)
        theirs = sum(_time(costs[op], there=op in chosen) for op in products)
        count = sum(op in chosen for op in products)
        print(f"| {title} | {count} | {theirs / 1000:,.2f} | {total / 1000:,.1f} |")


def _time(cost: Cost, *, there: bool) -> float:
    """Return the microseconds on the chosen side."""
    return cost.cpu if not there or cost.accelerator is None else cost.accelerator


if __name__ == "__main__":
    main()
