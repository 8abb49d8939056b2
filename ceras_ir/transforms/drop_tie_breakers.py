"""Take out the small constants by which a Q/DQ network says that it rounds half up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ceras_ir.analysis.network import main_function
from ceras_ir.analysis.qdq import only_moves
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.dialects.quant import UniformType


@dataclass(frozen=True)
class DropTieBreakersPass(ModulePass):
    """
    `quantize(x + c)` becomes `quantize(x)` where c is positive and below half a unit of the sum
    that x is, and the integer operation that `fold-qdq` will make of both rounds half up.

    QuantizeLinear rounds ties to even; with c no tie is left, and what was one goes up. So
    the network says in ONNX what the integer operation does: exact in the integers.
    """

    name = "drop-tie-breakers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for quantize in list(main_function(op).body.block.ops):
            if not isinstance(quantize, graph.QuantizeOp):
                continue
            added = quantize.input.owner
            if not isinstance(added, graph.BinaryOp) or not quantize.input.has_one_use():
                continue
            value = _without_breaker(added, quantize)
            if value is None:
                continue
            quantize.operands[0] = value
            Rewriter.erase_op(added)


def _without_breaker(added: graph.BinaryOp, quantize: graph.QuantizeOp) -> SSAValue | None:
    """What a constant is added to, if that constant only decides ties."""
    if added.function is not graph.Binary.ADD or added.activation is not None:
        return None
    for value, other in ((added.lhs, added.rhs), (added.rhs, added.lhs)):
        constant = graph.constant_array(other)
        if constant is None or constant.dtype != "float32" or value.type != added.result.type:
            continue
        if _only_breaks_ties(value, constant.astype("float32"), quantize):
            return value
    return None


def _only_breaks_ties(
    value: SSAValue, constant: NDArray[np.float32], quantize: graph.QuantizeOp
) -> bool:
    import numpy as np

    from ceras_ir.analysis.accumulator_unit import accumulator_units
    from ceras_ir.analysis.qdq import only_shifts

    op, target = value.owner, graph.quantized_element(quantize.result)
    # What moves, rectifies or clips keeps whole multiples what they are.
    while isinstance(op, GraphOperation) and (only_moves(op) or _clips(op)):
        op = op.operands[0].owner
    if not isinstance(op, Operation) or target is None:
        return False
    types = _operand_types(op)
    if types is None:
        return False
    if not isinstance(op, graph.LinearOperation) and not only_shifts((*types, target)):
        return False
    units = accumulator_units(op, types)
    channels = graph.shape_of(value)[-1:] or (1,)
    flat = constant.reshape(-1)
    if units is None or flat.size not in (1, channels[0]) or constant.shape[-1:] not in (
        (), (1,), channels,
    ):  # fmt: skip
        return False
    return bool((flat > 0).all() and (flat.astype(np.float64) < units / 2).all())


def _clips(op: Operation) -> bool:
    return isinstance(op, graph.UnaryOp) and op.function.clip_range is not None


def _operand_types(op: Operation) -> list[UniformType] | None:
    """How the data operands, and weights, of a float operation are stored."""
    match op:
        case graph.DequantizeOp():
            values = [op.input]
        case graph.LinearOperation():
            values = [op.input, op.weights]
        case graph.BinaryOp():
            values = [op.lhs, op.rhs]
        case graph.Pool2dOp():
            values = [op.input]
        case _:
            return None
    types: list[UniformType] = []
    for value in values:
        source = value
        # Moved elements are whole multiples of the same unit.
        while isinstance(source.owner, GraphOperation) and only_moves(source.owner):
            source = source.owner.operands[0]
        source = source.owner.input if isinstance(source.owner, graph.DequantizeOp) else source
        element = graph.quantized_element(source)
        if element is None:
            return None
        types.append(element)
    return types
