"""
Test Winograd, depthwise and padded windows for SMLAD against the interpreter.

Inputs contain extremes. The code runs as plain C and on the emulated core.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_harness import Array, Values, check, constant, make_network, needs_arm, place
from firmware import write_files
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.dsp_windows import G2, fits_winograd, transformed_filters
from ceras_ir.backends.c.emitter import build, emit
from ceras_ir.backends.c.emulator import EmulatedModel
from ceras_ir.backends.c.linear_dsp import ways
from ceras_ir.backends.c.machines import COptions, load_board
from ceras_ir.backends.c.sums import LIMIT, Geometry, analyse
from ceras_ir.dialects.graph import Conv2dOp, shape_of
from ceras_ir.dialects.quant import SINGLE_ROUNDINGS, RequantAttr, Rounding, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function

pytestmark = pytest.mark.slow

W, Y, BIAS = UniformType(0.25), UniformType(1.0, -3), UniformType(0.125, storage=i32)

WINOGRAD = [
    # input, outputs, padding
    ((6, 6, 8), 4, (1, 1, 1, 1)),
    ((7, 9, 4), 5, (1, 1, 1, 1)),
    ((5, 8, 20), 2, (0, 2, 1, 0)),
    ((4, 4, 32), 3, (3, 0, 0, 3)),
    ((6, 7, 36), 2, (0, 0, 0, 0)),
]

DEPTHWISE = [
    # input, kernel, stride, padding
    ((6, 6, 8), (3, 3), (1, 1), (1, 1, 1, 1)),
    ((9, 7, 12), (3, 3), (2, 2), (0, 0, 1, 1)),
    ((8, 9, 20), (4, 5), (1, 2), (2, 0, 1, 4)),
    ((5, 5, 4), (1, 2), (3, 1), (0, 1, 0, 0)),
    ((7, 3, 16), (5, 1), (2, 3), (2, 0, 2, 1)),
]

PADDED = [((8, 9, 3), (3, 3), (1, 1), (1, 1, 1, 1)), ((9, 12, 6), (5, 2), (2, 2), (2, 0, 1, 1))]

EXTREMES = np.array([-128, 127], np.int8)


def numbers(rng: np.random.Generator, shape: tuple[int, ...], share: float) -> Array:
    """Return random values and a share of the largest magnitudes."""
    anything = rng.integers(-128, 128, shape).astype(np.int8)
    return np.where(rng.random(shape) < share, rng.choice(EXTREMES, shape), anything)


def convolution(
    x: SSAValue,
    seed: int,
    outputs: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    groups: int = 1,
) -> SSAValue:
    """Return a layer; output stages alternate, and each third layer has only extreme weights."""
    rng = np.random.default_rng(seed)
    taken = shape_of(x)[3] // groups
    weights = numbers(rng, (outputs, *kernel, taken), [0.1, 0.5, 1.0][seed % 3])
    bias = rng.integers(-5000, 5000, outputs).astype(np.int32)
    requant = RequantAttr(9, rounding=Rounding.HALF_UP if seed % 2 else Rounding.FLOOR)
    if seed % 4 == 1:
        requant = RequantAttr(
            20, multiplier=[int(v) for v in rng.integers(900, 2000, outputs)],
            rounding=SINGLE_ROUNDINGS[seed % len(SINGLE_ROUNDINGS)], zero_point=-3,
        )  # fmt: skip
    parts = (constant(weights, W), constant(bias, BIAS))

    def layer(residual: SSAValue | None) -> SSAValue:
        return Conv2dOp(
            x, *parts, residual, result_element=Y, strides=strides, padding=padding,
            groups=groups, requant=requant, residual_shift=None if residual is None else 4,
        ).result  # fmt: skip

    first = layer(None)
    if seed % 4 != 2:
        return first
    skip = UniformType(2.0, 5)
    return layer(constant(numbers(rng, shape_of(first), 0.5), skip))


def network(kind: str, point: int) -> ModuleOp:
    """Return all shapes of a kind, each with a separate input."""
    match kind:
        case "winograd":
            cases = [(s, n, (3, 3), (1, 1), p, 1) for s, n, p in WINOGRAD]
        case "depthwise":
            cases = [(s, s[2], k, t, p, s[2]) for s, k, t, p in DEPTHWISE]
        case _:
            cases = [(s, 3 + s[2], k, t, p, 1) for s, k, t, p in PADDED]

    def body(*inputs: SSAValue) -> Values:
        return [
            convolution(x, i + 3 * k, *case[1:])
            for i, (x, case) in enumerate(zip(inputs, cases, strict=True))
            for k in range(3)
        ]

    element = UniformType(0.5, point)
    return make_network([(element, (1, *case[0])) for case in cases], body)


def inputs_of(module: ModuleOp, share: float) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    return {
        t.name: numbers(rng, tuple(t.shape), share) for t in network_inputs(main_function(module))
    }


STORED = frozenset(range(100))
OPTIONS = {
    "small": COptions(dsp=True, vectors=False, workspace=0),
    "medium": COptions(dsp=True, vectors=False, workspace=6 << 10),
    "large": COptions(dsp=True, vectors=False, workspace=48 << 10),
    "stored": COptions(dsp=True, vectors=False, workspace=6 << 10, stored_filters=STORED),
}


POINTS = {"small": (0, 1.0), "large": (127, 1.0), "stored": (-128, 1.0)}
"""The zero point of the input, and the share of extremes."""


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", ["small", "large", "stored"])
@pytest.mark.parametrize("kind", ["winograd", "depthwise", "padded"])
def test_plain_c_equals_the_interpreter(kind: str, name: str):
    point, share = POINTS[name]
    module = network(kind, point)
    check(module, inputs_of(module, share), options=OPTIONS[name])


@needs_arm
@pytest.mark.parametrize("name", ["medium", "stored"])
@pytest.mark.parametrize("kind", ["winograd", "depthwise", "padded"])
def test_the_emulated_core_equals_the_interpreter(kind: str, name: str, tmp_path: Path):
    module = place(network(kind, -128))
    main = main_function(module)
    (tmp_path / "model").mkdir()
    files = [a for a in emit(module, OPTIONS[name]) if a.path.startswith("model")]
    sources = write_files(files, tmp_path / "model")
    ends = network_inputs(main), network_outputs(main)
    samples = [inputs_of(module, share) for share in (1.0, 0.3)]
    board = load_board("nano_33_ble")
    model = EmulatedModel(sources, *ends, board, tmp_path, flags=("-Os",))
    for sample, got in zip(samples, model.run(samples), strict=True):
        for key, expected in run(module, sample).items():
            np.testing.assert_array_equal(got[key], expected, err_msg=key)


def test_all_ways_are_taken():
    """The tests above require that all kernels are chosen."""
    for name, text in (
        ("small", "dsp_tile"),
        ("large", "dsp_winograd_weights"),
        ("stored", "dsp_products_16x"),
    ):
        kernels = build(place(network("winograd", 0)), OPTIONS[name]).kernels.text
        assert text in kernels, name
    assert "dsp_depthwise" in build(place(network("depthwise", 0)), OPTIONS["small"]).kernels.text
    assert "dsp_window" in build(place(network("padded", 0)), OPTIONS["small"]).kernels.text


def test_transformed_numbers_fit_16_bits():
    """Rows of the transforms in two dimensions keep the largest magnitudes within 16 bits."""
    patch = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
    assert 128 * np.abs(np.kron(patch, patch)).sum(axis=1).max() == 512
    assert 128 * np.abs(np.kron(G2, G2)).sum(axis=1).max() == 1152
    filters = np.full((2, 36), -128, np.int8)
    assert np.abs(transformed_filters(filters).astype(np.int32)).max() == 1152


@pytest.mark.parametrize(("channels", "fits"), [(3600, True), (3700, False)])
def test_four_times_the_sum_must_fit_32_bits(channels: int, *, fits: bool):
    weights = np.full((4, 3, 3, channels), 127, np.int8)

    def body(x: SSAValue) -> Values:
        requant = RequantAttr(20)
        return [
            Conv2dOp(
                x, constant(weights, W), result_element=Y, padding=[1, 1, 1, 1], requant=requant
            ).result
        ]

    module = make_network([(UniformType(0.5), (1, 4, 4, channels))], body)
    op = next(o for o in module.walk() if isinstance(o, Conv2dOp))
    sums = analyse(op)
    assert fits_winograd(op, Geometry.of(op), sums) is fits
    assert (4 * sums.bound < LIMIT) is fits


@pytest.mark.slow
@needs_arm
@pytest.mark.parametrize("shape", [(16, 16, 32), (32, 32, 16), (8, 8, 64), (8, 8, 8)])
def test_the_model_of_costs_holds(shape: tuple[int, ...], tmp_path: Path):
    """Modelled instructions are within 15% of counts."""
    outputs = shape[2]
    element = UniformType(0.5)

    def body(x: SSAValue) -> Values:
        weights = numbers(np.random.default_rng(0), (outputs, 3, 3, shape[2]), 0.1)
        return [
            Conv2dOp(
                x, constant(weights, W), constant(np.ones(outputs, np.int32), BIAS),
                result_element=UniformType(1.0), padding=[1, 1, 1, 1], requant=RequantAttr(10),
            ).result
        ]  # fmt: skip

    module = place(make_network([(element, (1, *shape))], body))
    main = main_function(module)
    op = next(o for o in module.walk() if isinstance(o, Conv2dOp))
    base = COptions(dsp=True, vectors=False)
    known = {way.kind: way for way in ways(op, Geometry.of(op), analyse(op), 48 << 10)}
    choices = {
        "smlad": replace(base, workspace=0),
        "winograd": replace(base, workspace=48 << 10),
        "stored winograd": replace(base, workspace=12 << 10, stored_filters=STORED),
    }
    known["smlad"] = ways(op, Geometry.of(op), analyse(op), 0)[0]
    for kind, options in choices.items():
        work = tmp_path / kind.replace(" ", "_")
        (work / "model").mkdir(parents=True)
        files = [a for a in emit(module, options) if a.path.startswith("model")]
        sources = write_files(files, work / "model")
        ends = network_inputs(main), network_outputs(main)
        model = EmulatedModel(sources, *ends, load_board("nano_33_ble"), work, flags=("-Os",))
        model.run([inputs_of(module, 0.1)])
        counted, expected = model.instructions[0], known[kind].instructions
        assert abs(counted - expected) < 0.15 * counted, (kind, counted, expected)
