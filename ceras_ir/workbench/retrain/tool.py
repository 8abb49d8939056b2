"""`ceras-retrain`: train a float network further, its zeros held at zero."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser, UsageParser, add_options, names
from ceras_ir.driver.model_options import ShapeOptions
from ceras_ir.driver.options import (
    EXIT_STATUS,
    add_extensions,
    add_scheme,
    with_image_options,
)
from ceras_ir.pipeline.context import plugins
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.transforms.quantization_options import ArithmeticOptions
from ceras_ir.workbench.training.settings import (
    CHECKPOINT,
    HARD_SWISH,
    Optimizer,
    Schedule,
    Settings,
)

if TYPE_CHECKING:
    from ceras_ir.pipeline.options import BuildOptions

SETTINGS = Settings()
"""The defaults."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-retrain", _retrain, argv)


def make_parser() -> ToolParser:
    """The command line of `ceras-retrain`."""
    parser = ToolParser(
        "ceras-retrain",
        description="Train the weights of a network further. Weights that are zero stay zero, so "
        "that a pruned network keeps its pattern. Labels teach it, or the dense network that it "
        "was pruned from, or both. With --int8 the weights are trained in the integers that run. "
        "With --silu hardswish, HardSwish takes the place of SiLU first, in float too.",
        epilog=f"{EXIT_STATUS} 130: interrupted; the checkpoint is there. Needs torch: "
        "pip install 'ceras-ir[retrain]'.",
    )
    add = parser.add_argument
    add("model", metavar="MODEL.onnx", help="an ONNX model, or IR text in .mlir")
    add("-o", dest="output", metavar="OUT.onnx", required=True, help="the trained model")
    _add_data(parser)
    _add_losses(parser)
    _add_schedule(parser)
    group = parser.add_argument_group("the run")
    group.add_argument("--seed", type=int, default=0, help="of all that is random (default: 0)")
    group.add_argument(
        "--resume", action="store_true", help=f"go on from OUT.onnx{CHECKPOINT}, to the same bits"
    )
    group.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto: a GPU if there is one (default: %(default)s)",
    )
    group.add_argument(
        "--threads", type=int, metavar="N", help="of torch on the CPU (default: torch's)"
    )
    quantized = parser.add_argument_group("integers")
    quantized.add_argument(
        "--int8",
        action="store_true",
        help="quantize first, then train through the rounding: what is trained are the integers "
        "that the compiled network computes with. OUT.onnx has Q/DQ",
    )
    add_options(quantized, ArithmeticOptions)
    add_scheme(quantized)
    add_options(parser, ShapeOptions)
    add_extensions(parser)
    return parser


def _add_data(parser: ToolParser) -> None:
    group = parser.add_argument_group("examples")
    for name, what in (("data", "to train on"), ("validate", "to judge on behind each epoch")):
        group.add_argument(
            f"--{name}",
            metavar="DIR|B.npz",
            required=name == "data",
            help=f"inputs {what}: a file, or a folder of images, to which the --image options "
            "apply; a folder may have folders 'images' and 'labels'",
        )
        group.add_argument(
            "--labels" if name == "data" else "--validate-labels",
            metavar="DIR|L.npz",
            help="classes [N], or of pixels [N, H, W], or a folder of images of them with the "
            "names of the inputs; values of type float are what the output is to be",
        )
    group.add_argument("--label-output", metavar="NAME", help="the output that has labels")
    group.add_argument("--flip", action="store_true", help="mirror half of the images")


def _add_losses(parser: UsageParser) -> None:
    group = parser.add_argument_group("what is learnt")
    group.add_argument(
        "--prune",
        metavar="OPTIONS",
        help="prune first, as the pass prune does; the network as it was is the teacher",
    )
    group.add_argument("--teacher", metavar="DENSE.onnx", help="the dense network")
    group.add_argument(
        "--soft",
        type=names,
        default=[],
        metavar="LAYER,...",
        help="layers whose feature maps are to be the teacher's, by name or pattern such as "
        "'*/conv*': mean squared error. Of several that fit the first counts",
    )
    group.add_argument(
        "--alpha",
        type=_numbers,
        default=[1.0],
        metavar="A[,A...]",
        help="weight of the soft loss, one or one for each name of --soft (default: 1)",
    )
    group.add_argument(
        "--relative",
        action="store_true",
        help="divide the soft loss of each layer by the mean square of the teacher's feature map, "
        "so that layers of any range count alike",
    )
    group.add_argument(
        "--beta",
        type=float,
        default=SETTINGS.beta,
        help="weight of the hard loss, of labels (default: %(default)s)",
    )
    group.add_argument(
        "--balance", action="store_true", help="rare classes weigh as much as frequent ones"
    )


def _add_schedule(parser: UsageParser) -> None:
    group = parser.add_argument_group("schedule")
    add, default = group.add_argument, "(default: %(default)s)"
    add(
        "--epochs",
        type=int,
        default=SETTINGS.epochs,
        metavar="N",
        help=f"runs through all examples {default}",
    )
    # `--batch` is the value of a symbolic dimension, as everywhere.
    add(
        "--batch-size",
        type=int,
        default=SETTINGS.batch,
        metavar="N",
        help=f"samples of a step {default}",
    )
    add(
        "--optimizer",
        choices=get_args(Optimizer),
        default=SETTINGS.optimizer,
        help=f"the step {default}",
    )
    add("--rate", type=float, default=SETTINGS.rate, help=f"learning rate at the start {default}")
    add(
        "--channel-rates",
        action="store_true",
        help="multiply the rate of each output channel by the root mean square of its weights, and "
        "that of biases by theirs: folded batch norms make channels that are octaves apart",
    )
    add(
        "--schedule",
        choices=get_args(Schedule),
        default=SETTINGS.schedule,
        help=f"of the learning rate {default}",
    )
    add(
        "--step-epochs",
        type=int,
        default=SETTINGS.step_epochs,
        metavar="N",
        help=f"of schedule step: the rate changes every N epochs {default}",
    )
    add(
        "--step-factor",
        type=float,
        default=SETTINGS.step_factor,
        metavar="F",
        help=f"of schedule step: by this factor {default}",
    )
    add(
        "--weight-decay",
        type=float,
        default=SETTINGS.weight_decay,
        metavar="D",
        help=f"towards 0, as AdamW has it {default}",
    )
    add(
        "--patience",
        type=int,
        metavar="N",
        help="end when N epochs did not improve the score on --validate",
    )


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The options that change the weights, checked."""
    layers, alphas = arguments.soft, arguments.alpha
    if len(alphas) not in (1, len(layers)):
        raise UsageError(f"--alpha has {len(alphas)} numbers for {len(layers)} layers of --soft")
    return Settings(
        epochs=arguments.epochs,
        batch=arguments.batch_size,
        optimizer=arguments.optimizer,
        rate=arguments.rate,
        channel_rates=arguments.channel_rates,
        schedule=arguments.schedule,
        step_epochs=arguments.step_epochs,
        step_factor=arguments.step_factor,
        weight_decay=arguments.weight_decay,
        alphas=dict(zip(layers, alphas * (len(layers) if len(alphas) == 1 else 1), strict=True)),
        beta=arguments.beta,
        relative=arguments.relative,
        balance=arguments.balance,
        flip=arguments.flip,
        patience=arguments.patience,
        seed=arguments.seed,
    )


def _retrain(argv: Sequence[str]) -> int:
    with plugins(argv):
        return _run(make_parser().read(argv))


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    if not arguments.output.endswith(".onnx"):
        raise UsageError(f"-o names an .onnx file, got '{arguments.output}'")
    if settings.patience is not None and arguments.validate is None:
        raise UsageError("--patience judges on --validate, which is not given")
    try:
        import torch  # noqa: F401  # pyright: ignore
    except ImportError:
        raise InputError("training needs torch: pip install 'ceras-ir[retrain]'") from None

    from ceras_ir.command.output_files import refuse_overwriting
    from ceras_ir.workbench.retrain.session import retrain

    read = arguments.model, arguments.teacher, arguments.data, arguments.validate
    refuse_overwriting(arguments.output, *read, arguments.labels, arguments.validate_labels)
    data = with_image_options([arguments.data], arguments) or arguments.data
    validate = arguments.validate
    if validate is not None:
        validate = with_image_options([validate], arguments)
    retrain(arguments, settings, _scheme(arguments, data), data, validate)
    return 0


def _scheme(arguments: argparse.Namespace, data: str) -> "BuildOptions":
    """How the network is pruned and quantized; by default the examples calibrate it."""
    from dataclasses import replace

    from ceras_ir.driver.options import arithmetic_of, scheme_of, title_of
    from ceras_ir.pipeline.options import BuildOptions

    common = {"prune": arguments.prune, "title": title_of(arguments.model)}
    if not arguments.int8:
        if arguments.target is not None or arguments.calibrate:
            raise UsageError("--target and --calibrate are for --int8, which is not given")
        if arguments.silu not in ("auto", HARD_SWISH):
            raise UsageError(f"--silu {arguments.silu} is for --int8, which is not given")
        return replace(BuildOptions(), quantize="none", silu=arguments.silu, **common)
    scheme = scheme_of(arguments, arithmetic_of(arguments))
    options = replace(
        scheme, quantize="int8", calibration=scheme.calibration or calibration(data), **common
    )
    options.check()
    return options


def calibration(data: str) -> str:
    """The inputs of `--data`, as calibration takes them."""
    from pathlib import Path

    folder, _, options = data.partition("?")
    images = Path(folder) / "images"
    return data if not images.is_dir() else f"{images}?{options}" if options else str(images)
