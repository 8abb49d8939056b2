"""Convert operations on VTA to launches of kernels on packed tensors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ceras_ir.backends.vta.kernels.launch import (
    KernelTable,
    Launch,
    averaging_weights,
    border_sums,
    common_residual_shift,
    diagonal,
    packed_bias,
    packed_radix,
    packed_shifts,
    packed_weights,
    residual_weights,
    swish_constants,
    uniform_constant,
    uniform_shifts,
)
from ceras_ir.backends.vta.machine.board import VtaBoard, load_board
from ceras_ir.backends.vta.machine.isa import RESIDUAL_WEIGHT_BITS, VtaBoardOptions
from ceras_ir.backends.vta.rules.addition_pooling import (
    addition_plane,
    averaging_of,
    constant_of,
    padding_of_maxima,
    terms_of,
)
from ceras_ir.backends.vta.rules.admission import (
    VTA,
    graph_contraction,
    proven_clamps,
    swish_after,
    why_not,
)
from ceras_ir.backends.vta.rules.channel_constants import (
    block_groups,
    common_shift,
    computed_point,
    folded_bias,
    further_shifts,
    has_computed_weights,
    zero_point,
)
from ceras_ir.backends.vta.rules.placement import maximum_after, window_maximum
from ceras_ir.backends.vta.schedule.contraction import SWISH_ROWS, borders_of
from ceras_ir.dialects import graph, mem, tile
from ceras_ir.dialects.graph.pooling import Pool
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name


@dataclass(frozen=True)
class ConvertGraphToTilePass(VtaBoardOptions, ModulePass):
    """
    Replace each operation on device vta by `mem.launch` of a kernel, between `mem.pack` of the
    inputs and `mem.unpack` of the result.

    Constants are packed at compile time; computed weights, of a product of activations, become
    tiles by `mem.pack_tiles`. Equal kernels are shared. `mem.alignment` on the function specifies
    the alignment of operands. The intrinsic of `board` specifies the length of vectors.

    Exact, for these reasons:

    1. Lanes after the last channel of an input are multiplied by zero weights or remain in their
       lane. In a result, `mem.unpack` drops them, or they are multiplied by zero weights in turn.
    2. Zero points are part of the bias; for computed weights, `mem.fold_zero_point` adds them.
       Loads pad with zeros, so the contribution of the zero point at the border has separate
       constants.
    3. A residual is multiplied by a diagonal of powers of two, which can differ between channels,
       and then shifted left by the rest. An addition is a residual on a convolution by a diagonal.
    4. Per-channel shifts are a common shift of all channels and a vector of differences.
    5. Rounding half up is a floor after the addition of half. The half is in the bias and proven
       not to overflow.
    6. A clamp is omitted if no input leads to a value outside it.
    7. A maximum over windows is fused into the preceding convolution: rescaling is monotonic.
    8. The multiplier of an average is one for which each possible sum was tested.

    Before:

        !q = !quant.uniform<i8:f32, 0.5>
        !b = !quant.uniform<i32:f32, 0.25>
        #r = #graph.requant<shift = 3, rounding = half_up, low = -128, high = 127>
        #vta = #mem.device<vta>
        %w = graph.constant dense<1> : tensor<16x1x1x16xi8> : tensor<16x1x1x16x!q>
        %y = graph.conv2d %x, %w {requant = #r, mem.device = #vta}
            : (tensor<1x2x2x16x!q>, tensor<16x1x1x16x!q>) -> tensor<1x2x2x16x!q>

    After:

        !m = memref<1x1x2x2x16xi8, "dram">
        !n = memref<1x1x1x1x16x16xi8, "dram">
        func.func @main(%x: tensor<1x2x2x16x!q>) -> tensor<1x2x2x16x!q>
            attributes {mem.alignment = 256} {
          %p = mem.pack %x : (tensor<1x2x2x16x!q>) -> tensor<1x1x2x2x16x!q>
          %w = graph.constant dense<1> : tensor<1x1x1x1x16x16xi8> : tensor<1x1x1x1x16x16x!q>
          %b = graph.constant dense<4> : tensor<1x16xi32> : tensor<1x16x!b>
          %u = mem.launch @conv2d_0(%p, %w, %b) {mem.device = #vta} : (tensor<1x1x2x2x16x!q>,
              tensor<1x1x1x1x16x16x!q>, tensor<1x16x!b>) -> tensor<1x1x2x2x16x!q>
          %y = mem.unpack %u : (tensor<1x1x2x2x16x!q>) -> tensor<1x2x2x16x!q>
          func.return %y : tensor<1x2x2x16x!q>
        }
        func.func @conv2d_0(%x: !m, %w: !n, %b: memref<1x16xi32, "dram">, %y: !m) {
          tile.conv2d %x, %w, %b to %y {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>,
              padding = array<i64: 0, 0, 0, 0>, shift = 3, low = -128, high = 127, uniform_bias = 4}
              : !m, !n, memref<1x16xi32, "dram"> to !m
          func.return
        }
    """

    name = "convert-graph-to-tile"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        board = load_board(self.board)
        placed = [o for o in op.walk() if mem.device_of(o) == VTA]
        work = [o for o in placed if not isinstance(o, mem.LaunchOp)]
        findings = [
            Finding(node_name(o), o.name, f"unsupported on VTA: {reason}")
            for o in work
            if (reason := why_not(o, board))
        ]
        if findings:
            raise UnsupportedError(findings)
        kernels = KernelTable(op)
        # Computed now, because the producers on which this depends are replaced below.
        pools = [o for o in work if isinstance(o, graph.Pool2dOp)]
        padding_values = {pool: padding_of_maxima(pool) for pool in pools}
        proven = {o: proven_clamps(o) for o in work}
        linear = [o for o in work if isinstance(o, graph.LinearOperation)]
        fused = {o: maximum_after(o, board) for o in linear}
        fused_pools = {pool for pool in fused.values() if pool is not None}
        for operation in work:
            match operation:
                case graph.LinearOperation():
                    consumer = swish_after(operation) or fused[operation]
                    _launch_linear(operation, consumer, proven[operation], kernels, board)
                case graph.Pool2dOp() if operation in fused_pools:
                    # Fused into the preceding layer.
                    pass
                case graph.ShiftSwishOp():
                    # Fused into the preceding layer.
                    pass
                case graph.BinaryOp():
                    _launch_addition(operation, proven[operation], kernels, board)
                case graph.Pool2dOp() if operation.function is Pool.AVERAGE:
                    _launch_average(operation, kernels, board)
                case graph.Pool2dOp():
                    _launch_max(operation, kernels, padding_values[operation], board)
                case _:
                    raise AssertionError(operation.name)


def _launch_linear(
    op: graph.LinearOperation,
    after: graph.ShiftSwishOp | graph.Pool2dOp | None,
    proven: tuple[bool, bool],
    kernels: KernelTable,
    board: VtaBoard,
) -> None:
    assert op.requant is not None
    launch = Launch(board, op) if after is None else Launch(board, op, after)
    launch.pack(op.input)
    shape = graph_contraction(op, board)
    if has_computed_weights(op):
        launch.tiles(op.weights, packed_bias(op, shape, board), computed_point(op))
    else:
        launch.constant(packed_weights(op, board))
        launch.constant(packed_bias(op, shape, board))
    if shape.has_products:
        launch.constant(packed_radix(board))
    if op.residual is not None:
        launch.pack(op.residual)
        launch.constant(residual_weights(op, board))
    make = _rescaled(
        partial(
            tile.Conv2dOp,
            groups=block_groups(op, board.block),
            residual_shift=common_residual_shift(op),
            proven=proven,
        ),
        op.requant,
    )
    swishes = False
    if isinstance(after, graph.Pool2dOp):
        make = partial(make, maximum=window_maximum(after).values)
    elif after is not None:
        swishes = True
        launch.constant(constants := swish_constants(after, board))
        last = after.requant
        make = partial(make, swish=(last.shift.data, last.low.data, last.high.data))
        if len(after.channel_bends) == 1:
            rows = constants.array().reshape(SWISH_ROWS, -1)
            make = partial(make, uniform_bends=tuple(rows[:, 0].tolist()))
    outside = 0
    if borders_of(shape).constants:
        launch.constant(border_sums(op, shape, board))
        outside = zero_point(op.input)
        make = partial(make, outside=outside)
    by_channel = bool(further_shifts(op.requant))
    if by_channel:
        launch.constant(packed_shifts(op, board))
        make = partial(make, uniform_shifts=uniform_shifts(op, board))
    bias = folded_bias(op)
    if not shape.bias_tiles and not computed_point(op) and bool(np.all(bias == bias[0])):
        make = partial(make, uniform_bias=int(bias[0]))
    if isinstance(op, graph.Conv2dOp):
        make = partial(
            make,
            strides=tuple(op.strides.get_values()),
            padding=tuple(op.padding.get_values()),
            dilations=tuple(op.dilations.get_values()),
        )

    def body(builder: Builder, args: Sequence[SSAValue]) -> None:
        x, weights, added, *rest, y = args
        radix = rest.pop(0) if shape.has_products else None
        shifts = rest.pop() if by_channel else None
        border = rest.pop() if outside else None
        bends = rest.pop() if swishes else None
        x = _as_image(builder, x)
        pair = (_as_image(builder, rest[0]), rest[1]) if rest else None
        operands = (x, weights, added, pair, _as_image(builder, y))
        constants = {"radix": radix, "bends": bends, "border": border, "shifts": shifts}
        builder.insert(make(*operands, **constants))

    launch.run(kernels, op.name.removeprefix("graph."), make.keywords, body)


def _as_image(builder: Builder, buffer: SSAValue) -> SSAValue:
    """
    Return a packed matrix [K/B, M, B] as a packed image of a single row, [1, K/B, 1, M, B]; other
    buffers are unchanged.
    """
    blocks, *rest = list(tile.memref_type(buffer).get_shape())
    if len(rest) > 3:
        return buffer
    return builder.insert(tile.ViewOp(buffer, (1, blocks, 1, *rest))).result


def _launch_addition(
    op: graph.BinaryOp, proven: tuple[bool, bool], kernels: KernelTable, board: VtaBoard
) -> None:
    terms, plane = terms_of(op), addition_plane(op, board)
    assert op.requant is not None and terms is not None
    first, second = terms
    constant, bits = constant_of(op, terms), min(second.bits, RESIDUAL_WEIGHT_BITS)
    launch = Launch(board, op)
    launch.pack(first.value)
    launch.constant(diagonal(first.sign << first.bits, board))
    launch.constant(uniform_constant(constant, 1, *board.vector))
    launch.pack(second.value)
    launch.constant(diagonal(second.sign << bits, board))
    shift = second.bits - bits
    make = partial(tile.Conv2dOp, residual_shift=shift, uniform_bias=constant, proven=proven)
    make = _rescaled(make, op.requant)

    def body(builder: Builder, args: Sequence[SSAValue]) -> None:
        x, weights, bias, residual, by, y = args
        shape = (1, 1, *plane, *board.vector)
        x, residual, y = (
            builder.insert(tile.ViewOp(value, shape)).result for value in (x, residual, y)
        )
        tiles = (1, 1, 1, 1, board.block, board.block)
        weights = builder.insert(tile.ViewOp(weights, tiles)).result
        builder.insert(make(x, weights, bias, (residual, by), y))

    launch.run(kernels, op.function.value, make.keywords, body)


OperationT = TypeVar("OperationT")


def _rescaled(make: partial[OperationT], requant: RequantAttr) -> partial[OperationT]:
    shift = common_shift(requant)
    return partial(make, shift=shift, low=requant.low.data, high=requant.high.data)


def _windowed(make: Callable[..., OperationT], op: graph.Pool2dOp) -> partial[OperationT]:
    return partial(
        make,
        kernel=tuple(op.kernel.get_values()),
        strides=tuple(op.strides.get_values()),
        padding=tuple(op.padding.get_values()),
    )


def _launch_max(op: graph.Pool2dOp, kernels: KernelTable, outside: int, board: VtaBoard) -> None:
    launch, make = Launch(board, op), partial(_windowed(tile.MaxPoolOp, op), least=outside)
    launch.pack(op.input)
    launch.constant(diagonal(1, board))

    def body(builder: Builder, args: Sequence[SSAValue]) -> None:
        builder.insert(make(*args))

    launch.run(kernels, "max_pool", make.keywords, body)


def _launch_average(op: graph.Pool2dOp, kernels: KernelTable, board: VtaBoard) -> None:
    average = averaging_of(op)
    assert average is not None and op.requant is not None
    launch = Launch(board, op)
    launch.pack(op.input)
    launch.constant(averaging_weights(average, board))
    launch.constant(uniform_constant(average.addend, *board.vector))
    make = _rescaled(_windowed(tile.AveragePoolOp, op), op.requant)
    make = partial(make, addend=average.addend, shift=average.shift)

    def body(builder: Builder, args: Sequence[SSAValue]) -> None:
        builder.insert(make(*args))

    launch.run(kernels, "average_pool", make.keywords, body)
