"""
Networks of TOSA for tests: each operation with ties, saturation and extremes.

A case returns the text and the arrays of the inputs. `test/frontends/tosa/golden.py` stores the
results of the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tosa_texts import Array, Ref, Writer

GOLDEN_FILE = Path(__file__).parent / "frontends" / "tosa" / "golden.npz"

Case = Callable[[Writer, np.random.Generator], "Ref | tuple[Ref, ...]"]

CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


def build(name: str) -> tuple[str, dict[str, Array]]:
    """Return the text and the inputs of a case."""
    writer = Writer()
    found = CASES[name](writer, np.random.default_rng(sorted(CASES).index(name)))
    return writer.text(*([found] if isinstance(found, Ref) else found)), writer.inputs


def array(*values: int) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def integers(
    rng: np.random.Generator, shape: tuple[int, ...], bits: int = 8
) -> NDArray[np.signedinteger]:
    """Return integers of all magnitudes, with both extremes."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    found = rng.integers(low, high, shape, np.int64, endpoint=True)
    flat = found.reshape(-1)
    flat[: min(2, flat.size)] = (low, high)[: min(2, flat.size)]
    return found.astype(f"int{bits}")


def small(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int32]:
    """Return integers of 32 bits, a third of which are near 0."""
    found = integers(rng, shape, 32) >> rng.integers(0, 31, shape)
    return found.astype(np.int32)


def floats(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return rng.normal(0, 2, shape).astype(np.float32)


def multipliers(rng: np.random.Generator, count: int) -> list[int]:
    return rng.integers(1 << 30, 1 << 31, count).tolist()


WINDOW = {"pad": array(1, 0, 1, 1), "stride": array(2, 1), "dilation": array(1, 1)}
UNIT = {"pad": array(0, 0, 0, 0), "stride": array(1, 1), "dilation": array(1, 1)}


@case
def conv2d_by_channel(w: Writer, rng: np.random.Generator) -> Ref:
    x = w.input(integers(rng, (2, 8, 6, 5)))
    weights = w.const(integers(rng, (4, 3, 3, 5)))
    bias = w.const(rng.integers(-9999, 9999, 4).astype(np.int32))
    options = dict(WINDOW, acc_type="i32")
    y = w.op(
        "conv2d", x, weights, bias, w.point(-3), w.zero(), to=(2, 4, 6, 4), element="i32", **options
    )
    shifts = [39, 40, 41, 38]
    y = w.rescale(y, multipliers(rng, 4), shifts, element="i8", points=(0, 7), twice=True)
    return w.op("clamp", y, to=y.shape, element="i8", min_val="-100 : i8", max_val="90 : i8")


@case
def conv2d_sums(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    x = w.input(integers(rng, (1, 5, 5, 3)))
    weights = w.const(integers(rng, (2, 2, 2, 3)))
    operands = (x, weights, w.const(np.array([5, -6], np.int32)), w.point(9), w.point(-2))
    y = w.op("conv2d", *operands, to=(1, 4, 4, 2), element="i32", acc_type="i32", **UNIT)
    return y, w.rescale(y, multipliers(rng, 1), [38], element="i8", points=(0, -5))


@case
def conv2d_int16(w: Writer, rng: np.random.Generator) -> Ref:
    x = w.input((integers(rng, (1, 4, 4, 3), 16) // 8).astype(np.int16))
    weights = w.const(integers(rng, (2, 3, 3, 3)))
    bias = w.const(np.array([5000, -60000], np.int64), "i48")
    operands = (x, weights, bias, w.zero("i16"), w.zero())
    y = w.op("conv2d", *operands, to=(1, 2, 2, 2), element="i48", acc_type="i48", **UNIT)
    return w.rescale(y, [30000, 20000], [26, 25], element="i16", scale32=False)


@case
def conv2d_dilated(w: Writer, rng: np.random.Generator) -> Ref:
    x = w.input(integers(rng, (1, 9, 9, 2)))
    weights = w.const(integers(rng, (3, 3, 3, 2)))
    bias = w.const(np.array([7], np.int32))
    options = {"pad": array(2, 2, 2, 2), "stride": array(1, 1), "dilation": array(2, 2)}
    y = w.op(
        "conv2d", x, weights, bias, w.point(4), w.zero(), to=(1, 9, 9, 3), element="i32",
        acc_type="i32", **options,
    )  # fmt: skip
    return w.rescale(y, multipliers(rng, 1), [38], element="i8", twice=True)


@case
def depthwise_int8(w: Writer, rng: np.random.Generator) -> Ref:
    x = w.input(integers(rng, (1, 6, 6, 3)))
    weights = w.const(integers(rng, (3, 3, 3, 2)))
    bias = w.const(rng.integers(-999, 999, 6).astype(np.int32))
    options = {"pad": array(1, 1, 1, 1), "stride": array(1, 1), "dilation": array(1, 1)}
    y = w.op(
        "depthwise_conv2d", x, weights, bias, w.point(11), w.zero(), to=(1, 6, 6, 6),
        element="i32", acc_type="i32", **options,
    )  # fmt: skip
    factors = [*multipliers(rng, 5), 0]
    return w.rescale(y, factors, [37] * 3 + [38] * 3, element="i8", points=(0, -20))


@case
def transpose_conv_int8(w: Writer, rng: np.random.Generator) -> Ref:
    x = w.input(integers(rng, (1, 3, 4, 2)))
    weights = w.const(integers(rng, (3, 3, 2, 2)))
    bias = w.const(np.array([100, 0, -100], np.int32))
    y = w.op(
        "transpose_conv2d", x, weights, bias, w.point(5), w.zero(), to=(1, 6, 8, 3), element="i32",
        acc_type="i32", out_pad=array(-1, 0, 0, 0), stride=array(2, 2),
    )  # fmt: skip
    return w.rescale(y, multipliers(rng, 1), [37], element="i8", points=(0, 3), twice=True)


@case
def conv3d_int8(w: Writer, rng: np.random.Generator) -> Ref:
    x = w.input(integers(rng, (1, 5, 4, 4, 2)))
    weights = w.const(integers(rng, (3, 2, 3, 3, 2)))
    bias = w.const(np.array([10, 20, 30], np.int32))
    y = w.op(
        "conv3d", x, weights, bias, w.point(-7), w.zero(), to=(1, 5, 4, 4, 3), element="i32",
        acc_type="i32", pad=array(1, 0, 1, 1, 1, 1), stride=array(1, 1, 1),
        dilation=array(1, 1, 1),
    )  # fmt: skip
    return w.rescale(y, multipliers(rng, 1), [38], element="i8", points=(0, -1))


@case
def matmul_int8(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    a, b = w.input(integers(rng, (2, 3, 7))), w.input(integers(rng, (2, 7, 4)))
    y = w.op("matmul", a, b, w.point(3), w.point(-4), to=(2, 3, 4), element="i32")
    c = w.const(integers(rng, (2, 7, 4)))
    z = w.op("matmul", a, c, w.point(3), w.point(0), to=(2, 3, 4), element="i32")
    return w.rescale(y, multipliers(rng, 1), [38], element="i8", points=(0, 2), twice=True), z


@case
def average_pool_int8(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    x = w.input(integers(rng, (1, 6, 6, 3)))
    points = w.point(-9), w.point(-9)
    y = w.op(
        "avg_pool2d", x, *points, to=(1, 3, 2, 3), element="i8", acc_type="i32",
        kernel=array(2, 3), pad=array(0, 0, 0, 0), stride=array(2, 3),
    )  # fmt: skip
    z = w.op(
        "avg_pool2d", x, w.point(3), w.point(-5), to=(1, 6, 6, 3), element="i8", acc_type="i32",
        kernel=array(3, 3), pad=array(1, 1, 1, 1), stride=array(1, 1),
    )  # fmt: skip
    return y, z


@case
def max_pool_int8(w: Writer, rng: np.random.Generator) -> Ref:
    x = w.input(integers(rng, (1, 5, 5, 3)))
    return w.op(
        "max_pool2d", x, to=(1, 3, 3, 3), element="i8", kernel=array(3, 3), pad=array(1, 1, 1, 1),
        stride=array(2, 2),
    )  # fmt: skip


TIES = np.array([0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, -5, -6, -7, 96, -96, 160, -160], np.int32)


@case
def rescale_32_to_8(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    near = rng.integers(-(1 << 20), 1 << 20, 60).astype(np.int32)
    x = w.input(np.concatenate([TIES, near]))
    large = w.input(np.concatenate([integers(rng, (40,), 32), TIES]))
    half = 1 << 30
    return (
        w.rescale(x, [half], [31], element="i8"),
        w.rescale(x, [half], [31], element="i8", twice=True),
        w.rescale(x, [half], [34], element="i8", twice=True, points=(0, 3)),
        w.rescale(x, [half], [34], element="i8", points=(0, 3)),
        w.rescale(x, [1979205321], [45], element="i8", twice=True),
        w.rescale(x, [1234567], [33], element="i16", twice=True),
        w.rescale(large, [half + 12345], [53], element="i8", points=(0, -128)),
        w.rescale(large, [half + 12345], [45], element="i16", twice=True),
        w.rescale(large, [0], [45], element="i8", points=(0, 5), twice=True),
    )


@case
def rescale_by_channel(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    x = w.input(rng.integers(-(1 << 20), 1 << 20, (2, 9, 4)).astype(np.int32))
    y = w.input(integers(rng, (3, 4)))
    factors = [*multipliers(rng, 3), 12345]
    return (
        w.rescale(x, factors, [40, 30 + 9, 44, 30], element="i8", points=(0, 3), twice=True),
        w.rescale(y, factors, [31, 32, 29, 12], element="i8", points=(5, 3)),
    )


@case
def rescale_narrow(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    x = w.input(np.arange(-128, 128).astype(np.int8))
    y = w.input(integers(rng, (100,), 16))
    return (
        w.rescale(x, [1 << 30], [31], element="i8", points=(-5, 4)),
        w.rescale(x, [1 << 30], [31], element="i8", points=(-5, 4), twice=True),
        w.rescale(x, [1822329093], [33], element="i32", points=(-5, 0), twice=True),
        w.rescale(x, [1822329093], [24], element="i16", points=(9, 0)),
        w.rescale(y, [1822329093], [39], element="i8", points=(0, 9), twice=True),
        w.rescale(y, [20000], [15], element="i16", scale32=False),
    )


@case
def rescale_unsigned(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    x = w.input(np.arange(-128, 128).astype(np.int8))
    y = w.rescale(x, [1 << 30], [30], element="i8", points=(-128, 0), unsigned=(True, False))
    z = w.rescale(x, [1 << 30], [31], element="i8", points=(3, -100), unsigned=(False, True))
    return y, z


@case
def add_int8(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    a, b = w.input(integers(rng, (2, 5, 4))), w.input(integers(rng, (1, 5, 4)))
    left = w.rescale(a, [1073741824], [11], element="i32", points=(4, 0), twice=True)
    right = w.rescale(b, [1500000000], [12], element="i32", points=(-6, 0), twice=True)
    total = w.op("add", left, right, to=(2, 5, 4), element="i32")
    y = w.rescale(total, [1888888888], [50], element="i8", points=(0, 7), twice=True)
    less = w.op("sub", left, right, to=(2, 5, 4), element="i32")
    return y, w.rescale(less, [1888888888], [50], element="i8", points=(0, 7), twice=True)


@case
def mul_int8(w: Writer, rng: np.random.Generator) -> Ref:
    a, b = w.input(integers(rng, (2, 5, 4))), w.input(integers(rng, (2, 5, 1)))
    left = w.rescale(a, [1 << 30], [30], element="i32", points=(4, 0))
    right = w.rescale(b, [1 << 30], [30], element="i32", points=(-6, 0))
    product = w.op("mul", left, right, w.zero(), to=(2, 5, 4), element="i32")
    return w.rescale(product, [1888888888], [38], element="i8", points=(0, 7), twice=True)


@case
def mean_int8(w: Writer, rng: np.random.Generator) -> Ref:
    x = w.input(integers(rng, (1, 4, 4, 3)))
    y = w.rescale(x, [1 << 30], [30], element="i32", points=(4, 0))
    y = w.op("reduce_sum", y, to=(1, 1, 4, 3), element="i32", axis="1 : i32")
    y = w.op("reduce_sum", y, to=(1, 1, 1, 3), element="i32", axis="2 : i32")
    return w.rescale(y, [1888888888], [35], element="i8", points=(0, 7), twice=True)


@case
def binary_int32(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    a, b = w.input(small(rng, (4, 9)) >> 1), w.input(small(rng, (4, 1)) >> 1)
    shape = (4, 9)
    c = w.input((small(rng, shape) >> 8) | 1)
    names = ["add", "sub", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"]
    found = [w.op(n, a, b, to=shape, element="i32") for n in names]
    found.append(w.op("intdiv", a, c, to=shape, element="i32"))
    found += [w.op(n, a, b, to=shape, element="i1") for n in ("equal", "greater", "greater_equal")]
    d = w.input((small(rng, shape) >> 17).astype(np.int32))
    found.append(w.op("mul", d, d, w.zero(), to=shape, element="i32"))
    found.append(w.op("mul", a, d, w.point(21), to=shape, element="i32"))
    return tuple(found)


@case
def products(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    a, b = w.input(integers(rng, (20,))), w.input(integers(rng, (20,))[::-1].copy())
    c = w.input(integers(rng, (20,), 16))
    return (
        w.op("mul", a, b, w.zero(), to=(20,), element="i32"),
        w.op("mul", c, c, w.zero(), to=(20,), element="i32"),
    )


@case
def shifts_by_constants(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    found: list[Ref] = []
    for bits in (8, 16, 32):
        x = w.input(integers(rng, (12,), bits))
        by = w.const(rng.integers(0, bits, 12), f"i{bits}")
        kind = f"i{bits}"
        for value in ("false", "true"):
            found.append(w.op("arithmetic_right_shift", x, by, to=(12,), element=kind, round=value))
        found.append(w.op("logical_right_shift", x, by, to=(12,), element=kind))
        found.append(w.op("logical_left_shift", x, by, to=(12,), element=kind))
    return tuple(found)


@case
def shifts_by_values(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    x = w.input(integers(rng, (40,), 32))
    by = w.input(rng.integers(0, 32, 40).astype(np.int32))
    return (
        w.op("arithmetic_right_shift", x, by, to=(40,), element="i32", round="true"),
        w.op("logical_right_shift", x, by, to=(40,), element="i32"),
        w.op("logical_left_shift", x, by, to=(40,), element="i32"),
    )


@case
def logic(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    a, b = (w.input(rng.integers(0, 2, (3, 4)).astype(np.bool_)) for _ in range(2))
    names = ("logical_and", "logical_or", "logical_xor")
    found = [w.op(n, a, b, to=(3, 4), element="i1") for n in names]
    found.append(w.op("logical_not", a, to=(3, 4), element="i1"))
    found.append(w.op("reduce_all", a, to=(3, 1), element="i1", axis="1 : i32"))
    found.append(w.op("reduce_any", a, to=(1, 4), element="i1", axis="0 : i32"))
    return tuple(found)


@case
def unary_integers(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    x = w.input(np.concatenate([small(rng, (30,)), np.array([0, 1, -1, 2**31 - 1], np.int32)]))
    found = [w.op(n, x, to=x.shape, element="i32") for n in ("clz", "bitwise_not")]
    positive = w.input(np.abs(small(rng, (30,)) >> 1))
    found.append(w.op("abs", w.op("bitwise_not", positive, to=(30,), element="i32"), to=(30,),
                      element="i32"))  # fmt: skip
    for bits in (8, 16, 32):
        kind = f"i{bits}"
        y = w.input(integers(rng, (20,), bits) if bits < 32 else small(rng, (20,)) >> 1)
        points = (w.point(-3), w.point(5)) if bits == 8 else (w.zero(kind), w.zero(kind))
        found.append(w.op("negate", y, *points, to=(20,), element=kind))
    return tuple(found)


@case
def clamps(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref, Ref]:
    x, y = w.input(integers(rng, (30,))), w.input(integers(rng, (30,), 16))
    z = w.input(floats(rng, (30,)))
    return (
        w.op("clamp", x, to=(30,), element="i8", min_val="-7 : i8", max_val="9 : i8"),
        w.op("clamp", y, to=(30,), element="i16", min_val="-700 : i16", max_val="9000 : i16"),
        w.op("clamp", z, to=(30,), element="f32", min_val="-0.5 : f32", max_val="1.25 : f32"),
    )


@case
def tables(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    x, y = w.input(np.arange(-128, 128).astype(np.int8)), w.input(integers(rng, (300,), 16))
    entries = w.const(integers(rng, (256,)))
    steep = w.const((integers(rng, (513,), 16) // 2).astype(np.int16))
    return (
        w.op("table", x, entries, to=(256,), element="i8"),
        w.op("table", y, steep, to=(300,), element="i32"),
    )


@case
def reductions(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    x, y = w.input(small(rng, (3, 4, 5)) >> 3), w.input(integers(rng, (3, 4, 5)))
    found = [
        w.op(n, x, to=(3, 1, 5), element="i32", axis="1 : i32")
        for n in ("reduce_sum", "reduce_max", "reduce_min")
    ]
    found += [
        w.op(n, y, to=(3, 4, 1), element="i8", axis="2 : i32") for n in ("reduce_max", "reduce_min")
    ]
    found.append(w.op("argmax", y, to=(3, 5), element="i32", axis="1 : i32"))
    return tuple(found)


@case
def movement_int8(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    x, y = w.input(integers(rng, (2, 3, 4))), w.input(integers(rng, (2, 1, 4)))
    found = [w.op("concat", x, y, to=(2, 4, 4), element="i8", axis="1 : i32")]
    border = w.extents(0, 1, 2, 0, 0, 3)
    found.append(w.op("pad", x, border, w.point(-77), to=(3, 5, 7), element="i8"))
    found.append(w.op("reshape", x, w.extents(6, 4), to=(6, 4), element="i8"))
    found.append(w.op("reverse", x, to=(2, 3, 4), element="i8", axis="2 : i32"))
    found.append(
        w.op("slice", x, w.extents(0, 1, 1), w.extents(2, 2, 3), to=(2, 2, 3), element="i8")
    )
    found.append(w.op("tile", y, w.extents(1, 3, 2), to=(2, 3, 8), element="i8"))
    found.append(w.op("transpose", x, to=(4, 2, 3), element="i8", perms="array<i32: 2, 0, 1>"))
    found.append(w.op("identity", x, to=(2, 3, 4), element="i8"))
    return tuple(found)


def _moved(w: Writer, x: Ref, y: Ref, border: Ref) -> list[Ref]:
    """Return results of all data movement operations on values of [2, 3, 4] and [2, 1, 4]."""
    kind = x.element
    return [
        w.op("concat", x, y, to=(2, 4, 4), element=kind, axis="1 : i32"),
        w.op("pad", x, w.extents(0, 1, 2, 0, 0, 3), border, to=(3, 5, 7), element=kind),
        w.op("reshape", x, w.extents(6, 4), to=(6, 4), element=kind),
        w.op("reverse", x, to=(2, 3, 4), element=kind, axis="0 : i32"),
        w.op("slice", x, w.extents(1, 0, 2), w.extents(1, 2, 2), to=(1, 2, 2), element=kind),
        w.op("tile", y, w.extents(2, 3, 1), to=(4, 3, 4), element=kind),
        w.op("transpose", x, to=(3, 4, 2), element=kind, perms="array<i32: 1, 2, 0>"),
    ]


@case
def movement_of_integers(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    x, y = w.input(integers(rng, (2, 3, 4), 16)), w.input(integers(rng, (2, 1, 4), 16))
    found = _moved(w, x, y, w.point(-7, "i16"))
    x, y = w.input(small(rng, (2, 3, 4))), w.input(small(rng, (2, 1, 4)))
    return (*found, *_moved(w, x, y, w.point(-70000, "i32")))


@case
def movement_of_booleans(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    x, y = (w.input(rng.integers(0, 2, s).astype(np.bool_)) for s in ((2, 3, 4), (2, 1, 4)))
    c = w.input(rng.integers(0, 2, (2, 3, 1)).astype(np.bool_))
    chosen = w.op("select", c, x, y, to=(2, 3, 4), element="i1")
    return (*_moved(w, x, y, w.const(np.array([True]))), chosen)


@case
def movement_of_floats(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    x, y = w.input(floats(rng, (2, 3, 4))), w.input(floats(rng, (2, 1, 4)))
    at = w.input(np.array([[2, 0], [1, 1]], np.int32))
    rows = w.op("gather", x, at, to=(2, 2, 4), element="f32")
    return (*_moved(w, x, y, w.const(np.array([2.5], np.float32))), rows)


@case
def words(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    """Layers, pooling and interpolation of integers of 16 bits."""
    x = w.input((integers(rng, (1, 4, 4, 3), 16) // 8).astype(np.int16))
    zero = w.zero("i16")
    pool = {"kernel": array(2, 2), "pad": array(0, 0, 0, 0), "stride": array(2, 2)}
    average = w.op(
        "avg_pool2d", x, zero, zero, to=(1, 2, 2, 3), element="i16", acc_type="i32", **pool
    )
    largest = w.op("max_pool2d", x, to=(1, 2, 2, 3), element="i16", **pool)
    filters, bias = w.const(integers(rng, (3, 3, 3, 1))), w.const(np.array([9, 8, 7]), "i48")
    depth = w.op(
        "depthwise_conv2d", x, filters, bias, zero, w.zero(), to=(1, 2, 2, 3), element="i48",
        acc_type="i48", **UNIT,
    )  # fmt: skip
    depth = w.rescale(depth, [25000], [24], element="i16", scale32=False)
    shapes = w.extents(4, 2, 4, 2), w.extents(-1, -1), w.extents(1, 1)
    nearest = w.op("resize", x, *shapes, to=(1, 8, 8, 3), element="i16", mode="NEAREST_NEIGHBOR")
    a = w.input(integers(rng, (1, 3, 5), 16))
    index = w.op("argmax", a, to=(1, 3), element="i32", axis="2 : i32")
    added = w.rescale(a, [1 << 30], [16], element="i32", twice=True)
    added = w.op("add", added, added, to=(1, 3, 5), element="i32")
    added = w.rescale(added, [1234567890], [46], element="i16", twice=True)
    return average, largest, depth, nearest, index, added


@case
def product_of_words(w: Writer, rng: np.random.Generator) -> Ref:
    """A product of two matrices of 16 bits, with sums of 48 bits."""
    zero = w.zero("i16")
    a, b = w.input(integers(rng, (1, 3, 5), 16)), w.input(integers(rng, (1, 5, 2), 16) // 64)
    product = w.op("matmul", a, b, zero, zero, to=(1, 3, 2), element="i48")
    return w.rescale(product, [20000], [30], element="i16", scale32=False)


@case
def narrow_weights(w: Writer, rng: np.random.Generator) -> Ref:
    """Weights of 4 bits, and an input with two consumers of different zero points."""
    x = w.input(integers(rng, (1, 3, 3, 2)))
    weights = w.const(rng.integers(-7, 8, (2, 3, 3, 2)), "i4")
    operands = (x, weights, w.const(np.array([5], np.int32)), w.point(9), w.zero("i4"))
    y = w.op("conv2d", *operands, to=(1, 1, 1, 2), element="i32", acc_type="i32", **UNIT)
    y = w.rescale(y, multipliers(rng, 2), [35, 36], element="i8", points=(0, -5))
    z = w.rescale(x, [1 << 30], [31], element="i8", points=(-20, 11), twice=True)
    pool = {"kernel": array(3, 3), "pad": array(0, 0, 0, 0), "stride": array(1, 1)}
    z = w.op("max_pool2d", z, to=(1, 1, 1, 2), element="i8", **pool)
    return w.op("concat", y, z, to=(1, 1, 1, 4), element="i8", axis="3 : i32")


@case
def indices(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    x = w.input(integers(rng, (2, 5, 3)))
    at = w.input(np.array([[4, 0, 2], [1, 3, 0]], np.int32))
    rows = w.input(integers(rng, (2, 3, 3)))
    return (
        w.op("gather", x, at, to=(2, 3, 3), element="i8"),
        w.op("scatter", x, at, rows, to=(2, 5, 3), element="i8"),
    )


@case
def selections(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    c = w.input(rng.integers(0, 2, (3, 4)).astype(np.bool_))
    a, b = w.input(integers(rng, (3, 4))), w.input(integers(rng, (3, 4)))
    d, e = w.input(small(rng, (3, 4))), w.input(small(rng, (3, 1)))
    return (
        w.op("select", c, a, b, to=(3, 4), element="i8"),
        w.op("select", c, d, e, to=(3, 4), element="i32"),
    )


@case
def resize_nearest(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    x = w.input(integers(rng, (1, 3, 4, 2)))
    twice = w.op(
        "resize", x, w.extents(4, 2, 4, 2), w.extents(-1, -1), w.extents(1, 1), to=(1, 6, 8, 2),
        element="i8", mode="NEAREST_NEIGHBOR",
    )  # fmt: skip
    other = w.op(
        "resize", x, w.extents(8, 4, 6, 4), w.extents(0, 0), w.extents(4, 2), to=(1, 6, 6, 2),
        element="i8", mode="NEAREST_NEIGHBOR",
    )  # fmt: skip
    return twice, other


@case
def resize_bilinear(w: Writer, rng: np.random.Generator) -> tuple[Ref, Ref]:
    x, y = w.input(integers(rng, (1, 3, 4, 2))), w.input(floats(rng, (1, 3, 4, 2)))
    shapes = w.extents(4, 2, 4, 2), w.extents(-1, -1), w.extents(1, 1)
    whole = w.op("resize", x, *shapes, to=(1, 6, 8, 2), element="i32", mode="BILINEAR")
    real = w.op("resize", y, *shapes, to=(1, 6, 8, 2), element="f32", mode="BILINEAR")
    return whole, real


@case
def casts(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 127.5, 300, -300, 1e5], np.float32)
    x, y, z = w.input(ties), w.input(small(rng, (20,))), w.input(integers(rng, (20,)))
    c = w.input(rng.integers(0, 2, (10,)).astype(np.bool_))
    return (
        w.op("cast", x, to=(10,), element="i8"),
        w.op("cast", x, to=(10,), element="i32"),
        w.op("cast", y, to=(20,), element="i8"),
        w.op("cast", y, to=(20,), element="f32"),
        w.op("cast", z, to=(20,), element="i32"),
        w.op("cast", z, to=(20,), element="f32"),
        w.op("cast", z, to=(20,), element="i1"),
        w.op("cast", c, to=(10,), element="i8"),
        w.op("cast", c, to=(10,), element="i32"),
    )


FUNCTIONS = {
    "abs": (-4, 4), "ceil": (-4, 4), "floor": (-4, 4), "exp": (-20, 8), "log": (1e-3, 90),
    "tanh": (-9, 9), "sigmoid": (-20, 20), "erf": (-4, 4), "reciprocal": (0.1, 9),
    "rsqrt": (0.1, 9), "sin": (-9, 9), "cos": (-9, 9),
}  # fmt: skip


@case
def functions_of_floats(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    found: list[Ref] = []
    for name, (low, high) in FUNCTIONS.items():
        x = w.input(rng.uniform(low, high, (40,)).astype(np.float32))
        found.append(w.op(name, x, to=(40,), element="f32"))
    x = w.input(floats(rng, (40,)))
    zeros = w.zero("f32"), w.zero("f32")
    found.append(w.op("negate", x, *zeros, to=(40,), element="f32"))
    return tuple(found)


@case
def binary_floats(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    a, b = w.input(floats(rng, (4, 6))), w.input(floats(rng, (4, 1)))
    names = ("add", "sub", "maximum", "minimum")
    found = [w.op(n, a, b, to=(4, 6), element="f32") for n in names]
    found.append(w.op("mul", a, b, w.zero(), to=(4, 6), element="f32"))
    base = w.input(rng.uniform(0.1, 5, (4, 6)).astype(np.float32))
    found.append(w.op("pow", base, a, to=(4, 6), element="f32"))
    found += [w.op(n, a, b, to=(4, 6), element="i1") for n in ("equal", "greater", "greater_equal")]
    found += [
        w.op(n, base, to=(4, 1), element="f32", axis="1 : i32")
        for n in ("reduce_sum", "reduce_max", "reduce_min", "reduce_product")
    ]
    found.append(w.op("argmax", a, to=(6,), element="i32", axis="0 : i32"))
    return tuple(found)


@case
def layers_of_floats(w: Writer, rng: np.random.Generator) -> tuple[Ref, ...]:
    zeros = w.zero("f32"), w.zero("f32")
    x, deep = w.input(floats(rng, (1, 8, 6, 5))), w.input(floats(rng, (1, 4, 4, 4, 2)))
    bias = w.const(floats(rng, (4,)))
    weights = w.const(floats(rng, (4, 3, 3, 5)))
    options = dict(WINDOW, acc_type="f32")
    found = [w.op("conv2d", x, weights, bias, *zeros, to=(1, 4, 6, 4), element="f32", **options)]
    found.append(
        w.op(
            "depthwise_conv2d", x, w.const(floats(rng, (3, 3, 5, 1))), w.const(floats(rng, (5,))),
            *zeros, to=(1, 4, 6, 5), element="f32", **options,
        )
    )  # fmt: skip
    found.append(
        w.op(
            "transpose_conv2d", x, weights, bias, *zeros, to=(1, 17, 8, 4), element="f32",
            acc_type="f32", out_pad=array(0, 0, -1, 1), stride=array(2, 1),
        )
    )  # fmt: skip
    found.append(
        w.op(
            "conv3d", deep, w.const(floats(rng, (4, 2, 3, 3, 2))), bias, *zeros,
            to=(1, 2, 4, 4, 4), element="f32", acc_type="f32", pad=array(0, 0, 1, 1, 1, 1),
            stride=array(2, 1, 1), dilation=array(1, 1, 1),
        )
    )  # fmt: skip
    for name, points in (("avg_pool2d", zeros), ("max_pool2d", ())):
        extra = {"acc_type": "f32"} if points else {}
        found.append(
            w.op(
                name, x, *points, to=(1, 4, 3, 5), element="f32", kernel=array(3, 3),
                pad=array(1, 0, 1, 0), stride=array(2, 2), **extra,
            )
        )  # fmt: skip
    a, b = w.input(floats(rng, (2, 3, 7))), w.input(floats(rng, (2, 7, 4)))
    found.append(w.op("matmul", a, b, *zeros, to=(2, 3, 4), element="f32"))
    return tuple(found)
