"""
Import convolutions, poolings and matrix products on extents that data decide.

Elements outside of the extents are zeros in a window of a convolution, as in the padding, and minus
infinity in a window of a maximum.
"""

from collections.abc import Sequence

import numpy as np

from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.extents import Extent, Linear, plus
from ceras_ir.frontends.onnx.emission.values import Value, shape_of_value
from ceras_ir.frontends.onnx.extents.registry import refused, sized, standard
from ceras_ir.frontends.onnx.extents.scalars import divided, maximum, minimum, number
from ceras_ir.frontends.onnx.extents.statements import bounded, filled, resized
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.frontends.onnx.operators.convolution import kernel_of


def _outputs(
    node: Node, emitter: Emitter, extents: Sequence[Extent], kernel: Sequence[int]
) -> list[Extent]:
    """Return the extents of the result along the spatial axes, whose operands have `extents`."""
    rank = len(extents)
    auto = node.string("auto_pad", "NOTSET")
    strides = node.per_dimension("strides", rank)
    dilations = node.per_dimension("dilations", rank)
    pads = node.integers("pads") or (0,) * (2 * rank)
    ceil = node.flag("ceil_mode") if node.has_attribute("ceil_mode") else False
    found: list[Extent] = []
    for i, extent in enumerate(extents):
        sides = 0 if auto == "VALID" else pads[i] + pads[rank + i]
        window = (kernel[i] - 1) * dilations[i] + 1
        if auto.startswith("SAME"):
            if isinstance(extent, Linear) and strides[i] != 1:
                raise refused(emitter, f"with auto_pad and strides, of '{node.inputs[0]}'")
            sides = window - 1
        if isinstance(extent, Linear) and ceil:
            raise refused(emitter, f"with ceil_mode, of '{node.inputs[0]}'")
        # With fewer elements than the window has, there is no result.
        room = maximum(emitter, plus(extent, sides - window + strides[i]), 0)
        count = divided(emitter, room, strides[i])
        if node.operator.endswith("Pool") and strides[i] != 1:
            # The division of ONNX rounds towards 0, so a pooling window may exceed the input.
            count = maximum(emitter, count, minimum(emitter, room, 1))
        found.append(count)
    return found


@sized("Conv")
def convolution(node: Node, emitter: Emitter) -> Value:
    """Import Conv with constant or computed weights."""
    value, weights = emitter.value(0), emitter.shape(1)
    extents = emitter.table.of(value)
    if emitter.table.of(emitter.value(1)) != weights or isinstance(extents[1], Linear):
        raise refused(emitter, f"of '{node.inputs[0]}'")
    rank = len(extents) - 2
    kernel = kernel_of(node, rank, weights)
    spatial = _outputs(node, emitter, extents[2:], kernel)
    inner = filled(emitter, value, extents, 0.0, range(2, rank + 2))
    result = standard(node, emitter, {0: inner})
    return _fitted(emitter, result, [extents[0], weights[0], *spatial])


@sized("MaxPool", "AveragePool")
def pool(node: Node, emitter: Emitter) -> Value:
    """Import MaxPool without indices, and AveragePool that counts the padding or has none."""
    value = emitter.value(0)
    extents = emitter.table.of(value)
    rank = len(extents) - 2
    is_maximum = node.operator == "MaxPool"
    padded = any(node.integers("pads") or ()) or node.string("auto_pad", "").startswith("SAME")
    if node.has_output(1):
        raise refused(emitter, f"with indices, of '{node.inputs[0]}'")
    if not is_maximum and padded and not node.flag("count_include_pad"):
        raise refused(emitter, f"without count_include_pad, of '{node.inputs[0]}'")
    kernel = kernel_of(node, rank)
    spatial = _outputs(node, emitter, extents[2:], kernel)
    inner = value
    counts = _elements(node, emitter, extents[2:], kernel)
    if padded or not is_maximum or any(isinstance(n, Linear) for n in counts):
        filler = -np.inf if is_maximum else 0.0
        inner = filled(emitter, value, extents, filler, range(2, rank + 2))
    result = standard(node, emitter, {0: inner})
    # ONNX Runtime divides padded windows of earlier operator sets by all elements of the kernel.
    if not is_maximum and (node.opset >= 19 or not node.flag("count_include_pad")):
        # The standard importer divides by the elements of a window in the maximum shape.
        whole = _elements(node, emitter, shape_of_value(value)[2:], kernel)
        with emitter.in_float():
            for count, most in zip(counts, whole, strict=True):
                if count != most:
                    ratio = emitter.div(number(emitter, most), number(emitter, count))
                    result = emitter.mul(result, ratio)
    return _fitted(emitter, result, [*extents[:2], *spatial])


def _elements(
    node: Node, emitter: Emitter, extents: Sequence[Extent], kernel: Sequence[int]
) -> list[Extent]:
    """
    Return the number of elements that the first window has within `extents` and the padding, along
    each axis; at least 1. With a stride of 1, each window has the whole `kernel`.
    """
    rank = len(kernel)
    strides, dilations = (node.per_dimension(name, rank) for name in ("strides", "dilations"))
    pads = node.integers("pads") or (0,) * (2 * rank)
    found: list[Extent] = []
    for i, extent in enumerate(extents):
        room = plus(extent, pads[i] + pads[rank + i] + dilations[i] - 1)
        count = minimum(emitter, divided(emitter, room, dilations[i]), kernel[i])
        found.append(maximum(emitter, count, 1) if strides[i] != 1 else kernel[i])
    return found


def _fitted(emitter: Emitter, value: Value, extents: Sequence[Extent]) -> Value:
    """Return `value` with `extents`. A maximum that is rounded up has no elements at the end."""
    for axis, extent in enumerate(extents):
        if not isinstance(extent, Linear):
            value = resized(emitter, value, axis, extent)
    return bounded(emitter, value, extents)


@sized("MatMul")
def matmul(node: Node, emitter: Emitter) -> Value:
    """Import MatMul. Elements outside of the extent of the sums are zeros."""
    values = [emitter.value(i) for i in range(2)]
    (*outer, rows, left), (*others, right, columns) = (
        _matrix(emitter, node, value) for value in values
    )
    if not isinstance(left, Linear) and not isinstance(right, Linear) and left != right:
        raise node.wrong(f"products of {left} and {right} elements")
    longer, shorter = sorted((outer, others), key=len, reverse=True)
    tail = longer[len(longer) - len(shorter) :]
    batch = [a if b == 1 else b for a, b in zip(tail, shorter, strict=True)]
    if any(1 not in (a, b) and a != b for a, b in zip(tail, shorter, strict=True)):
        raise refused(emitter, f"of '{node.inputs[0]}' and '{node.inputs[1]}'")
    count = min(shape_of_value(values[0])[-1], shape_of_value(values[1])[-2])
    for i, (value, axis) in enumerate(zip(values, (-1, -2), strict=True)):
        extents = emitter.table.of(value)
        inner = axis % len(extents)
        if isinstance(left, Linear) or isinstance(right, Linear):
            value = resized(emitter, filled(emitter, value, extents, 0.0, [inner]), inner, count)
        values[i] = value
    with_values = dict(enumerate(values))
    result = standard(node, emitter, with_values)
    head = longer[: len(longer) - len(shorter)]
    return bounded(emitter, result, [*head, *batch, rows, columns])


def _matrix(emitter: Emitter, node: Node, value: Value) -> tuple[Extent, ...]:
    extents = emitter.table.of(value)
    if len(extents) < 2:
        raise refused(emitter, f"of '{node.inputs[0]}' and '{node.inputs[1]}'")
    return extents


@sized("Gemm")
def gemm(node: Node, emitter: Emitter) -> Value:
    """Import Gemm with a first operand that has a number of rows that data decide."""
    known = [emitter.table.of(emitter.value(i)) for i in range(len(node.inputs)) if node.inputs[i]]
    static = [emitter.shape(i) for i in range(len(node.inputs)) if node.inputs[i]]
    rows, inner = known[0] if len(known[0]) == 2 else (0, 0)
    if known[1:] != static[1:] or node.flag("transA") or isinstance(inner, Linear):
        raise refused(emitter, f"of '{node.inputs[0]}'")
    result = standard(node, emitter, {})
    return bounded(emitter, result, [rows, shape_of_value(result)[1]])
