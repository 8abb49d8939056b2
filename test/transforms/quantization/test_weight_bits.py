"""Quantize networks with weights of 2 to 7 bits, which each level and target computes exactly."""

import json
from pathlib import Path

import numpy as np
import pytest
from c_harness import make_network
from few_bits import CALIBRATION, MODEL, digits, expect_exact_layers, integer_layers
from slow_cases import first_fast
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from ceras_ir.backends.c.passes import ChooseEncodingsPass
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.interpreters.network import run
from ceras_ir.network.integer import least_squares_exponents, scales_of_parts, weight_bounds
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.report import layers, table
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.transforms.quantization.round_weights import (
    round_to_nearest,
    round_with_compensation,
)

WIDTHS = range(2, 8)


@pytest.mark.parametrize("bits", WIDTHS)
def test_weights_use_the_range(bits: int) -> None:
    found = integer_layers(digits(f'target=c weight_bits="{bits}:*"'))
    assert len(found) == 4
    for op in found:
        element, array = graph.stored_element(op.weights), graph.known_array(op.weights)
        assert (element.width, np.abs(array).max()) == (bits, 2 ** (bits - 1) - 1)
        # Sums are multiplied, so scales are powers of two only if a residual is added.
        mantissas = np.frexp([scale.data for scale in element.scales])[0]
        assert (mantissas == 0.5).all() == (op.residual is not None)


@pytest.mark.parametrize("target", ["vta", "nnet", "dataflow"])
def test_targets_that_shift_have_powers_of_two(target: str) -> None:
    for op in integer_layers(digits(f'target={target} weight_bits="3:*"')):
        scales = [scale.data for scale in graph.stored_element(op.weights).scales]
        assert (np.frexp(scales)[0] == 0.5).all()


def test_small_layers_remain_in_8_bits() -> None:
    sizes = {
        graph.known_array(op.weights).size: graph.stored_element(op.weights).width
        for op in integer_layers(digits("target=c weight_bits=4"))
    }
    assert sizes == {144: 8, 320: 8, 4608: 4, 9216: 4}


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", first_fast(3, range(12)))
def test_random_networks(seed: int) -> None:
    """Results agree with exact fractions, so that multipliers match the scales of weights."""
    expect_exact_layers(seed, f'target=c weight_bits="{2 + seed % 6}:*"')


@pytest.mark.parametrize("bits", first_fast(2, WIDTHS))
def test_targets_are_exact(bits: int, capsys: pytest.CaptureFixture[str]) -> None:
    model = [MODEL, "--calibrate", CALIBRATION, "--floor=-99"]
    assert verify_main([*model, "--weight-bits", f"{bits}:*", "--targets", "c"]) == 0
    assert "c: machine                       exact" in capsys.readouterr().out


def test_report(tmp_path: Path) -> None:
    """The report has bits and bytes as the target stores them."""
    model = [MODEL, "--calibrate", CALIBRATION, "--target", "c"]
    assert compile_main([*model, "--weight-bits", "4", "-o", str(tmp_path / "out")]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    stored = [(e["weight_bits"], e["weight_bytes"]) for e in report["layers"] if "weight_bits" in e]
    assert len(stored) == 4
    assert all(size * 8 >= bits for bits, size in stored)
    assert report["provenance"]["options"]["weight_bits"] == ["4"]
    assert 20 < report["quantization"]["weight_noise_db"] < 60
    entries = [layer.to_json() for layer in layers(digits('target=c weight_bits=4,"2:wide*"'))]
    stored = [(e["weight_bits"], e["weight_bytes"]) for e in entries if "weight_bits" in e]
    assert stored == [(8, 144), (2, 1152), (4, 4608), (8, 320)]
    content: dict[str, object] = {"layers": entries, "totals": {}, "results": {}}
    line = (
        "layers by width of weights: 1 of 2 bits (1,152 bytes), 1 of 4 bits (4,608 bytes), 2 of 8"
    )
    assert line in table(content, "c", None)


def test_floats_remain_without_width() -> None:
    module = digits('target=c weight_bits="4:*" float=wide*')
    assert "graph.weight_bits" not in str(module)


@pytest.mark.parametrize("bits", WIDTHS)
def test_scales_have_the_least_error(bits: int) -> None:
    rows = np.random.default_rng(bits).normal(size=(20, 30)).astype(np.float32)
    least: list[float] = []
    for parts in (1, 8):
        chosen = least_squares_exponents(rows, bits, parts)

        def errors(shift: int, parts: int = parts, chosen: np.ndarray = chosen) -> np.ndarray:
            steps = scales_of_parts(chosen + shift, parts)[:, None]
            rounded = np.clip(np.rint(rows / steps), *weight_bounds(bits)) * steps
            return np.square(rounded - rows).sum(axis=1)

        assert all((errors(0) <= errors(shift)).all() for shift in range(-parts, 1))
        least.append(errors(0).sum())
    assert least[1] < 0.95 * least[0]


def test_compensation_stays_within_the_range() -> None:
    random = np.random.default_rng(0)
    weights, x = random.normal(size=(1, 5, 9)), random.normal(size=(40, 9)) + 2.0
    steps = np.full((1, 5, 1), 0.25)
    pairs = (x.T @ x / len(x))[None]
    rounded = round_with_compensation(weights, pairs, steps, (-7, 7))
    assert np.abs(rounded / 0.25).max() == 7

    def error(made: np.ndarray) -> float:
        return float(np.square((made - weights)[0] @ x.T).sum())

    assert error(rounded) < error(round_to_nearest(weights, steps, 4))


@pytest.mark.parametrize(
    ("bits", "zeros", "is_encoded"), [(8, 0.75, True), (2, 0.5, False), (4, 0.9, True)]
)
def test_sparse_weights(bits: int, zeros: float, is_encoded: bool) -> None:
    """Narrow weights are encoded in bytes only if this needs less memory than packed weights."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-1, 2, (64, 3, 3, 64)).astype(np.int8) | np.int8(1)
    weights[rng.uniform(size=weights.shape) < zeros] = 0
    narrow, byte = UniformType(0.5, storage=IntegerType(bits)), UniformType(1.0)

    def build(value: SSAValue) -> list[SSAValue]:
        constant = graph.ConstantOp.from_array(weights, narrow)
        requant = RequantAttr(8)
        return [graph.Conv2dOp(value, constant.result, result_element=byte, requant=requant).result]

    module = make_network([(byte, (1, 8, 8, 64))], build)
    inputs = {"input0": rng.integers(-128, 128, (1, 8, 8, 64)).astype(np.int8)}
    expected = run(module, inputs)
    ChooseEncodingsPass().apply(load_context(), module)
    verify_module(module)
    (layer,) = integer_layers(module)
    assert (layer.encoded_weights is not None) == is_encoded
    assert graph.stored_element(layer.weights).width == (8 if is_encoded else bits)
    for name, array in run(module, inputs).items():
        np.testing.assert_array_equal(array, expected[name])
