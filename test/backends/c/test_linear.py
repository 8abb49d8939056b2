"""Test convolutions and matrix products in C against the interpreter, on random geometries."""

import platform
from collections.abc import Sequence

import numpy as np
import pytest
from c_harness import SANITIZE, Array, check, constant, make_network
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i8, i16, i32
from xdsl.ir import Attribute, SSAValue

from ceras_ir.backends.c.machines import COptions
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.quant import SINGLE_ROUNDINGS, RequantAttr, UniformType

pytestmark = pytest.mark.slow

u8 = IntegerType(8, Signedness.UNSIGNED)
X86 = platform.machine() in ("x86_64", "AMD64")


def integers(rng: np.random.Generator, element: UniformType, shape: tuple[int, ...]) -> Array:
    dtype = graph.numpy_dtype(element)
    return rng.integers(element.low, element.high + 1, shape).astype(dtype)


class Sample:
    """A random convolution, except for the element types."""

    def __init__(self, seed: int):
        self.rng = rng = np.random.default_rng(seed)
        pick = rng.integers
        self.groups = int(rng.choice([1, 1, 2, 3]))
        per_group = int(rng.choice([1, 2, 3, 8, 17]))
        outputs = int(rng.choice([1, 2, 3, 4, 5, 7]))
        if seed % 4 == 3:  # depthwise
            self.groups, per_group, outputs = int(pick(2, 19)), 1, 1
        kernel = int(pick(1, 4)), int(pick(1, 5))
        self.dilations = int(pick(1, 3)), int(pick(1, 4))
        self.strides = int(pick(1, 4)), int(pick(1, 3))
        self.padding = [int(v) for v in pick(0, 5, 4)]
        if seed % 5 == 0:  # rows that are contiguous in the input
            self.groups, kernel, self.strides, self.padding = 1, (1, 1), (1, 1), [0] * 4
        extent = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilations, strict=True)]
        if seed % 7 == 3:  # a map of one column, of which only some rows are used
            kernel, self.padding, extent = (1, 1), [0] * 4, [1, -4]
            self.strides = int(pick(2, 4)), 1
        height, width = extent[0] + int(pick(0, 6)), max(extent[1] + int(pick(0, 6)), 1)
        self.input = int(pick(1, 3)), height, width, per_group * self.groups
        self.weights = outputs * self.groups, *kernel, per_group
        rows, columns = (
            graph.window_output(size, self.padding[i], self.padding[i + 2], k, s, d)
            for i, (size, k, s, d) in enumerate(
                zip((height, width), kernel, self.strides, self.dilations, strict=True)
            )
        )
        self.output = self.input[0], rows, columns, self.weights[0]

    def convolution(
        self,
        x: SSAValue,
        weights: SSAValue,
        bias: SSAValue | None,
        residual: SSAValue | None,
        element: Attribute,
        *,
        activation: FunctionAttr | None = None,
        requant: RequantAttr | None = None,
        residual_shift: int | Sequence[int] | None = None,
    ) -> graph.Conv2dOp:
        return graph.Conv2dOp(
            x,
            weights,
            bias,
            residual,
            result_element=element,
            strides=self.strides,
            padding=self.padding,
            dilations=self.dilations,
            groups=self.groups,
            activation=activation,
            requant=requant,
            residual_shift=residual_shift,
        )


def random_requant(rng: np.random.Generator, sums: float) -> RequantAttr:
    """Return a requantization that uses the range of the result for sums of this magnitude."""
    shift = max(int(np.log2(sums / 100)), 0) if sums > 100 else 0
    rounding = SINGLE_ROUNDINGS[int(rng.integers(4))]
    if rng.integers(2):
        return RequantAttr(shift, rounding=rounding)
    multiplier = int(rng.integers(1 << 20, 1 << 21))
    return RequantAttr(
        shift + 20, multiplier=multiplier, rounding=rounding, zero_point=-7, low=-100, high=99
    )


def integer_convolutions(seeds: range, stored: IntegerType) -> list[SSAValue]:
    """
    Return independent networks in a module, which is compiled a single time; inputs are constants.
    """
    results: list[SSAValue] = []
    for seed in seeds:
        sample, rng = Sample(seed), np.random.default_rng(1000 + seed)
        low = 0 if stored == u8 else -(1 << stored.width.data - 1)
        point = int(rng.choice([0, low, low + 37]))
        x = UniformType(0.5, point, storage=stored)
        w = UniformType(0.25, int(rng.choice([0, 0, 3])))
        out = UniformType(1.0, storage=i8)
        weights = integers(rng, w, sample.weights)
        bias = rng.integers(-(1 << 16), 1 << 16, sample.weights[0]).astype(np.int32)
        sums = 40.0 * (1 << stored.width.data - 1) * np.sqrt(weights[0].size) + (1 << 15)
        requant = random_requant(rng, sums)
        value = graph.RequantizeOp(
            constant(integers(rng, x, sample.input), x), x, identity(x)
        ).result
        bias_value = constant(bias, UniformType(0.125, storage=i32)) if seed % 3 else None
        residual, moved = None, None
        if seed % 2:
            element = UniformType(2.0, -5)
            residual = constant(integers(rng, element, sample.output), element)
            moved = rng.integers(0, 9, 1 if seed % 4 == 1 else sample.output[-1]).tolist()
        op = sample.convolution(
            value,
            constant(weights, w),
            bias_value,
            residual,
            out,
            requant=requant,
            residual_shift=moved,
        )
        results.append(op.result)
    return results


def identity(element: UniformType) -> RequantAttr:
    """Return the identity, which copies a constant to the arena."""
    return RequantAttr(0, zero_point=element.zero_point, low=element.low, high=element.high)


BUILDS = {
    "portable": (),
    "unsigned": ("-DMODEL_UNSIGNED_ROWS=1",),
    "native": ("-march=native",),
    "native loops": ("-march=native", "-DMODEL_LANES=0"),
}
"""All kernels for this processor; tiles if it multiplies bytes in vectors."""


@pytest.mark.sample(6)
@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS.keys())
@pytest.mark.parametrize("stored", [i8, u8, i16], ids=str)
def test_random_integer_convolutions(stored: IntegerType, flags: tuple[str, ...]):
    module = make_network([], lambda: integer_convolutions(range(24), stored))
    check(
        module, flags=("-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", *flags)
    )


FLOAT_BUILDS = {
    "loops": SANITIZE,
    "native": (*SANITIZE, "-march=native"),
    "fma": (*SANITIZE, "-mavx2", "-mfma") if X86 else SANITIZE,
}


@pytest.mark.parametrize(
    ("name", "workspace"),
    [("loops", 0), ("loops", 1 << 17), ("native", 0), ("native", 1 << 17), ("fma", 1 << 17)],
)
def test_random_float_convolutions(name: str, workspace: int):
    functions = [None, FunctionAttr(Function.RELU), FunctionAttr(Function.SWISH)]

    def build() -> list[SSAValue]:
        results: list[SSAValue] = []
        for seed in range(24):
            sample, rng = Sample(seed), np.random.default_rng(seed)

            def normal(*shape: int, rng: np.random.Generator = rng) -> SSAValue:
                return constant(rng.normal(size=shape).astype(np.float32))

            x = graph.UnaryOp(normal(*sample.input), FunctionAttr(Function.LEAKY_RELU, [1.0]))
            weights = normal(*sample.weights)
            bias = normal(sample.weights[0]) if seed % 3 else None
            activation = functions[seed % len(functions)]
            residual = normal(*sample.output) if seed % 2 else None
            op = sample.convolution(x.result, weights, bias, residual, f32, activation=activation)
            results.append(op.result)
        return results

    check(
        make_network([], build),
        tolerance=1e-5,
        options=COptions(workspace=workspace),
        flags=FLOAT_BUILDS[name],
    )


@pytest.mark.parametrize("name", FLOAT_BUILDS)
@pytest.mark.parametrize("shape", [(1, 7, 3), (5, 33, 10), (9, 64, 20), (2, 1, 1)], ids=str)
def test_matrix_products(shape: tuple[int, int, int], name: str):
    m, k, n = shape
    rng = np.random.default_rng(k)
    q = UniformType(0.5)

    def build(x: SSAValue, y: SSAValue, z: SSAValue) -> list[SSAValue]:
        weights = constant(rng.normal(size=(n, k)).astype(np.float32))
        bias = constant(rng.normal(size=n).astype(np.float32))
        relu = FunctionAttr(Function.RELU)
        single = graph.MatmulOp(x, weights, bias, z, result_element=f32, activation=relu)
        stored = constant(integers(rng, q, (n, k)), q)
        whole = graph.MatmulOp(y, stored, result_element=q, requant=RequantAttr(9))
        return [single.result, whole.result]

    module = make_network([(f32, (m, k)), (q, (m, k)), (f32, (m, n))], build)
    check(module, tolerance=1e-5, flags=FLOAT_BUILDS[name])


@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS.keys())
def test_complete_blocks_of_filters(flags: tuple[str, ...]):
    """Fill the array of filters up to the last byte; random convolutions have fewer outputs."""
    rng = np.random.default_rng(0)
    q = UniformType(0.5)

    def build(*values: SSAValue) -> list[SSAValue]:
        return [
            graph.MatmulOp(
                x, constant(integers(rng, q, (n, k)), q), result_element=q, requant=RequantAttr(9)
            ).result
            for x, k in zip(values, (3, 20), strict=True)
            for n in (16, 64)
        ]

    check(
        make_network([(q, (5, 3)), (q, (5, 20))], build),
        flags=("-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", *flags),
    )


@pytest.mark.parametrize("rows", [2, 33])
@pytest.mark.parametrize("sign", [-1, 1])
def test_extreme_products_saturate(sign: int, rows: int):
    """Compare (-128)(-128) and (-128)(127) in each element with plain integers, also in tiles."""
    k, n = 70, 6
    q = UniformType(1.0)
    x = np.full((rows, k), -128, np.int8)
    weights = np.full((n, k), -128 if sign > 0 else 127, np.int8)
    bias = np.array([-(2**30), 2**30, -1, 0, 1, 127], np.int32)
    module = make_network(
        [(q, (rows, k))],
        lambda v: [
            graph.MatmulOp(
                v, constant(weights, q), constant(bias, UniformType(1.0, storage=i32)),
                result_element=UniformType(1.0, storage=i32),
                requant=RequantAttr(1, low=-(2**31), high=2**31 - 1),
            ).result
        ],
    )  # fmt: skip
    product = -128 * int(weights[0, 0]) * k
    for flags in BUILDS.values():
        got = check(module, {"input0": x}, flags=("-O2", *flags))["output0"]
        assert got.tolist() == [[(product + int(b) + 1) // 2 for b in bias]] * rows
