"""Test products of two activations in bytes, packed for register tiles and in portable rows."""

import re
from pathlib import Path

import numpy as np
import pytest
from backends.c.test_neon import compare
from c_harness import (
    SANITIZE,
    Array,
    Values,
    check,
    compiled,
    constant,
    make_network,
    needs_aarch64,
    needs_rvv,
)
from c_tiles import BUILDS, source, stored
from cross import AARCH64, Cross, riscv
from graph_networks import FUNCTIONS
from onnx_models import random_inputs
from onnx_random import random_network
from slow_cases import first_fast
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, f32, i16, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.target import CTarget
from ceras_ir.dialects.graph import (
    Cell,
    Function,
    FunctionAttr,
    MatmulOp,
    RecurrenceOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    UnaryOp,
    shape_of,
)
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, all_stages, run_stages
from ceras_ir.transforms.memory.read_states import ReadStatesPass

u8 = IntegerType(8, Signedness.UNSIGNED)
BYTE, WIDE = UniformType(1.0), UniformType(1.0, storage=i16)
INPUTS = (
    BYTE,
    UniformType(1.0, -128),
    UniformType(1.0, 77, storage=u8),
    UniformType(1.0, 40, storage=i16),
)
SHAPES = [(5, 64, 33), (40, 7, 16), (17, 130, 100), (4, 33, 70), (3, 40, 40), (64, 96, 48)]
"""Rows, products and outputs that do and do not fill steps and vectors; few rows are not packed."""


def product(seed: int, x: SSAValue, w: SSAValue, result: UniformType) -> SSAValue:
    """Return a product with an output stage, with or without a bias and a residual."""
    rng = np.random.default_rng(seed)
    (m, k), (n, _) = shape_of(x), shape_of(w)
    shift = int(np.log2(np.sqrt(k) * 100 * (16384 if seed % 4 == 3 else 64))) - 5
    low, high = result.low, result.high
    requant = RequantAttr(shift, low=low, high=high)
    if seed % 3 == 1:
        requant = RequantAttr(
            shift, rounding=Rounding.FLOOR, zero_point=-9, low=low + 20, high=high - 30
        )
    if seed % 3 == 2:
        requant = RequantAttr(
            shift + 14, multiplier=20011, rounding=Rounding.HALF_EVEN, low=low, high=high
        )
    bias, residual = None, None
    if seed % 2:
        numbers = rng.integers(-20000, 20000, n).astype(np.int32)
        bias = constant(numbers, UniformType(1.0, storage=i32))
    if seed % 5 > 2:
        skip = UniformType(2.0, -5)
        residual = constant(stored(rng, skip, (m, n)), skip)
    return MatmulOp(
        x, w, bias, residual, result_element=result, requant=requant,
        residual_shift=None if residual is None else 5,
    ).result  # fmt: skip


def network() -> tuple[ModuleOp, dict[str, Array]]:
    """Return all shapes and kinds of inputs, with values of which half are extremes."""
    cases = [(x, shape) for x in INPUTS for shape in SHAPES]

    def layers(*values: SSAValue) -> Values:
        return [
            product(i, x, w, WIDE if i % 7 == 6 else BYTE)
            for i, (x, w) in enumerate(zip(values[::2], values[1::2], strict=True))
        ]

    inputs = [pair for element, (m, k, n) in cases for pair in ((element, (m, k)), (BYTE, (n, k)))]
    rng = np.random.default_rng(0)
    numbers: dict[str, Array] = {}
    for i, (element, shape) in enumerate(inputs):
        drawn = stored(rng, element, shape)
        ends = rng.choice(np.array([element.low, element.high]), shape).astype(drawn.dtype)
        numbers[f"input{i}"] = np.where(rng.random(shape) < 0.5, ends, drawn)
    return make_network(inputs, layers), numbers


@pytest.mark.sample(5)
@pytest.mark.parametrize("build", [*BUILDS, "tiles in strips"])
def test_products_of_activations(build: str):
    module, numbers = network()
    text = source(module)
    assert len(re.findall(r"^  pack_bytes_[24]\(", text, re.MULTILINE)) == 4 * 5
    flags = BUILDS[build.removesuffix(" in strips")]
    options = COptions(workspace=0 if build.endswith("strips") else COptions.workspace)
    check(module, numbers, flags=flags, options=options)


@pytest.mark.parametrize("build", ["loops", "256"])
def test_float_products_of_activations(build: str):
    """Check panels that are full or not, with and without a bias, and those of a recurrence."""
    bias = np.linspace(-1, 1, 33, dtype=np.float32)

    def layers(*values: SSAValue) -> Values:
        x, w, steps, weights, state = values
        return [
            MatmulOp(x, w, result_element=f32).result,
            MatmulOp(x, w, constant(bias), result_element=f32).result,
            RecurrenceOp(Cell.LSTM, steps, weights, state, FUNCTIONS, cell=state).result,
        ]

    shapes = ((5, 64), (33, 64), (2, 1, 36), (36, 9), (1, 9))
    module = make_network([(f32, shape) for shape in shapes], layers)
    text = source(module)
    assert len(re.findall(r"^ +pack_(?:panels|tiles)\(", text, re.MULTILINE)) >= 3
    check(module, flags=BUILDS[build], tolerance=1e-4)


@pytest.mark.parametrize("build", ["tiles", "loops", "256"])
def test_heads_are_packed_from_where_they_are_stored(build: str):
    """Check rows and columns of the last of two heads, in full panels and in parts of panels."""
    shapes = [(9, 20, 40), (70, 197, 64), (16, 33, 18)]

    def layers(*values: SSAValue) -> Values:
        results: list[SSAValue] = []
        for (_, n, k), first, second, x in zip(
            shapes, values[::3], values[1::3], values[2::3], strict=True
        ):
            heads = ReshapeOp(UnaryOp(x, FunctionAttr(Function.RELU)).result, (n, 2, k)).result
            head = ReshapeOp(SliceOp(heads, (0, 1, 0), (n, 1, k)).result, (n, k)).result
            turned = TransposeOp(head, (1, 0)).result
            results += [
                MatmulOp(first, head, result_element=f32).result,
                MatmulOp(second, turned, result_element=f32).result,
            ]
        return results

    inputs = [shape for m, n, k in shapes for shape in ((m, k), (m, n), (n, 2 * k))]
    module = make_network([(f32, shape) for shape in inputs], layers)
    ReadStatesPass().apply(load_context(), module)
    text = source(module)
    assert "graph.matmul" not in text
    assert len(re.findall(r"^ +pack_columns\(", text, re.MULTILINE)) == len(shapes)
    check(module, flags=(*BUILDS[build], *SANITIZE), tolerance=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cross", "build"),
    [
        *(pytest.param(AARCH64, name, marks=needs_aarch64) for name in ("neon", "i8mm")),
        *(pytest.param(riscv(bits), "rvv", marks=needs_rvv) for bits in (128, 512)),
    ],
    ids=("neon", "i8mm", "rvv128", "rvv512"),
)
def test_other_vectors(cross: Cross, build: str, tmp_path: Path):
    compare(network()[0], cross, build, tmp_path)


def test_weights_with_a_zero_point_are_not_packed():
    module = make_network(
        [(BYTE, (9, 40)), (UniformType(1.0, 3), (20, 40))], lambda x, w: [product(0, x, w, BYTE)]
    )
    assert "pack_bytes" not in source(module)
    check(module, flags=BUILDS["tiles"])


@pytest.mark.sample(4)
@pytest.mark.parametrize("build", BUILDS)
def test_the_greatest_sums(build: str):
    """Check the largest sums of (-128)(-128) that fit 32 bits with a zero point of -128."""
    k = 32000
    module = make_network(
        [(UniformType(1.0, 127), (4, k)), (BYTE, (3, k))],
        lambda x, w: [
            MatmulOp(
                x, w, result_element=WIDE, requant=RequantAttr(16, low=-32768, high=32767)
            ).result
        ],
    )
    numbers = {"input0": np.full((4, k), -128, np.int8), "input1": np.full((3, k), -128, np.int8)}
    assert "  pack_bytes_4(" in source(module)
    got = check(module, numbers, flags=BUILDS[build])["output0"]
    assert (got == (255 * 128 * k + (1 << 15)) >> 16).all()


@pytest.mark.sample(14)
@pytest.mark.parametrize("seed", first_fast(4, range(40)))
def test_random_attention(seed: int):
    model = random_network(seed, steps=4, kinds=["attention", "convolution", "binary", "concat"])
    module = import_model(model)
    options = BuildOptions(CTarget(), quantize="int8").resolved(module)
    run_stages(load_context(), module, all_stages(options))
    sample = random_inputs(model, seed)
    expected = run(module, sample)
    got = compiled(module, flags=list(BUILDS.values())[seed % len(BUILDS)]).run(sample)
    for name, array in expected.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)
