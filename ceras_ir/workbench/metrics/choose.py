"""
Select the metric for `--metric` and `--labels`: classes of samples or pixels, or a noise ratio.

The figures are the agreement with the float network and, with labels, top-1 and top-5 or the
intersection over union. Outputs of shape [1, classes] are classifications; with labels [N, H, W] an
output [1, classes, H, W] or [1, H, W, classes] is a segmentation. A single channel separates class
1 from class 0: above 0.5 if all elements of the float network are between 0 and 1, as
probabilities, else above 0.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ceras_ir.data.array_archive import load_arrays
from ceras_ir.data.image_folder import ImageFolder, image_size, is_images
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError, UsageError, did_you_mean
from ceras_ir.transforms.quantization.analysis.output_noise import (
    OutputNoise,
    Quantities,
    decibels,
    mean_share,
)
from ceras_ir.workbench.metrics.detection import (
    PRECISION,
    PRECISION_AGAINST_FLOAT,
    CocoLabels,
)
from ceras_ir.workbench.metrics.figures import (
    Array,
    Chosen,
    Figure,
    Metric,
    MetricFunction,
    Outputs,
    Reading,
    Shares,
    UserMetric,
    load_function,
    mean_of,
)

Labels = NDArray[np.integer]

TOP_RANKS = (1, 5)
"""A label is correct if it is among this number of the highest scores."""

AGREEMENT, MEAN_IOU, IOU_OF_CLASS = "agreement", "mean IoU", "IoU of class"
"""The names of the figures of classes; the number of a class follows the last."""


class Classification:
    """
    The metrics of outputs that are classes of samples or pixels. Which outputs are classes follows
    from the shapes of outputs and labels.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], labels: Labels | None):
        self._labels, self._number = labels, 0
        axes = {name: _class_axis(shape, labels) for name, shape in shapes.items()}
        prefixes = {name: f"{name}: " if len(shapes) > 1 else "" for name in shapes}
        self._outputs = {
            name: _Output(prefixes[name], axis, shapes[name], labels)
            for name, axis in axes.items()
            if axis is not None
        }
        judged = any(output.judged for output in self._outputs.values())
        if labels is not None and not judged:
            listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
            raise InputError(
                f"labels of shape {list(labels.shape)} fit none of the outputs: {listed}"
            )
        if labels is not None and labels.ndim == 1:
            self._refuse_unknown(labels)

    def _refuse_unknown(self, labels: Labels) -> None:
        # Unknown classes of pixels are ignored by convention, but not of samples.
        judged = [(name, output) for name, output in self._outputs.items() if output.judged]
        name, output = max(judged, key=lambda item: item[1].classes)
        outside = labels[(labels < 0) | (labels >= output.classes)]
        if outside.size:
            raise InputError(
                f"label {outside[0]} is no class of output '{name}': they are 0 to "
                f"{output.classes - 1}"
            )

    def add(self, real: Outputs, quantized: Outputs) -> None:
        label = None if self._labels is None else self._labels[self._number]
        self._number += 1
        for name, output in self._outputs.items():
            output.add(real[name], quantized[name], label)

    def merge(self, following: Self) -> None:
        self._number += following._number
        for name, output in self._outputs.items():
            output.merge(following._outputs[name])

    def figures(self) -> list[Figure]:
        return [figure for output in self._outputs.values() for figure in output.figures()]


class _Output:
    def __init__(self, prefix: str, axis: int, shape: tuple[int, ...], labels: Labels | None):
        self.prefix, self.axis = prefix, axis
        pixels = shape[1:axis] + shape[axis + 1 :]
        self.judged = labels is not None and labels.shape[1:] == pixels
        single = shape[axis] == 1
        self._bounds = (0.5, 0.0) if single else (0.0,)
        self.classes = max(shape[axis], 2)
        self._is_probability = single
        self._agreement = {bound: Shares() for bound in self._bounds}
        ranked = self.judged and not pixels
        self._top = {b: (Shares(), Shares()) for b in TOP_RANKS if ranked and b < shape[axis]}
        self._overlaps: dict[float, list[tuple[Shares, Shares]]] = {
            bound: [(Shares(), Shares()) for _ in range(self.classes)]
            for bound in self._bounds
            if self.judged and pixels
        }
        self._present: set[int] = set()

    def add(
        self, real: NDArray[np.generic], quantized: NDArray[np.generic], label: Labels | None
    ) -> None:
        exact = real.astype(np.float64)
        if exact.min(initial=0) < 0 or exact.max(initial=0) > 1:
            self._is_probability = False
        for bound in self._bounds:
            classes = [_classes(array, self.axis, bound) for array in (real, quantized)]
            same = classes[0] == classes[1]
            self._agreement[bound].add(float(same.sum()), same.size)
            if bound in self._overlaps and label is not None:
                self._overlap(bound, classes, label[None])
        if label is None:
            return
        for best, pair in self._top.items():
            for scores, shares in zip((real, quantized), pair, strict=True):
                shares.add(float(_rank(scores[0], int(label)) < best), 1)

    def _overlap(self, bound: float, classes: list[Labels], label: Labels) -> None:
        # Labels outside the classes (255 by convention) are ignored.
        judged = (label >= 0) & (label < self.classes)
        self._present |= set(np.unique(label[judged]).tolist())
        for c, pair in enumerate(self._overlaps[bound]):
            truth = label == c
            for found, shares in zip(classes, pair, strict=True):
                union = (truth | (found == c)) & judged
                shares.add(float((truth & (found == c)).sum()), float(union.sum()))

    def merge(self, following: "_Output") -> None:
        self._is_probability = self._is_probability and following._is_probability
        self._present |= following._present
        for bound, shares in self._agreement.items():
            shares.merge(following._agreement[bound])
        pairs = [(pair, following._top[best]) for best, pair in self._top.items()]
        for bound, overlaps in self._overlaps.items():
            pairs += zip(overlaps, following._overlaps[bound], strict=True)
        for mine, other_shares in pairs:
            for shares, other in zip(mine, other_shares, strict=True):
                shares.merge(other)

    def figures(self) -> list[Figure]:
        bound = self._bounds[0] if self._is_probability else self._bounds[-1]
        found = [Figure(f"{self.prefix}{AGREEMENT}", self._agreement[bound].reading())]
        for best, (real, quantized) in self._top.items():
            name = f"{self.prefix}{_top(best)}"
            found.append(Figure(name, quantized.reading(), real.reading()))
        if self._overlaps and self._present:
            overlaps = {c: self._overlaps[bound][c] for c in sorted(self._present)}
            each = {c: (r.reading(), q.reading()) for c, (r, q) in overlaps.items()}
            for c, (real, quantized) in each.items():
                found.append(Figure(f"{self.prefix}{IOU_OF_CLASS} {c}", quantized, real))
            means = [mean_of([pair[i] for pair in each.values()]) for i in (0, 1)]
            found.append(Figure(f"{self.prefix}{MEAN_IOU}", means[1], means[0]))
        return found


def _top(rank: int) -> str:
    return f"top-{rank}"


def _rank(scores: NDArray[np.generic], label: int) -> int:
    # The number of classes before the label; of equal scores the first class is first.
    if not 0 <= label < len(scores):
        return len(scores)
    real = scores.astype(np.float64)
    own = real[label]
    return int((real > own).sum() + (real[:label] == own).sum())


def _classes(scores: NDArray[np.generic], axis: int, bound: float) -> Labels:
    if scores.shape[axis] > 1:
        return scores.argmax(axis)
    return (scores.squeeze(axis).astype(np.float64) > bound).astype(np.int64)


def _class_axis(shape: tuple[int, ...], labels: Labels | None) -> int | None:
    if len(shape) == 2 and shape[1] > 1:
        return 1
    if len(shape) == 4 and labels is not None and labels.ndim == 3:
        for axis in (1, 3):
            if shape[1:axis] + shape[axis + 1 :] == labels.shape[1:]:
                return axis
    return None


OUTPUT_RATIO, MEAN_ERROR = "signal to noise (dB)", "mean squared error"
"""The names of the figures of an output."""


FIGURE_NAMES = (
    *(OUTPUT_RATIO, MEAN_ERROR, AGREEMENT, *map(_top, TOP_RANKS), MEAN_IOU, IOU_OF_CLASS),
    *(PRECISION, PRECISION_AGAINST_FLOAT),
)
"""The names of all figures, apart from those of a user's metric."""


class Closeness:
    """
    The signal-to-noise ratio and the mean squared error of each graph output, relative to the float
    network.
    """

    def __init__(self, names: Iterable[str], quantities: Mapping[str, Quantities] | None = None):
        known = quantities or {}
        self.noise = {name: OutputNoise(known.get(name)) for name in names}
        self._powers = {name: array("d") for name in self.noise}

        self._error = {name: Shares() for name in self.noise}

    def add(self, real: Outputs, quantized: Outputs) -> None:
        for name, noise in self.noise.items():
            for exact, found in zip(real[name], quantized[name], strict=True):
                power = noise.add(exact, found)
                self._powers[name].append(power)
                self._error[name].add(power, max(exact.size, 1))

    def ratio(self) -> float:
        """
        Return the signal-to-noise ratio over all graph outputs in dB; NaN if no output varies.
        """
        return decibels(1.0, mean_share(noise.share for noise in self.noise.values()))

    def merge(self, following: Self) -> None:
        for name in self.noise:
            self.noise[name].merge(following.noise[name])
            self._powers[name].extend(following._powers[name])
            self._error[name].merge(following._error[name])

    def figures(self) -> list[Figure]:
        found: list[Figure] = []
        for name, noise in self.noise.items():
            prefix = f"{name}: " if len(self.noise) > 1 else ""
            ratio = _in_decibels(noise.ratio, np.array(self._powers[name]))
            found.append(Figure(f"{prefix}{OUTPUT_RATIO}", ratio))
            found.append(Figure(f"{prefix}{MEAN_ERROR}", self._error[name].reading()))
        return found


def _in_decibels(ratio: float, powers: NDArray[np.float64]) -> Reading:
    # For a selection of samples, the signal remains that of all samples, and the noise changes.
    mean = float(powers.mean())

    def read(chosen: Chosen) -> float:
        return ratio + decibels(mean, float(powers[chosen].mean())) if mean > 0 else ratio

    return read


TOPK, SEGMENTATION, DETECTION = "topk", "segmentation", "detection"
METRIC_NAMES = (TOPK, SEGMENTATION, DETECTION)


@dataclass(frozen=True)
class Judgement:
    """
    The choice of a metric that compares outputs, in addition to the signal-to-noise ratio, and the
    labels. `start` creates the metric.
    """

    name: str | None = None
    """
    The name of a metric of `--metric`; `None` for a function of the user, or if the shapes decide.
    """
    labels: Array | CocoLabels | None = None
    function: MetricFunction | None = None
    size: tuple[int, int] = (0, 0)
    """Height and width of an image input."""
    function_name: str = "metric"
    """The user's spelling of the function."""

    def first(self, count: int) -> "Judgement":
        """Return this judgement with the labels of the first `count` samples."""
        return self.part(0, count)

    def part(self, first: int, count: int) -> "Judgement":
        """
        Return a copy with the labels of `count` samples from index `first` on. Labels of boxes
        (COCO) remain complete; they are selected when all samples are known.
        """
        labels = self.labels
        kept = labels[first : first + count] if isinstance(labels, np.ndarray) else labels
        return replace(self, labels=kept)

    def with_labels(self, labels: NDArray[np.integer]) -> "Judgement":
        """Return a copy with `labels`, which were stored together with the samples."""
        return replace(self, labels=labels)

    def start(self, outputs: Mapping[str, Array]) -> Metric:
        """Return a new metric that fits the names and shapes of `outputs`."""
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
    """
    Compares the outputs of the quantized network with the outputs of the float network (`real`), a
    sample at a time.
    """

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
        """Return the signal-to-noise ratio over all graph outputs in dB."""
        return self._closeness.ratio()

    def merge(self, following: "Judge") -> None:
        """Add the results of `following`, a judge of the samples that follow."""
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
        """
        Return the state for pickling without the function of the user, which cannot always be
        pickled.
        """
        return {**self.__dict__, "_judgement": Judgement()}

    def figures(self) -> list[Figure]:
        return [figure for metric in self._metrics for figure in metric.figures()]


def judgement_of(
    metric: str | MetricFunction | None,
    labels: str | None,
    inputs: str,
    count: int,
    network: list[TensorInfo],
) -> Judgement:
    """
    Return the judgement for the options `--metric` and `--labels`. `labels` is a file with labels
    of the `count` samples in `inputs`; `network` has the inputs of the network.
    """
    if metric is not None and (not isinstance(metric, str) or metric not in METRIC_NAMES):
        if isinstance(metric, str) and ":" not in metric:
            raise UsageError(
                f"--metric must be {', '.join(METRIC_NAMES)}, FILE.py:FUNCTION or MODULE:FUNCTION, "
                f"got {metric}{did_you_mean(metric, METRIC_NAMES)}"
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
    size = image_size([tensor.shape for tensor in network])
    if size is None:
        raise UsageError("--metric detection requires a network with a single image input")
    judgement = Judgement(DETECTION, None, None, size)
    if labels is None:
        return judgement
    boxes = CocoLabels(labels)
    if is_images(inputs):
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
