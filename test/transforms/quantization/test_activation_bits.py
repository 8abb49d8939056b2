"""Quantize networks with activations of 2 to 7 bits, which each target computes exactly."""

import re
from pathlib import Path

import pytest
from few_bits import CALIBRATION, MODEL, digits, expect_exact_layers
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.verify.tool import main as verify_main
from ceras_ir.frontends.onnx import import_file
from ceras_ir.network.function import main_function
from ceras_ir.network.storage import Storage, common_storage, fitting_value_exponent, set_width
from ceras_ir.support.diagnostics import node_name

CALIBRATED = [MODEL, "--calibrate", CALIBRATION]

WIDTHS = range(2, 8)


def stored(module: ModuleOp) -> dict[str, tuple[int, int]]:
    """Return the bits and the zero point of each computed value by name and operation."""
    found: dict[str, tuple[int, int]] = {}
    for op in main_function(module).body.block.ops:
        if not isinstance(op, graph.GraphOperation) or isinstance(op, graph.ConstantOp):
            continue
        if (element := graph.quantized_element(op.output)) is not None:
            found[f"{node_name(op)} {op.name}"] = element.width, element.zero_point
    return found


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("target", ["c", "dataflow"])
def test_inner_values_have_the_bits(bits: int, target: str) -> None:
    found = stored(digits(f"target={target} activation_bits={bits}"))
    # Values that are never negative use all integers, as unsigned integers would.
    assert found["stem/conv/Conv graph.conv2d"] == (bits, -(2 ** (bits - 1)))
    assert found["residual/branch/conv/Conv graph.conv2d"][0] == bits
    # Operands and results of tables, and the operand and result of the last layer, have 8 bits.
    others = ("wide/conv/Conv graph.conv2d", "wide/conv/Conv graph.lookup", "linear/Gemm")
    for name in (*others, "mean/GlobalAveragePool", "image"):
        known = [width for text, (width, _) in found.items() if text.startswith(name)]
        assert known and min(known) >= 8, name


def test_named_values() -> None:
    found = stored(digits('target=c activation_bits=5,"3:stem*","7:mean*","6:image"'))
    assert found["stem/conv/Conv graph.conv2d"][0] == 3
    assert found["residual/branch/conv/Conv graph.conv2d"][0] == 5
    assert found["mean/GlobalAveragePool graph.pool2d"][0] == 7
    assert found["image graph.quantize"][0] == 6


def test_16_bits_and_floats_replace_few_bits() -> None:
    found = stored(digits("target=c activation_bits=4 int16=stem*"))
    assert found["stem/conv/Conv graph.conv2d"] == (16, 0)
    found = stored(digits("target=c activation_bits=4 float=residual*"))
    assert "residual/branch/conv/Conv graph.conv2d" not in found


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", first_fast(3, range(12)))
def test_random_networks(seed: int) -> None:
    """Results agree with exact fractions, so that scales and zero points match the bits."""
    expect_exact_layers(seed, f'target=c activation_bits="{2 + seed % 6}"')


@pytest.mark.parametrize("target", ["c", "nnet"])
def test_targets_are_exact(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = [*CALIBRATED, "--floor=-99", "--activation-bits", "4:*", "--targets", target]
    assert verify_main(model) == 0
    assert f"{target}: machine" in (text := capsys.readouterr().out) and "exact" in text


def test_targets_of_bytes_widen(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = ["-o", str(tmp_path / "out"), "--target", "nnet"]
    assert compile_main([*CALIBRATED, "--activation-bits", "5", *out]) == 0
    pattern = r"note: \d activations of 5 bits in int8: target nnet stores activations in 8 bits"
    assert re.search(pattern, capfd.readouterr().err)
    assert ' "bits": 5' not in (tmp_path / "out" / "report.json").read_text()


def test_averages_of_few_bits_are_in_the_circuit(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = ["-o", str(tmp_path / "out"), "--target", "dataflow"]
    assert compile_main([*CALIBRATED, "--activation-bits", "4", *out]) == 0
    assert re.search(r"pool2d average +dataflow", capfd.readouterr().out)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("9", "expected 2 to 8 bits, as BITS or BITS:LAYER, got '9'"),
        ("4:stam/conv/Conv", "did you mean 'stem/conv/Conv'?"),
        ("4:wide*", "the result of 'wide*' remains in 8 bits or in float"),
    ],
)
def test_refused_entries(
    given: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = ["-o", str(tmp_path / "out"), "--target", "dataflow"]
    assert compile_main([*CALIBRATED, "--activation-bits", given, *out]) == 2
    assert message in " ".join(capfd.readouterr().err.split())


def test_storage_of_few_bits() -> None:
    (value,) = main_function(import_file(MODEL)).body.block.args
    for bits, exponent in ((8, -6), (5, -3), (2, 1), (16, -13)):
        set_width(value, bits)
        assert fitting_value_exponent(value, (0.0, 1.5)) == exponent
    narrow = Storage(-3, 4, -8), Storage(-2, 4, -4)
    assert common_storage(list(narrow), 4) == Storage(-2, 4, -4)
    assert Storage(-3, 4, -8).symmetric_exponent == -2
    assert Storage(-3, 4, -3).symmetric_exponent == -3
