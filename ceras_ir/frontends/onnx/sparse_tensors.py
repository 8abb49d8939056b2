"""
Convert `SparseTensorProto`, in which ONNX stores pruned weights, to dense numpy arrays.

All elements without an index are 0. The C target finds the zeros again and chooses an encoding for
each layer. Errors are `ValueError`s, to which the caller adds the node.
"""

import numpy as np
import onnx
from numpy.typing import NDArray

from ceras_ir.frontends.onnx.model_file import DataFolder
from ceras_ir.frontends.onnx.tensors import (
    Array,
    bounded_shape,
    element_type,
    tensor_array,
    tensor_shape,
    type_name,
)


def sparse_shape(sparse: onnx.SparseTensorProto) -> tuple[int, ...]:
    """Return the shape of the dense tensor."""
    if not sparse.dims:
        raise ValueError("the shape of a sparse tensor is missing")
    return bounded_shape(sparse.dims)


def sparse_array(sparse: onnx.SparseTensorProto, folder: DataFolder | None) -> Array:
    """
    Return the dense tensor in the type of the stored values.

    Indices are int64, in ascending order and without duplicates: linear indices of shape [N], or
    coordinates of shape [N, rank], for N values.
    """
    shape = sparse_shape(sparse)
    count = tensor_shape(sparse.values)
    if len(count) != 1:
        raise ValueError(f"sparse values of shape {list(count)}, expected a list")
    places = _linear_indices(sparse.indices, shape, count[0], folder)
    dtype = element_type(sparse.values.data_type)
    assert dtype is not None
    result = np.zeros(shape, dtype)
    result.reshape(-1)[places] = tensor_array(sparse.values, folder)
    return result


def _linear_indices(
    indices: onnx.TensorProto, shape: tuple[int, ...], count: int, folder: DataFolder | None
) -> NDArray[np.int64]:
    if not count and not indices.data_type:
        return np.zeros(0, np.int64)
    if indices.data_type != onnx.TensorProto.INT64:
        raise ValueError(f"sparse indices are {type_name(indices.data_type)}, expected int64")
    given = tensor_shape(indices)
    if given not in ((count,), (count, len(shape))):
        raise ValueError(
            f"sparse indices of shape {list(given)}, expected [{count}] or [{count}, {len(shape)}]"
        )
    array = tensor_array(indices, folder).astype(np.int64)
    # A coordinate beyond its extent could have a linear index inside the tensor.
    extents = np.array([np.prod(shape, dtype=np.int64)] if array.ndim == 1 else shape)
    table = array.reshape(count, -1) if count else array.reshape(0, len(extents))
    if (outside := ((table < 0) | (table >= extents)).any(axis=1)).any():
        first = int(np.argmax(outside))
        raise ValueError(
            f"sparse index {table[first].tolist()} is outside the tensor of shape {list(shape)}"
        )
    places = array if array.ndim == 1 else np.ravel_multi_index(tuple(table.T), shape)
    if (unordered := np.diff(places) <= 0).any():
        first = int(np.argmax(unordered)) + 1
        raise ValueError(
            f"sparse index {table[first].tolist()} is not above the index before it; indices must "
            "be in ascending order without duplicates"
        )
    return places.astype(np.int64)
