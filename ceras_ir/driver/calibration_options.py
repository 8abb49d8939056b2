"""The command-line options that say which data calibrates a network, and how it is observed."""

import argparse
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import get_args

from ceras_ir.command.tool_parser import ArgumentContainer
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.quantization.analysis.observer_names import DEFAULT_OBSERVER, ObserverName

IMAGES = {
    "size": ("HxW", "resize images to this (default: the input's)"),
    "scale": ("S", "divide pixels by this first (default: 255, or 1 for an input of uint8)"),
    "mean": ("M,M,M", "then subtract this, one number or one per channel (default: 0)"),
    "std": ("D,D,D", "then divide by this, one number or one per channel (default: 1)"),
    "channels": ("{rgb,bgr}", "order channels so (default: rgb)"),
    "layout": ("{nchw,nhwc}", "use this layout of the input (default: by its shape)"),
    "fit": (
        "{stretch,crop,letterbox}",
        "bring images of another shape to the input's: stretch them, crop them to their centre, or "
        "pad them at the right and below (default: stretch)",
    ),
    "pad": ("P", "pad letterboxed images with this (default: 114)"),
}
"""Options of an image folder, as `--image-NAME`; see `ceras_ir.data.image_folder`."""


FLOOR_DB = 10.0
"""The signal-to-noise ratio below which a quantized network is reported."""


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise argparse.ArgumentTypeError(f"expected a number of decibels, got {text!r}")
    return number


def add_floor(parser: ArgumentContainer) -> None:
    """Add --floor, the signal-to-noise ratio below which a quantized network is wrong."""
    parser.add_argument(
        "--floor",
        type=_finite,
        default=FLOOR_DB,
        metavar="DB",
        help="exit with status 1 if the signal-to-noise ratio of the quantized network is below "
        "this, with --calibrate or for a model with Q/DQ, and print a warning otherwise "
        "(default: %(default)g)",
    )


def add_calibration(group: ArgumentContainer) -> None:
    """Calibration data, files or a folder of images, and the observer."""
    group.add_argument(
        "--calibrate",
        action="append",
        default=[],
        metavar="DATA.npz|DIR",
        help="choose scales from these inputs: one array per graph input, whose first axis is "
        "samples, or a folder of images; may be repeated, or list files by commas. Without them "
        "ranges come from the IR or from synthetic inputs, and a note on stderr says so",
    )
    group.add_argument(
        "--calibration-samples",
        type=_whole(1),
        default=64,
        metavar="N",
        help="how many of them are looked at (default: %(default)s)",
    )
    group.add_argument(
        "--calibration-seed",
        type=_whole(0),
        metavar="SEED",
        help="look at samples that the seed chooses, instead of at some with even distances",
    )
    group.add_argument(
        "--calibration-jobs",
        type=_whole(-1),
        default=1,
        metavar="N",
        help="processes that look at more than 64 samples, -1 for one per core; the network is the "
        "same for any number",
    )
    group.add_argument(
        "--observer",
        choices=get_args(ObserverName),
        default=DEFAULT_OBSERVER,
        help="choose scales by least squared error (mse) or extremes (minmax); auto, the default, "
        "is mse from 16 samples on, and clips nothing below",
    )
    for name, (metavar, text) in IMAGES.items():
        group.add_argument(f"--image-{name}", metavar=metavar, help=f"for image folders: {text}")


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text) if text.removeprefix("-").isdecimal() else least - 1
        if number < least or (least < 0 and number == 0):
            raise argparse.ArgumentTypeError(f"must be a number of at least {least}, got {text}")
        return number

    return read


@contextmanager
def calibration_workers(arguments: argparse.Namespace) -> Generator[None]:
    """Have calibration below be done by as many processes as `--calibration-jobs` says."""
    count: int = arguments.calibration_jobs
    if count == 1 or not arguments.calibrate:
        yield
        return
    from ceras_ir.pipeline.carrier import TextCarrier
    from ceras_ir.support.workers import LocalProcesses, cores
    from ceras_ir.transforms.quantization.analysis.shared_calibration import (
        Sharing,
        calibrating_by,
    )

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
    given = {name: getattr(arguments, f"image_{name}") for name in names}
    return "&".join(
        f"{name}={str(value).replace(',', ':')}" for name, value in given.items() if value
    )


def inputs_of(arguments: argparse.Namespace) -> str | None:
    """All that `--inputs` names, folders of images with their options."""
    return with_image_options([arguments.inputs] if arguments.inputs else [], arguments)


def with_image_options(paths: Sequence[str], arguments: argparse.Namespace) -> str | None:
    """Files and folders, commas between them, the folders with the `--image` options."""
    layout: str | None = getattr(arguments, "input_image", None)
    names = IMAGES if layout is None else [name for name in IMAGES if name not in NETWORK]
    options = image_options(arguments, names)
    if options and not any(map(_is_folder, _named(arguments))):
        raise UsageError("--image options are for a folder: --calibrate DIR")
    if layout is not None:
        options = "&".join(filter(None, (options, "scale=1", f"layout={layout}")))
    if options:
        from ceras_ir.data.image_folder import ImageOptions

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
