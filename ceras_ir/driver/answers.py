"""
Print the outputs of a network for a reader: the largest elements of a vector, the elements of a
small output, or a summary of a large output.

Stored integers with a scale are printed as real values.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ceras_ir.data.samples import Array
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError, missing_file_remedy

MAX_RANKS = 5
"""The number of largest elements of a vector that are printed."""

MAX_VALUES = 16
"""The largest number of elements of an output that is printed completely."""

Doubles: TypeAlias = NDArray[np.float64]


def read_labels(path: str) -> list[str]:
    """Return the names of classes in a text file with a line per class."""
    try:
        with open(path, encoding="utf-8") as stream:
            labels = [line.strip() for line in stream]
    except FileNotFoundError:
        raise InputError(f"no such file{missing_file_remedy(path)}", path) from None
    except UnicodeDecodeError:
        raise InputError(
            "not a text file in UTF-8: give a file with a line per class", path
        ) from None
    while labels and not labels[-1]:
        labels.pop()
    return labels


def check_labels(labels: Sequence[str], outputs: Sequence[TensorInfo], path: str) -> None:
    """Refuse labels whose number is not the number of elements of an output vector."""
    if not any(_is_vector(tensor.shape) and tensor.size == len(labels) for tensor in outputs):
        shapes = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in outputs)
        raise InputError(
            f"{len(labels)} labels fit none of the outputs: {shapes}; the file must have a line "
            "per class",
            path,
        )


def answers(
    results: Sequence[Mapping[str, Array]],
    outputs: Sequence[TensorInfo],
    names: Sequence[str],
    labels: Sequence[str] | None = None,
) -> list[str]:
    """Return the lines about the results of samples with these names."""
    lines: list[str] = []
    for tensor in outputs:
        heading, spell = _form(tensor, labels)
        lines.append(f"{tensor.name} {list(tensor.shape)}{heading}")
        for name, result in zip(names, results, strict=True):
            lines.append(f"  {name}: {spell(_real_values(result[tensor.name], tensor))}")
    return lines


def _form(tensor: TensorInfo, labels: Sequence[str] | None) -> tuple[str, Callable[[Doubles], str]]:
    """Return the end of the heading of an output, and the function that prints the elements."""
    has_labels = labels is not None and len(labels) == tensor.size
    if _is_vector(tensor.shape) and (has_labels or tensor.size > MAX_RANKS):
        words = labels if has_labels and labels is not None else list(map(str, range(tensor.size)))
        count = min(MAX_RANKS, tensor.size)
        return f": the {count} largest of {tensor.size}", lambda values: _ranked(values, words)
    if tensor.size <= MAX_VALUES:
        return "", lambda values: ", ".join(_value(v, tensor.labels) for v in values.flat)
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


def _value(value: float, labels: Sequence[str]) -> str:
    if labels and value.is_integer() and 0 <= value < len(labels):
        return labels[int(value)]
    return f"{value:.4g}"


def _summary(values: Doubles) -> str:
    return f"minimum {values.min():.4g}, maximum {values.max():.4g}, mean {values.mean():.4g}"
