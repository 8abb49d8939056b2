"""
Choose the width of constant weights: the pass `set-weight-bits`. `weight_widths.py` chooses widths
for a limit of bytes.

The passes that choose scales, round weights and quantize layers query the width, see
`ceras_ir.network.storage.weight_bits`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan, prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import BYTE_BITS
from ceras_ir.network.function import (
    is_quantized,
    main_function,
    module_of,
    quantized_layers,
    result_values,
)
from ceras_ir.network.storage import BITS
from ceras_ir.support.diagnostics import UsageError, node_name, node_names, remark, shortened
from ceras_ir.transforms.quantization.analysis.calibration import CalibratedPass
from ceras_ir.transforms.quantization.analysis.output_kinds import kind_of
from ceras_ir.transforms.quantization.analysis.output_noise import decibel_text
from ceras_ir.transforms.quantization.analysis.qdq import COMES_QUANTIZED
from ceras_ir.transforms.quantization.analysis.sensitivity import multiplications
from ceras_ir.transforms.quantization.set_precision import matching
from ceras_ir.transforms.quantization.weight_widths import (
    equal_widths,
    estimate_noise,
    grouped,
    least_noise,
    measured_ratios,
)
from ceras_ir.transforms.quantization_options import (
    MAX_BITS,
    MIN_BITS,
    WeightOptions,
    bits_and_layer,
)

MAX_WEIGHED_MACS, MIN_WEIGHED, MAX_WEIGHED = 400_000_000, 4, 16
"""
The multiplications of the samples on which noise is estimated, and the number of these samples.
"""

SMALL_SHARE = 0.05
"""The share of all weights that the smallest layers may have to remain in 8 bits."""


@dataclass(frozen=True)
class SetWeightBitsPass(WeightOptions, CalibratedPass):
    """
    Set `graph.weight_bits` of the layers with constant weights that will be quantized.

    An entry `BITS:LAYER` of `weight_bits` sets the layers with this name or pattern. An entry
    `BITS` sets all layers except the smallest, which together have at most 5% of the weights. A
    later entry replaces an earlier one. Recurrent layers remain in 8 bits. The pass changes no
    value.

    With `weight_bytes` and `calibration`, other layers get the widths with the least noise at the
    outputs, so that the weights of all layers have at most this number of bytes. The noise is
    estimated by a backward pass over half of the samples, and compared with the noise of equal
    widths on the other half. A note names the widths.

    Before, with `weight_bits=4`:

        %w = graph.constant dense<[[1.0, 0.5]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %y = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>

    After:

        %w = graph.constant dense<[[1.0, 0.5]]> : tensor<1x2xf32> : tensor<1x2xf32>
        %y = graph.matmul %x, %w {graph.weight_bits = 4 : i64}
            : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
    """

    name = "set-weight-bits"

    widths: tuple[int, ...] = tuple(range(MIN_BITS, MAX_BITS + 1))
    """The widths that the target stores, in ascending order, for `weight_bytes`."""
    octave_parts: int = 1
    """The number of scales per octave of narrow weights: 1 for powers of two."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        is_requested = self.weight_bits or self.weight_bytes is not None
        if is_requested and is_quantized(main_function(op)):
            raise UsageError(f"weight_bits: {COMES_QUANTIZED}")
        super().apply(ctx, op)

    def change(self, main: FuncOp) -> None:
        for op, bits in self._given(main).items():
            _set(op, bits)
        super().change(main)

    def _given(self, main: FuncOp) -> dict[graph.LinearOperation, int]:
        """Return the width of each layer that `weight_bits` sets."""
        return chosen_widths(main, _layers(main), self.weight_bits)

    def improve(self, main: FuncOp) -> None:
        if (limit := self.weight_bytes) is None:
            return
        groups = grouped(_layers(main), self._given(main), self.widths)
        parts = self.octave_parts
        macs = max(multiplications(main), 1)
        count = min(max(MAX_WEIGHED_MACS // macs, MIN_WEIGHED), MAX_WEIGHED)
        samples = list(self.data(main, "weighing weights", 2 * count))
        # A single sample is used for both.
        weighed, judged = samples[::2], samples[1::2] or samples
        module = module_of(main)
        estimate_noise(module, weighed, groups, parts)
        choices = [least_noise(groups, limit)]
        if (equal := equal_widths(groups, limit)) is not None and equal != choices[0]:
            choices.append(equal)
        ratios = measured_ratios(module, judged, groups, choices, parts)
        best = max(range(len(choices)), key=lambda i: (not isnan(ratios[i]) and ratios[i], -i))
        named: defaultdict[int, list[str]] = defaultdict(list)
        total = 0
        for group, bits in zip(groups, choices[best], strict=True):
            total += group.bytes_of(bits)
            for op in group.layers:
                _set(op, bits)
                named[bits].append(shortened(node_name(op)))
        widths = "; ".join(
            f"{bits} bits: {', '.join(names)}" for bits, names in sorted(named.items())
        )
        other = f", equal widths {decibel_text(ratios[1])}" if len(ratios) > 1 else ""
        remark(
            f"{self.name}: note: weights in {total:,} bytes, signal to noise of rounding to "
            f"nearest {decibel_text(ratios[best])} at the outputs{other}: {widths}"
        )
        kinds = (kind_of(main, value) for value in result_values(main))
        kind = max(kinds, key=lambda kind: kind.goal)
        if ratios[best] < kind.goal:
            remark(
                f"{self.name}: warning: this is below the goal of {kind.text}, {kind.goal:g} dB: "
                "compare the results (ceras-compare), or permit more bytes"
            )


def chosen_widths(
    main: FuncOp, layers: Sequence[graph.LinearOperation], entries: Iterable[str]
) -> dict[graph.LinearOperation, int]:
    """
    Return the bits that `entries` of `--weight-bits` choose for the weights of some of `layers`.
    Raise a `UsageError` for a name without such a layer.
    """
    names = {
        op: node_names(op) or [node_name(op)]
        for op in main.body.block.ops
        if isinstance(op, GraphOperation) and not isinstance(op, graph.ConstantOp)
    }
    found: dict[graph.LinearOperation, int] = {}
    for entry in entries:
        bits, layer = bits_and_layer(entry)
        chosen = list(_large(layers))
        if layer is not None:
            named = matching(names, [layer], "weight_bits")
            chosen = [op for op in layers if op in named]
            if not chosen:
                raise UsageError(
                    f"weight_bits: '{layer}' has no constant weights that become integers"
                )
        found |= dict.fromkeys(chosen, bits)
    return found


def _layers(main: FuncOp) -> list[graph.LinearOperation]:
    return [op for op in quantized_layers(main) if isinstance(op.weights.owner, graph.ConstantOp)]


def _set(op: graph.LinearOperation, bits: int) -> None:
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
