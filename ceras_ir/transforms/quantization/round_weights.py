"""Round weights so that errors of neighbours cancel, instead of each to the nearest."""

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from ceras_ir.network.function import module_of
from ceras_ir.transforms.quantization.rewrites.calibrated_pass import CalibratedPass

SAMPLES = 32
"""How many samples say how inputs are correlated."""


@dataclass(frozen=True)
class RoundWeightsPass(CalibratedPass):
    """
    Round constant weights to multiples of their step, `2**graph.weight_exponent`, so that the
    layer's output changes least on the data. Weights are rounded one after the other; the later
    ones make up for the error of the earlier ones (GPTQ, Frantar et al. 2022).

    How inputs are correlated a few samples of a small layer hardly say: fewer patches than inputs
    move its weights less.

    A layer's bias takes up what rounding changes the output by on average, so that only deviations
    from the mean input count.

    Layers with equal weights, as the steps of a loop, are rounded together and stay equal. Uses 32
    of the samples at most. Without data nothing is done. Where a result has more than 1536
    products, errors are made up for within parts of that many at most. Not exact: weights
    change here instead of in `quantize-graph`, which finds nothing more to round, and biases.
    """

    name = "round-weights"

    def improve(self, main: FuncOp) -> None:
        from ceras_ir.support.terminal import progress
        from ceras_ir.transforms.quantization.analysis.input_moments import (
            input_moments,
            patch_length,
        )
        from ceras_ir.transforms.quantization.analysis.rounded_weights import roundable_layers
        from ceras_ir.transforms.quantization.rewrites.rounded_layers import (
            round_weights,
            with_equal_weights,
        )

        layers = with_equal_weights(roundable_layers(main))
        found = input_moments(module_of(main), self.data(main, "measuring inputs", SAMPLES), layers)
        # What is done gives its memory back, so that most is free when the largest are rounded.
        found.sort(key=lambda moments: -patch_length(moments.op))
        for _ in progress(range(len(found)), "rounding weights"):
            round_weights(found.pop())
