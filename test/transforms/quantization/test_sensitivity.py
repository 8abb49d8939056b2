"""Compare the estimated noise of a value at the outputs with the measured noise."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.interpreters.float_functions import for_statistics
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import input_names, main_function
from ceras_ir.network.storage import keep_in_float
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text, read_network
from ceras_ir.transforms.graph.fuse import FusePass, SplitActivationRule
from ceras_ir.transforms.quantization.analysis.sensitivity import SensitivityMeter, noise_at_outputs
from ceras_ir.transforms.quantization.keep_in_float import TailRule

Array = NDArray[np.generic]
Sample = Mapping[str, NDArray[np.float32]]

SHARED = Path(__file__).parents[4] / "shared"
RESNET8 = SHARED / "models" / "resnet8_float.onnx"

MADE = """
!map = tensor<1x8x8x6xf32>
!half = tensor<1x4x4x6xf32>
func.func @main(%x: tensor<1x8x8x3xf32>) -> (tensor<1x4x4x8xf32>, tensor<1x6xf32>) {
  %w0 = graph.constant dense<"W0"> : tensor<6x3x3x3xf32> : tensor<6x3x3x3xf32>
  %w1 = graph.constant dense<"W1"> : tensor<6x3x3x1xf32> : tensor<6x3x3x1xf32>
  %w2 = graph.constant dense<"W2"> : tensor<8x1x1x6xf32> : tensor<8x1x1x6xf32>
  %w3 = graph.constant dense<"W3"> : tensor<6x6xf32> : tensor<6x6xf32>
  %0 = graph.conv2d %x, %w0 {padding = array<i64: 1, 1, 1, 1>}
      : (tensor<1x8x8x3xf32>, tensor<6x3x3x3xf32>) -> !map
  %1 = graph.unary <swish> %0 : !map
  %2 = graph.conv2d %1, %w1 {padding = array<i64: 1, 1, 1, 1>, groups = 6 : i64,
      activation = #graph.function<relu>} : (!map, tensor<6x3x3x1xf32>) -> !map
  %3 = graph.binary add %1, %2 : (!map, !map) -> !map
  %4 = graph.pool2d max %3 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (!map) -> !half
  %5 = graph.conv2d %4, %w2 : (!half, tensor<8x1x1x6xf32>) -> tensor<1x4x4x8xf32>
  %6 = graph.pool2d average %4 {kernel = array<i64: 4, 4>} : (!half) -> tensor<1x1x1x6xf32>
  %7 = graph.reshape %6 : (tensor<1x1x1x6xf32>) -> tensor<1x6xf32>
  %8 = graph.matmul %7, %w3 : (tensor<1x6xf32>, tensor<6x6xf32>) -> tensor<1x6xf32>
  %9 = graph.unary <sigmoid> %5 : tensor<1x4x4x8xf32>
  func.return %9, %8 : tensor<1x4x4x8xf32>, tensor<1x6xf32>
}
"""


def made() -> ModuleOp:
    random, text = np.random.default_rng(2), MADE
    for name, count in (("W0", 162), ("W1", 54), ("W2", 48), ("W3", 36)):
        data = random.normal(0, 0.4, count).astype("<f4").tobytes().hex().upper()
        text = text.replace(f'dense<"{name}">', f'dense<"0x{data}">')
    return parse_text(load_context(), text, "made.mlir")


def evaluated(
    module: ModuleOp, sample: Sample, forced: Mapping[SSAValue, Array]
) -> dict[SSAValue, Array]:
    """Return all values, with the values in `forced` replaced."""
    main, interpreter = main_function(module), interpreter_of(module)
    known: dict[SSAValue, Array] = dict(forced)
    for name, argument in zip(input_names(main), main.body.block.args, strict=True):
        known.setdefault(argument, sample[name])
    for op in main.body.block.ops:
        if op.results and op.results[0] not in forced:
            known[op.results[0]] = interpreter.run_op(op, tuple(known[v] for v in op.operands))[0]
    return known


def rounded(array: Array, bits: int = 8) -> NDArray[np.float32]:
    """Round to steps with which the maximum element is just representable."""
    real = array.astype(np.float32)
    step = 2.0 ** (np.ceil(np.log2(np.abs(real).max())) - bits + 1)
    return (np.rint(real / step) * step).astype(np.float32)


def measured(
    meter: SensitivityMeter, module: ModuleOp, samples: Sequence[Sample], value: SSAValue
) -> float:
    """Return the noise-to-signal ratio at the outputs if a single value is rounded."""
    known = [evaluated(module, sample, {}) for sample in samples]
    moved = [
        evaluated(module, sample, {value: rounded(exact[value])})
        for sample, exact in zip(samples, known, strict=True)
    ]
    shares = list[float]()
    for end in meter.outputs:
        real, noisy = (
            np.stack([each[end] for each in of]).astype(np.float64) for of in (known, moved)
        )
        noise = np.square(noisy - real).sum() / len(samples)
        shares.append(noise / real.var(axis=0, ddof=1).sum())
    return sum(shares) / len(shares)


@pytest.mark.parametrize("name", ["made", pytest.param("resnet8", marks=pytest.mark.slow)])
def test_noise_of_one_value(name: str) -> None:
    """The estimate from a backward pass per sample is within a factor of two."""
    if name == "resnet8" and not RESNET8.exists():
        pytest.skip("needs ../shared")
    module = made() if name == "made" else read_network(str(RESNET8))
    for step in (FusePass(), SplitActivationRule(), TailRule()):
        step.apply(load_context(), module)
    main, random = main_function(module), np.random.default_rng(3)
    (argument,) = main.body.block.args
    if name == "made":
        data = random.uniform(0, 1, (16, *graph.shape_of(argument)))
    else:
        data = np.load(SHARED / "data" / "cifar10.npz")["images"][:12, None]
    samples: list[Sample] = [{input_names(main)[0]: x} for x in data.astype(np.float32)]
    meter = SensitivityMeter(module, samples)
    predicted: dict[SSAValue, float] = {}
    for sample in samples:
        for value, known, weights in meter.weigh(sample):
            error = rounded(known[value]) - known[value].astype(np.float32)
            noise = noise_at_outputs(weights, error) / len(samples)
            predicted[value] = predicted.get(value, 0.0) + noise
    assert len(predicted) >= 10
    ratios = {
        str(value): noise / measured(meter, module, samples, value)
        for value, noise in predicted.items()
    }
    print(ratios)
    assert all(0.5 < ratio < 2 for ratio in ratios.values())


def test_neighbours_that_are_rounded_alike() -> None:
    """In a plain image errors of a channel are the same everywhere, and add up."""
    module = made()
    TailRule().apply(load_context(), module)
    main = main_function(module)
    value = next(op for op in main.body.block.ops if isinstance(op, graph.Conv2dOp)).results[0]
    plain = np.full((1, 8, 8, 3), (0.3, 0.7, 0.45), np.float32)
    sample, other = {"input0": plain}, {"input0": plain * np.float32(0.5)}
    together, apart = 0.0, 0.0
    for seed in range(32):
        for v, known, weights in SensitivityMeter(module, [sample, other], seed).weigh(sample):
            if v is value:
                error = rounded(known[v], 6) - known[v].astype(np.float32)
                together += noise_at_outputs(weights, error) / 32
                apart += float(np.square(weights * error).sum()) / 32
    noise = SensitivityMeter(module, [sample, other]).measure(
        [sample], lambda v, array: rounded(array, 6) if v is value else array
    )
    assert 0.5 < together / noise < 2
    assert apart < noise / 2


def test_noise_of_one_value_is_measured() -> None:
    """The measured noise equals that of a separate computation."""
    module = made()
    data = np.random.default_rng(3).uniform(0, 1, (3, 1, 8, 8, 3)).astype(np.float32)
    samples: list[Sample] = [{"input0": x} for x in data]
    meter, main = SensitivityMeter(module, samples), main_function(module)
    value = next(op for op in main.body.block.ops if isinstance(op, graph.UnaryOp)).results[0]
    noise = meter.measure(samples, lambda v, array: rounded(array) if v is value else array)
    with for_statistics():
        assert noise == pytest.approx(measured(meter, module, samples, value))
    assert meter.measure(samples, lambda _, array: array) == 0


def test_ends_are_where_integers_end() -> None:
    """Results of float operations after integers have another scale, and do not count."""
    module = made()
    for expected in (graph.UnaryOp, graph.Conv2dOp):
        owners = [end.owner for end in SensitivityMeter(module, []).outputs]
        assert len(owners) == 2
        assert {type(owner) for owner in owners} == {expected, graph.MatmulOp}
        TailRule().apply(load_context(), module)


DETAILS = """
func.func @main(%x: tensor<1x2xf32>, %base: tensor<2x1xf32>) -> tensor<2x1xf32> {
  %w = graph.constant dense<[[0.5, -0.25], [0.7, 0.4]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = graph.reshape %0 : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %2 = graph.binary add %base, %1 : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  func.return %2 : tensor<2x1xf32>
}
"""


def test_noise_of_details_is_a_share_of_the_sum() -> None:
    """Noise of small details that are added to a large image counts relative to the sum."""
    module = parse_text(load_context(), DETAILS, "details.mlir")
    total = next(
        op for op in main_function(module).body.block.ops if isinstance(op, graph.BinaryOp)
    )
    keep_in_float(total, "the sum of the test")
    random = np.random.default_rng(5)
    samples: list[Sample] = [
        {
            "input0": random.uniform(-1, 1, (1, 2)).astype(np.float32),
            "input1": random.uniform(-8, 8, (2, 1)).astype(np.float32),
        }
        for _ in range(4)
    ]
    meter = SensitivityMeter(module, samples)
    assert meter.outputs == [total.result]
    product = total.rhs

    def rounded(value: SSAValue, array: Array) -> Array:
        return array.astype(np.float32) + np.float32(0.5) if value is product else array

    share = meter.measure(samples, rounded)
    sums = np.stack([exact[total.result] for _, exact in meter.exact]).astype(np.float64)
    assert share == pytest.approx(0.25 / sums.var(axis=0, ddof=1).mean())


LAYERS = """
!steps = tensor<3x1x2xf32>
func.func @main(%x: !steps, %h: tensor<1x2xf32>) -> (tensor<3x2xf32>, !steps) {
  %w = graph.constant dense<[[0.5, -0.25], [0.75, 0.5]]> : tensor<2x2xf32> : tensor<2x2xf32>
  %0 = graph.reshape %x : (!steps) -> tensor<3x2xf32>
  %1 = graph.matmul %0, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %2 = graph.reshape %1 : (tensor<3x2xf32>) -> !steps
  %3 = graph.recurrence rnn %2, %w, %h {functions = [#graph.function<tanh>]}
      : (!steps, tensor<2x2xf32>, tensor<1x2xf32>) -> !steps
  %4 = graph.reshape %3 : (!steps) -> tensor<3x2xf32>
  %5 = graph.matmul %4, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  func.return %5, %3 : tensor<3x2xf32>, !steps
}
"""


def test_floats_before_integers_are_no_ends() -> None:
    """The operand of a recurrent layer is no output; the result for the caller is."""
    module = parse_text(load_context(), LAYERS, "layers.mlir")
    owners = [end.owner for end in SensitivityMeter(module, []).outputs]
    assert [type(owner) for owner in owners] == [graph.RecurrenceOp, graph.MatmulOp]


def test_a_single_sample_has_no_ratio() -> None:
    """The weights are then relative to the power, and the measured ratio is not available."""
    text = """
    func.func @main(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
      %w = graph.constant dense<[[0.5, -0.25], [0.7, 0.4]]> : tensor<2x2xf32> : tensor<2x2xf32>
      %0 = graph.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
      func.return %0 : tensor<3x2xf32>
    }"""
    sample = {"input0": np.full((3, 2), 0.7, np.float32)}
    meter = SensitivityMeter(parse_text(load_context(), text, "rows.mlir"), [sample])
    assert not meter.varies and np.isnan(meter.measure([sample], lambda _, array: array))
    for value, known, weights in meter.weigh(sample):
        error = rounded(known[value]) - known[value].astype(np.float32)
        assert 0 < np.square(weights * error).sum() < 1e-3


def test_an_end_without_a_signal_says_nothing() -> None:
    """For a layer of zeros, as in untrained heads, no error is relative to the signal."""
    text = """
    func.func @main(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
      %w = graph.constant dense<[[0.5, -0.25], [0.7, 0.4]]> : tensor<2x2xf32> : tensor<2x2xf32>
      %z = graph.constant dense<0.0> : tensor<2x2xf32> : tensor<2x2xf32>
      %0 = graph.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
      %1 = graph.matmul %x, %z : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
      func.return %0, %1 : tensor<3x2xf32>, tensor<3x2xf32>
    }"""
    sample = {"input0": np.array([[1.0, 2.0], [-0.5, 0.25], [0.75, -1.0]], np.float32)}
    other = {"input0": -sample["input0"]}
    meter = SensitivityMeter(parse_text(load_context(), text, "zeros.mlir"), [sample, other])
    found = {value: weights for value, _, weights in meter.weigh(sample)}
    assert not found[meter.outputs[1]].any() and found[meter.outputs[0]].all()

    def moved(value: SSAValue, array: Array) -> Array:
        return np.ones((3, 2), np.float32) if value is meter.outputs[1] else array

    assert meter.measure([sample], moved) == 0


def test_what_rounding_makes_no_number_is_infinite_noise() -> None:
    """A quotient of values that round to zero is NaN."""
    text = """
    func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %c = graph.constant dense<[[0.5, -0.25], [0.7, 0.4]]> : tensor<2x2xf32> : tensor<2x2xf32>
      %0 = graph.matmul %x, %c : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      func.return %0 : tensor<2x2xf32>
    }"""
    sample = {"input0": np.array([[1.0, 2.0], [-0.5, 0.25]], np.float32)}
    other = {"input0": -sample["input0"]}
    meter = SensitivityMeter(parse_text(load_context(), text, "product.mlir"), [sample, other])
    assert meter.measure([sample], lambda _, array: np.full_like(array, np.nan)) == np.inf


def test_noise_of_all_samples_is_over_the_signal_of_all() -> None:
    """A probability near zero, as of silence, does not make a network look broken."""
    text = """
    func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
      %w = graph.constant dense<[[1.0, 1.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
      %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
      func.return %0 : tensor<1x1xf32>
    }"""
    rows = [[2.0, 2.0], [0.5, -0.5], [0.5, -0.375]]
    samples = [{"input0": np.array([row], np.float32)} for row in rows]
    meter = SensitivityMeter(parse_text(load_context(), text, "sum.mlir"), samples)
    off = meter.measure(
        samples, lambda v, a: a.astype(np.float32) + np.float32(0.5) if v in meter.outputs else a
    )
    assert off == pytest.approx(0.25 / np.var([4, 0, 0.125], ddof=1))
