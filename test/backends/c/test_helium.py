"""Test kernels for Helium against the interpreter, in plain C and on the emulated Cortex-M55."""

import random
from pathlib import Path

import numpy as np
import pytest
from c_harness import Array, check, constant, make_network, needs_arm, place, random_inputs
from emulated import emulated
from slow_cases import first_fast
from xdsl.dialects.builtin import IntegerType, ModuleOp, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from ceras_ir.backends.c.costs import instructions
from ceras_ir.backends.c.emitter import build, files_of
from ceras_ir.backends.c.helium_depthwise import depthwise_groups
from ceras_ir.backends.c.linear_helium import HELIUM
from ceras_ir.backends.c.machines import Board, COptions, load_machine
from ceras_ir.backends.c.optimize import choose
from ceras_ir.backends.c.passes import ChooseEncodingsPass
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, BinaryOp, Conv2dOp, MatmulOp, Pool, Pool2dOp
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context

BOARD = "alif_e7_hp"
HELIUM_OPTIONS = COptions(dsp=True, helium=True, vectors=False, winograd=0)
KINDS = ("convolution", "depthwise", "product", "1x1")
LIMITS: dict[Attribute, tuple[int, int]] = {i8: (-128, 127), i16: (-32768, 32767)}


def requant(pick: random.Random, n: int, shift: int, element: UniformType) -> RequantAttr:
    """Return a random requantization: a shift or a multiplier, common or per channel."""
    point, (low, high) = element.zero_point, LIMITS[element.storage]
    bits, multiplier = pick.choice((8, 20, 30)), 1
    match pick.randrange(4):
        case 0:
            multiplier = [1 << pick.randrange(4) for _ in range(n)]
            shift += 3
        case 1:
            multiplier, shift = pick.randrange(1 << bits - 1, 1 << bits), shift + bits
        case 2:
            spread = pick.choice((2, 12, 25))
            multiplier = [max(1, int(2 ** (bits - pick.random() * spread))) for _ in range(n)]
            shift += bits
        case _:
            pass
    return RequantAttr(
        min(shift, 62),
        multiplier=multiplier,
        rounding=pick.choice((Rounding.HALF_UP, *ROUNDINGS)),
        zero_point=point,
        low=pick.choice((low, low, max(low, point))),
        high=pick.choice((high, high, 90)),
    )


ROUNDINGS = [each for each in Rounding if each is not Rounding.DOUBLE_ROUND]
"""The roundings that Helium kernels have."""


def layer(seed: int) -> ModuleOp:
    """Return a random layer with inputs and results of 8 or 16 bits, often with a residual."""
    pick, rng = random.Random(seed), np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    x_storage, y_storage = (pick.choice((i8, i8, i16)) for _ in range(2))
    x_type = UniformType(2**-4, pick.choice((0, -128, 5, 127)), storage=x_storage)
    y_type = UniformType(2**-2, pick.choice((0, 0, -7, 12)), storage=y_storage)
    strides, padding, groups = (1, 1), [0] * 4, 1
    if kind == "product":
        shape = [pick.choice((1, 2, 5, 9)), pick.choice((3, 16, 17, 40, 64, 200))]
        weights_shape = [pick.choice((1, 5, 16, 70, 130)), shape[1]]
        result = [shape[0], weights_shape[0]]
    else:
        kernel = (1, 1) if kind == "1x1" else (pick.randrange(1, 4), pick.randrange(1, 5))
        channels = pick.choice((2, 3, 8, 16, 17, 24, 40, 130))
        shape = [1, pick.randrange(kernel[0], 9), pick.randrange(kernel[1], 12), channels]
        weights_shape = [pick.choice((1, 5, 16, 18, 66)), *kernel, channels]
        if kind == "depthwise":
            weights_shape, groups = [channels, *kernel, 1], channels
        if kind != "1x1":
            strides = (pick.choice((1, 2)), pick.choice((1, 2)))
            padding = [pick.randrange(2) for _ in range(4)]
        sides = (
            (shape[1 + i] + padding[i] + padding[2 + i] - kernel[i]) // strides[i] + 1
            for i in range(2)
        )
        result = [1, *sides, weights_shape[0]]
    n, k = weights_shape[0], int(np.prod(weights_shape[1:]))
    # Weights of four bits are packed.
    width = 4 if seed % 3 == 1 else 8
    largest = pick.choice((127, 127, 20)) if width == 8 else 7
    weights = rng.integers(-largest, largest + 1, weights_shape).astype(np.int8)
    if pick.random() < 0.3:
        weights[rng.random(weights_shape) < 0.1] = -(1 << (width - 1))
    biases = rng.integers(-3000, 3000, n).astype(np.int32)
    wide = 8 * (x_storage == i16) - 6 * (y_storage == i16)
    attribute = requant(pick, n, max(6 + (k.bit_length() + 1) // 2 + wide, 0), y_type)
    residual_type = UniformType(2**-3, pick.choice((0, 7)), storage=pick.choice((i8, i16)))
    has_residual = pick.random() < 0.4
    shifts = pick.choice((0, 3, [pick.randrange(4) for _ in range(n)])) if has_residual else None

    def operation(x: SSAValue, residual: SSAValue) -> list[SSAValue]:
        w = constant(weights, UniformType(0.25, storage=IntegerType(width)))
        b = constant(biases, UniformType(2**-6, storage=i32))
        more = residual if has_residual else None
        if kind == "product":
            return [
                MatmulOp(
                    x, w, b, more, result_element=y_type, requant=attribute, residual_shift=shifts
                ).result
            ]
        return [
            Conv2dOp(
                x, w, b, more, result_element=y_type, strides=strides, padding=padding,
                groups=groups, requant=attribute, residual_shift=shifts,
            ).result
        ]  # fmt: skip

    return make_network([(x_type, tuple(shape)), (residual_type, tuple(result))], operation)


def kernel_of(module: ModuleOp, options: COptions = HELIUM_OPTIONS) -> str:
    return build(place(module), options).layers[-1].kernel


def extremes(module: ModuleOp) -> dict[str, Array]:
    """Return only the largest magnitudes, so that sums reach their maximum."""
    result: dict[str, Array] = {}
    for name, array in random_inputs(module).items():
        info = np.iinfo(array.dtype.name)
        is_low = array.astype(np.int64) < 0
        result[name] = np.where(is_low, info.min, info.max).astype(array.dtype)
    return result


@pytest.mark.sample(36)
@pytest.mark.parametrize("workspace", [0, 12 << 10])
@pytest.mark.parametrize("seed", first_fast(8, range(48)))
def test_plain_c_equals_the_interpreter(seed: int, workspace: int):
    check(layer(seed), options=COptions(dsp=True, helium=True, workspace=workspace, winograd=0))


def test_random_layers_use_the_kernels():
    kernels = [kernel_of(layer(seed)) for seed in range(48)]
    assert kernels.count(HELIUM) > 30


@pytest.mark.sample(18)
@needs_arm
@pytest.mark.parametrize("seed", first_fast(4, range(48)))
def test_the_emulated_core_equals_the_interpreter(seed: int, tmp_path: Path):
    module = place(layer(seed))
    options = COptions(dsp=True, helium=True, vectors=False, winograd=0, workspace=3000)
    model = emulated(module, options, BOARD, tmp_path, ("-Os", "-O2", "-O3")[seed % 3])
    samples = [random_inputs(module, seed), extremes(module)]
    for sample, got in zip(samples, model.run(samples), strict=True):
        np.testing.assert_array_equal(got["output0"], run(module, sample)["output0"])


def elementwise(seed: int) -> ModuleOp:
    """Return a sum, a lookup or a pooling of int8, with sizes that do not fill vectors."""
    pick = random.Random(seed)
    x_type, y_type = UniformType(0.5, pick.choice((-128, 4))), UniformType(1.0, -3)
    shape = (1, pick.randrange(3, 7), pick.randrange(3, 9), pick.choice((1, 7, 16, 40)))
    rounding = (Rounding.HALF_UP, Rounding.HALF_EVEN, Rounding.FLOOR)[seed // 4 % 3]
    attribute = RequantAttr(4 + seed % 3, rounding=rounding, zero_point=-3, low=-90)

    def operation(a: SSAValue, b: SSAValue) -> list[SSAValue]:
        match seed % 4:
            case 0:
                kind = pick.choice((Binary.ADD, Binary.SUB))
                return [
                    BinaryOp(
                        kind, a, b, result_element=y_type, multipliers=(5, 3), requant=attribute
                    ).result
                ]
            case 1:
                return [graph.RequantizeOp(a, y_type, RequantAttr(1, zero_point=-3)).result]
            case 2:
                return [
                    Pool2dOp(
                        Pool.MAX, a, (2, 3), result_element=x_type, strides=(1, 2),
                        padding=(1, 1, 0, 1),
                    ).result
                ]  # fmt: skip
            case _:
                rescale = RequantAttr(12, multiplier=455, zero_point=-3)
                average = Pool2dOp(Pool.AVERAGE, a, (3, 3), result_element=y_type, requant=rescale)
                return [average.result]

    return make_network([(x_type, shape), (UniformType(0.25, 9), shape)], operation)


@pytest.mark.sample(6)
@pytest.mark.parametrize("seed", range(12))
def test_elementwise_layers_in_plain_c(seed: int):
    module = elementwise(seed)
    check(module, options=COptions(dsp=True, helium=True))
    assert kernel_of(elementwise(seed)) == HELIUM


@pytest.mark.sample(6)
@needs_arm
@pytest.mark.parametrize("seed", first_fast(4, range(12)))
def test_elementwise_layers_on_the_core(seed: int, tmp_path: Path):
    module = place(elementwise(seed))
    model = emulated(module, HELIUM_OPTIONS, BOARD, tmp_path, "-O2")
    sample = random_inputs(module, seed)
    (got,) = model.run([sample])
    np.testing.assert_array_equal(got["output0"], run(module, sample)["output0"])


def test_groups_of_taps_fit_16_bits():
    weights = np.random.default_rng(0).integers(-128, 128, (40, 25))
    groups = depthwise_groups(weights)
    assert [tap for group in groups for tap in group] == list(range(25))
    assert all(128 * np.abs(weights[:, group]).sum(1).max() < 1 << 15 for group in groups)
    assert max(map(len, depthwise_groups(np.full((4, 9), 20)))) == 9
    assert [len(group) for group in depthwise_groups(np.full((4, 3), -128))] == [1, 1, 1]


def convolution(channels: int, outputs: int, kernel: int, groups: int = 1) -> ModuleOp:
    rng, element = np.random.default_rng(0), UniformType(0.5)
    shape = (outputs, kernel, kernel, channels // groups)
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    biases = np.zeros(outputs, np.int32)

    def operation(x: SSAValue) -> list[SSAValue]:
        w, b = constant(weights, element), constant(biases, UniformType(0.25, storage=i32))
        return [
            Conv2dOp(
                x, w, b, result_element=element, padding=[kernel // 2] * 4, groups=groups,
                requant=RequantAttr(9),
            ).result
        ]  # fmt: skip

    return place(make_network([(element, (1, 12, 16, channels))], operation))


@needs_arm
@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "groups", "most"),
    [(32, 32, 3, 1, 0.14), (3, 16, 3, 1, 0.4), (64, 64, 1, 1, 0.2), (48, 48, 3, 48, 1.0)],
)
def test_the_cost_model_and_the_instructions_per_product(
    channels: int, outputs: int, kernel: int, groups: int, most: float, tmp_path: Path
):
    module, board = convolution(channels, outputs, kernel, groups), load_machine(BOARD)
    assert isinstance(board, Board)
    model = emulated(module, HELIUM_OPTIONS, BOARD, tmp_path, "-O2")
    model.run([random_inputs(module)], repeat=3)
    printed = build(module, HELIUM_OPTIONS).layers[-1]
    (counted,) = model.instructions
    assert 0.85 < instructions(printed, board, "-O2") / counted < 1.15
    assert isinstance(printed.op, Conv2dOp)
    assert counted / printed.op.macs < most


def test_boards_with_helium_use_the_kernels_for_speed_and_balance():
    board = load_machine("ek_ra8m1")
    assert isinstance(board, Board)
    goals = choose(convolution(32, 32, 3), board, "model").goals
    assert goals["speed"].kernels == goals["balanced"].kernels == HELIUM
    report = goals["speed"].model.layers[-1]
    assert report.kernel == HELIUM
    text = {a.path for a in files_of(goals["speed"].model)}
    assert "model_kernels.h" in text


def test_a_layer_with_zeros_stays_dense_if_helium_is_faster():
    """A sparse kernel would need several times the instructions; boards need no `fqbn`."""
    rng, element = np.random.default_rng(0), UniformType(0.5)
    weights = rng.integers(-127, 128, (32, 3, 3, 32)).astype(np.int8)
    weights[rng.random(weights.shape) < 0.8] = 0
    for board, encoded in ((BOARD, False), ("nucleo_f446re", True)):
        module = make_network(
            [(element, (1, 12, 16, 32))],
            lambda x: [
                Conv2dOp(
                    x, constant(weights, element), result_element=element, padding=[1] * 4,
                    requant=RequantAttr(9),
                ).result
            ],
        )  # fmt: skip
        ChooseEncodingsPass(board=board).apply(load_context(), module)
        stored = next(op for op in module.walk() if isinstance(op, graph.ConstantOp))
        assert (stored.encoded is not None) == encoded, board
