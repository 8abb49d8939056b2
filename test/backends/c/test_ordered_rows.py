"""Test ordered products of encoded weights: plain loops, interpreter and C, bit for bit."""

import numpy as np
import pytest
from backends.arduino.networks import sparse
from c_harness import check, constant, make_network, random_inputs
from numpy.typing import NDArray
from xdsl.dialects.builtin import StringAttr, TensorType, UnitAttr, f32
from xdsl.ir import Attribute, SSAValue

from ceras_ir.backends.c.ordered_rows import (
    CODE,
    KERNEL_ATTRIBUTE,
    Encoding,
    encoded,
    quantized_like_s4,
)
from ceras_ir.dialects.graph import ConstantOp, Function, FunctionAttr, MatmulOp
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.network import run

Floats = NDArray[np.float32]


def product(
    x: SSAValue,
    weights: NDArray[np.generic],
    encoding: Encoding,
    *,
    element: Attribute = f32,
    bias: SSAValue | None = None,
    residual: SSAValue | None = None,
    activation: FunctionAttr | None = None,
) -> SSAValue:
    """Return an ordered product with weights in an encoding."""
    kind = Encoding.CSR_INDEX16 if encoding is Encoding.CODE else encoding
    value = encoded(kind, weights)
    stored = constant(weights, element)
    if value is not None:
        stored = ConstantOp(value, TensorType(element, weights.shape)).result
    op = MatmulOp(x, stored, bias, residual, result_element=f32, activation=activation)
    op.properties["ordered"] = UnitAttr()
    if encoding is Encoding.CODE:
        op.attributes[KERNEL_ATTRIBUTE] = StringAttr(CODE)
    return op.result


def by_loops(x: Floats, weights: NDArray[np.generic], scale: float | None, bias: Floats) -> Floats:
    """Compute the definition, a float32 operation at a time, over nonzero weights."""
    result = np.empty((len(x), len(weights)), np.float32)
    for m, row in enumerate(x):
        for n, column in enumerate(weights.astype(np.float32)):
            acc = np.float32(0)
            for a, w in zip(row, column, strict=True):
                if w != 0:
                    acc = np.float32(acc + np.float32(a * w))
            if scale is not None:
                acc = np.float32(acc * np.float32(scale))
            result[m, n] = np.float32(acc + bias[n])
    return result


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize(
    ("rows", "n", "k", "zeros"), [(1, 7, 9, 0.5), (3, 4, 600, 0.995), (2, 9, 5, 1)]
)
def test_c_and_interpreter_equal_the_definition(
    encoding: Encoding, quantized: bool, rows: int, n: int, k: int, zeros: float
):
    rng = np.random.default_rng(n + k)
    weights: NDArray[np.generic] = sparse(rng, (n, k), zeros)
    bias = rng.normal(size=n).astype(np.float32)
    scale = None
    if quantized:
        weights, scale = quantized_like_s4(weights.astype(np.float32))
    element = f32 if scale is None else UniformType(scale)
    module = make_network(
        [(f32, (rows, k))],
        lambda x: [product(x, weights, encoding, element=element, bias=constant(bias))],
    )
    inputs = random_inputs(module, seed=k)
    got = check(module, inputs)["output0"]
    x = np.asarray(inputs["input0"], np.float32)
    np.testing.assert_array_equal(got, by_loops(x, weights, scale, bias))


def test_quantization_is_that_of_s4():
    # scale = 127 / 2.54 = 50; 0.01 * 50 = 0.5 and 0.03 * 50 = 1.5 are ties, to even.
    weights = np.array([[2.54, -2.54, 0.0, 1.0, -0.018, 0.0299]], np.float32)
    stored, scale = quantized_like_s4(weights)
    assert stored.tolist() == [[127, -127, 0, 50, -1, 1]]
    assert scale == np.float32(np.float32(2.54) / 127)
    zeros, one = quantized_like_s4(np.zeros((2, 2), np.float32))
    assert not zeros.any() and one == 1.0


@pytest.mark.parametrize("encoding", list(Encoding))
def test_infinities_meet_only_what_is_stored(encoding: Encoding):
    """A stored zero times infinity is NaN; C and interpreter agree on stored zeros."""
    weights = np.array([[0, 1, 0, 2], [0, 0, 0, 3], [1, 1, 1, 1]], np.float32)
    module = make_network(
        [(f32, (1, 4))],
        lambda x: [
            product(x, weights, encoding, activation=FunctionAttr(Function.CLIP, (-5.0, 5.0)))
        ],
    )
    x = np.array([[np.inf, 1, -2, 3]], np.float32)
    with np.errstate(invalid="ignore"):
        got = check(module, {"input0": x})["output0"].reshape(-1)
    assert np.isnan(got[0]) == (encoding is Encoding.DENSE)
    assert got[2] == 5


def test_encodings_agree_on_finite_inputs():
    rng = np.random.default_rng(0)
    weights = sparse(rng, (30, 700), 0.97)
    results: list[bytes] = []
    for encoding in Encoding:
        module = make_network([(f32, (2, 700))], lambda x, e=encoding: [product(x, weights, e)])
        results.append(run(module, random_inputs(module))["output0"].tobytes())
    assert len(set(results)) == 1
