"""
The quantized counterparts of the values of a float network, made where they are asked for.

Each value has one storage and one counterpart; a reader that asks for another gets
a `graph.requantize`, one per value and storage. Constants are quantized for their readers.
"""

from xdsl.dialects.builtin import LocationAttr, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.network.function import NAME
from ceras_ir.network.storage import Storage, attributes_of
from ceras_ir.transforms.quantization.analysis.quantized_constants import stored_constant
from ceras_ir.transforms.quantization.analysis.rescaling import rescaling
from ceras_ir.transforms.quantization.analysis.scale_classes import value_storage


class QuantizedValues:
    """Finds and makes quantized values; everything it inserts dominates the reader."""

    def __init__(self, block: Block):
        self.first_op = block.first_op
        self.known: dict[tuple[SSAValue, Storage], SSAValue] = {}
        self.replaced: dict[SSAValue, SSAValue] = {}
        self.floats: dict[SSAValue, SSAValue] = {}
        self.storages: dict[SSAValue, Storage] = {}

    def storage(self, value: SSAValue) -> Storage:
        """How a value of the float network is stored."""
        if value not in self.storages:
            self.storages[value] = value_storage(value)
        return self.storages[value]

    def exponent(self, value: SSAValue) -> int:
        """The exponent of a value of the float network."""
        return self.storage(value).exponent

    def define(self, value: SSAValue, quantized: SSAValue) -> None:
        """`quantized` takes the place of `value`, whose operation goes."""
        quantized.name_hint = value.name_hint
        self.known[value, self.storage(value)] = quantized
        self.replaced[value] = quantized

    def get(
        self, value: SSAValue, exponent: int | None = None, bits: int | None = None
    ) -> SSAValue:
        """
        The counterpart of `value`; of another exponent or width than its own if one is given,
        and then without zero point.
        """
        own = self.storage(value)
        exponent, bits = own.exponent if exponent is None else exponent, bits or own.bits
        same = (exponent, bits) == (own.exponent, own.bits)
        return self.get_as(value, own if same else Storage(exponent, bits))

    def get_as(self, value: SSAValue, wanted: Storage) -> SSAValue:
        """The counterpart of `value`, stored as `wanted`."""
        if (value, wanted) not in self.known:
            self.known[value, wanted] = self._made(value, self.storage(value), wanted)
        return self.known[value, wanted]

    def _made(self, value: SSAValue, own: Storage, wanted: Storage) -> SSAValue:
        owner, element = value.owner, wanted.element
        if isinstance(owner, graph.ConstantOp):
            constant = stored_constant(owner.array(), wanted, owner.location)
            Rewriter.insert_op(constant, InsertPoint.after(owner))
            return constant.result
        if own == wanted:
            return self._insert(graph.QuantizeOp(value, element), value)
        source = self.get_as(value, own)
        factor, clamp = own.element.scale / element.scale, (element.low, element.high)
        requant = rescaling(factor, (own.element,), element, clamp)
        return self._insert(graph.RequantizeOp(source, element, requant), source)

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
