"""Warnings about data that has another type or scale than the network expects."""

from collections.abc import Mapping, Sequence

from ceras_ir.data.magnitudes import (
    Magnitude,
    magnitudes,
    scales_that_differ,
    types_that_differ,
)
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.remarks import remark

PEAKS = "calibration_peaks"
"""Key of the manifest: the largest magnitude of the calibration data of each input, by name."""

REMEDY = (
    "divide pixels by 255 if the network was trained on 0 to 1, or let the network take bytes "
    "(--input-image nhwc|nchw, with --image-scale, --image-mean and --image-std)"
)


def note_calibration(paths: str | None, inputs: Sequence[TensorInfo]) -> dict[str, float]:
    """
    Report integers, and floats that look like pixels, as calibration data of float inputs. Return
    the peak of each input; nothing without data.
    """
    found = _magnitudes(paths, inputs)
    if paths is None or not found:
        return {}
    wrong = _note_types("calibration data", paths, inputs)
    floats = {tensor.name for tensor in inputs if tensor.dtype.startswith("float")}
    for name, each in found.items():
        if each.is_pixels and name in floats and name not in wrong:
            remark(
                f"note: the calibration data of input '{name}' are whole numbers from 0 to "
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
    Report data of another type than the inputs, or of another scale than `calibrated`. Unless the
    command `admits_nan`, it refuses such data itself.
    """
    if paths is None:
        return
    wrong = _note_types("data", paths, inputs)
    if not calibrated:
        return
    # Other integers may be indices, and stored integers have a scale of their own.
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
    """Return nothing for data that cannot be read: the command reports the reason."""
    if paths is None:
        return {}
    try:
        return magnitudes(paths, inputs)
    except InputError:
        return {}


def _note_types(what: str, paths: str, inputs: Sequence[TensorInfo]) -> set[str]:
    """Report integers for float inputs; return the names of the inputs."""
    names = set[str]()
    for name, found, expected in types_that_differ(paths, inputs):
        names.add(name)
        remark(
            f"warning: the {what} of input '{name}' has type {found}, and the network expects "
            f"{expected}; the integers are converted as they are: {REMEDY}"
        )
    return names
