"""
Convolutions whose weights are computed, such as those of hypernetworks and of attention over
kernels: kernels of convolutions pack weights at compile time, those of matrix products at run time
too. Windows side by side are the rows of such a product; groups of one channel are sums over taps.
"""

from math import prod

from ceras_ir.dialects.graph import Pad, PadOp
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, shape_of_value
from ceras_ir.frontends.onnx.operators.matrix import product_of
from ceras_ir.frontends.onnx.values import Value
from ceras_ir.frontends.onnx.windows import Window


def computed_convolution(
    emitter: Emitter, x: Value, weights: Value, bias: Value | None, window: Window, groups: int
) -> Value:
    """Of [N, H, W, C] with [O, KH, KW, C/g]: [N, OH, OW, O]."""
    compose = Composer(emitter)
    outputs, _, _, channels = shape_of_value(weights)
    taps = _taps(emitter, x, window)
    if channels == 1 and groups > 1:
        result = _sum_over_taps(emitter, taps, weights, groups)
    else:
        each = outputs // groups
        parts = [
            _product(
                emitter,
                [compose.part(tap, 3, g * channels, channels) for tap in taps],
                compose.part(weights, 0, g * each, each),
                bias if groups == 1 else None,
            )
            for g in range(groups)
        ]
        result = compose.joined(parts, 3)
    return result if bias is None or groups == 1 else compose.add(result, bias)


def _taps(emitter: Emitter, x: Value, window: Window) -> list[Value]:
    """What each element of the window sees: a part of the padded input."""
    top, left, bottom, right = window.padding
    n, h, w, c = shape_of_value(x)
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilations
    oh, ow = window.outputs(h, w)
    if any(window.padding):
        border = (0, top, left, 0), (0, bottom, right, 0)
        x = emitter.emit(PadOp(Pad.CONSTANT, emitter.materialize(x), *border))
    return [
        Composer(emitter).sliced(x, (0, i * dh, j * dw, 0), (n, oh, ow, c), (1, sh, sw, 1))
        for i in range(kh)
        for j in range(kw)
    ]


def _product(emitter: Emitter, taps: list[Value], weights: Value, bias: Value | None) -> Value:
    """A row for each position: the channels of all taps."""
    n, oh, ow, c = shape_of_value(taps[0])
    outputs = shape_of_value(weights)[0]
    size = len(taps) * c
    rows = emitter.reshaped(Composer(emitter).joined(taps, 3), (n * oh * ow, size))
    product = product_of(emitter, rows, emitter.reshaped(weights, (outputs, size)), bias)
    return emitter.reshaped(product, (n, oh, ow, outputs))


def _sum_over_taps(emitter: Emitter, taps: list[Value], weights: Value, groups: int) -> Value:
    """Every channel by itself, into one or several."""
    compose = Composer(emitter)
    outputs, size = shape_of_value(weights)[0], prod(shape_of_value(weights)[1:])
    each = outputs // groups
    by_tap = emitter.transposed(emitter.reshaped(weights, (outputs, size)), (1, 0))
    n, oh, ow, _ = shape_of_value(taps[0])
    total: Value | None = None
    for k, tap in enumerate(taps):
        row = emitter.reshaped(compose.part(by_tap, 0, k, 1), (groups, each))
        part = compose.mul(emitter.reshaped(tap, (n, oh, ow, groups, 1)), row)
        total = part if total is None else compose.add(total, part)
    assert total is not None
    return emitter.reshaped(total, (n, oh, ow, outputs))
