"""
The bias contains the zero points of input, residual and result: exact, without additional cycles.
"""

from dataclasses import replace

import numpy as np
import pytest
from backends.vta_lowering.layers import (
    BOARD,
    INT8,
    Array,
    Layer,
    apply,
    check_all_levels,
    network,
    random_array,
    random_layer,
    stored,
    with_zero_points,
)
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block

from ceras_ir.backends.vta.execution.image import VtaImage
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.time import simulate_time
from ceras_ir.backends.vta.passes.reshape_convolutions import Im2colPass, SpaceToDepthPass
from ceras_ir.backends.vta.rules.admission import accumulator_bound, why_not
from ceras_ir.backends.vta.rules.channel_constants import folded_bias
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.pooling import Pool, reciprocal_requant
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

POINTS = (-128, 127, 1, -37)


def check(layer: Layer) -> VtaImage:
    """Check that VTA is exact at all levels."""
    image = check_all_levels(layer.module(), layer.inputs, layer.expected())
    assert len(image.launches) == 1
    return image


def convolution(module: ModuleOp) -> graph.Conv2dOp:
    return next(op for op in module.walk() if isinstance(op, graph.Conv2dOp))


def residual_layer(seed: int) -> Layer:
    """Return a 3x3 convolution of 20 channels with 33 outputs and a residual that saturates."""
    rng = np.random.default_rng(seed)
    return Layer(
        random_array(rng, (2, 7, 9, 20)),
        random_array(rng, (33, 3, 3, 20)),
        rng.integers(-3000, 3000, 33).astype(np.int32),
        random_array(rng, (2, 5, 7, 33), extremes=True),
        residual_shift=8,
        requant=RequantAttr(9),
    )


@pytest.mark.slow
@pytest.mark.parametrize("point", first_fast(1, POINTS))
def test_each_alone(point: int):
    layer = residual_layer(point + 128)
    check(replace(layer, points=(point, 0)))
    check(replace(layer, points=(0, point)))
    check(replace(layer, requant=RequantAttr(9, zero_point=point)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(2, range(6)))
def test_with_padding(seed: int):
    """Check strides, dilations, batches and windows of any size. The border is the zero point."""
    rng = np.random.default_rng(seed)
    layer = with_zero_points(random_layer(40 + seed), rng)
    check(replace(layer, points=(POINTS[seed % 4], layer.points[1])))


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "inputs", "outputs"), [(24, 24, 24), (4, 64, 128), (3, 48, 24)])
def test_groups(groups: int, inputs: int, outputs: int):
    rng = np.random.default_rng(groups)
    layer = Layer(
        random_array(rng, (1, 7, 7, inputs)),
        random_array(rng, (outputs, 3, 3, inputs // groups)),
        rng.integers(-2000, 2000, outputs).astype(np.int32),
        padding=(1, 1, 0, 1),
        requant=RequantAttr(7, zero_point=-128, low=-128),
        groups=groups,
        points=(-128, 0),
    )
    check(layer)
    check(replace(layer, padding=(0, 0, 0, 0), points=(127, 0)))


@pytest.mark.slow
def test_ties_and_saturation():
    """Ties of both signs round up before the zero point is added; the result is then clamped."""
    x = np.arange(-128, 128, dtype=np.int64).astype(np.int8).reshape(256, 1)
    for point in POINTS:
        for low, high in ((-128, 127), (point, 127), (-128, point)):
            requant = RequantAttr(1, zero_point=point, low=low, high=high)
            check(Layer(x, np.ones((1, 1), np.int8), requant=requant, points=(point, 0)))


def test_rounding_to_even_is_not_the_shifters():
    layer = Layer(np.zeros((2, 3), np.int8), np.ones((3, 3), np.int8), points=(5, 0))
    layer = replace(layer, requant=RequantAttr(7, zero_point=5, rounding=Rounding.HALF_EVEN))
    (op,) = (o for o in layer.module().walk() if isinstance(o, graph.LinearOperation))
    assert "got half_even" in (why_not(op) or "")


@pytest.mark.parametrize(("point", "left", "taken"), [(-128, 5, True), (6, 1, True), (6, 2, False)])
def test_left_shift(point: int, left: int, taken: bool):
    """The zero point is added before the shift, if it is a multiple of the power of two."""
    rng = np.random.default_rng(left)
    layer = Layer(
        rng.integers(-2, 3, (4, 8)).astype(np.int8),
        rng.integers(-2, 3, (9, 8)).astype(np.int8),
        requant=RequantAttr(0, multiplier=1 << left, zero_point=point),
        points=(1, 0),
    )
    if taken:
        check(layer)
        return
    (op,) = (o for o in layer.module().walk() if isinstance(o, graph.LinearOperation))
    assert why_not(op) == (
        "VTA adds before it shifts left by 2, and the zero point 6 is not a multiple of 4: "
        "run it on the CPU"
    )


def test_what_is_folded_is_bounded():
    """
    The bound by hand is 2 * 128 products of 1, the bias, and the zero points of input and result.
    """
    layer = Layer(
        np.zeros((1, 2), np.int8),
        np.array([[1, 1], [1, -1]], np.int8),
        np.array([5, -7], np.int32),
        requant=RequantAttr(4, zero_point=3),
        points=(-100, 0),
    )
    (op,) = (o for o in layer.module().walk() if isinstance(o, graph.LinearOperation))
    assert folded_bias(op).tolist() == [5 + 200 + 8 + 48, -7 + 8 + 48]
    assert accumulator_bound(op) == 256 + 261


@pytest.mark.parametrize(("shift", "taken"), [(23, True), (24, False)])
def test_a_zero_point_that_would_overflow_is_refused(shift: int, taken: bool):
    """
    127 << 24 is 2^31 - 2^24. With 1024 products of 127 * 128 and half a unit, the sum overflows.
    """
    layer = Layer(
        np.full((1, 1024), -128, np.int8),
        np.full((1, 1024), 127, np.int8),
        requant=RequantAttr(shift, zero_point=127),
    )
    (op,) = (o for o in layer.module().walk() if isinstance(o, graph.LinearOperation))
    if taken:
        check(layer)
    else:
        assert "which the sum may exceed" in (why_not(op) or "")


@pytest.mark.slow
def test_no_cycle_more():
    """
    A layer without padding takes as long with zero points as without, if the number of tiles of the
    bias is unchanged.
    """
    layer = residual_layer(0)
    asymmetric = replace(layer, points=(-8, 17), requant=RequantAttr(9, zero_point=-128))
    cycles = [
        simulate_time(launch.program.instructions, load_board(BOARD)).cycles
        for each in (layer, asymmetric)
        for launch in check(each).launches
    ]
    assert len(set(cycles)) == 1


@pytest.mark.parametrize("reshaping", [SpaceToDepthPass(), Im2colPass(convolution="im2col")])
@pytest.mark.parametrize("point", first_fast(1, POINTS))
def test_reshaped_stems(reshaping: SpaceToDepthPass | Im2colPass, point: int):
    rng = np.random.default_rng(3)
    layer = Layer(
        random_array(rng, (1, 12, 16, 3)),
        random_array(rng, (20, 7, 7, 3)),
        strides=(2, 2),
        padding=(3, 3, 2, 2),
        requant=RequantAttr(10, zero_point=-128),
        points=(point, 0),
    )
    module = layer.module()
    apply(module, reshaping)
    assert graph.shape_of(convolution(module).weights)[1:] != (7, 7, 3)
    image = check_all_levels(module, layer.inputs, layer.expected())
    assert len(image.launches) == 1


@pytest.mark.parametrize("padding", [0, 1])
def test_maxima_know_no_zero_point(padding: int):
    """The largest stored integer is the maximum; padding counts as the lowest int8 value."""
    rng = np.random.default_rng(padding)
    x = random_array(rng, (1, 8, 8, 20), extremes=True)
    block = Block(arg_types=[TensorType(stored(100), x.shape)])
    pool = graph.Pool2dOp(
        *(Pool.MAX, block.args[0], (3, 3)),
        strides=(2, 2),
        padding=(padding,) * 4,
        result_element=stored(100),
    )
    block.add_op(pool)
    wide = np.pad(x, ((0, 0), *((padding, padding),) * 2, (0, 0)), constant_values=-128)
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2))
    module = network(block, pool.result)
    image = check_all_levels(module, {"input0": x}, windows[:, ::2, ::2].max(axis=(-2, -1)))
    assert len(image.launches) == 1


@pytest.mark.parametrize("point", first_fast(1, POINTS))
def test_averages_of_odd_windows(point: int):
    """Rounding to even has no effect: no sum over 49 elements is a tie."""
    rng = np.random.default_rng(1)
    x = random_array(rng, (1, 7, 7, 20))
    block = Block(arg_types=[TensorType(stored(point), x.shape)])
    r = reciprocal_requant(49, block.args[0], INT8.scale)
    requant = RequantAttr(
        r.shift.data,
        multiplier=r.multiplier.data,
        rounding=Rounding.HALF_EVEN,
        zero_point=-point - 1,
    )
    pool = graph.Pool2dOp(
        *(Pool.AVERAGE, block.args[0], (7, 7)), requant=requant, result_element=stored(-point - 1)
    )
    block.add_op(pool)
    centred = x.astype(np.int64) - point
    mean = np.rint(centred.sum(axis=(1, 2), keepdims=True) / 49) - point - 1
    module = network(block, pool.result)
    image = check_all_levels(module, {"input0": x}, np.clip(mean, -128, 127).astype(np.int8))
    assert len(image.launches) == 1


def test_averages_with_another_border_are_the_cpus():
    block = Block(arg_types=[TensorType(stored(3), (1, 8, 8, 16))])
    pool = graph.Pool2dOp(
        *(Pool.AVERAGE, block.args[0], (3, 3)),
        padding=(1, 1, 1, 1),
        count_include_pad=True,
        requant=RequantAttr(12, multiplier=455),
        result_element=stored(0),
    )
    block.add_op(pool)
    assert "zero point 3" in (why_not(pool) or "")


@pytest.mark.parametrize("kind", [graph.Binary.ADD, graph.Binary.SUB])
def test_sums_that_need_no_rounding(kind: graph.Binary):
    """
    Without a shift, there are no ties, so VTA accepts rounding to even. With a shift, the CPU runs
    the operation.
    """
    rng = np.random.default_rng(2)
    x, y = (random_array(rng, (1, 6, 5, 20)) for _ in range(2))
    block = Block(arg_types=[TensorType(stored(p), x.shape) for p in (-128, 50)])
    for shift in (0, 1):
        requant = RequantAttr(shift, rounding=Rounding.HALF_EVEN, zero_point=-7)
        op = graph.BinaryOp(
            *(kind, *block.args), result_element=stored(-7), shifts=(0, 2), requant=requant
        )
        block.add_op(op)
        if shift:
            assert "got half_even" in (why_not(op) or "")
            op.detach()
            op.erase()
    (op,) = block.ops
    sign = 1 if kind is graph.Binary.ADD else -1
    total = (x.astype(np.int64) + 128) + sign * ((y.astype(np.int64) - 50) << 2) - 7
    module = network(block, op.results[0])
    inputs: dict[str, Array] = {"input0": x, "input1": y}
    image = check_all_levels(module, inputs, np.clip(total, -128, 127).astype(np.int8))
    assert len(image.launches) == 1


def test_per_channel_zero_points_are_refused():
    element = UniformType([0.5, 0.5], [1, 2], axis=1)
    block = Block(arg_types=[TensorType(element, (3, 2))])
    block.add_op(weights := graph.ConstantOp.from_array(np.ones((4, 2), np.int8), stored(0)))
    op = graph.MatmulOp(
        block.args[0], weights.result, result_element=stored(0), requant=RequantAttr(1)
    )
    block.add_op(op)
    assert why_not(op) == (
        "VTA folds one zero point, but the input has one per channel: use a common one"
    )
    network(block, op.result)
