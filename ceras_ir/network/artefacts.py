"""
What a backend hands back: files that write themselves, and what a manifest says of tensors.

An `Artefact` is streamed, so that large weights are never in memory more than once; whoever
writes it picks a temporary name and renames. `TensorInfo` is one entry of the `inputs` and
`outputs` lists of `manifest.json`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import BinaryIO

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from ceras_ir.dialects.graph import numpy_dtype, tensor_type
from ceras_ir.dialects.graph.operation import Tensor
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.function import (
    input_model_types,
    input_names,
    output_labels,
    output_model_types,
    output_names,
    result_values,
    states_of,
)
from ceras_ir.support.diagnostics import InputError


@dataclass(frozen=True)
class Artefact:
    """One output file. `write` may be called more than once and writes the same bytes."""

    path: str
    """Relative to the output directory, with forward slashes."""
    description: str
    """What the file is, for `manifest.json`."""
    write: Callable[[BinaryIO], None]

    @classmethod
    def of_text(cls, path: str, description: str, text: str) -> "Artefact":
        """A small file whose text is already there."""
        data = text.encode()

        def write(stream: BinaryIO) -> None:
            stream.write(data)

        return cls(path, description, write)


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a compiled network: raw, row-major, little-endian."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """Name of the numpy type, for example `float32`."""
    scale: float | None = None
    """Of a quantized tensor: real = scale * (stored - zero_point)."""
    zero_point: int = 0
    model_dtype: str | None = None
    """What the model declares instead, where that is a float of another width."""
    labels: tuple[str, ...] = ()
    """The texts that numbers stand for, in order, where they do not stand for themselves."""

    @classmethod
    def of(cls, name: str, kind: Tensor, model_dtype: str | None = None) -> "TensorInfo":
        element = kind.element_type
        dtype = numpy_dtype(element).name
        if isinstance(element, UniformType) and not element.is_per_axis:
            return cls(name, kind.get_shape(), dtype, element.scale, element.zero_point)
        other = model_dtype if dtype == "float32" else None
        return cls(name, kind.get_shape(), dtype, model_dtype=other)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize

    def to_json(self) -> dict[str, object]:
        entry: dict[str, object] = {"name": self.name, "shape": list(self.shape)}
        entry["dtype"] = self.dtype
        if self.scale is not None:
            entry |= {"scale": self.scale, "zero_point": self.zero_point}
        if self.model_dtype is not None:
            entry["model_dtype"] = self.model_dtype
        if self.labels:
            entry["labels"] = list(self.labels)
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, object]) -> "TensorInfo":
        """The inverse of `to_json`; an `InputError` for anything else."""
        name, dtype = entry.get("name"), entry.get("dtype")
        scale, point = entry.get("scale"), entry.get("zero_point", 0)
        shape, model_dtype = entry.get("shape"), entry.get("model_dtype")
        labels = entry.get("labels", [])
        if (
            isinstance(name, str)
            and isa(shape, list[int])
            and all(extent > 0 for extent in shape)
            and dtype in DTYPES
            and isinstance(scale, float | None)
            and isinstance(point, int)
            and (model_dtype is None or model_dtype in MODEL_DTYPES)
            and isa(labels, list[str])
        ):
            model_dtype = None if model_dtype is None else str(model_dtype)
            return cls(name, tuple(shape), str(dtype), scale, point, model_dtype, tuple(labels))
        raise InputError(f"not a tensor's entry of a manifest: {dict(entry)}")


DTYPES = (
    *("float32", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)
"""The types that tensors are stored in."""

MODEL_DTYPES = ("float16", "float64")
"""The other types that a model may give a float32 tensor."""


def network_inputs(main: FuncOp) -> list[TensorInfo]:
    """The inputs of a network, in order; without states, which the caller does not see."""
    kept = {state.name for state in states_of(main)}
    ends = _ends(input_names(main), main.body.block.args, input_model_types(main))
    return [tensor for tensor in ends if tensor.name not in kept]


def network_outputs(main: FuncOp) -> list[TensorInfo]:
    """The outputs of a network, in order; without states."""
    kept = {state.result_name for state in states_of(main)}
    ends = _ends(output_names(main), result_values(main), output_model_types(main))
    return [
        replace(end, labels=labels)
        for end, labels in zip(ends, output_labels(main), strict=True)
        if end.name not in kept
    ]


def network_states(main: FuncOp) -> list[dict[str, object]]:
    """What a manifest says of the states: their tensors, and the outputs that they were."""
    return [
        TensorInfo.of(state.name, tensor_type(state.argument)).to_json()
        | {"output": state.result_name}
        for state in states_of(main)
    ]


def _ends(
    names: Sequence[str], values: Sequence[SSAValue], model_types: Sequence[str | None]
) -> list[TensorInfo]:
    ends = zip(names, map(tensor_type, values), model_types, strict=True)
    return [TensorInfo.of(*end) for end in ends]
