"""
How a function of one argument becomes integers, and which part of its argument matters.

`graph.form` on a `graph.unary` says it: "table", a table of 256 entries on int8; "table16", a table
of `ENTRIES` on the argument in 16 bits; "shifts", `graph.shift_swish` on 16 bits; "float", the
function itself on the argument in 16 bits. One without is a table on int8, unless a pass decides.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.elementwise import BENDS
from ceras_ir.interpreters.float_functions import apply_function
from ceras_ir.network.function import has_quantized_form
from ceras_ir.network.integer import fitting_exponent
from ceras_ir.network.storage import (
    EXTRA_FRACTION_BITS,
    WIDE,
    interval,
    is_kept_in_float,
    set_exponent,
    set_width,
    set_zero_point,
)
from ceras_ir.transforms.quantization.analysis.observers import (
    Bounds,
    Function,
    Reals,
    Seen,
    Sums,
    identity,
)

FORM = "graph.form"

ENTRIES = 1024
"""Of a table on 16 bits: argument steps four times as fine as those of int8."""

REACH, STEP, FLAT = 64.0, 1 / 16, 2.0**-9
"""Where functions are searched for flat ends, how finely, and what counts as flat."""


class Form(StrEnum):
    """What a function of one argument is made of; a table on int8 if nothing else is said."""

    TABLE = "table"
    TABLE16 = "table16"
    SHIFTS = "shifts"
    FLOAT = "float"


def form_of(op: Operation) -> Form | None:
    """The form that was chosen for a function."""
    form = op.attributes.get(FORM)
    return Form(form.data) if isinstance(form, StringAttr) and form.data in set(Form) else None


def set_form(op: Operation, form: Form) -> None:
    """Have a function take `form`."""
    op.attributes[FORM] = StringAttr(form.value)


def quantized_form(op: Operation) -> Form | None:
    """What a function became in a quantized network; None for other operations."""
    match op:
        case graph.LookupOp():
            return Form.TABLE16 if op.tables.shape[-1] == ENTRIES else Form.TABLE
        case graph.ShiftSwishOp():
            return Form.SHIFTS
        case graph.UnaryOp() if isinstance(op.input.owner, graph.DequantizeOp):
            return Form.FLOAT
        case _:
            return None


def is_table(op: Operation) -> bool:
    """Whether a float operation becomes a table, or shifts, so that it can take any factors."""
    return (
        isinstance(op, graph.UnaryOp)
        and op.function.clip_range is None
        and not is_kept_in_float(op)
    )


def reads_sum(op: graph.UnaryOp) -> bool:
    """
    Whether the argument is a sum of products that nothing else reads, so that it can be kept in
    more than 8 bits.
    """
    producer = op.input.owner
    return (
        isinstance(producer, graph.LinearOperation)
        and has_quantized_form(producer)
        and op.input.has_one_use()
    )


def separates(op: Operation) -> bool:
    """Whether the factors of argument and result are free: a table takes in any, shifts one."""
    return is_table(op) and form_of(op) is not Form.SHIFTS


def finer_bits(form: Form | None) -> int:
    """By how many bits a form reads its argument finer than int8 would have it."""
    match form:
        case Form.TABLE16:
            return (ENTRIES // 256).bit_length() - 1
        case Form.SHIFTS | Form.FLOAT:
            return EXTRA_FRACTION_BITS
        case Form.TABLE | None:
            return 0


def fit_argument(op: graph.UnaryOp) -> None:
    """Store the argument of a function as finely as its form reads it, if that is finer."""
    finer, seen = finer_bits(form_of(op)), interval(op.input)
    if finer and seen is not None:
        set_width(op.input, WIDE)
        set_zero_point(op.input, 0)
        set_exponent(op.input, fitting_exponent(max(-seen[0], seen[1])) - finer)


def shift_bends(op: graph.UnaryOp, scale: float) -> list[int]:
    """Bends in steps of the argument; one out of reach may as well be at the greatest number."""
    exponents = op.channel_exponents or ((0,), (0,))
    assert exponents[0] == exponents[1], "shifts keep factors as they are"
    most = graph.ShiftSwishOp.MAX_BEND
    return [min(round(b / (scale * 2.0**e)), most) for e in exponents[0] for b in BENDS]


@cache
def flat_ends(function: graph.FunctionAttr) -> tuple[float, float]:
    """Bounds outside of which a function hardly changes; infinite where it does."""
    x = np.arange(-REACH, REACH + STEP, STEP).astype(np.float32)
    with np.errstate(all="ignore"):
        y = apply_function(function, x).astype(np.float64)
    if not np.isfinite(y).all():
        return -np.inf, np.inf
    below, above = (int((np.abs(v - v[0]) > FLAT).argmax()) for v in (y, y[::-1]))
    wide = REACH / STEP / 4
    return (
        float(x[below - 1]) if below > wide else -np.inf,
        float(x[len(x) - above]) if above > wide else np.inf,
    )


@dataclass(frozen=True)
class Reading:
    """How one function alone reads a value; kinds are numbers of what it does to channels."""

    bounds: Bounds | None
    kinds: NDArray[np.int64] | None
    functions: tuple[Function, ...]

    def seen(self, array: NDArray[np.float32]) -> Seen:
        """An array, and what matters of it."""
        return Seen(array, self.bounds, self.kinds)


EVERYTHING = Reading(None, None, (identity,))
"""Where no function alone reads a value, all of it matters."""


def reading_of(value: SSAValue) -> Reading:
    """How a value is read if one function alone does it, which becomes a table."""
    uses = list(value.uses)
    if len(uses) != 1 or not is_table(op := uses[0].operation):
        return EVERYTHING
    assert isinstance(op, graph.UnaryOp)
    if (factors := op.channel_factors) is None:
        return Reading(_bounds(op.function, None), None, (_encoded(op.function, (1.0, 1.0)),))
    distinct, kinds = np.unique(np.stack(factors), axis=1, return_inverse=True)
    functions = tuple(_encoded(op.function, (up, down)) for up, down in distinct.T.tolist())
    return Reading(_bounds(op.function, factors[0]), kinds.reshape(-1), functions)


def _encoded(function: graph.FunctionAttr, factors: tuple[float, float]) -> Function:
    """A function of channels times one factor, times another, see `graph.unary`."""
    up, down = factors

    def encoded(x: Sums) -> Sums:
        return apply_function(function, (x * up).astype(np.float32)).astype(np.float64) * down

    return encoded


def _bounds(function: graph.FunctionAttr, up: Reals | None) -> Bounds | None:
    """Between which elements a function is not flat, channel by channel."""
    low, high = flat_ends(function)
    if np.isinf(low) and np.isinf(high):
        return None
    least, most = np.array(low, np.float32), np.array(high, np.float32)
    if up is not None:
        least, most = least / up, most / up
    return Bounds(least, most)


def trimmed(value: SSAValue, array: NDArray[np.float32]) -> NDArray[np.float32]:
    """What matters of a value, see `reading_of`."""
    return reading_of(value).seen(array).whole
