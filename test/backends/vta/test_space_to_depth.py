"""A convolution without stride on more channels computes the same integers."""

import numpy as np
import pytest
from backends.vta_lowering.layers import Layer, random_array
from xdsl.context import Context

from ceras_ir.backends.vta.passes.reshape_convolutions import SpaceToDepthPass
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.interpreters.network import run


def strided(kernel: int, stride: int, padding: tuple[int, int, int, int], size: int, c: int):
    rng = np.random.default_rng(kernel * 100 + stride * 10 + c)
    return Layer(
        random_array(rng, (1, size, size, c), extremes=True),
        random_array(rng, (5, kernel, kernel, c)),
        rng.integers(-900, 900, 5).astype(np.int32),
        strides=(stride, stride),
        padding=padding,
        requant=RequantAttr(9),
    )


def convolutions(layer: Layer) -> tuple[list[graph.Conv2dOp], np.ndarray[tuple[int, ...]]]:
    module = layer.module()
    for _ in range(2):
        SpaceToDepthPass().apply(Context(), module)
        module.verify()
    found = [op for op in module.walk() if isinstance(op, graph.Conv2dOp)]
    return found, run(module, layer.inputs)["output0"]


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "size", "c"),
    [
        (7, 2, (3, 3, 3, 3), 16, 3),
        (3, 2, (1, 1, 1, 1), 12, 3),
        (3, 2, (0, 0, 1, 1), 12, 1),
        (11, 4, (2, 2, 2, 2), 24, 3),
        (5, 3, (1, 2, 1, 2), 15, 2),
    ],
)
def test_same_integers(
    kernel: int, stride: int, padding: tuple[int, int, int, int], size: int, c: int
):
    layer = strided(kernel, stride, padding, size, c)
    (op,), result = convolutions(layer)
    assert op.strides.get_values() == (1, 1)
    assert graph.shape_of(op.input)[3] == c * stride * stride
    np.testing.assert_array_equal(result, layer.expected())


@pytest.mark.parametrize(
    ("kernel", "stride", "size", "c"),
    [(3, 1, 12, 3), (3, 2, 13, 3), (3, 2, 12, 16), (1, 2, 12, 3)],
    ids=["no stride", "odd extent", "channels that fill a vector", "one tap"],
)
def test_left_alone(kernel: int, stride: int, size: int, c: int):
    pad = kernel // 2
    layer = strided(kernel, stride, (pad, pad, pad, pad), size, c)
    (op,), result = convolutions(layer)
    assert op.strides.get_values() == (stride, stride)
    np.testing.assert_array_equal(result, layer.expected())
