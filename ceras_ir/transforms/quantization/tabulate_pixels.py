"""
Values that are a function of one pixel each: what a uint8 image becomes before the first layer.

Such a function takes 256 numbers, in every channel at most, so that it can be evaluated whole. The
interpreter computes them, operation by operation, on every byte in every channel at once.

The pass `tabulate-pixels` replaces what is computed of single pixels by tables.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, Float32Type, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.dialects.graph.operation import element_of, is_tensor, shape_of
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import module_of
from ceras_ir.support.diagnostics import fused_location
from ceras_ir.transforms.pass_kinds import NetworkPass
from ceras_ir.transforms.rebuilding import erase_with_constants

Array = NDArray[np.generic]

BYTES = 256


@dataclass(frozen=True)
class ByteFunction:
    """How a value follows from plain ui8, element by element and in another order."""

    source: SSAValue
    steps: tuple[graph.GraphOperation, ...]
    """In the order in which they are computed; none if the value is `source` itself."""
    order: tuple[int, ...]
    """Dimension `i` of the value is dimension `order[i]` of `source`."""
    axis: int | None
    """The dimension of `source` along which the function differs, if there is one."""

    @property
    def channels(self) -> int:
        return 1 if self.axis is None else shape_of(self.source)[self.axis]

    @property
    def channel_dimension(self) -> int | None:
        """The dimension of the value along which the function differs."""
        return None if self.axis is None else self.order.index(self.axis)

    def then(self, op: graph.GraphOperation) -> "ByteFunction | None":
        """The function with one more step; None if that is more than a function of a pixel."""
        if isinstance(op, graph.TransposeOp):
            order = tuple(self.order[p] for p in op.permutation.get_values())
            return ByteFunction(self.source, (*self.steps, op), order, self.axis)
        constants = [v for v in op.operands if isinstance(v.owner, graph.ConstantOp)]
        if not isinstance(op, COMPUTED) or len(op.operands) - len(constants) != 1:
            return None
        if shape_of(op.output) != tuple(shape_of(self.source)[d] for d in self.order):
            return None
        axes = {self.axis} - {None}
        for constant in constants:
            shape = shape_of(constant)
            offset = len(self.order) - len(shape)
            axes |= {self.order[d + offset] for d, extent in enumerate(shape) if extent > 1}
        if isinstance(op, graph.UnaryOp) and op.channel_exponents is not None:
            axes.add(self.order[-1])
        if len(axes) > 1 or (axes and len(self.order) < 2):
            return None
        return ByteFunction(self.source, (*self.steps, op), self.order, next(iter(axes), None))

    def evaluate(self) -> Array:
        """What every byte becomes: one row per channel, 256 entries each."""
        rank = len(self.order)
        along = next(d for d in range(rank) if d != self.axis)
        shape = [BYTES if d == along else 1 for d in range(rank)]
        grid = np.arange(BYTES, dtype=np.uint8).reshape(shape)
        if self.axis is not None:
            shape[self.axis] = self.channels
        value: Array = np.broadcast_to(grid, shape)
        interpreter = interpreter_of(module_of(self.steps[0]))
        with np.errstate(all="ignore"):
            for step in self.steps:
                operands = [
                    v.owner.array() if isinstance(v.owner, graph.ConstantOp) else value
                    for v in step.operands
                ]
                (value,) = interpreter.run_op(step, tuple(operands))
        at = self.order.index(along)
        if self.axis is None:
            return value.reshape(1, BYTES)
        moved = np.moveaxis(value, (self.order.index(self.axis), at), (0, 1))
        return moved.reshape(self.channels, BYTES)


COMPUTED = (graph.CastOp, graph.UnaryOp, graph.BinaryOp, graph.QuantizeOp)
"""Operations that compute each element of one other, beside constants."""


def byte_function(value: SSAValue) -> ByteFunction | None:
    """How `value` follows from plain ui8; None if it does not, or not pixel by pixel."""
    steps: list[graph.GraphOperation] = []
    while not _is_bytes(value):
        op = value.owner
        if not isinstance(op, Operation) or (source := _computed_of(op)) is None:
            return None
        assert isinstance(op, graph.GraphOperation)
        steps.append(op)
        value = source
    found: ByteFunction | None = _identity(value)
    for op in reversed(steps):
        if found is not None:
            found = found.then(op)
    return found


def byte_values(ops: list[Operation]) -> dict[SSAValue, ByteFunction]:
    """The float values of a network that are functions of a pixel, in order."""
    # From the pixels on: looking back from each value takes quadratic time.
    known: dict[SSAValue, ByteFunction] = {}
    for op in ops:
        if (source := _computed_of(op)) is None:
            continue
        assert isinstance(op, graph.GraphOperation)
        before = _identity(source) if _is_bytes(source) else known.get(source)
        if before is not None and (function := before.then(op)) is not None:
            known[op.output] = function
    return {value: f for value, f in known.items() if isinstance(element_of(value), Float32Type)}


def _is_bytes(value: SSAValue) -> bool:
    return is_tensor(value.type) and element_of(value) == BYTE


def _identity(value: SSAValue) -> ByteFunction:
    return ByteFunction(value, (), tuple(range(len(shape_of(value)))), None)


def _computed_of(op: Operation) -> SSAValue | None:
    """Return the operand that each element of the result is computed from, one from one."""
    if not isinstance(op, (*COMPUTED, graph.TransposeOp)):
        return None
    operands = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
    return operands[0] if len(operands) == 1 else None


# Replace what is computed of single pixels by tables.


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
