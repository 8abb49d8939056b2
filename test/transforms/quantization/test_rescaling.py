"""Test corner cases of fixed-point rescaling against integers: ties, saturation, extremes."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import UnknownLoc

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.quant import UniformType
from ceras_ir.network import integer
from ceras_ir.network.function import main_function
from ceras_ir.network.integer import (
    fitting_exponent,
    least_squares_exponent,
    requantize,
    squared_error,
)
from ceras_ir.network.storage import Storage
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis.observers import LeastSquaresObserver, ObservedArray
from ceras_ir.transforms.quantization.analysis.rescaling import (
    clamp_of,
    lookup_table,
    rescaling,
    stored_constant,
)
from ceras_ir.transforms.quantization.channel_scales import EqualizeChannelsPass
from ceras_ir.transforms.quantization.integer_forms import stored_bias

LARGEST = 2**31 - 1


def half_up(value: Fraction, low: int = -128, high: int = 127) -> int:
    return min(max(floor(value + Fraction(1, 2)), low), high)


def rescaled(values: Sequence[int], source: int, target: int) -> list[int]:
    requant = rescaling(
        2.0 ** (source - target), [Storage(source).element], Storage(target).element, (-128, 127)
    )
    assert requant.shift.data <= 31
    assert requant.multiplier.data == 1 or requant.shift.data == 0
    stored = requantize(np.array(values, np.int64), requant, Storage(target).element)
    return [int(v) for v in stored.tolist()]


@pytest.mark.parametrize("shift", [0, 1, 2, 7, 8, 15, 24, 30, 31])
def test_right_shifts(shift: int) -> None:
    step = 1 << shift
    near = [k * step + d for k in (-129, -128, -1, 0, 1, 126, 127, 128) for d in (-1, 0, 1)]
    ties = [k * step + step // 2 + d for k in (-129, -3, -2, -1, 0, 1, 126) for d in (-1, 0, 1)]
    values = [v for v in (*near, *ties, LARGEST, -LARGEST, -LARGEST - 1) if abs(v) <= LARGEST + 1]
    assert rescaled(values, -shift, 0) == [half_up(Fraction(v, step)) for v in values]


@pytest.mark.parametrize("shift", [1, 3, 7, 30])
def test_left_shifts_saturate(shift: int) -> None:
    values = [-LARGEST, -129, -128, -64, -1, 0, 1, 63, 64, 127, 128, LARGEST]
    assert rescaled(values, shift, 0) == [half_up(Fraction(v << shift)) for v in values]


def test_shifts_that_do_not_exist_give_what_they_would() -> None:
    assert rescaled([-(2**30) + 1, -1, 0, 1, 2**30 - 1], -50, 0) == [0, 0, 0, 0, 0]
    assert rescaled([-3, -1, 0, 1, 3], 50, 0) == [-128, -128, 0, 127, 127]


def clamp(activation: FunctionAttr | None, storage: Storage) -> tuple[int, int]:
    found = clamp_of(activation, storage.element)
    assert found is not None
    return found


@pytest.mark.parametrize("point", [0, -128, 37])
@pytest.mark.parametrize("exponent", [-9, -4, -1, 0, 1, 5])
@pytest.mark.parametrize(
    "bounds", [(0.0, 6.0), (-1.0, 1.0), (-0.4, 0.9), (3.0, 3.0), (-1e30, 1e30), (200.0, 300.0)]
)
def test_clamping_commutes_with_rounding(
    point: int, exponent: int, bounds: tuple[float, float]
) -> None:
    storage = Storage(exponent, zero_point=point)
    low, high = clamp(FunctionAttr(Function.CLIP, bounds), storage)
    assert -128 <= low <= high <= 127
    step = Fraction(2) ** exponent
    for eighths in range(-1200, 1200, 7):
        real = Fraction(eighths, 8) * step
        clipped = min(max(real, Fraction(bounds[0])), Fraction(bounds[1]))
        assert half_up(real / step + point, low, high) == half_up(clipped / step + point)


def test_clamp_of_relu() -> None:
    assert clamp(FunctionAttr(Function.RELU), Storage(-3)) == (0, 127)
    assert clamp(FunctionAttr(Function.RELU), Storage(-3, 8, -100)) == (-100, 127)
    assert clamp(None, Storage(-3)) == (-128, 127)
    assert clamp_of(FunctionAttr(Function.SIGMOID), Storage(-3).element) is None


def test_bounds_between_two_numbers_are_rounded_as_results_are() -> None:
    half, three_halves = (FunctionAttr(Function.CLIP, (0.0, bound)) for bound in (1.5, 4.5))
    # A scale of 3 is a multiplier, and ONNX rounds to even; a scale of 1 is a shift.
    assert clamp_of(half, UniformType(3.0)) == (0, 0)
    assert clamp_of(three_halves, UniformType(3.0)) == (0, 2)
    assert clamp_of(FunctionAttr(Function.CLIP, (0.5, 2.5)), UniformType(1.0)) == (1, 3)


def test_fitting_exponent() -> None:
    for magnitude in (1e-20, 0.3, 1.0, 126.9, 127.0, 127.49, 127.5, 128.0, 255.0, 1e20):
        e = fitting_exponent(magnitude)
        assert half_up(Fraction(magnitude) / Fraction(2) ** e, high=10**9) <= 127
        assert half_up(Fraction(magnitude) / Fraction(2) ** (e - 1), high=10**9) > 127
    assert (fitting_exponent(127.49), fitting_exponent(127.5)) == (0, 1)


@pytest.mark.slow
def test_least_squares_is_the_least() -> None:
    random = np.random.default_rng(1)
    values = np.concatenate([random.normal(size=5000), [9.0]]).astype(np.float32)

    def error(e: int) -> Fraction:
        step = Fraction(2) ** e
        total = Fraction(0)
        for value in map(Fraction, values.tolist()):
            total += (min(max(round(value / step), -128), 127) * step - value) ** 2
        return total

    exact = {e: error(e) for e in range(-8, 0)}
    for e, total in exact.items():
        assert squared_error(values, e) == pytest.approx(float(total), rel=1e-4)
    chosen = least_squares_exponent(values)
    assert chosen == min(exact, key=lambda e: exact[e]) == fitting_exponent(9.0) - 1


def test_exponents_of_rows_are_those_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(4)
    sizes = 2.0 ** random.integers(-110, 60, 300)
    rows = (random.standard_t(2, (300, 9)) * sizes[:, None]).astype(np.float32)
    rows[::7] = np.rint(rows[::7] / rows[::7].max()) * 0.5
    rows[5] = 0
    alone = [least_squares_exponent(row, -127) for row in rows]
    monkeypatch.setattr(integer, "WEIGHTS_PER_BATCH", 100)
    assert integer.least_squares_exponents(rows).tolist() == alone
    greatest = max(e for e, row in zip(alone, rows, strict=True) if row.any())
    within = [
        max(e, greatest - 8) if row.any() else greatest for e, row in zip(alone, rows, strict=True)
    ]
    assert integer.row_exponents_within(rows, 8) == within
    assert integer.row_exponents_within(np.zeros((3, 2), np.float32), 8) is None


def test_observer_agrees_with_all_at_once() -> None:
    random = np.random.default_rng(2)
    arrays = [(scale * random.normal(size=(2, 3, 5))).astype(np.float32) for scale in (1, 2, 0, 3)]
    observer = LeastSquaresObserver()
    for array in arrays:
        observer.observe(ObservedArray(array))
    everything = np.concatenate([a.reshape(-1) for a in arrays])
    assert (observer.low, observer.high) == (everything.min(), everything.max())
    assert observer.choice().exponent == least_squares_exponent(everything)


def test_observer_of_growing_data_reaches_the_coarsest_exponent() -> None:
    observer = LeastSquaresObserver()
    for magnitude in (0.01, 1.0, 1000.0):
        observer.observe(ObservedArray(np.linspace(-magnitude, magnitude, 1001, dtype=np.float32)))
    assert observer.choice().exponent == fitting_exponent(1000.0)


def test_weights_leave_the_least_integer_out() -> None:
    values = np.array([-1.0, 1.0, 0.5 / 128, 1.5 / 128, -0.5 / 128, 0.0], np.float32)
    constant = stored_constant(values, Storage(-7), UnknownLoc())
    # Rounded half to even: the ties go to 0, 2 and 0.
    assert constant.array().tolist() == [-127, 127, 0, 2, 0, 0]


def test_a_bias_is_not_clipped() -> None:
    one = graph.ConstantOp.from_array(np.zeros((2, 2), np.int8), Storage(0).element).result

    def stored(*values: float) -> list[int] | None:
        bias = graph.ConstantOp.from_array(np.array(values, np.float32)).result
        constant = stored_bias(bias, one, one)
        return None if constant is None else constant.array().tolist()

    # The maximum float32 below 2^31, and ties, which are rounded to even.
    assert stored(2.0**31 - 128, -(2.0**31) + 128) == [2**31 - 128, -(2**31) + 128]
    assert stored(2.5, -1.5) == [2, -2]
    assert stored(2.0**31, 0.0) is None


@pytest.mark.parametrize("function", [Function.SIGMOID, Function.TANH, Function.SWISH])
def test_tables_are_within_half_a_step(function: Function) -> None:
    table = np.frombuffer(
        lookup_table(FunctionAttr(function), Storage(-4).element, Storage(-6).element).data.data,
        np.int8,
    )
    x = np.arange(-128, 128) * 2.0**-4
    sigmoid = 1 / (1 + np.exp(-x))
    exact = {"sigmoid": sigmoid, "tanh": np.tanh(x), "swish": x * sigmoid}[function.value]
    bounded = np.clip(exact * 64, -128, 127)
    assert np.abs(table - bounded).max() <= 0.5 + 1e-4


NETWORK = """
func.func @main(%x: tensor<1x2xf32> {graph.name = "x"}) -> (tensor<1x1xf32> {graph.name = "y"}) {
  %w = graph.constant dense<[[1.0, 0.0], [0.0, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %k = graph.constant dense<[[4.0, 0.0], [0.0, 300.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %b = graph.constant dense<[0.0, 0.1]> : tensor<2xf32> : tensor<2xf32>
  %v = graph.constant dense<[[1.0, 1.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %p = graph.matmul %x, %w {activation = #graph.function<relu>}
    : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %q = graph.matmul %p, %k bias %b : tensor<2xf32>
    : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %y = graph.matmul %q, %v : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
"""


def test_a_channel_stays_that_is_zero_in_front_of_a_large_factor(tmp_path: Path) -> None:
    """
    Keep the scale of a channel that is always zero before a large factor.

    A batch normalization after a relu has such a channel. Its result is a bias of 0.1, compared
    with
    values of 4, but a step of the operand is equal to a step of the result.
    """
    data = tmp_path / "data.npz"
    np.savez(data, x=np.array([[1, -1]] * 20, np.float32))
    module = parse_text(load_context(), NETWORK, "text")
    EqualizeChannelsPass(str(data), rows=True).apply(load_context(), module)
    layers = [op for op in main_function(module).body.block.ops if isinstance(op, graph.MatmulOp)]
    assert layers[1].bias is not None
    np.testing.assert_array_equal(graph.known_array(layers[1].bias), np.array([0, 0.1], np.float32))


PREPARED = """
func.func @main(%x: tensor<1x1xf32> {graph.name = "x"}, %z: tensor<1x1xf32> {graph.name = "z"})
    -> (tensor<1x1xf32> {graph.name = "y"}) {
  %f = graph.constant dense<[0.001]> : tensor<1xf32> : tensor<1xf32>
  %w = graph.constant dense<[[1.0, 1.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
  %l = graph.unary <log> %x {graph.precision = "f32"} : tensor<1x1xf32>
  %q = graph.binary mul %z, %f {graph.precision = "f32"}
    : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
  %p = graph.concat %l, %q {axis = 1 : i64} : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x2xf32>
  %y = graph.matmul %p, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
"""


def test_a_channel_is_not_raised_to_what_floats_made_it_of(tmp_path: Path) -> None:
    """The logarithm of 100,000 and a quotient of 4 differ by two octaves, not fifteen."""
    data = tmp_path / "data.npz"
    np.savez(data, x=np.full((20, 1, 1), 1e5, np.float32), z=np.full((20, 1, 1), 4e3, np.float32))
    module = parse_text(load_context(), PREPARED, "text")
    EqualizeChannelsPass(str(data), rows=True).apply(load_context(), module)
    product = next(op for op in main_function(module).body.block.ops if op.name == "graph.matmul")
    assert isinstance(product, graph.MatmulOp)
    np.testing.assert_array_equal(graph.known_array(product.weights), np.ones((1, 2), np.float32))
