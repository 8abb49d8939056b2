"""
Define the options for samples: calibration, inputs, and folders of images.
"""

import argparse
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING

from ceras_ir.command.help_parser import usual
from ceras_ir.command.tool_parser import ArgumentContainer, add_options
from ceras_ir.data.image_options import PIXEL_LAYOUTS, ImageOptions
from ceras_ir.pipeline.context import plugin_loader
from ceras_ir.pipeline.stages import WITHOUT_SAMPLES, warn_idle
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import option, options, options_of
from ceras_ir.transforms.quantization_options import (
    SAMPLES,
    ObserverOptions,
    SampleOptions,
)

if TYPE_CHECKING:
    pass


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


INPUT_FILES = (
    "a file with an array per input, or an image or a folder of images, to which the --image "
    "options apply"
)
"""The value of --inputs."""


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
