"""
Measure the loss from int8: float, each variant of `quantize`, and ONNX Runtime's static
quantization.

    python benchmarks/quantization.py MODEL.onnx CALIBRATION.npz TEST.npz
        [--labels L.npz] [--metric NAME]
        [--variants 'recipe=none' 'target=vta observer=mse' ...]
        [--peers 'MinMax per-channel' 'Percentile per-channel float-tail' ...]

A line per variant, which is a list of options of the pass `quantize`, has these figures: top-1,
mean IoU or AP if there are labels, with the difference from float and the standard error from
resampled samples; agreement with float; signal to noise; and the processor time of quantization
(with OPENBLAS_NUM_THREADS=1, as in commands). Networks run as compiled C, which computes the same
as all levels and targets. ONNX Runtime quantizes the fused float network. `float-tail` excludes the
nodes after the last product, as users of ONNX Runtime do by hand; `convolutions` quantizes only
these.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import onnx
from onnx_runtime import runtime_module
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.target import CTarget
from ceras_ir.backends.onnx.export import export_model
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.data.samples import Array, load_samples
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function, output_names
from ceras_ir.pipeline.build import build_target, open_folder
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.pass_options import build
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import UnsupportedError
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization.widen_weights import WidenWeightsPass
from ceras_ir.workbench.metrics.choose import Judge, Judgement, judgement_of
from ceras_ir.workbench.metrics.figures import Outputs, measured

VARIANTS = ("recipe=none observer=mse", "target=c", "target=nnet", "target=vta")
PEERS = ("MinMax per-channel", "MinMax per-tensor")
LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
TASK = ("top-1", "mean IoU", "AP")

Samples = list[Mapping[str, Array]]


class Session(Protocol):
    """The method of ONNX Runtime that this script uses. The package has no type stubs."""

    def run(self, names: None, inputs: Mapping[str, Array]) -> list[Array]: ...


class Reader:
    """Samples with the interface that ONNX Runtime requires."""

    def __init__(self, samples: Iterator[Mapping[str, Array]]):
        self.samples = samples

    def get_next(self) -> Mapping[str, Array] | None:
        return next(self.samples, None)


def session(model: bytes) -> Session:
    runtime = runtime_module()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def peer(floats: ModuleOp, calibration: str, kind: str) -> bytes:
    """
    Return the fused network, quantized by ONNX Runtime with float scales and int8.

    `kind` consists of the method of calibration, the granularity of weight scales, and optionally
    `float-tail` or `convolutions`, which are then the only quantized operators.
    """
    tools = runtime_module("onnxruntime.quantization")
    method, weights, *excluding = kind.split()
    exported = export_model(floats, "network")
    # Methods other than min-max keep all activations of that number of samples.
    few = {} if method == "MinMax" else {"CalibMaxIntermediateOutputs": 16}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "q.onnx"
        tools.quantize_static(
            exported,
            path,
            Reader(iter(load_samples(calibration, floats))),
            quant_format=tools.QuantFormat.QDQ,
            per_channel=weights == "per-channel",
            activation_type=tools.QuantType.QInt8,
            weight_type=tools.QuantType.QInt8,
            calibrate_method=tools.CalibrationMethod[method],
            nodes_to_exclude=_tail(exported) if excluding == ["float-tail"] else [],
            op_types_to_quantize=["Conv"] if excluding == ["convolutions"] else None,
            extra_options=few,
        )
        return path.read_bytes()


def _tail(model: onnx.ModelProto) -> list[str]:
    """Return the names of the nodes without a product after them."""
    inside, tail = set[str](), list[str]()
    for node in reversed(model.graph.node):
        if node.op_type in LAYERS or not inside.isdisjoint(node.output):
            inside.update(node.input)
        else:
            tail.append(node.name)
    return tail


def of_runtime(model: bytes, samples: Samples, names: Sequence[str]) -> list[Outputs]:
    """Return the outputs of all samples, by name."""
    runner = session(model)
    return [dict(zip(names, runner.run(None, sample), strict=True)) for sample in samples]


def of_target(module: ModuleOp, samples: Samples) -> list[Outputs]:
    """Return the outputs of a quantized network for all samples, compiled as C."""
    WidenWeightsPass("c").apply(load_context(), module)
    with tempfile.TemporaryDirectory() as folder:
        compiled = build_target(module, BuildOptions(CTarget(weights="file")))
        write_artefacts(Path(folder), compiled.files())
        return list(open_folder(Path(folder)).run(samples))


class Table:
    """Prints a line as soon as its figures are known."""

    def __init__(self, expected: Sequence[Outputs], judgement: Judgement):
        self.expected, self.judgement = expected, judgement

    def show(self, name: str, found: Sequence[Outputs], seconds: float | None = None) -> None:
        judge = Judge(self.judgement)
        for pair in zip(self.expected, found, strict=True):
            judge.add(*pair)
        cells = [f"{name:36}"]
        for figure in measured(judge.figures(), len(found)):
            if figure.real is not None and figure.error is not None:
                if figure.name in TASK:
                    change = figure.quantized - figure.real
                    text = f"{figure.quantized:.4f} ({change:+.4f} ± {figure.error:.4f})"
                    cells.append(f"{figure.name} {text}")
            elif not figure.name.endswith("error"):
                cells.append(f"{figure.name} {figure.quantized:.4g}")
        cells.append("" if seconds is None else f"{seconds:6.1f} s")
        print("  ".join(cells), flush=True)


def task_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the model and the data of a measurement."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "calibration", "test"):
        parser.add_argument(name)
    parser.add_argument("--labels")
    parser.add_argument("--metric", help="as of ceras-compare")
    return parser


def open_task(arguments: argparse.Namespace) -> tuple[ModuleOp, Samples, Table]:
    """Return the fused float network, the test samples, and a table with the line of float."""
    runtime_module()  # Fail before minutes of work.
    logging.disable()
    floats, test = read_network(arguments.model), arguments.test
    network = network_inputs(main_function(floats))
    samples: Samples = list(load_samples(test, network))
    judgement = judgement_of(arguments.metric, arguments.labels, test, len(samples), network)
    names = output_names(main_function(floats))
    table = Table(of_runtime(Path(arguments.model).read_bytes(), samples, names), judgement)
    table.show("float", table.expected)
    FusePass().apply(load_context(), floats)
    return floats, samples, table


def quantized(floats: ModuleOp, options: str) -> tuple[ModuleOp, float]:
    """Return a quantized copy, and the processor time of the quantization."""
    module, started = floats.clone(), time.process_time()
    build(QuantizePass, options).apply(load_context(), module)
    return module, time.process_time() - started


def main() -> None:
    parser = task_parser(__doc__)
    parser.add_argument("--variants", nargs="*", default=VARIANTS)
    parser.add_argument("--peers", nargs="*", default=PEERS)
    arguments = parser.parse_args()
    floats, samples, table = open_task(arguments)
    for variant in arguments.variants:
        options = f"calibration={arguments.calibration} {variant}"
        module, seconds = quantized(floats, options)
        table.show(variant, of_target(module, samples), seconds)
    for kind in arguments.peers:
        started, line = time.process_time(), f"ONNX Runtime {kind}"
        try:
            model = peer(floats, arguments.calibration, kind)
        except UnsupportedError as error:
            # ONNX Runtime cannot quantize a network that target onnx cannot write.
            print(f"{line:36}  {error}")
            continue
        seconds = time.process_time() - started
        names = output_names(main_function(floats))
        table.show(line, of_runtime(model, samples, names), seconds)


if __name__ == "__main__":
    main()
