"""The border of a model: its inputs with every dimension known, in float32."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import onnx

from ceras_ir.diagnostics import Finding, InputError, UnsupportedError
from ceras_ir.frontends.onnx.tensors import MAX_ELEMENTS, text, type_name

BORDER = "graph input"
"""What stands for the operator in diagnostics about inputs."""


@dataclass(frozen=True)
class ModelInput:
    """A network argument."""

    name: str
    shape: tuple[int, ...]


def read_inputs(graph: onnx.GraphProto, batch: int) -> Sequence[ModelInput]:
    """The inputs of `graph` that are no initializers, with `batch` for the open first dimension."""
    initializers = {text(tensor.name) for tensor in graph.initializer}
    given = [value for value in graph.input if value.name not in initializers]
    names = [text(value.name) for value in given]
    if len(set(names)) != len(names):
        raise InputError("two inputs of the same name")
    # One symbol is one number: where it is the batch of one input it is so everywhere.
    symbols = {text(dims[0].dim_param) for v in given if (dims := v.type.tensor_type.shape.dim)} - {
        ""
    }
    refused: list[Finding] = []
    inputs: list[ModelInput] = []
    for value in given:
        shape: list[int] = []
        for message in _type_refusals(value):
            refused.append(Finding(value.name, BORDER, message))
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value > 0:
                shape.append(dim.dim_value)
            elif dim.dim_value < 0 and i:
                raise InputError([Finding(value.name, BORDER, f"dimension {i} is {dim.dim_value}")])
            elif i == 0 or dim.dim_param in symbols:
                shape.append(batch)
            else:
                refused.append(Finding(value.name, BORDER, _open(i, text(dim.dim_param))))
        if prod(shape) > MAX_ELEMENTS:
            raise InputError([Finding(value.name, BORDER, f"shape {shape} is too large")])
        inputs.append(ModelInput(value.name, tuple(shape)))
    if refused:
        raise UnsupportedError(refused)
    return inputs


def _type_refusals(value: onnx.ValueInfoProto) -> Sequence[str]:
    if not value.type.HasField("tensor_type"):
        return ["unsupported type: only tensors are taken; export the model without it"]
    tensor = value.type.tensor_type
    found: list[str] = []
    if tensor.elem_type != onnx.TensorProto.FLOAT:
        found.append(
            f"unsupported element type {type_name(tensor.elem_type)}: inputs are float32; "
            "export the float model"
        )
    if not tensor.HasField("shape"):
        found.append("unsupported unknown rank: export the model with a fixed input shape")
    return found


def _open(index: int, symbol: str) -> str:
    name = f" '{symbol}'" if symbol else ""
    flag = f"--dim_param {symbol}" if symbol else "--input_shape"
    return (
        f"unsupported dynamic dimension {index}{name}: only the first may be unknown; fix it with "
        f"`python -m onnxruntime.tools.make_dynamic_shape_fixed {flag} ...`"
    )
