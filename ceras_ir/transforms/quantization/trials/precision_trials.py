"""Copies of a calibrated network with some layers in another precision, quantized and judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.precision import keep_in_float, widen
from ceras_ir.network.ranges import exponent
from ceras_ir.transforms.quantization.align_scales import AlignScalesPass
from ceras_ir.transforms.quantization.analysis.output_noise import (
    outputs_of,
    ratio_of,
    returning_scores,
)
from ceras_ir.transforms.quantization.analysis.rounded_weights import nearest, roundable_layers
from ceras_ir.transforms.quantization.analysis.scale_classes import value_storage
from ceras_ir.transforms.quantization.analysis.sensitivity import InInt8
from ceras_ir.transforms.quantization.quantize_graph import QuantizeGraphPass
from ceras_ir.transforms.quantization.rewrites.rounded_layers import steps_by_row
from ceras_ir.transforms.quantization.round_weights import RoundWeightsPass
from ceras_ir.transforms.quantization.set_precision import spread
from ceras_ir.transforms.quantization.trials.steps import finish
from ceras_ir.transforms.rebuilding import replace_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ceras_ir.network.storage import Storage
    from ceras_ir.transforms.quantization.analysis.sensitivity import Sample, Sensitivity


def keep(value: SSAValue, *, in_float: bool) -> None:
    """Have the operation that makes `value` stay in float, or its result have 16 bits."""
    if not in_float:
        widen(value)
        return
    assert isinstance(value.owner, Operation)
    keep_in_float(value.owner)


class PrecisionTrials:
    """
    Quantizes copies of a network and compares them with it. What all trials share is done once:
    the exponents of weights, and their rounding on `samples` samples, which takes longest. It
    depends on the rest only where long sums of 16 bits need coarser weights: all trials have those
    that leave room for 16 bits in `wide` values. With `scores` a softmax at the end is left out.
    """

    def __init__(
        self,
        ctx: Context,
        module: ModuleOp,
        calibration: str,
        samples: int,
        judged: Sequence[Sample],
        wide: Iterable[SSAValue] = (),
        *,
        scores: bool = False,
    ):
        self.ctx, self.module, self.judged = ctx, module, judged
        steps = finish(calibration, samples)
        first, last = _at(steps, AlignScalesPass), _at(steps, QuantizeGraphPass)
        rounding = _at(steps, RoundWeightsPass)
        self.steps = (*steps[first:rounding], *steps[rounding + 1 : last + 1])
        self.copies: dict[SSAValue, SSAValue] = {}
        self.base = module.clone(self.copies)
        for step in steps[:first]:
            step.apply(ctx, self.base)
        storages = self._storages()
        self.in_int8 = InInt8(self._round(steps[first : rounding + 1], wide), storages)
        """What the recipe makes of the network where all is in int8."""
        self.scores = scores
        self.expected = outputs_of(returning_scores(module) if scores else module, judged)

    def _storages(self) -> dict[SSAValue, Storage]:
        """Of all values that have a scale, after alignment."""
        module, copies = self._copy()
        AlignScalesPass().apply(self.ctx, module)
        return {v: value_storage(copy) for v, copy in copies.items() if exponent(copy) is not None}

    def _round(
        self, steps: Iterable[ModulePass], wide: Iterable[SSAValue]
    ) -> dict[Operation, NDArray[np.float32]]:
        """Round the weights of all layers that have constant ones, for all trials."""
        module, copies = self._copy()
        for value in wide:
            widen(copies[value])
        spread(main_function(module))
        for step in steps:
            step.apply(self.ctx, module)
        chosen = dict.fromkeys(roundable_layers(main_function(module)))
        found: dict[Operation, NDArray[np.float32]] = {}
        layers = zip(*map(_linear, (self.module, self.base, module)), strict=True)
        for op, shared, counterpart in layers:
            weights = graph.constant_array(counterpart.weights)
            if counterpart in chosen and weights is not None:
                rows = weights.astype(np.float64).reshape(len(weights), -1)
                stored = nearest(rows, steps_by_row(counterpart)).astype(np.float32)
                found[op] = stored.reshape(weights.shape)
                replace_constant(shared, shared.weights, found[op])
        return found

    def _copy(self) -> tuple[ModuleOp, Mapping[SSAValue, SSAValue]]:
        """A copy of the network, and its values by those of the module."""
        copies: dict[SSAValue, SSAValue] = {}
        module = self.base.clone(copies)
        return module, {v: copies[shared] for v, shared in self.copies.items() if shared in copies}

    def noise(self, layers: Sequence[Sensitivity]) -> float:
        """Noise over signal of all outputs, or scores, with these layers kept."""
        module, copies = self._copy()
        for layer in layers:
            keep(copies[layer.value], in_float=layer.in_float)
            op, copy = layer.value.owner, copies[layer.value].owner
            if layer.in_float and isinstance(op, graph.LinearOperation):
                assert isinstance(copy, graph.LinearOperation)
                real = graph.constant_array(op.weights)
                if real is not None:
                    replace_constant(copy, copy.weights, real.astype(np.float32, copy=False))
        spread(main_function(module))
        for step in self.steps:
            step.apply(self.ctx, module)
        # No target is held to these sums, and in any order they take a tenth of the time.
        for op in _linear(module):
            op.ordered = None
        judged = returning_scores(module) if self.scores else module
        return 10 ** (-ratio_of(self.expected, outputs_of(judged, self.judged)) / 10)


def _at(passes: Sequence[ModulePass], kind: type[ModulePass]) -> int:
    return next(i for i, step in enumerate(passes) if isinstance(step, kind))


def _linear(module: ModuleOp) -> list[graph.LinearOperation]:
    ops = main_function(module).body.block.ops
    return [op for op in ops if isinstance(op, graph.LinearOperation)]
