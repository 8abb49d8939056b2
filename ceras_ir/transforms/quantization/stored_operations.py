"""
Convert operations of a calibrated float network to integer operations.

This file chooses the storage of each operand. `integer_forms` derives the rest from the types. If
two operands differ so much in scale that a sum of 32 bits cannot hold both, the finer operand is
rounded first.
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
    BITS,
    NARROW,
    STORED_TYPE,
    WEIGHT_SCALES,
    WIDE,
    Storage,
    attributes_of,
    drop_statistics,
    factor_exponents,
    narrow_exponent,
    row_scales,
    weight_bits,
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


class QuantizedValues:
    """
    Creates the stored form of float values when a consumer needs it, and keeps it for other
    consumers.

    A value has a single stored form with an exponent, width and zero point. A `graph.requantize` is
    inserted for each other storage that a consumer needs. Constants are quantized for each
    consumer. All inserted operations precede the consumer.
    """

    def __init__(self, block: Block):
        self.first_op = block.first_op
        self.known: dict[tuple[SSAValue, Storage], SSAValue] = {}
        self.replaced: dict[SSAValue, SSAValue] = {}
        self.floats: dict[SSAValue, SSAValue] = {}
        self.storages: dict[SSAValue, Storage] = {}

    def storage(self, value: SSAValue) -> Storage:
        if value not in self.storages:
            self.storages[value] = value_storage(value)
        return self.storages[value]

    def exponent(self, value: SSAValue) -> int:
        return self.storage(value).exponent

    def define(self, value: SSAValue, quantized: SSAValue) -> None:
        """
        Record that `quantized` is the stored form of the float `value`. The operation that computes
        `value` is removed later.
        """
        quantized.name_hint = value.name_hint
        self.known[value, self.storage(value)] = quantized
        self.replaced[value] = quantized

    def get(
        self, value: SSAValue, exponent: int | None = None, bits: int | None = None
    ) -> SSAValue:
        """
        Return the stored form of `value`. If `exponent` or `bits` differ from the storage of the
        value, return it requantized to this scale and width, without zero point.
        """
        own = self.storage(value)
        exponent, bits = own.exponent if exponent is None else exponent, bits or own.bits
        same = (exponent, bits) == (own.exponent, own.bits)
        return self.get_as(value, own if same else Storage(exponent, bits))

    def get_as(self, value: SSAValue, wanted: Storage) -> SSAValue:
        if (value, wanted) not in self.known:
            self.known[value, wanted] = self._create(value, self.storage(value), wanted)
        return self.known[value, wanted]

    def _create(self, value: SSAValue, own: Storage, wanted: Storage) -> SSAValue:
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

    def real(self, value: SSAValue, consumer: Operation) -> SSAValue:
        """
        Return `value` in float for a float operation `consumer`. A value that was replaced by
        integers is dequantized before the first such consumer.
        """
        if value not in self.replaced:
            return value
        if value not in self.floats:
            op = graph.DequantizeOp(self.replaced[value])
            op.location = _location(value)
            op.result.name_hint = value.name_hint
            Rewriter.insert_op(op, InsertPoint.before(consumer))
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
    if isinstance(value.owner, Operation):
        return value.owner.location
    name = attributes_of(value).get(NAME)
    text = name if isinstance(name, StringAttr) else StringAttr(value.name_hint or "input")
    return NameLoc(text, UnknownLoc())


MIN_NARROW_WINDOW = 1 << 15
"""The window elements from which a pooling has an 8-bit operand, to fit 32 bits."""

MIN_SOFTMAX_EXPONENT = -8
"""The exponent of the finest operand of a softmax, the resolution of the exponential table."""


def stored_operation(op: GraphOperation, values: QuantizedValues) -> list[GraphOperation]:
    """
    Return the integer operations that replace the float operation `op`; the last operation computes
    the result. A function without an integer form remains float between dequantization and
    quantization. Raise `InputError` if a bias or residual does not fit.
    """
    target = values.storage(op.output).element
    operands = _operands(op, values)
    new = integer_form(op, operands, target)
    if new is None and isinstance(op, graph.UnaryOp | graph.SoftmaxOp | graph.NormalizeOp):
        return _in_float(op, operands[0], target)
    if new is None:
        remedy = "run --align-scales, then --unfuse-residual, first"
        message = f"the bias does not fit 32 bits, or the residual cannot be aligned: {remedy}"
        raise InputError([Finding(node_name(op), op.name, message)])
    for name in (BITS, STORED_TYPE, *WEIGHT_SCALES):
        new[-1].attributes.pop(name, None)
    owners = [operand.owner for operand in operands]
    constants = [o for o in owners if isinstance(o, graph.ConstantOp) and o.parent is None]
    return [*new[:-1], *constants, new[-1]]


def _operands(op: GraphOperation, values: QuantizedValues) -> Sequence[SSAValue]:
    """
    Return the operands of `op` in stored form, at the scales that the integer operation requires.
    The bias of a layer is returned unchanged.
    """
    match op:
        case graph.LinearOperation():
            return _linear_operands(op, values)
        case graph.UnaryOp():
            return [_function_operand(op, values)]
        case graph.SoftmaxOp():
            return [values.get(op.input, max(values.exponent(op.input), MIN_SOFTMAX_EXPONENT))]
        case graph.NormalizeOp():
            return [values.get(op.input)]
        case graph.BinaryOp():
            exponents = _aligned_exponents(op, values)
            return [values.get(v, e) for v, e in zip(op.operands, exponents, strict=True)]
        case _ if op.keeps_scale:
            stored, moved = values.storage(op.output), op.data_operands
            return [values.get_as(v, stored) if v in moved else v for v in op.operands]
        case graph.Pool2dOp() if prod(op.kernel.get_values()) >= MIN_NARROW_WINDOW:
            exponent = values.exponent(op.input)
            if width(op.input) == WIDE:
                exponent = narrow_exponent(op.input, exponent)
            return [values.get(op.input, exponent, NARROW)]
        case _:
            return [values.get(v) for v in op.operands]


def _linear_operands(op: graph.LinearOperation, values: QuantizedValues) -> list[SSAValue]:
    source, weights = factor_exponents(op, values.exponent)
    constant, bits = weight_exponent(op) is not None, weight_bits(op)
    if rows := row_scales(op):
        owner = op.weights.owner
        assert isinstance(owner, graph.ConstantOp)
        stored = stored_constant(owner.array(), Storage(weights, bits), owner.location, rows)
        stored_weights = stored.result
    else:
        stored_weights = values.get(op.weights, weights, bits)
    return [
        values.get(op.input, source, None if constant else NARROW),
        stored_weights,
        *([] if op.bias is None else [op.bias]),
        *([] if op.residual is None else [values.get(op.residual)]),
    ]


def _function_operand(op: graph.UnaryOp, values: QuantizedValues) -> SSAValue:
    """
    Return the stored operand of a function. If it has 16 bits and the result 8 bits, the function
    becomes a table of 16-bit operands, and the operand gets the scale that this table requires.
    """
    argument, form = values.storage(op.input), form_of(op)
    narrow = values.storage(op.result).bits <= NARROW
    clips = op.function.clip_range is not None
    if clips or argument.bits <= NARROW or not narrow or form not in (None, Form.TABLE):
        return values.get(op.input)
    set_form(op, Form.TABLE16)
    exponent = narrow_exponent(op.input, argument.exponent) - finer_bits(Form.TABLE16)
    return values.get(op.input, max(argument.exponent, exponent))


def _aligned_exponents(op: graph.BinaryOp, values: QuantizedValues) -> tuple[int, int]:
    lhs, rhs, target = (values.exponent(v) for v in (op.lhs, op.rhs, op.result))
    if op.function is graph.Binary.MUL:
        # A shift by 31 would drop nearly all of the product: 2^30 plus a half must fit in 32 bits.
        return max(lhs, target - rhs - MAX_RIGHT + 1), rhs
    # An operand that is too fine to be aligned is rounded first. The rounding error is below 2^-21
    # of the sum, or 2^-13 if the other operand has 16 bits, because a sum has 32 bits.
    coarser = op.lhs if lhs >= rhs else op.rhs
    reach = (values.storage(coarser).element.reach - 1).bit_length()
    min_exponent = max(lhs, rhs) - graph.BinaryOp.MAX_SHIFT + max(reach - NARROW + 1, 0)
    return max(lhs, min_exponent), max(rhs, min_exponent)


def _in_float(op: GraphOperation, input: SSAValue, target: UniformType) -> list[GraphOperation]:
    real = graph.DequantizeOp(input)
    function = op.rebuilt([real.result, *op.operands[1:]])
    drop_statistics(function)
    stored = graph.QuantizeOp(function.result, target)
    for new in (real, function, stored):
        new.location = op.location
    return [real, function, stored]
