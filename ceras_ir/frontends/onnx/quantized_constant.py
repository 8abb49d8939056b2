"""
A constant that the model stores in integers: floats to whoever looks, integers in the IR.

Importers of float operators permute and reshape it like any other constant. Materialized, it is
a `graph.constant` of integers and the `graph.dequantize` that the model applies to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntAttr

from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx.tensors import Array
from ceras_ir.frontends.onnx.values import Constant
from ceras_ir.network.integer import dequantize


@dataclass(frozen=True)
class QuantizedConstant(Constant):
    """`load` gives the float32 numbers, `stored` the integers of type `element`."""

    stored: Callable[[], Array] = field(repr=False, kw_only=True)
    element: UniformType = field(kw_only=True)

    @classmethod
    def make(
        cls, name: str, shape: tuple[int, ...], stored: Callable[[], Array], element: UniformType
    ) -> QuantizedConstant:
        """The constant called `name` of these integers."""
        return cls(
            name,
            shape,
            np.dtype(np.float32),
            lambda: dequantize(stored(), element),
            (name, element),
            stored=stored,
            element=element,
        )

    def scaled(self, factor: float) -> QuantizedConstant:
        """The numbers times `factor`, which is positive: the same integers at other scales."""
        made = self.make(self.name, self.shape, self.stored, self.element.rescaled(factor))
        return replace(made, key=self._key("scale", factor))

    def transposed(self, permutation: Sequence[int]) -> Constant:
        order = tuple(permutation)
        element = self.element
        if isinstance(element.axis, IntAttr):
            element = element.rescaled(1.0, order.index(element.axis.data))
        stored = self.stored
        made = self.make(
            self.name,
            tuple(self.shape[p] for p in order),
            lambda: np.transpose(stored(), order),
            element,
        )
        return replace(made, key=self._key("transpose", order))

    def reshaped(self, shape: Sequence[int]) -> Constant:
        target = tuple(shape)
        element = self.element
        if isinstance(element.axis, IntAttr):
            found = _channel_axis(self.shape, target, element.axis.data)
            if found is None:  # Channels are no dimension any more.
                return super().reshaped(shape)
            element = element.repeated(*found)
        stored = self.stored
        made = self.make(self.name, target, lambda: stored().reshape(target), element)
        return replace(made, key=self._key("reshape", target))

    def reversed(self, axes: Sequence[int]) -> Constant:
        along = tuple(axes)
        element = self.element
        if isinstance(element.axis, IntAttr) and element.axis.data in along:
            return super().reversed(axes)
        stored = self.stored
        made = self.make(self.name, self.shape, lambda: np.flip(stored(), along), element)
        return replace(made, key=self._key("reverse", along))


def _channel_axis(
    source: tuple[int, ...], target: tuple[int, ...], axis: int
) -> tuple[int, int] | None:
    """
    How often the slices of `axis` of `source` come one after the other in a dimension of `target`,
    and which that is: with groups in front of it, they come once for each.
    """
    before = prod(source[:axis])
    found: list[tuple[int, int]] = []
    for i, extent in enumerate(target):
        outer = prod(target[:i])
        if outer * extent == before * source[axis] and before % outer == 0:
            found.append((before // outer, i))
    return min(found, default=None)
