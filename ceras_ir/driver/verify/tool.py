"""`ceras-verify`: compare all levels and targets on the same inputs; integers must be equal."""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ceras_ir.command.exit_status import EXIT_STATUS, report, run_tool
from ceras_ir.command.help_parser import usual
from ceras_ir.command.tool_parser import ToolParser, add_options, early_value
from ceras_ir.driver.build_options import (
    BisectPassesOptions,
    add_build_options,
    build_options,
    watching_of,
)
from ceras_ir.driver.data_options import (
    EvaluationOptions,
    add_inputs,
    calibration_workers,
    inputs_of,
)
from ceras_ir.driver.model_options import MODEL_FILE, interface_of, read_model
from ceras_ir.driver.target_options import (
    TargetClass,
    add_target_options,
    compiling_targets,
    described_targets,
    native_target,
    targets_of,
)
from ceras_ir.driver.worker_options import add_workers, digests_of, workers_of
from ceras_ir.pipeline.context import PluginFiles, plugins
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.targets.protocol import require_members
from ceras_ir.targets.registry import find_target

if TYPE_CHECKING:
    from ceras_ir.driver.differences import Verdict
    from ceras_ir.driver.verify.levels import LevelComparison
    from ceras_ir.frontends.onnx import NamedImport
    from ceras_ir.support.workers import Workers


WORKERS = "--workers"
"""The option that other commands call `--jobs`, which is an option of targets here."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-verify", _verify, argv)


def default_targets() -> list[TargetClass]:
    """Return the targets that are verified by default."""
    return [cls for cls in compiling_targets() if cls.verified_by_default]


def make_parser(targets: Sequence[TargetClass] | None = None) -> ToolParser:
    """
    Return the parser of `ceras-verify`, with the options of `targets` (default: the targets that
    are verified by default).
    """
    default = ",".join(cls.name for cls in default_targets())
    parser = ToolParser(
        "ceras-verify",
        description="Run a model at each level of the compiler and on each target, and compare. "
        "Print a line per level: exact, or the first operation and element that differ.",
        epilog=f"{described_targets(compiling_targets())} {EXIT_STATUS} If a level differs, the "
        "status is 1, even if another level is unsupported.",
        examples=(
            "model.onnx --calibrate data.npz",
            f"model.onnx --inputs test.npz --samples 20 --targets {native_target().name}",
        ),
    )
    parser.add_argument("model", metavar="MODEL.onnx", help=MODEL_FILE)
    add_inputs(parser, "compare on these inputs", default="synthetic, seeded")
    usual(
        parser.add_argument(
            "--targets",
            metavar="NAME,...",
            default=default,
            help="compare these targets (default: %(default)s; with --state, targets that keep "
            f"states; with --flash, {native_target().name})",
        )
    )
    parser.add_argument(
        "--no-reference",
        action="store_true",
        help="do not compare the imported graph with the ONNX model, run by ONNX Runtime if it is "
        "installed, else by the reference evaluator of ONNX",
    )
    group = parser.add_argument_group(
        "many inputs",
        "With these options, workers load and run shards of --inputs, which may also be tar "
        "archives.",
    )
    add_workers(group, jobs=WORKERS, default="this process only")
    add_build_options(parser)
    add_options(parser, BuildOptions, ["flash"])
    add_options(parser, EvaluationOptions)
    add_options(parser, BisectPassesOptions)
    add_target_options(parser, default_targets() if targets is None else targets)
    return parser


def _named_targets(argv: Sequence[str]) -> list[TargetClass]:
    names = early_value(argv, "--targets")
    if names is None:
        has_states = early_value(argv, "--state") is not None
        has_limit = early_value(argv, "--flash") is not None
        return [
            cls
            for cls in default_targets()
            if (cls.keeps_states or not has_states) and (cls.runs_natively or not has_limit)
        ]
    found = [find_target(name) for name in names.split(",")]
    if useless := [cls.name for cls in found if not cls.compiles]:
        raise UsageError(
            f"target {useless[0]} is the reference of the comparison: name other targets"
        )
    return found


def _verify(argv: Sequence[str]) -> int:
    with plugins(argv):
        classes = _named_targets(argv)
        arguments = make_parser(classes).read(argv)
        at_scale = arguments.workers is not None or arguments.scheduler is not None
        if at_scale and arguments.inputs is None:
            raise UsageError(f"{WORKERS} and --scheduler distribute --inputs: add --inputs")
        if at_scale and arguments.bisect_passes:
            raise UsageError(f"--bisect-passes runs in this process: remove {WORKERS}")
        if arguments.scheduler is not None and (given := PluginFiles.of(argv).options()):
            raise UsageError(
                f"workers of a cluster cannot load plugins: remove {given[0]}, or replace "
                f"--scheduler by {WORKERS}"
            )
        with calibration_workers(arguments), ExitStack() as stack:
            workers = None
            if at_scale:
                digests = digests_of(arguments.inputs)
                workers = stack.enter_context(
                    workers_of(arguments, digests, jobs=WORKERS, default=1)
                )
            return _compare(arguments, classes, workers)


def _compare(
    arguments: argparse.Namespace, classes: Sequence[TargetClass], workers: "Workers | None"
) -> int:
    from ceras_ir.command.exit_status import naming
    from ceras_ir.data.magnitudes import note_calibration, note_inputs, pixel_inputs
    from ceras_ir.data.sample_stream import open_samples
    from ceras_ir.data.samples import require_finite
    from ceras_ir.driver.verify.levels import check_request, verifications
    from ceras_ir.driver.verify.sharing import Sample, SharedSamples
    from ceras_ir.network.artefacts import network_inputs
    from ceras_ir.network.function import inputs_with_missing_values, main_function
    from ceras_ir.pipeline.parsing import display_name

    check_request(arguments.quantize, classes, arguments.samples)
    for target in classes:
        require_members(target, "lower")
    with naming(display_name(arguments.model)):
        imports: list[NamedImport] = []
        module = read_model(arguments, None if arguments.no_reference else imports.append)
        targets = targets_of(classes, arguments)
        options = build_options(arguments, targets[0])
        samples: Sequence[Sample] | None = None
        inputs, network = inputs_of(arguments), network_inputs(main_function(module))
        main = main_function(module)
        peaks = note_calibration(options.calibration, main)
        note_inputs(inputs, network, peaks, pixels=pixel_inputs(main))
        if inputs is not None and workers is not None:
            samples = SharedSamples(workers, inputs, module, arguments.samples)
        elif inputs is not None:
            samples = list(open_samples(inputs, network_inputs(main)).first(arguments.samples))
            require_finite(samples, arguments.inputs, nullable=inputs_with_missing_values(main))
        status, started = 0, False
        watching = watching_of(arguments, inputs)
        # Boxes in another order would count as noise.
        floor = None if arguments.decode else arguments.floor
        for found, group in verifications(
            module, options, targets, samples, arguments.samples, watching, floor
        ):
            if not started:
                print(
                    f"{arguments.model}: {len(found.samples)} sample(s), "
                    f"{found.elements:,} output elements",
                    flush=True,
                )
                if (verdict := _reference_verdict(arguments, imports, found)) is not None:
                    _print(verdict)
                    status = verdict.exit_status
            started = True
            for verdict in found.run(group):
                _print(verdict)
                if verdict.refused is not None:
                    report(verdict.refused.lines(arguments.model))
                status = min(filter(None, (status, verdict.exit_status)), default=0)
    return status


def _reference_verdict(
    arguments: argparse.Namespace, imports: "list[NamedImport]", found: "LevelComparison"
) -> "Verdict | None":
    """
    Return the verdict on the import of the model, compared with an independent implementation.
    Return `None` if the input is no model.
    """
    if not imports:
        return None
    from ceras_ir.data.samples import Array
    from ceras_ir.driver.verify.model_check import model_verdict

    # The reference computes neither pixels nor decisions.
    outputs = () if arguments.input_image is not None else found.expected
    if arguments.decode:
        outputs = [dict[str, Array]() for _ in outputs]
    return model_verdict(
        arguments.model,
        imports.pop(),
        interface_of(arguments)["states"],
        found.samples,
        outputs,
        given=arguments.inputs is not None,
        seconds=found.seconds,
    )


def _print(verdict: "Verdict") -> None:
    print(f"{verdict.level:32} {verdict.text}", flush=True)
