"""Test weights of float networks that are rounded in blocks."""

import numpy as np
import pytest
from c_harness import Values, check, constant, make_network
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import MatmulOp
from ceras_ir.pipeline.context import load_context
from ceras_ir.transforms.quantization.block_weights import BlockWeightsPass, rounded


@pytest.mark.parametrize(("bits", "least_db"), [(2, 6.5), (4, 20.5), (8, 43.0)])
def test_rounding_is_at_least_as_good_as_the_extreme(bits: int, least_db: float):
    """The reference makes the extreme weight of a block the lowest integer."""
    weights = np.random.default_rng(0).normal(size=(40, 320)).astype(np.float32)
    integers, scales = rounded(weights, bits)
    low = 1 << bits - 1
    real = (integers.astype(np.float32) - low) * np.repeat(scales.astype(np.float32), 32, 1)
    noise = np.square(real - weights).sum()
    assert 10 * np.log10(np.square(weights).sum() / noise) > least_db
    plain = 0.0
    for row in range(40):
        for start in range(0, 320, 32):
            block: NDArray[np.float32] = weights[row, start : start + 32]
            step = -float(block[np.abs(block).argmax()]) / low
            q = np.clip(np.round(block / np.float32(step)), -low, low - 1)
            plain += float(np.square(q * step - block).sum())
    assert noise <= plain * 1.001
    assert scales.dtype == np.float16


def test_zeros_and_the_end_of_a_row():
    weights = np.zeros((2, 40), np.float32)
    weights[1, 39] = 3
    integers, scales = rounded(weights, 4)
    assert (scales[0] == 0).all() and scales[1, 0] == 0
    assert (integers[0] == 8).all() and (integers[1, 40:] == 8).all()
    real = (float(integers[1, 39]) - 8) * float(scales[1, 1])
    assert abs(real - 3) < 0.02


@pytest.mark.parametrize(
    ("magnitude", "kind"), [(1e-4, "float32"), (1.0, "float16"), (1e6, "float32")]
)
def test_scales_outside_of_float16_are_float32(magnitude: float, kind: str):
    weights = np.random.default_rng(2).normal(size=(4, 64)).astype(np.float32)
    assert rounded(weights * np.float32(magnitude), 4)[1].dtype == kind


def network(seed: int) -> tuple[ModuleOp, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = [(64, 70), (128, 64), (4, 128)]

    def build(x: SSAValue) -> Values:
        for n, k in sizes:
            weights = rng.normal(0, k**-0.5, (n, k)).astype(np.float32)
            bias = constant(rng.normal(size=n).astype(np.float32))
            relu = graph.FunctionAttr(graph.Function.RELU)
            x = MatmulOp(x, constant(weights), bias, result_element=f32, activation=relu).result
        return [x]

    return make_network([(f32, (3, 70))], build), rng.normal(size=(3, 70)).astype(np.float32)


@pytest.mark.parametrize(("entry", "widths"), [("4", [4, 4, 8]), ("4:*", [4, 4, 4])])
def test_the_smallest_layers_have_8_bits(entry: str, widths: list[int]):
    module, x = network(1)
    BlockWeightsPass((entry,)).apply(load_context(), module)
    products = [op for op in module.walk() if isinstance(op, graph.BlockMatmulOp)]
    assert [op.width for op in products] == widths
    check(module, {"input0": x})
