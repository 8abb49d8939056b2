"""What the array takes, as rules with a reason each, and what it would cost."""

from collections.abc import Callable

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
from ceras_ir.transforms.memory.analysis.liveness import byte_size
from ceras_systolic.board import Board, load_board
from ceras_systolic.layer import Layer, best_tile

ARRAY = "array"
"""What `#mem.device` calls it."""


def of_int8(op: LinearOperation, board: Board) -> str | None:
    """Input, weights, residual and result are int8; weights have no zero point."""
    named = {"input": op.input, "weights": op.weights, "result": op.result}
    for name, value in (named | {"residual": op.residual or op.input}).items():
        element = quantized_element(value)
        if element is None or element.storage.width.data != 8 or not element.is_signed:
            return f"the array computes on int8, the {name} is {element_of(value)}: quantize to i8"
        if element.is_per_axis or (name == "weights" and element.zero_point):
            return f"the array has one scale and no zero point of weights, got {element}"
    return None


def constant(op: LinearOperation, board: Board) -> str | None:
    """Weights and bias are constants: they are put in order while compiling."""
    for name, value in (("weights", op.weights), ("bias", op.bias)):
        if value is not None and constant_array(value) is None:
            return f"the array needs constant {name}: fold what computes them"
    return None


def ungrouped(op: LinearOperation, board: Board) -> str | None:
    """Every output is a sum over all channels."""
    if isinstance(op, Conv2dOp) and op.group_count > 1:
        return f"the array has no groups, got {op.group_count}: its columns would be idle"
    return None


def shifted(op: LinearOperation, board: Board) -> str | None:
    """Sums become int8 by one shift to the right that rounds half up."""
    assert op.requant is not None
    multipliers, shift = op.requant.multipliers, op.requant.net_shifts[0]
    if len(multipliers) > 1 or multipliers[0] & (multipliers[0] - 1):
        return "the array rescales a layer by one shift: quantize with powers of two"
    if not 0 <= shift <= 31:
        return f"the array shifts right by at most 31, got {shift}"
    if shift and op.requant.mode is not Rounding.HALF_UP:
        return f"the array rounds half up, got {op.requant.mode}"
    return None


def fits(op: LinearOperation, board: Board) -> str | None:
    """One result of one vector of channels fits the memories."""
    if best_tile(Layer.of(op), board) is None:
        return "not even one window fits the array's memories: use a smaller one"
    return None


RULES: tuple[Callable[[LinearOperation, Board], str | None], ...] = (
    of_int8,
    constant,
    ungrouped,
    shifted,
    fits,
)


class SystolicArray(Accelerator):
    """The array of a board; costs are asked for where the board was named."""

    device = ARRAY

    def __init__(self, board: str | None):
        self.board = load_board(board)
        self.has_costs = board is not None

    def why_not(self, op: Operation) -> str | None:
        if not isinstance(op, LinearOperation):
            return "the array multiplies matrices: convolutions and matrix products"
        return next((reason for rule in RULES if (reason := rule(op, self.board))), None)

    def cost(self, op: Operation, *, admitted: bool) -> Cost:
        board = self.board
        moved = 0 if isinstance(op, ReshapeOp) else sum(map(byte_size, (*op.operands, *op.results)))
        macs = op.macs if isinstance(op, LinearOperation) else 0
        cpu = macs / board.host_macs_per_us + moved / board.host_bytes_per_us
        if not admitted:
            return Cost(cpu, None, ARRAY)
        assert isinstance(op, LinearOperation)
        tile = best_tile(layer := Layer.of(op), board)
        assert tile is not None, "the rules admit what fits"
        return Cost(cpu, layer.cycles(tile, board) / board.clock_mhz, ARRAY)

    def transfer(self, value: SSAValue) -> float:
        # Both sides read the same memory; the bytes are counted with the operations.
        return self.board.handover_us
