"""Compare outputs with a reference, and find the pass after which they differ."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.sample_stream import open_samples, signed_sample, synthetic_steps
from ceras_ir.interpreters.network import in_turn
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import is_quantized, main_function
from ceras_ir.pipeline.instrumentation import Watch
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import InputError, UnsupportedError
from ceras_ir.transforms.quantization.analysis.calibration import MIN_RELIABLE_SAMPLES
from ceras_ir.transforms.quantization.analysis.output_noise import (
    OutputNoise,
    decibel_text,
    network_ratio,
    ratio_of,
)

Array: TypeAlias = NDArray[np.generic]

MAX_NAMED_OUTPUTS = 4
"""The largest number of outputs with separate noise."""

FLOAT_TOLERANCE = 1e-4
"""The largest difference between float levels, relative to the largest value of a tensor."""


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison with the reference, for a level of the compiler or a machine."""

    level: str
    good: bool
    text: str
    refused: UnsupportedError | None = None
    """The reason why a target refuses the network; the level is not compared then."""

    @property
    def exit_status(self) -> int:
        """The exit status of a command that has only this verdict."""
        return 0 if self.good else self.refused.exit_status if self.refused else 1


def first_difference(actual: Array, expected: Array) -> tuple[tuple[int, ...], str] | None:
    """
    Return the index of the first element with different bits, and a text with both values.
    Different shapes or types are a difference at the index (). Return `None` if all bits are equal.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        kinds = (
            f"{actual.dtype}{list(actual.shape)}, expected {expected.dtype}{list(expected.shape)}"
        )
        return (), kinds
    # Bits are compared, so a NaN equals itself, and 0.0 differs from -0.0.
    width = f"u{actual.dtype.itemsize}"
    differs = np.ascontiguousarray(actual).view(width) != np.ascontiguousarray(expected).view(width)
    if not differs.any():
        return None
    index = tuple(int(i) for i in np.argwhere(differs)[0])
    return index, f"{actual[index]}, expected {expected[index]}"


def relative_difference(actual: Array, expected: Array) -> float:
    """
    Return the largest absolute difference of two elements, divided by the largest finite magnitude
    of `expected`. It is infinite if a value is NaN or infinite and the other value is not the same.
    """
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    differs = (a != e) & ~(np.isnan(a) & np.isnan(e))
    scale = float(np.abs(e[np.isfinite(e)]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(a[differs] - e[differs])
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf).max(initial=0.0)) / scale


def flat(outputs: Sequence[Mapping[str, Array]]) -> list[Array]:
    """Return the arrays of all outputs of all samples in a single list."""
    return [array for each in outputs for array in each.values()]


def describe_noise(noise: Mapping[str, OutputNoise]) -> str:
    """
    Return text with the signal-to-noise ratio of the network and, if there are several outputs, of
    each output. `noise` has the noise of each output by name. If there are more outputs than fit,
    only the outputs with the most noise are listed.
    """
    text = f"signal to noise {decibel_text(network_ratio(noise))}"
    if isnan(network_ratio(noise)):
        return f"{text} (the ratio needs two or more samples with different outputs)"
    if len(noise) < 2:
        return text
    ratios = {name: each.ratio for name, each in noise.items()}
    worst = sorted(ratios, key=lambda name: inf if isnan(ratios[name]) else ratios[name])
    shown = list(ratios) if len(ratios) <= MAX_NAMED_OUTPUTS else worst[:MAX_NAMED_OUTPUTS]
    each = ", ".join(f"{name} {decibel_text(ratios[name], '')}" for name in shown)
    rest = "" if len(shown) == len(ratios) else "; the other outputs have less noise"
    return f"{text} ({each}{rest})"


def below_floor(ratio: float, floor: float, samples: int, remedy: str) -> str:
    """
    Return the message about a signal-to-noise ratio in dB that is below `--floor`, followed by
    `remedy`. It was measured on `samples` samples; of few samples, the message adds that the ratio
    is uncertain.
    """
    text = f"signal to noise is {ratio:.1f} dB, below --floor {floor:g}: {remedy}"
    if samples >= MIN_RELIABLE_SAMPLES:
        return text
    return (
        f"{text}; the ratio of {samples} samples depends on the choice of samples: give "
        f"{MIN_RELIABLE_SAMPLES} or more"
    )


def after_softmax(outputs: Collection[str], softmax: Collection[str]) -> str:
    """
    Return ", after softmax", the end of a text about `outputs`, if they are in `softmax`, the
    outputs that a softmax computes. If only some are, the names of these follow. Otherwise return
    "".
    """
    names = [name for name in outputs if name in softmax]
    if not names:
        return ""
    return ", after softmax" + ("" if len(names) == len(outputs) else f": {', '.join(names)}")


def compare_outputs(
    actual: Mapping[str, Array], expected: Mapping[str, Array], *, exact: bool
) -> str | None:
    """
    Return the first difference between two sets of outputs (arrays by name) in words; `None` if
    they agree. With `exact`, all bits must be equal; otherwise the relative difference may be
    `FLOAT_TOLERANCE`.
    """
    if missing := sorted(expected.keys() - actual.keys()):
        return f"output '{missing[0]}' is missing; the outputs are {', '.join(actual)}"
    for name, reference in expected.items():
        if exact:
            found = first_difference(actual[name], reference)
            if found is not None:
                index, values = found
                return f"output '{name}'{list(index)} is {values}"
        elif (error := relative_difference(actual[name], reference)) > FLOAT_TOLERANCE:
            return f"output '{name}' is off by {error:.2g}, relative; allowed {FLOAT_TOLERANCE:g}"
    return None


BISECTION_SAMPLES = 2
"""The number of inputs on which outputs are compared after each pass."""


def by_outputs(
    module: ModuleOp,
    inputs: str | None = None,
    count: int = BISECTION_SAMPLES,
    tolerance: float | None = None,
) -> Watch:
    """
    Return a function that compares the outputs of the network after a pass with the outputs before
    it, to find the pass that changes them. It uses the first `count` samples of the files `inputs`,
    or synthetic samples, of which one has both signs. After quantization, all bits must be equal.
    With a `tolerance`, only the signal-to-noise ratio over all samples must not be below this, in
    dB.
    """
    verify_module(module)
    main = main_function(module)
    if inputs is None:
        samples = synthetic_steps(main, count, seed=1)
        if tolerance is None:
            # The default range has no negative values, on which a pass can be wrong.
            samples.append(signed_sample(main))
    else:
        samples = list(open_samples(inputs, network_inputs(main)).first(count))

    if tolerance is not None and len(samples) < 2:
        raise InputError("--bisect-tolerance needs two samples or more, see --bisect-samples")

    def outputs(module: ModuleOp) -> list[dict[str, Array]]:
        return list(in_turn(module, samples))

    expected, exact = outputs(module), is_quantized(main)

    def watch(_: Context, module: ModuleOp) -> str | None:
        nonlocal expected, exact
        before, was_exact = expected, exact
        try:
            expected = outputs(module)
        # The type of an input or output changed; the samples were correct before.
        except InputError as error:
            return f"creates a network that cannot be run on the inputs: {error}"
        exact = is_quantized(main_function(module))
        if tolerance is not None and expected[0].keys() == before[0].keys():
            ratio = ratio_of(before, expected)
            # An undefined ratio is NaN, which is not below the tolerance.
            if not ratio < tolerance:
                return None
            return f"changes the outputs: signal to noise is {ratio:.1f} dB"
        for number, (actual, wanted) in enumerate(zip(expected, before, strict=True)):
            wrong = compare_outputs(actual, wanted, exact=was_exact)
            if wrong is not None:
                return f"changes the outputs: on sample {number}, {wrong}"
        return None

    return watch
