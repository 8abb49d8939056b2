"""
Which pass is wrong: the first one after which outputs are others.

Outputs are compared with those just before the pass, so that what one pass may change, within the
tolerance, is held against no other.
"""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.sample_stream import open_samples
from ceras_ir.data.synthetic_samples import synthetic_steps
from ceras_ir.driver.differences import Array, compare_outputs
from ceras_ir.interpreters.sequence import in_turn
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.pipeline.instrumentation import Watch
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.quantization.analysis.output_noise import ratio_of

SAMPLES = 2
"""On how many inputs outputs are compared behind every pass."""


def by_outputs(
    module: ModuleOp,
    inputs: str | None = None,
    count: int = SAMPLES,
    tolerance: float | None = None,
) -> Watch:
    """
    Compare the outputs behind a pass with those before it, on the first `count` of `inputs` or on
    synthetic ones: bit by bit after quantization, or by the signal-to-noise ratio of all samples
    in decibels with a `tolerance`.
    """
    verify_module(module)
    main = main_function(module)
    if inputs is None:
        samples = synthetic_steps(main, count, seed=1)
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
        # As types of the ends that change; InputErrors are of samples, which were right before.
        except InputError as error:
            return f"makes a network that cannot be run on the inputs: {error}"
        exact = is_quantized(main_function(module))
        if tolerance is not None:
            ratio = ratio_of(before, expected)
            # A ratio that is not available is NaN, which is not below the tolerance.
            if not ratio < tolerance:
                return None
            return f"changes the outputs: signal to noise is {ratio:.1f} dB"
        for number, (actual, wanted) in enumerate(zip(expected, before, strict=True)):
            wrong = compare_outputs(actual, wanted, exact=was_exact)
            if wrong is not None:
                return f"changes the outputs: on sample {number}, {wrong}"
        return None

    return watch
