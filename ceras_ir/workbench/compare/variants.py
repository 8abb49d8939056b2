"""
What `ceras-compare` measures: a quantized network beside the float one that it was made from, or
beside another variant of the same network.

Which operations of two networks make the same tensor of the model.

An operation stands for the nodes that were fused into it, and makes what the last of them makes.
Which one is last, the networks say as they were read, where nodes are still apart. Operations that
have no certain partner have none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue

from ceras_ir.command.exit_status import naming
from ceras_ir.data.sample_stream import StreamedSamples
from ceras_ir.data.samples import Samples, as_samples
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.network.function import (
    input_names,
    is_quantized,
    main_function,
    output_names,
    result_values,
)
from ceras_ir.network.storage import LAYER
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.instrumentation import PassRunner
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.stages import FUSED, QUANTIZED, quantize_pass
from ceras_ir.support.diagnostics import InputError, node_names
from ceras_ir.support.terminal import progress
from ceras_ir.transforms.quantization.analysis.layer_noise import (
    LayerNoise,
    NoiseMeter,
    label_layers,
)
from ceras_ir.transforms.quantization.analysis.output_noise import alignment, quantities_of_outputs
from ceras_ir.workbench.compare.proposals import remedies_of_all
from ceras_ir.workbench.metrics.choose import Judge, Judgement
from ceras_ir.workbench.metrics.figures import Measured, measured

Key: TypeAlias = tuple[str, ...]
"""The node whose tensor an operation makes; all its nodes, sorted, where none is known as last."""
WHOLE = "/"
"""In a key: all that an operation of this name does, of whatever nodes."""


class Nodes:
    """Which node of a network reads which, and which ones only clip."""

    def __init__(self, module: ModuleOp):
        self.readers: dict[str, set[str]] = {}
        self.clips: dict[str, tuple[float, float]] = {}
        for op in layers_of(module):
            names = node_names(op)
            for name in names:
                self.readers.setdefault(name, set())
            # Of several nodes in one operation, one knows only that the last is read.
            if len(names) == 1:
                self.readers[names[0]] |= _readers(op.results[0]) - set(names)
                bounds = op.function.clip_range if isinstance(op, graph.UnaryOp) else None
                if bounds is not None:
                    self.clips[names[0]] = bounds

    def last(self, names: list[str], other: Nodes) -> Key:
        """The one of `names` that none of the others reads, here or in the `other` network."""
        inside = set(names)
        ends = [
            name
            for name in dict.fromkeys(names)
            if not inside & (self.readers.get(name, set()) | other.readers.get(name, set()))
        ]
        return (ends[0],) if len(ends) == 1 else tuple(sorted(inside))


def layers_of(module: ModuleOp) -> Iterator[Operation]:
    """The operations that are layers."""
    for op in main_function(module).body.block.ops:
        border = isinstance(op, graph.ConstantOp | graph.QuantizeOp | graph.DequantizeOp)
        if isinstance(op, GraphOperation) and not border:
            yield op


def pairs(
    first: ModuleOp, second: ModuleOp, nodes: tuple[Nodes, Nodes]
) -> Iterator[tuple[Operation, Operation]]:
    """
    The layers that make the same tensor, by the `nodes` of both networks; without common names
    layers in order, where both networks have the same ones.
    """
    here, there = nodes
    known, others = _by_key(first, here, there), _by_key(second, there, here)
    found = False
    for key, made in known.items():
        partners = others.get(key, [])
        if [shape(op) for op in made] == [shape(op) for op in partners]:
            found = True
            yield from zip(made, partners, strict=True)
    if found:
        return
    one, two = list(layers_of(first)), list(layers_of(second))
    if [(o.name, shape(o)) for o in one] == [(o.name, shape(o)) for o in two]:
        yield from zip(one, two, strict=True)


def _by_key(module: ModuleOp, own: Nodes, other: Nodes) -> dict[Key, list[Operation]]:
    """The operations that make the tensors of nodes; of a node of several results, all."""
    found = defaultdict[Key, list[Operation]](list)
    for op in layers_of(module):
        if not (names := node_names(op)):
            continue
        key = own.last(names, other)
        # What the same node reads is a step on the way to its result.
        if not _readers(op.results[0]) & set(key):
            key = _behind_clip(op, key, own, other)
            found[_exported(names, key, own, other)].append(op)
    return found


def _exported(names: list[str], key: Key, own: Nodes, other: Nodes) -> Key:
    """
    The operation as a whole, where one network is an export of the other: it has the nodes NAME and
    NAME/PART of an operation whose own name is NAME, and the last of them makes what that makes.
    """
    (last, *more), name = key, names[0]
    if more or last in other.readers:
        return key
    if name in other.readers and any(node.startswith(f"{name}/") for node in other.readers):
        return (name, WHOLE)
    name = last.rpartition("/")[0]
    is_step = any(reader.startswith(f"{name}/") for reader in own.readers.get(last, ()))
    return (name, WHOLE) if name in other.readers and not is_step else key


def _behind_clip(op: Operation, key: Key, own: Nodes, other: Nodes) -> Key:
    """
    The tensor behind a ReLU that one network has and the other, as quantizers leave it, lacks:
    it changes none of the numbers that `op` can give.
    """
    element, requant = graph.quantized_element(op.results[0]), op.properties.get("requant")
    while element is not None and len(key) == 1:
        after = other.readers.get(key[0], set())
        (name,) = after if len(after) == 1 else ("",)
        if name not in other.clips or name in own.readers:
            break
        low, high = other.clips[name]
        ends = (element.low, element.high)
        if isinstance(requant, RequantAttr):
            ends = (requant.low.data, requant.high.data)
        least, greatest = ((end - element.zero_point) * element.scale for end in ends)
        # Bounds are rounded to the steps of the storage.
        half = element.scale / 2
        if least < low - half or greatest > high + half:
            break
        key = (name,)
    return key


def _readers(value: SSAValue) -> set[str]:
    """The nodes that read `value`, as it is, or quantized or dequantized in between."""
    found, values = set[str](), [value]
    # Grows while it is read.
    for each in values:
        for use in each.uses:
            op = use.operation
            names = node_names(op)
            if names and not isinstance(op, graph.QuantizeOp | graph.DequantizeOp):
                found.update(names)
            else:
                values.extend(result for result in op.results if result not in values)
    return found


def shape(op: Operation) -> tuple[int, ...]:
    """Of the first result."""
    return graph.shape_of(op.results[0])


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
    from ceras_ir.transforms.pass_kinds import flatten
    from ceras_ir.transforms.quantization.residuals import UnfuseResidualPass

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
