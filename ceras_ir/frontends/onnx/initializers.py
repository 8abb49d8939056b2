"""
Constants of a model: dense and sparse tensors, of which elements are loaded when they are needed.

Shapes and element types are checked at once, so that wrong models are refused before any work.
"""

from collections.abc import Sequence

import numpy as np
import onnx

from ceras_ir.frontends.onnx.model_file import DataFolder
from ceras_ir.frontends.onnx.sparse_tensors import sparse_array, sparse_shape
from ceras_ir.frontends.onnx.tensors import (
    Array,
    element_type,
    initializer_names,
    string_array,
    tensor_array,
    tensor_shape,
    type_name,
)
from ceras_ir.frontends.onnx.values import Constant
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError

NUMBERS = "floats of 16 to 64 bits, integers of 8 to 64 bits and booleans are read"


def initializers(
    graph: onnx.GraphProto, folder: DataFolder | None, scope: Sequence[str], refused: list[Finding]
) -> dict[str, Constant]:
    """
    Return the initializers of `graph` by name; unsupported element types are added to `refused`.

    `scope` distinguishes equal names in different subgraphs.
    """
    values: dict[str, Constant] = {}
    tensors = (*graph.initializer, *graph.sparse_initializer)
    for name, tensor in zip(initializer_names(graph), tensors, strict=True):
        if name in values:
            raise InputError(f"two initializers are called '{name}'")
        try:
            values[name] = constant_of(tensor, name, folder, scope)
        except UnsupportedError as error:
            refused += error.findings
            values[name] = Constant.of(name, np.zeros(1, np.float32))
    return values


def constant_of(
    tensor: onnx.TensorProto | onnx.SparseTensorProto,
    name: str,
    folder: DataFolder | None,
    scope: Sequence[str],
) -> Constant:
    """Return `tensor` as a constant; InputError if the declaration or the data is wrong."""

    def load() -> Array:
        try:
            if isinstance(tensor, onnx.SparseTensorProto):
                return sparse_array(tensor, folder)
            return tensor_array(tensor, folder)
        except ValueError as e:
            raise InputError([Finding(name, "initializer", str(e))]) from None
        except OSError as e:
            message = f"cannot read external data: {e.strerror or e}"
            raise InputError([Finding(name, "initializer", message)]) from None

    try:
        if isinstance(tensor, onnx.SparseTensorProto):
            shape, data_type = sparse_shape(tensor), tensor.values.data_type
        elif tensor.data_type == onnx.TensorProto.STRING:
            return Constant.of(name, string_array(tensor))
        else:
            shape, data_type = tensor_shape(tensor), tensor.data_type
    except ValueError as e:
        raise InputError([Finding(name, "initializer", str(e))]) from None
    values = tensor.values if isinstance(tensor, onnx.SparseTensorProto) else tensor
    if values.HasField("segment"):
        message = (
            "unsupported segment of a tensor that is stored in parts; store it as a single tensor"
        )
        raise UnsupportedError([Finding(name, "initializer", message)])
    if data_type == onnx.TensorProto.UNDEFINED:
        raise InputError([Finding(name, "initializer", "the element type is missing")])
    if (dtype := element_type(data_type)) is None:
        message = (
            f"unsupported element type {type_name(data_type)}; {NUMBERS}: export with float32 or "
            "int8"
        )
        raise UnsupportedError([Finding(name, "initializer", message)])
    return Constant(name, shape, dtype, load, (*scope, name))
