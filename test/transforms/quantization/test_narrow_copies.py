"""Copies in 8 bits for products, of values that others read in 16."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.target import CTarget
from ceras_ir.backends.nnet.target import NnetTarget
from ceras_ir.data.samples import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.driver.differences import signal_to_noise
from ceras_ir.driver.verify.levels import Verification
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.network.precision import NARROW, WIDE, widen, width
from ceras_ir.network.quantizable import is_copy
from ceras_ir.network.ranges import exponent, zero_point
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.options import BuildOptions, PrecisionOptions
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.targets.protocol import Target
from ceras_ir.transforms.quantization.calibrate import CalibratePass
from ceras_ir.transforms.quantization.choose_zero_points import ChooseZeroPointsPass
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization.rewrites.narrow_copies import (
    erase_idle_copies,
    insert_copies,
)

SIZE = 32
STREAM = """
!row = tensor<1x32xf32>
!square = tensor<32x32xf32>
func.func @main(%x: !row, %y: !row) -> (!row, !row) {
  %a = graph.constant dense<A> : !square : !square
  %b = graph.constant dense<B> : !square : !square
  %0 = graph.binary add %x, %y : (!row, !row) -> !row loc("stream")
  %1 = graph.matmul %0, %a : (!row, !square) -> !row loc("first")
  %2 = graph.reshape %0 : (!row) -> tensor<32x1xf32> loc("moved")
  %3 = graph.reshape %2 : (tensor<32x1xf32>) -> !row loc("back")
  %4 = graph.matmul %3, %b : (!row, !square) -> !row loc("second")
  %5 = graph.binary add %0, %1 : (!row, !row) -> !row loc("sum")
  %6 = graph.matmul %5, %b : (!row, !square) -> !row loc("last")
  func.return %6, %4 : !row, !row
}
"""
"""
Two products read the stream, one of them moved, and a sum; one product alone reads the sum. Every
second channel is small and matters as much as the others.
"""


@pytest.fixture
def stream(tmp_path: Path) -> tuple[str, str]:
    """The network, and samples of it."""
    random = np.random.default_rng(0)
    scale = np.where(np.arange(SIZE) % 2, 1.0, 0.03)
    text = STREAM
    for name in "AB":
        weights = random.normal(size=(SIZE, SIZE)) / SIZE / scale
        text = text.replace(f"dense<{name}>", f"dense<{weights.round(4).tolist()}>")
    drawn = random.uniform(0, 1, (2, 40, SIZE)) * scale
    samples = {f"input{i}": array.astype(np.float32) for i, array in enumerate(drawn)}
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


@pytest.mark.parametrize("of_products", [False, True])
def test_accelerators_make_8_bits(stream: tuple[str, str], of_products: bool):
    """The sum and the second product read what the first product makes."""
    text = stream[0].replace("graph.matmul %3, %b", "graph.matmul %1, %b")
    module = parse_text(load_context(), text, "stream.mlir")
    CalibratePass(stream[1], observer="minmax").apply(load_context(), module)
    copied = insert_copies(main_function(module), of_products=of_products)
    assert any(isinstance(value.owner, graph.MatmulOp) for value in copied) is of_products


def quantized(stream: tuple[str, str], budget: float) -> ModuleOp:
    module = parse_text(load_context(), stream[0], "stream.mlir")
    options = QuantizePass(stream[1], recipe=("choose-precision",), budget=budget)
    options.apply(load_context(), module)
    return module


def test_the_stream_is_finer_and_products_read_bytes(stream: tuple[str, str]):
    data = dict(np.load(stream[1]))
    singles = [{name: array[i : i + 1] for name, array in data.items()} for i in range(40)]
    plain, finer = quantized(stream, 0.0), quantized(stream, 0.3)
    read = [op.input for op in finer.walk() if isinstance(op, graph.MatmulOp)]
    assert {graph.stored_element(value).storage.width.data for value in read} == {NARROW}
    assert sum(isinstance(op, graph.RequantizeOp) for op in finer.walk()) == 1
    real = parse_text(load_context(), stream[0], "stream.mlir")
    expected, *found = (
        [array for sample in singles for array in run(module, sample).values()]
        for module in (real, plain, finer)
    )
    before, after = (signal_to_noise(each, expected) for each in found)
    assert after > before + 1


@pytest.mark.parametrize("target", [CTarget(), NnetTarget()], ids=str)
def test_targets_are_exact(stream: tuple[str, str], target: Target):
    module = parse_text(load_context(), stream[0], "stream.mlir")
    precision = PrecisionOptions(budget=2.0)
    options = BuildOptions(target, quantize="int8", calibrate=stream[1], precision=precision)
    verdicts = list(Verification(module, options, None, 2).run([target]))
    assert [v.text for v in verdicts if not v.good] == []
