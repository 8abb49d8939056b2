"""
Options of the commands that compile a network, among them those of calibration.
"""

import argparse
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from ceras_ir.command.tool_parser import ArgumentContainer, ToolParser, add_options, values_of
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.driver.model_options import add_shapes, add_states, interface_of
from ceras_ir.pipeline.context import add_plugins, load_universe
from ceras_ir.pipeline.options import BuildOptions, Insertion
from ceras_ir.pipeline.pass_options import build_pipeline, parse_pipeline, with_values
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import option, options, options_of
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.quantization_options import (
    REMOVED_FLAGS,
    ArithmeticOptions,
    BudgetOptions,
    LayerOptions,
    ObserverOptions,
    RecipeOptions,
    RowsOptions,
    SampleOptions,
    SiluOptions,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ceras_ir.frontends.onnx import Observer
    from ceras_ir.pipeline.instrumentation import Watching


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise argparse.ArgumentTypeError(f"expected a number of decibels, got {text!r}")
    return number


@options
class EvaluationOptions:
    """The samples on which networks are compared, and the required signal-to-noise ratio."""

    samples: int | None = option(None, metavar="N", least=1)
    """Compare on the first N samples only."""

    floor: float = option(10.0, metavar="DB", read=_finite)
    """
    Exit with status 1 if the signal-to-noise ratio of the quantized network is below this, with
    --calibrate or for a model with Q/DQ, and print a warning otherwise.
    """


@options
class CalibrationWorkers:
    """How many processes calibrate."""

    jobs: int = option(1, flag="--calibration-jobs", metavar="N", least=-1, shows_default=False)
    """
    Processes that look at more than 64 samples, -1 for one per core; the network is the same for
    any number.
    """


def add_calibration(group: ArgumentContainer) -> None:
    """Calibration data, files or a folder of images, and the observer."""
    for cls in (SampleOptions, CalibrationWorkers, ObserverOptions):
        add_options(group, cls)
    add_options(group, ImageOptions, sparse=True)


@contextmanager
def calibration_workers(arguments: argparse.Namespace) -> Generator[None]:
    """Have calibration below be done by as many processes as `--calibration-jobs` says."""
    count: int = arguments.calibration_jobs
    if count == 1 or not arguments.calibrate:
        yield
        return
    from ceras_ir.pipeline.parsing import TextCarrier
    from ceras_ir.support.workers import LocalProcesses, cores
    from ceras_ir.transforms.quantization.observe_ranges import Sharing, calibrating_by

    workers = LocalProcesses(cores() if count < 0 else count)
    try:
        with calibrating_by(Sharing(workers, TextCarrier())):
            yield
    finally:
        workers.close()


def calibration_of(arguments: argparse.Namespace) -> str | None:
    """All that `--calibrate` named, as passes take it: `A.npz,B.npz,DIR?size=32x32&mean=0.5`."""
    return with_image_options(arguments.calibrate, arguments)


NETWORK = ("scale", "mean", "std", "layout")
"""Options that are the network's own with `--input-image`; the others are of reading files."""


def image_options(arguments: argparse.Namespace, names: Iterable[str]) -> str:
    """Those of the `--image` options that are given, as `ImageOptions.parse` reads them."""
    given = {name: getattr(arguments, f"image_{name}", None) for name in names}
    return "&".join(
        f"{name}={str(value).replace(',', ':')}" for name, value in given.items() if value
    )


def inputs_of(arguments: argparse.Namespace) -> str | None:
    """All that `--inputs` names, folders of images with their options."""
    return with_image_options([arguments.inputs] if arguments.inputs else [], arguments)


def with_image_options(paths: Sequence[str], arguments: argparse.Namespace) -> str | None:
    """Files and folders, commas between them, the folders with the `--image` options."""
    layout: str | None = getattr(arguments, "input_image", None)
    every = [each.name for each, _ in options_of(ImageOptions)]
    names = every if layout is None else [name for name in every if name not in NETWORK]
    options = image_options(arguments, names)
    if options and not any(map(_is_folder, _named(arguments))):
        raise UsageError("--image options are for a folder: --calibrate DIR")
    if layout is not None:
        options = "&".join(filter(None, (options, "scale=1", f"layout={layout}")))
    if options:
        ImageOptions.parse(options)
        parts = [part for path in paths for part in _parts(path)]
        paths = [f"{part}?{options}" if _is_folder(part) else part for part in parts]
    return ",".join(paths) or None


def _named(arguments: argparse.Namespace) -> list[str]:
    """The files and folders that options name as data."""
    found = list[str](arguments.calibrate or ())
    for name in ("inputs", "data", "validate"):
        if (path := getattr(arguments, name, None)) is not None:
            found.append(path)
    return [part for path in found for part in _parts(path)]


def _parts(path: str) -> list[str]:
    """The files and folders of a list by commas, which names of folders may have."""
    return [path] if _is_folder(path) else path.split(",")


def _is_folder(path: str) -> bool:
    from ceras_ir.data.image_folder import is_folder

    return is_folder(path)


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
        raise UsageError(f"{option} was removed: {instead}")

    return refuse


def read_model(arguments: argparse.Namespace, observe: "Observer | None" = None) -> "ModuleOp":
    """The network that a command line names, which takes bytes if `--input-image` says so."""
    from ceras_ir.pipeline.parsing import read_network

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
    from ceras_ir.driver.differences import by_outputs

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
