"""The command-line options that say which data calibrates a network, and how it is observed."""

import argparse
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from math import isfinite

from ceras_ir.command.option_flags import add_options
from ceras_ir.command.tool_parser import ArgumentContainer
from ceras_ir.data.image_options import ImageOptions
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.options import option, options, options_of
from ceras_ir.transforms.quantization.options import ObserverOptions, SampleOptions


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise argparse.ArgumentTypeError(f"expected a number of decibels, got {text!r}")
    return number


@options
class FloorOptions:
    """The signal-to-noise ratio below which a quantized network is wrong."""

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


def add_floor(parser: ArgumentContainer) -> None:
    """Add --floor, the signal-to-noise ratio below which a quantized network is wrong."""
    add_options(parser, FloorOptions)


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
