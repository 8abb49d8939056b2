"""Run a network, or what was compiled of it, on samples."""

from collections.abc import Sequence

from ceras_ir.data.sample_stream import StreamedSamples
from ceras_ir.data.samples import Array, Samples, as_declared, join
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.progress import progress
from ceras_ir.targets.execution import Executable


def run_all(
    executable: Executable, samples: Samples | StreamedSamples, declared: Sequence[TensorInfo]
) -> dict[str, Array]:
    """The outputs of all samples by name, in the types that the model has `declared`."""
    results = list(progress(executable.run(list(samples)), "running", len(samples)))
    return as_declared(join(results, batched=samples.batched), declared)
