"""
What makes QuantizeLinear, which takes ties to even, take those of an operation where it does.

A quarter of the sum's unit, added, takes ties up and moves no other number over a boundary where a
shift rescales; where an odd multiplier m does, it takes a quarter of an m-th. Of averages over
windows whose reciprocal is not exact, a factor near 1 does it; see `analysis/ties.py`.
"""

from __future__ import annotations

from math import frexp

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.transforms.quantization.analysis.qdq import stored_types
from ceras_ir.transforms.quantization.analysis.ties import (
    accumulator_units,
    tie_directions,
    tie_rooms,
    tilt,
)

TieConstant = tuple[str, NDArray[np.float32]]
"""An operator and what it gets besides, so that it broadcasts to the result."""


def tie_constants(op: Operation) -> list[TieConstant]:
    """What to apply to the real numbers that `op` rounds; nothing where it has no ties."""
    requant = op.properties.get("requant")
    if not isinstance(requant, RequantAttr):
        return []
    if requant.mode is not Rounding.HALF_UP or not requant.shift.data:
        return []
    elements = stored_types(op)
    units = accumulator_units(op, elements[:2])
    if units is None:
        return []
    if isinstance(op, graph.Pool2dOp):
        if frexp(elements[0].scale / elements[1].scale)[0] != 0.5:
            return []  # Ties of such averages are chance.
        return _of_average(op, elements[0], elements[1], (units / 4).astype(np.float32))
    quarters = (tie_rooms(units, requant.multipliers, requant.shift.data) / 2).astype(np.float32)
    if not quarters.any():
        return []
    return [("Add", quarters if bool((quarters != quarters[0]).any()) else quarters[0])]


def _of_average(
    op: graph.Pool2dOp, source: UniformType, target: UniformType, quarters: NDArray[np.float32]
) -> list[TieConstant]:
    directions = tie_directions(op, source, target)[None, :, :, None]
    found: list[TieConstant] = []
    if directions.any():
        found.append(("Mul", _alike(1.0 + directions * tilt(op, source, target))))
    if not directions.all():
        found.append(("Add", _alike((directions == 0) * quarters)))
    return found


def _alike(numbers: NDArray[np.generic]) -> NDArray[np.float32]:
    """One number where all are the same."""
    exact = numbers.astype(np.float32)
    first = exact.reshape(-1)[:1]
    return first.reshape(()) if bool((exact == first).all()) else exact
