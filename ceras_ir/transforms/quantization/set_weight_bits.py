"""
Choose the width of constant weights: the pass `set-weight-bits`.

The passes that choose scales, round weights and quantize layers query the width, see
`ceras_ir.network.storage.weight_bits`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.network.function import is_quantized, quantized_layers
from ceras_ir.network.storage import BITS
from ceras_ir.support.diagnostics import UsageError, node_name, node_names
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import COMES_QUANTIZED
from ceras_ir.transforms.quantization.set_precision import matching
from ceras_ir.transforms.quantization_options import WeightOptions, bits_and_layer

SMALL_SHARE = 0.05
"""The share of all weights that the smallest layers may have to remain in 8 bits."""


@dataclass(frozen=True)
class SetWeightBitsPass(WeightOptions, NetworkPass):
    """
    Set `graph.weight_bits` of the layers with constant weights that will be quantized.

    An entry `BITS:LAYER` of `weight_bits` sets the layers with this name or pattern. An entry
    `BITS` sets all layers except the smallest, which together have at most 5% of the weights. A
    later entry replaces an earlier one. Recurrent layers remain in 8 bits. The pass changes no
    value.

    Before, with `weight_bits=4`:

        %w = graph.constant dense<[[1.0, 0.5]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>

    After:

        %w = graph.constant dense<[[1.0, 0.5]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %y = graph.matmul %x, %w {graph.weight_bits = 4 : i64}
            : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
    """

    name = "set-weight-bits"

    def change(self, main: FuncOp) -> None:
        if is_quantized(main):
            if self.weight_bits:
                raise UsageError(f"weight_bits: {COMES_QUANTIZED}")
            return
        layers = [
            op for op in quantized_layers(main) if isinstance(op.weights.owner, graph.ConstantOp)
        ]
        names = {
            op: node_names(op) or [node_name(op)]
            for op in main.body.block.ops
            if isinstance(op, GraphOperation) and not isinstance(op, graph.ConstantOp)
        }
        for entry in self.weight_bits:
            bits, layer = bits_and_layer(entry)
            chosen = list(_large(layers))
            if layer is not None:
                named = matching(names, [layer], "weight_bits")
                chosen = [op for op in layers if op in named]
                if not chosen:
                    raise UsageError(
                        f"weight_bits: '{layer}' has no constant weights that become integers"
                    )
            for op in chosen:
                op.attributes.pop(BITS, None)
                if bits != BYTE_BITS:
                    op.attributes[BITS] = IntegerAttr(bits, i64)


def _large(layers: Iterable[graph.LinearOperation]) -> Iterator[graph.LinearOperation]:
    """Yield the layers in ascending order of weights, without the smallest (`SMALL_SHARE`)."""
    ordered = sorted(layers, key=_count)
    rest, total = SMALL_SHARE * sum(map(_count, ordered)), 0
    for op in ordered:
        total += _count(op)
        if total > rest:
            yield op


def _count(op: graph.LinearOperation) -> int:
    return prod(graph.shape_of(op.weights))
