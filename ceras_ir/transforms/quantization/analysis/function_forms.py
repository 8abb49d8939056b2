"""
Choose forms of functions of one argument in a quantized network, and find the flat parts of
functions.

The attribute `graph.form` of a `graph.unary` specifies the form. Without it, a function is a table
of int8 operands, unless a pass decides.

1. "table": a table of 256 entries for int8 operands;
2. "table16": a table of `ENTRIES` for 16-bit operands;
3. "shifts": `graph.shift_swish` on 16-bit operands;
4. "float": the float function of a 16-bit operand.
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
    Floats,
    ObservedArray,
    SumFunction,
    Sums,
    identity,
)

FORM = "graph.form"

ENTRIES = 1024
"""The entries of a table of 16-bit operands, which are four times as fine as int8."""

FLAT_SEARCH_RANGE, FLAT_SEARCH_STEP, FLAT_TOLERANCE = 64.0, 1 / 16, 2.0**-9
"""The range and step of the search for flat parts of functions, and the tolerance of flatness."""


class Form(StrEnum):
    """
    The implementation of a unary function after quantization; the default is a table of int8
    operands.
    """

    TABLE = "table"
    TABLE16 = "table16"
    SHIFTS = "shifts"
    FLOAT = "float"


def form_of(op: Operation) -> Form | None:
    """
    Return the form that the attribute `graph.form` of a function specifies, or `None` without the
    attribute.
    """
    form = op.attributes.get(FORM)
    return Form(form.data) if isinstance(form, StringAttr) and form.data in set(Form) else None


def set_form(op: Operation, form: Form) -> None:
    op.attributes[FORM] = StringAttr(form.value)


def quantized_form(op: Operation) -> Form | None:
    """
    Return the form in which an operation of a quantized network computes a function: a table of
    int8 or 16-bit operands, shifts, or float. Return `None` for other operations.
    """
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
    """
    Return whether quantization will replace a float operation by a lookup table (or by shifts): it
    is a function that does more than clip, and is not kept in float.
    """
    return (
        isinstance(op, graph.UnaryOp)
        and op.function.clip_range is None
        and not is_kept_in_float(op)
    )


def reads_sum(op: graph.UnaryOp) -> bool:
    """
    Return whether the operand of a function is the result of a convolution or matrix product and
    has no other consumer. The operand can then be stored in 16 bits.
    """
    producer = op.input.owner
    return (
        isinstance(producer, graph.LinearOperation)
        and has_quantized_form(producer)
        and op.input.has_one_use()
    )


def separates(op: Operation) -> bool:
    """
    Return whether the channels of operand and result may have different factors. This holds for a
    function that becomes a lookup table, because the table absorbs the factors, but not for a
    function that is computed by shifts.
    """
    return is_table(op) and form_of(op) is not Form.SHIFTS


def finer_bits(form: Form | None) -> int:
    """
    Return the number of additional fractional bits that the operand of a function of this form has,
    compared with int8: 0 for a table of int8 operands.
    """
    match form:
        case Form.TABLE16:
            return (ENTRIES // 256).bit_length() - 1
        case Form.SHIFTS | Form.FLOAT:
            return EXTRA_FRACTION_BITS
        case Form.TABLE | None:
            return 0


def fit_argument(op: graph.UnaryOp) -> None:
    """
    Mark the operand of a function to be stored in 16 bits at the scale that the form of the
    function requires. Change nothing if the form needs only int8, or if no range is recorded.
    """
    finer, bounds = finer_bits(form_of(op)), interval(op.input)
    if finer and bounds is not None:
        set_width(op.input, WIDE)
        set_zero_point(op.input, 0)
        set_exponent(op.input, fitting_exponent(max(-bounds[0], bounds[1])) - finer)


def shift_bends(op: graph.UnaryOp, scale: float) -> list[int]:
    """
    Return the constants of `graph.shift_swish` (an approximation of swish by shifts) in units of
    `scale`, the scale of the operand: five integers, or five for each channel. They are limited to
    the largest integer.
    """
    exponents = op.channel_exponents or ((0,), (0,))
    assert exponents[0] == exponents[1], "shifts keep factors as they are"
    max_bend = graph.ShiftSwishOp.MAX_BEND
    return [min(round(b / (scale * 2.0**e)), max_bend) for e in exponents[0] for b in BENDS]


@cache
def flat_bounds(function: graph.FunctionAttr) -> tuple[float, float]:
    """
    Return two arguments: below the first and above the second, the function is nearly constant.
    They are -inf and inf if the function is flat nowhere. Sigmoid, for example, is flat on both
    sides.
    """
    x = np.arange(
        -FLAT_SEARCH_RANGE, FLAT_SEARCH_RANGE + FLAT_SEARCH_STEP, FLAT_SEARCH_STEP
    ).astype(np.float32)
    with np.errstate(all="ignore"):
        y = apply_function(function, x).astype(np.float64)
    if not np.isfinite(y).all():
        return -np.inf, np.inf
    below, above = (int((np.abs(v - v[0]) > FLAT_TOLERANCE).argmax()) for v in (y, y[::-1]))
    wide = FLAT_SEARCH_RANGE / FLAT_SEARCH_STEP / 4
    return (
        float(x[below - 1]) if below > wide else -np.inf,
        float(x[len(x) - above]) if above > wide else np.inf,
    )


@dataclass(frozen=True)
class Reading:
    """
    The functions that the only consumer of a value applies to it, so that errors can be measured
    after them. `functions` are the distinct functions, and `kinds` has the index of the function of
    each channel. Outside of `bounds`, elements do not change the result.
    """

    bounds: Bounds | None
    kinds: NDArray[np.int64] | None
    functions: tuple[SumFunction, ...]

    def observed(self, array: NDArray[np.float32]) -> ObservedArray:
        """
        Return `array` in the form that observers accept, with the bounds beyond which elements do
        not change the result of the consumer.
        """
        return ObservedArray(array, self.bounds, self.kinds)


UNBOUNDED_READING = Reading(None, None, (identity,))
"""
The reading of a value that has several consumers, or whose only consumer does not become a lookup
table.
"""


def reading_of(value: SSAValue) -> Reading:
    """
    Return the functions that the only consumer of a value applies, if this consumer will become a
    lookup table. For other values return a reading with the identity and without bounds.
    """
    uses = list(value.uses)
    if len(uses) != 1 or not is_table(op := uses[0].operation):
        return UNBOUNDED_READING
    assert isinstance(op, graph.UnaryOp)
    if (factors := op.channel_factors) is None:
        return Reading(_bounds(op.function, None), None, (_encoded(op.function, (1.0, 1.0)),))
    slopes = op.function.slopes or np.zeros(len(factors[0]), np.float32)
    _, first, kinds = np.unique(
        np.stack([*factors, slopes]), axis=1, return_index=True, return_inverse=True
    )
    functions = tuple(
        _encoded(op.function.of_channel(c), (float(factors[0][c]), float(factors[1][c])))
        for c in first.tolist()
    )
    bounds = _bounds(op.function.of_channel(0), factors[0])
    return Reading(bounds, kinds.reshape(-1), functions)


def _encoded(function: graph.FunctionAttr, factors: tuple[float, float]) -> SumFunction:
    up, down = factors

    def encoded(x: Sums) -> Sums:
        return apply_function(function, (x * up).astype(np.float32)).astype(np.float64) * down

    return encoded


def _bounds(function: graph.FunctionAttr, up: Floats | None) -> Bounds | None:
    lower_bound, upper_bound = flat_bounds(function)
    if np.isinf(lower_bound) and np.isinf(upper_bound):
        return None
    low, high = np.array(lower_bound, np.float32), np.array(upper_bound, np.float32)
    if up is not None:
        low, high = low / up, high / up
    return Bounds(low, high)


def trimmed(value: SSAValue, array: NDArray[np.float32]) -> NDArray[np.float32]:
    """
    Clip the elements `array` of `value` to the bounds beyond which the function that consumes the
    value is nearly constant, because larger errors have no effect.
    """
    return reading_of(value).observed(array).clipped
