"""An exported model, imported again and run by the interpreter."""

from pathlib import Path

from ceras_ir.backends.interp.interpreted import Interpreted
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.reading import read_network
from ceras_ir.pipeline.stages import front_stages, run_stages
from ceras_ir.targets.execution import Sample, Trace
from ceras_ir.transforms.quantization.quantize_graph import FloatSumRule


class Reimported(Interpreted):
    """The model at `path`; its Q/DQ become integers again, its float sums `ordered`."""

    def __init__(self, path: Path):
        module = read_network(str(path))
        options = BuildOptions().resolved(module)
        if options.is_quantized:
            run_stages(load_context(), module, front_stages(options))
        else:
            # All that was chosen to be quantized may have been kept in float.
            FloatSumRule().apply(load_context(), module)
        super().__init__(module)

    def trace(self, sample: Sample, trace: Trace) -> None:
        """Nothing: its operations are others than the steps of what was exported."""
