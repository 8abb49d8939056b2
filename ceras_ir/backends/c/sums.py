"""
Analyze sums of products at compile time: bounds, folded bias, and the geometry of a layer.

The module also prints the loops over blocks of rows, for which windows of a convolution become
contiguous.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.values import (
    Refused,
    can_fold_half,
    centred_bound,
    constant_weights,
    half_of,
    quantized,
    steps_left,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import shape_of
from ceras_ir.dialects.quant import RequantAttr, UniformType

LIMIT = 1 << 31


@dataclass(frozen=True)
class Sums:
    """
    Properties of the integer sums of a layer that are known at compile time, such as their bounds.
    """

    weights: graph.ConstantOp | None
    """The constant weights; None if the weights are computed."""
    x: UniformType
    bias: NDArray[np.int64]
    """
    The bias, including exact rounding, and the zero point of the input if weights are constant.
    """
    per_output: NDArray[np.int64]
    """The sum of the weights of each output; for computed weights the maximum of the sum."""
    bounds: NDArray[np.int64]
    """For each output, the maximum magnitude of the sum of products, bias and residual."""
    raw_bound: int
    """
    The maximum magnitude with 128 added to 8-bit elements; for 16 bits, of a sum and of a bias
    alone: vectors may wrap around in between.
    """
    weight_type: str
    half_folded: bool

    @property
    def bound(self) -> int:
        """The maximum magnitude that the sum of any output can reach."""
        return int(self.bounds.max())

    def products_bound(self, requant: RequantAttr) -> int:
        """
        Return the maximum magnitude of the sum of any output times its requantization multiplier.
        """
        # Sums and multipliers have 31 bits.
        return int((self.bounds * np.array(requant.factors[0], np.int64)).max())

    def has_room(self, extra: int) -> bool:
        """
        Return whether the sums still fit 32 bits after a number of magnitude `extra` is added to
        the bias.
        """
        return max(self.raw_bound, self.bound) + abs(extra) < LIMIT

    def centred(self) -> NDArray[np.integer]:
        """Return the constant weights minus their zero points, [outputs, k]."""
        assert self.weights is not None
        return centred_weights(self.weights)


def centred_weights(constant: graph.ConstantOp) -> NDArray[np.integer]:
    """
    Return the weights minus their zero points, [outputs, k]. The type is the stored type if all
    zero points are 0, otherwise int64.
    """
    element = graph.element_of(constant.result)
    assert isinstance(element, UniformType)
    raw = constant.array()
    stored: NDArray[np.integer] = raw.view(
        f"i{raw.itemsize}" if element.is_signed else f"u{raw.itemsize}"
    ).reshape(raw.shape[0], -1)
    points = np.array([z.data for z in element.zero_points], np.int64)
    return stored.astype(np.int64) - points.reshape(-1, 1) if points.any() else stored


def analyse(op: graph.LinearOperation) -> Sums:
    """
    Return the bounds of the sums of a quantized layer with constant weights, and its bias with zero
    points and rounding included. Sums that can exceed 32 bits raise `Refused`.
    """
    constant = constant_weights(op)
    weights = centred_weights(constant)
    magnitude = np.abs(weights, dtype=np.int32 if weights.itemsize < 4 else np.int64)
    largest = int(magnitude.max())
    weight_type = (
        "int8_t"
        if weights.dtype == np.int8 or (largest < 128)
        else "int16_t"
        if largest < 1 << 15
        else "int32_t"
    )
    totals = magnitude.sum(axis=1, dtype=np.int64)
    return _sums(op, constant, totals, weights.sum(axis=1, dtype=np.int64), weight_type)


def analyse_computed(op: graph.MatmulOp | graph.StridedMatmulOp) -> Sums:
    """
    Return the bounds of the sums of a quantized matrix product with weights that are computed at
    run time, so that they may have any value of their type. Sums that can exceed 32 bits raise
    `Refused`.
    """
    n, k = shape_of(op.result)[-1], shape_of(op.input)[-1]
    element = quantized(op.weights, "weights")
    bound = centred_bound(element)
    is_byte = element.storage.width.data == 8 and element.is_signed and not zero_point_of(element)
    weight_type = "int8_t" if is_byte else "int16_t" if bound < 1 << 15 else "int32_t"
    totals = np.full(n, k * bound, np.int64)
    return _sums(op, None, totals, totals, weight_type)


def _sums(
    op: graph.LinearOperation,
    weights: graph.ConstantOp | None,
    totals: NDArray[np.int64],
    per_output: NDArray[np.int64],
    weight_type: str,
) -> Sums:
    """
    Return the bounds of the sums of a layer, and its bias with zero points and rounding included.
    `totals` has the sum of the magnitudes of the weights of each output, and `per_output` the sum
    of the weights. `weights` is `None` if they are computed.
    """
    x, total = quantized(op.input, "input"), int(totals.max())
    point = zero_point_of(x)
    bias = np.zeros(len(totals), np.int64)
    if op.bias is not None:
        stored = graph.constant_array(op.bias)
        if stored is None:
            raise Refused("bias must be a constant; fold or freeze its producer")
        bias = bias + stored.astype(np.int64)
    bounds = totals * centred_bound(x) + np.abs(bias)
    if op.residual is not None:
        residual = centred_bound(quantized(op.residual, "residual"))
        bounds = bounds + np.left_shift(residual, np.array(op.residual_shifts, np.int64))
    assert op.requant is not None
    half = half_of(op.requant)
    moved = abs(point) * totals
    if weights is not None:
        bias = bias - point * per_output
        moved = np.zeros_like(totals)
    products = total * max(abs(x.low), abs(x.high), centred_bound(x))
    folded = can_fold_half(op.requant) and int(bounds.max()) + half < LIMIT
    if folded:
        bias, bounds = bias + half, bounds + half
    if products >= LIMIT:
        way = "use 8-bit weights or inputs" if weights is not None else "keep one of both in 8 bits"
        raise Refused(f"a sum of products can reach {products}, beyond 32 bits; {way}")
    largest_bias = int((np.abs(bias) + moved).max())
    raw_bound = 256 * total + largest_bias + 128 * int(np.abs(per_output).max())
    if x.storage.width.data > 8:
        raw_bound = max(int(bounds.max()), largest_bias)
    return Sums(weights, x, bias, per_output, bounds, raw_bound, weight_type, folded)


@dataclass(frozen=True)
class Geometry:
    """
    A layer as matrix products: `positions` windows of `k` elements times `n` outputs, in each of
    `groups` groups.
    """

    positions: int
    k: int
    """The number of products per output."""
    n: int
    """The number of outputs per group."""
    groups: int
    group_channels: int
    """The number of input channels per group."""
    is_direct: bool
    """Whether rows are contiguous in the input: a matrix product, or a 1x1 window of stride 1."""
    is_depthwise: bool

    @classmethod
    def of(cls, op: graph.LinearOperation) -> "Geometry":
        outputs, *kernel = shape_of(op.weights)
        positions, k = prod(shape_of(op.result)[:-1]), prod(kernel)
        if not isinstance(op, graph.Conv2dOp):
            return cls(positions, k, outputs, 1, k, is_direct=True, is_depthwise=False)
        groups, group_channels = op.group_count, kernel[2]
        direct = (
            groups == 1
            and kernel[:2] == [1, 1]
            and op.strides.get_values() == (1, 1)
            and not any(op.padding.get_values())
        )
        depthwise = group_channels == 1 and groups == outputs and groups > 1
        return cls(positions, k, outputs // groups, groups, group_channels, direct, depthwise)

    def with_merged_groups(self, count: int) -> "Geometry":
        """
        Return the geometry of an equivalent layer in which each `count` groups are merged to a
        single group, with weights of 0 between them.
        """
        return replace(
            self, k=self.k * count, n=self.n * count, groups=self.groups // count,
            group_channels=self.group_channels * count,
        )  # fmt: skip


def window(layer: Layer, op: graph.Conv2dOp | graph.Pool2dOp) -> str:
    """
    Print the declaration of the C struct `window`, the sizes of a convolution or pooling for the
    kernel functions. Return the C expression of its address.
    """
    _, height, width, channels = shape_of(op.input)
    _, rows, columns, _ = shape_of(op.result)
    kernel = shape_of(op.weights)[1:3] if isinstance(op, graph.Conv2dOp) else op.kernel.get_values()
    top, left = op.padding.get_values()[:2]
    layer.kernels.use("window")
    layer.line("static const struct window window = {")
    layer.line(f"{height}, {width}, {channels}, {rows}, {columns}, /* map, then positions */", 1)
    numbers = (*kernel, *op.strides.get_values(), top, left, *op.dilations.get_values())
    layer.line(", ".join(map(str, numbers)) + "};", 1)
    return "&window"


def rows_at_once(layer: Layer, geometry: Geometry, bytes_per_row: int) -> int:
    """
    Return the number of windows that are copied to the workspace together, with `bytes_per_row`
    bytes each. It is even if possible, for kernels of two rows; the minimum is 1.
    """
    room = min(layer.options.workspace // bytes_per_row, layer.options.MAX_ROWS)
    return min(max(room - room % 2, 1), geometry.positions)


def open_row_loop(layer: Layer, geometry: Geometry, rows: int) -> int:
    """
    Print the head of the C loop over blocks of `rows` output positions, and return the depth of
    indentation of its body. The C variables `first` and `count` are the first position and the
    number of positions of a block.
    """
    if rows == geometry.positions:
        layer.line("{")
        layer.block(["const int32_t first = 0;", f"const int32_t count = {rows};"], 1)
    else:
        layer.line(f"for (int32_t first = 0; first < {geometry.positions}; first += {rows}) {{")
        layer.line(f"const int32_t count = {steps_left(geometry.positions, 'first', rows)};", 1)
    return 1


UNSIGNED_OFFSET = 128
"""The offset between unsigned bytes and the signed bytes in rows."""


def row_type(value: SSAValue) -> tuple[str, str]:
    """
    Return the C type to which elements of `value` are copied in a row of a window, and the C text
    that is added to each element, such as ` + MODEL_ROW_OFFSET` or "".
    """
    match value_type(value):
        case "int8_t":
            return "model_row", " + MODEL_ROW_OFFSET"
        case "uint8_t":
            return "model_row", f" - {UNSIGNED_OFFSET} + MODEL_ROW_OFFSET"
        case "int16_t":
            return "int16_t", ""
        case "uint16_t" | "int32_t":
            return "int32_t", ""
        case other:
            raise AssertionError(other)


ROW_TYPES = {"model_row": ("bytes", 2), "int16_t": ("i16", 2), "int32_t": ("i32", 4)}
"""The name of each row type in functions, and the maximum bytes of an element."""


def dot_rows(layer: Layer, row: str, weight: str) -> str:
    """
    Return the name of the C function that computes the dot products of rows of C type `row` with
    weights of C type `weight`. It uses Arm vectors for bytes if available.
    """
    neon = ("", "")
    if row == "model_row" and layer.options.vectors:
        function = layer.kernels.use("dots_neon")
        neon = (
            f"#if MODEL_NEON\n  {function}(count, k, rows, n, k, weights, sums);\n#else\n",
            "#endif\n",
        )
    holes = {"NAME": f"{ROW_TYPES[row][0]}_{weight}", "ROW": row, "WEIGHT": weight}
    return layer.kernels.use("dot_rows", NEON=neon[0], END=neon[1], **holes)
