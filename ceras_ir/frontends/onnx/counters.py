"""What the steps of a loop compute of their number alone: counters, indices, and where it ends."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import (
    Binary,
    BinaryOp,
    CastOp,
    CompareOp,
    ReshapeOp,
    constant_array,
    element_of,
    numpy_dtype,
    shape_of,
)
from ceras_ir.frontends.onnx.linear_form import origin
from ceras_ir.interpreters.arithmetic import cast, combine, compare

Numbers: TypeAlias = NDArray[np.generic]


@dataclass(frozen=True)
class Counters:
    """The values of single numbers of a body in each of its steps."""

    number: SSAValue
    """Of the step, from 0 on."""
    carried: Mapping[SSAValue, tuple[Numbers, SSAValue]]
    """What carried numbers start from, constants, and what they are after a step."""
    steps: int

    def of(self, value: SSAValue) -> Numbers | None:
        """One number for each step; None where it depends on anything else."""
        if prod(shape_of(value)) != 1:
            return None
        if value is self.number:
            return np.arange(self.steps)
        if value in self.carried:
            return self._advanced(value)
        if (array := constant_array(value)) is not None:
            return np.broadcast_to(array.reshape(-1), (self.steps,))
        match value.owner:
            case ReshapeOp() as op:
                return self.of(op.input)
            case CastOp() as op:
                given = self.of(op.input)
                return None if given is None else cast(given, numpy_dtype(element_of(value)))
            case BinaryOp() | CompareOp() as op:
                lhs, rhs = self.of(op.lhs), self.of(op.rhs)
                if lhs is None or rhs is None:
                    return None
                if isinstance(op, CompareOp):
                    return compare(op.function, lhs, rhs)
                return None if op.activation else combine(op.function, lhs, rhs)
            case _:
                return None

    def _advanced(self, value: SSAValue) -> Numbers | None:
        """A carried integer, to which every step adds the same."""
        start, after = self.carried[value]
        op = origin(after).owner
        if not isinstance(op, BinaryOp) or op.function is not Binary.ADD:
            return None
        added = [v for v in (op.lhs, op.rhs) if origin(v) is not value]
        step = constant_array(added[0]) if len(added) == 1 else None
        if step is None or step.size != 1 or start.dtype.kind not in "iu":
            return None
        numbers = np.arange(self.steps).astype(start.dtype)
        return combine(Binary.ADD, combine(Binary.MUL, numbers, step.reshape(-1)), start)
