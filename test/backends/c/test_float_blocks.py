"""
Test float layers on vectors of 8 lanes: incomplete blocks of outputs, groups of windows, parts of
windows. The bits are those of fused products in the order of the window.
"""

from collections.abc import Mapping

import numpy as np
import pytest
from c_harness import Array, Values, check, constant, make_network
from c_tiles import FLAGS, SANITIZED, X86
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.float_blocks import (
    MAX_SUMS,
    PACKED_TAPS,
    ROW_VECTORS,
    TILE_WINDOWS,
    Block,
    blocked,
)
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.backends.c.tile_nest import Nest
from ceras_ir.dialects.graph import Conv2dOp, Function, FunctionAttr, MatmulOp

pytestmark = pytest.mark.skipif(not X86, reason="vectors of x86")

AVX2 = "-O1", *SANITIZED, "-mavx2", "-mfma"
"""Vectors of 8 lanes on all processors of this family."""

ROUNDING = 1e-5
"""The error of results around 1, compared with sums in another order."""

PRODUCTS = [
    # rows, products per sum, outputs
    (1, 40, 72),
    (1, 300, 500),
    (2, 30, 208),
    (3, 24, 70),
    (5, 200, 24),
    (13, 385, 40),
    (50, 64, 8),
    (50, 577, 100),
    (700, 16, 33),
]
"""All widths of blocks, tiles without packed weights, several parts of a window, several tiles."""


def fused(x: Array, w: Array, bias: Array) -> Array:
    """
    Return sums that start at the bias, and add products without a rounding of the product. The 64
    bits of the sum before its rounding suffice unless it is next to the middle of two floats.
    """
    sums = np.tile(bias, (len(x), 1))
    for k in range(x.shape[1]):
        products = np.multiply.outer(x[:, k].astype(np.longdouble), w[:, k].astype(np.longdouble))
        sums = (sums + products).astype(np.float32)
    return sums


def products(shape: tuple[int, int, int]) -> tuple[ModuleOp, Mapping[str, Array], list[Array]]:
    """
    Return a network of products of `shape` (rows, products per sum, outputs), inputs and results.
    """
    rows, k, outputs = shape
    rng = np.random.default_rng(k)
    weights = rng.normal(0, k**-0.5, (outputs, k)).astype(np.float32)
    bias = rng.normal(size=outputs).astype(np.float32)
    clip = FunctionAttr(Function.CLIP, (-0.5, 0.75))

    def build(x: SSAValue, residual: SSAValue) -> Values:
        w, b = constant(weights), constant(bias)
        return [
            MatmulOp(x, w, b, result_element=f32).result,
            MatmulOp(x, w, b, residual, result_element=f32, activation=clip).result,
        ]

    module = make_network([(f32, (rows, k)), (f32, (rows, outputs))], build)
    inputs = {
        "input0": rng.normal(size=(rows, k)).astype(np.float32),
        "input1": rng.normal(size=(rows, outputs)).astype(np.float32),
    }
    sums = fused(inputs["input0"], weights, bias)
    return module, inputs, [sums, np.clip(np.add(sums, inputs["input1"]), -0.5, 0.75)]


@pytest.mark.parametrize("shape", PRODUCTS)
def test_bits_of_products(shape: tuple[int, int, int]):
    module, inputs, expected = products(shape)
    found = check(module, inputs, tolerance=ROUNDING, flags=AVX2).values()
    for result, sums in zip(found, expected, strict=True):
        np.testing.assert_array_equal(result, sums)


CONVOLUTIONS = [
    # input, outputs, kernel, stride, dilation, groups
    ((1, 14, 14, 20), 40, (3, 3), 2, 1, 1),
    ((2, 9, 23, 70), 24, (3, 3), 1, 2, 1),
    ((1, 40, 40, 3), 17, (7, 7), 2, 1, 1),
    ((1, 12, 12, 64), 96, (3, 3), 1, 1, 2),
    ((1, 10, 11, 250), 16, (1, 1), 2, 1, 1),
]


def convolution(layer: int) -> ModuleOp:
    """Return a network of a convolution of `CONVOLUTIONS`."""
    shape, outputs, kernel, stride, dilation, groups = CONVOLUTIONS[layer]
    rng = np.random.default_rng(layer)
    size = (outputs, *kernel, shape[3] // groups)
    weights = rng.normal(0, np.prod(size[1:]) ** -0.5, size).astype(np.float32)
    before = dilation * (kernel[0] - 1) // 2
    return make_network(
        [(f32, shape)],
        lambda x: [
            Conv2dOp(
                x, constant(weights), result_element=f32, strides=(stride, stride),
                dilations=(dilation, dilation), padding=(before,) * 4, groups=groups,
                activation=FunctionAttr(Function.RELU),
            ).result
        ],
    )  # fmt: skip


@pytest.mark.parametrize("build", ["avx2", "native", "openmp"])
@pytest.mark.parametrize("layer", range(len(CONVOLUTIONS)))
def test_convolutions(layer: int, build: str):
    flags = {"avx2": AVX2, "native": FLAGS, "openmp": (*AVX2, "-fopenmp")}[build]
    check(convolution(layer), tolerance=ROUNDING, flags=flags)


def test_groups_of_windows():
    """Sizes differ by at most a window, and sums and weights fit 16 registers."""
    assert all(windows * most + windows <= 15 for windows, most in ROW_VECTORS.items())
    for vectors in (1, 2, 3):
        for count in range(1, 2 * TILE_WINDOWS):
            block = Block.of(count, vectors)
            assert block.windows * vectors + vectors <= 16 - (vectors < 3)
            assert block.windows * vectors <= MAX_SUMS
            groups = -(-count // block.windows)
            assert (block.windows - 1) * groups <= count <= block.windows * groups


@pytest.mark.parametrize("workspace", [1 << 14, 1 << 18])
@pytest.mark.parametrize("layer", range(len(CONVOLUTIONS)))
def test_strips_fit_the_workspace(layer: int, workspace: int):
    shape, outputs, kernel, stride, dilation, groups = CONVOLUTIONS[layer]
    weights = np.zeros((outputs, *kernel, shape[3] // groups), np.float32)
    module = make_network(
        [(f32, shape)],
        lambda x: [
            Conv2dOp(
                x, constant(weights), result_element=f32, strides=(stride, stride),
                dilations=(dilation, dilation), groups=groups,
            ).result
        ],
    )  # fmt: skip
    (op,) = (op for op in module.walk() if isinstance(op, Conv2dOp))
    given = Nest.of(op, Geometry.of(op), 4, workspace)
    nest = blocked(given, workspace)
    assert nest.tile.columns == nest.columns and nest.tile.blocks == given.tile.blocks
    assert 4 * nest.strip_elements <= max(workspace, 4 * given.strip_elements)
    # The last tile of a strip starts earlier, so that it is complete.
    assert nest.tile.rows <= nest.strip
    assert not nest.rows % nest.strip or nest.rows % nest.strip >= nest.tile.rows


def test_parts_of_windows_fit_the_first_cache():
    """Packed weights of 16 outputs leave room for elements of the input."""
    assert 4 * PACKED_TAPS * 16 <= 12 * 1024
