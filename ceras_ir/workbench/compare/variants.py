"""
What `ceras-compare` measures: a quantized network beside the float one that it was made from, or
beside another variant of the same network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from ceras_ir.command.exit_status import naming
from ceras_ir.data.sample_stream import StreamedSamples
from ceras_ir.data.samples import Samples, as_samples
from ceras_ir.dialects import graph
from ceras_ir.network.function import input_names, main_function, output_names, result_values
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.network.storage import LAYER
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.instrumentation import PassRunner
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.stages import FUSED, QUANTIZED, quantize_pass
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.terminal import progress
from ceras_ir.transforms.quantization.analysis.before_after import alignment
from ceras_ir.transforms.quantization.analysis.layer_noise import (
    LayerNoise,
    NoiseMeter,
    label_layers,
)
from ceras_ir.transforms.quantization.analysis.quantities import quantities_of_outputs
from ceras_ir.workbench.compare.pairs import Nodes, pairs
from ceras_ir.workbench.compare.remedies import remedies_of_all
from ceras_ir.workbench.metrics.choose import Judge, Judgement
from ceras_ir.workbench.metrics.figures import Measured, measured

STORED, QDQ = "quantized", "Q/DQ"
"""Kinds of networks whose precision no option changes."""

REACHING = 4
"""On how many samples it is followed what reaches the outputs."""


@dataclass(frozen=True)
class Variant:
    """One network beside its reference, and what was measured of it."""

    name: str
    reference: str
    layers: list[LayerNoise]
    metrics: list[Measured]
    ratio: float
    """The signal-to-noise ratio of all outputs in decibels; NaN if no output varies."""
    rescalings: tuple[int, int] | None = None
    """At run time, before and after scales were aligned."""
    recipe: tuple[str, ...] = ()
    """The optional passes that ran."""
    adjustable: bool = True
    """Whether options decide the precision; a network that comes quantized has decided it."""

    @property
    def remedies(self) -> list[str]:
        """What to try for the whole network; see `remedies_of_all`."""
        return remedies_of_all(self.layers, self.ratio)


@dataclass(frozen=True)
class Task:
    """What all variants are measured on."""

    samples: Samples | StreamedSamples
    judgement: Judgement

    def measure(
        self, meter: NoiseMeter, name: str, reference: str, recipe: tuple[str, ...] = ()
    ) -> Variant:
        """Run both networks of `meter` on all samples."""
        count = len(self.samples)
        judge = Judge(self.judgement, quantities_of_outputs(main_function(meter.reference)))
        for pair in progress(meter.measure(self.samples), f"comparing {name}", count):
            judge.add(*(as_samples(outputs, batched=self.samples.batched) for outputs in pair))
        if not meter.aligned:
            meter.measure_reach(self.samples.first(REACHING))
        main = main_function(meter.quantized)
        return Variant(
            name,
            reference,
            list(meter.layers.values()),
            measured(judge.figures(), count),
            judge.ratio(),
            alignment(main),
            recipe,
        )


def one_model(
    module: ModuleOp, options: BuildOptions, recipes: Sequence[Sequence[str]], task: Task
) -> list[Variant]:
    """The model quantized by each of `recipes`, beside its float network."""
    variants: list[Variant] = []
    for recipe in recipes:
        chosen = replace(options, recipe=tuple(recipe))
        used = quantize_pass(chosen).optional
        meter = beside_float(module.clone(), chosen)
        variants.append(task.measure(meter, recipe_text(recipe), "float", used))
    return variants


def two_models(
    models: Sequence[tuple[str, ModuleOp]], options: BuildOptions, task: Task
) -> list[Variant]:
    """The second of two models, each with its file, beside the first."""
    kinds: list[str] = []
    # Before nodes are fused.
    (_, first), (path, second) = models
    nodes = Nodes(first), Nodes(second)
    for each, network in models:
        with naming(each):
            kinds.append(variant_of(network, options))
    names = [f"{Path(each).name} ({kind})" for (each, _), kind in zip(models, kinds, strict=True)]
    with naming(path):
        meter = beside_another(first, second, nodes)
    variant = task.measure(meter, names[1], names[0])
    return [replace(variant, adjustable=kinds[1] not in (STORED, QDQ))]


def comparing_options(options: BuildOptions) -> BuildOptions:
    """How models are quantized to be compared, checked."""
    options = replace(options, quantize="int8")
    options.check()
    options.check_levels((FUSED, QUANTIZED))
    return options


def beside_float(module: ModuleOp, options: BuildOptions) -> NoiseMeter:
    """Quantize `module`, keeping the float network as it was just before."""
    from ceras_ir.transforms.graph.fuse import FusePass
    from ceras_ir.transforms.pipeline import flatten
    from ceras_ir.transforms.quantization.unfuse_residual import UnfuseResidualPass

    ctx, runner = load_context(), PassRunner()
    runner.run(ctx, module, [FusePass(), *options.inserted(FUSED)])
    reference = None
    for pass_ in flatten(quantize_pass(options)):
        runner.run(ctx, module, [pass_])
        if isinstance(pass_, UnfuseResidualPass):
            if is_quantized(main_function(module)):
                raise InputError(
                    "it comes quantized: there is no float network to compare with; name one, or "
                    "another variant, as a second model"
                )
            label_layers(module)
            reference = module.clone()
    runner.run(ctx, module, options.inserted(QUANTIZED))
    assert reference is not None
    return NoiseMeter(reference, module)


def variant_of(module: ModuleOp, options: BuildOptions) -> str:
    """
    Make `module` the network to compare: quantized as it comes, or by its Q/DQ; a float one by
    the calibration data or by the exponents in its text, else left in float. Says which.
    """
    from ceras_ir.transforms.graph.fuse import FusePass
    from ceras_ir.transforms.quantization.analysis.qdq import (
        carries_exponents,
        carries_quantization,
    )
    from ceras_ir.transforms.quantization.quantize import QuantizePass

    ctx, runner, main = load_context(), PassRunner(), main_function(module)
    at_fused, at_quantized = options.inserted(FUSED), options.inserted(QUANTIZED)
    if is_quantized(main) and not carries_floats(module):
        runner.run(ctx, module, [*at_fused, *at_quantized])
        return STORED
    runner.run(ctx, module, [FusePass(), *at_fused])
    if carries_quantization(module):
        runner.run(ctx, module, [QuantizePass(), *at_quantized])
        return QDQ
    if options.calibration is None and not carries_exponents(main):
        return "float"
    runner.run(ctx, module, [quantize_pass(options), *at_quantized])
    return recipe_text(options.recipe)


def recipe_text(recipe: Sequence[str]) -> str:
    """How a variant is called by the recipe that was asked for."""
    return f"recipe {','.join(recipe)}" if recipe else "default recipe"


def carries_floats(module: ModuleOp) -> bool:
    """Whether a layer between Q/DQ is still computed in float."""
    ops = main_function(module).body.block.ops
    return any(isinstance(op, graph.LinearOperation) and not op.is_quantized for op in ops)


def beside_another(
    first: ModuleOp, second: ModuleOp, nodes: tuple[Nodes, Nodes] | None = None
) -> NoiseMeter:
    """
    `second` beside `first`; their layers are those that make the same tensor, by the `nodes` that
    the networks had before fusion.
    """
    _expect_same_ends(first, second)
    found = list(pairs(first, second, nodes or (Nodes(first), Nodes(second))))
    if not found:
        raise InputError(
            "no layer of one model has the name, operator and shape of one of the other; was text "
            "printed with --strip-names?"
        )
    for module in (first, second):
        for op in main_function(module).body.block.ops:
            op.attributes.pop(LAYER, None)
    for number, pair in enumerate(found):
        for op in pair:
            op.attributes[LAYER] = IntegerAttr(number, i64)
    return NoiseMeter(first, second, aligned=True)


def _expect_same_ends(first: ModuleOp, second: ModuleOp) -> None:
    """Refuse networks that take or give different things."""
    ends: list[list[tuple[str, str]]] = []
    for module in (first, second):
        main = main_function(module)
        inputs = zip(input_names(main), main.body.block.args, strict=True)
        outputs = zip(output_names(main), result_values(main), strict=True)
        ends.append([(name, str(value.type)) for name, value in (*inputs, *outputs)])
    if ends[0] != ends[1]:
        texts = [", ".join(f"{name} {kind}" for name, kind in side) for side in ends]
        raise InputError(f"inputs and outputs must be the same, got {texts[0]} and {texts[1]}")
