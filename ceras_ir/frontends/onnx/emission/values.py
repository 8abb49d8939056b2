"""
Represent values of the model during the import: an IR value or a constant.

Constants remain outside the IR until an operation uses them. Permutations of weights therefore cost
no operation, and shape arithmetic leaves no trace. Elements are loaded when they are needed. Shapes
and element types of initializers are checked immediately, so that wrong models are refused early.
Inputs that the user sets, and inputs without elements such as an empty cache, are constants too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

import numpy as np
import onnx
from xdsl.dialects.builtin import IntAttr, NameLoc, NoneAttr, StringAttr
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import element_of, numpy_dtype, shape_of
from ceras_ir.dialects.graph.blocks import real_weights, stored_scales, unpacked_blocks
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
from ceras_ir.frontends.onnx.model.model_file import (
    MAX_TENSOR_ELEMENTS,
    TENSOR_DTYPES,
    Array,
    DataFolder,
    element_type,
    initializer_names,
    sparse_array,
    sparse_shape,
    string_array,
    tensor_array,
    tensor_shape,
    type_name,
)
from ceras_ir.network.integer import dequantize
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError, did_you_mean

Shape: TypeAlias = tuple[int, ...]
Move: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True)
class Constant:
    """
    A tensor that is known at import time. It is loaded when `load` is called, and not kept in
    memory.
    """

    name: str
    """The name of the tensor in the model, which is also the location of the constant in the IR."""
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    load: Callable[[], Array] = field(repr=False)
    key: tuple[Hashable, ...] | None = None
    """Constants with equal keys have equal elements. There is no key if that is unknown."""
    width: int | None = field(default=None, kw_only=True)
    """The bits of the integers, if the model declares fewer than the element type has."""

    @classmethod
    def of(cls, name: str, array: Array) -> Constant:
        return cls(name, array.shape, array.dtype, lambda: array)

    def in_float32(self) -> Constant:
        """
        Return the constant with floats of any width converted to float32. Loading raises an error
        if a value overflows.
        """
        if self.dtype.kind != "f" or self.dtype == np.float32:
            return self

        def load() -> Array:
            given = self.load()
            with np.errstate(over="ignore"):
                array = given.astype(np.float32)
            if (lost := np.isinf(array) & np.isfinite(given)).any():
                message = (
                    f"unsupported: {given[lost][0]} is beyond float32, in which doubles are "
                    "computed; scale it to at most 3.4e38"
                )
                raise UnsupportedError([Finding(self.name, "constant", message)])
            return array

        return Constant(self.name, self.shape, np.dtype(np.float32), load, self._key("float32"))

    def transposed(self, permutation: Sequence[int]) -> Constant:
        order = tuple(permutation)
        shape = tuple(self.shape[p] for p in order)
        return self._moved(shape, lambda array: np.transpose(array, order), "transpose", order)

    def reshaped(self, shape: Sequence[int]) -> Constant:
        target = tuple(shape)
        return self._moved(target, lambda array: array.reshape(target), "reshape", target)

    def reversed(self, axes: Sequence[int]) -> Constant:
        """Return the elements in reverse order along `axes`."""
        along = tuple(axes)
        return self._moved(self.shape, lambda array: np.flip(array, along), "reverse", along)

    def _moved(self, shape: Shape, move: Move, kind: str, argument: Shape) -> Constant:
        key = self._key(kind, argument)
        dtype, width = self.dtype, self.width
        return Constant(self.name, shape, dtype, lambda: move(self.load()), key, width=width)

    def _key(self, *step: Hashable) -> tuple[Hashable, ...] | None:
        return None if self.key is None else (*self.key, step)


Value: TypeAlias = SSAValue | Constant

MAX_FLOAT32 = float(np.finfo(np.float32).max)

NO_VALUE = Constant.of("", np.zeros(0, np.float32))
"""The placeholder of a result without consumers."""


def name_loc(name: str) -> NameLoc:
    """Return the IR location for a node or tensor called `name`."""
    return NameLoc(StringAttr(name), NoneAttr())


def shape_of_value(value: Value) -> tuple[int, ...]:
    return value.shape if isinstance(value, Constant) else shape_of(value)


def dtype_of_value(value: Value) -> np.dtype[np.generic]:
    """Return the numpy type of the elements of a value."""
    return value.dtype if isinstance(value, Constant) else numpy_dtype(element_of(value))


@dataclass(frozen=True)
class TensorList(Constant):
    """
    A sequence of tensors (of ONNX's sequence type), which may be computed. For other operators it
    is a constant without elements.
    """

    tensors: tuple[Value, ...] = ()

    @classmethod
    def holding(cls, name: str, tensors: Sequence[Value]) -> TensorList:
        empty = np.zeros(0, np.float32)
        return cls(name, empty.shape, empty.dtype, lambda: empty, None, tuple(tensors))


@dataclass(frozen=True)
class QuantizedConstant(Constant):
    """
    A constant with a scale: `load` returns the real values, and `stored` the integers of the
    quantized type `element`.
    """

    stored: Callable[[], Array] = field(repr=False, kw_only=True)
    element: UniformType = field(kw_only=True)

    @classmethod
    def make(
        cls, name: str, shape: tuple[int, ...], stored: Callable[[], Array], element: UniformType
    ) -> QuantizedConstant:
        def load() -> Array:
            return dequantize(stored(), element)

        key = (name, element)
        return cls(name, shape, np.dtype(np.float32), load, key, stored=stored, element=element)

    def scaled(self, factor: float) -> QuantizedConstant:
        """Return the product with `factor`, which is positive: equal integers with other scales."""
        rescaled = self.make(self.name, self.shape, self.stored, self.element.rescaled(factor))
        return replace(rescaled, key=self._key("scale", factor))

    def _moved(self, shape: Shape, move: Move, kind: str, argument: Shape) -> Constant:
        element, stored = self._element_after(kind, argument), self.stored
        if element is None:
            return super()._moved(shape, move, kind, argument)
        moved = self.make(self.name, shape, lambda: move(stored()), element)
        return replace(moved, key=self._key(kind, argument))

    def _element_after(self, kind: str, argument: tuple[int, ...]) -> UniformType | None:
        """
        Return the quantized type after a data movement of the `kind` transpose, reverse or reshape;
        `argument` is the permutation, the axes or the new shape. Return `None` if a channel would
        have several scales.
        """
        if not isinstance(self.element.axis, IntAttr):
            return self.element
        axis = self.element.axis.data
        if kind == "transpose":
            return self.element.rescaled(1.0, argument.index(axis))
        if kind == "reverse":
            return None if axis in argument else self.element
        found = _channel_axis(self.shape, argument, axis)
        return None if found is None else self.element.repeated(*found)


@dataclass(frozen=True)
class StoredConstant(Constant):
    """A constant of float16 or float32 that remains in this type."""

    def in_float32(self) -> Constant:
        return self


@dataclass(frozen=True)
class BlockedConstant(Constant):
    """
    A matrix of packed integers [N, K] with a scale for each block of a row, or its transpose.
    `load` returns the real values.
    """

    packed: Callable[[], Array] = field(repr=False, kw_only=True)
    """Return the rows as `graph.block_matmul` stores them."""
    scales: Array = field(repr=False, kw_only=True)
    points: Array | None = field(repr=False, kw_only=True)
    bits: int = field(kw_only=True)
    block: int = field(kw_only=True)
    is_turned: bool = field(default=False, kw_only=True)
    """Whether the constant is [K, N], with blocks along the first axis."""

    @classmethod
    def of_rows(
        cls,
        name: str,
        packed: Callable[[], Array],
        columns: int,
        scales: Array,
        points: Array | None,
        sizes: tuple[int, int],
        widened: Callable[[str], None],
    ) -> BlockedConstant:
        """
        Return the constant [N, columns] with `sizes`, the bits of an integer and the elements of a
        block. `widened` is called with the name if the real values are loaded.
        """
        bits, block = sizes

        def load() -> Array:
            widened(name)
            given = None if points is None else points.astype(np.uint8)
            integers = unpacked_blocks(packed().astype(np.uint8), given, bits, block)
            return real_weights(integers, scales.astype(np.float32), columns)

        return cls(
            name,
            (len(scales), columns),
            np.dtype(np.float32),
            load,
            (name, "blocks"),
            packed=packed,
            scales=scales,
            points=points,
            bits=bits,
            block=block,
        )

    @property
    def operands(self) -> tuple[Constant, Constant, Constant | None]:
        """The packed integers [N, bytes], the scales, and the zero points, as constants."""
        name, row = self.name, -(-self.scales.shape[1] * self.block * self.bits // BYTE_BITS)
        shape, byte = (len(self.scales), row), np.dtype(np.uint8)
        weights = Constant(name, shape, byte, self.packed, (name, "packed"))
        points = self.points

        def part(kind: type[Constant], suffix: str, array: Array) -> Constant:
            at = f"{name}/{suffix}"
            return kind(at, array.shape, array.dtype, lambda: array, (at,))

        return (
            weights,
            part(StoredConstant, "scales", stored_scales(self.scales)),
            None if points is None else part(Constant, "points", points.astype(np.uint8)),
        )

    def _moved(self, shape: Shape, move: Move, kind: str, argument: Shape) -> Constant:
        moved = super()._moved(shape, move, kind, argument)
        if kind != "transpose" or argument != (1, 0):
            return moved
        return replace(
            self, shape=shape, load=moved.load, key=moved.key, is_turned=not self.is_turned
        )


def _channel_axis(source: Shape, target: Shape, axis: int) -> tuple[int, int] | None:
    """
    Find the channels, indices of `axis`, after a reshape from `source` to `target`. Return how many
    times the sequence of channels occurs along a dimension of `target`, and this dimension. It
    occurs several times if dimensions before `axis` are merged with it. `None` if no dimension
    of `target` determines the channel.
    """
    before = prod(source[:axis])
    found: list[tuple[int, int]] = []
    for i, extent in enumerate(target):
        outer = prod(target[:i])
        if outer * extent == before * source[axis] and before % outer == 0:
            found.append((before // outer, i))
    return min(found, default=None)


READABLE_TYPES = "floats of 16 to 64 bits, integers of 8 to 64 bits and booleans are read"


def initializers(
    graph: onnx.GraphProto, folder: DataFolder | None, scope: Sequence[str], refused: list[Finding]
) -> dict[str, Constant]:
    """
    Return the initializers of `graph` by name. Those of unsupported element types are added to
    `refused`.

    `folder` has the external data. `scope` is the path of a subgraph, which distinguishes equal
    names.
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
    """
    Return `tensor` as a constant. Raise an `InputError` if the declaration or the data is wrong.
    `folder` and `scope` are as in `initializers`.
    """

    def finding(message: object) -> list[Finding]:
        return [Finding(name, "initializer", str(message))]

    def load() -> Array:
        try:
            if isinstance(tensor, onnx.SparseTensorProto):
                return sparse_array(tensor, folder)
            return tensor_array(tensor, folder)
        except ValueError as e:
            raise InputError(finding(e)) from None
        except OSError as e:
            raise InputError(finding(f"cannot read external data: {e.strerror or e}")) from None

    try:
        if isinstance(tensor, onnx.SparseTensorProto):
            shape, data_type = sparse_shape(tensor), tensor.values.data_type
        elif tensor.data_type == onnx.TensorProto.STRING:
            return Constant.of(name, string_array(tensor))
        else:
            shape, data_type = tensor_shape(tensor), tensor.data_type
    except ValueError as e:
        raise InputError(finding(e)) from None
    values = tensor.values if isinstance(tensor, onnx.SparseTensorProto) else tensor
    if values.HasField("segment"):
        message = "unsupported segment of a tensor; store it as a single tensor"
        raise UnsupportedError(finding(message))
    if data_type == onnx.TensorProto.UNDEFINED:
        raise InputError(finding("the element type is missing"))
    if (dtype := element_type(data_type)) is None:
        message = (
            f"unsupported element type {type_name(data_type)}; {READABLE_TYPES}: export with "
            "float32 or int8"
        )
        raise UnsupportedError(finding(message))
    return Constant(name, shape, dtype, load, (*scope, name))


def array_of_numbers(
    name: str, numbers: Sequence[float], dtype: np.dtype[np.generic], shape: Shape
) -> Array:
    """
    Return the array of the input `name`, which is set to `numbers`: one for each element, or a
    single one for all. Raise an `InputError` for another count, or for numbers that the type cannot
    represent.
    """
    if len(numbers) not in (1, prod(shape)) or prod(shape) > MAX_TENSOR_ELEMENTS:
        counts = "1" if prod(shape) == 1 else f"1 or {prod(shape)}"
        raise InputError(f"input '{name}' is set to {len(numbers)} numbers, expected {counts}")
    with np.errstate(all="ignore"):
        array = np.array(numbers, np.float64).astype(dtype)
    if not np.array_equal(array.astype(np.float64), numbers) and dtype.kind != "f":
        allowed = "0 or 1" if dtype.kind == "b" else f"integers that {dtype} holds"
        given = ", ".join(f"{number:g}" for number in numbers)
        raise InputError(f"input '{name}' is set to {given}, expected {allowed}")
    array = array.reshape(shape if array.size == prod(shape) else ())
    return np.broadcast_to(array, shape)


def fix_inputs(
    graph: onnx.GraphProto,
    values: Mapping[str, Sequence[float]],
    shapes: Mapping[str, Sequence[int]],
) -> dict[str, Constant]:
    """
    Return the inputs in `values` as constants by name. A single number is the value of all
    elements. `shapes` has shapes that the user gives.
    """
    inputs = {value.name: value.type.tensor_type for value in graph.input}
    found: dict[str, Constant] = {}
    for name, numbers in values.items():
        if (kind := inputs.get(name)) is None:
            hint = did_you_mean(name, inputs) or f"; there are {', '.join(inputs)}"
            raise InputError(f"no input named '{name}' to set{hint}")
        if (dtype := TENSOR_DTYPES.get(kind.elem_type)) is None:
            raise InputError(f"input '{name}' has no numbers that could be set")
        declared = [max(dim.dim_value, 1) for dim in kind.shape.dim]
        shape = tuple(shapes.get(name, declared))
        array = array_of_numbers(name, numbers, dtype, shape)
        found[name] = Constant.of(name, array)
    return found


def empty_inputs(
    graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]
) -> dict[str, Constant]:
    """Return the inputs that have no elements, such as an empty cache, as constants by name."""
    found: dict[str, Constant] = {}
    for value in graph.input:
        kind = value.type.tensor_type
        declared = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
        shape = tuple(shapes.get(value.name, declared))
        dtype = TENSOR_DTYPES.get(kind.elem_type)
        if dtype is not None and shape and min(shape) == 0:
            found[value.name] = Constant.of(value.name, np.zeros(shape, dtype))
    return found
