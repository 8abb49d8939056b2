"""`ceras-compare`: what quantization does to a network, layer by layer and at its end."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ceras_ir.diagnostics import InputError, UsageError
from ceras_ir.driver.diagnostics import run_tool
from ceras_ir.driver.options import EXIT_STATUS, add_shapes, title_of
from ceras_ir.driver.tool_parser import ToolParser

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.analysis.layer_noise import LayerNoise, NoiseMeter
    from ceras_ir.driver.end_metrics import Array, Hook, Metric
    from ceras_ir.samples import Samples


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-compare", _compare, argv)


def make_parser() -> ToolParser:
    """The command line of `ceras-compare`."""
    parser = ToolParser(
        "ceras-compare",
        description="Quantize a float network, run it beside the float one, and say where "
        "precision goes: per layer the signal to noise of the layer alone and accumulated, what is "
        "clipped, range and scale; the end metric; the worst layers and what to try.",
        epilog=EXIT_STATUS,
    )
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX model, or IR text in .mlir")
    parser.add_argument("--inputs", metavar="B.npz", required=True, help="inputs to compare on")
    parser.add_argument(
        "--calibrate",
        metavar="A.npz",
        help="representative inputs to calibrate on; without them ranges come from the IR or are "
        "synthetic",
    )
    parser.add_argument(
        "--labels",
        metavar="L.npz",
        help="true classes, [N], or [N, H, W] for segmentation: then top-1, top-5 or IoU are "
        "measured, of both networks",
    )
    parser.add_argument(
        "--metric",
        metavar="FILE.py:FUNCTION",
        help="a function of (outputs by name, labels or None) that returns a number, or numbers by "
        "name; called for the float and for the quantized outputs",
    )
    parser.add_argument("--html", metavar="OUT.html", help="write a page with plots, one file")
    parser.add_argument("--recipe", metavar="R", help="recipe of the pass quantize")
    parser.add_argument(
        "--against", metavar="R", help="compare with a second variant, quantized by this recipe"
    )
    parser.add_argument("--samples", type=int, metavar="N", help="compare on the first N only")
    add_shapes(parser)
    return parser


@dataclass(frozen=True)
class _Variant:
    """One quantized network and what was measured of it."""

    recipe: str
    layers: list["LayerNoise"]
    metrics: list["Metric"]


def _compare(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    if arguments.samples is not None and arguments.samples < 1:
        raise UsageError(f"--samples must be at least 1, got {arguments.samples}")

    from ceras_ir.driver.end_metrics import load_hook, load_labels
    from ceras_ir.driver.named_file import naming
    from ceras_ir.driver.stages import read_network
    from ceras_ir.samples import load_samples

    hook = None if arguments.metric is None else load_hook(arguments.metric)
    with naming(arguments.model):
        module = read_network(arguments.model, batch=arguments.batch, shapes=dict(arguments.shape))
        everything = load_samples(arguments.inputs, module)
        samples = everything.first(arguments.samples)
        labels = None
        if arguments.labels is not None:
            labels = load_labels(arguments.labels, len(everything))[: len(samples)]
        recipes = [arguments.recipe, *([arguments.against] if arguments.against else [])]
        variants = [
            _measure(module.clone(), arguments.calibrate, recipe, samples, labels, hook)
            for recipe in recipes
        ]
    _print(variants, len(samples))
    if arguments.html is not None:
        from ceras_ir.driver.compare_page import compare_page
        from ceras_ir.driver.output_file import open_output

        other = (variants[1].recipe, variants[1].layers) if len(variants) > 1 else None
        page = compare_page(
            title_of(arguments.model), variants[0].metrics, variants[0].layers, other
        )
        with open_output(arguments.html) as stream:
            stream.write(page)
    return 0


def _measure(
    module: "ModuleOp",
    calibration: str | None,
    recipe: str | None,
    samples: "Samples",
    labels: "Array | None",
    hook: "Hook | None",
) -> _Variant:
    import numpy as np

    from ceras_ir.driver.end_metrics import end_metrics
    from ceras_ir.progress import progress
    from ceras_ir.samples import join

    meter, used = _meter(module, calibration, recipe)
    outputs = list(progress(meter.measure(samples), "comparing", len(samples)))
    expected, actual = (join([pair[i] for pair in outputs], samples) for i in (0, 1))
    if not samples.batched:
        expected, actual = ({k: v[None] for k, v in o.items()} for o in (expected, actual))
    integers = None if labels is None else labels.astype(np.int64)
    metrics = end_metrics(expected, actual, integers, hook)
    return _Variant(used, list(meter.layers.values()), metrics)


def _meter(
    module: "ModuleOp", calibration: str | None, recipe: str | None
) -> tuple["NoiseMeter", str]:
    """Quantize `module`, keeping the float network as it was just before."""
    from ceras_ir.analysis.layer_noise import NoiseMeter, label_layers
    from ceras_ir.analysis.network import main_function
    from ceras_ir.analysis.quantizable import is_quantized
    from ceras_ir.driver.context import load_context
    from ceras_ir.driver.instrumentation import PassRunner
    from ceras_ir.transforms.fuse import FusePass
    from ceras_ir.transforms.pipeline import flatten
    from ceras_ir.transforms.quantize import QuantizePass
    from ceras_ir.transforms.recipes import AUTO, recipe_of
    from ceras_ir.transforms.unfuse_residual import UnfuseResidualPass

    ctx, runner = load_context(), PassRunner()
    runner.run(ctx, module, [FusePass()])
    reference = None
    wanted = recipe or AUTO
    for pass_ in flatten(QuantizePass(calibration, recipe=wanted)):
        runner.run(ctx, module, [pass_])
        if isinstance(pass_, UnfuseResidualPass):
            if is_quantized(main_function(module)):
                raise InputError("it comes quantized: there is no float network to compare with")
            label_layers(module)
            reference = module.clone()
    assert reference is not None
    return NoiseMeter(reference, module), recipe_of(main_function(module)) or "plain"


def _print(variants: list[_Variant], samples: int) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ceras_ir.analysis.remedies import remedies, worst_layers
    from ceras_ir.driver.compare_page import decimal

    first, rest = variants[0], variants[1:]
    # What a program reads must not be cut to a window's width.
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("layer", max_width=36, overflow="fold")
    table.add_column("operation")
    for name in ("scale", "range", "clipped", "alone dB", "accumulated dB"):
        table.add_column(name, justify="right")
    for variant in rest:
        table.add_column(f"{variant.recipe} dB", justify="right")
    others = [{(v.name, v.operator): v for v in variant.layers} for variant in rest]
    for layer in first.layers:
        same = [other.get((layer.name, layer.operator)) for other in others]
        table.add_row(
            escape(layer.name),
            layer.operator,
            "float" if layer.scale is None else f"{layer.scale:.4g}",
            f"({layer.low:.3g}, {layer.high:.3g})",
            f"{layer.clipped_share:.2%}",
            decimal(layer.isolated_ratio),
            decimal(layer.accumulated_ratio),
            *("" if v is None else decimal(v.accumulated_ratio) for v in same),
        )
    console.print(table)
    console.print(f"\n{samples} sample(s), recipe {first.recipe}")
    result = Table(box=None, pad_edge=False)
    for name in ("metric", "float", "quantized", *(variant.recipe for variant in rest)):
        result.add_column(name, justify="left" if name == "metric" else "right")
    for i, metric in enumerate(first.metrics):
        real = "" if metric.real is None else f"{metric.real:.4f}"
        more = (f"{variant.metrics[i].quantized:.4g}" for variant in rest)
        result.add_row(escape(metric.name), real, f"{metric.quantized:.4g}", *more)
    console.print(result)
    for layer in worst_layers(first.layers):
        ratio = decimal(layer.isolated_ratio)
        console.print(f"\n{layer.name} ({layer.operator}), {ratio} dB alone:", markup=False)
        for text in remedies(layer):
            console.print(f"  - {text}", markup=False)
