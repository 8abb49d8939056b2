"""
Compare the types and magnitudes of two sets of input data.

Commands print remarks if the data of a run differs from the calibration data.
"""

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ceras_ir.data.image_folder import is_folder
from ceras_ir.data.sample_stream import open_samples
from ceras_ir.data.samples import UNREADABLE, read_header
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError, remark

MAX_IMAGES = 64
"""
The number of samples of a folder of images that are read; all images are scaled in the same way.
"""

MAX_PEAK_RATIO = 4.0
"""The ratio of two peaks above which the scales of the data differ."""

MAX_PIXEL = 255
"""The largest value of a pixel."""


@dataclass(frozen=True)
class Magnitude:
    """The data of one input."""

    peak: float
    """The largest finite magnitude."""
    is_pixels: bool = False
    """Whether all elements are integers from 0 to 255, and some exceed 127."""
    has_nan: bool = False


def magnitudes(paths: str, inputs: Sequence[TensorInfo]) -> dict[str, Magnitude]:
    """Return the magnitudes of the data for each input, over all samples of the files."""
    samples = open_samples(paths, inputs)
    if any(is_folder(part) for part in _parts(paths)):
        samples = samples.first(MAX_IMAGES)
    peaks = dict.fromkeys((tensor.name for tensor in inputs), 0.0)
    all_pixels, nan = dict.fromkeys(peaks, True), dict.fromkeys(peaks, False)
    for sample in samples:
        for name, array in sample.items():
            finite = array[np.isfinite(array)].astype(np.float64)
            nan[name] |= bool(np.isnan(array).any())
            peaks[name] = max(peaks[name], float(np.abs(finite).max(initial=0.0)))
            if all_pixels[name]:
                pixels = (finite >= 0) & (finite <= MAX_PIXEL) & (finite == np.rint(finite))
                all_pixels[name] = bool(pixels.all())
    return {
        name: Magnitude(peak, all_pixels[name] and peak > MAX_PIXEL / 2, nan[name])
        for name, peak in peaks.items()
    }


def types_that_differ(paths: str, inputs: Sequence[TensorInfo]) -> Iterable[tuple[str, str, str]]:
    """Return the name, the type of the data, and the type of each float input with integer data."""
    found: dict[str, tuple[str, str, str]] = {}
    for path in _parts(paths):
        if not Path(path).is_file():
            continue
        for tensor in inputs:
            dtype = _dtype(path, tensor.name)
            if dtype is not None and dtype.kind in "iub" and np.dtype(tensor.dtype).kind == "f":
                found[tensor.name] = tensor.name, dtype.name, tensor.dtype
    return found.values()


def _parts(paths: str) -> list[str]:
    return [paths] if Path(paths).exists() else paths.split(",")


def _dtype(path: str, name: str) -> "np.dtype[np.generic] | None":
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
            return read_header(stream).dtype
    except (OSError, *UNREADABLE):
        return None


def scales_that_differ(
    given: Mapping[str, float], reference: Mapping[str, float]
) -> Iterable[tuple[str, float, float]]:
    """Yield the inputs with a peak above 4 times, or below a quarter, of that of the reference."""
    for name, peak in given.items():
        known = reference.get(name, 0.0)
        if known > 0 and (peak > MAX_PEAK_RATIO * known or peak < known / MAX_PEAK_RATIO):
            yield name, peak, known


PEAKS = "calibration_peaks"
"""The key of the manifest: the largest magnitude of the calibration data of each input, by name."""

REMEDY = (
    "divide pixels by 255 if the network was trained on 0 to 1, or let the network accept bytes "
    "(--input-image nhwc|nchw, with --image-scale, --image-mean and --image-std)"
)


def note_calibration(paths: str | None, inputs: Sequence[TensorInfo]) -> dict[str, float]:
    """
    Report integer data, and float data that looks like pixels, of float inputs. Return the peak of
    each input, or {} without data.
    """
    found = _magnitudes(paths, inputs)
    if paths is None or not found:
        return {}
    wrong = _note_types("calibration data", paths, inputs)
    floats = {tensor.name for tensor in inputs if tensor.dtype.startswith("float")}
    for name, each in found.items():
        if each.is_pixels and name in floats and name not in wrong:
            remark(
                f"note: the calibration data of input '{name}' are integers from 0 to "
                f"{each.peak:g}, like pixels: {REMEDY}"
            )
    return {name: each.peak for name, each in found.items()}


def note_inputs(
    paths: str | None,
    inputs: Sequence[TensorInfo],
    calibrated: Mapping[str, float],
    *,
    admits_nan: bool = False,
) -> None:
    """
    Report data with other types than the inputs, or with another scale than `calibrated`. Without
    `admits_nan`, the command refuses data with NaN itself.
    """
    if paths is None:
        return
    wrong = _note_types("data", paths, inputs)
    if not calibrated:
        return
    # Other integers can be indices, and stored integers have a separate scale.
    real = {
        tensor.name
        for tensor in inputs
        if tensor.dtype.startswith("float") or (tensor.dtype == "uint8" and tensor.scale is None)
    }
    found = _magnitudes(paths, inputs)
    if any(each.has_nan for each in found.values()) and not admits_nan:
        return
    for name, each in found.items():
        if each.has_nan:
            remark(
                f"warning: the data of input '{name}' have NaN elements. Unless the network "
                "replaces them (IsNaN and Where), results of integers are meaningless"
            )
    given = {name: each.peak for name, each in found.items() if name in real}
    for name, peak, known in scales_that_differ(given, calibrated):
        remedy = f"; {REMEDY}" if name not in wrong else ""
        remark(
            f"warning: the largest magnitude in the data of input '{name}' is {peak:g}, and "
            f"{known:g} in the calibration data: both must have the scale that the network was "
            f"trained on{remedy}"
        )


def _magnitudes(paths: str | None, inputs: Sequence[TensorInfo]) -> dict[str, Magnitude]:
    with suppress(InputError):  # The command reports data that cannot be read.
        return {} if paths is None else magnitudes(paths, inputs)
    return {}


def _note_types(data: str, paths: str, inputs: Sequence[TensorInfo]) -> set[str]:
    names = set[str]()
    for name, found, expected in types_that_differ(paths, inputs):
        names.add(name)
        remark(
            f"warning: the {data} of input '{name}' has type {found}, and the network expects "
            f"{expected}; the integers are converted as they are: {REMEDY}"
        )
    return names
