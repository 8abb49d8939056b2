"""
Represent the files of a backend, and the entries of tensors in `manifest.json`.

The content of an `Artefact` is streamed, so that large weights have a single copy in memory.
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
from ceras_ir.network.pixels import PIXELS, Pixels
from ceras_ir.network.storage import attributes_of
from ceras_ir.support.diagnostics import InputError


@dataclass(frozen=True)
class Artefact:
    """
    An output file of a target. `write` writes the content to a binary stream; each call writes the
    same bytes.
    """

    path: str
    """Relative to the output directory, with forward slashes."""
    description: str
    """The description in `manifest.json`."""
    write: Callable[[BinaryIO], None]

    @classmethod
    def of_text(cls, path: str, description: str, text: str) -> "Artefact":
        """Create a file with the content `text` in UTF-8."""
        data = text.encode()

        def write(stream: BinaryIO) -> None:
            stream.write(data)

        return cls(path, description, write)


@dataclass(frozen=True)
class TensorInfo:
    """
    The name, shape and type of a graph input or output of a compiled network. Files contain the
    elements without a header, row-major, little-endian.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    """The name of the numpy type, for example `float32`."""
    scale: float | None = None
    """The scale of a quantized tensor: real = scale * (stored - zero_point)."""
    zero_point: int = 0
    model_dtype: str | None = None
    """The type in the model, if it is a float of another width."""
    labels: tuple[str, ...] = ()
    """The texts that integers 0, 1, ... represent, or empty."""
    pixels: Pixels | None = None
    """The conversion of float samples, if the input is an image of a camera."""

    @classmethod
    def of(cls, name: str, kind: Tensor, model_dtype: str | None = None) -> "TensorInfo":
        """
        Describe a tensor `name` of type `kind`. `model_dtype` is the float type in the model; it is
        recorded only if the tensor is float32.
        """
        element = kind.element_type
        dtype = numpy_dtype(element).name
        if isinstance(element, UniformType) and not element.is_per_axis:
            return cls(name, kind.get_shape(), dtype, element.scale, element.zero_point)
        other = model_dtype if dtype == "float32" else None
        return cls(name, kind.get_shape(), dtype, model_dtype=other)

    @property
    def size(self) -> int:
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
        if self.pixels is not None:
            entry["pixels"] = self.pixels.to_json()
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, object]) -> "TensorInfo":
        """Return the inverse of `to_json`; raise `InputError` for other entries."""
        name, dtype = entry.get("name"), entry.get("dtype")
        scale, point = entry.get("scale"), entry.get("zero_point", 0)
        shape, model_dtype = entry.get("shape"), entry.get("model_dtype")
        labels = entry.get("labels", [])
        if (
            isinstance(name, str)
            and isa(shape, list[int])
            and all(extent > 0 for extent in shape)
            and dtype in STORED_DTYPES
            and isinstance(scale, float | None)
            and isinstance(point, int)
            and (model_dtype is None or model_dtype in MODEL_DTYPES)
            and isa(labels, list[str])
        ):
            model_dtype = None if model_dtype is None else str(model_dtype)
            kind = name, tuple(shape), str(dtype), scale, point, model_dtype, tuple(labels)
            return cls(*kind, Pixels.from_json(entry.get("pixels")))
        raise InputError(f"invalid tensor in a manifest: {dict(entry)}")


STORED_DTYPES = (
    *("float32", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
)
"""The types of stored tensors."""

MODEL_DTYPES = ("float16", "float64")
"""The other types that a model may give a float32 tensor."""


def network_inputs(main: FuncOp) -> list[TensorInfo]:
    """
    Describe the graph inputs in order, without states (inputs that the caller copies from an output
    of the previous call).
    """
    kept = {state.name for state in states_of(main)}
    arguments = main.body.block.args
    tensors = _tensors(input_names(main), arguments, input_model_types(main))
    return [
        replace(tensor, pixels=Pixels.of_attribute(attributes_of(argument).get(PIXELS)))
        for tensor, argument in zip(tensors, arguments, strict=True)
        if tensor.name not in kept
    ]


def network_outputs(main: FuncOp) -> list[TensorInfo]:
    """Describe the graph outputs in order, without the outputs that are states of the next call."""
    kept = {state.result_name for state in states_of(main)}
    tensors = _tensors(output_names(main), result_values(main), output_model_types(main))
    return [
        replace(tensor, labels=labels)
        for tensor, labels in zip(tensors, output_labels(main), strict=True)
        if tensor.name not in kept
    ]


def network_states(main: FuncOp) -> list[dict[str, object]]:
    """
    Return an entry of the manifest for each state: the tensor of the graph input, and the name of
    the graph output that replaces it in the next call.
    """
    return [
        TensorInfo.of(state.name, tensor_type(state.argument)).to_json()
        | {"output": state.result_name}
        for state in states_of(main)
    ]


def _tensors(
    names: Sequence[str], values: Sequence[SSAValue], model_types: Sequence[str | None]
) -> list[TensorInfo]:
    entries = zip(names, map(tensor_type, values), model_types, strict=True)
    return [TensorInfo.of(*entry) for entry in entries]
