"""Implement `ceras-retrain`: train the weights of a network further; zeros remain zero."""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_args

from ceras_ir.command.exit_status import EXIT_STATUS, run_tool
from ceras_ir.command.help_parser import usual
from ceras_ir.command.tool_parser import ToolParser, UsageParser, add_options, add_output, names
from ceras_ir.driver.build_options import add_extensions, add_scheme
from ceras_ir.driver.data_options import with_image_options
from ceras_ir.driver.model_options import MODEL_FILE, ShapeOptions
from ceras_ir.pipeline.context import plugins
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.support.extras import IN_CLONE, install_command
from ceras_ir.transforms.quantization_options import ArithmeticOptions, bit_widths
from ceras_ir.workbench.training.settings import (
    CHECKPOINT,
    HARD_SWISH,
    Optimizer,
    RateSchedule,
    Settings,
)

if TYPE_CHECKING:
    from ceras_ir.pipeline.stages import BuildOptions

DEFAULT_SETTINGS = Settings()


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-retrain", _retrain, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-retrain`."""
    parser = ToolParser(
        "ceras-retrain",
        description="Train the weights of a network further. Weights that are zero remain zero. "
        "The loss compares with labels, with the dense network before pruning, or with both. "
        "With --silu hardswish, HardSwish replaces SiLU before training, for floats, too.",
        epilog=f"{EXIT_STATUS} Status 130: interrupted; there is a checkpoint. Needs torch: "
        f"{install_command('retrain', IN_CLONE)} in a clone.",
        examples=(
            "pruned.onnx --data train.npz --labels labels.npz --epochs 10 -o trained.onnx",
            "model.onnx --bits 4 --target c --data train.npz --labels labels.npz -o trained.onnx",
        ),
    )
    add = parser.add_argument
    add("model", metavar="MODEL.onnx", help=MODEL_FILE)
    add_output(parser, "OUT.onnx", "the trained model", required=True)
    _add_data(parser)
    _add_losses(parser)
    _add_schedule(parser)
    group = parser.add_argument_group("execution")
    group.add_argument("--seed", type=int, default=0, help="the random seed (default: 0)")
    group.add_argument(
        "--resume",
        action="store_true",
        help=f"continue from OUT.onnx{CHECKPOINT}; the result has equal bits",
    )
    group.add_argument(
        "--device",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="auto: a GPU, if available (default: %(default)s)",
    )
    group.add_argument(
        "--threads", type=int, metavar="N", help="threads of torch on the CPU (default: of torch)"
    )
    quantized = parser.add_argument_group("integers")
    usual(
        quantized.add_argument(
            "--int8",
            action="store_true",
            help="quantize first, then train through the rounding, with the integers of the "
            "compiled network. OUT.onnx has Q/DQ",
        )
    )
    quantized.add_argument(
        "--bits",
        dest="weight_bits",
        action="extend",
        type=bit_widths,
        metavar="BITS[:LAYER],...",
        help="train the integers of weights of fewer bits, as --int8 --weight-bits",
    )
    add_options(quantized, ArithmeticOptions)
    add_scheme(quantized)
    add_options(parser, ShapeOptions)
    add_extensions(parser)
    return parser


def _add_data(parser: ToolParser) -> None:
    group = parser.add_argument_group("training data")
    for flag, metavar, text in (
        (
            "--data",
            "DIR|B.npz",
            "inputs for training: a file, or a folder of images, to which the --image options "
            "apply; a folder may contain the folders 'images' and 'labels'",
        ),
        (
            "--labels",
            "DIR|L.npz",
            "classes of samples [N] or pixels [N, H, W], or a folder of label images with the "
            "names of the inputs; floats are target values of the output",
        ),
        ("--validate", "DIR|B.npz", "inputs for a score after each epoch, as for --data"),
        ("--validate-labels", "DIR|L.npz", "labels of these inputs, as for --labels"),
    ):
        required = flag == "--data"
        usual(group.add_argument(flag, metavar=metavar, required=required, help=text))
    group.add_argument("--label-output", metavar="NAME", help="the output to which labels belong")
    group.add_argument("--flip", action="store_true", help="mirror half of the images")


def _add_losses(parser: UsageParser) -> None:
    group = parser.add_argument_group("losses")
    add_options(group, BuildOptions, ["prune"])
    group.add_argument(
        "--teacher",
        metavar="DENSE.onnx",
        help="the dense network (default with --prune: the original network)",
    )
    group.add_argument(
        "--soft",
        type=names,
        default=[],
        metavar="LAYER,...",
        help="the layers with a soft loss, the mean squared error to the feature map of the "
        "teacher, by name or pattern such as '*/conv*'. The first match counts",
    )
    group.add_argument(
        "--alpha",
        type=_numbers,
        default=[1.0],
        metavar="A[,A...]",
        help="weight of the soft losses, or a weight for each name of --soft (default: 1)",
    )
    group.add_argument(
        "--relative",
        action="store_true",
        help="divide the soft loss of each layer by the mean square of the feature map of the "
        "teacher",
    )
    group.add_argument(
        "--beta",
        type=float,
        default=DEFAULT_SETTINGS.beta,
        help="weight of the hard loss, which compares with labels (default: %(default)s)",
    )
    group.add_argument(
        "--balance", action="store_true", help="give rare and frequent classes equal weights"
    )


def _add_schedule(parser: UsageParser) -> None:
    group = parser.add_argument_group("schedule")
    # `--batch` is the value of a symbolic dimension, as in all commands.
    for field, flag, metavar, text, is_usual in (
        ("epochs", "epochs", "N", "passes over all examples", True),
        ("batch", "batch-size", "N", "samples per step", False),
        ("optimizer", "optimizer", None, "the algorithm", False),
        ("rate", "rate", None, "initial learning rate", True),
        ("schedule", "schedule", None, "schedule of the learning rate", False),
        (
            "step_epochs",
            "step-epochs",
            "N",
            "with schedule step, change the rate every N epochs",
            False,
        ),
        ("step_factor", "step-factor", "F", "with schedule step, the factor of the change", False),
        ("weight_decay", "weight-decay", "D", "weight decay of AdamW", False),
    ):
        default: int | float | str = getattr(DEFAULT_SETTINGS, field)
        action = group.add_argument(
            f"--{flag}",
            type=type(default),
            choices={"optimizer": get_args(Optimizer), "schedule": get_args(RateSchedule)}.get(
                field
            ),
            default=default,
            metavar=metavar,
            help=f"{text} (default: %(default)s)",
        )
        if is_usual:
            usual(action)
    group.add_argument(
        "--channel-rates",
        action="store_true",
        help="multiply the rate of each output channel by the root mean square of the weights, "
        "and the rate of biases by that of the biases, for channels of very different sizes "
        "after folding batch norms",
    )
    group.add_argument(
        "--patience",
        type=int,
        metavar="N",
        help="stop after N epochs without a better score on --validate",
    )


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def settings_of(arguments: argparse.Namespace) -> Settings:
    """
    Return the options on the command line that influence the trained weights. Raise a `UsageError`
    if they are contradictory.
    """
    layers, alphas = arguments.soft, arguments.alpha
    if len(alphas) not in (1, len(layers)):
        raise UsageError(f"--alpha has {len(alphas)} numbers for {len(layers)} layers of --soft")
    values: dict[str, Any] = {f.name: getattr(arguments, f.name, None) for f in fields(Settings)}
    weights = alphas * len(layers) if len(alphas) == 1 else alphas
    values["alphas"] = dict(zip(layers, weights, strict=True))
    values["batch"] = arguments.batch_size
    return Settings(**values)


def _retrain(argv: Sequence[str]) -> int:
    with plugins(argv):
        return _run(make_parser().read(argv))


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments)
    if not arguments.output.endswith(".onnx"):
        raise UsageError(f"-o must be an .onnx file, got '{arguments.output}'")
    if settings.patience is not None and arguments.validate is None:
        raise UsageError("--patience requires --validate")
    try:
        import torch  # noqa: F401  # pyright: ignore
    except ImportError:
        raise InputError(f"training needs torch: {install_command('retrain')}") from None

    from ceras_ir.command.output_files import refuse_overwriting
    from ceras_ir.workbench.training.session import retrain

    read = arguments.model, arguments.teacher, arguments.data, arguments.validate
    refuse_overwriting(arguments.output, *read, arguments.labels, arguments.validate_labels)
    data = with_image_options([arguments.data], arguments) or arguments.data
    validate = arguments.validate
    if validate is not None:
        validate = with_image_options([validate], arguments)
    retrain(arguments, settings, _scheme(arguments, data), data, validate)
    return 0


def _scheme(arguments: argparse.Namespace, data: str) -> "BuildOptions":
    # The options of pruning and quantization. The default calibration data are the examples.
    from dataclasses import replace

    from ceras_ir.driver.build_options import arithmetic_of, scheme_of
    from ceras_ir.driver.model_options import title_of

    common = {"prune": arguments.prune, "title": title_of(arguments.model)}
    if arguments.weight_bits or arguments.activation_bits:
        arguments.int8 = True
    if not arguments.int8:
        if arguments.target is not None or arguments.calibrate:
            raise UsageError("--target and --calibrate require --int8")
        if arguments.silu not in ("auto", HARD_SWISH):
            raise UsageError(f"--silu {arguments.silu} requires --int8")
        return replace(BuildOptions(), quantize="none", silu=arguments.silu, **common)
    scheme = scheme_of(arguments, arithmetic_of(arguments))
    options = replace(
        scheme, quantize="int8", calibration=scheme.calibration or calibration(data), **common
    )
    options.check()
    return options


def calibration(data: str) -> str:
    """
    Return the path of the samples in the training data `data`, in the format of `--calibrate`: the
    folder `images` in a folder, if it exists.
    """
    from pathlib import Path

    folder, _, options = data.partition("?")
    images = Path(folder) / "images"
    return data if not images.is_dir() else f"{images}?{options}" if options else str(images)
