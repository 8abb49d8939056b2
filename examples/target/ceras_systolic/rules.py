"""Define the rules for operations on the array, each with a reason, and the costs."""

from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import (
    Conv2dOp,
    LinearOperation,
    ReshapeOp,
    constant_array,
    element_of,
    quantized_element,
)
from ceras_ir.dialects.quant import Rounding
from ceras_ir.targets import Accelerator, Cost
from ceras_ir.transforms.memory.liveness import byte_size
from ceras_systolic.board import Board, load_board
from ceras_systolic.tile_for_array import ARRAY, Layer


def of_int8(op: LinearOperation, board: Board) -> str | None:
    """Input, weights, residual and result are int8; weights are constant, without zero point."""
    for value in (op.input, op.weights, op.residual or op.input, op.result):
        element = quantized_element(value)
        if element is None or element.storage.width.data != 8 or not element.is_signed:
            return f"the array computes on int8, got {element_of(value)}: quantize to i8"
        if element.is_per_axis or (value is op.weights and element.zero_point):
            return f"the array has one scale, and no zero point of weights, got {element}"
    if any(v is not None and constant_array(v) is None for v in (op.weights, op.bias)):
        return "the array needs constant weights and bias: fold what computes them"
    return None


def shifted(op: LinearOperation, board: Board) -> str | None:
    """Sums are requantized to int8 by a single right shift that rounds half up."""
    assert op.requant is not None
    multiplier, shift = op.requant.multiplier.data, op.requant.net_shifts[0]
    if op.requant.is_per_channel or multiplier & (multiplier - 1):
        return "the array rescales a layer by one shift: quantize with powers of two"
    if not 0 <= shift <= 31 or (shift and op.requant.mode is not Rounding.HALF_UP):
        return f"the array shifts right by at most 31 and rounds half up, got {op.requant}"
    return None


def fits(op: LinearOperation, board: Board) -> str | None:
    """Each output is a sum over all channels, and a row of outputs fits the memories."""
    if isinstance(op, Conv2dOp) and op.group_count > 1:
        return f"the array has no groups, got {op.group_count}: its columns would be idle"
    reason = Layer.of(op).misfit(1, board)
    return f"the array is too small, {reason}: use a narrower layer" if reason else None


class SystolicArray(Accelerator):
    """The array of a board; costs are known only if the board is given."""

    device = ARRAY

    def __init__(self, board: str | None):
        self.board, self.has_costs = load_board(board), board is not None

    def why_not(self, op: Operation) -> str | None:
        if not isinstance(op, LinearOperation):
            return "the array multiplies matrices: convolutions and matrix products"
        return of_int8(op, self.board) or shifted(op, self.board) or fits(op, self.board)

    def cost(self, op: Operation, *, admitted: bool) -> Cost:
        board = self.board
        moved = 0 if isinstance(op, ReshapeOp) else sum(map(byte_size, (*op.operands, *op.results)))
        macs = op.macs if isinstance(op, LinearOperation) else 0
        cpu = macs / board.host_macs_per_us + moved / board.host_bytes_per_us
        if not admitted or not isinstance(op, LinearOperation):
            return Cost(cpu, None, ARRAY)
        layer = Layer.of(op)
        return Cost(cpu, layer.cycles(layer.best(board), board) / board.clock_mhz, ARRAY)

    def transfer(self, value: SSAValue) -> float:
        # Both sides use the same memory; the bytes are counted with the operations.
        return self.board.handover_us
