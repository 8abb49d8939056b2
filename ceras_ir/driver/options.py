"""Define options of commands that compile a network, including calibration."""

import argparse
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from ceras_ir.command.help_parser import usual
from ceras_ir.command.tool_parser import ArgumentContainer, ToolParser, add_options, values_of
from ceras_ir.data.image_options import PIXEL_LAYOUTS, ImageOptions, InputImage
from ceras_ir.driver.shared_options import (
    ShapeOptions,
    StateOptions,
    add_limits,
    interface_of,
)
from ceras_ir.pipeline.context import add_plugins, load_universe, plugin_loader
from ceras_ir.pipeline.pass_options import build_pipeline, parse_pipeline, with_values
from ceras_ir.pipeline.stages import WITHOUT_SAMPLES, BuildOptions, Insertion, warn_idle
from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.support.options import choices_of, option, options, options_of, types_of
from ceras_ir.targets.protocol import Target, find_target
from ceras_ir.transforms.quantization_options import (
    REMOVED_FLAGS,
    SAMPLES,
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
    from xdsl.passes import ModulePass

    from ceras_ir.frontends.onnx import Observer
    from ceras_ir.network.lengths import Shape
    from ceras_ir.pipeline.instrumentation import Watching


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise argparse.ArgumentTypeError(f"expected decibels such as 10, got {text!r}")
    return number


@options
class EvaluationOptions:
    """The samples on which networks are compared, and the required signal-to-noise ratio."""

    samples: int | None = option(None, metavar="N", minimum=1, usual=True)
    """Compare on the first N samples only."""

    floor: float = option(10.0, metavar="DB", read=_finite)
    """
    Exit with status 1 if the signal-to-noise ratio of the quantized network is below this, with
    --calibrate or for a model with Q/DQ, and print a warning otherwise. It does not apply to
    decisions (--decode).
    """


@options
class CalibrationWorkers:
    """The number of processes that calibrate."""

    jobs: int = option(
        1, flag="--calibration-jobs", metavar="N", minimum=-1, shows_default=False, needs=(SAMPLES,)
    )
    """
    Processes for more than 64 samples, -1 for the number of cores; the network does not depend on
    it.
    """


def add_calibration(group: ArgumentContainer) -> None:
    """Add the options for calibration data and for the observer, which derives ranges from it."""
    for cls in (SampleOptions, CalibrationWorkers, ObserverOptions):
        add_options(group, cls)
    add_options(group, ImageOptions, sparse=True)


@contextmanager
def calibration_workers(arguments: argparse.Namespace) -> Generator[None]:
    """Run calibrations inside the block in `--calibration-jobs` processes."""
    count: int = arguments.calibration_jobs
    if count == 1 or not arguments.calibrate:
        unmet = {} if arguments.calibrate else {SAMPLES: WITHOUT_SAMPLES}
        warn_idle(CalibrationWorkers, argparse.Namespace(jobs=count), unmet)
        yield
        return
    from ceras_ir.pipeline.parsing import TextCarrier
    from ceras_ir.support.workers import LocalProcesses, cores
    from ceras_ir.transforms.quantization.observe_ranges import Sharing, calibrating_by

    workers = LocalProcesses(cores() if count < 0 else count, plugin_loader())
    try:
        with calibrating_by(Sharing(workers, TextCarrier())):
            yield
    finally:
        workers.close()


def calibration_of(arguments: argparse.Namespace) -> str | None:
    """
    Return the data of `--calibrate` as passes accept it: `A.npz,B.npz,DIR?size=32x32&mean=0.5`.
    Return `None` without the option.
    """
    return with_image_options(arguments.calibrate, arguments)


def network_image_options(layout: str) -> tuple[str, ...]:
    """
    Return the names of the `--image` options that belong to the network if the input is an image of
    the given `layout` (`--input-image LAYOUT`). The rest belong to folders of images. The order of
    channels belongs to the network if `layout` is a camera format, which is converted.
    """
    return ("scale", "mean", "std", "layout", *(() if layout in PIXEL_LAYOUTS else ("channels",)))


def image_options(arguments: argparse.Namespace, names: Iterable[str]) -> str:
    """
    Return the `--image` options in `names` that the user has given, as the text that
    `ImageOptions.parse` accepts.
    """
    given = {name: getattr(arguments, f"image_{name}", None) for name in names}
    return "&".join(
        f"{name}={str(value).replace(',', ':')}" for name, value in given.items() if value
    )


def inputs_of(arguments: argparse.Namespace) -> str | None:
    """
    Return the data of `--inputs`, with the `--image` options if it is a folder of images; `None`
    without the option.
    """
    return with_image_options([arguments.inputs] if arguments.inputs else [], arguments)


def with_image_options(paths: Sequence[str], arguments: argparse.Namespace) -> str | None:
    """
    Return `paths` as a text with commas between them, followed by `?` and the `--image` options for
    folders of images. Return `None` if there are no paths.
    """
    layout: str | None = getattr(arguments, "input_image", None)
    every = [each.name for each, _ in options_of(ImageOptions)]
    of_network = () if layout is None else network_image_options(layout)
    names = [name for name in every if name not in of_network]
    options = image_options(arguments, names)
    if options and not any(map(_is_images, _named(arguments))):
        raise UsageError("--image options apply to a folder or an image: --calibrate DIR")
    if layout is not None:
        stored = layout if layout in PIXEL_LAYOUTS else "nhwc"
        options = "&".join(filter(None, (options, "scale=1", f"layout={stored}")))
    if options:
        ImageOptions.parse(options)
        parts = [part for path in paths for part in _parts(path)]
        paths = [f"{part}?{options}" if _is_images(part) else part for part in parts]
    return ",".join(paths) or None


def _named(arguments: argparse.Namespace) -> list[str]:
    found = list[str](arguments.calibrate or ())
    for name in ("inputs", "data", "validate"):
        if (path := getattr(arguments, name, None)) is not None:
            found.append(path)
    return [part for path in found for part in _parts(path)]


def _parts(path: str) -> list[str]:
    """
    Split a list of paths at commas, unless it is a single folder or image with a comma in the name.
    """
    return [path] if _is_images(path) else path.split(",")


def _is_images(path: str) -> bool:
    from ceras_ir.data.image_folder import is_images

    return is_images(path)


MODEL_FILE = "an ONNX model, or IR text in .mlir"
"""The help of the argument of commands that read a model."""

INPUT_FILES = (
    "a file with an array per input, or an image or a folder of images, to which the --image "
    "options apply"
)
"""The value of --inputs."""


def frame_size(text: str) -> tuple[int, int]:
    """Parse the height and width in text such as `240x320`."""
    found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected HxW, such as 240x320, got '{text}'")
    return int(found[1]), int(found[2])


def frame_crop(text: str) -> tuple[int, int, int, int]:
    """Parse the row, column, height and width in text such as `0,40,240x240`."""
    found = re.fullmatch(r"(\d{1,5}),(\d{1,5}),(\S+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected Y,X,HxW, such as 0,40,240x240, got '{text}'")
    return int(found[1]), int(found[2]), *frame_size(found[3])


@options
class InputOptions:
    """The option that changes the type of the input."""

    input_image: InputImage | None = option(None, metavar="FORMAT")
    """
    Let the network take an image from a camera, uint8, divide it by --image-scale, subtract
    --image-mean and divide by --image-std; the other --image options apply to folders. nhwc and
    nchw are pixels of the size of the input. All others are frames, which are converted to RGB or
    gray, cropped and resized: gray, rgb888, bgr888, rgb565_be (the upper byte first), rgb565_le,
    yuyv, uyvy, nv12, nv21, and the Bayer patterns rggb, bggr, grbg and gbrg.

    Data of the model is converted to pixels or frames.
    """
    frame_size: tuple[int, int] | None = option(None, metavar="HxW", read=frame_size)
    """Take frames of this height and width."""
    frame_crop: tuple[int, int, int, int] | None = option(None, metavar="Y,X,HxW", read=frame_crop)
    """
    Use the part of the frame of this height and width, with its upper left corner at row Y and
    column X (default: the largest part in the middle with the proportions of the input).
    """
    frame_resize: Literal["linear", "nearest"] | None = option(None)
    """Resize the part to the input by this interpolation (default: linear)."""


@options
class OutputOptions:
    """The option that replaces scores by decisions."""

    decode: tuple[str, ...] = option(
        (), metavar="KIND[,OPTION=VALUE...]", action="append", read=str
    )
    """
    Compute decisions in the network, so that an application needs a single call: top (the best
    classes, such as top,count=3), ctc (the text of a recognizer, such as ctc,blank=0) or boxes (of
    a detector, by non-maximum suppression, such as boxes,overlap=0.45,least=0.3). labels=FILE adds
    the names of classes to the interface, and scores=NAME selects an output; ceras-opt --help-pass
    decode-outputs explains all options. May be repeated for other outputs.
    """


def add_build_options(parser: ToolParser) -> None:
    """Add the options of a compilation that do not depend on the target."""
    group = parser.add_argument_group("compilation")
    add_options(group, BuildOptions, ["quantize"])
    add_scheme(group)
    add_options(group, BuildOptions, ["prune"])
    for cls in (ShapeOptions, StateOptions, InputOptions, OutputOptions):
        add_options(group, cls)
    add_extensions(parser)


def add_extensions(parser: ToolParser) -> None:
    """
    Add the options for limits, for plugins, and for passes of the user between levels (`--at`).
    """
    add_limits(parser)
    group = parser.add_argument_group("plugins")
    add_plugins(group)
    group.add_argument(
        "--at",
        nargs=2,
        action="append",
        default=[],
        metavar=("LEVEL", "PIPELINE"),
        help='run passes after a level, such as --at "fused graph" "my-pass{x=1}"; they must '
        "change no value (ceras-verify checks it); may be repeated",
    )
    parser.explanations.append(_as_pass)


def _as_pass(flag: str) -> str | None:
    """
    Return the message about the unknown option `flag` if it is the name of a pass, else `None`.
    """
    name = flag.removeprefix("--")
    if name not in load_universe().all_passes:
        return None
    return (
        f"{flag} is a pass, which ceras-opt runs; here, name the level after which it runs: "
        f'--at "fused graph" {name}'
    )


def insertions_of(arguments: argparse.Namespace) -> tuple[Insertion, ...]:
    """Return the passes that `--at` inserts after levels."""
    passes = load_universe().all_passes if arguments.at else {}
    return tuple(
        Insertion(level, text, tuple(build_pipeline(parse_pipeline(text), passes)))
        for level, text in arguments.at
    )


def add_scheme(group: ArgumentContainer) -> None:
    """Add the options of quantization."""
    add_calibration(group)
    for cls in (RecipeOptions, SiluOptions, RowsOptions, LayerOptions, BudgetOptions):
        add_options(group, cls)
    for removed, instead in REMOVED_FLAGS.items():
        group.add_argument(removed, type=_removed(removed, instead), help=argparse.SUPPRESS)


def arithmetic_of(arguments: argparse.Namespace) -> Target | None:
    """
    Return the target of `--target` and `--board`, which limits the arithmetic of quantization;
    `None` without `--target`.
    """
    if arguments.target is not None:
        given = {} if arguments.board is None else {"board": arguments.board}
        return with_values(find_target(arguments.target), given)
    if arguments.board is not None:
        raise UsageError("--board needs a target: add --target")
    return None


def _removed(option: str, instead: str) -> Callable[[str], NoReturn]:
    def refuse(value: str) -> NoReturn:
        raise UsageError(f"{option} was removed: {instead}")

    return refuse


def read_model(
    arguments: argparse.Namespace,
    observe: "Observer | None" = None,
    shapes: "Mapping[str, Shape] | None" = None,
) -> "ModuleOp":
    """
    Import the network on the command line, and apply the changes of inputs and outputs that options
    request (`interface_passes`). `observe` receives the import of an ONNX file before transposes
    are eliminated. `shapes` are the shapes of inputs at one of several lengths.
    """
    from ceras_ir.pipeline.parsing import read_network

    module = read_network(arguments.model, **interface_of(arguments, shapes), observe=observe)
    for each in interface_passes(arguments):
        from xdsl.context import Context

        from ceras_ir.pipeline.verification import verify_module

        each.apply(Context(), module)
        verify_module(module)
    return module


FRAME_OPTIONS = ("size", "crop", "resize")
"""The options of `take-images` that `--frame-OPTION` sets."""


def interface_passes(arguments: argparse.Namespace) -> "tuple[ModulePass, ...]":
    """
    Return the passes that change inputs and outputs of the network, as `--input-image` and
    `--decode` request.
    """
    return (*_image_passes(arguments), *map(_decode_pass, arguments.decode))


def _decode_pass(text: str) -> "ModulePass":
    from ceras_ir.pipeline.pass_options import build, spell
    from ceras_ir.transforms.graph.decode_outputs import DecodeOutputsPass

    kind, *given = text.split(",")
    kinds = choices_of(types_of(DecodeOutputsPass)["kind"])
    if kind not in kinds:
        raise UsageError(
            f"--decode {text}: expected {', '.join(kinds)}, and options after commas, such as "
            f"--decode top,count=3{did_you_mean(kind, kinds)}"
        )
    words = [f"kind={kind}"]
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--decode {text}: expected OPTION=VALUE after commas, got '{each}'")
        words.append(f"{key}={spell(value) if set(value) & set(' {}') else value}")
    return build(DecodeOutputsPass, " ".join(words), f"--decode {kind}")


def _image_passes(arguments: argparse.Namespace) -> "tuple[ModulePass, ...]":
    """Return the pass of `--input-image`, or () without the option."""
    layout = arguments.input_image
    given = {name: getattr(arguments, f"frame_{name}", None) for name in FRAME_OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if layout is None:
        if given:
            raise UsageError(f"--frame-{next(iter(given))} needs --input-image FORMAT")
        return ()
    from ceras_ir.transforms.graph.take_images import TakeImagesPass

    images = ImageOptions.parse(image_options(arguments, network_image_options(layout)))
    scale = images.divisor("float32")
    if "size" not in given and layout not in PIXEL_LAYOUTS:
        raise UsageError(
            f"--input-image {layout} needs --frame-size HxW: the height and width of a frame"
        )
    if given and layout in PIXEL_LAYOUTS:
        raise UsageError(f"--frame-{next(iter(given))} needs a frame: --input-image FORMAT")
    chosen = layout, images.layout, scale, images.mean, images.std
    return (TakeImagesPass(*chosen, channels=images.channels, **given),)


def add_inputs(
    parser: argparse.ArgumentParser, purpose: str, *, default: str = "", required: bool = False
) -> None:
    """
    Add the option `--inputs`, which names files of samples; `purpose` is the start of the help.
    """
    ending = f" (default: {default})" if default else ""
    usual(
        parser.add_argument(
            "--inputs",
            metavar="IN.npz|DIR",
            required=required,
            help=f"{purpose}: {INPUT_FILES}{ending}",
        )
    )


def watching_of(arguments: argparse.Namespace, inputs: str | None) -> "Watching | None":
    """
    Return the factory of checks for `--bisect-passes`, which compare outputs after each pass on a
    few samples of `inputs`; `None` without the option.
    """
    if not arguments.bisect_passes:
        return None
    from ceras_ir.driver.differences import by_outputs

    return partial(by_outputs, inputs=inputs)


def build_options(arguments: argparse.Namespace, target: Target) -> BuildOptions:
    """Return the options of a compilation for `target`, with the name of the network."""
    return replace(scheme_of(arguments, target), title=title_of(arguments.model))


def scheme_of(arguments: argparse.Namespace, target: Target | None = None) -> BuildOptions:
    """
    Return the options of a compilation for `target`. Without a target, quantization may use any
    arithmetic.
    """
    return replace(
        BuildOptions(),
        **{**values_of(BuildOptions, arguments), "calibration": calibration_of(arguments)},
        target=Target() if target is None else target,
        insertions=insertions_of(arguments),
    )


def title_of(path: str) -> str:
    """Return the name of the network in the file `path`: the file name without the suffix."""
    return Path(path).stem or "model"
