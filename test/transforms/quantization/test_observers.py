"""Compare observers with a direct computation from all elements."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects.graph import BinaryOp, SoftmaxOp, UnaryOp
from ceras_ir.network.function import main_function
from ceras_ir.network.integer import fitting_exponent, squared_error
from ceras_ir.network.storage import affine, exponent, interval
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis.observers import (
    Bounds,
    Distribution,
    LeastSquaresObserver,
    ObservedArray,
    Points,
    SumFunction,
    Sums,
    identity,
    make_observer,
)
from ceras_ir.transforms.quantization.observe_ranges import ObserveRangesPass
from ceras_ir.transforms.quantization_options import ObserverName

NAMES: tuple[ObserverName, ...] = ("mse", "minmax")


def batches(seed: int, tail: float) -> list[NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    made = [random.normal(0, 1, (4, 500)).astype(np.float32) for _ in range(8)]
    made[5][0, 0] = tail
    return made


def chosen(name: ObserverName, arrays: list[NDArray[np.float32]]) -> int:
    observer = make_observer(name)
    for array in arrays:
        observer.observe(ObservedArray(array))
    assert observer.low == min(float(a.min()) for a in arrays)
    assert observer.high == max(float(a.max()) for a in arrays)
    return observer.choice().exponent


@pytest.mark.parametrize("tail", [3.0, 40.0, -900.0])
def test_each_does_what_it_says(tail: float) -> None:
    arrays = batches(7, tail)
    everything = np.concatenate([a.reshape(-1) for a in arrays])
    peaks = [float(np.abs(a).max()) for a in arrays]
    assert chosen("minmax", arrays) == fitting_exponent(max(peaks))
    first = fitting_exponent(max(peaks))
    errors = {e: squared_error(everything, e) for e in range(first, first - 5, -1)}
    assert chosen("mse", arrays) == min(errors, key=lambda e: errors[e])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0.0, 2.0**-90, -1e-30, 3e38])
def test_constants_are_exact_or_at_the_edge(name: ObserverName, value: float) -> None:
    array = np.full((2, 3), value, np.float32)
    exponent = chosen(name, [array, array])
    assert exponent == fitting_exponent(abs(float(array[0, 0])))


def of_all(
    values: NDArray[np.float32],
    exponent: int,
    point: int,
    function: SumFunction,
    alike: float = 1.0,
    bits: int = 8,
) -> float:
    """Return the squared error after a function, with a weight for clipped elements."""
    steps = np.rint(values * 2.0**-exponent) + point
    stored = np.clip(steps, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    read = function((stored - point) * 2.0**exponent) - function(values.astype(np.float64))
    return float((np.square(read) * np.where(stored == steps, 1.0, alike)).sum())


def swish(x: Sums) -> Sums:
    return x / (1 + np.exp(-x))


@pytest.mark.parametrize("alike", [1.0, 6.5])
@pytest.mark.parametrize("function", [identity, swish])
@pytest.mark.parametrize(("low", "high"), [(0.0, 6.9), (-0.28, 13.0), (-9.0, 5.5), (-7.0, 7.0)])
def test_errors_of_all_zero_points_are_those_of_all_elements(
    function: SumFunction, low: float, high: float, alike: float
) -> None:
    random = np.random.default_rng(5)
    drawn = [random.triangular(low, min(0.1, high), high, 3000) for _ in range(4)]
    # The first array is smaller, so bins are merged for the following arrays.
    arrays = [(size * a).astype(np.float32) for a, size in zip(drawn, (0.1, 1, 1, 1), strict=True)]
    observer = LeastSquaresObserver()
    observer.functions, observer.clipping_weight = (function,), alike
    for array in arrays:
        observer.observe(ObservedArray(array))
    everything = np.concatenate(arrays)
    first = fitting_exponent(float(np.abs(everything).max()))
    exact = {
        (e, z): of_all(everything, e, z, function, alike)
        for e in range(first, first - 4, -1)
        for z in range(-128, 128, 8)
    }
    for (e, z), error in exact.items():
        found = observer.distribution.errors([e], (function,), alike)[e][z + 128]
        assert found == pytest.approx(error, rel=0.06, abs=1e-3 * everything.size * 4.0**e)
    pair = observer.choice().affine or (observer.choice().exponent, 0)
    assert of_all(everything, *pair, function, alike) <= 1.05 * min(exact.values())


@pytest.mark.parametrize("bits", range(2, 8))
@pytest.mark.parametrize(("low", "high"), [(0.0, 6.9), (-0.28, 13.0), (-9.0, 5.5), (-7.0, 7.0)])
def test_values_of_few_bits_have_the_least_error(bits: int, low: float, high: float) -> None:
    random = np.random.default_rng(bits)
    array = random.triangular(low, min(0.1, high), high, 20000).astype(np.float32)
    observer = LeastSquaresObserver()
    observer.bits = bits
    observer.observe(ObservedArray(array))
    first, integers = fitting_exponent(max(-low, high), 2 ** (bits - 1) - 1), 2**bits
    exact = {
        (e, z): of_all(array, e, z, identity, bits=bits)
        for e in range(first, first - 5, -1)
        for z in range(-integers // 2, integers // 2)
    }
    found = observer.choice()
    least = min(exact.values())
    plain = min(error for (_, z), error in exact.items() if z == 0)
    assert exact[found.affine or (found.exponent, 0)] <= 1.12 * least
    assert exact[found.exponent, 0] <= 1.05 * plain
    assert (found.affine is not None) == (least < 0.9 * plain)
    extremes = make_observer("minmax")
    extremes.bits = bits
    extremes.observe(ObservedArray(array))
    assert extremes.choice().exponent in (first, first - 1)


def test_what_lies_on_the_steps_is_exact() -> None:
    observer = LeastSquaresObserver()
    observer.observe(ObservedArray(np.arange(256, dtype=np.float32)))
    assert observer.choice().affine == (0, -128)
    assert observer.distribution.errors([0], (identity,))[0][0] == 0


def test_no_zero_point_where_it_gains_little() -> None:
    observer = LeastSquaresObserver()
    observer.observe(ObservedArray(np.linspace(-7.9, 7.9, 5001, dtype=np.float32)))
    assert observer.choice().affine is None


def test_each_kind_of_channels_is_judged_behind_its_function() -> None:
    """The second function is flat, so its channels need no range there."""
    x = np.random.default_rng(2).uniform(-8, 0, (500, 2)).astype(np.float32)
    x[:, 0] *= -7 / 8
    observer = LeastSquaresObserver()
    observer.functions = (identity, lambda x: np.maximum(x, -0.5))
    observer.observe(ObservedArray(x, None, np.array([0, 1], np.int64)))
    step, point = observer.choice().affine or (0, 0)
    assert step == -5 and -112 <= point <= -97
    observer.functions = (identity, identity)
    assert observer.choice().affine is None


SWISH = """
func.func @main(%x: tensor<1x999xf32> {graph.name = "x"}) -> tensor<1x999xf32> {
  %y = graph.unary <swish> %x : tensor<1x999xf32>
  func.return %y : tensor<1x999xf32>
}
"""


def test_the_argument_of_a_function_reaches_as_far_as_the_function_does(tmp_path: Path) -> None:
    """SiLU of -8 is negligible, so int8 need not represent -8."""
    data = np.random.default_rng(0).uniform(-8, 1.8, (40, 1, 999)).astype(np.float32)
    np.savez(tmp_path / "c.npz", x=data)
    module = parse_text(load_context(), SWISH, "text")
    ObserveRangesPass(str(tmp_path / "c.npz")).apply(load_context(), module)
    step, point = affine(main_function(module).body.block.args[0]) or (0, 0)
    assert step == -5 and -8 < (-128 - point) * 2.0**step < -4


def test_where_a_function_is_flat_few_samples_may_be_clipped() -> None:
    """No element changes by more than half a step after SiLU, which is flat below -4."""
    x = np.random.default_rng(0).uniform(0, 6, 999).astype(np.float32)
    x[:9] = np.linspace(-8, 9.9, 9)
    observer = LeastSquaresObserver()
    observer.functions = (swish,)
    observer.observe(ObservedArray(x))
    step, point = observer.choice(clips=False).affine or (0, 0)
    low, high = (-128 - point) * 2.0**step, (127 - point) * 2.0**step
    assert step == -4 and high >= 9.9 - 2.0**-5
    assert -8 < low < -3 and np.ptp(swish(np.array([low, -8.0]))) <= 1.1 * 2.0**-5


@pytest.mark.parametrize(
    ("shape", "clips"), [("1x1x6400", True), ("1x80x80", False), ("6400", True)]
)
def test_a_map_is_clipped_less_than_a_vector(tmp_path: Path, shape: str, clips: bool) -> None:
    """Clipping errors of neighbors add up in a feature map, but not in a vector."""
    text = RELU.replace("1x999", shape)
    data = np.random.default_rng(0).normal(0, 1, (16, *map(int, shape.split("x"))))
    data.reshape(16, -1)[3, :4] = 40
    np.savez(tmp_path / "c.npz", x=data.astype(np.float32))
    module = parse_text(load_context(), text, "text")
    ObserveRangesPass(str(tmp_path / "c.npz")).apply(load_context(), module)
    result = next(iter(main_function(module).body.block.ops)).results[0]
    assert (exponent(result) != fitting_exponent(40)) is clips


RELU = """
func.func @main(%x: tensor<1x999xf32> {graph.name = "x"}) -> tensor<1x999xf32> {
  %y = graph.unary <relu> %x : tensor<1x999xf32>
  func.return %y : tensor<1x999xf32>
}
"""


@pytest.mark.parametrize(("count", "same_as"), [(15, "minmax"), (16, "mse")])
def test_few_samples_are_not_clipped(count: int, same_as: ObserverName, tmp_path: Path) -> None:
    """The values of a file are clipped by default, but not with few samples."""
    data = np.random.default_rng(0).normal(0, 1, (count, 1, 999)).astype(np.float32)
    data[3, 0, 7] = 40
    np.savez(tmp_path / "c.npz", x=data)

    def found(name: ObserverName) -> int | None:
        module = parse_text(load_context(), RELU, "text")
        ObserveRangesPass(str(tmp_path / "c.npz"), observer=name).apply(load_context(), module)
        return exponent(next(iter(main_function(module).body.block.ops)).results[0])

    assert found("mse") != found("minmax")
    assert found("auto") == found(same_as)


ATTENTION = """
func.func @main(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %w = graph.constant dense<1.0> : tensor<64x64xf32> : tensor<64x64xf32>
  %c = graph.constant dense<0.25> : tensor<f32> : tensor<f32>
  %0 = graph.unary <abs> %x : tensor<1x64xf32>
  %1 = graph.reshape %0 : (tensor<1x64xf32>) -> tensor<64xf32>
  %2 = graph.binary mul %1, %c : (tensor<64xf32>, tensor<f32>) -> tensor<64xf32>
  %3 = graph.softmax %2 {axis = 0 : i64} : tensor<64xf32>
  %4 = graph.reshape %3 : (tensor<64xf32>) -> tensor<1x64xf32>
  %5 = graph.matmul %4, %w : (tensor<1x64xf32>, tensor<64x64xf32>) -> tensor<1x64xf32>
  func.return %5 : tensor<1x64xf32>
}
"""


@pytest.mark.parametrize(("observer", "clips"), [("auto", False), ("mse", True), ("minmax", False)])
def test_rare_scores_of_a_softmax_are_kept(tmp_path: Path, observer: ObserverName, clips: bool):
    """A score of 2,560 is ten times as large as the rest, and least squares would clip it."""
    x = np.random.default_rng(0).uniform(0.5, 1, (40, 64)).astype(np.float32)
    x[7, 5] = 9.5
    save_arrays(str(tmp_path / "data.npz"), {"input0": x})
    module = parse_text(load_context(), ATTENTION, "attention.mlir")
    ObserveRangesPass(str(tmp_path / "data.npz"), observer=observer).apply(load_context(), module)
    scores = [op.result for op in module.walk() if isinstance(op, UnaryOp | BinaryOp | SoftmaxOp)]
    found = {(exponent(v) or 0) < fitting_exponent((interval(v) or (0, 0))[1]) for v in scores}
    assert (True in found) is clips


Errors = NDArray[np.float64]


def test_a_sum_of_errors_may_come_out_below_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimated sum of a few small errors may be negative."""

    def errors(
        self: Distribution, exponents: range, functions: object, clipped: float, points: Points
    ) -> dict[int, Errors]:
        found = {e: np.full(points.size, 1e5) for e in exponents}
        found[0][0] = -1.75
        return found

    monkeypatch.setattr(Distribution, "errors", errors)
    observer = LeastSquaresObserver()
    observer.observe(ObservedArray(np.array([4.5, 255], np.float32)))
    assert observer.choice().affine == (0, -128)


@pytest.mark.parametrize("shape", [(5,), (1, 3, 7, 6), (1, 41, 50, 40), (1, 1, 1, 5000)])
@pytest.mark.parametrize("kind", ["none", "one", "channels"])
def test_parts_are_those_of_the_whole(shape: tuple[int, ...], kind: str) -> None:
    random = np.random.default_rng(len(shape))
    array = random.normal(size=shape).astype(np.float32)
    bounds = {
        "none": None,
        "one": Bounds(np.array(-0.5, np.float32), np.array(np.inf, np.float32)),
        "channels": Bounds(
            *(sign * random.uniform(0.1, 2, shape[-1]).astype(np.float32) for sign in (-1, 1))
        ),
    }[kind]
    seen = ObservedArray(array, bounds)
    whole = array if bounds is None else np.clip(array, bounds.low, bounds.high)
    assert seen.clipped.tobytes() == whole.tobytes()
    assert seen.extremes == (whole.min(), whole.max())
    assert seen.channel_peaks.tolist() == np.abs(whole).reshape(-1, shape[-1]).max(axis=0).tolist()
    for count in (3, 1000, 1 << 16):
        assert seen.sampled(count).tobytes() == ObservedArray(whole).sampled(count).tobytes()
        kinds = np.arange(shape[-1]) % 3
        of_all = np.broadcast_to(kinds, shape).astype(np.float32)
        found = ObservedArray(array, bounds, kinds).sampled_kinds(count)
        expected = ObservedArray(of_all).sampled(count)
        assert found is not None
        assert np.resize(found, expected.size).tolist() == expected.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_does_not_matter_must_be_finite_too(bad: float) -> None:
    bounds = Bounds(np.full(4, -1, np.float32), np.full(4, 1, np.float32))
    array = np.ones((6, 4), np.float32)
    assert ObservedArray(array, bounds).is_finite
    array[2, 3] = bad
    assert not ObservedArray(array, bounds).is_finite
    assert not ObservedArray(array).is_finite
