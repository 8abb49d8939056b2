"""
Test sparse weights on cores with SMLAL, with two positions in a word.

Plain C and the emulated core give the integers of the interpreter, for all shapes, strips and
output stages.
"""

from pathlib import Path

import numpy as np
import pytest
from backends.c.test_dsp import extremes
from backends.c.test_sparse import sparse_weights, stored
from c_harness import check, constant, make_network, needs_arm, place, random_inputs
from firmware import write_files
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp, i8, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import build, emit
from ceras_ir.backends.c.emulator import EmulatedModel
from ceras_ir.backends.c.machines import COptions, load_board
from ceras_ir.backends.c.planes import PairedPlanes, Planes
from ceras_ir.backends.c.sparse_code import SPARSE
from ceras_ir.backends.c.sums import Geometry
from ceras_ir.dialects.graph import Conv2dOp, MatmulOp
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.dialects.sparse import CooAttr, SparseBlockAttr
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

BIAS, OUT = UniformType(0.125, storage=i32), UniformType(1.0)

ROOM = (3000, 1 << 18)
"""Workspaces for strips of few rows, and for complete maps."""


def requant_of(rng: np.random.Generator, outputs: int) -> RequantAttr:
    """
    Return a single shift, per-channel shifts or multipliers, with full and narrow clamp ranges.
    """
    low, high = [(-128, 127), (0, 127), (-90, 100)][int(rng.integers(3))]
    match int(rng.integers(3)):
        case 0:
            return RequantAttr(int(rng.integers(5, 11)), low=low, high=high)
        case 1:
            shifts = 1 << rng.integers(0, 4, outputs)
            return RequantAttr(10, multiplier=shifts.tolist(), zero_point=-7, low=low, high=high)
        case _:
            scales = rng.integers(900, 7000, outputs)
            return RequantAttr(20, multiplier=scales.tolist(), low=low, high=high)


def layer(seed: int) -> ModuleOp:
    """Return a random convolution or matrix product; some have only inputs and weights of -128."""
    rng = np.random.default_rng(seed)
    c, n = int(rng.integers(1, 9)) * (4 if seed % 3 == 0 else 1), int(rng.integers(1, 12))
    zeros = float(rng.choice([0.5, 0.8, 0.95, 1.0]))
    requant = requant_of(rng, n)
    element = UniformType([0.25] * n, storage=i8, axis=0) if requant.is_per_channel else None
    weight, point = element or UniformType(0.25), int(rng.integers(-9, 9))
    bias = rng.integers(-3000, 3000, n).astype(np.int32)
    x_element = UniformType(0.5, point)

    def kept(shape: tuple[int, ...]) -> np.ndarray:
        block = 4 if seed % 3 == 0 else 1
        values = sparse_weights(rng, shape, zeros, block=block)
        if seed % 5 == 3:
            # Values of 3 to 6 bits are packed.
            values >>= 2 + seed % 4
        return np.where(values != 0, np.int8(-128), values) if seed % 5 == 4 else values

    def listed(shape: tuple[int, ...]) -> SSAValue:
        values = kept(shape)
        form = (
            SparseBlockAttr.of(values, i8, (1, 4), 4)
            if seed % 3 == 0
            else CooAttr.of(values, i8, 5)
        )
        return stored(form, weight)

    if seed % 4 == 3:

        def product(x: SSAValue) -> list[SSAValue]:
            op = MatmulOp(
                x, listed((n, c)), constant(bias, BIAS), result_element=OUT, requant=requant
            )
            return [op.result]

        return make_network([(x_element, (int(rng.integers(8, 40)), c))], product)

    kernel, strides, dilations = (
        (int(a), int(b)) for a, b in (rng.integers(1, most, 2) for most in (5, 4, 3))
    )
    padding = [int(p) for p in rng.integers(0, 3, 4)]
    # Include maps of a single row, and widths that are no multiple of four.
    rows = 1 if seed % 4 == 1 else int(rng.integers(2, 12))
    columns = int(rng.integers(8 if rows == 1 else 4, 22))
    height, width = (
        max((count - 1) * step + (taps - 1) * gap + 1 - before - after, 1)
        for count, step, taps, gap, before, after in zip(
            (rows, columns), strides, kernel, dilations, padding[:2], padding[2:], strict=True
        )
    )
    images = int(rng.integers(1, 3))

    def conv(x: SSAValue, *skip: SSAValue) -> list[SSAValue]:
        op = Conv2dOp(
            x, listed((n, *kernel, c)), constant(bias, BIAS), *skip, result_element=OUT,
            strides=strides, padding=padding, dilations=dilations, requant=requant,
            residual_shift=3 if skip else None,
        )  # fmt: skip
        return [op.result]

    inputs = [(x_element, (images, height, width, c))]
    if seed % 7 == 2:
        reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        rows = (height + padding[0] + padding[2] - reach[0] - 1) // strides[0] + 1
        columns = (width + padding[1] + padding[3] - reach[1] - 1) // strides[1] + 1
        inputs.append((UniformType(2.0), (images, rows, columns, n)))
    return make_network(inputs, conv)


def kernel_of(module: ModuleOp, options: COptions) -> str:
    """Return the functions that the only layer calls."""
    place(module)
    model = build(module, options)
    assert [layer.kernel for layer in model.layers] == [SPARSE]
    return "\n".join(model.layers[0].lines)


@pytest.mark.parametrize("workspace", ROOM)
@pytest.mark.parametrize("seed", first_fast(4, range(24)))
def test_plain_c_equals_the_interpreter(seed: int, workspace: int):
    module = layer(seed)
    options = COptions(dsp=True, vectors=False, workspace=workspace)
    check(module, options=options)
    check(module, extremes(module), options=options)
    assert workspace == ROOM[0] or "sparse_pairs_0(" in kernel_of(module, options)


@pytest.mark.slow
@needs_arm
@pytest.mark.parametrize("flags", [("-Os",), ("-O2", "-fno-omit-frame-pointer"), ("-O0",)])
@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_the_emulated_core_equals_the_interpreter(
    seed: int, flags: tuple[str, ...], tmp_path: Path
):
    module = layer(seed + (flags != ("-Os",)))
    place(module)
    options = COptions(dsp=True, vectors=False, workspace=ROOM[seed % 4 // 2])
    (tmp_path / "model").mkdir()
    files = [a for a in emit(module, options) if a.path.startswith("model")]
    sources = write_files(files, tmp_path / "model")
    main = main_function(module)
    ends = network_inputs(main), network_outputs(main)
    model = EmulatedModel(sources, *ends, load_board("nano_33_ble"), tmp_path, flags=flags)
    samples = [random_inputs(module, seed), extremes(module)]
    for sample, got in zip(samples, model.run(samples), strict=True):
        expected = run(module, sample)["output0"]
        np.testing.assert_array_equal(got["output0"], expected)


def wide(bias: int, inputs: int) -> ModuleOp:
    """Return the largest products, in sums of `inputs` terms."""
    weights = np.full((2, inputs), -128, np.int8)

    def product(x: SSAValue) -> list[SSAValue]:
        w = stored(CooAttr.of(weights, i8, 5), UniformType(0.25))
        b = constant(np.full(2, bias, np.int32), BIAS)
        return [MatmulOp(x, w, b, result_element=OUT, requant=RequantAttr(16)).result]

    return make_network([(UniformType(0.5), (9, inputs))], product)


@pytest.mark.parametrize("beyond", [False, True])
def test_sums_of_more_than_23_bits_take_another_kernel(beyond: bool):
    """The sum has 255 products of 2^14, and the rest of 2^22 in the bias."""
    module = wide((1 << 14) - (1 << 15) - 1 + beyond, 255)
    options = COptions(dsp=True, vectors=False)
    assert ("sparse_pairs" in kernel_of(module, options)) != beyond
    for value in (-128, 127):
        check(module, {"input0": np.full((9, 255), value, np.int8)}, options=options)


def test_halves_of_an_odd_number_of_rows_overlap():
    module = make_network([(UniformType(0.5), (1, 7, 9, 3))], lambda x: [conv_of(x).result])
    (op,) = (op for op in module.walk() if isinstance(op, Conv2dOp))
    planes = Planes.of(op, Geometry.of(op), 1, 1 << 20)
    assert planes is not None
    pairs = PairedPlanes.of(planes, 1 << 20)
    assert pairs is not None and pairs.strips == 1 and pairs.near.strip == 4
    assert pairs.distance == (3, 0)
    few = PairedPlanes.of(planes, pairs.nbytes - 1)
    assert few is not None and few.strips == 2 and few.nbytes < pairs.nbytes
    assert PairedPlanes.of(planes, 100) is None


def conv_of(x: SSAValue) -> Conv2dOp:
    weights = constant(np.ones((2, 3, 3, 3), np.int8), UniformType(0.25))
    return Conv2dOp(x, weights, result_element=OUT, padding=(1,) * 4, requant=RequantAttr(7))
