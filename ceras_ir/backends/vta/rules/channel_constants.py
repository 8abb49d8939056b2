"""
Constants and rescaling of output channels: bias, zero points, shifts, and groups of channels.

VTA's shifter moves sums right by a number of bits, one for all channels or one for each, rounding
half up. Zero points of operands and result are constants of a sum: `(sum >> s) + z` is
`(sum + (z << s)) >> s`, floored, without exception. The GEMM core can add constants as products:
digits in tiles of weights times a vector with the weight of each digit. It adds a tile in one cycle
for each vector of results, where the ALU takes two, and the load module brings it while the core
multiplies.
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
    """Why one of the named values is not what VTA computes with, or None."""
    for name, value in values.items():
        element = graph.quantized_element(value)
        if element is not None and (width := element.storage.width.data) > 8:
            return (
                f"VTA stores 8 bits, but the {name} has {width}, for accuracy or as the model "
                "says: it runs on the CPU"
            )
        if element is None or element.storage.width.data != 8 or not element.is_signed:
            return f"VTA needs int8, but the {name} is {graph.element_of(value)}: quantize to i8"
        if len({point.data for point in element.zero_points}) > 1:
            return (
                f"VTA folds one zero point, but the {name} has one per channel: quantize with one"
            )
    return None


def zero_point(value: SSAValue) -> int:
    """The stored number that stands for zero in what `why_not_int8` has admitted."""
    element = graph.quantized_element(value)
    assert element is not None
    return element.zero_points.data[0].data


def why_not_shift(requant: RequantAttr) -> str | None:
    """Why sums cannot be rescaled by shifts that round half up or floor, or None."""
    for multiplier in requant.multipliers:
        if multiplier & (multiplier - 1):
            return (
                f"VTA rescales by shifts only, got a multiplier of {multiplier}: "
                "quantize with power-of-two scales (--snap-scales)"
            )
    least, most = min(requant.net_shifts), max(requant.net_shifts)
    for amount in (least, most):
        if not -31 <= amount <= 31:
            return f"VTA shifts 32-bit sums by at most 31, got {amount}"
    if most - least > SHR_RANGE[1]:
        return (
            f"VTA shifts channels of a layer by at most {SHR_RANGE[1]} bits more than others, got "
            f"{least} to {most}: quantize with one scale for all channels"
        )
    if most > 0 and requant.mode not in (Rounding.HALF_UP, Rounding.FLOOR):
        return f"VTA rounds half up or floors, got {requant.mode.value}: quantize with half_up"
    if least < 0 and requant.zero_point.data % (1 << -least):
        return (
            f"VTA adds before it shifts left by {-least}, of which the zero point "
            f"{requant.zero_point.data} is no multiple: run it on the CPU"
        )
    return None


def common_shift(requant: RequantAttr) -> int:
    """
    By how many bits all sums go right, by immediates: all there is where channels go alike, else
    so many, nearest to zero, that `further_shifts` are in reach.
    """
    least, most = min(requant.net_shifts), max(requant.net_shifts)
    return least if least == most else min(least, max(0, most - SHR_RANGE[1]))


def further_shifts(requant: RequantAttr) -> tuple[int, ...]:
    """
    By how many bits more each channel goes right, none where channels go alike. A vector of
    amounts is read alike by all of VTA's implementations from 0 to 15; floors compose.
    """
    return tuple(shift - common_shift(requant) for shift in requant.channel_shifts)


def rescaling_constants(requant: RequantAttr) -> list[int]:
    """
    What must be added before a floor shift, for each multiplier, so that it rounds as `requant`
    says and its zero point is in the result.
    """
    point, half = requant.zero_point.data, int(requant.mode is Rounding.HALF_UP)
    return [(point << s) + (half << s >> 1) if s > 0 else point >> -s for s in requant.net_shifts]


MAX_DIGIT = 127
"""Of a digit, and what all digits but the first count."""
MAX_CONSTANT_TILES = 2
"""With more, the ALU takes less."""


def radix(lanes: int) -> NDArray[np.int8]:
    """What the digits in a tile count."""
    return np.array([1] + [MAX_DIGIT] * (lanes - 1), np.int8)


def tiles_for(values: NDArray[np.integer], lanes: int) -> int:
    """Tiles whose digits reach all `values`; 0 if `MAX_CONSTANT_TILES` do not."""
    largest, each = int(np.abs(values).max()), MAX_DIGIT * MAX_DIGIT * (lanes - 1)
    count = max(1, -(-(largest - MAX_DIGIT // 2) // each))
    return count if count <= MAX_CONSTANT_TILES else 0


def digits(values: NDArray[np.integer], tiles: int, lanes: int) -> NDArray[np.int8]:
    """`[.., tiles, lanes]`; `values` are the sums of the products with `radix(lanes)`."""
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
    assert not rest.any(), "constants beyond the reach of their digits"
    return np.stack(columns, axis=-1).astype(np.int8).reshape(*wide.shape, tiles, lanes)


def groups_together(op: graph.LinearOperation, block: int) -> int:
    """
    How many of the convolution's groups make one group of blocks of so many channels: the fewest
    that begin and end at blocks of input and output alike, or all of them. 1 for a matrix product.
    Weights are zero between channels of different groups.
    """
    if not isinstance(op, graph.Conv2dOp):
        return 1
    groups = op.group_count
    inputs, outputs = graph.shape_of(op.input)[-1], graph.shape_of(op.weights)[0]
    for together in range(1, groups):
        count = -(-groups // together)
        widths = [n // groups * together for n in (inputs, outputs)]
        whole = all(width % block == 0 for width in widths)
        if whole and all(
            -(-n // block) == count * width // block
            for n, width in zip((inputs, outputs), widths, strict=True)
        ):
            return together
    return groups


def block_groups(op: graph.LinearOperation, block: int) -> int:
    """How many groups of blocks there are."""
    if not isinstance(op, graph.Conv2dOp):
        return 1
    return -(-op.group_count // groups_together(op, block))


def widened(op: graph.Conv2dOp, weights: NDArray[np.generic], block: int) -> NDArray[np.generic]:
    """Weights [O, KH, KW, C/groups] for all channels of a group of blocks, zeros between groups."""
    return block_diagonal(weights, op.group_count, groups_together(op, block))


TILES_FOR_CONSTANTS = 4
"""Constants take at most so great a part of the weight buffer, which products need."""


def has_computed_weights(op: graph.LinearOperation) -> bool:
    """Whether the host packs the weights, in each run."""
    return graph.constant_array(op.weights) is None


def computed_point(op: graph.LinearOperation) -> int:
    """The zero point of the input of which only the host can tell what it contributes; else 0."""
    return zero_point(op.input) if has_computed_weights(op) else 0


def folded_bias(op: graph.LinearOperation) -> NDArray[np.int64]:
    """
    What is added to the sum of products of stored numbers, for every output channel, before a
    floor shift: the bias, half a unit for rounding, and what zero points contribute, but for that
    of the input where weights are computed.
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
    """Whether the number around the input is not zero, with which loads pad."""
    padded = isinstance(op, graph.Conv2dOp) and any(op.padding.get_values())
    return padded and zero_point(op.input) != 0


def border_values(op: graph.LinearOperation, borders: Borders) -> NDArray[np.int64]:
    """
    What the zero point around the input contributes to sums at the edge, as [n, O]: for runs of
    rows, for runs of columns, and, because it is in both, negated for where they meet.
    """
    taps = graph.known_array(op.weights).astype(np.int64).sum(axis=3) * zero_point(op.input)
    down = [taps[:, list(run.taps)] for run in borders.rows]
    across = [list(run.taps) for run in borders.columns]
    kinds = [*down, *(taps[:, :, run] for run in across)]
    kinds += [-rows[:, :, run] for rows in down for run in across]
    return np.stack([kind.sum(axis=(1, 2)) for kind in kinds])


def with_products(shape: Contraction, op: graph.LinearOperation, board: VtaBoard) -> Contraction:
    """`shape`, the constants of `op` told: which are added as products, and what the bias takes."""
    bias, borders = folded_bias(op), borders_of(shape)
    most = board.wgt // TILES_FOR_CONSTANTS
    blocks = shape.nblocks * shape.groups
    by_host = computed_point(op) != 0
    is_one = not by_host and bool(np.all(bias == bias[0])) and is_immediate(int(bias[0]))
    bias_tiles = 0 if is_one or by_host else tiles_for(bias, board.block)
    if bias_tiles * blocks > most:
        bias_tiles = 0
    border_tiles = 0
    if borders.constants:
        border_tiles = tiles_for(border_values(op, borders), board.block)
        if blocks * (borders.constants * border_tiles + bias_tiles) > most:
            border_tiles = 0
    cycles = int(bool(bias[0])) if is_one else bias_tiles or 2
    return replace(shape, bias_cycles=cycles, bias_tiles=bias_tiles, border_tiles=border_tiles)
