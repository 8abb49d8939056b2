"""
Compare the types and magnitudes of two sets of input data.

Commands print remarks if the data of a run differs from the calibration data.
"""

import operator
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue, Use

from ceras_ir.data.array_archive import UNREADABLE, read_header
from ceras_ir.data.image_folder import is_images
from ceras_ir.data.sample_stream import open_samples
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary
from ceras_ir.network.artefacts import TensorInfo, network_inputs
from ceras_ir.network.function import input_names, uses_after_moves
from ceras_ir.support.diagnostics import InputError, remark
from ceras_ir.support.user_files import regular

MAX_IMAGES = 64
"""The images of a folder that are read; all images are scaled in the same way."""

MAX_PEAK_RATIO = 4.0
"""The ratio of two peaks above which the scales of the data differ."""

MAX_PIXEL = 255
"""The largest value of a pixel."""

MIN_IMAGE_PEAK = 200.0
"""The peak from which data of an image that are not integers look like pixels."""

IMAGE_RANK = 3
"""The number of axes of an input for images, without the axis of samples."""

MAX_NORMALIZED_PEAK = MAX_PIXEL / 2
"""
The largest magnitude of pixels after the normalization of a network. Data from 0 to 1 has a
standard deviation of at most 1/2, so a batch norm that was trained on it multiplies by 2 or more.
"""

MIN_PIXEL_MEAN = 10.0
"""The magnitude from which a subtracted constant is a mean of pixels from 0 to 255."""

MAX_PIXEL_FILTER_NORM = 0.1
"""The largest norm of filters into which a division of pixels by 255 was folded."""


@dataclass(frozen=True)
class Magnitude:
    """
    The largest magnitude in the data of a graph input, whether the data looks like pixels, and
    whether it has NaN.
    """

    peak: float
    """The largest finite magnitude."""
    is_pixels: bool = False
    """
    Whether the data looks like pixels: all elements are integers from 0 to 255, and some exceed
    127; or they are images from 0 to 255, and some elements exceed 200.
    """
    has_nan: bool = False


def magnitudes(paths: str, inputs: Sequence[TensorInfo]) -> dict[str, Magnitude]:
    """
    Return, for each of `inputs`, the `Magnitude` over all samples in the files or folders `paths`;
    of images, only the first `MAX_IMAGES` are read.
    """
    samples = open_samples(paths, inputs)
    if any(is_images(part) for part in _parts(paths)):
        samples = samples.first(MAX_IMAGES)
    peaks = dict.fromkeys((tensor.name for tensor in inputs), 0.0)
    all_pixels, nan = dict.fromkeys(peaks, True), dict.fromkeys(peaks, False)
    bounded = {tensor.name: len(tensor.shape) >= IMAGE_RANK for tensor in inputs}
    for sample in samples:
        for name, array in sample.items():
            finite = array[np.isfinite(array)].astype(np.float64)
            nan[name] |= bool(np.isnan(array).any())
            low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
            peaks[name] = max(peaks[name], -low, high)
            is_bounded = low == 0 and high <= MAX_PIXEL
            bounded[name] &= is_bounded
            if all_pixels[name]:
                all_pixels[name] = is_bounded and bool((finite == np.rint(finite)).all())

    def is_pixels(name: str, peak: float) -> bool:
        return (all_pixels[name] and peak > MAX_PIXEL / 2) or (
            bounded[name] and peak > MIN_IMAGE_PEAK
        )

    return {name: Magnitude(peak, is_pixels(name, peak), nan[name]) for name, peak in peaks.items()}


def pixel_inputs(main: FuncOp) -> frozenset[str]:
    """
    Return the names of the inputs that receive pixels from 0 to 255, because the network itself
    normalizes them, in one of three ways:

    1. Constants, such as the factors of a batch norm, halve the values or more, or subtract a mean
       of 10 or more. The median over channels counts, since a channel without variance has a large
       factor.
    2. A Q/DQ scale has this range.
    3. The filters of the first layer have a norm of at most 0.1, since the exporter folded the
       division into them.
    """
    arguments = zip(input_names(main), main.body.block.args, strict=True)
    return frozenset(name for name, value in arguments if _are_normalized(value, 0.0, MAX_PIXEL))


def _are_normalized(value: SSAValue, low: float, high: float) -> bool:
    """
    Return whether each consumer of `value` normalizes it; the elements of `value` are from `low` to
    `high`. `pixel_inputs` explains which operations normalize.
    """
    uses = list(uses_after_moves(value, joined=False))
    return bool(uses) and all(_is_normalizing(use, low, high) for use in uses)


def _is_normalizing(use: Use, low: float, high: float) -> bool:
    peak = max(abs(low), abs(high))
    match op := use.operation:
        case graph.CastOp():
            return _are_normalized(op.result, low, high)
        case graph.NormalizeOp():
            return use.index == 0
        case graph.QuantizeOp():
            element = graph.quantized_element(op.result)
            if element is None or element.is_per_axis:
                return False
            return element.scale * (1 << element.storage.width.data) > peak / 2
        case graph.LinearOperation() if use.index == 0:
            weights = graph.constant_array(op.weights)
            if weights is None or weights.dtype.kind != "f":
                return False
            filters = weights.reshape(len(weights), -1).astype(np.float64)
            return np.linalg.norm(filters, axis=1).max() * peak / MAX_PIXEL <= MAX_PIXEL_FILTER_NORM
        case graph.BinaryOp():
            constant = graph.constant_array(op.operands[1 - use.index])
            function = PYTHON_BINARY.get(op.kind.data)
            if constant is None or function is None:
                return False
            typical = float(np.median(constant.astype(np.float64)))
            if op.kind.data is not Binary.MUL and abs(typical) >= MIN_PIXEL_MEAN:
                return True
            operands = [(x, typical)[:: 1 - 2 * use.index] for x in (low, high)]
            low, high = sorted(function(lhs, rhs) for lhs, rhs in operands)
            return max(abs(low), abs(high)) <= MAX_NORMALIZED_PEAK or _are_normalized(
                op.result, low, high
            )
        case _:
            return False


PYTHON_BINARY: dict[Binary, Callable[[float, float], float]] = {
    Binary.ADD: operator.add,
    Binary.SUB: operator.sub,
    Binary.MUL: operator.mul,
}
"""The elementwise functions of a normalization; the importer converts divisions to products."""


def types_that_differ(paths: str, inputs: Sequence[TensorInfo]) -> Iterable[tuple[str, str, str]]:
    """
    Return the float inputs for which the files have integers: the name, the type of the data, and
    the type of the input.
    """
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
        with zipfile.ZipFile(regular(path)) as archive, archive.open(f"{name}.npy") as stream:
            return read_header(stream).dtype
    except (OSError, *UNREADABLE):
        return None


def scales_that_differ(
    given: Mapping[str, float], reference: Mapping[str, float]
) -> Iterable[tuple[str, float, float]]:
    """
    Yield the inputs with a largest magnitude in `given` of more than 4 times the value in
    `reference`, or less than a quarter: the name and both magnitudes.
    """
    for name, peak in given.items():
        known = reference.get(name, 0.0)
        if known > 0 and (peak > MAX_PEAK_RATIO * known or peak < known / MAX_PEAK_RATIO):
            yield name, peak, known


PEAKS = "calibration_peaks"
"""
The key in the manifest of the largest magnitude of the calibration data of each input, by name.
"""

PIXEL_REMEDY = (
    "divide pixels by 255 if the network was trained on 0 to 1, or let the network accept bytes "
    "(--input-image nhwc|nchw, with --image-scale, --image-mean and --image-std)"
)


def note_calibration(paths: str | None, main: FuncOp) -> dict[str, float]:
    """
    Print warnings about calibration data in the files `paths`: integers for a float input, or
    floats that look like pixels for an input that the network does not normalize. Return the
    largest magnitude of each input by name, or {} without data.
    """
    inputs = network_inputs(main)
    found = _magnitudes(paths, inputs)
    if paths is None or not found:
        return {}
    pixels = pixel_inputs(main)
    wrong = _note_types("calibration data", paths, inputs, pixels) | pixels
    floats = {tensor.name for tensor in inputs if tensor.dtype.startswith("float")}
    for name, each in found.items():
        if each.is_pixels and name in floats and name not in wrong:
            remark(
                f"warning: the calibration data of input '{name}' are numbers from 0 to "
                f"{each.peak:g}, like pixels, and the network does not scale them: {PIXEL_REMEDY}"
            )
    return {name: each.peak for name, each in found.items()}


def note_inputs(
    paths: str | None,
    inputs: Sequence[TensorInfo],
    calibrated: Mapping[str, float],
    *,
    pixels: Collection[str] = (),
    admits_nan: bool = False,
) -> None:
    """
    Print warnings about the data in the files `paths`, a line for each suspicious input.

    1. The data has integers and the input has floats. There is no warning for the inputs in
       `pixels`, and for inputs with calibration data that looks like pixels.
    2. The data has elements of NaN. Only with `admits_nan`: otherwise the function returns at this
       point, because the calling command stops with an error at the first NaN.
    3. The largest magnitude is more than 4 times that of the calibration data, or less than a
       quarter.

    `calibrated` has the largest magnitude of the calibration data by the name of the input; if it
    is empty, only the first warning is possible.
    """
    if paths is None:
        return
    pixels = {*pixels, *(name for name, peak in calibrated.items() if peak > MAX_PIXEL / 2)}
    wrong = _note_types("data", paths, inputs, pixels)
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
        remedy = f"; {PIXEL_REMEDY}" if name not in wrong else ""
        remark(
            f"warning: the largest magnitude in the data of input '{name}' is {peak:g}, and "
            f"{known:g} in the calibration data{saturated(peak, known)}: both must have the scale "
            f"that the network was trained on{remedy}"
        )


def _magnitudes(paths: str | None, inputs: Sequence[TensorInfo]) -> dict[str, Magnitude]:
    with suppress(InputError):  # The command reports data that cannot be read.
        return {} if paths is None else magnitudes(paths, inputs)
    return {}


def saturated(peak: float, known: float) -> str:
    """
    Return the end of a warning: values saturate if `peak`, the largest magnitude of the data,
    exceeds `known`, that of the calibration data. Otherwise the text is empty.
    """
    return ", so larger values saturate" if peak > known else ""


def _note_types(
    data: str, paths: str, inputs: Sequence[TensorInfo], pixels: Collection[str]
) -> set[str]:
    """
    Print a warning for each float input, except inputs in `pixels`, for which the files have
    integers. `data` names the data in the warning. Return the names of these inputs.
    """
    names = set[str]()
    for name, found, expected in types_that_differ(paths, inputs):
        if name in pixels:
            continue
        names.add(name)
        remark(
            f"warning: the {data} of input '{name}' has type {found}, and the network expects "
            f"{expected}; the integers are converted as they are: {PIXEL_REMEDY}"
        )
    return names
