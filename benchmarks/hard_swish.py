"""
Answer the question of S1 for a detector with SiLU: the loss from int8 and from HardSwish, retrained
or not.

    python benchmarks/hard_swish.py MODEL.onnx CALIBRATION TEST --labels L.json
        [--retrained R.onnx] [--draws 3] [--targets nnet c vta]
    python benchmarks/hard_swish.py MODEL.onnx CALIBRATION TEST --layers 4 [--retrained R.onnx]

CALIBRATION and TEST are `.npz` files or folders of images with options, as
`DIR?fit=letterbox&channels=bgr&scale=1`. Each draw calibrates with 64 samples of CALIBRATION.
R.onnx is the output of `ceras-retrain MODEL.onnx --silu hardswish`. A line per variant has the mean
AP over draws; the difference from the float network with SiLU, with the standard error over images;
the range over draws; and the agreement with that network. `--layers` prints the loss of each layer
instead, on the given number of samples.
"""

import argparse
import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from quantization import TASK, Samples, of_runtime, of_target, quantized
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.onnx.export import export_model
from ceras_ir.data.sample_stream import open_samples
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function, output_names
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.analysis.layer_noise import LayerNoise, NoiseMeter
from ceras_ir.workbench.compare.variants import Nodes, pair_with_another, pair_with_float
from ceras_ir.workbench.metrics.choose import Judge, Judgement, judgement_of
from ceras_ir.workbench.metrics.figures import Figure, Outputs, gain, mean_of

ONE_SCALE = "recipe=none"
"""The arithmetic of S1: a single power-of-two scale for each tensor, aligned by shifts."""


def fused(path: str, *, hard_swish: bool = False) -> ModuleOp:
    module = read_network(path)
    FusePass(hard_swish=hard_swish).apply(load_context(), module)
    return module


def networks(arguments: argparse.Namespace) -> Iterator[tuple[str, ModuleOp]]:
    """Yield the fused float networks with titles, SiLU first."""
    yield "SiLU", fused(arguments.model)
    yield "HardSwish", fused(arguments.model, hard_swish=True)
    if arguments.retrained is not None:
        yield "HardSwish, retrained", fused(arguments.retrained)


class Table:
    """Prints a line for the runs of all draws as soon as they are finished."""

    def __init__(self, expected: Sequence[Outputs], judgement: Judgement):
        self.expected, self.judgement = expected, judgement

    def show(self, title: str, runs: Iterator[list[Outputs]]) -> None:
        count = len(self.expected)
        draws = [self._figures(found) for found in runs]
        cells = [f"{title:44}"]
        for name in draws[0]:
            figures = [draw[name] for draw in draws]
            values = [figure.quantized(np.arange(count)) for figure in figures]
            real = figures[0].real
            if name in TASK and real is not None:
                change, error = gain(real, mean_of([f.quantized for f in figures]), count)
                spread = f"{min(values):.4f} to {max(values):.4f}"
                text = f"{np.mean(values):.4f} ({change:+.4f} ± {error:.4f}; {spread})"
                cells.append(f"{name} {text}")
            elif name.startswith("AP"):
                cells.append(f"agreement {np.mean(values):.3f}")
        print("  ".join(cells), flush=True)

    def _figures(self, found: Sequence[Outputs]) -> dict[str, Figure]:
        judge = Judge(self.judgement)
        for pair in zip(self.expected, found, strict=True):
            judge.add(*pair)
        return {figure.name: figure for figure in judge.figures()}


def accuracy(arguments: argparse.Namespace) -> None:
    """Print the table of AP."""
    main = main_function(read_network(arguments.model))
    network, names = network_inputs(main), output_names(main)
    samples: Samples = list(open_samples(arguments.test, network))
    judgement = judgement_of("detection", arguments.labels, arguments.test, len(samples), network)
    expected = of_runtime(Path(arguments.model).read_bytes(), samples, names)
    table = Table(expected, judgement)
    for title, floats in networks(arguments):
        if arguments.only and title not in arguments.only:
            continue
        found = of_runtime(export_model(floats, "network").SerializeToString(), samples, names)
        table.show(f"{title}: float", iter([found]))
        kinds = [f"target={target}" for target in arguments.targets]
        for kind in (*kinds, f"{kinds[0]} {ONE_SCALE}") if arguments.draws else ():
            runs = (
                of_target(quantized(floats, f"{calibration(arguments, draw)} {kind}")[0], samples)
                for draw in range(arguments.draws)
            )
            table.show(f"{title}: int8, {kind}", runs)


def calibration(arguments: argparse.Namespace, draw: int) -> str:
    """Return the options of `quantize` that choose the samples."""
    return f"calibration={arguments.calibration} samples={arguments.samples} draw={draw}"


def layers(arguments: argparse.Namespace) -> None:
    """
    Print the loss of each function in decibels: isolated, and with all layers before it. The
    functions are int8 tables, and HardSwish after the convolution in float.
    """
    plain = read_network(arguments.model)
    network, original = network_inputs(main_function(plain)), Nodes(plain)
    samples: Samples = [*islice(open_samples(arguments.test, network), arguments.layers)]
    options = BuildOptions(
        find_target("nnet")(),
        quantize="int8",
        calibration=arguments.calibration,
        samples=arguments.samples,
        draw=0,
    )
    reference = fused(arguments.model)
    measured = {"SiLU, int8": noise(pair_with_float(plain, options), samples)}
    for title, module in networks(arguments):
        if title != "SiLU":
            is_retrained = title.endswith("retrained")
            nodes = Nodes(read_network(arguments.retrained)) if is_retrained else original
            named = pair_with_another(reference.clone(), module, (original, nodes))
            # The channels are unchanged, so no channel is matched by a power of two.
            meter = NoiseMeter(named.reference, named.quantized)
            measured[f"{title}, float"] = noise(meter, samples)
    names = [name for name in measured["HardSwish, float"] if "Conv" in name]
    print(f"{'alone; accumulated, dB':24}", *(f"{title:>28}" for title in measured))
    for name in names:
        cells = [_decibels(found.get(name)) for found in measured.values()]
        print(f"{name:24}", *(f"{cell:>28}" for cell in cells))


def noise(meter: NoiseMeter, samples: Samples) -> dict[str, LayerNoise]:
    """Measure the noise of the last operation of each name."""
    for _ in meter.measure(samples):
        pass
    return {layer.name: layer for layer in meter.layers.values()}


def _decibels(layer: LayerNoise | None) -> str:
    if layer is None:
        return "-"
    return f"{layer.isolated_ratio:.1f}; {layer.accumulated_ratio:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("calibration")
    parser.add_argument("test")
    parser.add_argument("--labels")
    parser.add_argument("--retrained")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--draws", type=int, default=3, help="0: float alone")
    parser.add_argument("--targets", nargs="+", default=["nnet", "c", "vta"])
    parser.add_argument("--only", nargs="*", default=[], metavar="TITLE", help="these networks")
    parser.add_argument("--layers", type=int)
    arguments = parser.parse_args()
    logging.disable()
    if arguments.layers:
        layers(arguments)
    else:
        accuracy(arguments)


if __name__ == "__main__":
    main()
