"""Test that equal layers share a function, which is called with their pointers."""

import re

import numpy as np
from c_harness import Array, Values, check, constant, make_network
from c_tiles import source
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import Binary, BinaryOp, MatmulOp

RNG = np.random.default_rng(0)
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


def test_equal_weights_share():
    a, b = WEIGHTS
    # The last sum is stored in the memory of the caller, not in an operand.
    first, last = ["layer_0_matmul", "layer_1_binary"], ["layer_5_binary"]
    assert functions([a, a.copy(), a]) == [*first, *last]
    assert functions([a, b, a]) == [*first, "layer_2_matmul", *last]


def test_they_are_listed():
    a, b = WEIGHTS
    module = make_network([(f32, (3, 6))], lambda x: steps(x, [a, b, a]))
    text = source(module)
    assert "/* And layer 4. */\nMODEL_LAYER void layer_0_matmul" in text
    assert "/* And layer 3. */\nMODEL_LAYER void layer_1_binary" in text
    assert "  TRACE(4," in text and "layer_4_" not in text
