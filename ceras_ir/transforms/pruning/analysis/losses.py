"""
What pruning a layer costs at the ends of the network: a scan over shares of zeros.

The network runs on a few samples; one backward pass weighs every element of every layer's result
(`SensitivityMeter`), and each layer runs again with fewer and fewer of its weights. The loss of a
share is the weighted square of what changes, as noise over signal at the ends. Losses of layers
are taken to add.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import run
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import main_function, result_values
from ceras_ir.transforms.pruning.analysis.kept_weights import Rule
from ceras_ir.transforms.quantization.analysis.output_noise import mean_share, noise_of
from ceras_ir.transforms.quantization.analysis.quantities import Quantities
from ceras_ir.transforms.quantization.analysis.sensitivity import (
    Sample,
    SensitivityMeter,
    noise_at_ends,
)

SHARES = (0.0, 0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
"""Shares of zeros that are tried of every layer."""

Array = NDArray[np.generic]


def losses(
    module: ModuleOp,
    samples: Sequence[Sample],
    layers: Sequence[graph.LinearOperation],
    rule: Rule,
) -> NDArray[np.float64]:
    """Noise over signal at the ends for each layer and each of `SHARES`; it never falls."""
    # Not where integers will end: what follows is pruned too.
    ends = [v for v in result_values(main_function(module)) if not graph.is_plain(v)]
    meter, interpreter = SensitivityMeter(module, samples, ends=ends), interpreter_of(module)
    index: dict[SSAValue, int] = {op.result: i for i, op in enumerate(layers)}
    result = np.zeros((len(layers), len(SHARES)))
    for sample in samples:
        for value, known, gradient in meter.weigh(sample):
            if (i := index.get(value)) is None:
                continue
            op = layers[i]
            weights = np.asarray(graph.known_array(op.weights), np.float32)
            others = [known[v] for v in op.operands]
            for j, share in enumerate(SHARES[1:], 1):
                others[1] = np.where(rule(weights, share), weights, np.float32(0))
                with np.errstate(all="ignore"):
                    changed = interpreter.run_op(op, tuple(others))[0]
                error = np.asarray(changed, np.float64) - np.asarray(known[value], np.float64)
                result[i, j] += noise_at_ends(gradient, error) / len(samples)
    return np.maximum.accumulate(np.nan_to_num(result, nan=np.inf), axis=1)


def outputs(module: ModuleOp, samples: Iterable[Sample]) -> list[dict[str, Array]]:
    """What the network answers."""
    return [run(module, sample) for sample in samples]


def noise(
    dense: Sequence[Mapping[str, Array]],
    pruned: Sequence[Mapping[str, Array]],
    quantities: Mapping[str, Quantities] | None = None,
) -> float:
    """Return the noise-to-signal ratio, a mean over the outputs; NaN if no output varies."""
    found = noise_of(dense, pruned, quantities)
    return mean_share(each.share for each in found.values())
