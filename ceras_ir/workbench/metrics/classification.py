"""
Judge classes of samples or pixels, and the signal-to-noise ratio of outputs.

The figures are the agreement with the float network and, with labels, top-1 and top-5 or the
intersection over union. Outputs of shape [1, classes] are classifications; with labels [N, H, W] an
output [1, classes, H, W] or [1, H, W, classes] is a segmentation. A single channel separates class
1 from class 0: above 0.5 if all elements of the float network are between 0 and 1, as
probabilities, else above 0.
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.quantization.analysis.output_noise import (
    OutputNoise,
    Quantities,
    decibels,
    mean_share,
)
from ceras_ir.workbench.metrics.figures import Chosen, Figure, Outputs, Reading, Shares, mean_of

Labels = NDArray[np.integer]

TOP_RANKS = (1, 5)
"""A label is correct if it is among this number of the highest scores."""


class Classification:
    """All outputs that are classes, by their shape and the shape of the labels."""

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
        for mine, others in pairs:
            for shares, other in zip(mine, others, strict=True):
                shares.merge(other)

    def figures(self) -> list[Figure]:
        bound = self._bounds[0] if self._is_probability else self._bounds[-1]
        found = [Figure(f"{self.prefix}agreement", self._agreement[bound].reading())]
        for best, (real, quantized) in self._top.items():
            name = f"{self.prefix}top-{best}"
            found.append(Figure(name, quantized.reading(), real.reading()))
        if self._overlaps and self._present:
            overlaps = {c: self._overlaps[bound][c] for c in sorted(self._present)}
            each = {c: (r.reading(), q.reading()) for c, (r, q) in overlaps.items()}
            for c, (real, quantized) in each.items():
                found.append(Figure(f"{self.prefix}IoU of class {c}", quantized, real))
            means = [mean_of([pair[i] for pair in each.values()]) for i in (0, 1)]
            found.append(Figure(f"{self.prefix}mean IoU", means[1], means[0]))
        return found


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


class Closeness:
    """The signal-to-noise ratio and the mean squared error of each output."""

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
        """Return the signal-to-noise ratio of all outputs in decibels; NaN for constant outputs."""
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
            found.append(Figure(f"{prefix}signal to noise (dB)", ratio))
            found.append(Figure(f"{prefix}mean squared error", self._error[name].reading()))
        return found


def _in_decibels(ratio: float, powers: NDArray[np.float64]) -> Reading:
    # For a selection of samples, the signal remains that of all samples, and the noise changes.
    mean = float(powers.mean())

    def read(chosen: Chosen) -> float:
        return ratio + decibels(mean, float(powers[chosen].mean())) if mean > 0 else ratio

    return read
