"""
What a name of the model stands for while it is imported: an IR value or a constant.

Constants stay outside the IR until a feature map meets them, so that weights can be permuted
for free and shape arithmetic leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from ceras_ir.frontends.onnx.tensors import Array
from ceras_ir.support.diagnostics import Finding, UnsupportedError


@dataclass(frozen=True)
class Constant:
    """A tensor known at import time, loaded when it is needed and not kept."""

    name: str
    """What the model calls it; the location of the IR constant made of it."""
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    load: Callable[[], Array] = field(repr=False)
    key: tuple[Hashable, ...] | None = None
    """Equal for constants that are equal for certain, None for one of its own."""

    @classmethod
    def of(cls, name: str, array: Array) -> Constant:
        """An array that is already there."""
        return cls(name, array.shape, array.dtype, lambda: array)

    def in_float32(self) -> Constant:
        """The same numbers in the one float type that is computed with, which must hold them."""
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
        """The same elements with dimensions in another order."""
        order = tuple(permutation)
        return Constant(
            self.name,
            tuple(self.shape[p] for p in order),
            self.dtype,
            lambda: np.transpose(self.load(), order),
            self._key("transpose", order),
        )

    def reshaped(self, shape: Sequence[int]) -> Constant:
        """The same elements in another shape."""
        target = tuple(shape)
        return Constant(
            self.name,
            target,
            self.dtype,
            lambda: self.load().reshape(target),
            self._key("reshape", target),
        )

    def reversed(self, axes: Sequence[int]) -> Constant:
        """The same elements in reverse order along dimensions."""
        along = tuple(axes)
        return Constant(
            self.name,
            self.shape,
            self.dtype,
            lambda: np.flip(self.load(), along),
            self._key("reverse", along),
        )

    def _key(self, *step: Hashable) -> tuple[Hashable, ...] | None:
        return None if self.key is None else (*self.key, step)


Value: TypeAlias = SSAValue | Constant

NO_VALUE = Constant.of("", np.zeros(0, np.float32))
"""What stands for a result that nobody asks for."""


@dataclass(frozen=True)
class TensorList(Constant):
    """A sequence, whose tensors may be computed; to all but the operators on it, an empty one."""

    tensors: tuple[Value, ...] = ()

    @classmethod
    def holding(cls, name: str, tensors: Sequence[Value]) -> TensorList:
        """The sequence of `tensors`."""
        empty = np.zeros(0, np.float32)
        return cls(name, empty.shape, empty.dtype, lambda: empty, None, tuple(tensors))
