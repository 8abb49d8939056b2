"""Take out the small constants by which a Q/DQ network says that it rounds half up."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.transforms.network_pass import NetworkPass
from ceras_ir.transforms.quantization.analysis.qdq import HALF_EVEN, only_moves
from ceras_ir.transforms.quantization.analysis.rescaling import fixed_point, only_shifts
from ceras_ir.transforms.quantization.analysis.ties import accumulator_units, tie_rooms, tilt


@dataclass(frozen=True)
class DropTieBreakersPass(NetworkPass):
    """
    Remove additions and factors that only decide how QuantizeLinear rounds ties.

    1. `quantize(x + c)` becomes `quantize(x)` where c is positive and below half a unit of the sum
       x. Where an odd multiplier m rescales x, the limit is half an m-th.
    2. `quantize(x * f)` becomes `quantize(x)` where x is an average and f is so near to 1 that it
       decides only ties.

    `fold-qdq` makes integer operations of both that round half up, or as a reciprocal does.
    QuantizeLinear rounds ties to even, and with c or f no tie is left. So the network says in ONNX
    what the integer operation does: exact in the integers. Where anything was removed, every bit of
    the network is meant. All other quantizations then round as ONNX says: they get
    `graph.half_even`, which `fold-qdq` respects.
    """

    name = "drop-tie-breakers"

    def change(self, main: FuncOp) -> None:
        ops = main.body.block.ops
        quantizes = [o for o in ops if isinstance(o, graph.QuantizeOp)]
        even = [quantize for quantize in quantizes if not _dropped(quantize)]
        if len(even) == len(quantizes):
            return
        for quantize in even:
            quantize.attributes[HALF_EVEN] = UnitAttr()


def _dropped(quantize: graph.QuantizeOp) -> bool:
    """Whether there were constants that only decided ties; they are gone."""
    steps = _constant_steps(quantize.input)
    for count in range(len(steps), 0, -1):
        found, value = steps[:count], steps[count - 1].value
        if all(_only_breaks_ties(step, value, quantize) for step in found):
            quantize.operands[0] = value
            for step in found:
                Rewriter.erase_op(step.op)
            return True
    return False


class _Step(NamedTuple):
    """A sum or product with a constant, which nobody else reads."""

    op: graph.BinaryOp
    value: SSAValue
    constant: NDArray[np.float32]


def _constant_steps(value: SSAValue) -> list[_Step]:
    """The sums and products with constants that end in `value`, the last one first."""
    steps: list[_Step] = []
    while isinstance(op := value.owner, graph.BinaryOp) and value.has_one_use():
        if op.activation is not None or op.is_quantized:
            break
        for operand, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            constant = graph.constant_array(other)
            if constant is not None and constant.dtype == "float32" and operand.type == value.type:
                steps.append(_Step(op, operand, constant.astype("float32")))
                break
        if not steps or steps[-1].op is not op:
            break
        value = steps[-1].value
    return steps


def _only_breaks_ties(step: _Step, value: SSAValue, quantize: graph.QuantizeOp) -> bool:
    """Whether the constant of a step, applied to `value`, does no more."""
    op, target = value.owner, graph.quantized_element(quantize.result)
    # What moves, rectifies or clips keeps whole multiples what they are.
    while isinstance(op, graph.GraphOperation) and (only_moves(op) or _clips(op)):
        op = op.operands[0].owner
    if not isinstance(op, Operation) or target is None:
        return False
    types = _operand_types(op)
    if types is None:
        return False
    if not isinstance(op, graph.LinearOperation) and not only_shifts((*types, target)):
        return False
    units, constant = accumulator_units(op, types), step.constant
    if units is None or step.op.function not in (graph.Binary.ADD, graph.Binary.MUL):
        return False
    if isinstance(op, graph.Pool2dOp):
        if step.op.function is graph.Binary.MUL:
            return bool((np.abs(constant - np.float32(1)) <= tilt(op, types[0], target)).all())
        # Where a factor decides, nothing is added.
        return bool((constant >= 0).all() and constant.any() and (constant < units / 2).all())
    channels = graph.shape_of(value)[-1:] or (1,)
    flat = constant.reshape(-1)
    if flat.size not in (1, channels[0]) or constant.shape[-1:] not in ((), (1,), channels):
        return False
    rooms = tie_rooms(units, *fixed_point(np.atleast_1d(units / target.scale).tolist()))
    small = np.where(rooms > 0, (flat > 0) & (flat < rooms), flat == 0)
    return bool(flat.any() and small.all()) and step.op.function is graph.Binary.ADD


def _clips(op: Operation) -> bool:
    return isinstance(op, graph.UnaryOp) and op.function.clip_range is not None


def _operand_types(op: Operation) -> list[UniformType] | None:
    """How the data operands, and weights, of a float operation are stored."""
    known = graph.DequantizeOp | graph.LinearOperation | graph.BinaryOp | graph.Pool2dOp
    if not isinstance(op, known):
        return None
    types: list[UniformType] = []
    for source in op.operands[:2]:
        # Moved elements are whole multiples of the same unit.
        while isinstance(source.owner, graph.GraphOperation) and only_moves(source.owner):
            source = source.owner.operands[0]
        source = source.owner.input if isinstance(source.owner, graph.DequantizeOp) else source
        element = graph.quantized_element(source)
        if element is None:
            return None
        types.append(element)
    return types
