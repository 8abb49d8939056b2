"""Test kernels for SMLAD against the interpreter, in plain C and on the emulated core."""

from pathlib import Path

import numpy as np
import pytest
from c_harness import Array, check, constant, make_network, needs_arm, place, random_inputs
from firmware import write_files
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.dsp_tiles import RowChunks
from ceras_ir.backends.c.emitter import build, emit
from ceras_ir.backends.c.emulator import EmulatedModel
from ceras_ir.backends.c.machines import COptions, load_board
from ceras_ir.dialects.graph import Conv2dOp, MatmulOp
from ceras_ir.dialects.quant import SINGLE_ROUNDINGS, RequantAttr, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

ROUNDINGS = SINGLE_ROUNDINGS


def layer(seed: int) -> ModuleOp:
    """Return a random convolution or matrix product of the kernels, with extremes."""
    rng = np.random.default_rng(seed)
    pick = rng.integers
    point = int(rng.choice([0, -128, 5, 127]))
    x_type, w_type, y_type = UniformType(0.5, point), UniformType(0.25), UniformType(1.0, -3)
    n = int(pick(4, 12))
    multiplier = 1 if seed % 3 else [int(v) for v in pick(1, 100, n)]
    requant = RequantAttr(
        int(pick(4, 12)) + 6 * (seed % 3 == 0),
        multiplier=multiplier,
        rounding=ROUNDINGS[seed % len(ROUNDINGS)],
        zero_point=-3,
    )
    with_residual = bool(seed % 2)
    bias_type = UniformType(0.125, storage=i32)
    biases = pick(-5000, 5000, n).astype(np.int32)
    if seed % 4 == 3:
        m, k = int(pick(1, 9)), 4 * int(pick(1, 12))
        rows_of_weights = pick(-128, 128, (n, k)).astype(np.int8)

        def matmul(x: SSAValue) -> list[SSAValue]:
            weights, bias = constant(rows_of_weights, w_type), constant(biases, bias_type)
            return [MatmulOp(x, weights, bias, result_element=y_type, requant=requant).result]

        return make_network([(x_type, (m, k))], matmul)
    c, kernel = 4 * int(pick(1, 5)), (int(pick(1, 4)), int(pick(1, 5)))
    strides, padding = (int(pick(1, 3)), int(pick(1, 3))), [int(v) for v in pick(0, 4, 4)]
    height, width = kernel[0] + int(pick(3, 9)), kernel[1] + int(pick(6, 14))
    filters = pick(-128, 128, (n, *kernel, c)).astype(np.int8)
    residual_shift = pick(0, 5, n).tolist() if seed % 8 == 1 else int(pick(0, 5))
    rows = (height + padding[0] + padding[2] - kernel[0]) // strides[0] + 1
    columns = (width + padding[1] + padding[3] - kernel[1]) // strides[1] + 1

    def conv(x: SSAValue, residual: SSAValue) -> list[SSAValue]:
        weights, bias = constant(filters, w_type), constant(biases, bias_type)
        return [
            Conv2dOp(
                x,
                weights,
                bias,
                residual if with_residual else None,
                result_element=y_type,
                strides=strides,
                padding=padding,
                requant=requant,
                residual_shift=residual_shift if with_residual else None,
            ).result
        ]

    return make_network([(x_type, (1, height, width, c)), (y_type, (1, rows, columns, n))], conv)


@pytest.mark.parametrize("workspace", [0, 1 << 20])
@pytest.mark.parametrize("seed", first_fast(3, range(10)))
def test_plain_c_equals_the_interpreter(seed: int, workspace: int):
    module = layer(seed)
    check(module, options=COptions(dsp=True, workspace=workspace))
    model = build(module, COptions(dsp=True, workspace=workspace))
    assert any("dsp_widen" in line for line in model.layers[0].lines)


def extremes(module: ModuleOp) -> dict[str, Array]:
    """Return only the largest magnitudes, so that sums reach their maximum."""
    inputs = random_inputs(module)
    return {
        name: np.where(a.astype(np.int8) < 0, -128, 127).astype(np.int8)
        for name, a in inputs.items()
    }


@pytest.mark.slow
@needs_arm
@pytest.mark.parametrize("seed", first_fast(2, range(8)))
def test_the_emulated_core_equals_the_interpreter(seed: int, tmp_path: Path):
    module = layer(seed)
    place(module)
    main = main_function(module)
    (tmp_path / "model").mkdir()
    options = COptions(dsp=True, vectors=False, workspace=4096)
    files = [a for a in emit(module, options) if a.path.startswith("model")]
    sources = write_files(files, tmp_path / "model")
    ends = network_inputs(main), network_outputs(main)
    board = load_board("nano_33_ble")
    samples = [random_inputs(module, seed), extremes(module)]
    for flags in (("-Os",), ("-O2",)):
        model = EmulatedModel(sources, *ends, board, tmp_path, flags=flags)
        for sample, got in zip(samples, model.run(samples), strict=True):
            np.testing.assert_array_equal(got["output0"], run(module, sample)["output0"])


def first_layer(channels: int, kernel: tuple[int, int], padding: list[int]) -> ModuleOp:
    """Return a convolution with few channels, as networks begin with."""
    rng, x_type = np.random.default_rng(channels), UniformType(0.5, -128)
    weights = rng.integers(-127, 128, (10, *kernel, channels)).astype(np.int8)
    biases = rng.integers(-5000, 5000, 10).astype(np.int32)

    def conv(x: SSAValue) -> list[SSAValue]:
        w, b = (
            constant(weights, UniformType(0.25)),
            constant(biases, UniformType(0.125, storage=i32)),
        )
        return [
            Conv2dOp(
                x, w, b, result_element=UniformType(1.0), strides=(2, 1), padding=padding,
                requant=RequantAttr(9),
            ).result
        ]  # fmt: skip

    return make_network([(x_type, (1, 12, 9, channels))], conv)


@pytest.mark.parametrize("workspace", [0, 1 << 20])
@pytest.mark.parametrize(
    ("channels", "kernel", "padding"),
    [(1, (10, 4), [4, 1, 5, 2]), (3, (3, 3), [1, 1, 1, 1]), (2, (1, 5), [0, 0, 0, 4])],
)
def test_windows_of_few_channels_are_copied_to_patches(
    channels: int, kernel: tuple[int, int], padding: list[int], workspace: int
):
    options = COptions(dsp=True, workspace=workspace)
    check(first_layer(channels, kernel, padding), options=options)
    (layer,) = build(place(first_layer(channels, kernel, padding)), options).layers
    assert layer.kernel == "patches"


def wide_product(rows: int, k: int, weight: int) -> ModuleOp:
    """Return a matrix product whose sums reach a limit."""
    weights = np.full((rows, k), weight, np.int8)
    weights[1::2, ::3] = -128

    def matmul(x: SSAValue) -> list[SSAValue]:
        w, requant = constant(weights, UniformType(0.25)), RequantAttr(12)
        return [MatmulOp(x, w, result_element=UniformType(1.0), requant=requant).result]

    return make_network([(UniformType(0.5, -128), (2, k))], matmul)


@pytest.mark.parametrize(("rows", "k", "chunks"), [(4, 512, 1), (6, 520, 2), (5, 2048, 4)])
def test_sums_of_two_rows_in_a_register(rows: int, k: int, chunks: int):
    """A word holds two rows, so sums above 23 bits are split into chunks."""
    for weight in (127, -128):
        module = wide_product(rows, k, weight)
        place(module)
        for inputs in (random_inputs(module), extremes(module)):
            check(wide_product(rows, k, weight), inputs, options=COptions(dsp=True))
    assert RowChunks.of(np.full((rows, k), 127)).count == chunks


@needs_arm
def test_sums_of_two_rows_on_the_core(tmp_path: Path):
    module = place(wide_product(6, 520, -128))
    main = main_function(module)
    (tmp_path / "model").mkdir()
    files = [
        a for a in emit(module, COptions(dsp=True, vectors=False)) if a.path.startswith("model")
    ]
    sources = write_files(files, tmp_path / "model")
    ends = network_inputs(main), network_outputs(main)
    model = EmulatedModel(sources, *ends, load_board("nano_33_ble"), tmp_path)
    samples = [random_inputs(module), extremes(module)]
    for sample, got in zip(samples, model.run(samples), strict=True):
        np.testing.assert_array_equal(got["output0"], run(module, sample)["output0"])
