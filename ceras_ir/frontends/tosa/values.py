"""
Represent integers of TOSA in `graph`: stored integers with a zero point, plain integers, and sums.

TOSA has no scales, so all stored integers have scale 1. An operation that subtracts a zero point
needs `!quant.uniform<i8:f32, 1.0:ZP>`; arithmetic without zero points needs plain integers. A
convolution, or a rescaling to 32 bits, is not emitted before the consumer is known, because a
requantization that follows becomes part of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, i8, i16, i32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, CastOp, ConstantOp, quantized_element
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.values import Constant, name_loc, shape_of_value
from ceras_ir.frontends.onnx.emission.values import Value as EmittedValue
from ceras_ir.frontends.tosa.rescaling import Rescaling

SUM_LOW, SUM_HIGH = -(1 << 31), (1 << 31) - 1

UNSCALED = RequantAttr(0, low=SUM_LOW, high=SUM_HIGH)
"""The requantization that returns a sum of 32 bits."""

STORAGE = {"i4": i8, "i8": i8, "ui8": BYTE, "i16": i16}
"""The storage of elements that can have a zero point."""

WIDE_SUM = (
    "sums of 48 bits are imported only before tosa.rescale; rescale them before another operation"
)


def stored_type(storage: IntegerType, zero_point: int = 0) -> UniformType:
    """Return the quantized type with scale 1 and this zero point."""
    return UniformType(1.0, zero_point, storage=storage)


class Pending(ABC):
    """
    Integers of 32 or 48 bits that are not emitted before the use is known, since a rescaling that
    follows can be part of the operation that computes them.
    """

    shape: tuple[int, ...]
    is_wide: bool
    """Whether the type has 48 bits."""
    known: SSAValue | None

    @abstractmethod
    def requantized(
        self, emitter: Emitter, requant: RequantAttr, element: UniformType
    ) -> SSAValue | None:
        """
        Emit the integers after the requantization `requant` to the type `element`. Return `None` if
        no single operation computes this.
        """

    def plain(self, emitter: Emitter) -> SSAValue:
        """Emit the integers as plain integers, without a requantization."""
        if self.known is None:
            self.known = self._plain(emitter)
        return self.known

    def _plain(self, emitter: Emitter) -> SSAValue:
        if self.is_wide:
            raise emitter.node.unsupported(WIDE_SUM)
        stored = self.requantized(emitter, UNSCALED, stored_type(i32))
        assert stored is not None
        return emitter.emit(CastOp(stored, i32))


Value: TypeAlias = EmittedValue | Pending

EmitSums: TypeAlias = Callable[[RequantAttr, UniformType], SSAValue]


@dataclass
class Sums(Pending):
    """
    The sums of products of a layer, without the rescaling that follows; `emit` emits the layer with
    a requantization.
    """

    shape: tuple[int, ...]
    emit: EmitSums
    is_wide: bool = False
    known: SSAValue | None = None

    def requantized(
        self, emitter: Emitter, requant: RequantAttr, element: UniformType
    ) -> SSAValue | None:
        return self.emit(requant, element)


@dataclass
class Scaled(Pending):
    """
    Stored integers that are converted to 32 bits: shifted left by `left` bits, then rescaled by
    `requant`.
    """

    source: SSAValue
    left: int
    requant: RequantAttr
    """The rescaling of the shifted integers, with the bounds of the results."""
    is_wide: bool = False
    known: SSAValue | None = None
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.shape = graph.shape_of(self.source)

    @property
    def only_shifts(self) -> bool:
        return self.requant.multiplier.data == 1 << self.requant.shift.data

    @property
    def bounds(self) -> tuple[int, int]:
        return self.requant.low.data, self.requant.high.data

    @property
    def largest(self) -> int:
        """The largest possible magnitude of a result."""
        return max(map(abs, self.bounds))

    @classmethod
    def of_constant(cls, emitter: Emitter, value: Value) -> Value:
        """
        Return a constant of i32 that fits 16 bits as stored integers, and other values unchanged.
        """
        if not isinstance(value, Constant) or value.dtype != np.int32 or not value.shape:
            return value
        array = value.load().astype(np.int64)
        low, high = int(array.min()), int(array.max())
        kinds = (stored_type(kind) for kind in (i8, i16))
        element = next((e for e in kinds if e.low <= low and high <= e.high), None)
        if element is None:
            return value
        return cls(as_stored(emitter, value, element), 0, RequantAttr(0, low=low, high=high))

    @classmethod
    def of(cls, source: SSAValue, scaling: Rescaling) -> Scaled | None:
        """
        Return the stored integers `source` after `scaling` to 32 bits; `None` if the results may
        not fit.
        """
        element = quantized_element(source)
        assert element is not None
        limits = element.low - element.zero_point, element.high - element.zero_point
        left = scaling.left_shift
        if left is None:
            return cls(source, 0, UNSCALED)._rescaled(scaling, limits)
        low, high = (limit << left for limit in limits)
        return cls(source, left, RequantAttr(0, low=low, high=high)) if high <= SUM_HIGH else None

    def rescaled(self, scaling: Rescaling) -> Scaled | None:
        """
        Return these integers after a further `scaling` to 32 bits; `None` if they were rescaled
        before.
        """
        return self._rescaled(scaling, self.bounds) if self.only_shifts else None

    def _rescaled(self, scaling: Rescaling, limits: tuple[int, int]) -> Scaled | None:
        requant = scaling.requant()
        if requant is None or requant.is_per_channel or scaling.output_zp:
            return None
        (multiplier,), (shift,) = scaling.multipliers, scaling.shifts
        # Two roundings differ from the quotient by less than 2.
        low, high = (
            (limit * multiplier >> shift) + more
            for limit, more in zip(limits, (-2, 3), strict=True)
        )
        if max(-low, high) > SUM_HIGH:
            return None
        return Scaled(self.source, self.left, requant.replaced(low=low, high=high))

    def stored(self, emitter: Emitter) -> SSAValue:
        """Emit the integers as stored integers of 32 bits with scale 1."""
        element = stored_type(i32)
        if not self.left:
            return emitter.emit(graph.RequantizeOp(self.source, element, self.requant))
        factor = RequantAttr(0, multiplier=1 << self.left, low=SUM_LOW, high=SUM_HIGH)
        shifted = emitter.emit(graph.RequantizeOp(self.source, element, factor))
        if self.only_shifts:
            return shifted
        return emitter.emit(graph.RequantizeOp(shifted, element, self.requant))

    def requantized(
        self, emitter: Emitter, requant: RequantAttr, element: UniformType
    ) -> SSAValue | None:
        if requant == UNSCALED:
            return self.stored(emitter)
        plain = self.only_shifts and not self.left
        source = self.source if plain else self.stored(emitter)
        return emitter.emit(graph.RequantizeOp(source, element, requant))


@dataclass
class Total(Pending):
    """
    The sum of stored integers along axes, which remain as extents of 1. It is not emitted before
    the rescaling that follows is known.
    """

    source: SSAValue
    axes: tuple[int, ...]
    is_wide: bool = False
    known: SSAValue | None = None
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        extents = enumerate(graph.shape_of(self.source))
        self.shape = tuple(1 if i in self.axes else n for i, n in extents)

    @classmethod
    def of(cls, value: Value, axis: int) -> Total | None:
        """
        Return the sum of `value` along `axis`, or `None` unless `value` is stored integers that are
        only converted to 32 bits, or such a sum.
        """
        if isinstance(value, Total):
            return cls(value.source, tuple(sorted({*value.axes, axis})))
        if isinstance(value, Scaled) and value.only_shifts and not value.left:
            return cls(value.source, (axis,))
        return None

    def requantized(
        self, emitter: Emitter, requant: RequantAttr, element: UniformType
    ) -> SSAValue | None:
        # A product with weights of 1 is the sum. The scale of the weights is the factor.
        shape = graph.shape_of(self.source)
        count = prod(shape[a] for a in self.axes)
        kept = [i for i in range(len(shape)) if i not in self.axes]
        ordered = emitter.transposed(self.source, [*kept, *self.axes])
        rows = emitter.reshaped(ordered, (prod(shape) // count, count))
        scale = requant.multiplier.data / 2.0**requant.shift.data
        ones = ConstantOp.from_array(
            np.ones((1, count), np.int8), UniformType(scale), location=name_loc("ones")
        )
        emitter.block.add_op(ones)
        product = emitter.emit(
            graph.MatmulOp(
                emitter.materialize(rows), ones.result, result_element=element, requant=requant
            )
        )
        return emitter.materialize(emitter.reshaped(product, self.shape))


@dataclass
class Combined(Pending):
    """
    The sum, difference or product of two rescaled operands, which is not emitted before the
    rescaling that follows is known.
    """

    kind: Binary
    lhs: Scaled
    rhs: Scaled
    shape: tuple[int, ...]
    is_wide: bool = False
    known: SSAValue | None = None

    @classmethod
    def of(
        cls, kind: Binary, lhs: Value, rhs: Value, shape: tuple[int, ...] | None
    ) -> Combined | None:
        """
        Return the combination of both operands, or `None` unless both are rescaled and the result
        fits 32 bits.
        """
        if not isinstance(lhs, Scaled) or not isinstance(rhs, Scaled) or shape is None:
            return None
        if bool(lhs.shape) != bool(rhs.shape):
            return None
        if kind is Binary.MUL:
            converts = all(side.only_shifts and not side.left for side in (lhs, rhs))
            fits = lhs.largest * rhs.largest <= SUM_HIGH
            return cls(kind, lhs, rhs, shape) if converts and fits else None
        fits = lhs.largest + rhs.largest <= SUM_HIGH
        shiftable = max(lhs.left, rhs.left) <= graph.BinaryOp.MAX_SHIFT
        return cls(kind, lhs, rhs, shape) if fits and shiftable else None

    def requantized(
        self, emitter: Emitter, requant: RequantAttr, element: UniformType
    ) -> SSAValue | None:
        only_shift = self.lhs.only_shifts and self.rhs.only_shifts
        return emitter.emit(
            graph.BinaryOp(
                self.kind,
                self.lhs.source,
                self.rhs.source,
                result_element=element,
                shifts=(self.lhs.left, self.rhs.left),
                addends=None if only_shift else (self.lhs.requant, self.rhs.requant),
                requant=requant,
            )
        )


def as_stored(emitter: Emitter, value: Value, element: UniformType) -> SSAValue:
    """Return `value` with the type `element`: the same stored integers, with another zero point."""
    if isinstance(value, Constant):
        array = value.load().astype(graph.numpy_dtype(element))
        constant = ConstantOp.from_array(array, element, location=name_loc(value.name))
        emitter.block.add_op(constant)
        return constant.result
    if isinstance(value, Pending):
        value = value.plain(emitter)
    known = quantized_element(value)
    if known == element:
        return value
    if known is not None and known.storage == element.storage:
        return _moved_zero_point(emitter, value, element)
    real = emitter.cast(as_plain(emitter, value), f32)
    if element.zero_point:
        real = emitter.sub(real, emitter.number(element.zero_point))
    return emitter.emit(graph.QuantizeOp(emitter.materialize(real), element))


def _moved_zero_point(emitter: Emitter, value: SSAValue, element: UniformType) -> SSAValue:
    """
    Return `value` with the type `element`, which has another zero point. The stored integers
    remain, because the difference of the zero points is added to the real values.
    """
    known = graph.stored_element(value)
    difference = known.zero_point - element.zero_point
    storage = next(kind for kind in (i8, i16, i32) if stored_type(kind).high >= abs(difference))
    shape = (1,) * len(graph.shape_of(value))
    constant = ConstantOp.from_array(
        np.full(shape, difference, graph.numpy_dtype(storage)),
        stored_type(storage),
        location=name_loc(emitter.node.name),
    )
    emitter.block.add_op(constant)
    return emitter.emit(
        graph.BinaryOp(
            Binary.ADD,
            value,
            constant.result,
            result_element=element,
            requant=RequantAttr(
                0, zero_point=element.zero_point, low=element.low, high=element.high
            ),
        )
    )


def as_plain(emitter: Emitter, value: Value) -> EmittedValue:
    """
    Return stored integers as plain integers of the same value, without a zero point. Floats are
    returned unchanged.
    """
    if isinstance(value, Constant):
        return value
    if isinstance(value, Pending):
        return value.plain(emitter)
    known = quantized_element(value)
    if known is None:
        return value
    without = stored_type(known.storage)
    return emitter.emit(CastOp(as_stored(emitter, value, without), known.storage))


def alike(emitter: Emitter, values: Sequence[Value]) -> list[EmittedValue]:
    """
    Return `values` with equal element types, as data movement of several operands needs them: with
    a common zero point, or as plain integers.
    """
    computed = [v for v in values if not isinstance(v, Constant)]
    elements = [quantized_element(v) if isinstance(v, SSAValue) else None for v in computed]
    known = [e for e in elements if e is not None]
    are_stored = len(known) == len(elements)
    if known and are_stored and len({e.storage for e in known}) == 1:
        return [as_stored(emitter, value, known[0]) for value in values]
    return [as_plain(emitter, value) for value in values]


def shape_of(value: Value) -> tuple[int, ...]:
    return value.shape if isinstance(value, Pending) else shape_of_value(value)
