"""Select the metric for `--metric` and `--labels`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ceras_ir.data.image_folder import ImageFolder, is_folder, is_planar
from ceras_ir.data.samples import load_arrays
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError, UsageError, did_you_mean
from ceras_ir.transforms.quantization.analysis.output_noise import Quantities
from ceras_ir.workbench.metrics.classification import Classification, Closeness
from ceras_ir.workbench.metrics.detection import CocoLabels
from ceras_ir.workbench.metrics.figures import (
    Array,
    Figure,
    Function,
    Metric,
    Outputs,
    UserMetric,
    load_function,
)

TOPK, SEGMENTATION, DETECTION = "topk", "segmentation", "detection"
NAMES = (TOPK, SEGMENTATION, DETECTION)


@dataclass(frozen=True)
class Judgement:
    """
    The choice of a metric in addition to the signal-to-noise ratio, with the labels. `start`
    creates the metric.
    """

    name: str | None = None
    labels: Array | CocoLabels | None = None
    function: Function | None = None
    size: tuple[int, int] = (0, 0)
    """Height and width of an image input."""
    function_name: str = "metric"
    """The user's spelling of the function."""

    def first(self, count: int) -> "Judgement":
        """Return a copy with the labels of the first `count` samples."""
        return self.part(0, count)

    def part(self, first: int, count: int) -> "Judgement":
        """
        Return a copy with the labels of `count` samples from `first` on. Labels of boxes remain
        complete; they are selected when all samples are known.
        """
        labels = self.labels
        kept = labels[first : first + count] if isinstance(labels, np.ndarray) else labels
        return replace(self, labels=kept)

    def with_labels(self, labels: NDArray[np.integer]) -> "Judgement":
        """Return a copy with `labels`, the classes that the samples contain."""
        return replace(self, labels=labels)

    def start(self, outputs: Mapping[str, Array]) -> Metric:
        """Return a new metric for a network with these outputs."""
        shapes = {name: array.shape for name, array in outputs.items()}
        labels = self.labels if isinstance(self.labels, np.ndarray) else None
        if self.name == DETECTION:
            from ceras_ir.workbench.metrics.detection import AveragePrecision

            truth = self.labels if isinstance(self.labels, CocoLabels) else None
            return AveragePrecision(shapes, self.size, truth)
        if self.function is None:
            classes = None if labels is None else labels.astype(np.int64)
            return Classification(shapes, classes)
        return UserMetric(self.function, labels, self.function_name)


class Judge:
    """A comparison of outputs by sample; `quantities` belong to the float network."""

    def __init__(self, judgement: Judgement, quantities: Mapping[str, Quantities] | None = None):
        self._judgement, self._metrics = judgement, list[Metric]()
        self._quantities = quantities
        self._closeness = Closeness(())

    def add(self, real: Outputs, quantized: Outputs) -> None:
        if not self._metrics:
            self._closeness = Closeness(real, self._quantities)
            self._metrics = [self._closeness, self._judgement.start(real)]
        for metric in self._metrics:
            metric.add(real, quantized)

    def ratio(self) -> float:
        """Return the signal-to-noise ratio of all outputs in decibels, see `output_noise.py`."""
        return self._closeness.ratio()

    def merge(self, following: "Judge") -> None:
        """Add the results for the samples after these."""
        if not self._metrics:
            self._metrics, self._closeness = following._metrics, following._closeness
            for metric in self._metrics:
                if isinstance(metric, UserMetric) and self._judgement.function is not None:
                    metric.use(self._judgement.function)
            return
        pairs: list[tuple[Metric, Metric]]
        pairs = list(zip(self._metrics, following._metrics, strict=True))
        for metric, more in pairs:
            metric.merge(more)

    def __getstate__(self) -> dict[str, object]:
        """Return the results without the function of the user, which cannot always be pickled."""
        return {**self.__dict__, "_judgement": Judgement()}

    def figures(self) -> list[Figure]:
        return [figure for metric in self._metrics for figure in metric.figures()]


def judgement_of(
    metric: str | Function | None,
    labels: str | None,
    inputs: str,
    count: int,
    network: list[TensorInfo],
) -> Judgement:
    """Return the judgement for the options and the `count` samples of `inputs`; load the labels."""
    if metric is not None and (not isinstance(metric, str) or metric not in NAMES):
        if isinstance(metric, str) and ":" not in metric:
            raise UsageError(
                f"--metric must be {', '.join(NAMES)}, FILE.py:FUNCTION or MODULE:FUNCTION, got "
                f"{metric}{did_you_mean(metric, NAMES)}"
            )
        function = load_function(metric) if isinstance(metric, str) else metric
        known = None if labels is None else _load_labels(labels, count)
        name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
        return Judgement(None, known, function, function_name=name)
    if metric == DETECTION:
        return _detection(labels, inputs, count, network)
    if labels is None:
        if metric is not None:
            raise UsageError(f"--metric {metric} needs --labels")
        return Judgement()
    known = _load_classes(labels, count)
    axes = {TOPK: 1, SEGMENTATION: 3}
    if metric is not None and known.ndim != axes[metric]:
        wanted = {TOPK: "[N]", SEGMENTATION: "[N, H, W]"}[metric]
        raise InputError(
            f"labels for {metric} have shape {wanted}, got {list(known.shape)}", labels
        )
    return Judgement(metric, known)


def _detection(labels: str | None, inputs: str, count: int, network: list[TensorInfo]) -> Judgement:
    shape = network[0].shape
    if len(network) != 1 or len(shape) != 4:
        raise UsageError("--metric detection requires a network with a single image input")
    size = shape[2:] if is_planar(shape) else shape[1:3]
    judgement = Judgement(DETECTION, None, None, (size[0], size[1]))
    if labels is None:
        return judgement
    boxes = CocoLabels(labels)
    if is_folder(inputs):
        boxes.of_folder(ImageFolder(inputs, network))
    else:
        boxes.of_arrays(count, judgement.size)
    return replace(judgement, labels=boxes)


def _load_classes(path: str, count: int) -> NDArray[np.integer]:
    labels = _load_labels(path, count)
    if labels.dtype.kind not in "iu" or labels.ndim not in (1, 3):
        raise InputError(
            f"labels must be integers of shape [N] or [N, H, W], got {labels.dtype}"
            f"{list(labels.shape)}; use --metric FILE.py:FUNCTION for other labels",
            path,
        )
    return labels.astype(np.int64)


def _load_labels(path: str, count: int) -> Array:
    # The only array of the file, or the array `labels`.
    if Path(path).suffix == ".json":
        raise UsageError("labels in COCO's format are for --metric detection")
    arrays = load_arrays(path)
    name = "labels" if "labels" in arrays else next(iter(arrays), "")
    if name not in arrays or (len(arrays) > 1 and name != "labels"):
        raise InputError(
            f"expected a single array or an array 'labels'; found {', '.join(arrays) or 'none'}",
            path,
        )
    labels = arrays[name]
    if not labels.ndim:
        raise InputError("labels are a single number; the first axis must be samples", path)
    if len(labels) != count:
        raise InputError(f"there are {len(labels)} labels for {count} samples", path)
    return labels
