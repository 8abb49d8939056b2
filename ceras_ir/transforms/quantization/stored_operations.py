"""
Operations of a float network on stored numbers, as calibration decided: which storages they read.

The rest follows from types, see `integer_forms`. Where operands are so far apart that a sum
of 32 bits would not hold both, the finer is rounded first.

The quantized counterparts of values are made where a reader asks for them.
"""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import LocationAttr, NameLoc, StringAttr, UnknownLoc
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network.function import NAME
from ceras_ir.network.storage import (
    NARROW,
    ROW_EXPONENTS,
    WEIGHT_EXPONENT,
    WIDE,
    Storage,
    attributes_of,
    drop_statistics,
    factor_exponents,
    narrow_exponent,
    row_exponents,
    weight_exponent,
    width,
)
from ceras_ir.support.diagnostics import Finding, InputError, node_name
from ceras_ir.transforms.quantization.analysis.function_forms import (
    Form,
    finer_bits,
    form_of,
    set_form,
)
from ceras_ir.transforms.quantization.analysis.rescaling import (
    MAX_RIGHT,
    rescaling,
    stored_constant,
)
from ceras_ir.transforms.quantization.analysis.scale_classes import value_storage
from ceras_ir.transforms.quantization.integer_forms import integer_form

# The quantized counterparts of the values of a float network, made where they are asked for.
#
# Each value has one storage and one counterpart; a reader that asks for another gets
# a `graph.requantize`, one per value and storage. Constants are quantized for their readers.


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


MAX_WIDE_WINDOW = 1 << 15
"""Elements from which the sum of a window in 16 bits could leave 32; it is read in 8 bits."""

FINEST_SCORES = -8
"""The exponent of the finest steps that a softmax reads: a table of exponentials has so many."""


def stored_operation(op: GraphOperation, values: QuantizedValues) -> list[GraphOperation]:
    """The operations that replace `op`, which is quantizable; the last has its result."""
    target = values.storage(op.output).element
    operands = _operands(op, values)
    new = integer_form(op, operands, target)
    if new is None and isinstance(op, graph.UnaryOp | graph.SoftmaxOp | graph.NormalizeOp):
        return _in_float(op, operands[0], target)
    if new is None:
        how = "run --align-scales, then --unfuse-residual, first"
        message = f"its bias does not fit 32 bits, or its residual cannot be aligned: {how}"
        raise InputError([Finding(node_name(op), op.name, message)])
    for name in (WEIGHT_EXPONENT, ROW_EXPONENTS):
        new[-1].attributes.pop(name, None)
    owners = [operand.owner for operand in operands]
    made = [o for o in owners if isinstance(o, graph.ConstantOp) and o.parent is None]
    return [*new[:-1], *made, new[-1]]


def _operands(op: GraphOperation, values: QuantizedValues) -> Sequence[SSAValue]:
    """What `op` reads, stored; a bias stays as it is."""
    match op:
        case graph.LinearOperation():
            return _of_linear(op, values)
        case graph.UnaryOp():
            return [_argument(op, values)]
        case graph.SoftmaxOp():
            return [values.get(op.input, max(values.exponent(op.input), FINEST_SCORES))]
        case graph.NormalizeOp():
            return [values.get(op.input)]
        case graph.BinaryOp():
            exponents = _of_binary(op, values)
            return [values.get(v, e) for v, e in zip(op.operands, exponents, strict=True)]
        case _ if op.keeps_scale:
            stored, moved = values.storage(op.output), op.data_operands
            return [values.get_as(v, stored) if v in moved else v for v in op.operands]
        case graph.Pool2dOp() if prod(op.kernel.get_values()) >= MAX_WIDE_WINDOW:
            exponent = values.exponent(op.input)
            if width(op.input) == WIDE:
                exponent = narrow_exponent(op.input, exponent)
            return [values.get(op.input, exponent, NARROW)]
        case _:
            return [values.get(v) for v in op.operands]


def _of_linear(op: graph.LinearOperation, values: QuantizedValues) -> list[SSAValue]:
    source, weights = factor_exponents(op, values.exponent)
    rows = row_exponents(op) or ()
    constant = weight_exponent(op) is not None
    return [
        values.get(op.input, source, None if constant else NARROW),
        _of_rows(op.weights, weights, rows) if rows else values.get(op.weights, weights, NARROW),
        *([] if op.bias is None else [op.bias]),
        *([] if op.residual is None else [values.get(op.residual)]),
    ]


def _of_rows(weights: SSAValue, exponent: int, rows: Sequence[int]) -> SSAValue:
    """Constant weights; `rows` is what to add to the exponent for each output channel."""
    owner = weights.owner
    assert isinstance(owner, graph.ConstantOp)
    return stored_constant(owner.array(), Storage(exponent), owner.location, rows).result


def _argument(op: graph.UnaryOp, values: QuantizedValues) -> SSAValue:
    """What a function reads; of 16 bits those that a table takes, if it becomes one."""
    argument, form = values.storage(op.input), form_of(op)
    narrow = values.storage(op.result).bits == NARROW
    clips = op.function.clip_range is not None
    if clips or argument.bits == NARROW or not narrow or form not in (None, Form.TABLE):
        return values.get(op.input)
    set_form(op, Form.TABLE16)
    exponent = narrow_exponent(op.input, argument.exponent) - finer_bits(Form.TABLE16)
    return values.get(op.input, max(argument.exponent, exponent))


def _of_binary(op: graph.BinaryOp, values: QuantizedValues) -> tuple[int, int]:
    """The exponents at which the operands are read."""
    lhs, rhs, target = (values.exponent(v) for v in (op.lhs, op.rhs, op.result))
    if op.function is graph.Binary.MUL:
        # What a shift of 31 would all but drop loses its last bits first: 2^30 and a half fit.
        return max(lhs, target - rhs - MAX_RIGHT + 1), rhs
    # An operand too fine to be aligned is rounded first; its rest is below 2^-21 of the sum,
    # or 2^-13 where the other one has 16 bits, because a sum has 32.
    coarser = op.lhs if lhs >= rhs else op.rhs
    reach = (values.storage(coarser).element.reach - 1).bit_length()
    least = max(lhs, rhs) - graph.BinaryOp.MAX_SHIFT + reach - NARROW + 1
    return max(lhs, least), max(rhs, least)


def _in_float(op: GraphOperation, input: SSAValue, target: UniformType) -> list[GraphOperation]:
    """The function itself, on the real numbers that its argument stands for."""
    real = graph.DequantizeOp(input)
    function = op.rebuilt([real.result, *op.operands[1:]])
    drop_statistics(function)
    stored = graph.QuantizeOp(function.result, target)
    for new in (real, function, stored):
        new.location = op.location
    return [real, function, stored]
