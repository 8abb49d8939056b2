"""Check the 8-bit copies of 16-bit values, which products use."""

from pathlib import Path

import numpy as np
import pytest
from noise_by_hand import ratio_by_hand
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.driver.verify.levels import LevelComparison
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import is_copy, main_function
from ceras_ir.network.storage import NARROW, WIDE, exponent, widen, width, zero_point
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.quantization.quantize import CalibratePass, QuantizePass
from ceras_ir.transforms.quantization.scales import ChooseZeroPointsPass
from ceras_ir.transforms.quantization.set_precision import (
    erase_idle_copies,
    insert_copies,
)

SIZE = 32
STREAM = """
!row = tensor<1x32xf32>
!square = tensor<32x32xf32>
func.func @main(%x: !row) -> !row {
  %i = graph.constant dense<I> : !square : !square
  %a = graph.constant dense<A> : !square : !square
  %b = graph.constant dense<B> : !square : !square
  %0 = graph.matmul %x, %i : (!row, !square) -> !row loc("stream")
  %1 = graph.matmul %0, %a : (!row, !square) -> !row loc("first")
  %2 = graph.reshape %0 : (!row) -> tensor<32x1xf32> loc("moved")
  %3 = graph.reshape %2 : (tensor<32x1xf32>) -> !row loc("back")
  %4 = graph.matmul %3, %a : (!row, !square) -> !row loc("second")
  %5 = graph.binary add %0, %1 : (!row, !row) -> !row loc("sum")
  %6 = graph.binary add %5, %4 : (!row, !row) -> !row loc("total")
  %7 = graph.matmul %6, %b : (!row, !square) -> !row loc("last")
  func.return %7 : !row
}
"""
"""
Two products and a sum use the stream, one product after data movement.

The even channels are small, and the last layer has large weights for them.
"""


@pytest.fixture
def stream(tmp_path: Path) -> tuple[str, str]:
    """Write the network and samples."""
    random = np.random.default_rng(0)
    scale = np.where(np.arange(SIZE) % 2, 1.0, 0.03)
    factors = {
        "I": np.diag(scale),
        "A": random.normal(size=(SIZE, SIZE)) / SIZE / 100,
        "B": random.normal(size=(SIZE, SIZE)) / SIZE / scale,
    }
    text = STREAM
    for name, weights in factors.items():
        text = text.replace(f"dense<{name}>", f"dense<{weights.round(4).tolist()}>")
    samples = {"input0": random.uniform(0, 1, (40, SIZE)).astype(np.float32)}
    save_arrays(str(tmp_path / "data.npz"), samples)
    return text, str(tmp_path / "data.npz")


def test_products_read_copies(stream: tuple[str, str]):
    module = parse_text(load_context(), stream[0], "stream.mlir")
    CalibratePass(stream[1], observer="minmax").apply(load_context(), module)
    ChooseZeroPointsPass().apply(load_context(), module)
    main = main_function(module)
    (value, copy), *others = insert_copies(main, of_products=True).items()
    assert not others and is_copy(copy)
    read = [use.operation for use in copy.result.uses]
    assert len(read) == 2 and {type(op) for op in read} == {graph.MatmulOp, graph.ReshapeOp}
    for fact in (exponent, zero_point, width):
        assert fact(copy.result) == fact(value)
    assert zero_point(value) != 0
    widen(value)
    erase_idle_copies({value: copy})
    assert copy.parent is not None and (width(value), width(copy.result)) == (WIDE, NARROW)
    widen(copy.result)
    erase_idle_copies({value: copy})
    assert copy.parent is None
    assert len(list(value.uses)) == 3


def test_accelerators_make_8_bits(stream: tuple[str, str]):
    """A product computes the stream."""
    module = parse_text(load_context(), stream[0], "stream.mlir")
    CalibratePass(stream[1], observer="minmax").apply(load_context(), module)
    assert not insert_copies(main_function(module), of_products=False)
    assert insert_copies(main_function(module), of_products=True)


def quantized(stream: tuple[str, str], budget: float) -> ModuleOp:
    module = parse_text(load_context(), stream[0], "stream.mlir")
    options = QuantizePass(stream[1], recipe=("choose-precision",), budget=budget)
    options.apply(load_context(), module)
    return module


def test_the_stream_is_finer_and_products_read_bytes(stream: tuple[str, str]):
    data = dict(np.load(stream[1]))
    singles = [{name: array[i : i + 1] for name, array in data.items()} for i in range(40)]
    plain, finer = quantized(stream, 0.0), quantized(stream, 0.3)
    (copy,) = (op for op in finer.walk() if isinstance(op, graph.RequantizeOp))
    assert {type(use.operation) for use in copy.result.uses} == {graph.MatmulOp, graph.ReshapeOp}
    assert graph.stored_element(copy.input).storage.width.data == WIDE
    assert graph.stored_element(copy.result).storage.width.data == NARROW
    real = parse_text(load_context(), stream[0], "stream.mlir")
    expected, *found = (
        np.stack([next(iter(run(module, sample).values())) for sample in singles])
        for module in (real, plain, finer)
    )
    before, after = (ratio_by_hand(expected, each) for each in found)
    assert after > before + 1


@pytest.mark.parametrize("name", ["c", "nnet"])
def test_targets_are_exact(stream: tuple[str, str], name: str):
    target = find_target(name)()
    module = parse_text(load_context(), stream[0], "stream.mlir")
    options = BuildOptions(target, quantize="int8", calibration=stream[1], budget=2.0)
    verdicts = list(LevelComparison(module, options, None, 2).run([target]))
    assert [v.text for v in verdicts if not v.good] == []


def test_ends_in_8_bits_have_none(tmp_path: Path) -> None:
    """A product and a sum use an input and an output."""
    data = str(tmp_path / "data.npz")
    save_arrays(data, {"input0": np.random.default_rng(0).normal(0, 1, (32, 2))})
    module = parse_text(
        load_context(),
        """
        !row = tensor<1x2xf32>
        func.func @main(%x: !row) -> (!row, !row) {
          %w = graph.constant dense<[[0.3, 0.1], [0.2, 0.7]]> : tensor<2x2xf32> : tensor<2x2xf32>
          %0 = graph.matmul %x, %w : (!row, tensor<2x2xf32>) -> !row
          %1 = graph.binary add %0, %x : (!row, !row) -> !row
          %2 = graph.matmul %1, %w : (!row, tensor<2x2xf32>) -> !row
          %3 = graph.binary add %2, %1 : (!row, !row) -> !row
          func.return %1, %3 : !row, !row
        }
        """,
        "ends.mlir",
    )
    QuantizePass(data, target="c", tail="int8").apply(load_context(), module)
    assert "i16" not in str(module)
