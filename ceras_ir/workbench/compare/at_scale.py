"""
Compare networks on all samples: compute figures of merit in shards, with compiled code on parallel
workers.

The noise of layers is also measured here, but in the interpreter, and therefore only on the first
samples.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.command.entry_point import shown_name
from ceras_ir.data.samples import Samples
from ceras_ir.data.shards import samples_at, shards_of
from ceras_ir.driver.target_options import native_target
from ceras_ir.network.artefacts import TensorInfo, network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, quantize_pass, run_stages
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.workers import Workers
from ceras_ir.transforms.quantization.analysis.output_noise import quantities_of_outputs
from ceras_ir.workbench.compare.variants import Task, Variant, pair_with_float, recipe_text
from ceras_ir.workbench.evaluation import Data, judge_all, native_network, tasks_of
from ceras_ir.workbench.metrics.choose import judgement_of

MAX_LAYER_SAMPLES = 64
"""The number of samples on which layers are measured."""

MAX_NAMED_SHARDS = 5
"""The number of unreadable shards that are named; further shards are only counted."""


@dataclass(frozen=True)
class Scale:
    """
    The workers that evaluate samples in shards. With `stop`, a shard that cannot be loaded is an
    error; otherwise it is counted.
    """

    workers: Workers
    stop: bool = True


def compare_at_scale(
    module: ModuleOp,
    options: BuildOptions,
    recipes: Sequence[Sequence[str]],
    data: Data,
    scale: Scale,
) -> tuple[list[Variant], int]:
    """
    Quantize `module` with each of `recipes` and compare it with the float network on all of `data`,
    by compiled code. Return the measurements of each recipe, and the number of samples. Layers are
    measured on the first samples only, in the interpreter.
    """
    plain = BuildOptions(native_target()().for_host(), quantize="none", title=options.title)
    real = module.clone()
    run_stages(load_context(), real, front_stages(plain))
    quantities = quantities_of_outputs(main_function(real))
    reference = native_network(real, plain)
    inputs = network_inputs(main_function(module))
    few = _first(inputs, data)
    judgement = judgement_of(None, None, data.inputs, len(few), inputs)
    variants: list[Variant] = []
    judged = 0
    for recipe in recipes:
        chosen = replace(options, recipe=tuple(recipe))
        meter = pair_with_float(module.clone(), chosen)
        used = quantize_pass(chosen).optional
        variant = Task(few, judgement).measure(meter, recipe_text(recipe), "float", used)
        network = native_network(meter.quantized, chosen)
        tasks, bad = tasks_of(data, reference, network, quantities=quantities)
        if bad and scale.stop:
            raise InputError(bad[0].reason, bad[0].shard.path)
        started = time.perf_counter()
        found = judge_all(tasks, scale.workers, bad, stop=scale.stop)
        seconds = time.perf_counter() - started
        judged = found.count
        tool = shown_name("ceras-compare")
        for each in found.bad[:MAX_NAMED_SHARDS]:
            print(f"{tool}: warning: left out {each.shard}: {each.reason}", file=sys.stderr)
        if found.bad:
            print(
                f"{tool}: warning: {len(found.bad)} shards could not be read; figures are "
                f"of the {found.count} other samples",
                file=sys.stderr,
            )
        print(
            f"{variant.name}: {found.count} samples in {seconds:.1f} s, "
            f"{found.count / seconds:.0f} a second, on {len(scale.workers)} workers",
            file=sys.stderr,
        )
        variants.append(replace(variant, metrics=found.measured, ratio=found.ratio))
    return variants, judged


def _first(inputs: list[TensorInfo], data: Data) -> Samples:
    shards = shards_of(data.inputs, inputs, data.samples, [])
    if not shards:
        raise InputError("no samples can be read", data.inputs)
    path, count = shards[0].path, min(shards[0].count, MAX_LAYER_SAMPLES)
    samples = list(samples_at(path, inputs, range(count)))
    arrays = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
    return Samples(arrays, len(samples))
