"""Test float convolutions along an axis, whose rows are divided by the taps inside of the input."""

from functools import partial

import numpy as np
import pytest
from c_harness import Values, check, constant, make_network
from c_tiles import FLAGS, X86, source
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Conv2dOp, Function, FunctionAttr

ROUNDING = 1e-5
"""The error of sums of up to 200 products around 1, with and without an intermediate rounding."""

LAYERS = [
    # size, channels, outputs, taps, stride, dilation, padding before and after
    (64, 16, 64, 3, 1, 8, 16, 0),
    (40, 20, 100, 3, 1, 1, 1, 1),
    (33, 8, 48, 5, 2, 1, 2, 2),
    (50, 12, 24, 3, 3, 7, 6, 9),
    (30, 16, 16, 2, 1, 30, 30, 0),
    (20, 16, 32, 7, 1, 1, 3, 3),
    (12, 16, 16, 3, 1, 2, 20, 0),
    (10, 24, 33, 3, 1, 9, 9, 9),
]
"""
Causal and symmetric padding; several panels, an incomplete panel, strides; and two layers that are
not divided: with too many parts, and with windows of padding only.
"""
UNDIVIDED = {5, 6}


def network(layer: int, axis: int) -> ModuleOp:
    """Return a layer along an axis of the map, without and with residual and activation."""
    size, channels, outputs, taps, stride, dilation, before, after = LAYERS[layer]
    rng = np.random.default_rng(layer)

    def along(value: int, other: int) -> tuple[int, int]:
        return (value, other) if axis == 0 else (other, value)

    kernel = along(taps, 1)
    weights = rng.normal(0, (channels * taps) ** -0.5, (outputs, *kernel, channels))
    count = (size + before + after - (taps - 1) * dilation - 1) // stride + 1
    bias = rng.normal(size=outputs).astype(np.float32)
    top, left = along(before, 0)
    bottom, right = along(after, 0)

    def build(x: SSAValue, residual: SSAValue) -> Values:
        convolve = partial(
            Conv2dOp, x, constant(weights.astype(np.float32)), result_element=f32,
            strides=along(stride, 1), dilations=along(dilation, 1),
            padding=(top, left, bottom, right),
        )  # fmt: skip
        clip = FunctionAttr(Function.CLIP, (-0.5, 0.75))
        swish = FunctionAttr(Function.SWISH)
        return [
            convolve().result,
            convolve(constant(bias), residual, activation=clip).result,
            convolve(constant(bias), activation=swish).result,
        ]

    shapes = (1, *along(size, 1), channels), (1, *along(count, 1), outputs)
    return make_network([(f32, shape) for shape in shapes], build)


BUILDS = {
    "512": FLAGS,
    "openmp": (*FLAGS, "-fopenmp"),
    "256": (*FLAGS[:-1], "-mavx2", "-mfma") if X86 else FLAGS,
    "loops": (*FLAGS, "-DMODEL_F32=0"),
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("layer", range(len(LAYERS)))
def test_parts_of_rows(layer: int, axis: int):
    check(network(layer, axis), flags=FLAGS, tolerance=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("layer", range(len(LAYERS)))
def test_parts_of_rows_in_all_builds(layer: int, build: str):
    check(network(layer, 1), flags=BUILDS[build], tolerance=ROUNDING)


@pytest.mark.parametrize("layer", range(len(LAYERS)))
def test_divided_layers_need_no_copy(layer: int):
    assert ("halo_f32" in source(network(layer, 1))) == (layer in UNDIVIDED)
