"""Compare layers with weights of 1 to 7 bits in C with the interpreter, and count their bytes."""

from pathlib import Path

import numpy as np
import pytest
from backends.c.test_neon import compare
from c_harness import (
    check,
    constant,
    make_network,
    needs_aarch64,
    needs_arm,
    needs_rvv,
    place,
    random_inputs,
)
from c_tiles import BUILDS, source, stored
from cross import AARCH64, RISCV
from emulated import emulated
from slow_cases import first_fast
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.costs import annotate
from ceras_ir.backends.c.emitter import build
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.packed_weights import stored_bits
from ceras_ir.backends.c.packed_words import BYTES, Format
from ceras_ir.backends.c.sums import analyse
from ceras_ir.dialects.graph import ConstantOp, Conv2dOp, MatmulOp
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.report import Entry
from ceras_ir.support.diagnostics import node_name

WIDTHS = range(2, 8)

OPTIONS = {
    "portable": COptions(vectors=False, workspace=2048),
    "smlad": COptions(vectors=False, dsp=True, workspace=2048),
    "smlad, much memory": COptions(vectors=False, dsp=True, workspace=1 << 20),
    "smlad, no Winograd": COptions(vectors=False, dsp=True, winograd=0),
    "vectors": COptions(),
    "file": COptions(weights="file"),
}

HELIUM = COptions(vectors=False, dsp=True, helium=True, winograd=0, workspace=2048)
"""Helium stores weights of at most 4 bits in 4 bits, other weights in bytes."""


def layer(seed: int, width: int) -> ModuleOp:
    """Return a random layer with weights of `width` bits, extremes included."""
    rng = np.random.default_rng(100 * width + seed)
    pick = rng.integers
    is_unsigned, per_channel = seed % 5 == 4, seed % 3 == 1
    sign = Signedness.UNSIGNED if is_unsigned else Signedness.SIGNLESS
    n = int(pick(2, 40))
    groups = 2 if seed % 6 == 5 else 1
    n -= n % groups
    low = 0 if is_unsigned else -(1 << width - 1)
    points = pick(low, low + (1 << width), n if per_channel and seed % 2 else 1)
    if seed % 4 != 3 or width == 1:
        points[:] = low + (1 << width - 1)
    scales = [0.25] * (n if len(points) > 1 else 1)
    w_type = UniformType(
        scales,
        points.tolist(),
        storage=IntegerType(width, sign),
        axis=0 if len(points) > 1 else None,
    )
    x_type = UniformType(0.5, int(rng.choice([0, -128, 5])))
    y_type = UniformType(1.0, -3)
    requant = RequantAttr(
        int(pick(3, 7)) + 6 * per_channel,
        multiplier=[int(v) for v in pick(1, 100, n)] if per_channel else 1,
        zero_point=-3,
    )
    bias = pick(-500, 500, n).astype(np.int32)
    bias_type = UniformType(0.125, storage=i32)
    if seed % 2:
        m, k = int(rng.choice([1, 2, 7, 40])), int(rng.choice([4, 20, 31, 64, 132]))
        rows = stored(rng, w_type, (n, k))

        def matmul(x: SSAValue) -> list[SSAValue]:
            w, b = constant(rows, w_type), constant(bias, bias_type)
            return [MatmulOp(x, w, b, result_element=y_type, requant=requant).result]

        if groups == 1:
            return make_network([(x_type, (m, k))], matmul)
    c, kernel = int(rng.choice([1, 3, 4, 8, 12])), int(rng.choice([1, 3]))
    stride = int(pick(1, 3))
    filters = stored(rng, w_type, (n, kernel, kernel, c))

    def conv(x: SSAValue) -> list[SSAValue]:
        w, b = constant(filters, w_type), constant(bias, bias_type)
        return [
            Conv2dOp(
                x, w, b, result_element=y_type, requant=requant, strides=(stride, stride),
                padding=[kernel // 2] * 4, groups=groups,
            ).result
        ]  # fmt: skip

    return make_network([(x_type, (1, 9, 11, c * groups))], conv)


def depthwise(seed: int, width: int) -> ModuleOp:
    """Return a random depthwise layer with weights of `width` bits, extremes included."""
    rng = np.random.default_rng(1000 * width + seed)
    element = UniformType(0.25, storage=IntegerType(width))
    channels = 4 * int(rng.integers(1, 24)) if seed % 3 else int(rng.integers(2, 70))
    kernel = [int(side) for side in rng.choice([1, 2, 3, 5], 2)]
    filters = stored(rng, element, (channels, *kernel, 1))
    bias, bias_type = rng.integers(-500, 500, channels), UniformType(0.125, storage=i32)
    x_type, y_type = UniformType(0.5, int(rng.choice([0, -128, 5]))), UniformType(1.0, -3)
    if seed % 5 == 4:
        x_type = UniformType(0.5, storage=IntegerType(16))
    stride = int(rng.integers(1, 3))

    def conv(x: SSAValue) -> list[SSAValue]:
        w, b = constant(filters, element), constant(bias.astype(np.int32), bias_type)
        requant = RequantAttr(int(rng.integers(3, 7)), zero_point=-3)
        return [
            Conv2dOp(
                x, w, b, result_element=y_type, requant=requant, strides=(stride, stride),
                padding=[1] * 4, groups=channels,
            ).result
        ]  # fmt: skip

    return make_network([(x_type, (1, 9, 11, channels))], conv)


@pytest.mark.parametrize("width", (1, *WIDTHS))
@pytest.mark.parametrize("lanes", (1, 16))
def test_words_have_the_weights(width: int, lanes: int):
    form = Format(width, lanes)
    rng = np.random.default_rng(width)
    weights = rng.integers(-(1 << width - 1), 1 << width - 1, (3, 2 * form.unit - 5))
    if width == 1:
        weights[weights == 0] = 1
    words = form.pack(weights.astype(np.int8))
    assert words.size * 32 == 3 * 2 * form.unit * width
    units = words.reshape(3, 2, form.packed_words, lanes).astype(np.int64)
    for word in range(form.words):
        names = {f"p{i}": units[:, :, i] for i in range(form.packed_words)}
        fields = eval(form.fields(word, BYTES).replace("u)", ")"), {}, names)
        for byte in range(4):
            got = (fields >> 8 * byte & 255) - (1 << width - 1)
            padded = np.full((3, 2 * form.unit), -1 if width == 1 else 0)
            padded[:, : weights.shape[1]] = weights
            at = padded.reshape(3, 2, form.words, lanes, 4)[:, :, word, :, byte]
            np.testing.assert_array_equal(got, at)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", first_fast(4, range(16)))
def test_c_equals_the_interpreter(seed: int, width: int, options: str):
    module = layer(seed, width)
    check(module, options=OPTIONS[options])


@pytest.mark.parametrize(("width", "bits"), ((2, 4), (4, 4), (5, 8)))
@pytest.mark.parametrize("groups", (1, 64))
def test_helium_stores_nibbles(groups: int, width: int, bits: int):
    element = UniformType(0.25, storage=IntegerType(width))
    filters = stored(np.random.default_rng(width), element, (64, 4, 4, 64 // groups))

    def conv(x: SSAValue) -> list[SSAValue]:
        w, y_type = constant(filters, element), UniformType(1.0)
        return [Conv2dOp(x, w, groups=groups, result_element=y_type, requant=RequantAttr(9)).result]

    module = make_network([(UniformType(0.5), (1, 9, 9, 64))], conv)
    model = build(place(module.clone()), HELIUM)
    weights = {c.nbytes for c in model.pool.constants if c.name == "layer_0_weights"}
    assert weights == {64 * 16 * 64 // groups * bits // 8}
    check(module, options=HELIUM)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", first_fast(2, range(10)))
def test_depthwise_layers(seed: int, width: int, options: str):
    check(depthwise(seed, width), options=OPTIONS[options])


@pytest.mark.parametrize("flags", BUILDS)
@pytest.mark.parametrize("seed", first_fast(6, range(12)))
def test_depthwise_vectors(seed: int, flags: str):
    check(depthwise(seed, 2 + seed % 6), flags=BUILDS[flags])


@pytest.mark.parametrize("flags", BUILDS)
@pytest.mark.parametrize("seed", first_fast(6, range(24)))
def test_register_tiles(seed: int, flags: str):
    check(layer(seed, 2 + seed % 6), flags=BUILDS[flags])


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("seed", first_fast(4, range(24)))
def test_signs(seed: int, options: str):
    check(layer(seed, 1), options=OPTIONS[options])


@pytest.mark.parametrize(
    ("options", "inputs", "bits"),
    [("portable", 64, 1), ("smlad", 64, 1), ("smlad", 63, 2), ("vectors", 64, 2), ("file", 64, 2)],
)
def test_signs_have_a_bit_without_vectors_and_padding(options: str, inputs: int, bits: int):
    element = UniformType(0.25, storage=IntegerType(1))
    rows = stored(np.random.default_rng(inputs), element, (16, inputs))

    def matmul(x: SSAValue) -> list[SSAValue]:
        w = constant(rows, element)
        return [MatmulOp(x, w, result_element=UniformType(1.0), requant=RequantAttr(3)).result]

    model = build(place(make_network([(UniformType(0.5), (4, inputs))], matmul)), OPTIONS[options])
    assert model.layers[0].packed_bits == bits


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("options", OPTIONS)
def test_flash_has_packed_bytes(width: int, options: str):
    element = UniformType(0.25, storage=IntegerType(width))
    rows = stored(np.random.default_rng(width), element, (64, 256))

    def matmul(x: SSAValue) -> list[SSAValue]:
        w = constant(rows, element)
        return [MatmulOp(x, w, result_element=UniformType(1.0), requant=RequantAttr(9)).result]

    module = place(make_network([(UniformType(0.5), (64, 256))], matmul))
    model = build(module, OPTIONS[options])
    weights = {c.nbytes for c in model.pool.constants if c.name == "layer_0_weights"}
    assert weights == {64 * 256 * width // 8}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("width", (2, 4, 7))
def test_flash_has_packed_depthwise_bytes(width: int, options: str):
    """Vectors load four rows of a window; other kernels have no padding."""
    element = UniformType(0.25, storage=IntegerType(width))
    filters = stored(np.random.default_rng(width), element, (512, 4, 4, 1))

    def conv(x: SSAValue) -> list[SSAValue]:
        w, y_type = constant(filters, element), UniformType(1.0)
        return [Conv2dOp(x, w, groups=512, result_element=y_type, requant=RequantAttr(9)).result]

    module = place(make_network([(UniformType(0.5), (1, 5, 5, 512))], conv))
    model = build(module, OPTIONS[options])
    weights = {c.nbytes for c in model.pool.constants if c.name == "layer_0_weights"}
    assert weights == {512 * 16 * width // 8}


@pytest.mark.parametrize(
    ("groups", "point", "bits", "size"), [(1, 0, 4, 288), (1, -8, 5, 360), (8, 0, 4, 36)]
)
def test_the_report_has_the_width_in_flash(
    groups: int, point: int, bits: int, size: int, capsys: pytest.CaptureFixture[str]
):
    element = UniformType(0.25, point, storage=IntegerType(4))
    filters = stored(np.random.default_rng(groups), element, (8, 3, 3, 8 // groups))

    def convolution(x: SSAValue) -> list[SSAValue]:
        w, y_type, requant = constant(filters, element), UniformType(1.0), RequantAttr(9)
        return [
            Conv2dOp(
                x, w, groups=groups, padding=(1, 1, 1, 1), result_element=y_type, requant=requant
            ).result
        ]

    module = place(make_network([(UniformType(0.5), (1, 5, 5, 8))], convolution))
    model = build(module, COptions())
    entry: Entry = {"op": "conv2d", "name": node_name(model.layers[0].op)}
    entry |= {"weight_bits": 4, "weight_bytes": 288 // groups}
    annotate([entry], model.layers, None)
    assert (entry["weight_bits"], entry["weight_bytes"]) == (bits, size)
    assert ("1 layer with weights below 8 bits" in capsys.readouterr().err) == (bits == 8)


def test_a_zero_point_needs_more_bits():
    element = UniformType(0.25, -8, storage=IntegerType(4))
    rows = np.array([[7, -8], [0, 0]] * 4, np.int8)
    weights = constant(rows, element).owner
    assert isinstance(weights, ConstantOp)
    x = constant(np.zeros((1, 2), np.int8), UniformType(0.5))
    layer = MatmulOp(x, weights.result, result_element=UniformType(1.0), requant=RequantAttr(9))
    assert stored_bits(analyse(layer)) == 5


@pytest.mark.slow
@needs_aarch64
@pytest.mark.parametrize("name", AARCH64.builds)
@pytest.mark.parametrize("seed", first_fast(2, range(8)))
def test_vectors_of_arm(seed: int, name: str, tmp_path: Path):
    compare((depthwise if seed % 2 else layer)(seed, 2 + seed % 6), AARCH64, name, tmp_path)


@pytest.mark.slow
@needs_rvv
@pytest.mark.parametrize("name", RISCV.builds)
@pytest.mark.parametrize("seed", first_fast(2, range(8)))
def test_vectors_of_riscv(seed: int, name: str, tmp_path: Path):
    compare((depthwise if seed % 2 else layer)(seed, 2 + seed % 6), RISCV, name, tmp_path)


@pytest.mark.slow
@needs_arm
@pytest.mark.parametrize("seed", first_fast(3, range(12)))
def test_the_emulated_core_equals_the_interpreter(seed: int, tmp_path: Path):
    module = place((depthwise if seed % 3 == 1 else layer)(seed, 2 + seed % 6))
    options = OPTIONS["smlad" if seed % 2 else "smlad, much memory"]
    sample = random_inputs(module, seed)
    model = emulated(module, options, "nano_33_ble", tmp_path, "-Os")
    (got,) = model.run([sample])
    np.testing.assert_array_equal(got["output0"], run(module, sample)["output0"])


def single_row(width: int, outputs: int, *, moved: bool, inputs: int = 300) -> ModuleOp:
    """Return a product of a row of signed bytes, to which vectors add 128, or of unsigned bytes."""
    rng, element = np.random.default_rng(width), UniformType(0.25, storage=IntegerType(width))
    rows = stored(rng, element, (outputs, inputs))
    unsigned = IntegerType(8, Signedness.UNSIGNED)
    x_type = UniformType(0.5, 3) if moved else UniformType(0.5, 3, storage=unsigned)

    def matmul(x: SSAValue) -> list[SSAValue]:
        w = constant(rows, element)
        return [MatmulOp(x, w, result_element=UniformType(1.0), requant=RequantAttr(7)).result]

    return make_network([(x_type, (1, inputs))], matmul)


SINGLE_ROWS = ((4, 94), (4, 500), (2, 64), (3, 128), (6, 64), (7, 128))


@pytest.mark.parametrize("flags", BUILDS)
@pytest.mark.parametrize("moved", (False, True))
@pytest.mark.parametrize(("width", "outputs"), (*SINGLE_ROWS, (5, 256)))
def test_a_single_row(width: int, outputs: int, moved: bool, flags: str):
    module = single_row(width, outputs, moved=moved)
    texts = build(place(module.clone()), COptions()).kernels.functions
    assert any(name.endswith(f"_{width}_bits") for name in texts)
    check(module, flags=BUILDS[flags])


@pytest.mark.parametrize("width", WIDTHS)
def test_few_outputs_of_a_single_row(width: int):
    """Outputs are not padded to complete units of packed words, of up to 128 outputs."""
    module = single_row(width, 10, moved=True, inputs=1024)
    model = build(place(module.clone()), COptions())
    weights = {c.nbytes for c in model.pool.constants if c.name == "layer_0_weights"}
    assert weights == {16 * 1024 * width // 8}
    assert model.scratch_bytes <= 3 * 16 * 1024
    check(module)


@pytest.mark.parametrize("flags", ("avx2", "vex"))
def test_prefetched_panels_of_a_single_row(flags: str):
    module = single_row(4, 128, moved=True, inputs=2000)
    assert "MODEL_FETCH(from, " in source(module, "model_kernels.h")
    check(module, flags=BUILDS[flags])


@pytest.mark.slow
@needs_aarch64
@pytest.mark.parametrize("name", AARCH64.builds)
@pytest.mark.parametrize("moved", (False, True))
@pytest.mark.parametrize(("width", "outputs"), SINGLE_ROWS)
def test_a_single_row_on_arm(width: int, outputs: int, moved: bool, name: str, tmp_path: Path):
    compare(single_row(width, outputs, moved=moved), AARCH64, name, tmp_path)
    text = (tmp_path / "model.c").read_text()
    assert "packed_row_total" in (tmp_path / "model_kernels.h").read_text() + text
