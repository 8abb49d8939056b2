"""
Read the interface of a model: inputs with known dimensions, and the types of inputs and outputs.

Declarations are checked: no negative dimension, and initializers that match their inputs. A
dimension of -1 is accepted as an open dimension, because exporters write it; a note reports it.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import onnx
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, f32
from xdsl.ir import Attribute, SSAValue

from ceras_ir.dialects.graph import numpy_dtype, plain_element, tensor_type
from ceras_ir.frontends.onnx.model.functions import all_nodes
from ceras_ir.frontends.onnx.model.model_file import (
    MAX_TENSOR_ELEMENTS,
    TENSOR_DTYPES,
    initializer_names,
    text,
    type_name,
)
from ceras_ir.frontends.onnx.model.node import DATA
from ceras_ir.network.function import LABELS, MODEL_TYPE, NAME
from ceras_ir.network.lengths import UpTo
from ceras_ir.support.diagnostics import Finding, InputError, did_you_mean, remark

GRAPH_INPUT = "graph input"
"""The operator in diagnostics about inputs."""

DYNAMIC_DIMENSION = "unsupported dynamic dimension"
"""The prefix of findings about open dimensions; `remedies.py` adds the option."""

UNKNOWN = "?"
"""The text of an open dimension without a name."""

ELEMENT_TYPES: dict[int, Attribute] = {
    data_type: element
    for data_type, dtype in TENSOR_DTYPES.items()
    if (element := f32 if dtype.kind == "f" else plain_element(dtype)) is not None
}
"""Element types of values: floats of any width are float32; integers and booleans."""

OTHER_FLOATS: dict[int, str] = {
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.DOUBLE: "float64",
}
"""Float types of inputs and outputs that array files keep."""


def interface_attributes(value: onnx.ValueInfoProto, labels: Sequence[str] = ()) -> DictionaryAttr:
    """
    Return the attributes of a graph input or output in the IR: the name, the type in the model if
    it is a float other than float32, and the texts `labels` that the integers represent.
    """
    entries: dict[str, Attribute] = {NAME: StringAttr(value.name)}
    if labels:
        entries[LABELS] = ArrayAttr([StringAttr(label) for label in labels])
    if other := OTHER_FLOATS.get(value.type.tensor_type.elem_type):
        entries[MODEL_TYPE] = StringAttr(other)
    return DictionaryAttr(entries)


MAX_SET_ELEMENTS, MAX_SET_PAIR = 16, 2
"""
Maximum number of elements of an input that a user may fix on the command line, and of floats in
several dimensions, of which longer rows are usually features.
"""


def origin_of(value: onnx.ValueInfoProto) -> frozenset[str]:
    """
    Return the name of the input `value` if it is small enough for `--set`, otherwise `DATA`. It is
    recorded for each value that depends on the input.
    """
    kind = value.type.tensor_type
    dims = [dim.dim_value for dim in kind.shape.dim]
    # An open first dimension is a batch of 1.
    is_open = any(dim <= 0 for dim in dims[1:])
    is_float = ELEMENT_TYPES.get(kind.elem_type, f32) == f32
    limit = MAX_SET_PAIR if is_float and len(dims) > 1 else MAX_SET_ELEMENTS
    fits = kind.HasField("shape") and not is_open and prod(max(dim, 1) for dim in dims) <= limit
    return frozenset([value.name if fits else DATA])


@dataclass(frozen=True)
class ModelInput:
    name: str
    shape: tuple[int, ...]
    element: Attribute
    attributes: DictionaryAttr


def read_inputs(
    graph: onnx.GraphProto,
    batch: int,
    shapes: Mapping[str, Sequence[int]],
    fixed: Container[str],
    refused: list[Finding],
) -> Sequence[ModelInput]:
    """
    Return the inputs of `graph` that are neither initializers nor `fixed`. `shapes` has shapes by
    name. `batch` is the extent of other open first dimensions. Unsupported inputs are added to
    `refused`.
    """
    initializers = set(initializer_names(graph))
    given = [v for v in graph.input if v.name not in initializers and v.name not in fixed]
    names = [text(value.name) for value in given]
    if len(set(names)) != len(names):
        raise InputError("two inputs of the same name")
    # A symbol that is the batch of an input has the extent of the batch everywhere.
    symbols = {symbol_of(dims[0]) for v in given if (dims := v.type.tensor_type.shape.dim)} - {""}
    if unknown := sorted(name for name in set(shapes) - set(names) if name not in fixed):
        hint = did_you_mean(unknown[0], names) or f"; there are {', '.join(names)}"
        raise InputError(f"no input named '{unknown[0]}' to shape{hint}")
    bound = _bound_symbols(given, shapes)
    inputs: list[ModelInput] = []
    is_taken = batch == 1
    for value in given:
        shape: list[int] = []
        for message in _type_refusals(value):
            refused.append(Finding(value.name, GRAPH_INPUT, message))
        for i, dim in enumerate(value.type.tensor_type.shape.dim):
            if value.name in shapes:
                shape.append(shapes[value.name][i])
                is_taken |= i == 0 and dim.dim_value <= 0 and shape[0] == batch
            elif symbol_of(dim) in bound:
                shape.append(bound[symbol_of(dim)])
                is_taken |= i == 0 and shape[0] == batch
            elif dim.HasField("dim_value") and dim.dim_value >= 0:
                shape.append(dim.dim_value)
            elif i == 0 or symbol_of(dim) in symbols:
                shape.append(batch)
                is_taken = True
            else:
                symbol = f" '{text(dim.dim_param)}'" if dim.dim_param else ""
                message = f"{DYNAMIC_DIMENSION} {i}{symbol}: only the first may be unknown"
                refused.append(Finding(value.name, GRAPH_INPUT, message))
        if prod(shape) > MAX_TENSOR_ELEMENTS:
            raise InputError([Finding(value.name, GRAPH_INPUT, f"shape {shape} is too large")])
        element = ELEMENT_TYPES.get(value.type.tensor_type.elem_type, f32)
        inputs.append(ModelInput(value.name, tuple(shape), element, interface_attributes(value)))
    if not is_taken:
        raise InputError(f"--batch {batch}: no input has an open batch; omit the option")
    return inputs


def input_shapes(
    graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]
) -> tuple[dict[str, Sequence[int]], dict[str, Sequence[int]]]:
    """
    Return those of `shapes` that are for inputs of `graph`, and those for values that nodes
    compute. Raise an `InputError` for an input with an extent that data decide.
    """
    computed = {text(name) for node in all_nodes(graph.node) for name in node.output if name}
    inner = {name: shape for name, shape in shapes.items() if name in computed}
    given = {name: shape for name, shape in shapes.items() if name not in computed}
    inputs = {value.name for value in graph.input}
    for name, shape in given.items():
        if up_to := [n for n in shape if isinstance(n, UpTo)]:
            if name not in inputs:
                hint = did_you_mean(name, sorted(computed))
                raise InputError(f"no value named '{name}' inside the network{hint}")
            message = (
                f"{up_to[0]} is the maximum of a value inside the network, and '{name}' is an "
                "input; give an extent, or several that start at 1 or more"
            )
            raise InputError([Finding(name, GRAPH_INPUT, message)])
    return given, inner


def check_stated(stated: Iterable[str], confirmed: Container[str]) -> None:
    """Raise an `InputError` for a `stated` shape of a value that no node needed."""
    for name in sorted(name for name in stated if name not in confirmed):
        raise InputError(
            f"--shape {name}: the shape of '{name}' is not decided by data where it is computed; "
            "omit the option, or state the shape of the value on which it depends"
        )


def _bound_symbols(
    given: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    bound: dict[str, int] = {}
    for value in given:
        if (shape := shapes.get(value.name)) is None:
            continue
        dims = value.type.tensor_type.shape.dim
        declared = [extent_text(dim) for dim in dims]
        fits = len(shape) == len(dims) and all(
            dim.dim_value <= 0 or dim.dim_value == extent
            for dim, extent in zip(dims, shape, strict=True)
        )
        for dim, extent in zip(dims, shape, strict=False):
            if symbol := symbol_of(dim):
                fits &= bound.setdefault(symbol, extent) == extent
        if not fits:
            message = f"shape {list(shape)} does not fit the declared {declared}"
            raise InputError([Finding(value.name, GRAPH_INPUT, message)])
    return bound


def symbol_of(dim: onnx.TensorShapeProto.Dimension) -> str:
    """
    Return the symbol of a dimension, such as `batch`, or "". Exporters write a question mark for an
    unknown dimension.
    """
    return "" if dim.dim_param == UNKNOWN else text(dim.dim_param)


def other_type(declared: onnx.ValueInfoProto, result: SSAValue) -> str | None:
    """
    Return text about the difference between the declared and the computed element type of an
    output; `None` if they agree.
    """
    elem_type = declared.type.tensor_type.elem_type
    expected, stored = ELEMENT_TYPES.get(elem_type), numpy_dtype(tensor_type(result).element_type)
    if expected is None or numpy_dtype(expected) == stored:
        return None
    return (
        f"is declared as {type_name(elem_type)}, but the computed type is {stored}; declare it as "
        "that"
    )


def other_shape(
    declared: onnx.ValueInfoProto, result: SSAValue, graph: onnx.GraphProto
) -> str | None:
    """
    Return text about the difference between the declared and the computed shape of an output;
    `None` if they agree. The first dimension is not compared if that of an input is open, because
    exporters then often declare a number.
    """
    kind, shape = declared.type.tensor_type, tensor_type(result).get_shape()
    # ONNX's shape inference, which exporters run, is off by 1 if windows are rounded up.
    rounds_up = any(a.name == "ceil_mode" and a.i for node in graph.node for a in node.attribute)
    if not kind.HasField("shape") or rounds_up:
        return None
    dims = kind.shape.dim
    open_batch = any(
        dims and dims[0].dim_value <= 0
        for dims in (value.type.tensor_type.shape.dim for value in graph.input)
    )
    same = [d.dim_value <= 0 or d.dim_value == n for d, n in zip(dims, shape, strict=False)]
    if len(dims) == len(shape) and all(same[open_batch:]):
        return None
    listed = [extent_text(dim) for dim in dims]
    return f"is declared with shape {listed}, but the computed shape is {list(shape)}"


def _type_refusals(value: onnx.ValueInfoProto) -> Sequence[str]:
    if not value.type.HasField("tensor_type"):
        return ["unsupported type: only tensors are supported; export the model without it"]
    tensor = value.type.tensor_type
    found: list[str] = []
    if tensor.elem_type not in ELEMENT_TYPES:
        remedy = (
            "encode text as numbers in the application, and export the rest of the model"
            if tensor.elem_type == onnx.TensorProto.STRING
            else "export the model in float32"
        )
        found.append(
            f"unsupported element type {type_name(tensor.elem_type)}: inputs are floats, "
            f"integers or booleans; {remedy}"
        )
    if not tensor.HasField("shape"):
        found.append("unsupported unknown rank: export the model with a fixed input shape")
    return found


def extent_text(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    """
    Return the declared extent of a dimension, the symbol, or a question mark if it is open.
    Exporters also write -1 for an open dimension.
    """
    return dim.dim_value if dim.dim_value > 0 else text(dim.dim_param) or UNKNOWN


def declared_empty(graph: onnx.GraphProto, shapes: Container[str]) -> Sequence[Finding]:
    """
    Return findings about inputs that are declared with a dimension of 0, except inputs in `shapes`.
    Exporters write 0 for open dimensions.
    """
    return [
        Finding(
            value.name,
            GRAPH_INPUT,
            f"unsupported dimension {i} of 0, which may cause the findings above; if it is open, "
            "give the shape with --shape",
        )
        for value in graph.input
        for i, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.HasField("dim_value") and not dim.dim_value and value.name not in shapes
    ]


OPEN_EXTENT = -1
"""The value of `dim_value` that exporters write for an open dimension."""


def check_declarations(graph: onnx.GraphProto) -> None:
    """
    Raise an `InputError` with all wrong declarations of inputs and outputs, such as negative
    dimensions.
    """
    wrong = [
        Finding(
            text(value.name),
            kind,
            f"dimension {i} is declared as {dim.dim_value}, expected 0 or more, or a name if it "
            "is open",
        )
        for kind, values in ((GRAPH_INPUT, graph.input), ("graph output", graph.output))
        for value in values
        for i, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.dim_value < OPEN_EXTENT
    ]
    for value in graph.input:
        tensor = value.type.tensor_type
        if not value.type.WhichOneof("value") or (
            value.type.HasField("tensor_type") and tensor.elem_type == onnx.TensorProto.UNDEFINED
        ):
            wrong.append(Finding(value.name, GRAPH_INPUT, "the element type is missing"))
        elif any(dim.dim_value == OPEN_EXTENT for dim in tensor.shape.dim):
            shape = [extent_text(dim) for dim in tensor.shape.dim]
            remark(
                f"import: note: input '{text(value.name)}' is declared with dimensions of "
                f"{OPEN_EXTENT}, which are accepted as open: {shape}"
            )
    declared = {text(value.name): value.type.tensor_type for value in graph.input}
    for initializer in graph.initializer:
        if (tensor := declared.get(initializer.name)) is not None:
            wrong += _wrong_initializer(initializer, tensor)
    if wrong:
        raise InputError(wrong)


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
        dim.dim_value in (0, OPEN_EXTENT, extent) for dim, extent in zip(dims, shape, strict=True)
    )
    if declared.HasField("shape") and not fits:
        listed = [extent_text(dim) for dim in dims]
        messages.append(f"has shape {shape}, but the input of this name is declared with {listed}")
    return [Finding(text(initializer.name), "initializer", message) for message in messages]
