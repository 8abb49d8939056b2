"""
Derive the constants and the requantization of output channels: bias, zero points, shifts, and
groups of channels.

The shifter of VTA moves sums right by a number of bits, equal for all channels or per channel, and
rounds half up. Zero points of operands and result are constants of a sum: `(sum >> s) + z` is
always `(sum + (z << s)) >> s`, floored. The GEMM core can add constants as products: digits in
tiles of weights times a vector with the place value of each digit. It adds a tile in a cycle per
vector of results, the ALU in two, and the load module loads the tile while the core multiplies.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ceras_ir.backends.c.constants import block_diagonal
from ceras_ir.backends.vta.machine.board import VtaBoard
from ceras_ir.backends.vta.machine.isa import SHR_RANGE, is_immediate
from ceras_ir.backends.vta.schedule.contraction import Borders, Contraction, borders_of
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding


def why_not_int8(**values: SSAValue) -> str | None:
    """
    Return the reason why VTA does not support the type of a value, or `None` if it supports all.
    The keyword of a value, such as `input`, is its name in the reason.
    """
    for name, value in values.items():
        element = graph.quantized_element(value)
        if element is not None and (width := element.storage.width.data) > 8:
            return (
                f"VTA stores 8 bits, but the {name} has {width}, for accuracy or by the model: "
                "it runs on the CPU"
            )
        if element is None or element.storage.width.data != 8 or not element.is_signed:
            return f"VTA needs int8, but the {name} is {graph.element_of(value)}: quantize to i8"
        if len({point.data for point in element.zero_points}) > 1:
            return f"VTA folds one zero point, but the {name} has one per channel: use a common one"
    return None


def zero_point(value: SSAValue) -> int:
    """
    Return the zero point of a quantized value that `why_not_int8` accepts, so that it is equal for
    all channels.
    """
    element = graph.quantized_element(value)
    assert element is not None
    return element.zero_points.data[0].data


def why_not_shift(requant: RequantAttr) -> str | None:
    """
    Return the reason why VTA cannot requantize sums as `requant` specifies, by shifts, or `None` if
    it can.
    """
    for multiplier in requant.multipliers:
        if multiplier & (multiplier - 1):
            return (
                f"VTA rescales by shifts only, got a multiplier of {multiplier}: "
                "quantize with power-of-two scales (--snap-scales)"
            )
    low, high = min(requant.net_shifts), max(requant.net_shifts)
    for amount in (low, high):
        if not -31 <= amount <= 31:
            return f"VTA shifts 32-bit sums by at most 31, got {amount}"
    if high - low > SHR_RANGE[1]:
        return (
            f"VTA supports channel shifts that differ by at most {SHR_RANGE[1]} bits in a layer, "
            f"got {low} to {high}: quantize with per-tensor scales"
        )
    if high > 0 and requant.mode not in (Rounding.HALF_UP, Rounding.FLOOR):
        return f"VTA rounds half up or floors, got {requant.mode.value}: quantize with half_up"
    if low < 0 and requant.zero_point.data % (1 << -low):
        return (
            f"VTA adds before it shifts left by {-low}, and the zero point "
            f"{requant.zero_point.data} is not a multiple of {1 << -low}: run it on the CPU"
        )
    return None


def common_shift(requant: RequantAttr) -> int:
    """
    Return the right shift that is the same for all channels and applied first; `further_shifts` are
    the others.

    If channels have equal shifts, this is the shift. Otherwise it is the value nearest to zero for
    which `further_shifts` are in range.
    """
    low, high = min(requant.net_shifts), max(requant.net_shifts)
    return low if low == high else min(low, max(0, high - SHR_RANGE[1]))


def further_shifts(requant: RequantAttr) -> tuple[int, ...]:
    """
    Return the right shift of each channel in addition to `common_shift`; empty if channels have
    equal shifts.

    All implementations of VTA agree on vectors of amounts from 0 to 15. Two shifts that round down
    have the result of a single shift by the sum.
    """
    return tuple(shift - common_shift(requant) for shift in requant.channel_shifts)


def rescaling_constants(requant: RequantAttr) -> list[int]:
    """
    Return the integer that is added to the sum of each output channel before the shift, for the
    rounding and the zero point of `requant`.
    """
    point, half = requant.zero_point.data, int(requant.mode is Rounding.HALF_UP)
    return [(point << s) + (half << s >> 1) if s > 0 else point >> -s for s in requant.net_shifts]


MAX_DIGIT = 127
"""The maximum of a digit, and the place value of all digits except the first, which has 1."""
MAX_CONSTANT_TILES = 2
"""
The maximum number of weight tiles with digits of a constant. With more tiles, the ALU is faster.
"""


def radix(lanes: int) -> NDArray[np.int8]:
    """
    Return the place value of each digit in a vector of `lanes` digits: 1, 127, 127, and so on. A
    constant is the sum of digit times place value (see `digits`).
    """
    return np.array([1] + [MAX_DIGIT] * (lanes - 1), np.int8)


def tiles_for(values: NDArray[np.integer], lanes: int) -> int:
    """
    Return the number of weight tiles that can store each of `values` as int8 digits, a vector of
    digits per tile; 0 if it exceeds `MAX_CONSTANT_TILES`.
    """
    largest, each = int(np.abs(values).max()), MAX_DIGIT * MAX_DIGIT * (lanes - 1)
    count = max(1, -(-(largest - MAX_DIGIT // 2) // each))
    return count if count <= MAX_CONSTANT_TILES else 0


def digits(values: NDArray[np.integer], tiles: int, lanes: int) -> NDArray[np.int8]:
    """
    Return `values` as int8 digits [.., tiles, lanes], whose products with `radix(lanes)` add up to
    the values.
    """
    wide = values.astype(np.int64)
    rest = (wide + MAX_DIGIT // 2) // MAX_DIGIT
    ones = wide - MAX_DIGIT * rest
    columns: list[NDArray[np.int64]] = []
    for place in range(tiles * lanes):
        if place % lanes == 0:
            columns.append(np.zeros_like(wide) if place else ones)
            continue
        columns.append(np.clip(rest, -MAX_DIGIT, MAX_DIGIT))
        rest = rest - columns[-1]
    assert not rest.any(), "constants exceed the range of their digits"
    return np.stack(columns, axis=-1).astype(np.int8).reshape(*wide.shape, tiles, lanes)


def groups_together(op: graph.LinearOperation, block: int) -> int:
    """
    Return the number of groups of a convolution that are computed as a single group, because
    vectors of `block` channels would contain channels of several groups.

    It is the minimum for which groups are aligned to blocks of input and output, or all groups; 1
    for a matrix product. Weights are zero between channels of different groups.
    """
    if not isinstance(op, graph.Conv2dOp):
        return 1
    groups = op.group_count
    inputs, outputs = graph.shape_of(op.input)[-1], graph.shape_of(op.weights)[0]
    for together in range(1, groups):
        count = -(-groups // together)
        widths = [n // groups * together for n in (inputs, outputs)]
        is_aligned = all(width % block == 0 for width in widths)
        if is_aligned and all(
            -(-n // block) == count * width // block
            for n, width in zip((inputs, outputs), widths, strict=True)
        ):
            return together
    return groups


def block_groups(op: graph.LinearOperation, block: int) -> int:
    if not isinstance(op, graph.Conv2dOp):
        return 1
    return -(-op.group_count // groups_together(op, block))


def widened(op: graph.Conv2dOp, weights: NDArray[np.generic], block: int) -> NDArray[np.generic]:
    """
    Return weights [O, KH, KW, C/groups] as weights of fewer, larger groups (`groups_together`) that
    fill vectors of `block` lanes, with zeros between groups.
    """
    return block_diagonal(weights, op.group_count, groups_together(op, block))


CONSTANT_BUFFER_DIVISOR = 4
"""
Constants that are stored as weights use at most 1/4 of the weight buffer, because products need it.
"""


def has_computed_weights(op: graph.LinearOperation) -> bool:
    """
    Return whether the weights of `op` are not constant, so that the host packs them in each run.
    """
    return graph.constant_array(op.weights) is None


def computed_point(op: graph.LinearOperation) -> int:
    """
    Return the zero point of the input if the host must compute its contribution to sums, because
    weights are not constant; else 0.
    """
    return zero_point(op.input) if has_computed_weights(op) else 0


def folded_bias(op: graph.LinearOperation) -> NDArray[np.int64]:
    """
    Return the integer that is added to the sum of each output channel before the right shift, which
    rounds down.

    It is the sum of the bias, half a unit for rounding, and the contribution of zero points. With
    computed weights, the contribution of the zero point of the input is not included.
    """
    assert op.requant is not None
    channels = graph.shape_of(op.result)[-1]
    bias = np.zeros(channels, np.int64) + np.array(rescaling_constants(op.requant), np.int64)
    if not has_computed_weights(op):
        weights = graph.known_array(op.weights).astype(np.int64)
        bias -= zero_point(op.input) * weights.reshape(channels, -1).sum(axis=1)
    if op.residual is not None:
        bias -= zero_point(op.residual) << np.array(op.residual_shifts)
    if op.bias is not None:
        bias += graph.known_array(op.bias).astype(np.int64)
    return bias


def is_bordered(op: graph.LinearOperation) -> bool:
    """
    Return whether the input is padded and its zero point is not 0. Loads of VTA can only pad with
    0, so sums at the border need a correction.
    """
    padded = isinstance(op, graph.Conv2dOp) and any(op.padding.get_values())
    return padded and zero_point(op.input) != 0


def border_values(op: graph.LinearOperation, borders: Borders) -> NDArray[np.int64]:
    """
    Return the contribution of padding with the zero point to sums at the border, as [n, O] for n
    kinds of positions and O output channels: first runs of rows, then runs of columns, and then
    their intersections, negated because both runs contain them.
    """
    taps = graph.known_array(op.weights).astype(np.int64).sum(axis=3) * zero_point(op.input)
    down = [taps[:, list(run.taps)] for run in borders.rows]
    across = [list(run.taps) for run in borders.columns]
    kinds = [*down, *(taps[:, :, run] for run in across)]
    kinds += [-rows[:, :, run] for rows in down for run in across]
    return np.stack([kind.sum(axis=(1, 2)) for kind in kinds])


def with_products(shape: Contraction, op: graph.LinearOperation, board: VtaBoard) -> Contraction:
    """
    Return `shape`, the shape of `op`, with the number of tiles of constants that GEMMs add to sums,
    and with the cycles of the bias.
    """
    bias, borders = folded_bias(op), borders_of(shape)
    limit = board.wgt // CONSTANT_BUFFER_DIVISOR
    blocks = shape.nblocks * shape.groups
    by_host = computed_point(op) != 0
    is_one = not by_host and bool(np.all(bias == bias[0])) and is_immediate(int(bias[0]))
    bias_tiles = 0 if is_one or by_host else tiles_for(bias, board.block)
    if bias_tiles * blocks > limit:
        bias_tiles = 0
    border_tiles = 0
    if borders.constants:
        border_tiles = tiles_for(border_values(op, borders), board.block)
        if blocks * (borders.constants * border_tiles + bias_tiles) > limit:
            border_tiles = 0
    cycles = int(bool(bias[0])) if is_one else bias_tiles or 2
    return replace(shape, bias_cycles=cycles, bias_tiles=bias_tiles, border_tiles=border_tiles)
