"""
Quantize a network as the only work of a process, whose processor time `quantization_time.py`
measures.

    python benchmarks/quantization_process.py ours MODEL.onnx SAMPLES.npz [INPUT=RESULT ...]
    python benchmarks/quantization_process.py runtime MODEL.onnx SAMPLES.npz

Each program imports only the modules that it needs. `INPUT=RESULT` is a state.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path


def by_ceras(model: str, samples: str, states: Sequence[str]) -> None:
    from ceras_ir.command.entry_point import start_quickly, uncollected

    # As each command does.
    start_quickly()
    with uncollected():
        from ceras_ir.pipeline.context import load_context
        from ceras_ir.pipeline.parsing import read_network
        from ceras_ir.pipeline.pass_options import build
        from ceras_ir.transforms.graph.fuse import FusePass
        from ceras_ir.transforms.quantization.quantize import QuantizePass

    pairs = dict(state.split("=") for state in states)
    module, context = read_network(model, states=pairs), load_context()
    FusePass().apply(context, module)
    build(QuantizePass, f"target=c calibration={samples}").apply(context, module)


def by_runtime(model: str, samples: str) -> None:
    import numpy as np
    from onnx_runtime import runtime_module

    tools = runtime_module("onnxruntime.quantization")
    data = dict(np.load(samples))
    count = len(next(iter(data.values())))
    every = iter([{name: array[n : n + 1] for name, array in data.items()} for n in range(count)])

    class Reader:
        """The samples, with the interface that ONNX Runtime requires."""

        def get_next(self) -> object:
            return next(every, None)

    with tempfile.TemporaryDirectory() as folder:
        tools.quantize_static(
            model,
            Path(folder) / "q.onnx",
            Reader(),
            per_channel=True,
            calibrate_method=tools.CalibrationMethod.MinMax,
        )


if __name__ == "__main__":
    program, *files = sys.argv[1:]
    if program == "ours":
        by_ceras(files[0], files[1], files[2:])
    else:
        by_runtime(*files)
