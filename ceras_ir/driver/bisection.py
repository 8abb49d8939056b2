"""
Which pass is wrong: the first one after which outputs are others.

Outputs are compared with those just before the pass, so that what one pass may change, within the
tolerance, is held against no other.
"""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.sample_stream import open_samples
from ceras_ir.data.synthetic_samples import synthetic_steps
from ceras_ir.driver.differences import Array, compare_outputs, signal_to_noise
from ceras_ir.interpreters.sequence import in_turn
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.pipeline.instrumentation import Watch
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import InputError

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
    made-up ones: to the bit once integers are computed, by decibels with a `tolerance`.
    """
    verify_module(module)
    main = main_function(module)
    if inputs is None:
        samples = synthetic_steps(main, count, seed=1)
    else:
        samples = list(open_samples(inputs, network_inputs(main)).first(count))

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
        for number, (actual, wanted) in enumerate(zip(expected, before, strict=True)):
            if tolerance is not None:
                ratio = signal_to_noise(list(actual.values()), list(wanted.values()))
                wrong = None if ratio >= tolerance else f"signal to noise is {ratio:.1f} dB"
            else:
                wrong = compare_outputs(actual, wanted, exact=was_exact)
            if wrong is not None:
                return f"changes the outputs: on sample {number}, {wrong}"
        return None

    return watch
