"""
Propose code that corrects an array of samples: the name, the shape, the layout or the type.

A proposal is made only if the result is an array that the network accepts.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import prod

import numpy as np

from ceras_ir.network.artefacts import TensorInfo

LAYOUTS: dict[tuple[int, ...], str] = {(0, 3, 1, 2): "NHWC", (0, 2, 3, 1): "NCHW"}
"""Permutations of the axes of images, with the layout of the array before the permutation."""

MAX_PERMUTED_AXES = 5
"""The largest number of axes for which permutations are tried."""


def sample_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """
    Return the shape of a single sample in an array for an input of `shape`: without a first axis of
    extent 1. (1, 28, 28) and (28, 28) -> (28, 28).
    """
    return tuple(shape[1:] if shape and shape[0] == 1 else shape)


def array_shape(shape: Sequence[int]) -> str:
    """
    Return, as text, the shape of an array with `N` samples for an input of `shape`: `[N, 28, 28]`
    for (1, 28, 28).
    """
    return f"[{', '.join(['N', *map(str, sample_shape(shape))])}]"


def fits(given: Sequence[int], shape: Sequence[int]) -> bool:
    """
    Return whether an array of the shape `given` holds samples, along axis 0, of an input of
    `shape`.
    """
    return tuple(given[1:]) == sample_shape(shape) and len(given) > 0


def saving(path: str, name: str, array: str) -> str:
    """
    Return Python code that stores the expression `array` as the array `name` in the file `path`.
    """
    keyword = f"{name}={array}" if name.isidentifier() else f"**{{'{name}': {array}}}"
    return f"np.savez('{path}', {keyword})"


def shape_remedy(given: Sequence[int], shape: Sequence[int]) -> str:
    """
    Return the end of an error message about an array of the shape `given` for an input of `shape`:
    Python code that gives the array an accepted shape, if that is possible, or the number of
    elements that is required.
    """
    sample = sample_shape(shape)
    for axes in _orders(len(given)):
        if tuple(given[i] for i in axes[1:]) == sample:
            known = LAYOUTS.get(axes)
            what = f"the data is {known}, transpose it" if known else "transpose the array"
            return f"; {what}: array.transpose{axes}"
    if tuple(given) == sample:
        return "; add an axis for the samples: array[None]"
    for axes in permutations(range(len(given))) if len(given) <= MAX_PERMUTED_AXES else ():
        if tuple(given[i] for i in axes) == sample:
            return f"; add an axis for the samples: array.transpose{axes}[None]"
    if prod(sample) and prod(sample) in (prod(given), prod(given[1:])):
        extents = ", ".join(map(str, (-1, *sample)))
        return f"; change the axes of the samples: array.reshape({extents})"
    return f"; each sample needs {prod(sample)} elements: convert the data to this shape"


def _orders(rank: int) -> Iterator[tuple[int, ...]]:
    """Yield the orders of `rank` axes that keep axis 0 first, common layouts of images first."""
    yield from (axes for axes in LAYOUTS if len(axes) == rank)
    if rank <= MAX_PERMUTED_AXES:
        yield from ((0, *axes) for axes in permutations(range(1, rank)))


def type_remedy(given: np.dtype[np.generic], tensor: TensorInfo) -> str:
    """
    Return the end of an error message about floats (`given`) for an input of integers, `tensor`:
    code that converts them. Return "" in all other cases.
    """
    if given.kind != "f" or np.dtype(tensor.dtype).kind not in "iu" or tensor.pixels is not None:
        return ""
    if tensor.scale is not None:
        limits = np.iinfo(tensor.dtype)
        return (
            f"; the input '{tensor.name}' takes stored integers: np.clip(np.rint(array / "
            f"{tensor.scale:.9g}) + {tensor.zero_point}, {limits.min}, {limits.max})"
            f".astype('{tensor.dtype}')"
        )
    if tensor.dtype == "uint8":
        return (
            f"; the input '{tensor.name}' takes raw pixels, integers from 0 to 255 that are not "
            "scaled: array.astype('uint8')"
        )
    return f"; the input '{tensor.name}' takes integers: array.astype('{tensor.dtype}')"
