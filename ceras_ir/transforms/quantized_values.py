"""
The quantized counterparts of the values of a float network, made where they are asked for.

Each value has one exponent, one width and one counterpart; a reader that asks for others gets
a `graph.requantize`, one per value and form. Constants are quantized for their readers.
"""

from __future__ import annotations

from xdsl.dialects.builtin import LocationAttr, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.analysis.network import NAME
from ceras_ir.analysis.precision import limits, width
from ceras_ir.analysis.quantized_constants import stored_constant, stored_type
from ceras_ir.analysis.ranges import attributes_of
from ceras_ir.analysis.rescaling import rescaling
from ceras_ir.analysis.scale_classes import value_exponent
from ceras_ir.dialects import graph


class QuantizedValues:
    """Finds and makes quantized values; everything it inserts dominates the reader."""

    def __init__(self, block: Block):
        self.first_op = block.first_op
        self.known: dict[tuple[SSAValue, int, int], SSAValue] = {}
        self.replaced: dict[SSAValue, SSAValue] = {}
        self.floats: dict[SSAValue, SSAValue] = {}
        self.exponents: dict[SSAValue, int] = {}

    def exponent(self, value: SSAValue) -> int:
        """The exponent of a value of the float network."""
        if value not in self.exponents:
            self.exponents[value] = value_exponent(value)
        return self.exponents[value]

    def define(self, value: SSAValue, quantized: SSAValue) -> None:
        """`quantized` takes the place of `value`, whose operation goes."""
        quantized.name_hint = value.name_hint
        self.known[value, self.exponent(value), width(value)] = quantized
        self.replaced[value] = quantized

    def get(
        self, value: SSAValue, exponent: int | None = None, bits: int | None = None
    ) -> SSAValue:
        """The counterpart of `value`, of another exponent or width than its own if one is given."""
        own = self.exponent(value), width(value)
        wanted = own[0] if exponent is None else exponent, bits or own[1]
        if (value, *wanted) not in self.known:
            self.known[value, *wanted] = self._made(value, own, wanted)
        return self.known[value, *wanted]

    def _made(self, value: SSAValue, own: tuple[int, int], wanted: tuple[int, int]) -> SSAValue:
        owner, (exponent, bits) = value.owner, wanted
        if isinstance(owner, graph.ConstantOp):
            constant = stored_constant(owner.array(), exponent, owner.location, bits)
            Rewriter.insert_op(constant, InsertPoint.after(owner))
            return constant.result
        if own == wanted:
            return self._insert(graph.QuantizeOp(value, stored_type(*own)), value)
        source = self.get(value)
        requant = rescaling(own[0], exponent, limits(bits))
        op = graph.RequantizeOp(source, stored_type(*wanted), requant)
        return self._insert(op, source)

    def real(self, value: SSAValue, reader: Operation) -> SSAValue:
        """The float value for an operation that stays float, made before the first of those."""
        if value not in self.replaced:
            return value
        if value not in self.floats:
            op = graph.DequantizeOp(self.replaced[value])
            op.location = _location(value)
            op.result.name_hint = value.name_hint
            Rewriter.insert_op(op, InsertPoint.before(reader))
            self.floats[value] = op.result
        return self.floats[value]

    def _insert(self, op: graph.QuantizeOp | graph.RequantizeOp, after: SSAValue) -> SSAValue:
        op.location = _location(after)
        if isinstance(after, BlockArgument):
            assert self.first_op is not None
            Rewriter.insert_op(op, InsertPoint.before(self.first_op))
        else:
            assert isinstance(after.owner, Operation)
            Rewriter.insert_op(op, InsertPoint.after(after.owner))
        return op.result


def _location(value: SSAValue) -> LocationAttr:
    """Where a value comes from: its operation's location, or an argument by its name."""
    if isinstance(value.owner, Operation):
        return value.owner.location
    name = attributes_of(value).get(NAME)
    text = name if isinstance(name, StringAttr) else StringAttr(value.name_hint or "input")
    return NameLoc(text, UnknownLoc())
