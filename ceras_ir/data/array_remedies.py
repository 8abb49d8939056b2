"""
Propose code that corrects an array of samples: the name, the shape, the layout or the type.

A proposal is made only if the result is an array that the network accepts.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import prod

import numpy as np

from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.network.sample_shapes import sample_shape

LAYOUTS: dict[tuple[int, ...], str] = {(0, 3, 1, 2): "NHWC", (0, 2, 3, 1): "NCHW"}
"""Permutations of the axes of images, with the layout of the array before the permutation."""

MAX_PERMUTED_AXES = 5
"""The largest number of axes for which permutations are tried."""


def saving(path: str, name: str, array: str) -> str:
    """
    Return Python code that stores the expression `array` as the array `name` in the file `path`.
    """
    keyword = f"{name}={array}" if name.isidentifier() else f"**{{'{name}': {array}}}"
    return f"np.savez('{path}', {keyword})"


def shape_remedy(given: Sequence[int], shape: Sequence[int]) -> str:
    """
    Return the end of an error message about an array of the shape `given` for an input of `shape`:
    Python code that gives the array an accepted shape, or "" if that is impossible.
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
    return ""


def size_remedy(shape: Sequence[int]) -> str:
    """
    Return the end of an error message about an array with another number of elements than samples
    for an input of `shape`.
    """
    count = prod(sample_shape(shape))
    return f"; each sample needs {count} elements: convert the data to this shape"


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
