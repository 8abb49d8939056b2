"""
Check the types that a graph declares: no negative dimension, and initializers like their inputs.

A dimension of -1 is accepted as an open dimension, because exporters write it; a note reports it.
"""

import onnx

from ceras_ir.frontends.onnx.signature import BORDER, extent_text
from ceras_ir.frontends.onnx.tensors import text, type_name
from ceras_ir.support.diagnostics import Finding, InputError
from ceras_ir.support.remarks import remark

OPEN = -1
"""The value of `dim_value` that exporters write for an open dimension."""


def check_declarations(graph: onnx.GraphProto) -> None:
    """Raise an InputError with all declarations of inputs and outputs that are wrong."""
    wrong: list[Finding] = []
    for kind, values in ((BORDER, graph.input), ("graph output", graph.output)):
        for value in values:
            wrong += _wrong_dimensions(value, kind)
    for value in graph.input:
        tensor = value.type.tensor_type
        if not value.type.WhichOneof("value") or (
            value.type.HasField("tensor_type") and tensor.elem_type == onnx.TensorProto.UNDEFINED
        ):
            wrong.append(Finding(value.name, BORDER, "the element type is missing"))
        elif any(dim.dim_value == OPEN for dim in tensor.shape.dim):
            shape = [extent_text(dim) for dim in tensor.shape.dim]
            remark(
                f"import: note: input '{text(value.name)}' is declared with dimensions of {OPEN}, "
                f"which are accepted as open: {shape}"
            )
    declared = {text(value.name): value.type.tensor_type for value in graph.input}
    for initializer in graph.initializer:
        if (tensor := declared.get(initializer.name)) is not None:
            wrong += _wrong_initializer(initializer, tensor)
    if wrong:
        raise InputError(wrong)


def _wrong_dimensions(value: onnx.ValueInfoProto, kind: str) -> list[Finding]:
    return [
        Finding(
            text(value.name),
            kind,
            f"dimension {i} is declared as {dim.dim_value}, expected 0 or more, or a name if it "
            "is open",
        )
        for i, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.dim_value < OPEN
    ]


def _wrong_initializer(
    initializer: onnx.TensorProto, declared: onnx.TypeProto.Tensor
) -> list[Finding]:
    messages: list[str] = []
    if declared.elem_type != initializer.data_type:
        messages.append(
            f"is {type_name(initializer.data_type)}, but the input of this name is declared as "
            f"{type_name(declared.elem_type)}"
        )
    dims, shape = declared.shape.dim, list(initializer.dims)
    fits = len(dims) == len(shape) and all(
        dim.dim_value in (0, OPEN, extent) for dim, extent in zip(dims, shape, strict=True)
    )
    if declared.HasField("shape") and not fits:
        listed = [extent_text(dim) for dim in dims]
        messages.append(f"has shape {shape}, but the input of this name is declared with {listed}")
    return [Finding(text(initializer.name), "initializer", message) for message in messages]
