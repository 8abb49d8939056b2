"""The command-line options that compile, run and verify have in common."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from ceras_ir.command.option_flags import add_options, values_of
from ceras_ir.command.tool_parser import ArgumentContainer, ToolParser
from ceras_ir.driver.calibration_options import (
    NETWORK,
    add_calibration,
    calibration_of,
    image_options,
)
from ceras_ir.driver.model_options import add_shapes, add_states, interface_of
from ceras_ir.pipeline.context import load_universe
from ceras_ir.pipeline.options import BuildOptions, Insertion
from ceras_ir.pipeline.pass_options import with_values
from ceras_ir.pipeline.pipeline_text import build_pipeline, parse_pipeline
from ceras_ir.pipeline.plugins import add_plugins
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import option, options
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.quantization.options import (
    ArithmeticOptions,
    BudgetOptions,
    LayerOptions,
    RecipeOptions,
    RowsOptions,
    SiluOptions,
)
from ceras_ir.transforms.quantization.recipe import REMOVED_FLAGS

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.frontends.onnx import Observer
    from ceras_ir.pipeline.instrumentation import Watching

EXIT_STATUS = (
    "Exit status: 0 done, 1 bad input, 2 wrong usage, 3 valid input that is not supported, "
    "70 an internal error."
)


@options
class InputOptions:
    """The option that changes the type of the input."""

    input_image: Literal["nhwc", "nchw"] | None = option(None)
    """
    Let the network take an image as a camera gives it, uint8 in this layout, and divide by
    --image-scale, subtract --image-mean and divide by --image-std itself; the other --image options
    say how folders are read.
    """


def add_build_options(parser: ToolParser) -> None:
    """Options that decide what is compiled, whatever the target."""
    group = parser.add_argument_group("compilation")
    add_options(group, BuildOptions, ["quantize"])
    add_scheme(group)
    add_options(group, BuildOptions, ["prune"])
    add_shapes(group)
    add_states(group)
    add_options(group, InputOptions)
    add_extensions(parser)


def add_extensions(parser: ToolParser) -> None:
    """Plugins, and passes of the user's between levels."""
    group = parser.add_argument_group("plugins")
    add_plugins(group)
    group.add_argument(
        "--at",
        nargs=2,
        action="append",
        default=[],
        metavar=("LEVEL", "PIPELINE"),
        help='run passes behind a level, such as --at "fused graph" "my-pass{x=1}"; they must '
        "change no value (ceras-verify checks it); may be repeated",
    )


def insertions_of(arguments: argparse.Namespace) -> tuple[Insertion, ...]:
    """The passes of `--at`."""
    passes = load_universe().all_passes if arguments.at else {}
    return tuple(
        Insertion(level, text, tuple(build_pipeline(parse_pipeline(text), passes)))
        for level, text in arguments.at
    )


def add_scheme(group: ArgumentContainer) -> None:
    """How the network is quantized, if it is."""
    add_calibration(group)
    for cls in (RecipeOptions, SiluOptions, RowsOptions, LayerOptions, BudgetOptions):
        add_options(group, cls)
    for removed, instead in REMOVED_FLAGS.items():
        group.add_argument(removed, type=_removed(removed, instead), help=argparse.SUPPRESS)


def add_arithmetic(group: ArgumentContainer) -> None:
    """The target in whose arithmetic a network is quantized that is not compiled for it."""
    add_options(group, ArithmeticOptions)


def arithmetic_of(arguments: argparse.Namespace) -> Target | None:
    """The target that the options of `add_arithmetic` name, if any."""
    if arguments.target is not None:
        given = {} if arguments.board is None else {"board": arguments.board}
        return with_values(find_target(arguments.target), given)
    if arguments.board is not None:
        raise UsageError("--board is of a target: add --target")
    return None


def _removed(option: str, instead: str) -> Callable[[str], NoReturn]:
    def refuse(value: str) -> NoReturn:
        raise UsageError(f"{option} is gone: {instead}")

    return refuse


def read_model(arguments: argparse.Namespace, observe: "Observer | None" = None) -> "ModuleOp":
    """The network that a command line names, which takes bytes if `--input-image` says so."""
    from ceras_ir.pipeline.reading import read_network

    module = read_network(arguments.model, **interface_of(arguments), observe=observe)
    if arguments.input_image is not None:
        _take_images(module, arguments)
    return module


def _take_images(module: "ModuleOp", arguments: argparse.Namespace) -> None:
    from xdsl.context import Context

    from ceras_ir.data.image_options import ImageOptions
    from ceras_ir.pipeline.verification import verify_module
    from ceras_ir.transforms.graph.take_images import TakeImagesPass

    images = ImageOptions.parse(image_options(arguments, NETWORK))
    scale = images.divisor("float32")
    chosen = arguments.input_image, images.layout, scale, images.mean, images.std
    TakeImagesPass(*chosen).apply(Context(), module)
    verify_module(module)


def add_io(parser: ArgumentContainer) -> None:
    """The option that chooses the types of inputs and outputs."""
    add_options(parser, BuildOptions, ["io"])


def add_bisection(parser: argparse.ArgumentParser, inputs: str) -> None:
    """Add --bisect-passes, which compares outputs on `inputs`."""
    parser.add_argument(
        "--bisect-passes",
        action="store_true",
        help=f"run the network behind every pass that must change no value, on {inputs}, and stop "
        "at the first one that does, with a reproducer",
    )


def watching_of(arguments: argparse.Namespace, inputs: str | None) -> "Watching | None":
    """What --bisect-passes has looked at behind every pass, on a few of `inputs`."""
    if not arguments.bisect_passes:
        return None
    from ceras_ir.driver.bisection import by_outputs

    return partial(by_outputs, inputs=inputs)


def build_options(arguments: argparse.Namespace, target: Target) -> BuildOptions:
    """The parsed options as the stages take them."""
    return replace(scheme_of(arguments, target), title=title_of(arguments.model))


def scheme_of(arguments: argparse.Namespace, target: Target | None = None) -> BuildOptions:
    """The options of `BuildOptions` that are given; without a target, for any arithmetic."""
    return replace(
        BuildOptions(),
        **{**values_of(BuildOptions, arguments), "calibration": calibration_of(arguments)},
        target=Target() if target is None else target,
        insertions=insertions_of(arguments),
    )


def title_of(path: str) -> str:
    """What the network in a file is called."""
    return Path(path).stem or "model"
