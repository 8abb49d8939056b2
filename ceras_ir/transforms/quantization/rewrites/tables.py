"""Tables in the place of functions of one argument, and what they were made from."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.attributes import integers
from ceras_ir.dialects.quant import UniformType
from ceras_ir.transforms.quantization.analysis.quantized_constants import lookup_table

FUNCTION = "graph.function"
"""Attribute of a `graph.lookup`: the function that its table was made from."""

INPUT_EXPONENTS, RESULT_EXPONENTS = "graph.input_exponents", "graph.result_exponents"
"""Attributes of a `graph.lookup` with rows: the exponents of `graph.unary`, one per channel."""


def table(
    function: graph.FunctionAttr,
    input: SSAValue,
    target: UniformType,
    entries: int,
    exponents: tuple[Sequence[int], Sequence[int]] | None,
) -> graph.LookupOp:
    """One table, or one for each pair of exponents that channels have."""
    source = graph.stored_element(input)
    if exponents is None:
        made = graph.LookupOp(input, lookup_table(function, source, target, entries), target)
    else:
        pairs = list(zip(*exponents, strict=True))
        distinct = sorted(set(pairs))
        tables = lookup_table(function, source, target, entries, distinct)
        made = graph.LookupOp(input, tables, target, [distinct.index(pair) for pair in pairs])
        made.attributes[INPUT_EXPONENTS] = integers(exponents[0])
        made.attributes[RESULT_EXPONENTS] = integers(exponents[1])
    made.attributes[FUNCTION] = function
    return made


def exponents_of(op: graph.LookupOp) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Which powers of two of its scales the channels of a table stand for."""
    found = [op.attributes.get(name) for name in (INPUT_EXPONENTS, RESULT_EXPONENTS)]
    lists = [tuple(int(v) for v in f.get_values()) for f in found if isinstance(f, DenseArrayBase)]
    return (lists[0], lists[1]) if len(lists) == 2 else None
