"""What pooling VTA can run: maxima by ALU operations, averages by GEMMs with a diagonal."""

from ceras_ir.backends.vta.averaging import averaging_of, multiplier_digits
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.rescaling import why_not_int8, zero_point
from ceras_ir.backends.vta.schedule.blocks import longest_row
from ceras_ir.backends.vta.schedule.pooling_blocks import Pooling, averaging_blocks, pooling_blocks
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.mem_packing import packed_shape


def why_not_pool(op: graph.Pool2dOp, board: VtaBoard) -> str | None:
    """None if VTA can run `op`, else the rule that it breaks and the way out."""
    if reason := why_not_int8(input=op.input, result=op.result):
        return reason
    if any(d != 1 for d in op.dilations.get_values()):
        return "VTA pools neighbours only: a dilated window runs on the CPU"
    shape = graph_pooling(op, board)
    if max(shape.width, shape.columns, shape.height * shape.width * shape.is_global) > (
        most := longest_row(board)
    ):
        return f"VTA steps over rows of at most {most} vectors: use a smaller input"
    if op.function is Pool.AVERAGE:
        return why_not_average(op, shape, board)
    return why_not_max(op, shape, board)


def why_not_average(op: graph.Pool2dOp, shape: Pooling, board: VtaBoard) -> str | None:
    """Averages divide all windows by one number, for which there is an exact multiplier."""
    if any(shape.padding) and not op.includes_padding:
        return (
            "VTA divides by one number, but windows at the border have fewer elements: count the "
            "padding, or pool without"
        )
    if any(shape.padding) and (point := zero_point(op.input)):
        return (
            f"VTA pads with zeros, but the input has the zero point {point}: pool without padding"
        )
    average = averaging_of(op)
    if average is None:
        assert op.requant is not None
        window, mode = "x".join(map(str, shape.kernel)), op.requant.mode.value
        return f"VTA has no multiplier that divides exactly for a window of {window}, {mode}"
    if averaging_blocks(shape, len(multiplier_digits(average)), board) is None:
        return "VTA cannot hold a window in its buffers: use a smaller one"
    return None


def why_not_max(op: graph.Pool2dOp, shape: Pooling, board: VtaBoard) -> str | None:
    """Maxima have stride 1, or windows up to twice the stride."""
    if not shape.is_separable_in_place:
        return (
            f"VTA pools with stride 1 or windows up to twice the stride, got {shape.kernel[1]} "
            f"at stride {shape.strides[1]}"
        )
    if pooling_blocks(shape, board) is None:
        return "VTA cannot hold a window in its buffers: use a smaller one"
    return None


def graph_pooling(op: graph.Pool2dOp, board: VtaBoard) -> Pooling:
    """The shape of `op` on packed tensors."""
    n, c, h, w, *_ = packed_shape(graph.shape_of(op.input), board.vector)
    _, rows, columns, _ = graph.shape_of(op.result)
    (kh, kw), (sh, sw) = op.kernel.get_values(), op.strides.get_values()
    top, left, bottom, right = op.padding.get_values()
    return Pooling(n * c, h, w, rows, columns, (kh, kw), (sh, sw), (top, left, bottom, right))


def padding_of_maxima(op: graph.Pool2dOp) -> int:
    """
    What positions outside of the input may count as: zero, which loads pad with, if the producer
    of the input clamps at zero or above, or there is no padding; else the least int8.
    """
    producer = op.input.owner
    clamped = isinstance(producer, graph.LinearOperation) and (
        producer.requant is not None and producer.requant.low.data >= 0
    )
    return 0 if clamped or not any(op.padding.get_values()) else -128
