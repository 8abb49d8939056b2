"""
Inputs that are constants when the model is imported: those that are set, such as a sampling rate,
and those without elements, such as a cache of which nothing is there yet.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
import onnx

from ceras_ir.frontends.onnx.tensors import DTYPES, MAX_ELEMENTS
from ceras_ir.frontends.onnx.values import Constant
from ceras_ir.support.diagnostics import InputError


def fix_inputs(
    graph: onnx.GraphProto,
    values: Mapping[str, Sequence[float]],
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, Constant]:
    """The inputs that `values` names; one number stands for all elements."""
    inputs = {value.name: value.type.tensor_type for value in graph.input}
    found: dict[str, Constant] = {}
    for name, numbers in values.items():
        if (kind := inputs.get(name)) is None:
            raise InputError(f"no input named '{name}' to set; there are {', '.join(inputs)}")
        if (dtype := DTYPES.get(kind.elem_type)) is None:
            raise InputError(f"input '{name}' has no numbers that could be set")
        declared = [max(dim.dim_value, 1) for dim in kind.shape.dim]
        shape = tuple(shapes.get(name, declared))
        if len(numbers) not in (1, prod(shape)) or prod(shape) > MAX_ELEMENTS:
            counts = "1" if prod(shape) == 1 else f"1 or {prod(shape)}"
            raise InputError(
                f"input '{name}' of shape {list(shape)} is set to {len(numbers)} numbers, "
                f"expected {counts}"
            )
        with np.errstate(all="ignore"):
            array = np.array(numbers, np.float64).astype(dtype)
        if not np.array_equal(array.astype(np.float64), numbers) and dtype.kind != "f":
            allowed = "0 or 1" if dtype.kind == "b" else f"integers that {dtype} holds"
            given = ", ".join(f"{number:g}" for number in numbers)
            raise InputError(f"input '{name}' is set to {given}, expected {allowed}")
        found[name] = Constant.of(
            name, np.broadcast_to(array.reshape(shape if array.size == prod(shape) else ()), shape)
        )
    return found


def empty_inputs(
    graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]
) -> dict[str, Constant]:
    """The inputs without elements: what is known of them is all that there is to know."""
    found: dict[str, Constant] = {}
    for value in graph.input:
        kind = value.type.tensor_type
        dims = kind.shape.dim
        declared = [d.dim_value if d.HasField("dim_value") else -1 for d in dims]
        shape = tuple(shapes.get(value.name, declared))
        dtype = DTYPES.get(kind.elem_type)
        if dtype is not None and shape and min(shape) == 0:
            found[value.name] = Constant.of(value.name, np.zeros(shape, dtype))
    return found
