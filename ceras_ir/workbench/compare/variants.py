"""
Measure a quantized network against the float network, or against another variant.

Operations of two networks are paired if they compute the same tensor of the model. An operation
represents the nodes that were fused into it, and computes the tensor of the last node. The last
node is known from the networks as imported, in which nodes are separate. An operation without a
certain partner is not compared.
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
from ceras_ir.pipeline.stages import FUSED, IMPORTED, QUANTIZED, BuildOptions, quantize_pass
from ceras_ir.support.diagnostics import InputError, node_names, progress
from ceras_ir.transforms.quantization.analysis.layer_noise import (
    LayerNoise,
    NoiseMeter,
    label_layers,
)
from ceras_ir.transforms.quantization.analysis.output_noise import alignment, quantities_of_outputs
from ceras_ir.transforms.quantization.analysis.output_softmax import ratios_before_softmax
from ceras_ir.workbench.compare.proposals import remedies_of_all
from ceras_ir.workbench.metrics.choose import OUTPUT_RATIO, Judge, Judgement
from ceras_ir.workbench.metrics.figures import Measured, measured

Key: TypeAlias = tuple[str, ...]
"""
The node that computes the tensor of an operation, or all nodes, sorted, if the last is unknown.
"""
RESULT_KEY = "/"
"""Marks a key that is the name of a complete operation, for any nodes."""


class Nodes:
    """
    The ONNX nodes of a network before fusion: by name, the names of the nodes that consume the
    result, and the bounds of nodes that only clip.
    """

    def __init__(self, module: ModuleOp):
        self.readers: dict[str, set[str]] = {}
        self.clips: dict[str, tuple[float, float]] = {}
        for op in layers_of(module):
            names = node_names(op)
            for name in names:
                self.readers.setdefault(name, set())
            # In an operation of several nodes, only the last is known to have consumers.
            if len(names) == 1:
                self.readers[names[0]] |= _readers(op.results[0]) - set(names)
                bounds = op.function.clip_range if isinstance(op, graph.UnaryOp) else None
                if bounds is not None:
                    self.clips[names[0]] = bounds

    def last(self, names: list[str], other: Nodes) -> Key:
        """
        Return a key for an operation that was fused from the nodes `names`, by which operations of
        two networks are paired: the last node. No other node of `names` consumes the result of this
        node in either network. If there are several, return all of `names`, sorted.
        """
        inside = set(names)
        last_layers = [
            name
            for name in dict.fromkeys(names)
            if not inside & (self.readers.get(name, set()) | other.readers.get(name, set()))
        ]
        return (last_layers[0],) if len(last_layers) == 1 else tuple(sorted(inside))


def layers_of(module: ModuleOp) -> Iterator[Operation]:
    """
    Yield the operations of a network that are compared: all except constants, quantizations and
    dequantizations.
    """
    for op in main_function(module).body.block.ops:
        border = isinstance(op, graph.ConstantOp | graph.QuantizeOp | graph.DequantizeOp)
        if isinstance(op, GraphOperation) and not border:
            yield op


def pairs(
    first: ModuleOp, second: ModuleOp, nodes: tuple[Nodes, Nodes]
) -> Iterator[tuple[Operation, Operation]]:
    """
    Yield pairs of an operation in `first` and one in `second` that compute the same tensor,
    according to the `nodes` that both networks had before fusion. If no names are common,
    operations are paired in order, provided that both networks have the same operators and shapes.
    """
    here, there = nodes
    known, second_keys = _by_key(first, here, there), _by_key(second, there, here)
    found = False
    for key, operations in known.items():
        partners = second_keys.get(key, [])
        if [shape(op) for op in operations] == [shape(op) for op in partners]:
            found = True
            yield from zip(operations, partners, strict=True)
    if found:
        return
    one, two = list(layers_of(first)), list(layers_of(second))
    if [(o.name, shape(o)) for o in one] == [(o.name, shape(o)) for o in two]:
        yield from zip(one, two, strict=True)


def _by_key(module: ModuleOp, own: Nodes, other: Nodes) -> dict[Key, list[Operation]]:
    found = defaultdict[Key, list[Operation]](list)
    for op in layers_of(module):
        if not (names := node_names(op)):
            continue
        key = own.last(names, other)
        # An operation with a consumer in the same node is an intermediate step.
        if not _readers(op.results[0]) & set(key):
            key = _key_after_clip(op, key, own, other)
            found[_exported(names, key, own, other)].append(op)
    return found


def _exported(names: list[str], key: Key, own: Nodes, other: Nodes) -> Key:
    """
    Return the key of an operation if a network was exported from the other. The export has several
    nodes, NAME and NAME/PART, for a single operation NAME; the last of them computes the same
    tensor as NAME. Other keys are returned unchanged.
    """
    (last, *more), name = key, names[0]
    if more or last in other.readers:
        return key
    if name in other.readers and any(node.startswith(f"{name}/") for node in other.readers):
        return (name, RESULT_KEY)
    name = last.rpartition("/")[0]
    is_step = any(reader.startswith(f"{name}/") for reader in own.readers.get(last, ()))
    return (name, RESULT_KEY) if name in other.readers and not is_step else key


def _key_after_clip(op: Operation, key: Key, own: Nodes, other: Nodes) -> Key:
    """
    Return the key of the tensor that corresponds to the result of `op` in the `other` network. This
    is the tensor after a ReLU (or clip) that only `other` has, because the quantizer of the network
    of `op` removed it: all values that `op` can store are within the bounds of the clip. Without
    such a clip, return `key`.
    """
    element, requant = graph.quantized_element(op.results[0]), op.properties.get("requant")
    while element is not None and len(key) == 1:
        after = other.readers.get(key[0], set())
        (name,) = after if len(after) == 1 else ("",)
        if name not in other.clips or name in own.readers:
            break
        low, high = other.clips[name]
        bounds = (element.low, element.high)
        if isinstance(requant, RequantAttr):
            bounds = (requant.low.data, requant.high.data)
        lowest, highest = ((end - element.zero_point) * element.scale for end in bounds)
        # Bounds are rounded to the steps of the storage.
        half = element.scale / 2
        if lowest < low - half or highest > high + half:
            break
        key = (name,)
    return key


def _readers(value: SSAValue) -> set[str]:
    """
    Return the names of the nodes that consume `value`, directly or after a quantization or
    dequantization.
    """
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
    """Return the shape of the first result of an operation."""
    return graph.shape_of(op.results[0])


STORED, QDQ = "quantized", "Q/DQ"
"""Kinds of networks with a precision that options cannot change."""

BEFORE_SOFTMAX = "signal to noise before softmax (dB)"
"""The name of the signal-to-noise ratio at the input of a softmax."""

TRACED_SAMPLES = 4
"""The number of samples for which the noise at the outputs is traced to layers."""


@dataclass(frozen=True)
class Variant:
    """A quantized network that was compared with a reference, and the measurements."""

    name: str
    reference: str
    layers: list[LayerNoise]
    metrics: list[Measured]
    ratio: float
    """The signal-to-noise ratio of all outputs in decibels; NaN if no output varies."""
    rescalings: tuple[int, int] | None = None
    """The number of requantizations before and after scales were aligned."""
    recipe: tuple[str, ...] = ()
    """The optional passes that ran."""
    adjustable: bool = True
    """Whether options determine the precision, which is not so for quantized models."""

    @property
    def remedies(self) -> list[str]:
        """Advice for the network if the signal-to-noise ratio is low."""
        return remedies_of_all(self.layers, self.ratio)


@dataclass(frozen=True)
class Task:
    """The samples and the metric with which all variants are measured."""

    samples: Samples | StreamedSamples
    judgement: Judgement

    def measure(
        self, meter: NoiseMeter, name: str, reference: str, recipe: tuple[str, ...] = ()
    ) -> Variant:
        """
        Run the two networks of `meter`, a quantized network called `name` and the `reference`, on
        all samples, and return the measurements.
        """
        count = len(self.samples)
        judge = Judge(self.judgement, quantities_of_outputs(main_function(meter.reference)))
        for pair in progress(meter.measure(self.samples), f"comparing {name}", count):
            judge.add(*(as_samples(outputs, batched=self.samples.batched) for outputs in pair))
        if not meter.aligned:
            meter.measure_reach(self.samples.first(TRACED_SAMPLES))
        main = main_function(meter.quantized)
        return Variant(
            name,
            reference,
            list(meter.layers.values()),
            _with_ratios_before_softmax(measured(judge.figures(), count), meter),
            judge.ratio(),
            alignment(main),
            recipe,
        )


def _with_ratios_before_softmax(metrics: list[Measured], meter: NoiseMeter) -> list[Measured]:
    ratios = ratios_before_softmax(meter)
    outputs = output_names(main_function(meter.reference))
    found: list[Measured] = []
    for metric in metrics:
        found.append(metric)
        prefix = metric.name.removesuffix(OUTPUT_RATIO)
        # The metrics of a single output have no prefix.
        output = prefix.removesuffix(": ") or outputs[0]
        if prefix != metric.name and output in ratios:
            found.append(Measured(f"{prefix}{BEFORE_SOFTMAX}", None, ratios[output]))
    return found


def one_model(
    module: ModuleOp, options: BuildOptions, recipes: Sequence[Sequence[str]], task: Task
) -> list[Variant]:
    """Quantize a copy of `module` with each of `recipes`, and compare it with the float network."""
    variants: list[Variant] = []
    for recipe in recipes:
        chosen = replace(options, recipe=tuple(recipe))
        used = quantize_pass(chosen).optional
        meter = pair_with_float(module.clone(), chosen)
        variants.append(task.measure(meter, recipe_text(recipe), "float", used))
    return variants


def two_models(
    models: Sequence[tuple[str, ModuleOp]], options: BuildOptions, task: Task
) -> list[Variant]:
    """
    Compare the second of two models with the first. Each is a pair of the file name and the module.
    """
    kinds: list[str] = []
    # Before nodes are fused.
    (_, first), (path, second) = models
    nodes = Nodes(first), Nodes(second)
    for each, network in models:
        with naming(each):
            kinds.append(variant_of(network, options))
    names = [f"{Path(each).name} ({kind})" for (each, _), kind in zip(models, kinds, strict=True)]
    with naming(path):
        meter = pair_with_another(first, second, nodes)
    variant = task.measure(meter, names[1], names[0])
    return [replace(variant, adjustable=kinds[1] not in (STORED, QDQ))]


def comparing_options(options: BuildOptions) -> BuildOptions:
    """Return the options of a comparison with quantization to int8, after a check."""
    options = replace(options, quantize="int8")
    options.check()
    options.check_levels((FUSED, QUANTIZED))
    return options


def pair_with_float(module: ModuleOp, options: BuildOptions) -> NoiseMeter:
    """
    Quantize `module`, and return a meter that compares it with a copy of the float network from
    directly before quantization.
    """
    from ceras_ir.transforms.graph.fuse import FusePass
    from ceras_ir.transforms.pass_kinds import flatten
    from ceras_ir.transforms.quantization.residuals import UnfuseResidualPass

    ctx, runner = load_context(), PassRunner()
    runner.run(ctx, module, [*options.inserted(IMPORTED), FusePass(), *options.inserted(FUSED)])
    reference = None
    for pass_ in flatten(quantize_pass(options)):
        runner.run(ctx, module, [pass_])
        if isinstance(pass_, UnfuseResidualPass):
            if is_quantized(main_function(module)):
                raise InputError(
                    "the model is already quantized: give a float network or another variant as a "
                    "second model"
                )
            label_layers(module)
            reference = module.clone()
    runner.run(ctx, module, options.inserted(QUANTIZED))
    assert reference is not None
    return NoiseMeter(reference, module)


def variant_of(module: ModuleOp, options: BuildOptions) -> str:
    """
    Prepare `module` for a comparison, and return the kind for the table. A quantized model remains,
    and Q/DQ become integer operations. A float model is quantized if there is calibration data, or
    if the IR text has exponents of scales.
    """
    from ceras_ir.transforms.graph.fuse import FusePass
    from ceras_ir.transforms.quantization.analysis.qdq import (
        carries_exponents,
        carries_quantization,
    )
    from ceras_ir.transforms.quantization.quantize import QuantizePass

    ctx, runner, main = load_context(), PassRunner(), main_function(module)
    at_imported = options.inserted(IMPORTED)
    at_fused, at_quantized = options.inserted(FUSED), options.inserted(QUANTIZED)
    if is_quantized(main) and not carries_floats(module):
        runner.run(ctx, module, [*at_imported, *at_fused, *at_quantized])
        return STORED
    runner.run(ctx, module, [*at_imported, FusePass(), *at_fused])
    if carries_quantization(module):
        runner.run(ctx, module, [QuantizePass(), *at_quantized])
        return QDQ
    if options.calibration is None and not carries_exponents(main):
        return "float"
    runner.run(ctx, module, [quantize_pass(options), *at_quantized])
    return recipe_text(options.recipe)


def recipe_text(recipe: Sequence[str]) -> str:
    """Return the name of a variant in tables: `recipe PASS,PASS`, or `default recipe`."""
    return f"recipe {','.join(recipe)}" if recipe else "default recipe"


def carries_floats(module: ModuleOp) -> bool:
    """
    Return whether a convolution or matrix product of a converted Q/DQ network is still computed in
    float.
    """
    ops = main_function(module).body.block.ops
    return any(isinstance(op, graph.LinearOperation) and not op.is_quantized for op in ops)


def pair_with_another(
    first: ModuleOp, second: ModuleOp, nodes: tuple[Nodes, Nodes] | None = None
) -> NoiseMeter:
    """
    Return a meter that compares `second` with `first`, by the operations that compute the same
    tensor. `nodes` are the nodes of both networks before fusion. Raise an `InputError` if no
    operations correspond.
    """
    _expect_same_interface(first, second)
    found = list(pairs(first, second, nodes or (Nodes(first), Nodes(second))))
    if not found:
        raise InputError(
            "no layer has the same name, operator and shape in both models; print text without "
            "--strip-names"
        )
    for module in (first, second):
        for op in main_function(module).body.block.ops:
            op.attributes.pop(LAYER, None)
    for number, pair in enumerate(found):
        for op in pair:
            op.attributes[LAYER] = IntegerAttr(number, i64)
    return NoiseMeter(first, second, aligned=True)


def _expect_same_interface(first: ModuleOp, second: ModuleOp) -> None:
    interfaces: list[list[tuple[str, str]]] = []
    for module in (first, second):
        main = main_function(module)
        inputs = zip(input_names(main), main.body.block.args, strict=True)
        outputs = zip(output_names(main), result_values(main), strict=True)
        interfaces.append([(name, str(value.type)) for name, value in (*inputs, *outputs)])
    if interfaces[0] != interfaces[1]:
        texts = [", ".join(f"{name} {kind}" for name, kind in side) for side in interfaces]
        raise InputError(f"inputs and outputs must be the same, got {texts[0]} and {texts[1]}")
