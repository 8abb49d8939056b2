"""The ends of a quantized network as they are stored, without `graph.quantize` between."""

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from ceras_ir.dialects.graph import DequantizeOp, QuantizeOp
from ceras_ir.transforms.rebuilding import erase_unused


def stored_type(argument: SSAValue) -> Attribute | None:
    """The one type that an argument is only ever quantized to."""
    readers = [use.operation for use in argument.uses]
    types = {r.result.type if isinstance(r, QuantizeOp) else None for r in readers}
    return types.pop() if len(types) == 1 else None


def take_stored(argument: SSAValue) -> None:
    """Give an argument the type that it is quantized to, if that is one."""
    if (kind := stored_type(argument)) is None:
        return
    quantizers = [use.operation for use in argument.uses]
    stored = Rewriter.replace_value_with_new_type(argument, kind)
    for quantizer in quantizers:
        quantizer.results[0].replace_all_uses_with(stored)
        Rewriter.erase_op(quantizer)


def returned_as_stored(main: FuncOp, position: int) -> None:
    """Return a result that is dequantized as it is stored."""
    last = main.body.block.last_op
    assert last is not None
    value = last.operands[position]
    if isinstance(value.owner, DequantizeOp):
        last.operands[position] = value.owner.input
        erase_unused(value.owner)
