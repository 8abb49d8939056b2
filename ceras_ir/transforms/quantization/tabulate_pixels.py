"""Replace what is computed of single pixels by tables."""

from dataclasses import dataclass

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.quantization.analysis.byte_functions import (
    BYTES,
    ByteFunction,
    byte_function,
)
from ceras_ir.transforms.rebuilding import erase_with_constants


@dataclass(frozen=True)
class TabulatePixelsPass(NetworkPass):
    """
    Replace each `graph.quantize` of a function of one pixel by a `graph.lookup` of the plain ui8.
    Casts, scalings and means, and the quantization itself, become one table, or one per channel
    where channels differ. No image in float is left.

    Channels must be the last dimension for tables of their own. Transpositions on the way, and
    those behind that bring channels there, are done on bytes before.

    Exact: an entry is what the interpreter computes for the byte of its place.
    """

    name = "tabulate-pixels"

    def change(self, main: FuncOp) -> None:
        for inner in list(main.body.block.ops):
            if isinstance(inner, graph.QuantizeOp):
                _tabulate(inner)


def _tabulate(op: graph.QuantizeOp) -> None:
    element = graph.stored_element(op.result)
    function = byte_function(op.result)
    if function is None or element.is_per_axis:
        return
    if element.storage.width.data > 16 or not element.is_signed:
        return
    tables, rows = _distinct(function)
    replaced: list[graph.GraphOperation] = [op]
    if rows is not None and function.channel_dimension != len(function.order) - 1:
        behind = _transposed(op.result)
        if not behind or (last := function.then(behind[0])) is None:
            return
        function, replaced = last, behind
        if function.channel_dimension != len(function.order) - 1:
            return
    _replace(function, replaced, tables, rows, op)


def _distinct(
    function: ByteFunction,
) -> tuple[DenseIntOrFPElementsAttr, tuple[int, ...] | None]:
    """The tables that differ, and which of them each channel has; None where all have one."""
    entries = function.evaluate()
    distinct: dict[bytes, int] = {}
    rows = [distinct.setdefault(row.tobytes(), len(distinct)) for row in entries]
    storage = graph.stored_element(function.steps[-1].output).storage
    shape = [len(distinct), BYTES] if len(distinct) > 1 else [BYTES]
    table = DenseIntOrFPElementsAttr(TensorType(storage, shape), BytesAttr(b"".join(distinct)))
    return table, None if len(distinct) == 1 else tuple(rows)


def _transposed(value: SSAValue) -> list[graph.GraphOperation]:
    """The readers of a value, if all are the same transposition."""
    readers = [use.operation for use in value.uses]
    found = [r for r in readers if isinstance(r, graph.TransposeOp)]
    if len(found) != len(readers) or len({r.permutation for r in found}) != 1:
        return []
    return list(found)


def _replace(
    function: ByteFunction,
    replaced: list[graph.GraphOperation],
    table: DenseIntOrFPElementsAttr,
    rows: tuple[int, ...] | None,
    quantize: graph.QuantizeOp,
) -> None:
    """One lookup in the place of `replaced`, all of which have the same result."""
    first, value = replaced[0], function.source
    new: list[graph.GraphOperation] = []
    if function.order != tuple(range(len(function.order))):
        new.append(graph.TransposeOp(value, function.order))
        value = new[-1].output
    new.append(graph.LookupOp(value, table, graph.element_of(quantize.result), rows))
    for op in new:
        op.location = function.steps[0].location
        for step in function.steps[1:]:
            op.location = fused_location(op, step)
    Rewriter.insert_op(new, InsertPoint.before(first))
    for op in replaced:
        op.output.replace_all_uses_with(new[-1].output)
    # What nothing reads any more goes, last ones first.
    gone: list[Operation] = [*replaced, *reversed(function.steps)]
    for op in dict.fromkeys(gone):
        if not any(result.uses for result in op.results):
            erase_with_constants(op)
