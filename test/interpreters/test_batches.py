"""Compare batches of samples with separate runs of the interpreter, bit for bit."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from graph_networks import Network, random_array, recurrence
from onnx_random import STEPS, random_network
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import element_of, shape_of
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.batches import RULES, Batches
from ceras_ir.interpreters.float_functions import for_statistics
from ceras_ir.interpreters.network import Array, Execution
from ceras_ir.network.function import input_names, main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.graph.fuse import FusePass

Values = dict[SSAValue, Array]

SAMPLES = 5
LIT = Path(__file__).parents[1] / "lit/dialects/graph"
FILES = ["branch", "functions", "loop", "normalization", "operations", "put", "selection", "take"]

TEXT = """
func.func @main(%x: tensor<2x5x6x3xf32>, %v: tensor<3xf32>, %m: tensor<4x8xf32>,
    %k: tensor<7x8xf32>, %b: tensor<7x8xi1>) -> tensor<2x3xf32> {
  %w = graph.constant dense<[[[[0.3, -1.1, 0.7]]], [[[0.2, 0.1, -2.3]]]]> : tensor<2x1x1x3xf32>
      : tensor<2x1x1x3xf32>
  %p = graph.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
      dilations = array<i64: 1, 1>} : (tensor<2x5x6x3xf32>, tensor<2x1x1x3xf32>)
      -> tensor<2x5x6x2xf32>
  %s = graph.binary mul %x, %v : (tensor<2x5x6x3xf32>, tensor<3xf32>) -> tensor<2x5x6x3xf32>
  %t = graph.binary pow %v, %x : (tensor<3xf32>, tensor<2x5x6x3xf32>) -> tensor<2x5x6x3xf32>
  %c = graph.compare less %x, %v : (tensor<2x5x6x3xf32>, tensor<3xf32>) -> tensor<2x5x6x3xi1>
  %d = graph.select %c, %s, %v : (tensor<2x5x6x3xi1>, tensor<2x5x6x3xf32>, tensor<3xf32>)
      -> tensor<2x5x6x3xf32>
  %e = graph.cast %b : (tensor<7x8xi1>) -> tensor<7x8xf32>
  %a = graph.matmul %m, %k : (tensor<4x8xf32>, tensor<7x8xf32>) -> tensor<4x7xf32>
  %q = graph.softmax %a {axis = 1 : i64} : tensor<4x7xf32>
  %r = graph.reduce sum %x {axes = array<i64: 1, 2>} : (tensor<2x5x6x3xf32>) -> tensor<2x3xf32>
  %n = graph.reduce max %x {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x5x6x3xf32>) -> tensor<f32>
  %g = graph.gather %m {axis = 1 : i64, indices = array<i64: 3, 0, 3>}
      : (tensor<4x8xf32>) -> tensor<4x3xf32>
  func.return %r : tensor<2x3xf32>
}
"""


def texts_of_dialect() -> Iterator[str]:
    """Yield the examples of operations, with each public function as the network."""
    for file in FILES:
        text = (LIT / f"{file}.mlir").read_text()
        for name in re.findall(r"^func\.func @(\w+)\(", text, re.MULTILINE):
            others = text if name == "main" else text.replace("@main", "@first")
            yield others.replace(f"@{name}(", "@main(")


def differing(module: ModuleOp, *, statistics: bool) -> tuple[set[type[Operation]], list[str]]:
    """
    Return the classes of operations, and the operations for which a batch gives other results than
    separate runs.
    """
    main, classes = main_function(module), set[type[Operation]]()
    names = input_names(main)
    samples = [
        {
            name: random_array(shape_of(value), element_of(value), 10 * n + seed)
            for n, (name, value) in enumerate(zip(names, main.body.block.args, strict=True))
        }
        for seed in range(SAMPLES)
    ]
    expected: list[Values] = []
    wrong: list[str] = []
    with for_statistics() if statistics else nullcontext(), np.errstate(all="ignore"):
        for sample in samples:
            found: Values = {**dict(zip(main.body.block.args, sample.values(), strict=True))}

            def note(op: Operation, results: tuple[Array, ...], found: Values = found) -> None:
                found.update(zip(op.results, results, strict=True))

            Execution(module).run(sample, note)
            expected.append(found)
        batches = Batches(module)
        for op, value, batch in batches.run(samples):
            if op is None:
                continue
            classes.add(type(op))
            for n, known in enumerate(expected):
                one, other = batch.of(n), known[value]
                if one.dtype != other.dtype or one.shape != other.shape:
                    wrong.append(f"type of {op}")
                elif one.tobytes() != np.ascontiguousarray(other).tobytes():
                    wrong.append(f"sample {n} of {op}")
    return classes, wrong


def recurrent_network(kind: graph.Cell, *, integer: bool, starts: bool, rows: int) -> ModuleOp:
    shape, state = (6, rows, kind.gates * 8), (rows, 8)
    net = Network([(shape, f32), (state, f32), (state, f32)])
    x, h, c = net.inputs
    if not starts:
        h = c = net.constant(np.zeros(state, np.float32))
    cell = c if kind is graph.Cell.LSTM else None
    return net.module(recurrence(net, kind, x, h, cell=cell, integer=integer))


@pytest.mark.parametrize("statistics", [False, True])
def test_operations_have_the_bits_of_separate_runs(statistics: bool) -> None:
    modules = [parse_text(load_context(), text, "n.mlir") for text in (TEXT, *texts_of_dialect())]
    for kind in graph.Cell:
        for rows in (1, 3):
            for starts in (False, True):
                modules.append(recurrent_network(kind, integer=False, starts=starts, rows=rows))
            modules.append(recurrent_network(kind, integer=True, starts=True, rows=rows))
    seen = set[type[Operation]]()
    for module in modules:
        classes, wrong = differing(module, statistics=statistics)
        assert not wrong
        seen |= classes
    assert set(RULES) <= seen


@pytest.mark.parametrize("seed", range(12))
def test_networks_have_the_bits_of_separate_runs(seed: int) -> None:
    module = import_model(random_network(seed, kinds=[*STEPS, "head"]))
    FusePass().apply(load_context(), module)
    assert not differing(module, statistics=True)[1]


def test_operations_before_known_values_are_omitted() -> None:
    module = parse_text(load_context(), TEXT, "n.mlir")
    main = main_function(module)
    samples: list[dict[str, Array]] = [{}, {}]
    for seed, sample in enumerate(samples):
        for name, value in zip(input_names(main), main.body.block.args, strict=True):
            sample[name] = random_array(shape_of(value), element_of(value), seed)
    (reduce,) = (
        op for op in main.body.block.ops if isinstance(op, graph.ReduceOp) and op.result.uses
    )
    known = np.ones((2, 2, 3), np.float32)
    (found,) = (e for op, _, e in Batches(module).run(samples, given={reduce.result: known}) if op)
    np.testing.assert_array_equal(found.array, known)


def test_samples_of_large_values_run_separately() -> None:
    x, s = "%x: tensor<1x512x512x4xf32>", "tensor<1x512x512x4xf32>"
    text = f"func.func @main({x}) -> {s} {{ func.return %x : {s} }}"
    batches = Batches(parse_text(load_context(), text, "n.mlir"))
    samples: list[dict[str, Array]] = [{}, {}, {}]
    assert batches.size == 1
    assert [len(each) for each in batches.divided(samples)] == [1, 1, 1]
