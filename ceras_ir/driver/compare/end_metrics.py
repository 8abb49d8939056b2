"""
What quantization does to the end result: float and quantized outputs by the task's own measure.

Outputs of shape [N, classes] are classifications; with labels [N, H, W] an output [N, classes,
H, W] or [N, H, W, classes] is a segmentation. One channel alone tells class 1 from class 0: where
it is above one half if all of the float network's lie between 0 and 1, as probabilities do, else
where it is above 0. Anything else a Python function measures.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.data.samples import load_arrays
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.transforms.quantization.analysis.output_noise import decibels

Array: TypeAlias = NDArray[np.generic]
Hook: TypeAlias = Callable[[Mapping[str, Array], Array | None], float | Mapping[str, float]]
"""From outputs by name and labels, if there are any, to one number or several with names."""


@dataclass(frozen=True)
class Metric:
    """One number, of the float network where it has one, and of the quantized."""

    name: str
    real: float | None
    quantized: float


def load_labels(path: str, count: int) -> NDArray[np.integer]:
    """The labels in an `.npz` file: its only array, or the one called `labels`."""
    arrays = load_arrays(path)
    name = "labels" if "labels" in arrays else next(iter(arrays), "")
    if name not in arrays or (len(arrays) > 1 and name != "labels"):
        raise InputError(
            f"expected one array, or one named 'labels'; found {', '.join(arrays) or 'none'}", path
        )
    labels = arrays[name]
    if labels.dtype.kind not in "iu" or labels.ndim not in (1, 3):
        raise InputError(
            f"labels must be integers of shape [N] or [N, H, W], got {labels.dtype}"
            f"{list(labels.shape)}",
            path,
        )
    if len(labels) != count:
        raise InputError(f"there are {len(labels)} labels for {count} samples", path)
    return labels.astype(np.int64)


def load_hook(text: str) -> Hook:
    """The function of `FILE.py:function`."""
    path, separator, name = text.rpartition(":")
    if not separator or not path.endswith(".py"):
        raise UsageError(f"--metric must be FILE.py:function, got {text}")
    if not Path(path).is_file():
        raise InputError("no such file", path)
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function: Hook | None = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"has no function '{name}'", path)
    return function


def end_metrics(
    real: Mapping[str, Array],
    quantized: Mapping[str, Array],
    labels: NDArray[np.integer] | None,
    hook: Hook | None,
) -> list[Metric]:
    """All that can be said of these outputs, first axis samples."""
    found: list[Metric] = []
    used = False
    for name, expected in real.items():
        actual = quantized[name]
        prefix = f"{name}: " if len(real) > 1 else ""
        exact = expected.astype(np.float64)
        difference = actual.astype(np.float64) - exact
        noise, signal = float(np.square(difference).sum()), float(np.square(exact).sum())
        found.append(Metric(f"{prefix}signal to noise (dB)", None, decibels(signal, noise)))
        found.append(Metric(f"{prefix}mean squared error", None, noise / max(expected.size, 1)))
        axis = _class_axis(expected, labels)
        if axis is None:
            continue
        classes = [_classes(array, axis, expected) for array in (expected, actual)]
        agreement = float((classes[0] == classes[1]).mean())
        found.append(Metric(f"{prefix}agreement", None, agreement))
        if labels is None or labels.shape != classes[0].shape:
            continue
        used = True
        count = max(expected.shape[axis], 2)
        if labels.ndim == 1:
            found += _ranked(prefix, expected, actual, labels)
        else:
            found += _overlaps(prefix, classes[0], classes[1], labels, count)
    if hook is not None:
        found += _hooked(hook, real, quantized, labels)
    elif labels is not None and not used:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in real.items())
        raise InputError(f"labels of shape {list(labels.shape)} fit none of the outputs: {shapes}")
    return found


def _classes(scores: Array, axis: int, expected: Array) -> NDArray[np.integer]:
    """The class of every sample or pixel; `expected` are the float network's scores."""
    if scores.shape[axis] > 1:
        return scores.argmax(axis)
    real = expected.astype(np.float64)
    bound = 0.5 if real.min(initial=0) >= 0 and real.max(initial=0) <= 1 else 0.0
    return (scores.squeeze(axis).astype(np.float64) > bound).astype(np.int64)


def _class_axis(output: Array, labels: NDArray[np.integer] | None) -> int | None:
    if output.ndim == 2 and output.shape[1] > 1:
        return 1
    if output.ndim == 4 and labels is not None and labels.ndim == 3:
        for axis in (1, 3):
            if output.shape[1:axis] + output.shape[axis + 1 :] == labels.shape[1:]:
                return axis
    return None


def _ranked(
    prefix: str, expected: Array, actual: Array, labels: NDArray[np.integer]
) -> list[Metric]:
    """Share of samples whose label is the best, or among the five best."""
    found: list[Metric] = []
    for best in (1, 5):
        if best < expected.shape[1]:
            shares = [_top(array, labels, best) for array in (expected, actual)]
            found.append(Metric(f"{prefix}top-{best}", shares[0], shares[1]))
    return found


def _top(scores: Array, labels: NDArray[np.integer], best: int) -> float:
    # Stable, so that of equal scores the first class counts, as for argmax.
    order = np.argsort(-scores.astype(np.float64), axis=1, kind="stable")[:, :best]
    return float((order == labels[:, None]).any(axis=1).mean())


def _overlaps(
    prefix: str, expected: Array, actual: Array, labels: NDArray[np.integer], count: int
) -> list[Metric]:
    """Intersection over union of every class that occurs in the labels, and their mean."""
    present = [c for c in range(count) if bool((labels == c).any())]
    # Labels outside the classes (255 by custom) are not judged.
    judged = (labels >= 0) & (labels < count)
    rows: list[tuple[float, float]] = []
    for c in present:
        truth = labels == c
        pair = [
            float((truth & (p == c)).sum() / max(int(((truth | (p == c)) & judged).sum()), 1))
            for p in (expected, actual)
        ]
        rows.append((pair[0], pair[1]))
    found = [
        Metric(f"{prefix}IoU of class {c}", *row) for c, row in zip(present, rows, strict=True)
    ]
    if rows:
        mean = np.mean(rows, axis=0)
        found.append(Metric(f"{prefix}mean IoU", float(mean[0]), float(mean[1])))
    return found


def _hooked(
    hook: Hook,
    real: Mapping[str, Array],
    quantized: Mapping[str, Array],
    labels: Array | None,
) -> list[Metric]:
    named: list[dict[str, float]] = []
    for outputs in (real, quantized):
        value = hook(outputs, labels)
        named.append(dict(value) if isinstance(value, Mapping) else {"metric": float(value)})
    return [Metric(name, named[0].get(name), float(value)) for name, value in named[1].items()]
