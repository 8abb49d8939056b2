"""`ceras-compare`: measure the effect of quantization on each layer and on the outputs."""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from ceras_ir.command.conditions import (
    DECIBELS,
    NUMBER,
    SHARE,
    Condition,
    Quantity,
    Value,
    add_conditions,
    check_conditions,
    met_conditions,
    print_met,
)
from ceras_ir.command.entry_point import shown_name
from ceras_ir.command.exit_status import EXIT_STATUS, run_tool
from ceras_ir.command.help_parser import usual
from ceras_ir.command.tool_parser import ToolParser, add_options
from ceras_ir.driver.build_options import add_extensions, add_scheme, arithmetic_of, scheme_of
from ceras_ir.driver.data_options import (
    EvaluationOptions,
    add_inputs,
    calibration_workers,
    inputs_of,
    with_image_options,
)
from ceras_ir.driver.model_options import (
    MODEL_FILE,
    ShapeOptions,
    StateOptions,
    interface_of,
    title_of,
)
from ceras_ir.driver.worker_options import add_workers, digests_of, workers_of
from ceras_ir.pipeline.context import plugins
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.figure_names import identifier
from ceras_ir.transforms.quantization_options import ArithmeticOptions, recipe_names

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.pipeline.stages import BuildOptions
    from ceras_ir.workbench.compare.floors import Floors
    from ceras_ir.workbench.compare.proposals import Proposal
    from ceras_ir.workbench.compare.variants import Task, Variant


DROP = " drop"
"""The end of the name of a loss: the figure of the float network minus that of the quantized."""

MAX_PROPOSAL_INPUTS = 32
"""The number of inputs on which other options are evaluated."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-compare", _compare, argv)


def make_parser() -> ToolParser:
    """Return the command line of `ceras-compare`."""
    parser = ToolParser(
        "ceras-compare",
        description="Quantize a float network, and print the loss of precision: the "
        "signal-to-noise ratio of each layer in isolation and accumulated, the clipped share, "
        "range and scale; the metric at the outputs; the worst layers with proposals. With two "
        "models, compare the layers that compute the same tensor.",
        epilog=EXIT_STATUS,
        examples=(
            "model.onnx --calibrate data.npz --inputs test.npz --labels labels.npz",
            "model.onnx --calibrate data.npz --inputs test.npz --propose --html page.html",
        ),
    )
    parser.add_argument("model", metavar="MODEL.onnx", help=MODEL_FILE)
    parser.add_argument(
        "other",
        metavar="OTHER.onnx",
        nargs="?",
        help="a second model or text to compare with: quantized, with Q/DQ, or with ranges. A "
        "float model is quantized if --calibrate is given",
    )
    add_inputs(parser, "compare on these inputs, which are streamed", required=True)
    usual(
        parser.add_argument(
            "--labels",
            metavar="L.npz|L.json",
            help="measure accuracy of both networks against these labels: classes [N] (top-1, "
            "top-5), [N, H, W] for segmentation (IoU), a .json file of COCO for detection, or "
            "any argument of your function, with samples first",
        )
    )
    usual(
        parser.add_argument(
            "--metric",
            metavar="NAME",
            help="measure this: topk, segmentation, or detection (average precision; without "
            "labels, against the float network's detections); or FILE.py:FUNCTION or "
            "MODULE:FUNCTION, called with (outputs by name, labels or None) for the float and the "
            "quantized outputs, which returns a number or numbers by name (default: topk or "
            "segmentation, by the labels)",
        )
    )
    usual(
        parser.add_argument(
            "--html", metavar="OUT.html", help="write a page with plots to this file"
        )
    )
    add_options(parser, EvaluationOptions)
    add_options(parser, ArithmeticOptions)
    add_conditions(
        parser,
        '"agreement<98%" or "signal_to_noise_db<25". Metrics are the names in the printed table, '
        "also as in a study of ceras explore: signal_to_noise_db, agreement, top_1, mean_iou and "
        "so on; top_1_drop is the loss of top_1, as for other shares; with several outputs, all "
        "are checked, and OUTPUT: METRIC is a single output",
    )
    add_scheme(parser)
    parser.add_argument(
        "--against",
        type=partial(recipe_names, option="--against"),
        metavar="PASS,...",
        help="compare with a second variant, quantized with these optional passes",
    )
    usual(
        parser.add_argument(
            "--propose",
            action="store_true",
            help="evaluate other options on the first 32 inputs, and print the cost and gain of "
            "each, with the standard error, and the noise with fewer roundings; do not use the "
            "calibration inputs here",
        )
    )
    group = parser.add_argument_group(
        "many inputs",
        "With these options, compiled code computes the figures of merit in shards; the number "
        "of workers does not change them. Layers use the first 64 inputs. Inputs can also be tar "
        "archives, with classes in .cls members.",
    )
    add_workers(group, default="figures from the interpreter, in this process")
    group.add_argument(
        "--bad-shards",
        choices=("stop", "skip"),
        default="stop",
        help="stop at inputs that cannot be read, or name, count and skip them (default: "
        "%(default)s)",
    )
    add_options(parser, ShapeOptions)
    add_options(parser, StateOptions)
    add_extensions(parser)
    return parser


def _compare(argv: Sequence[str]) -> int:
    with plugins(argv):
        arguments = make_parser().read(argv)
        with calibration_workers(arguments):
            return _compare_models(arguments)


def _compare_models(arguments: argparse.Namespace) -> int:
    if arguments.other is not None and arguments.against is not None:
        raise UsageError("--against is a second recipe of a single model; there are two models")
    if arguments.propose and (arguments.other is not None or not arguments.calibrate):
        raise UsageError("--propose requires a single model and --calibrate")
    if arguments.propose and arguments.inputs in arguments.calibrate:
        raise UsageError("--propose requires --inputs that differ from the calibration data")

    from ceras_ir.command.output_files import open_output, refuse_overwriting
    from ceras_ir.data.magnitudes import note_calibration, note_inputs, pixel_inputs
    from ceras_ir.data.sample_stream import open_samples
    from ceras_ir.data.samples import require_finite
    from ceras_ir.network.artefacts import network_inputs
    from ceras_ir.network.function import inputs_with_missing_values, main_function
    from ceras_ir.workbench.compare.output import print_proposals, print_table
    from ceras_ir.workbench.compare.variants import Task
    from ceras_ir.workbench.metrics.choose import judgement_of

    _check_conditions(arguments)
    at_scale = arguments.jobs is not None or arguments.scheduler is not None
    if at_scale and (arguments.other is not None or arguments.propose):
        raise UsageError("--jobs and --scheduler require a single model, without --propose")
    if at_scale and arguments.state:
        raise UsageError(
            "a network with states needs the samples in order: remove --jobs and --scheduler"
        )

    read = arguments.model, arguments.other, arguments.inputs, arguments.labels
    refuse_overwriting(arguments.html, *read, *(arguments.calibrate or ()))
    module = _read(arguments, arguments.model)
    inputs = inputs_of(arguments) or arguments.inputs
    network = network_inputs(main_function(module))
    main = main_function(module)
    calibrated = note_calibration(with_image_options(arguments.calibrate or [], arguments), main)
    note_inputs(inputs, network, calibrated, pixels=pixel_inputs(main))
    if at_scale:
        return _compare_on_workers(arguments, module, inputs)
    everything = open_samples(inputs, network)
    samples = everything.first(arguments.samples)
    judgement = judgement_of(arguments.metric, arguments.labels, inputs, len(everything), network)
    require_finite(samples, arguments.inputs, nullable=inputs_with_missing_values(main))
    is_single = arguments.other is None and arguments.calibrate
    task = Task(samples, judgement.first(len(samples)))
    with ExitStack() as stack:
        # Opened first, so that an error is reported before minutes of work.
        stream = None
        if arguments.html is not None:
            stream = stack.enter_context(open_output(arguments.html))
        variants = _measure(arguments, module, task)
        found = _proposals(arguments, module, task, variants[0]) if arguments.propose else None
        if stream is not None:
            from ceras_ir.workbench.compare.output import compare_page

            stream.write(compare_page(title_of(arguments.model), variants, len(samples)))
        print_table(variants, len(samples))
        if found is not None:
            print_proposals(*found)
        elif is_single:
            print("\n--propose evaluates other options and prints the gains")
    return _status(arguments, variants, len(samples))


def _metrics() -> dict[str, Quantity]:
    """Return the metrics that conditions of `--fail-if` can use, and their units."""
    from ceras_ir.workbench.compare.variants import BEFORE_SOFTMAX
    from ceras_ir.workbench.metrics.choose import FIGURE_NAMES, MEAN_ERROR, OUTPUT_RATIO

    known = {OUTPUT_RATIO: DECIBELS, BEFORE_SOFTMAX: DECIBELS, MEAN_ERROR: NUMBER}
    names = known | {name: SHARE for name in FIGURE_NAMES if name not in known}
    shares = {f"{name}{DROP}": SHARE for name, quantity in names.items() if quantity is SHARE}
    return {identifier(name): quantity for name, quantity in {**names, **shares}.items()}


def _check_conditions(arguments: argparse.Namespace) -> None:
    from ceras_ir.workbench.metrics.choose import IOU_OF_CLASS

    has_function = ":" in (arguments.metric or "")

    def is_other(name: str) -> bool:
        return has_function or name.startswith(identifier(IOU_OF_CLASS))

    check_conditions(arguments.fail_if, _metrics(), is_other)


def _values(variants: "Sequence[Variant]") -> list[Value]:
    found: list[Value] = []
    for variant in variants:
        for figure in variant.metrics:
            output, _, name = figure.name.rpartition(": ")
            found.append(Value(identifier(name), figure.quantized, output, variant.name))
            if figure.real is not None:
                loss = figure.real - figure.quantized
                found.append(Value(identifier(f"{name}{DROP}"), loss, output, variant.name))
    return found


def _status(arguments: argparse.Namespace, variants: "Sequence[Variant]", samples: int) -> int:
    """
    Return exit status 1 if a condition of `--fail-if` is met, or if a variant with ranges from
    calibration data or Q/DQ has a signal-to-noise ratio below `--floor`; otherwise return 0.
    """
    from ceras_ir.driver.differences import below_floor
    from ceras_ir.support.diagnostics import remark
    from ceras_ir.workbench.compare.variants import QDQ, STORED

    status = 0
    for variant in variants:
        if not variant.ratio < arguments.floor:
            continue
        comes_quantized = any(f"({kind})" in variant.name for kind in (QDQ, STORED))
        wrong = bool(arguments.calibrate) or comes_quantized
        remark(
            f"{shown_name('ceras-compare')}: {'error' if wrong else 'warning'}: {variant.name}: "
            f"{below_floor(variant.ratio, arguments.floor, samples, '--propose tries remedies')}"
        )
        status = int(wrong) or status
    conditions: list[Condition] = arguments.fail_if
    met = list(met_conditions(conditions, _values(variants), _metrics()))
    return print_met("ceras-compare", met) or status


def _compare_on_workers(arguments: argparse.Namespace, module: "ModuleOp", inputs: str) -> int:
    from ceras_ir.command.exit_status import naming
    from ceras_ir.command.output_files import write_file
    from ceras_ir.workbench.compare.at_scale import Scale, compare_at_scale
    from ceras_ir.workbench.compare.output import compare_page, print_table
    from ceras_ir.workbench.evaluation import Data

    options = _scheme(arguments)
    recipes = [options.recipe, *([arguments.against] if arguments.against else [])]
    digests = digests_of(inputs, arguments.labels)
    files = tuple((path, digest) for digest, path in digests.items())
    data = Data(inputs, arguments.labels, arguments.metric, arguments.samples, files)
    with workers_of(arguments, digests, default=None) as workers, naming(arguments.model):
        scale = Scale(workers, arguments.bad_shards == "stop")
        variants, count = compare_at_scale(module, options, recipes, data, scale)
    if arguments.html is not None:
        page = compare_page(title_of(arguments.model), variants, count)
        write_file(arguments.html, page.encode())
    print_table(variants, count)
    return _status(arguments, variants, count)


def _proposals(
    arguments: argparse.Namespace, module: "ModuleOp", task: "Task", variant: "Variant"
) -> "tuple[list[Proposal], Floors]":
    from ceras_ir.pipeline.context import load_context
    from ceras_ir.transforms.graph.fuse import FusePass
    from ceras_ir.workbench.compare.floors import floors
    from ceras_ir.workbench.compare.proposals import proposals

    FusePass().apply(load_context(), module)
    few = list(task.samples.first(MAX_PROPOSAL_INPUTS))
    judgement, options = task.judgement.first(len(few)), _scheme(arguments)
    limits = floors(module, options, few)
    return proposals(module, options, variant.layers, few, judgement), limits


def _scheme(arguments: argparse.Namespace) -> "BuildOptions":
    from ceras_ir.workbench.compare.variants import comparing_options

    return comparing_options(scheme_of(arguments, arithmetic_of(arguments)))


def _read(arguments: argparse.Namespace, path: str) -> "ModuleOp":
    from ceras_ir.command.exit_status import naming
    from ceras_ir.pipeline.parsing import read_network

    with naming(path):
        return read_network(path, **interface_of(arguments))


def _measure(arguments: argparse.Namespace, module: "ModuleOp", task: "Task") -> "list[Variant]":
    from ceras_ir.command.exit_status import naming
    from ceras_ir.workbench.compare.variants import one_model, two_models

    options = _scheme(arguments)
    if arguments.other is not None:
        other = _read(arguments, arguments.other)
        return two_models([(arguments.model, module), (arguments.other, other)], options, task)
    recipes = [options.recipe, *([arguments.against] if arguments.against else [])]
    with naming(arguments.model):
        return one_model(module, options, recipes, task)
