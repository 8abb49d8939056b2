"""The quantized form of functions of one argument: a clamp, tables, shifts, or float in between."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.precision import FINER, NARROW, WIDE, limits
from ceras_ir.transforms.quantization.analysis.function_forms import (
    ENTRIES,
    Form,
    finer_bits,
    form_of,
    shift_bends,
)
from ceras_ir.transforms.quantization.analysis.quantized_constants import (
    lookup_table,
    lookup_tables,
)
from ceras_ir.transforms.quantization.analysis.rescaling import rescaling, rescaling_to
from ceras_ir.transforms.quantization.rewrites.quantized_values import QuantizedValues

TABLE_BITS = finer_bits(Form.TABLE16)
"""By how many bits a table on 16 bits is finer than one on int8."""

FUNCTION = "graph.function"
"""Attribute of a `graph.lookup`: the function that its table was made from."""


INPUT_EXPONENTS, RESULT_EXPONENTS = "graph.input_exponents", "graph.result_exponents"
"""Attributes of a `graph.lookup` with rows: the exponents of `graph.unary`, one per channel."""


def set_exponents(op: graph.LookupOp, before: Sequence[int], after: Sequence[int]) -> None:
    """Say which powers of two of its scales the channels of a table stand for."""
    op.attributes[INPUT_EXPONENTS] = integers(before)
    op.attributes[RESULT_EXPONENTS] = integers(after)


def exponents_of(op: graph.LookupOp) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """What `set_exponents` said."""
    found = [op.attributes.get(name) for name in (INPUT_EXPONENTS, RESULT_EXPONENTS)]
    lists = [tuple(int(v) for v in f.get_values()) for f in found if isinstance(f, DenseArrayBase)]
    return (lists[0], lists[1]) if len(lists) == 2 else None


def unary_form(op: graph.UnaryOp, values: QuantizedValues) -> list[GraphOperation]:
    """The operations that replace a function; the last has its result."""
    argument, result = values.storage(op.input), values.storage(op.result)
    element, narrow = result.element, result.bits == NARROW
    if op.function.clip_range is not None:
        requant = rescaling_to(result, argument.exponent, (argument.zero_point,), op.function)
        made: GraphOperation = graph.RequantizeOp(values.get(op.input), element, requant)
    elif narrow and argument.bits == WIDE and form_of(op) is Form.SHIFTS:
        made = _shifts(op, values, argument.exponent, element)
    elif narrow and (argument.bits == NARROW or form_of(op) is Form.TABLE16):
        made = _tables(op, values.get(op.input), element)
    elif narrow and form_of(op) is not Form.FLOAT:
        # The argument has more bits than a table takes: those that it takes, rounded.
        made = _tables(op, values.get(op.input, argument.exponent + FINER - TABLE_BITS), element)
    else:
        return _in_float(op, values, element)
    made.location = op.location
    return [made]


def _tables(op: graph.UnaryOp, input: SSAValue, element: UniformType) -> graph.LookupOp:
    """One table, or one for each pair of exponents that channels have."""
    source = graph.stored_element(input)
    entries = 256 if source.storage.width.data == NARROW else ENTRIES
    if (exponents := op.channel_exponents) is None:
        made = graph.LookupOp(input, lookup_table(op.function, source, element, entries), element)
    else:
        pairs = list(zip(*exponents, strict=True))
        distinct = sorted(set(pairs))
        tables = lookup_tables(op.function, source, element, distinct, entries)
        rows = [distinct.index(pair) for pair in pairs]
        made = graph.LookupOp(input, tables, element, rows)
        set_exponents(made, *exponents)
    made.attributes[FUNCTION] = op.function
    return made


def _shifts(
    op: graph.UnaryOp, values: QuantizedValues, source: int, element: UniformType
) -> graph.ShiftSwishOp:
    requant = rescaling(source, values.exponent(op.result), limits(NARROW))
    return graph.ShiftSwishOp(values.get(op.input), shift_bends(op, source), element, requant)


def _in_float(
    op: graph.UnaryOp, values: QuantizedValues, element: UniformType
) -> list[GraphOperation]:
    """The function itself, on the real numbers that its argument stands for."""
    real = graph.DequantizeOp(values.get(op.input))
    function = graph.UnaryOp(real.result, op.function)
    function.input_exponents, function.result_exponents = op.input_exponents, op.result_exponents
    stored = graph.QuantizeOp(function.result, element)
    for new in (real, function, stored):
        new.location = op.location
    return [real, function, stored]
