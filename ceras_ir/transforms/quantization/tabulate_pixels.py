"""
Replace functions of single pixels of uint8 images by tables.

Such a function has 256 results, for each channel if channels differ. The interpreter evaluates the
operations on all bytes of all channels at once.
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

BYTE_VALUES = 256


@dataclass(frozen=True)
class ByteFunction:
    """
    A function of a single ui8 pixel that computes each element of a value: `steps` are the
    operations from `source`, which contains the pixels, to the value. The axes of the value may be
    permuted.
    """

    source: SSAValue
    steps: tuple[graph.GraphOperation, ...]
    """The operations in order, empty if the value is `source`."""
    order: tuple[int, ...]
    """Axis `i` of the value is axis `order[i]` of `source`."""
    axis: int | None
    """The axis of `source` along which the function differs, if there is one."""

    @property
    def channels(self) -> int:
        return 1 if self.axis is None else shape_of(self.source)[self.axis]

    @property
    def channel_dimension(self) -> int | None:
        """
        The axis of the value along which the function differs (the channels), or `None` if all
        elements have the same function.
        """
        return None if self.axis is None else self.order.index(self.axis)

    def then(self, op: graph.GraphOperation) -> "ByteFunction | None":
        """
        Return this function followed by `op`, or `None` if the result does not depend on a single
        pixel only.
        """
        if isinstance(op, graph.TransposeOp):
            order = tuple(self.order[p] for p in op.permutation.get_values())
            return ByteFunction(self.source, (*self.steps, op), order, self.axis)
        constants = [v for v in op.operands if isinstance(v.owner, graph.ConstantOp)]
        if not isinstance(op, PIXEL_OPERATIONS) or len(op.operands) - len(constants) != 1:
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
        """
        Return the results of the function for the 256 possible pixels, as an array [channels, 256],
        with a single row if channels do not differ.
        """
        rank = len(self.order)
        along = next(d for d in range(rank) if d != self.axis)
        shape = [BYTE_VALUES if d == along else 1 for d in range(rank)]
        grid = np.arange(BYTE_VALUES, dtype=np.uint8).reshape(shape)
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
            return value.reshape(1, BYTE_VALUES)
        moved = np.moveaxis(value, (self.order.index(self.axis), at), (0, 1))
        return moved.reshape(self.channels, BYTE_VALUES)


PIXEL_OPERATIONS = (graph.CastOp, graph.UnaryOp, graph.BinaryOp, graph.QuantizeOp)
"""The operations that compute each element from an element of a single operand and constants."""


def byte_function(value: SSAValue) -> ByteFunction | None:
    """
    Return the function of a single ui8 pixel that computes each element of `value`, or `None` if
    elements depend on something else.
    """
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
    """
    Return the float values of a network, in order, in which each element depends on a single ui8
    pixel, with the function of the pixel.
    """
    # Start at the pixels: a search from each value would have quadratic complexity.
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
    if not isinstance(op, (*PIXEL_OPERATIONS, graph.TransposeOp)):
        return None
    operands = [v for v in op.operands if not isinstance(v.owner, graph.ConstantOp)]
    return operands[0] if len(operands) == 1 else None


@dataclass(frozen=True)
class TabulatePixelsPass(NetworkPass):
    """
    Replace the operations between an 8-bit image and a `graph.quantize` by a `graph.lookup`, if
    each result depends only on a single pixel. The image has the type ui8, without scale and zero
    point.

    Casts, scalings, subtractions of a mean and the quantization become a single table of 256
    entries, or a table per channel if channels differ. No float image is stored.

    Tables per channel need channels as the last axis. Transpositions before the quantization, and
    transpositions after it that move channels there, are applied to the image instead.

    Exact: the interpreter computes each entry.
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
        following = _transposed(op.result)
        if not following or (last := function.then(following[0])) is None:
            return
        function, replaced = last, following
        if function.channel_dimension != len(function.order) - 1:
            return
    _replace(function, replaced, tables, rows, op)


def _distinct(
    function: ByteFunction,
) -> tuple[DenseIntOrFPElementsAttr, tuple[int, ...] | None]:
    """
    Return the lookup tables of a function without duplicates, and the index of the table of each
    channel; `None` instead of indices if all channels have the same table.
    """
    entries = function.evaluate()
    distinct: dict[bytes, int] = {}
    rows = [distinct.setdefault(row.tobytes(), len(distinct)) for row in entries]
    storage = graph.stored_element(function.steps[-1].output).storage
    shape = [len(distinct), BYTE_VALUES] if len(distinct) > 1 else [BYTE_VALUES]
    table = DenseIntOrFPElementsAttr(TensorType(storage, shape), BytesAttr(b"".join(distinct)))
    return table, None if len(distinct) == 1 else tuple(rows)


def _transposed(value: SSAValue) -> list[graph.GraphOperation]:
    users = [use.operation for use in value.uses]
    found = [user for user in users if isinstance(user, graph.TransposeOp)]
    if len(found) != len(users) or len({op.permutation for op in found}) != 1:
        return []
    return list(found)


def _replace(
    function: ByteFunction,
    replaced: list[graph.GraphOperation],
    table: DenseIntOrFPElementsAttr,
    rows: tuple[int, ...] | None,
    quantize: graph.QuantizeOp,
) -> None:
    """
    Replace the operations `replaced`, which have equal results, by a single lookup in `table`.
    `rows` are the indices of the tables of channels.
    """
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
    # Erase unused operations, the last first.
    unused: list[Operation] = [*replaced, *reversed(function.steps)]
    for op in dict.fromkeys(unused):
        if not any(result.uses for result in op.results):
            erase_with_constants(op)
