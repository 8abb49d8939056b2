"""
Represent extents that data decide: integers, or sums of elements that are computed at run time.

Two extents are equal for all data if their sums are equal. `elements_of` finds the elements of a
small tensor, such as the operand `sizes` of a Resize, through concatenations, other data movement
and integer sums, so that constants among them are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import element_of, shape_of
from ceras_ir.frontends.onnx.emission.values import Constant, Value, shape_of_value

Atom: TypeAlias = tuple[SSAValue, int]
"""An element of a value that is computed at run time, by its row-major index."""

MAX_ELEMENTS = 64
"""The largest tensor with elements that may be extents."""


@dataclass(frozen=True)
class Linear:
    """The sum of run-time integers times the `factors`, plus `constant`."""

    factors: frozenset[tuple[Atom, int]]
    constant: int = 0

    @staticmethod
    def of(value: SSAValue, index: int = 0) -> "Linear":
        """Return element `index` of `value`."""
        return Linear(frozenset([((value, index), 1)]))


Extent: TypeAlias = int | Linear
Element: TypeAlias = int | float | Linear
"""An element of a tensor: a constant, or an integer or float that is computed at run time."""


class ExtentTable:
    """The extents of the values of an import, and the shapes that the user states for them."""

    def __init__(self) -> None:
        self.extents: dict[SSAValue, tuple[Extent, ...]] = {}
        """The extents of the values that have others than their shape, which is the maximum."""
        self.stated: Mapping[str, Sequence[int]] = {}
        """The shapes that the user states for values inside the model, by name."""
        self.confirmed: set[str] = set()
        """The names in `stated` that a node has used."""
        self.cut: set[SSAValue] = set()
        """The values that have a stated shape."""
        self.bounds: dict[Atom, tuple[float, float]] = {}
        """The smallest and the largest value of elements, where they are known."""
        self.scalars: dict[tuple[Block, Linear], SSAValue] = {}
        """The integers [1] that were emitted for sums."""
        self.numbers: dict[SSAValue, int] = {}
        """A number for each value in sums, in the order of use."""

    def has(self, value: Value) -> bool:
        """Return whether data decide an extent of a value."""
        return isinstance(value, SSAValue) and value in self.extents

    def of(self, value: Value) -> tuple[Extent, ...]:
        """Return the extents of a value."""
        if isinstance(value, SSAValue) and (found := self.extents.get(value)) is not None:
            return found
        return shape_of_value(value)


def plus(a: Extent, b: Extent, factor: int = 1) -> Extent:
    """Return `a + factor * b`."""
    factors = dict(a.factors) if isinstance(a, Linear) else {}
    constant = a.constant if isinstance(a, Linear) else a
    constant += factor * (b.constant if isinstance(b, Linear) else b)
    for atom, times in b.factors if isinstance(b, Linear) else ():
        factors[atom] = factors.get(atom, 0) + factor * times
    kept = frozenset((atom, times) for atom, times in factors.items() if times)
    return Linear(kept, constant) if kept else constant


def minus(a: Extent, b: Extent) -> Extent:
    return plus(a, b, -1)


def times(a: Extent, factor: int) -> Extent:
    return plus(0, a, factor)


def elements_of(value: Value) -> list[Element]:
    """
    Return the elements of `value` in row-major order. Integers of 32 and 64 bits that are computed
    are sums of elements of the values that compute them.
    """
    if isinstance(value, Constant):
        return value.load().reshape(-1).tolist()
    op, shape = value.owner, shape_of(value)
    if prod(shape) > MAX_ELEMENTS:
        return _atoms(value)
    match op:
        case graph.ConstantOp():
            return op.array().reshape(-1).tolist()
        case graph.ConcatOp():
            return _concatenated(op)
        case graph.ReshapeOp():
            return elements_of(op.input)
        case graph.TransposeOp() | graph.SliceOp() | graph.GatherOp():
            if prod(shape_of(op.input)) > MAX_ELEMENTS:
                return _atoms(value)
            source = elements_of(op.input)
            return [source[i] for i in _moved(op).reshape(-1)]
        case graph.CastOp() if _is_wide(op.input) and _is_wide(value):
            return elements_of(op.input)
        case graph.BinaryOp() if _is_wide(value):
            return _combined(op)
        case _:
            return _atoms(value)


def _is_wide(value: SSAValue) -> bool:
    """Return whether `value` has integers of 32 bits or more, in which no extent overflows."""
    element = element_of(value)
    return isinstance(element, IntegerType) and element.bitwidth >= 32


def _atoms(value: SSAValue) -> list[Element]:
    return [Linear.of(value, i) for i in range(prod(shape_of(value)))]


def _concatenated(op: graph.ConcatOp) -> list[Element]:
    joined: list[Element] = []
    places: list[NDArray[np.int64]] = []
    for operand in op.inputs:
        found = elements_of(operand)
        order = np.arange(len(found), dtype=np.int64).reshape(shape_of(operand))
        places.append(order + len(joined))
        joined += found
    order = np.concatenate(places, op.axis.value.data).reshape(-1)
    return [joined[i] for i in order]


def _moved(op: graph.TransposeOp | graph.SliceOp | graph.GatherOp) -> NDArray[np.int64]:
    """Return the index in the operand of each element of the result."""
    shape = shape_of(op.input)
    order = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    match op:
        case graph.TransposeOp():
            return order.transpose(op.permutation.get_values())
        case graph.GatherOp():
            return order.take(op.indices.get_values(), op.axis.value.data)
        case graph.SliceOp():
            bounds = zip(
                op.starts.get_values(), op.strides.get_values(), shape_of(op.result), strict=True
            )
            for axis, (start, stride, size) in enumerate(bounds):
                order = order.take(start + stride * np.arange(size), axis)
            return order


def _combined(op: graph.BinaryOp) -> list[Element]:
    shape = shape_of(op.result)
    pairs: list[list[Element]] = []
    for operand in op.operands:
        if prod(inner := shape_of(operand)) > MAX_ELEMENTS:
            return _atoms(op.result)
        order = np.arange(prod(inner)).reshape(inner)
        found = elements_of(operand)
        pairs.append([found[i] for i in np.broadcast_to(order, shape).reshape(-1)])
    results: list[Element] = []
    for i, (a, b) in enumerate(zip(*pairs, strict=True)):
        assert not isinstance(a, float) and not isinstance(b, float)
        match op.function:
            case graph.Binary.ADD:
                results.append(plus(a, b))
            case graph.Binary.SUB:
                results.append(minus(a, b))
            case graph.Binary.MUL if isinstance(b, int):
                results.append(times(a, b))
            case graph.Binary.MUL if isinstance(a, int):
                results.append(times(b, a))
            case _:
                results.append(Linear.of(op.result, i))
    return results
