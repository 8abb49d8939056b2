"""
Print the outputs of a network for a reader: the largest elements of a vector, the elements of a
small output, the objects of a detector, or a summary of a large output.

Stored integers with a scale are printed as real values. An extension finds the objects.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.data.samples import Array
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.extensions import find_hook

MAX_RANKS = 5
"""The number of largest elements of a vector that are printed."""

MAX_VALUES = 16
"""The largest number of elements of an output that is printed completely."""

MAX_OBJECTS = 10
"""The largest number of objects of a sample that are printed."""

Doubles: TypeAlias = NDArray[np.float64]


class FoundObject(NamedTuple):
    """An object that a detector finds in an image."""

    category: int
    score: float
    box: tuple[float, float, float, float]
    """Left, top, right and bottom in pixels of the input."""


class ObjectsOfSample(NamedTuple):
    """The objects in an image, by decreasing score."""

    classes: int
    """The number of classes of the detector."""
    objects: list[FoundObject]


class ObjectFinder(ABC):
    """The hook `objects`: an extension that finds objects in the outputs of a detector."""

    @abstractmethod
    def objects(
        self, outputs: Mapping[str, Array], size: tuple[int, int]
    ) -> ObjectsOfSample | None:
        """
        Return the objects in an image of the height and width `size`. Return `None` if `outputs` do
        not belong to a known detector.
        """


class Labels(NamedTuple):
    """The names of the classes of a network, read from the file `path`."""

    names: Sequence[str]
    path: str

    def check(self, outputs: Sequence[TensorInfo], found: Sequence[ObjectsOfSample]) -> None:
        """
        Raise an `InputError` unless the number of names is the size of an output vector, or the
        number of classes of a detector.
        """
        counts = [tensor.size for tensor in outputs if _is_vector(tensor.shape)]
        if len(self.names) not in (*counts, *(each.classes for each in found)):
            shapes = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in outputs)
            raise InputError(
                f"{len(self.names)} labels fit none of the outputs: {shapes}; the file must have "
                "a line per class",
                self.path,
            )


def answers(
    results: Sequence[Mapping[str, Array]],
    outputs: Sequence[TensorInfo],
    names: Sequence[str],
    labels: Labels | None = None,
    size: tuple[int, int] | None = None,
) -> list[str]:
    """
    Return lines that describe the results of samples to a user. `names` has a name for each sample,
    `labels` the names of classes. `size` is the height and width if the input is an image.
    """
    real = [{t.name: _real_values(result[t.name], t) for t in outputs} for result in results]
    classes = _decoded_classes(outputs)
    if classes is not None and labels is None:
        decoded = [_decoded_objects(result, len(classes)) for result in real]
        return _of_objects(decoded, names, classes, "coordinates of the network", ".4g")
    found = [] if size is None else _objects(real, size)
    if labels is not None:
        labels.check(outputs, found)
    words = None if labels is None else labels.names
    if found and size is not None:
        return _of_objects(found, names, words, f"pixels of the {size[0]}x{size[1]} input", ".1f")
    lines: list[str] = []
    for tensor in outputs:
        heading, spell = _form(tensor, words)
        lines.append(f"{tensor.name} {list(tensor.shape)}{heading}")
        lines += [f"  {name}: {spell(r[tensor.name])}" for name, r in zip(names, real, strict=True)]
    return lines


def _decoded_classes(outputs: Sequence[TensorInfo]) -> Sequence[str] | None:
    """
    Return the names of classes if the outputs are boxes that the pass *decode-outputs* computes,
    else `None`.
    """
    named = {tensor.name: tensor for tensor in outputs}
    if list(named) != ["boxes", "scores", "classes", "count"]:
        return None
    shapes = [tensor.shape for tensor in outputs]
    count = shapes[0][:1]
    return named["classes"].labels if shapes == [(*count, 4), count, count, (1,)] else None


def _decoded_objects(result: Mapping[str, Doubles], classes: int) -> ObjectsOfSample:
    categories, scores, boxes = (result[name] for name in ("classes", "scores", "boxes"))
    found = list[FoundObject]()
    for i in range(int(result["count"][0])):
        left, top, right, bottom = boxes[i].tolist()
        box = left, top, right, bottom
        found.append(FoundObject(int(categories[i]), float(scores[i]), box))
    return ObjectsOfSample(classes, found)


def _objects(
    results: Sequence[Mapping[str, Array]], size: tuple[int, int]
) -> list[ObjectsOfSample]:
    """Return the objects of each sample; [] if the network is not a detector."""
    finder = find_hook("objects", ObjectFinder)
    if finder is None:
        return []
    found = [finder().objects(result, size) for result in results]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else []


def _of_objects(
    found: Sequence[ObjectsOfSample],
    names: Sequence[str],
    labels: Sequence[str] | None,
    unit: str,
    form: str,
) -> list[str]:
    lines = [f"objects: left, top, right, bottom in {unit}"]
    for name, (_, objects) in zip(names, found, strict=True):
        lines.append(f"  {name}: {len(objects)} objects")
        for each in objects[:MAX_OBJECTS]:
            box = ", ".join(f"{edge:{form}}" for edge in each.box)
            word = labels[each.category] if labels else each.category
            lines.append(f"    {word} ({each.score:.4g}): {box}")
        if (others := len(objects) - MAX_OBJECTS) > 0:
            lines.append(f"    {others} more objects")
    return lines


def _form(tensor: TensorInfo, labels: Sequence[str] | None) -> tuple[str, Callable[[Doubles], str]]:
    """
    Return two parts of the text about an output: the end of the heading, and a function that prints
    the elements.
    """
    has_labels = labels is not None and len(labels) == tensor.size
    if _is_vector(tensor.shape) and (has_labels or tensor.size > MAX_RANKS):
        words = labels if has_labels and labels is not None else list(map(str, range(tensor.size)))
        count = min(MAX_RANKS, tensor.size)
        return f": the {count} largest of {tensor.size}", lambda values: _ranked(values, words)
    if tensor.size <= MAX_VALUES:
        return "", lambda values: ", ".join(_value(v, tensor) for v in values.flat)
    return "", _summary


def _is_vector(shape: tuple[int, ...]) -> bool:
    return len(shape) in (1, 2) and shape[:-1] in ((), (1,)) and shape[-1] > 1


def _real_values(array: Array, tensor: TensorInfo) -> Doubles:
    values = array.astype(np.float64)
    return values if tensor.scale is None else tensor.scale * (values - tensor.zero_point)


def _ranked(values: Doubles, words: Sequence[str]) -> str:
    flat = values.ravel()
    # Of equal elements the first is first, and NaN is last.
    best = np.argsort(-flat, kind="stable")[:MAX_RANKS]
    return ", ".join(f"{words[i]} ({flat[i]:.4g})" for i in best)


def _value(value: float, tensor: TensorInfo) -> str:
    if tensor.scale is not None or tensor.dtype.startswith("float"):
        return f"{value:.4g}"
    number = int(value)
    return tensor.labels[number] if 0 <= number < len(tensor.labels) else str(number)


def _summary(values: Doubles) -> str:
    return f"minimum {values.min():.4g}, maximum {values.max():.4g}, mean {values.mean():.4g}"
