"""Test depthwise convolutions of floats in vectors, and in loops without vectors."""

from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from c_harness import (
    Values,
    check,
    check_elsewhere,
    constant,
    make_network,
    needs_aarch64,
    needs_rvv,
)
from c_tiles import FLAGS, SANITIZED, X86, source
from cross import AARCH64, RISCV
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Conv2dOp, Function, FunctionAttr, shape_of

pytestmark = pytest.mark.slow

ROUNDING = 1e-5
"""The error of sums of up to 49 products around 1, with and without an intermediate rounding."""

SHAPES = [
    # input, kernel, strides, dilations, padding
    ((1, 12, 11, 16), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    ((2, 9, 14, 40), (3, 3), (2, 2), (1, 1), (0, 1, 1, 0)),
    ((1, 13, 13, 20), (5, 3), (1, 2), (2, 1), (4, 1, 2, 3)),
    ((3, 3, 2, 33), (5, 5), (1, 1), (1, 1), (2, 2, 2, 2)),
    ((1, 1, 30, 64), (1, 7), (1, 1), (1, 3), (0, 9, 0, 9)),
    ((1, 10, 10, 8), (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
    ((1, 8, 8, 4), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    ((1, 16, 16, 16), (8, 8), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((1, 9, 10, 16), (3, 3), (1, 1), (1, 1), (0, 0, 0, 0)),
]
"""
Channels that fill vectors, that do not, and fewer than a vector; only padded windows; large
windows; windows without padding.
"""

ACTIVATIONS = (None, FunctionAttr(Function.SWISH), FunctionAttr(Function.CLIP, (-0.5, 0.75)))


def network() -> ModuleOp:
    """Return each shape without bias, and with bias, residual and activation."""

    def build(*inputs: SSAValue) -> Values:
        rng = np.random.default_rng(3)
        results: list[SSAValue] = []
        for x, activation, (_, kernel, strides, dilations, padding) in zip(
            inputs, cycle(ACTIVATIONS), SHAPES, strict=False
        ):
            channels = shape_of(x)[3]
            scale = 1 / np.sqrt(kernel[0] * kernel[1])
            weights = rng.normal(0, scale, (channels, *kernel, 1)).astype(np.float32)
            bias = rng.normal(size=channels).astype(np.float32)
            convolve = partial(
                Conv2dOp, x, constant(weights), result_element=f32, groups=channels,
                strides=strides, dilations=dilations, padding=padding,
            )  # fmt: skip
            first = convolve().result
            second = convolve(constant(bias), first, activation=activation).result
            results += [first, second]
        return results

    return make_network([(f32, s[0]) for s in SHAPES], build)


BUILDS = {
    "512": FLAGS,
    "openmp": (*FLAGS, "-fopenmp"),
    "256": (*SANITIZED, "-mavx2", "-mfma") if X86 else FLAGS,
    "loops": (*FLAGS, "-DMODEL_F32=0"),
}


@pytest.mark.parametrize("name", BUILDS)
def test_results(name: str):
    module = network()
    assert source(module).count("depthwise_f32_") >= 2 * 5
    check(module, tolerance=ROUNDING, flags=BUILDS[name])


@needs_aarch64
def test_results_on_arm(tmp_path: Path):
    check_elsewhere(network(), AARCH64, AARCH64.builds["neon"], tmp_path, tolerance=ROUNDING)


@needs_rvv
def test_results_on_risc_v(tmp_path: Path):
    check_elsewhere(network(), RISCV, RISCV.builds["rvv"], tmp_path, tolerance=ROUNDING)
