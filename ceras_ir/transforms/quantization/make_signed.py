"""Store unsigned quantized numbers as signed ones: numbers and zero point 128 less, for 8 bits."""

from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, IntegerAttr, IntegerType, Signedness, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import RequantizeOp
from ceras_ir.dialects.graph.operation import is_tensor
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.network.ranges import network_values
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.quantization.rewrites.moved_numbers import store_moved


@dataclass(frozen=True)
class MakeSignedPass(NetworkPass):
    """
    Store every value inside the network that has 8 or 16 unsigned bits in signed ones, so that
    accelerators and kernels meet int8 only. Activations with one scale per channel stay. Arguments
    and results of the function keep their types; a `graph.requantize` of multiplier 1 stands at
    each.

    Exact: stored numbers and zero points move by the same constant, so `q - zero_point` stays.
    Clamp ranges move with them.
    """

    name = "make-signed"

    def change(self, main: FuncOp) -> None:
        unsigned = [v for v in network_values(main.body.block) if _signed(v) is not None]
        if not unsigned:
            return
        outside = [v for v in unsigned if not isinstance(v.owner, Operation)]
        for value in unsigned:
            if isinstance(value.owner, Operation) and not _is_border(value):
                _convert(value)
        for argument in outside:
            _at_argument(main, argument)
        _at_results(main)


def _signed(value: SSAValue) -> UniformType | None:
    """The signed type of an unsigned value, None for any other."""
    if not is_tensor(value.type):
        return None
    element = value.type.element_type
    if not isinstance(element, UniformType) or element.is_signed or element.high >= 1 << 16:
        return None
    # No requantization could bring activations with a scale per channel back at the border.
    if element.is_per_axis and not isinstance(value.owner, graph.ConstantOp):
        return None
    half = element.high // 2 + 1
    return UniformType(
        [scale.data for scale in element.scales],
        [point.data - half for point in element.zero_points],
        storage=IntegerType(element.storage.width.data),
        axis=element.axis.data if isinstance(element.axis, IntAttr) else None,
    )


def _unsigned(element: UniformType) -> UniformType:
    """The unsigned type of which `element` is the signed one, per tensor."""
    width = element.storage.width.data
    storage = IntegerType(width, Signedness.UNSIGNED)
    return UniformType(element.scale, element.zero_point + (1 << width - 1), storage=storage)


def _is_border(value: SSAValue) -> bool:
    """Whether this pass has made `value` for a result of the function."""
    owner = value.owner
    only_returned = all(isinstance(use.operation, ReturnOp) for use in value.uses)
    return isinstance(owner, RequantizeOp) and only_returned and _moves(owner.requant)


def _moves(requant: RequantAttr) -> bool:
    return requant.multipliers == (1,) and requant.shift.data == 0


def _moved(value: SSAValue, element: UniformType) -> RequantizeOp:
    """The same number stored as `element`, whose zero point alone differs."""
    low, high = element.low, element.high
    return RequantizeOp(
        value, element, RequantAttr(0, zero_point=element.zero_point, low=low, high=high)
    )


def _convert(value: SSAValue) -> None:
    """Let the operation that makes `value` make the signed numbers."""
    op, element = value.owner, _signed(value)
    assert isinstance(op, Operation) and element is not None
    half = 1 << element.storage.width.data - 1
    if isinstance(op, graph.ConstantOp):
        stored = op.array()
        moved = (stored.astype("int32") - half).astype(f"int{element.storage.width.data}")
        new = graph.ConstantOp.from_array(moved, element, location=op.location)
        Rewriter.insert_op(new, InsertPoint.before(op))
        value.replace_all_uses_with(new.result)
        Rewriter.erase_op(op)
        return
    if isinstance(op, graph.PadOp) and op.function is graph.Pad.CONSTANT:
        op.properties["value"] = IntegerAttr(int(op.stored_value) - half, i64)
    store_moved(value, element, -half)


def _at_argument(main: FuncOp, argument: SSAValue) -> None:
    readers = [use.operation for use in argument.uses]
    if all(isinstance(r, RequantizeOp) and _moves(r.requant) for r in readers):
        return
    element, first = _signed(argument), main.body.block.first_op
    assert element is not None and first is not None
    op = _moved(argument, element)
    op.location = first.location
    Rewriter.insert_op(op, InsertPoint.before(first))
    argument.replace_uses_with_if(op.result, lambda use: use.operation is not op)


def _at_results(main: FuncOp) -> None:
    """Results are returned in the types that the function declares."""
    last = main.body.block.last_op
    assert isinstance(last, ReturnOp)
    for i, (value, declared) in enumerate(
        zip(tuple(last.operands), tuple(main.function_type.outputs), strict=True)
    ):
        if value.type == declared:
            continue
        op = _moved(value, _unsigned(graph.stored_element(value)))
        if isinstance(value.owner, Operation):
            op.location = value.owner.location
        Rewriter.insert_op(op, InsertPoint.before(last))
        last.operands[i] = op.result
