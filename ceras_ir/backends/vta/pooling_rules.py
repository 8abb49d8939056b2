"""What pooling VTA can run: the maximum, by ALU operations on accumulators."""

from ceras_ir.analysis.blocks import longest_row
from ceras_ir.analysis.pooling_blocks import Pooling, pooling_blocks
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.mem import LANES


def why_not_pool(op: graph.Pool2dOp, board: VtaBoard) -> str | None:
    """None if VTA can run `op`, else the rule that it breaks and the way out."""
    if op.function is not Pool.MAX:
        return "VTA has no exact division: average pooling runs on the CPU"
    for name, value in (("input", op.input), ("result", op.result)):
        element = graph.quantized_element(value)
        if element is None or element.storage.width.data != 8 or not element.is_signed:
            return f"VTA needs int8, but the {name} is {graph.element_of(value)}: quantize to i8"
    if any(d != 1 for d in op.dilations.get_values()):
        return "VTA pools neighbours only: a dilated window runs on the CPU"
    shape = graph_pooling(op)
    if any(shape.padding) and not _never_negative(op):
        return (
            "VTA pads with zeros, which a negative input may be below: pool what ReLU made, or "
            "without padding"
        )
    if not shape.is_separable_in_place:
        return (
            f"VTA pools with stride 1 or windows up to twice the stride, got {shape.kernel[1]} "
            f"at stride {shape.strides[1]}"
        )
    if max(shape.width, shape.columns) > (most := longest_row(board)):
        return f"VTA steps over rows of at most {most} vectors: use a smaller input"
    if pooling_blocks(shape, board) is None:
        return "VTA cannot hold a window in its buffers: use a smaller one"
    return None


def graph_pooling(op: graph.Pool2dOp) -> Pooling:
    """The shape of `op` on packed tensors."""
    n, h, w, c = graph.shape_of(op.input)
    _, rows, columns, _ = graph.shape_of(op.result)
    (kh, kw), (sh, sw) = op.kernel.get_values(), op.strides.get_values()
    top, left, bottom, right = op.padding.get_values()
    planes = n * -(-c // LANES)
    return Pooling(planes, h, w, rows, columns, (kh, kw), (sh, sw), (top, left, bottom, right))


def _never_negative(op: graph.Pool2dOp) -> bool:
    """Whether the producer of the input clamps at zero or above."""
    producer = op.input.owner
    if not isinstance(producer, graph.LinearOperation) or producer.requant is None:
        return False
    return producer.requant.low.data >= 0
