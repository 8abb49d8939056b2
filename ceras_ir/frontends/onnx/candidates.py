"""
List values to try for a small input that decides a branch or a size.

The candidates are the constants that the model compares the input with, the declared extents, and a
few small integers.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
import onnx

from ceras_ir.frontends.onnx.tensors import DTYPES, tensor_array, text

COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Mod", "Sub")
"""Operators whose constant operand hints at numbers that decide a condition."""

SMALL = (1, 2, 4, 8, 16, 0, 3, 5, 6, 7, 10, 12)
"""Integers that are tried last."""

MAX_CANDIDATES = 32
"""Numbers, or lists of numbers, that are tried for an input."""


def candidate_values(graph: onnx.GraphProto, name: str) -> Sequence[Sequence[float]]:
    """Values of the input called `name`: one number for all elements, or a list of all."""
    value = next(value for value in graph.input if value.name == name)
    kind = value.type.tensor_type
    if kind.elem_type == onnx.TensorProto.BOOL:
        return [(1,), (0,)]
    is_float = (dtype := DTYPES.get(kind.elem_type)) is not None and dtype.kind == "f"
    count = prod(max(dim.dim_value, 1) for dim in kind.shape.dim)
    found: dict[Sequence[float], None] = {}
    for number in _compared(graph, {name}, {}):
        found.update(dict.fromkeys([(number,), (number + 1,), (number - 1,)]))
    shapes = [list(shape) for shape in _declared(graph)]
    if count > 1:
        found.update((tuple(shape), None) for shape in shapes if len(shape) == count)
        found[(*(1 for _ in range(count - 1)), -1)] = None
    else:
        found.update(((extent,), None) for shape in shapes for extent in shape)
    found.update(((number,), None) for number in SMALL)
    kept = [v for v in found if is_float or all(float(n).is_integer() for n in v)]
    return kept[:MAX_CANDIDATES]


def _declared(graph: onnx.GraphProto) -> Iterator[Sequence[int]]:
    """The known shapes of outputs, then of inputs."""
    for value in (*graph.output, *graph.input):
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if dims and all(dim > 0 for dim in dims):
            yield dims


def _compared(
    graph: onnx.GraphProto, reached: set[str], outer: Mapping[str, float]
) -> Iterator[float]:
    """
    The constants that values are compared with which depend on `reached`, in the order of the
    nodes. `outer` are the single numbers among the constants around the graph.
    """
    numbers = dict(outer)
    for tensor in graph.initializer:
        numbers.update(_number(text(tensor.name), tensor))
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    numbers.update(_number(text(node.output[0]), attribute.t))
        if reached.intersection(node.input):
            reached.update(filter(None, node.output))
            if node.op_type in COMPARISONS:
                yield from (numbers[name] for name in node.input if name in numbers)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _compared(attribute.g, reached, numbers)


def _number(name: str, tensor: onnx.TensorProto) -> Mapping[str, float]:
    """A tensor as a single number, if it is one and is stored in the model itself."""
    if prod(tensor.dims) != 1 or tensor.data_type not in DTYPES or tensor.external_data:
        return {}
    try:
        array = tensor_array(tensor, None)
    except ValueError:
        return {}
    number = float(np.asarray(array, np.float64).item())
    return {name: number} if np.isfinite(number) else {}
