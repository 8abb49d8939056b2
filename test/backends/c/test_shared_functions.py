"""Test that equal layers share a function, which is called with their pointers."""

import re

import numpy as np
import pytest
from c_harness import SANITIZE, Array, Values, check, constant, make_network
from c_tiles import source
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Binary, BinaryOp, MatmulOp
from ceras_ir.dialects.quant import RequantAttr, UniformType

RNG = np.random.default_rng(0)
Q = UniformType(0.5)
WEIGHTS = [RNG.normal(size=(6, 6)).astype(np.float32) for _ in range(2)]


def steps(x: SSAValue, weights: list[Array]) -> Values:
    """Return the body of a loop for several weights."""
    for w in weights:
        y = MatmulOp(x, constant(w), result_element=f32).result
        x = BinaryOp(Binary.ADD, y, x, result_element=f32).result
    return [x]


def functions(weights: list[Array]) -> list[str]:
    module = make_network([(f32, (3, 6))], lambda x: steps(x, weights))
    check(module, tolerance=1e-6)
    return re.findall(r"^MODEL_LAYER void (\w+)", source(module), re.MULTILINE)


def test_layers_share_with_all_weights():
    a, b = WEIGHTS
    # The last sum is stored in the memory of the caller, not in an operand.
    expected = ["layer_0_matmul", "layer_1_binary", "layer_5_binary"]
    assert functions([a, a.copy(), a]) == expected
    assert functions([a, b, a]) == expected


def test_different_constants_are_arguments():
    a, b = WEIGHTS
    module = make_network([(f32, (3, 6))], lambda x: steps(x, [a, b, a]))
    text = source(module)
    calls = re.findall(r"^  layer_0_matmul\(.*, (\w+)\);", text, re.MULTILINE)
    assert calls == ["LAYER_0_WEIGHTS", "LAYER_2_WEIGHTS", "LAYER_0_WEIGHTS"]
    (declared,) = re.findall(r"^MODEL_LAYER void layer_0_matmul\((.*)\)$", text, re.MULTILINE)
    assert declared.endswith("const float *restrict weights")
    assert "LAYER_0_WEIGHTS" not in text.partition("layer_0_matmul(")[2].partition("\n}")[0]


def quantized_steps(x: SSAValue) -> Values:
    """Return int8 layers of which only vectors need shifts for each channel."""
    rng = np.random.default_rng(1)
    for _ in range(3):
        weights = constant(rng.integers(-8, 8, (16, 16)).astype(np.int8), Q)
        requant = RequantAttr(9, multiplier=[int(m) for m in rng.integers(1, 9, 16)])
        x = MatmulOp(x, weights, result_element=Q, requant=requant).result
    return [x]


@pytest.mark.parametrize("flags", [SANITIZE, (*SANITIZE, "-DMODEL_LANES=0")])
def test_constants_of_other_processors_are_null(flags: tuple[str, ...]):
    module = make_network([(Q, (8, 16))], quantized_steps)
    names = re.findall(r"^MODEL_LAYER void (\w+)", source(module), re.MULTILINE)
    assert names == ["layer_0_matmul"]
    check(module, flags=flags)


def test_they_are_listed():
    a, b = WEIGHTS
    module = make_network([(f32, (3, 6))], lambda x: steps(x, [a, b, a]))
    text = source(module)
    assert "/* And layers 2, 4. */\nMODEL_LAYER void layer_0_matmul" in text
    assert "/* And layer 3. */\nMODEL_LAYER void layer_1_binary" in text
    assert "  TRACE(4," in text and "layer_4_" not in text
