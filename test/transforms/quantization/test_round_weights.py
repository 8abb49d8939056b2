"""Test weights of long patches, and weights that several layers share."""

from pathlib import Path

import numpy as np
import pytest
from c_harness import make_network
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, f32, i64
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.storage import WEIGHT_EXPONENT, set_exponent
from ceras_ir.pipeline.context import load_context
from ceras_ir.transforms.quantization.analysis.input_moments import (
    MAX_PART_PRODUCTS,
    PAIR_BLOCK_COLUMNS,
    SHRINKAGE,
    InputMoments,
)
from ceras_ir.transforms.quantization.round_weights import (
    RoundWeightsPass,
    round_to_nearest,
    round_with_compensation,
)

LENGTH, STEP = 2 * MAX_PART_PRODUCTS, 2.0**-4


@pytest.mark.slow
def test_parts_of_long_patches(tmp_path: Path) -> None:
    """Rounding by parts causes less noise than rounding to the nearest."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 1, LENGTH)) + rng.normal(size=(16, 1, 1))
    x[:, :, ::7] = 0
    weights = rng.normal(size=(3, LENGTH)).astype(np.float32)
    np.savez(tmp_path / "c.npz", input0=x.astype(np.float32))

    def build(value: SSAValue) -> list[SSAValue]:
        constant = graph.ConstantOp.from_array(weights, f32)
        return [graph.MatmulOp(value, constant.result, result_element=f32).result]

    module = make_network([(f32, (1, LENGTH))], build)
    main = main_function(module)
    (layer,) = (op for op in main.body.block.ops if isinstance(op, graph.MatmulOp))
    layer.attributes[WEIGHT_EXPONENT] = IntegerAttr(-4, i64)
    set_exponent(main.body.block.args[0], -5)
    set_exponent(layer.result, 0)
    RoundWeightsPass(str(tmp_path / "c.npz")).apply(load_context(), module)
    rounded = graph.known_array(layer.weights).astype(np.float64)
    plain = round_to_nearest(weights.astype(np.float64), STEP)
    assert (rounded % STEP == 0).all()
    # Inputs that are always zero compensate no error.
    np.testing.assert_array_equal(rounded[:, ::7], plain[:, ::7])
    errors = [
        float(np.square(np.einsum("nk,ok->no", x[:, 0], made - weights)).mean())
        for made in (rounded, plain)
    ]
    assert errors[0] < errors[1] / 2


@pytest.mark.parametrize(
    "length", [PAIR_BLOCK_COLUMNS - 1, PAIR_BLOCK_COLUMNS, 2 * PAIR_BLOCK_COLUMNS + 3]
)
def test_moments_are_those_of_all_patches(length: int) -> None:
    """The moments do not depend on the blocks in which products of pairs are summed."""
    rng = np.random.default_rng(0)

    def build(value: SSAValue) -> list[SSAValue]:
        weights = graph.ConstantOp.from_array(np.ones((2, length), np.float32)).result
        return [graph.MatmulOp(value, weights, result_element=f32).result]

    main = main_function(make_network([(f32, (9, length))], build))
    (layer,) = (op for op in main.body.block.ops if isinstance(op, graph.MatmulOp))
    moments = InputMoments(layer)
    batches = [rng.normal(3, 1, size=(9, length)).astype(np.float32) for _ in range(4)]
    for x in batches:
        moments.add(x, layer)
    every = np.concatenate(batches).astype(np.float64)
    (centred,), (plain,) = (moments.products(slice(0, 1), centred=c) for c in (True, False))
    np.testing.assert_allclose(moments.mean[0], every.mean(axis=0))
    kept = len(every) / (len(every) + SHRINKAGE * length)
    weight = np.where(np.eye(length, dtype=np.bool_), 1, kept)
    np.testing.assert_allclose(centred, weight * np.cov(every.T, bias=True), atol=1e-5)
    np.testing.assert_allclose(plain, weight * (every.T @ every / len(every)), rtol=1e-5)


def test_few_patches_of_many_inputs_do_not_mislead(tmp_path: Path) -> None:
    """
    Independent inputs are correlated by chance, which hardly increases the noise on other samples.
    """
    rng = np.random.default_rng(4)
    x = rng.normal(size=(32, 1, 256)).astype(np.float32)
    weights = rng.normal(size=(40, 256)).astype(np.float32)
    layer = rounded_layer(x, weights, np.zeros(40, np.float32), tmp_path / "c.npz")
    assert layer.bias is not None
    made, bias = (graph.known_array(v).astype(np.float64) for v in (layer.weights, layer.bias))
    others = rng.normal(size=(512, 256))
    plain = others @ (round_to_nearest(weights.astype(np.float64), 0.25) - weights).T
    error = others @ (made - weights).T + bias
    assert np.square(error).mean() <= 1.25 * np.square(plain).mean()


def test_equal_weights_stay_equal(tmp_path: Path) -> None:
    """Layers with different inputs, such as the steps of a loop, keep equal weights."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(5, 6)).astype(np.float32)
    x = rng.normal(size=(16, 3, 6)) * np.geomspace(1, 9, 6) + rng.normal(size=(16, 3, 1))
    y = rng.normal(size=(16, 3, 6)) * np.geomspace(9, 1, 6) + rng.normal(size=(16, 3, 1))
    np.savez(tmp_path / "c.npz", input0=x.astype(np.float32), input1=y.astype(np.float32))

    def build(*values: SSAValue) -> list[SSAValue]:
        inputs = (values[0], values[1], values[1])
        shared = graph.ConstantOp.from_array(weights, f32).result
        return [graph.MatmulOp(value, shared, result_element=f32).result for value in inputs]

    module = make_network([(f32, (3, 6)), (f32, (3, 6))], build)
    main = main_function(module)
    layers = [op for op in main.body.block.ops if isinstance(op, graph.MatmulOp)]
    for layer, exponent in zip(layers, (-2, -2, -3), strict=True):
        layer.attributes[WEIGHT_EXPONENT] = IntegerAttr(exponent, i64)
    for value in (*main.body.block.args, *(layer.result for layer in layers)):
        set_exponent(value, -2)
    RoundWeightsPass(str(tmp_path / "c.npz")).apply(load_context(), module)
    first, second, other = (graph.known_array(layer.weights) for layer in layers)
    np.testing.assert_array_equal(first, second)
    assert (first != round_to_nearest(weights.astype(np.float64), 2.0**-2)).any()
    assert (other != first).any()


def rounded_layer(
    x: NDArray[np.float32], weights: NDArray[np.float32], bias: NDArray[np.float32], path: Path
) -> graph.MatmulOp:
    """Return a layer with weights rounded to quarters on `x` [samples, 1, K]."""
    np.savez(path, input0=x)

    def build(value: SSAValue) -> list[SSAValue]:
        operands = (graph.ConstantOp.from_array(a, f32).result for a in (weights, bias))
        return [graph.MatmulOp(value, *operands, result_element=f32).result]

    module = make_network([(f32, x.shape[1:])], build)
    main = main_function(module)
    (layer,) = (op for op in main.body.block.ops if isinstance(op, graph.MatmulOp))
    layer.attributes[WEIGHT_EXPONENT] = IntegerAttr(-2, i64)
    set_exponent(main.body.block.args[0], -5)
    set_exponent(layer.result, 0)
    RoundWeightsPass(str(path)).apply(load_context(), module)
    return layer


def test_biases_take_up_mean_errors(tmp_path: Path) -> None:
    """Only deviations from the mean count for inputs far from zero."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(32, 1, 6)) + np.arange(6) * 9).astype(np.float32)
    weights = rng.normal(size=(5, 6)).astype(np.float32)
    bias = rng.normal(size=5).astype(np.float32)
    layer = rounded_layer(x, weights, bias, tmp_path / "c.npz")
    assert layer.bias is not None
    made, moved = (graph.known_array(v).astype(np.float64) for v in (layer.weights, layer.bias))
    assert (made % 0.25 == 0).all()
    error = x[:, 0] @ (made - weights).T + moved - bias
    np.testing.assert_allclose(error.mean(axis=0), 0, atol=1e-5)
    plain = x[:, 0] @ (round_to_nearest(weights.astype(np.float64), 0.25) - weights).T
    assert np.square(error).mean() <= 1.1 * plain.var(axis=0).mean()


def test_one_sample_says_nothing_about_deviations(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1, 1, 6)).astype(np.float32)
    weights = rng.normal(size=(5, 6)).astype(np.float32)
    layer = rounded_layer(x, weights, np.zeros(5, np.float32), tmp_path / "c.npz")
    np.testing.assert_array_equal(
        graph.known_array(layer.weights), round_to_nearest(weights.astype(np.float64), 0.25)
    )


def test_pairs_that_rounding_made_indefinite() -> None:
    """Float32 sums of inputs that are all 1 may have negative eigenvalues."""
    pairs = np.ones((1, 64, 64)) - 0.01 * np.eye(64)
    weights = np.random.default_rng(3).normal(size=(1, 4, 64))
    rounded = round_with_compensation(weights, pairs, np.full((1, 4, 1), 0.25))
    assert np.isfinite(rounded).all() and (rounded % 0.25 == 0).all()
