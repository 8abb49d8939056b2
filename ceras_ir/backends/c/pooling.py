"""Pooling, one window at a time, channels innermost."""

from math import prod

from ceras_ir.backends.c.layer import Layer
from ceras_ir.backends.c.operands import quantized
from ceras_ir.backends.c.printers import prints
from ceras_ir.backends.c.requant import Refused, rescaling
from ceras_ir.backends.c.rows import window
from ceras_ir.backends.c.types import (
    centred_bound,
    int_literal,
    value_type,
    zero_point_of,
)
from ceras_ir.dialects.graph import Pool, Pool2dOp, quantized_element, shape_of
from ceras_ir.interpreters.float_text import float_literal


@prints(Pool2dOp)
def pool2d(layer: Layer, op: Pool2dOp) -> None:
    """`graph.pool2d`."""
    if op.function is Pool.MAX:
        _maximum(layer, op)
    elif op.is_quantized:
        _integer_average(layer, op)
    else:
        _float_average(layer, op)


def _positions(op: Pool2dOp) -> tuple[int, int]:
    *positions, channels = shape_of(op.result)
    return prod(positions), channels


def _maximum(layer: Layer, op: Pool2dOp) -> None:
    element, ctype = quantized_element(op.input), value_type(op.input)
    least = float_literal(float("-inf")) if element is None else int_literal(element.low)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    place = window(layer, op)
    name = "f32" if element is None else ctype
    or_nan = " || tap[c] != tap[c]" if element is None else ""
    kernel = layer.kernels.use("max_window", NAME=name, IN=ctype, OR_NAN=or_nan)
    positions, channels = _positions(op)
    layer.loop("p", positions, [f"{kernel}({y} + p * {channels}, {x}, {place}, p, {least});"])


def _float_average(layer: Layer, op: Pool2dOp) -> None:
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    place = window(layer, op)
    kernel = layer.kernels.use("sum_rows")
    positions, channels = _positions(op)
    layer.scratch("float", "row", channels, 4)
    size = prod(op.kernel.get_values())
    call = f"{kernel}(to, row, {x}, {place}, p)"
    count = f"{call};" if op.includes_padding else f"const int32_t count = {call};"
    divisor = float_literal(size) if op.includes_padding else "(float)count"
    layer.loop(
        "p",
        positions,
        [
            f"float *to = {y} + p * {channels};",
            count,
            f"for (int32_t c = 0; c < {channels}; ++c) to[c] /= {divisor};",
        ],
    )


def _is_clipped(op: Pool2dOp) -> bool:
    """Whether some window has taps in the padding."""
    return any(op.padding.get_values())


def _integer_average(layer: Layer, op: Pool2dOp) -> None:
    element, size = quantized(op.input, "input"), prod(op.kernel.get_values())
    assert op.requant is not None
    bound, full = size * centred_bound(element), op.requant.multiplier.data
    if bound >= 1 << 31:
        raise Refused(f"a sum of {size} elements can reach {bound}, beyond 32 bits; pool in steps")
    varies = _is_clipped(op) and not op.includes_padding
    if varies and any(d > 1 for d in op.dilations.get_values()):
        raise Refused("a dilated, padded average over elements inside; set count_include_pad")
    storage = value_type(op.result)
    if varies:
        # A window of one element has the greatest multiplier, but also the least sum.
        most = bound * (full * size + 1)
        rescale = rescaling(op.requant, bound, storage, multiplier="multiplier", scaled_bound=most)
    else:
        rescale = rescaling(op.requant, bound, storage)
    x, y = layer.read(op.input, "x"), layer.write(op.result)
    place = window(layer, op)
    point = zero_point_of(element)
    kernel = layer.kernels.use(
        "sum_window",
        NAME=value_type(op.input) + ("_centred" if point else ""),
        SUM="int32_t",
        IN=value_type(op.input),
        CENTRE=" - zero_point" if point else "",
    )
    positions, channels = _positions(op)
    layer.scratch("int32_t", "sums", channels, 4)
    call = f"{kernel}(sums, {x}, {place}, p, {point})"
    head = [f"{call};"]
    if varies:
        numerator = int_literal(2 * full * size)
        head = [
            f"const int32_t count = {call};",
            f"const {rescale.type} multiplier = (({rescale.type}){numerator} + count) "
            "/ (2 * count);",
        ]
    layer.loop(
        "p",
        positions,
        [
            *head,
            f"for (int32_t c = 0; c < {channels}; ++c) {{",
            *(f"  {t}" for t in rescale.lines(["sums[c]"], f"{y}[p * {channels} + c]")),
            "}",
        ],
    )
