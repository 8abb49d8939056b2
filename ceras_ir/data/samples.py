"""Load the samples of a network from `.npz` files: an array per input, samples along axis 0."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.array_archive import Array, load_arrays
from ceras_ir.data.array_remedies import saving, shape_remedy, size_remedy, type_remedy
from ceras_ir.network.artefacts import TensorInfo, network_inputs
from ceras_ir.network.function import main_function
from ceras_ir.network.sample_shapes import SampleShapeError, array_shape, fits
from ceras_ir.support.diagnostics import InputError, did_you_mean

CONSTANT_INPUT_REMEDY = "; if it is a constant, --set NAME=NUMBER fixes it when the model is read"
"""The remedy for graph inputs that the caller does not know."""


@dataclass(frozen=True)
class Samples:
    """The inputs of several inferences (samples), in memory."""

    arrays: Mapping[str, Array]
    """Arrays by input name, [N, *shape of the input]."""
    count: int
    batched: bool = True
    """
    Whether the file has an axis of samples. If it is a single sample without this axis, results are
    written without it, too.
    """

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Array]:
        return {name: array[index] for name, array in self.arrays.items()}

    def first(self, limit: int | None) -> "Samples":
        """Return only the first `limit` samples, or all if `limit` is `None`."""
        count = self.count if limit is None else min(limit, self.count)
        return Samples({k: v[:count] for k, v in self.arrays.items()}, count, self.batched)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        return (self[i] for i in range(self.count))


def load_samples(path: str, network: ModuleOp | Sequence[TensorInfo]) -> Samples:
    """
    Return the samples in the `.npz` file `path`. `network` is a module or the list of the inputs.
    Raise an `InputError` if names, shapes or types do not match the inputs.
    """
    inputs = network_inputs(main_function(network)) if isinstance(network, ModuleOp) else network
    return samples_of(load_arrays(path, inputs[0].name if inputs else "NAME"), inputs, path)


def samples_of(arrays: Mapping[str, Array], inputs: Sequence[TensorInfo], path: str) -> Samples:
    """
    Return the samples in `arrays` (by input name) for a network with `inputs`. Raise an
    `InputError` that names the file `path` if names, shapes or types do not match.
    """
    names = [tensor.name for tensor in inputs]
    # An array without elements is no input.
    if unknown := sorted(k for k, array in arrays.items() if k not in names and array.size):
        known = ", ".join(names) or "no inputs left"
        remedy = did_you_mean(unknown[0], names) + _renaming(unknown[0], arrays, inputs, path)
        raise InputError(f"no input is named '{unknown[0]}'; the network has {known}{remedy}", path)
    result: dict[str, Array] = {}
    batched = bool(inputs)
    for tensor in inputs:
        name, shape = tensor.name, tensor.shape
        if name not in arrays:
            found = ", ".join(arrays) or "none"
            # Exporters can turn constants into inputs, such as the means of a normalization.
            add = f": add an array '{name}' of shape {array_shape(shape)}"
            remedy = CONSTANT_INPUT_REMEDY if prod(shape) == 1 and arrays else add
            raise InputError(f"no array for input '{name}'; found {found}{remedy}", path)
        array = _pixels(arrays[name], tensor, path)
        if array.shape == shape:
            result[name], batched = array[None], False
        elif shape and shape[0] == 1 and array.shape[1:] == shape[1:] and array.ndim:
            result[name] = array[:, None]
        elif array.shape[1:] == shape and array.ndim:
            result[name] = array
        else:
            raise SampleShapeError(
                name,
                array.shape,
                array_shape(shape),
                shape_remedy(array.shape, shape),
                size_remedy(shape),
                type_remedy(array.dtype, tensor),
                path,
            )
        if not is_accepted(array.dtype, np.dtype(tensor.dtype)):
            raise InputError(
                f"array '{name}' has type {array.dtype}, expected {tensor.dtype}"
                f"{type_remedy(array.dtype, tensor)}",
                path,
            )
        result[name] = converted(result[name], tensor, path)
    lengths = {name: len(array) for name, array in result.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"arrays hold different numbers of samples: {lengths}", path)
    count = next(iter(lengths.values()), 1)
    if count == 0:
        raise InputError("the file has no samples", path)
    return Samples(result, count, batched)


def _pixels(array: Array, tensor: TensorInfo, path: str) -> Array:
    """
    Return samples of an input of camera images as stored bytes: float samples become pixels, and
    16-bit frames are split into bytes. Other arrays are unchanged. [N, 1, ...] is accepted for
    [N, ...].
    """
    if tensor.pixels is None:
        return array
    if array.ndim == 5 and array.shape[1] == 1:
        array = array[:, 0]
    frame = tensor.pixels.frame
    if frame is not None and (words := frame.of_words(array)) is not None:
        return words
    if array.dtype.kind != "f" or array.ndim != 4:
        return array
    try:
        return tensor.pixels.of_floats(array)
    except ValueError as error:
        raise InputError(
            f"array '{tensor.name}' has {error}: use raw uint8 pixels of shape "
            f"{array_shape(tensor.shape)}, or floats (pixel / scale - mean) / std as the options "
            "--image-scale, --image-mean and --image-std specify them",
            path,
        ) from None


def _renaming(
    name: str, arrays: Mapping[str, Array], inputs: Sequence[TensorInfo], path: str
) -> str:
    """
    Return the end of an error message about the unknown array `name`: code that renames it, if both
    the file and the network have a single array; otherwise the arrays that are missing.
    """
    missing = [tensor for tensor in inputs if tensor.name not in arrays]
    if len(arrays) == len(inputs) == 1 and fits(arrays[name].shape, missing[0].shape):
        code = saving(path, missing[0].name, f"np.load('{path}')['{name}']")
        return f": rename it: {code}"
    shapes = [f"'{tensor.name}' of shape {array_shape(tensor.shape)}" for tensor in missing]
    return f": rename or remove the array{''.join(f'; missing: {each}' for each in shapes)}"


def is_accepted(given: np.dtype[np.generic], expected: np.dtype[np.generic]) -> bool:
    """
    Return whether samples of type `given` may be converted to an input of type `expected`: integers
    to floats, or a type to a narrower type of the same kind, but not floats to integers.
    """
    return given.kind in "biuf" and np.can_cast(given, expected, "same_kind")


def converted(array: Array, tensor: TensorInfo, path: str) -> Array:
    """
    Return `array` in the type of the input `tensor`. Raise an `InputError` that names the file
    `path` if an integer would change, or if a float would become infinite.
    """
    dtype = np.dtype(tensor.dtype)
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    if dtype.kind == "f":
        lost = array[np.isinf(result) & np.isfinite(array)]
    else:
        lost = array[result != array]
    if lost.size:
        raise InputError(f"array '{tensor.name}' has {lost[0]}, which {dtype} cannot hold", path)
    return result


def require_finite(
    samples: Iterable[Mapping[str, Array]],
    path: str,
    first: int = 0,
    nullable: Collection[str] = (),
) -> None:
    """
    Raise an `InputError` that names the file `path` for a sample with NaN or infinite elements.
    `first` is the index of the first sample, for the message. Inputs in `nullable` may have NaN.
    """
    for number, sample in enumerate(samples, first):
        for name, array in sample.items():
            if not is_finite(array, allow_nan=name in nullable):
                raise InputError(
                    f"sample {number} of '{name}' has NaN or infinite elements: remove the sample, "
                    "or replace the elements (np.nan_to_num)",
                    path,
                )


def is_finite(array: Array, *, allow_nan: bool) -> bool:
    """Return whether no element is infinite, and no element is NaN unless `allow_nan`."""
    return not (np.isinf(array) if allow_nan else ~np.isfinite(array)).any()


def join(results: Sequence[Mapping[str, Array]], *, batched: bool) -> dict[str, Array]:
    """
    Return the results of all samples (outputs by name) as one array per output, with samples along
    axis 0. If not `batched`, there is a single sample, and the arrays are returned unchanged.
    """
    joined: dict[str, Array] = {}
    for name, first in results[0].items():
        parts = [result[name] for result in results]
        if not batched:
            joined[name] = first
        elif first.ndim and first.shape[0] == 1:
            joined[name] = np.concatenate(parts)
        else:
            joined[name] = np.stack(parts)
    return joined


def as_samples(result: Mapping[str, Array], *, batched: bool) -> dict[str, Array]:
    """
    Return the result of a single sample as `join` returns it for one sample, but always with an
    axis of samples. With `batched`, a first axis of extent 1 is that axis; otherwise a new axis is
    added.
    """
    return {
        name: array if batched and array.ndim and array.shape[0] == 1 else array[None]
        for name, array in result.items()
    }


def as_declared(arrays: Mapping[str, Array], outputs: Sequence[TensorInfo]) -> dict[str, Array]:
    """
    Return the results in the element types that the model declares for `outputs`, such as float16.
    A value beyond their range becomes infinite.
    """
    types = {tensor.name: tensor.model_dtype for tensor in outputs}
    with np.errstate(over="ignore"):  # A value beyond the range of float16 becomes infinite.
        return {
            name: array if (other := types.get(name)) is None else array.astype(other)
            for name, array in arrays.items()
        }
