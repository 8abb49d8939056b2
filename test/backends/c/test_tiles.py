"""Test register tiles against the interpreter, with shapes that do and do not fill vectors."""

import re
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from c_harness import Values, check, constant, make_network, place
from c_tiles import BUILDS, FLAGS, TIES, X86, source, stored, tied_layers
from firmware import write_files
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    i8,
    i32,
)
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.register_tiles import VECTOR_REGISTERS, choose_tile, strip_length
from ceras_ir.backends.c.runner import compiler
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

pytestmark = pytest.mark.slow

u8 = IntegerType(8, Signedness.UNSIGNED)
i16 = IntegerType(16)
OUT, SKIP = UniformType(1.0), UniformType(2.0, -5)

SHAPES = [
    # input, outputs, kernel, stride, padding, dilation
    ((1, 9, 7, 16), 32, (3, 3), (1, 1), (1, 1, 1, 1), 1),
    ((1, 14, 14, 8), 48, (3, 3), (1, 1), (1, 1, 1, 1), 1),
    ((2, 11, 13, 3), 16, (7, 7), (2, 2), (3, 3, 3, 3), 1),
    ((1, 7, 7, 64), 80, (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((3, 5, 9, 20), 24, (1, 1), (2, 2), (0, 0, 0, 0), 1),
    ((1, 5, 5, 5), 7, (2, 3), (1, 2), (0, 2, 1, 0), 1),
    ((1, 31, 3, 4), 16, (3, 1), (1, 1), (4, 0, 4, 0), 4),
    ((1, 1, 1, 70), 100, (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((2, 12, 1, 21), 88, (1, 1), (3, 3), (1, 2, 1, 0), 1),
    ((1, 6, 14, 12), 40, (3, 3), (1, 1), (1, 1, 1, 1), 1),
    # Rows that end in a step of a byte: three, four, two; three with few outputs, and five.
    ((1, 12, 15, 3), 24, (3, 3), (2, 2), (0, 0, 1, 1), 1),
    ((1, 11, 12, 1), 40, (4, 5), (1, 1), (2, 2, 1, 2), 1),
    ((1, 7, 9, 5), 36, (2, 1), (1, 1), (0, 0, 0, 0), 2),
    ((1, 8, 8, 3), 8, (3, 3), (1, 1), (1, 1, 1, 1), 1),
    ((1, 9, 10, 1), 20, (5, 5), (1, 1), (2, 2, 2, 2), 1),
]  # fmt: skip

DEPTHWISE = [
    ((1, 9, 7, 64), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((2, 10, 11, 40), (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    ((1, 12, 6, 45), (4, 5), (1, 3), (3, 0, 2, 4), (2, 1)),
    ((1, 6, 6, 33), (1, 2), (1, 1), (0, 0, 0, 0), (1, 3)),
    ((1, 3, 3, 32), (3, 3), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((1, 5, 4, 16), (2, 2), (1, 1), (1, 0, 0, 1), (1, 1)),
    # Larger than a small map; rows of results in pairs, of which the last pair overlaps.
    ((1, 17, 18, 36), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((2, 5, 8, 34), (2, 4), (1, 1), (0, 2, 1, 1), (1, 1)),
    # Windows of more than four rows, of a column of a map, and of a row, which is treated as a
    # column.
    ((1, 9, 10, 36), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    ((1, 11, 9, 17), (7, 7), (2, 2), (3, 3, 3, 3), (1, 1)),
    ((1, 18, 3, 32), (9, 2), (1, 1), (4, 0, 4, 1), (2, 1)),
    ((2, 1, 40, 48), (1, 31), (1, 1), (0, 15, 0, 15), (1, 1)),
    ((1, 1, 23, 33), (1, 6), (1, 2), (0, 3, 0, 0), (1, 3)),
]

GROUPED = [
    # input, outputs, kernel, strides, padding, dilations, groups
    # Groups that fill a vector of outputs, share a vector, or need several vectors.
    ((1, 9, 7, 32), 32, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
    ((2, 8, 9, 32), 32, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 8),
    ((1, 7, 8, 24), 80, (2, 3), (1, 2), (0, 2, 1, 0), (1, 1), 2),
    # All groups in a vector, and groups in separate vectors; few inputs or outputs per group.
    ((1, 6, 7, 12), 12, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4),
    ((1, 6, 6, 21), 77, (3, 2), (1, 1), (0, 0, 0, 0), (1, 1), 7),
    ((1, 5, 9, 10), 30, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 5),
    ((1, 9, 4, 6), 24, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 6),
    # Dilated windows of a row and of several rows, and groups of dilated windows.
    ((1, 1, 40, 8), 24, (1, 3), (1, 1), (0, 4, 0, 4), (1, 4), 1),
    ((2, 9, 11, 5), 16, (3, 3), (1, 2), (2, 2, 2, 2), (2, 2), 1),
    ((1, 8, 12, 16), 48, (2, 3), (1, 1), (1, 3, 0, 3), (1, 3), 4),
]


def layer(
    seed: int,
    x: SSAValue,
    element: UniformType,
    outputs: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilations: tuple[int, int],
    groups: int,
    result_element: UniformType = OUT,
    skip: UniformType = SKIP,
    spread: int = 0,
) -> SSAValue:
    """Return a convolution, with and without residual, bias, zero points, and multipliers."""
    rng = np.random.default_rng(seed)
    per_group = graph.shape_of(x)[3] // groups
    weights = stored(rng, OUT, (outputs, *kernel, per_group))
    low, high = result_element.low, result_element.high
    largest = 32768 if element.storage.width.data == 16 else 128
    shift = max(int(np.log2(np.sqrt(weights[0].size) * 60 * largest / high)), 1)
    requant = RequantAttr(shift, low=low, high=high)
    if seed % 3 == 1:
        tight = low * 100 // 128, high * 90 // 128
        requant = RequantAttr(
            shift, rounding=Rounding.FLOOR, zero_point=-9, low=tight[0], high=tight[1]
        )
    if seed % 3 == 2 and groups == 1:
        requant = RequantAttr(
            shift + 14, multiplier=20011, rounding=Rounding.HALF_EVEN, low=low, high=high
        )
    if seed % 5 == 4:
        # Products of 32 bits, or of 64.
        weights = (weights.astype(np.int8) >> 4).astype(np.int8)
        most = (
            20000 if seed % 4 in (0, 3) else min((1 << 29) // (weights[0].size * 8 * largest), 127)
        )
        scales = rng.integers(1, most, outputs, endpoint=True)
        shift = max(shift - 4 + int(np.log2(most)), 1)
        rounding = Rounding.HALF_UP if seed % 2 else Rounding.FLOOR
        if seed % 10 == 9:
            # Multipliers of 31 bits need shifts above 32; their products are never ties.
            more = 30 - int(most).bit_length()
            scales, shift, rounding = (scales << more) + 1, shift + more, Rounding.HALF_EVEN
        requant = RequantAttr(
            shift, multiplier=scales.tolist(), rounding=rounding, zero_point=7, low=low, high=high
        )
    if seed % 7 == 6:
        # Powers of two give per-channel shifts, including zero.
        powers = 1 << rng.integers(0, shift + 2, outputs, endpoint=True)
        requant = RequantAttr(
            shift + 2,
            multiplier=powers.tolist(),
            rounding=Rounding.FLOOR if seed % 3 == 0 else Rounding.HALF_UP,
            zero_point=7,
            low=low,
            high=high * 100 // 128,
        )
    bias = rng.integers(-20000, 20000, outputs).astype(np.int32)
    moved = rng.integers(0, spread, outputs, endpoint=True).tolist() if spread else 5

    def convolution(residual: SSAValue | None) -> SSAValue:
        return graph.Conv2dOp(
            x, constant(weights, OUT), constant(bias, UniformType(1.0, storage=i32)), residual,
            result_element=result_element, strides=strides, padding=padding, dilations=dilations,
            groups=groups, requant=requant, residual_shift=None if residual is None else moved,
        ).result  # fmt: skip

    if seed % 2:
        return convolution(None)
    result = graph.window_output
    shape = (
        graph.shape_of(x)[0],
        result(graph.shape_of(x)[1], padding[0], padding[2], kernel[0], strides[0], dilations[0]),
        result(graph.shape_of(x)[2], padding[1], padding[3], kernel[1], strides[1], dilations[1]),
        outputs,
    )
    return convolution(constant(stored(rng, skip, shape), skip))


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    ("build", "storage", "workspace"),
    [
        *product(("tiles", "loops"), (i8, u8), (0, 1 << 17)),
        *(("avx2", i8, 1 << 17), ("avx2", u8, 0), ("256", i8, 0), ("256", u8, 1 << 17)),
        ("vex", i8, 0),
    ],
)
def test_convolutions(build: str, storage: IntegerType, workspace: int):
    """Check all shapes with all output stages, in a single strip and in several strips."""
    flags = BUILDS[build]
    element = UniformType(1.0, 0 if storage == i8 else 77, storage=storage)

    def layers(*inputs: SSAValue) -> Values:
        return [
            layer(i + 10 * k, x, element, o, kernel, stride, padding, (d, 1), 1)
            for i, (x, (_, o, kernel, stride, padding, d)) in enumerate(
                zip(inputs, SHAPES, strict=True)
            )
            for k in range(2 if workspace else 3)
        ]

    module = make_network([(element, s[0]) for s in SHAPES], layers)
    shapes = re.findall(r"(\dx\d+)_\d+_\d+_\d+(?:_half)?_joined", source(module, "model_kernels.h"))
    assert set(shapes) == {"3x3", "4x2", "2x2"}
    check(module, options=COptions(workspace=workspace), flags=flags)


@pytest.mark.parametrize("multiplier", [1_500_000_001, [(1 << 30) + 3 * i for i in range(24)]])
def test_multipliers_of_31_bits_are_in_vectors(multiplier: int | list[int]):
    """A common multiplier is as fast as one for each channel, also with ties to even."""
    weights = stored(np.random.default_rng(0), OUT, (24, 1, 1, 16))

    def build(x: SSAValue) -> Values:
        requant = RequantAttr(40, multiplier=multiplier, rounding=Rounding.HALF_EVEN)
        return [
            graph.Conv2dOp(x, constant(weights, OUT), result_element=OUT, requant=requant).result
        ]

    for name in ("tiles", "avx2", "loops"):
        module = make_network([(OUT, (1, 14, 14, 16))], build)
        check(module, flags=BUILDS[name])
        assert "SCALE_64(" in source(module, "model_kernels.h")


@pytest.mark.parametrize("kind", TIES)
def test_ties_to_even_are_in_vectors(kind: str):
    module = tied_layers(TIES[kind])
    for name in ("tiles", "avx2", "loops"):
        check(module, flags=BUILDS[name])
    check(module, options=COptions(dsp=True, helium=True, vectors=False))
    assert ("_even" in source(module, "model_kernels.h")) == (kind != "none in vectors")


@pytest.mark.parametrize(("multiplier", "shift"), [(4, 12), (1 << 30, 40), (64, 6)])
@pytest.mark.parametrize("groups", [1, 24])
def test_a_common_multiplier_that_is_a_power_of_two(multiplier: int, shift: int, groups: int):
    """The shift of all channels is one number, not an array with an element for each."""
    weights = stored(np.random.default_rng(0), OUT, (24, 1, 1, 24 // groups))

    def build(x: SSAValue) -> Values:
        requant = RequantAttr(shift, multiplier=multiplier)
        convolution = graph.Conv2dOp(
            x, constant(weights, OUT), result_element=OUT, groups=groups, requant=requant
        )
        return [convolution.result]

    for name in ("tiles", "avx2", "loops"):
        check(make_network([(OUT, (1, 14, 14, 24))], build), flags=BUILDS[name])


@pytest.mark.parametrize("storage", [i8, i16])
@pytest.mark.parametrize(
    ("outputs", "has_half"),
    [(4, True), (8, True), (9, False), (24, True), (25, False), (32, False), (40, True)],
)
def test_half_vectors(outputs: int, has_half: bool, storage: IntegerType):
    """Eight outputs or fewer remain for the last vector of a tile."""
    element = UniformType(1.0, storage=storage)

    def build(x: SSAValue) -> Values:
        return [layer(0, x, element, outputs, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1)]

    text = source(make_network([(element, (1, 14, 14, 16))], build))
    assert ("_half_" in text) == has_half


@pytest.mark.parametrize(
    ("outputs", "parts"),
    [(16, {"WHOLE"}), (64, {"WHOLE"}), (144, {"HALF", "QUARTER"}), (24, set[str]())],
)
def test_packed_stores(outputs: int, parts: set[str]):
    """Four complete vectors are packed, and stored together or in pairs if these are adjacent."""
    element = UniformType(1.0)

    def build(x: SSAValue) -> Values:
        return [layer(0, x, element, outputs, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1)]

    text = source(make_network([(element, (1, 14, 14, 16))], build), "model_kernels.h")
    assert set(re.findall(r"^  STORE_(QUARTER|HALF|WHOLE)\(", text, re.MULTILINE)) == parts


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("build", "storage", "workspace"),
    [
        *product(("tiles", "loops"), (i8, u8, i16), (0, 1 << 17)),
        *(("avx2", i8, 0), ("avx2", i16, 1 << 17), ("256", u8, 0), ("256", i8, 1 << 17)),
    ],
)
def test_groups_and_dilated_rows(build: str, storage: IntegerType, workspace: int):
    element = UniformType(1.0, 3 if storage == i8 else 77, storage=storage)

    def layers(*inputs: SSAValue) -> Values:
        return [
            layer(seed, x, element, *way[1:])
            for i, (x, way) in enumerate(zip(inputs, GROUPED, strict=True))
            for seed in (i, 4 + 10 * i, (6, 9, 13, 19)[i % 4])
        ]

    module = make_network([(element, way[0]) for way in GROUPED], layers)
    assert not re.search(r"static void (dense|gather|dot)_", source(module, "model_kernels.h"))
    check(module, options=COptions(workspace=workspace), flags=BUILDS[build])


@pytest.mark.sample(5)
@pytest.mark.parametrize("build", ["tiles", "avx2 and fma", "openmp", "no vectors"])
@pytest.mark.parametrize("workspace", [0, 1 << 17])
def test_floats_of_groups_and_dilated_rows(build: str, workspace: int):
    flags = {
        "tiles": FLAGS,
        "avx2 and fma": (*BUILDS["avx2"], "-mfma") if X86 else FLAGS,
        "openmp": (*FLAGS, "-fopenmp"),
        "no vectors": (*FLAGS, "-DMODEL_F32=0"),
    }[build]

    def layers(*inputs: SSAValue) -> Values:
        rng = np.random.default_rng(5)
        results: list[SSAValue] = []
        for x, (_, o, kernel, strides, padding, dilations, groups) in zip(
            inputs, GROUPED, strict=True
        ):
            shape = (o, *kernel, graph.shape_of(x)[3] // groups)
            scale = 1 / np.sqrt(np.prod(shape[1:]))
            weights = constant(rng.normal(0, scale, shape).astype(np.float32))
            bias = constant(rng.normal(size=o).astype(np.float32))
            residual = None
            for activation in (None, graph.FunctionAttr(graph.Function.CLIP, (-0.5, 0.75))):
                residual = graph.Conv2dOp(
                    x, weights, bias, residual, result_element=f32, strides=strides,
                    padding=padding, dilations=dilations, groups=groups, activation=activation,
                ).result  # fmt: skip
                results.append(residual)
        return results

    module = make_network([(f32, way[0]) for way in GROUPED], layers)
    assert len(re.findall(r"^  +tile_f32_", source(module), re.MULTILINE)) >= 2 * len(GROUPED)
    check(module, tolerance=1e-5, options=COptions(workspace=workspace), flags=flags)


@pytest.mark.sample(12)
@pytest.mark.parametrize(
    ("build", "point"),
    [
        *product(("tiles", "loops"), (-128, 0, 3)),
        *(("avx2", -128), ("256", 0), ("vex", 3), ("unpacked", -128)),
    ],
)
@pytest.mark.parametrize("seeds", [(0, 3, 13), (1, 4, 19), (2, 9)], ids="abc")
def test_depthwise(build: str, point: int, seeds: tuple[int, ...]):
    element = UniformType(1.0, point)

    def layers(*inputs: SSAValue) -> Values:
        return [
            layer(seed, x, element, s[3], kernel, stride, padding, dilation, s[3])
            for x, (s, kernel, stride, padding, dilation) in zip(inputs, DEPTHWISE, strict=True)
            for seed in seeds
        ]

    check(make_network([(element, s[0]) for s in DEPTHWISE], layers), flags=BUILDS[build])


@pytest.mark.sample(14)
@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS.keys())
@pytest.mark.parametrize("storage", [i16, u8])
@pytest.mark.parametrize("seeds", [(0, 13), (1, 19), (9,)], ids="abc")
def test_other_results(storage: IntegerType, flags: tuple[str, ...], seeds: tuple[int, ...]):
    """Check results of 16 bits, and unsigned bytes from unsigned bytes."""
    element = UniformType(1.0, 3, storage=u8 if storage == u8 else i8)
    made = UniformType(1.0, storage=storage)
    inputs = [s[0] for s in (*SHAPES[:6], *DEPTHWISE)]

    def build(*xs: SSAValue) -> Values:
        dense = [
            layer(seed, x, element, o, kernel, stride, padding, (d, 1), 1, made)
            for seed, (x, (_, o, kernel, stride, padding, d)) in enumerate(
                zip(xs[:6], SHAPES[:6], strict=True)
            )
        ]
        return dense + [
            layer(seed, x, element, s[3], kernel, stride, padding, dilation, s[3], made)
            for x, (s, kernel, stride, padding, dilation) in zip(xs[6:], DEPTHWISE, strict=True)
            for seed in seeds
        ]

    check(make_network([(element, shape) for shape in inputs], build), flags=flags)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("build", "point"),
    [("tiles", 0), ("tiles", 3000), ("loops", 3000), ("avx2", 3000), ("vex", 0), ("256", 0)],
)
def test_inputs_of_16_bits(build: str, point: int):
    """
    Check values of 16 bits, half of them extremes, with all output stages and one or more strips.
    """
    element = UniformType(1.0, point, storage=i16)
    wide, skips = UniformType(1.0, storage=i16), (SKIP, UniformType(2.0, 100, storage=i16))
    ways = [(*s[:5], (s[5], 1), 1) for s in SHAPES]
    ways += [(s[0], s[0][3], *s[1:], s[0][3]) for s in DEPTHWISE]
    rng = np.random.default_rng(point)

    def layers(*inputs: SSAValue) -> Values:
        return [
            layer(seed, x, element, o, kernel, stride, padding, dilations, groups, result, skip)
            for i, (x, (_, o, kernel, stride, padding, dilations, groups)) in enumerate(
                zip(inputs, ways, strict=True)
            )
            for seed, result, skip in (
                (i, OUT, SKIP),
                (4 + 10 * i, (OUT, wide)[i % 2], skips[i // 2 % 2]),
                (6 * i, wide, skips[1]),
                ((9, 24)[i % 2], OUT, SKIP),
                ((13, 19)[i % 2], wide, SKIP),
                ((19, 13)[i % 2], OUT, SKIP),
            )
        ]

    module = make_network([(element, way[0]) for way in ways], layers)
    numbers = {f"input{i}": stored(rng, element, way[0]) for i, way in enumerate(ways)}
    for x in numbers.values():
        extremes = rng.choice(np.array([-32768, 32767], np.int16), x.shape)
        x[:] = np.where(rng.random(x.shape) < 0.5, extremes, x)
    text = source(module)
    assert (
        "_words" in text
        and "_scaled_" in text
        and "_scaled_wide" in text
        and "pairs_int16_t_3" in text
        and "pairs_int16_t_4_512" in text
    )
    workspace = 0 if point else 1 << 17
    check(module, numbers, options=COptions(workspace=workspace), flags=BUILDS[build])


@pytest.mark.sample(3)
@pytest.mark.parametrize("build", [b for b in BUILDS if b != "vex"])
def test_residuals_moved_by_channel(build: str):
    """
    Check per-channel shifts of residuals in tiles, with all output stages and types of residuals.
    """
    byte, word = UniformType(1.0, 3), UniformType(1.0, 3, storage=i16)
    wide, skip = UniformType(1.0, storage=i16), UniformType(2.0, 100, storage=i16)
    ways = [(*s[:5], (s[5], 1), 1) for s in (SHAPES[0], SHAPES[3], SHAPES[5], SHAPES[7])]
    ways += [(s[0], s[0][3], *s[1:], s[0][3]) for s in (DEPTHWISE[1], DEPTHWISE[2], DEPTHWISE[5])]
    inputs = [(element, way) for element in (byte, word) for way in ways]

    def layers(*xs: SSAValue) -> Values:
        return [
            layer(seed, x, element, *way[1:], *ends, spread=8)
            for x, (element, way) in zip(xs, inputs, strict=True)
            for seed, ends in (
                *((seed, (OUT,)) for seed in (0, 4, 14, 13, 20, 6)),
                (10, (wide, skip)),
                (34, (wide, skip)),
            )
        ]

    module = make_network([(element, way[0]) for element, way in inputs], layers)
    text = source(module)
    kinds = ("8_each", "8_each_scaled", "8_each_scaled_wide", "8_each_shifted", "16_each")
    for kind in (*kinds, "16_each_shifted"):
        assert re.search(rf"tile_\w+_residual{kind}(_part|_low|_words|_16|\()", text)
    # Depthwise layers in columns of four bytes, and of pairs.
    assert "_mm256_mullo_epi32(_mm256_srai_epi32(skip3, 24), f3)" in text
    assert "_mm256_mullo_epi32(_mm256_srai_epi32(skip1, 16), f1)" in text
    assert "_mm256_srav_epi32(s3, right3)" in text and "_mm256_srav_epi32(s1, right1)" in text
    assert not re.search(r"\bsums_\d", text)
    check(module, flags=BUILDS[build])


@pytest.mark.parametrize("flags", (FLAGS, BUILDS["256"]), ids=("512", "256"))
def test_threads(flags: tuple[str, ...]):
    """
    Check layers above the size for threads, with overlapping tiles, and several columns of threads.
    """
    shapes = [
        ((1, 23, 25, 32), 40, (3, 3), (1, 1), (1, 1, 1, 1), 1),
        ((2, 17, 17, 96), 48, (1, 1), (1, 1), (0, 0, 0, 0), 1),
        ((1, 40, 50, 64), 64, (3, 3), (1, 1), (1, 1, 1, 1), 64),
    ]
    element = UniformType(1.0, 3)

    def layers(*inputs: SSAValue) -> Values:
        return [
            layer(seed, x, element, o, kernel, stride, padding, (1, 1), groups)
            for x, (_, o, kernel, stride, padding, groups) in zip(inputs, shapes, strict=True)
            for seed in (0, 1)
        ]

    module = make_network([(element, s[0]) for s in shapes], layers)
    # Depthwise layers have vectors of x86, and of Arm or RISC-V; the last has 512 and 256 bits.
    text = source(module)
    assert text.count("  MODEL_THREADS(") == 5 and text.count("MODEL_TEAM") >= 4
    check(module, flags=(*flags, "-fopenmp"))


@pytest.mark.skipif(not X86, reason="a processor of another kind")
def test_the_instruction_of_avx_vnni(tmp_path: Path):
    """A processor with the instruction compiles it in the AVX-VNNI encoding."""
    module = make_network(
        [(OUT, SHAPES[0][0])],
        lambda x: [layer(0, x, OUT, 32, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1)],
    )
    write_files(emit(place(module), COptions()), tmp_path)
    command = [*compiler(), "-std=c99", "-O2", "-mavx2", "-mavxvnni", "-S", "-o", "-", "model.c"]
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert re.search(r"{vex}\s+vpdpbusd\s.*%ymm", text) and "zmm" not in text


@pytest.mark.parametrize("flags", (FLAGS, BUILDS["loops"]), ids=("tiles", "loops"))
def test_lookup(flags: tuple[str, ...]):
    """Check all indices, in complete vectors and in the remaining elements."""
    entries = np.random.default_rng(0).permutation(256).astype(np.uint8).tobytes()
    table = DenseIntOrFPElementsAttr(TensorType(i8, (256,)), BytesAttr(entries))
    x = np.arange(-128, 172).astype(np.int8)
    module = make_network([(OUT, x.shape)], lambda v: [graph.LookupOp(v, table, OUT).result])
    got = check(module, {"input0": x}, flags=flags)["output0"]
    expected = np.frombuffer(entries, np.int8)[x.astype(np.int32) + 128]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("flags", (FLAGS, BUILDS["loops"]), ids=("tiles", "loops"))
@pytest.mark.parametrize("made", [8, 16])
@pytest.mark.parametrize(("width", "entries"), [(8, 256), (16, 256), (16, 1024), (16, 2048)])
def test_lookup_by_channel(flags: tuple[str, ...], width: int, entries: int, made: int):
    """
    Check few and many tables, channels that do and do not fill vectors, indices beyond a table, and
    few and many rows.
    """
    rng = np.random.default_rng(width + entries)
    source = UniformType(0.5, storage=IntegerType(width))
    target, most = UniformType(0.25, storage=IntegerType(made)), 1 << made - 1
    tables = rng.integers(-most, most, (9, entries)).astype(f"int{made}")
    value = graph.ConstantOp.from_array(tables, IntegerType(made)).value
    assert isinstance(value, DenseIntOrFPElementsAttr)
    shapes = [((2, 13, 16), 3), ((5, 9, 64), 9), ((7, 11, 24), 5), ((40, 85), 6), ((70, 3), 2)]
    shapes += [((9, 10, 64), 9), ((30, 5, 24), 5), ((83, 85), 6)]
    rows = [rng.integers(0, count, shape[-1]) for shape, count in shapes]
    bound = min(entries, 1 << (width - 1))
    numbers = [rng.integers(-bound, bound, shape).astype(f"int{width}") for shape, _ in shapes]

    def build(*xs: SSAValue) -> Values:
        pairs = zip(xs, rows, strict=True)
        return [graph.LookupOp(x, value, target, r.tolist()).result for x, r in pairs]

    module = make_network([(source, shape) for shape, _ in shapes], build)
    got = check(module, {f"input{i}": x for i, x in enumerate(numbers)}, flags=flags)
    for i, (x, r) in enumerate(zip(numbers, rows, strict=True)):
        at = np.clip(x.astype(np.int64), -entries // 2, entries // 2 - 1) + entries // 2
        np.testing.assert_array_equal(got[f"output{i}"], tables[r, at])


@pytest.mark.parametrize("rows", [1, 7, 8, 56])
@pytest.mark.parametrize("columns", [1, 7, 13, 112])
def test_tiles_fit_the_registers(rows: int, columns: int):
    for outputs, steps in product((1, 16, 24, 32, 48, 80, 512, 1000), (0, 4, 240)):
        tile = choose_tile(rows, columns, outputs, steps)
        assert tile.positions * tile.blocks + tile.blocks + 1 <= VECTOR_REGISTERS
        assert tile.columns <= columns and tile.rows <= rows
        assert tile.rows == 1 or tile.columns == columns


def test_known_tiles():
    """
    Float tiles have two rows of a map of seven columns, and fourteen positions that divide a row.
    Integer tiles with few steps have fewer positions; odd numbers of vectors occur only in rows of
    them.
    """
    assert choose_tile(56, 56, 64).positions == 14
    seven = choose_tile(8, 7, 512)
    assert (seven.rows, seven.columns, seven.blocks) == (2, 7, 2)
    assert choose_tile(12544, 1, 96, 4).positions <= 8
    assert choose_tile(12544, 1, 96, 4).blocks == 2
    assert choose_tile(3136, 1, 144, 6).blocks == 3


def test_strips_cover_and_are_multiples():
    for total in (1, 7, 56, 3136):
        for step in (1, 2, 14):
            for most in (-3, 0, 1, 13, 100, 10000):
                length = strip_length(total, step, most)
                assert 1 <= length <= total
                assert length == total or length % step == 0


@pytest.mark.parametrize("build", ["tiles", "loops"])
@pytest.mark.parametrize("storage", [i8, u8])
def test_depthwise_rows_of_few_channels(build: str, storage: IntegerType):
    """Positions of a row fill the vectors if channels do not."""
    element = UniformType(1.0, 0 if storage == i8 else 77, storage=storage)
    shapes = [
        ((1, 9, 12, 8), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
        ((2, 7, 5, 3), (2, 4), (2, 1), (0, 2, 1, 0), (1, 1)),
        ((1, 8, 6, 15), (3, 2), (1, 1), (2, 2, 0, 3), (2, 3)),
        ((1, 4, 2, 4), (1, 5), (1, 1), (0, 4, 0, 4), (1, 1)),
    ]

    def layers(*inputs: SSAValue) -> Values:
        return [
            layer(i, x, element, x_shape[3], kernel, strides, padding, dilations, x_shape[3])
            for i, (x, (x_shape, kernel, strides, padding, dilations)) in enumerate(
                zip(inputs, shapes, strict=True)
            )
        ]

    module = make_network([(element, shape) for shape, *_ in shapes], layers)
    check(module, flags=BUILDS[build])
    calls = re.findall(r"depthwise_row_\w+\(sums", source(module))
    assert len(calls) == len(shapes)
