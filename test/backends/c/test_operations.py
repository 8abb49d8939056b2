"""Test float functions, pooling and data movement in C against the interpreter."""

from itertools import product

import numpy as np
import pytest
from c_harness import check, constant, make_network
from c_tiles import VECTOR_BUILDS
from slow_cases import first_fast
from xdsl.dialects.builtin import IntegerType, Signedness, f32, i16, i32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.vector_functions import VECTOR_FUNCTIONS
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Coordinates, Function, FunctionAttr, Nearest, Resize
from ceras_ir.dialects.graph.elementwise import BITWISE_BINARIES
from ceras_ir.dialects.mem import FoldZeroPointOp, PackOp, PackTilesOp, PackWindowsOp, UnpackOp
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

u8 = IntegerType(8, Signedness.UNSIGNED)


def floats() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return values of all magnitudes and signs, corners of `exp`, infinities and NaN."""
    rng = np.random.default_rng(0)
    corners = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38, -3.4e38]
    edges = [v + d for v in (-87.33654, 88.37626, -3.0, 3.0, 0.5) for d in (-1e-5, 0.0, 1e-5)]
    spread = rng.normal(size=2000) * 10.0 ** rng.uniform(-6, 2, 2000)
    return np.concatenate([corners, edges, spread]).astype(np.float32)


def test_functions_are_bit_exact():
    functions = [FunctionAttr(f, [0.2, 0.5][: len(f.facts.parameters)]) for f in Function] + [
        FunctionAttr(Function.CLIP, [float("-inf"), 6.0]),
        FunctionAttr(Function.HARD_SWISH, affine=(0.75, -0.3)),
    ]
    x = floats()
    module = make_network(
        [(f32, x.shape)], lambda v: [graph.UnaryOp(v, f).result for f in functions]
    )
    for flags in (("-O1",), ("-O3", "-march=native")):
        with np.errstate(all="ignore"):
            check(module, {"input0": x}, flags=flags)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_is_bit_exact(axis: int):
    x = (np.random.default_rng(axis).normal(size=(3, 5, 7)) * 20).astype(np.float32)
    x[0, 0, 0], x[1, 1, 1] = -np.inf, 80.0
    module = make_network([(f32, x.shape)], lambda v: [graph.SoftmaxOp(v, axis).result])
    check(module, {"input0": x})


@pytest.mark.parametrize("function", VECTOR_FUNCTIONS)
def test_functions_of_arrays_are_bit_exact(function: Function):
    """Vectors and parts of vectors compute functions of an array, and after a product in place."""
    attribute = FunctionAttr(function)
    x = floats()[:2000]
    bits = np.random.default_rng(1).integers(0, 1 << 32, 40000, np.uint32)
    ones = np.ones((1, 1), np.float32)

    def build(v: SSAValue, w: SSAValue) -> list[SSAValue]:
        product = graph.MatmulOp(v, constant(ones), result_element=f32, activation=attribute)
        return [product.result, graph.UnaryOp(w, attribute).result]

    for flags in (*VECTOR_BUILDS, ("-O1", "-DMODEL_F32=0")):
        module = make_network([(f32, (x.size, 1)), (f32, bits.shape)], build)
        with np.errstate(all="ignore"):
            check(module, {"input0": x[:, None], "input1": bits.view(np.float32)}, flags=flags)


def test_sums_of_rows_are_bit_exact():
    """Rows and elements that fill vectors and that do not, infinities, NaN and signs of zeros."""
    rng = np.random.default_rng(5)
    shapes = [(1, 1), (3, 16), (16, 5), (17, 33), (40, 64), (197, 192), (5, 2, 48)]
    rows = {f"input{i}": rng.normal(size=s).astype(np.float32) for i, s in enumerate(shapes)}
    rows["input3"][2, 7], rows["input3"][3, 8], rows["input3"][16, 32] = np.inf, np.nan, -np.inf
    rows["input4"][7:33] = -0.0
    rows["input4"][8, 63] = 0.0

    def build(*values: SSAValue) -> list[SSAValue]:
        last = ((v, len(graph.shape_of(v)) - 1) for v in values)
        return [graph.ReduceOp(graph.Reduce.SUM, v, [axis]).result for v, axis in last]

    for flags in (*VECTOR_BUILDS, ("-O1",)):
        module = make_network([(f32, s) for s in shapes], build)
        check(module, rows, flags=flags)


def softmax_rows(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """
    Return rows of `n` elements: of normal size, with quotients near the smallest floats, with
    masked elements, infinities, NaN, and only lowest values.
    """
    rng = np.random.default_rng(n)
    x = rng.normal(size=(19, n)) * 3
    x[1:9] = rng.uniform(-88.5, 0, (8, n))
    x[9] = np.where(rng.random(n) < 0.5, -1e9, x[9])
    x[10, rng.integers(n)], x[11, rng.integers(n)] = np.inf, -np.inf
    x[12], x[13, rng.integers(n)], x[14] = -np.inf, np.nan, -3.4e38
    x[15], x[16] = 0.0, 3.4e38
    return x.astype(np.float32)


def test_softmax_of_rows_is_bit_exact():
    sizes = (1, 5, 16, 17, 31, 32, 33, 48, 63, 64, 100, 197)
    rows = {f"input{i}": softmax_rows(n) for i, n in enumerate(sizes)}

    def build(*values: SSAValue) -> list[SSAValue]:
        return [graph.SoftmaxOp(v, 1).result for v in values]

    for flags in (*VECTOR_BUILDS, ("-O1",)):
        module = make_network([(f32, x.shape) for x in rows.values()], build)
        with np.errstate(all="ignore"):
            check(module, rows, flags=flags)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3, 4), (2, 3, 4)),
        ((2, 3, 4), (4,)),
        ((2, 1, 4), (1, 3, 1)),
        ((1,), (2, 2)),
        ((), (3,)),
        ((1, 5, 5, 3), (1, 1, 1, 3)),
    ],
)
def test_float_binary_broadcasts(left: tuple[int, ...], right: tuple[int, ...]):
    swish = FunctionAttr(Function.SWISH)
    module = make_network(
        [(f32, left), (f32, right)],
        lambda a, b: [
            graph.BinaryOp(kind, a, b, result_element=f32, activation=activation).result
            for kind in Binary
            if kind not in BITWISE_BINARIES
            for activation in (None, swish)
        ],
    )
    check(module)


def test_multipliers_of_partial_windows_near_31_bits():
    """Twice the multiplier of an element plus a count exceeded 32 bits (found by the sanitizer)."""
    requant = RequantAttr(29, multiplier=119304647)
    module = make_network(
        [(UniformType(1.0), (1, 4, 4, 1))],
        lambda x: [
            graph.Pool2dOp(
                graph.Pool.AVERAGE,
                x,
                (3, 3),
                padding=(1, 1, 1, 1),
                result_element=UniformType(0.5),
                requant=requant,
            ).result
        ],
    )
    check(module)


WINDOWS = [
    ((2, 2), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((3, 3), (2, 1), (1, 2, 0, 1), (1, 1)),
    ((2, 3), (1, 2), (1, 1, 1, 2), (2, 1)),
    ((9, 8), (1, 1), (0, 0, 0, 0), (1, 1)),
]


@pytest.mark.parametrize(("kernel", "strides", "padding", "dilations"), WINDOWS)
def test_pooling(
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, ...],
    dilations: tuple[int, int],
):
    types = [f32, UniformType(0.5), UniformType(0.5, 9, storage=u8), UniformType(1.0, storage=i16)]

    def build(*inputs: SSAValue) -> list[SSAValue]:
        results: list[SSAValue] = []
        for x in inputs:
            element = graph.quantized_element(x)
            results.append(
                graph.Pool2dOp(
                    graph.Pool.MAX,
                    x,
                    kernel,
                    result_element=graph.element_of(x),
                    strides=strides,
                    padding=padding,
                    dilations=dilations,
                ).result
            )
            for include in (False, True):
                if element is not None and not include and dilations != (1, 1):
                    continue
                how = RequantAttr(
                    24,
                    multiplier=(1 << 24) // (kernel[0] * kernel[1]),
                    rounding=Rounding.HALF_EVEN,
                    zero_point=-3,
                )
                results.append(
                    graph.Pool2dOp(
                        graph.Pool.AVERAGE,
                        x,
                        kernel,
                        count_include_pad=include,
                        result_element=f32 if element is None else UniformType(1.0, -3),
                        requant=None if element is None else how,
                        strides=strides,
                        padding=padding,
                        dilations=dilations,
                    ).result
                )
        return results

    check(make_network([(t, (2, 9, 8, 5)) for t in types], build))


PERMUTATIONS = ((0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3))


def test_movement():
    q = UniformType(0.5)

    def build(x: SSAValue, y: SSAValue, z: SSAValue) -> list[SSAValue]:
        results: list[SSAValue] = [graph.TransposeOp(x, p).result for p in PERMUTATIONS]
        results += [graph.ConcatOp([x, x, x], axis).result for axis in range(4)]
        results.append(graph.ReshapeOp(graph.TransposeOp(y, (1, 0)).result, (3, 7, 5)).result)
        for value, vector in product((x, y, z), ((16,), (4,), (2, 8), (4, 32))):
            packed = PackOp(value, vector).result
            results += [packed, UnpackOp(packed, graph.tensor_type(value)).result]
        return results

    check(make_network([(f32, (2, 3, 4, 5)), (q, (15, 7)), (q, (1, 2, 3, 33))], build))


def test_packed_windows():
    """Check windows that extend over each border, on vectors of a row or two."""
    q = UniformType(0.5)

    def build(x: SSAValue) -> list[SSAValue]:
        return [
            PackWindowsOp(
                *(x, shape),
                kernel=(3, 2),
                strides=(2, 1),
                offset=(1, 2),
                value=-7,
                constants=constants,
            ).result
            for shape, constants in (
                ((3, 2, 5, 8, 16), ()),
                ((2, 3, 4, 3, 2, 8), (1, 127, 127)),
                ((3, 3, 4, 3, 8), (1, 127, 127, -3, 0, 5)),
            )
        ]

    check(make_network([(q, (3, 6, 4, 3))], build))


def test_computed_tiles():
    """Check complete and partial tiles of a matrix and of the transpose; a bias of a row or two."""
    q = UniformType(0.5)

    def build(x: SSAValue, y: SSAValue, *biases: SSAValue) -> list[SSAValue]:
        results: list[SSAValue] = []
        for value, lanes, transposed in product((x, y), (4, 16), (False, True)):
            results.append(PackTilesOp(value, lanes, transposed=transposed).result)
        for bias, point in product(biases, (-128, 0, 127)):
            results.append(FoldZeroPointOp(bias, results[0], point).result)
        return results

    bias = UniformType(0.25, storage=i32)
    types = [(q, (6, 9)), (q, (16, 8)), (bias, (2, 4)), (bias, (2, 2, 4))]
    check(make_network(types, build))


@pytest.mark.parametrize("size", first_fast(1, [(7, 5), (6, 8), (1, 1), (2, 12)]), ids=str)
def test_resize(size: tuple[int, int]):
    height, width = 3, 4
    scales = size[0] / height, size[1] / width
    q = UniformType(0.5)

    def build(x: SSAValue, y: SSAValue) -> list[SSAValue]:
        results: list[SSAValue] = []
        for mode in Coordinates:
            results += [
                graph.ResizeOp(Resize.NEAREST, v, size, scales, mode, rounding).result
                for rounding in Nearest
                for v in (x, y)
            ]
            results.append(graph.ResizeOp(Resize.LINEAR, x, size, scales, mode).result)
        return results

    check(make_network([(f32, (2, height, width, 3)), (q, (1, height, width, 2))], build))


def test_constant_operands():
    """Check splats and constants on either side, and constants of integer type."""
    q = UniformType(0.5)

    def build(x: SSAValue, y: SSAValue) -> list[SSAValue]:
        splat = constant(np.full((2, 3), 0.25, np.float32))
        stored = constant(np.arange(6, dtype=np.int8).reshape(2, 3), q)
        how = RequantAttr(1)
        return [
            graph.BinaryOp(Binary.SUB, splat, x, result_element=f32).result,
            graph.BinaryOp(Binary.ADD, y, stored, result_element=q, requant=how).result,
            graph.ConcatOp([stored, y], 1).result,
        ]

    check(make_network([(f32, (2, 3)), (q, (2, 3))], build))
