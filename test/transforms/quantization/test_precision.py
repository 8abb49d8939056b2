"""Check layers in 16 bits and in float: random networks, all operations, all targets."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from conftest import Tool
from graph_networks import Network
from numpy.typing import NDArray
from onnx_random import random_network
from quantized_by_hand import trace, wrong_elements
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from ceras_ir.backends.c.target import CTarget
from ceras_ir.data.array_archive import save_arrays
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.driver.verify.levels import LevelComparison
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import input_names, main_function
from ceras_ir.network.storage import PRECISION, WIDE, set_attribute, width
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import node_name
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.accumulators import accumulator_bounds
from ceras_ir.transforms.quantization.analysis.output_noise import output_ratio, stored_noise
from ceras_ir.transforms.quantization.analysis.sensitivity import Sample, SensitivityMeter
from ceras_ir.transforms.quantization.analysis.time_model import ACCELERATOR_HOST, HOST, TimeModel
from ceras_ir.transforms.quantization.choose_precision import ChoosePrecisionPass
from ceras_ir.transforms.quantization.quantize import CalibratePass, QuantizePass

Weighed = tuple[SSAValue, Mapping[SSAValue, NDArray[np.generic]], NDArray[np.float32]]

MOVES = (
    graph.ConstantOp,
    graph.ReshapeOp,
    graph.TransposeOp,
    graph.ConcatOp,
    graph.ResizeOp,
    graph.SliceOp,
    graph.PadOp,
    graph.QuantizeOp,
)


def marked(seed: int) -> ModuleOp:
    """Return a fused random network in which some operations and inputs have more than 8 bits."""
    module = import_model(random_network(seed))
    FusePass().apply(load_context(), module)
    random = np.random.default_rng(seed)
    main = main_function(module)
    for op in main.body.block.ops:
        if isinstance(op, GraphOperation) and not isinstance(op, graph.ConstantOp):
            precision = random.choice(["i8", "i16", "i16", "f32", "f32,i16"])
            if precision != "i8":
                op.attributes[PRECISION] = StringAttr(str(precision))
    for argument in main.body.block.args:
        if random.random() < 0.5:
            set_attribute(argument, PRECISION, StringAttr("i16"))
    return module


@pytest.mark.parametrize("seed", first_fast(6, range(16)))
def test_one_rounding_at_most(seed: int) -> None:
    module = marked(seed)
    QuantizePass(tail="int8").apply(load_context(), module)
    verify_module(module)
    main = main_function(module)
    random = np.random.default_rng(seed)
    for high in (1.0, 300.0, 0.0):
        sample = {
            name: random.uniform(-high, high, graph.shape_of(value)).astype(np.float32)
            for name, value in zip(input_names(main), main.body.block.args, strict=True)
        }
        values = trace(module, sample)
        for op in main.body.block.ops:
            if isinstance(op, GraphOperation) and op.is_quantized and not isinstance(op, MOVES):
                assert list(wrong_elements(op, values, 12, seed)) == []


@pytest.mark.slow
@pytest.mark.needs("nnet", "vta")
@pytest.mark.parametrize("seed", range(4))
def test_targets_are_exact(seed: int) -> None:
    verification = LevelComparison(marked(seed), BuildOptions(CTarget(), quantize="int8"), None, 2)
    verdicts = list(verification.run([find_target(name)() for name in ("c", "nnet", "vta")]))
    assert [v.text for v in verdicts if not v.good] == []
    assert sum(v.text == "exact" for v in verdicts) >= 8


CHAIN = """
!row = tensor<1x4xf32>
!square = tensor<4x4xf32>
func.func @main(%x: !row) -> !row {
  %a = graph.constant dense<[[1.0, 0.5, -0.5, 0.25], [0.5, 1.0, 0.25, 0.5],
                            [0.0, 0.0, SMALL, 0.0], [0.0, 0.0, 0.0, SMALL]]> : !square : !square
  %b = graph.constant dense<[[0.5, 0.5, LARGE, 0.0], [0.25, 0.5, 0.0, LARGE],
                            [0.5, -0.5, LARGE, 0.0], [1.0, 0.5, 0.0, LARGE]]> : !square : !square
  %0 = graph.matmul %x, %a : (!row, !square) -> !row loc("first")
  %1 = graph.matmul %0, %b : (!row, !square) -> !row loc("second")
  %2 = graph.binary add %1, %1 : (!row, !row) -> !row loc("third")
  func.return %2 : !row
}
"""
"""Two channels of the first layer are small and matter much: int8 has few steps for them."""


def chain(folder: Path, small: float, large: float) -> tuple[ModuleOp, str]:
    text = CHAIN.replace("SMALL", str(small)).replace("LARGE", str(large))
    data = folder / "data.npz"
    samples = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
    save_arrays(str(data), {"input0": samples})
    return parse_text(load_context(), text, "chain.mlir"), str(data)


def precisions(module: ModuleOp) -> dict[str, str]:
    found = {node_name(op): op.attributes.get(PRECISION) for op in module.walk()}
    return {name: p.data for name, p in found.items() if isinstance(p, StringAttr)}


def test_the_value_that_int8_hurts_is_found(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    module, data = chain(tmp_path, 0.015625, 64.0)
    CalibratePass(data, observer="minmax").apply(load_context(), module)
    ChoosePrecisionPass(data, budget=0.9, goal=24).apply(load_context(), module)
    # A value with only float consumers has 16 bits too.
    assert precisions(module) == {"first": "i16", "third": "i16"}
    text = capfd.readouterr().err
    assert "values: noise" in text and "first (100% of the noise)" in text


def test_the_rounding_to_16_bits_is_measured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """100130 +- 0.5 has steps of 4 in 16 bits: the output is constant, and the noise is large."""
    text = """
    func.func @main(%x: tensor<1x4xf32>) -> tensor<1x1xf32> {
      %w = graph.constant dense<[[0.25, -0.5, 0.125, 0.25]]> : tensor<1x4xf32> : tensor<1x4xf32>
      %b = graph.constant dense<100130.0> : tensor<1xf32> : tensor<1xf32>
      %0 = graph.matmul %x, %w bias %b : tensor<1xf32>
          : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x1xf32> loc("pressure")
      func.return %0 : tensor<1x1xf32>
    }"""
    module = parse_text(load_context(), text, "offset.mlir")
    samples = np.random.default_rng(0).uniform(-1, 1, (24, 4)).astype(np.float32)
    save_arrays(str(tmp_path / "data.npz"), {"input0": samples})
    CalibratePass(str(tmp_path / "data.npz"), observer="minmax").apply(load_context(), module)
    ChoosePrecisionPass(str(tmp_path / "data.npz"), budget=1).apply(load_context(), module)
    assert precisions(module) == {"pressure": "i16"}
    assert stored_noise(main_function(module))["measured"] < 0
    assert "pressure (100% of the noise)" in capfd.readouterr().err


def test_an_estimate_alone_warns_of_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If gradients overestimate noise, as after a long loop, the measurement decides."""
    weigh = SensitivityMeter.weigh

    def louder(meter: SensitivityMeter, sample: Sample) -> Iterator[Weighed]:
        for value, known, weights in weigh(meter, sample):
            yield value, known, 1000 * weights

    monkeypatch.setattr(SensitivityMeter, "weigh", louder)
    for large, warns in ((1.0, False), (1000.0, True)):
        module, data = chain(tmp_path, 0.015625, large)
        CalibratePass(data, observer="minmax").apply(load_context(), module)
        ChoosePrecisionPass(data, budget=1e-6).apply(load_context(), module)
        assert ("too coarse" in capfd.readouterr().err) == warns


def test_a_measurement_overrules_the_estimates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimates that hide the noise of a value differ from the measurement by 3 dB and more."""
    weigh = SensitivityMeter.weigh

    def wrong(meter: SensitivityMeter, sample: Sample) -> Iterator[Weighed]:
        for value, known, weights in weigh(meter, sample):
            owner = value.owner
            is_first = isinstance(owner, graph.MatmulOp) and node_name(owner) == "first"
            yield value, known, weights * np.float32(1e-4 if is_first else 1)

    monkeypatch.setattr(SensitivityMeter, "weigh", wrong)
    module, data = chain(tmp_path, 0.015625, 64.0)
    CalibratePass(data, observer="minmax").apply(load_context(), module)
    ChoosePrecisionPass(data, budget=0.9, goal=24).apply(load_context(), module)
    assert "first" in precisions(module)


@pytest.mark.parametrize(("goal", "is_wide"), [(0.0, False), (24.0, True)])
def test_no_value_is_chosen_beyond_the_goal(goal: float, is_wide: bool, tmp_path: Path) -> None:
    module, data = chain(tmp_path, 0.015625, 64.0)
    CalibratePass(data, observer="minmax").apply(load_context(), module)
    ChoosePrecisionPass(data, budget=0.9, goal=goal).apply(load_context(), module)
    assert ("first" in precisions(module)) == is_wide


def test_a_budget_of_1_sets_no_limit(tmp_path: Path) -> None:
    """All values with noise get 16 bits, although they take more than the time of the network."""
    module, data = chain(tmp_path, 0.015625, 64.0)
    CalibratePass(data, observer="minmax").apply(load_context(), module)
    ChoosePrecisionPass(data, budget=1, narrow=True, goal=1).apply(load_context(), module)
    assert precisions(module) == dict.fromkeys(("first", "second", "third"), "i16")


def test_a_batch_without_measured_benefit_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def equal(meter: SensitivityMeter, *_: object) -> dict[SSAValue, float]:
        return dict.fromkeys(meter.outputs, 1.0)

    monkeypatch.setattr(SensitivityMeter, "shares", equal)
    module, data = chain(tmp_path, 0.015625, 64.0)
    CalibratePass(data, observer="minmax").apply(load_context(), module)
    before = str(module)
    ChoosePrecisionPass(data, budget=0.9, goal=24, narrow=True).apply(load_context(), module)
    assert precisions(module) == {}
    assert str(module).splitlines()[2:] == before.splitlines()[2:]


def test_no_more_than_the_budget(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A larger budget widens no fewer values, and no choice exceeds the budget."""
    spent: list[float] = []
    for budget in (0.0, 0.01, 0.1, 0.5, 2.0):
        # Without small channels, all values matter.
        module, data = chain(tmp_path, 0.015625, 1.0)
        CalibratePass(data, observer="minmax").apply(load_context(), module)
        ChoosePrecisionPass(data, budget=budget).apply(load_context(), module)
        found = re.search(r"for ([0-9.]+)% of the modelled time", capfd.readouterr().err)
        spent.append(0.0 if found is None else float(found[1]) / 100)
        assert spent[-1] <= budget + 0.0005
        main = main_function(module)
        wide = sum(width(v) == WIDE for op in main.body.block.ops for v in (*op.operands,))
        assert (found is None) == (wide == 0)
    assert spent == sorted(spent) and spent[0] == spent[1] == 0 < spent[4]


def test_small_inputs_of_large_differences(tmp_path: Path) -> None:
    """Information that only the input has needs 16 bits there, unless inputs are int8."""
    text = """
    func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
      %w = graph.constant dense<[[1.0, -1.0], [-1.0, 1.0]]> : tensor<2x2xf32> : tensor<2x2xf32>
      %0 = graph.matmul %x, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32> loc("end")
      func.return %0 : tensor<1x2xf32>
    }"""
    random = np.random.default_rng(5)
    left = random.uniform(0, 255, (32, 1))
    pairs = np.concatenate([left, left - random.uniform(-1, 1, (32, 1))], 1)
    save_arrays(str(tmp_path / "c.npz"), {"input0": pairs.astype(np.float32)})
    for narrow in (False, True):
        module = parse_text(load_context(), text, "difference.mlir")
        CalibratePass(str(tmp_path / "c.npz"), observer="minmax").apply(load_context(), module)
        choose = ChoosePrecisionPass(str(tmp_path / "c.npz"), budget=2, narrow_border=narrow)
        choose.apply(load_context(), module)
        (argument,) = main_function(module).body.block.args
        assert (width(argument) == WIDE) == (not narrow)


def test_no_noise_costs_nothing(tmp_path: Path) -> None:
    """Before weights of zero, all values are exact in 8 bits."""
    module, data = chain(tmp_path, 1.0, 1.0)
    for op in main_function(module).body.block.ops:
        if isinstance(op, graph.LinearOperation):
            zeros = np.zeros(graph.shape_of(op.weights), np.float32)
            constant = op.weights.owner
            assert isinstance(constant, graph.ConstantOp)
            Rewriter.replace_op(constant, graph.ConstantOp.from_array(zeros))
    CalibratePass(data, observer="minmax").apply(load_context(), module)
    ChoosePrecisionPass(data, budget=2).apply(load_context(), module)
    assert not precisions(module)


def test_an_accelerator_of_8_bits_pays_more(tmp_path: Path) -> None:
    """A layer on the host needs 64 times as long, and so do layers that use the result."""
    costs: list[float] = []
    for narrow in (False, True):
        module, data = chain(tmp_path, 0.015625, 64.0)
        CalibratePass(data, observer="minmax").apply(load_context(), module)
        least = next(
            budget
            for budget in (0.1 * 1.2**i for i in range(40))
            if _is_wide(module.clone(), data, budget, narrow=narrow)
        )
        costs.append(least)
    assert costs[1] > 2 * costs[0]


SCORES = """
func.func @main(%x: tensor<2x32xf32>) -> tensor<64xf32> {
  %scores = graph.binary add %x, %x : (tensor<2x32xf32>, tensor<2x32xf32>) -> tensor<2x32xf32>
  %row = graph.reshape %scores : (tensor<2x32xf32>) -> tensor<64xf32>
  %result = FUNCTION
  func.return %result : tensor<64xf32>
}
"""

RELU = "graph.unary <relu> %row : tensor<64xf32>"
SOFTMAX = "graph.softmax %row {axis = 0 : i64} : tensor<64xf32>"


@pytest.mark.parametrize(("narrow", "is_slower"), [(False, True), (True, False)])
def test_a_softmax_of_16_bits_takes_longer_on_a_host(*, narrow: bool, is_slower: bool) -> None:
    """The vector kernel of hosts looks up bytes. The host of an accelerator has portable loops."""
    costs: list[float] = []
    for function in (RELU, SOFTMAX):
        module = parse_text(load_context(), SCORES.replace("FUNCTION", function), "scores.mlir")
        scores = next(iter(main_function(module).body.block.ops)).results[0]
        costs.append(TimeModel(narrow=narrow).widening(scores))
    assert (costs[1] > 2 * costs[0]) == is_slower
    assert costs[1] >= costs[0]


def _is_wide(module: ModuleOp, data: str, budget: float, *, narrow: bool) -> bool:
    ChoosePrecisionPass(data, budget=budget, narrow=narrow).apply(load_context(), module)
    return "first" in precisions(module)


SUMS = """
!map = tensor<1x4x4x8xf32>
!row = tensor<1x1x4x8xf32>
func.func @main(%x: !map, %r: RIGHT) -> !map {
  %w = graph.constant dense<1.0> : tensor<8x1x1x8xf32> : tensor<8x1x1x8xf32>
  %0 = graph.conv2d %x, %w : (!map, tensor<8x1x1x8xf32>) -> !map
  %1 = graph.binary add %0, %r : (!map, RIGHT) -> !map
  %2 = graph.unary <exp> %1 {graph.precision = "PRECISION"} : !map
  func.return %2 : !map
}
"""


def sums(right: str, precision: str = "i8") -> FuncOp:
    text = SUMS.replace("RIGHT", right).replace("PRECISION", precision)
    return main_function(parse_text(load_context(), text, "sums.mlir"))


def test_the_host_of_an_accelerator_takes_time() -> None:
    """It adds unequal shapes, and computes floats."""
    size, times = 4 * 4 * 8, TimeModel(narrow=True)
    aligned = times.network(sums("!map"))
    assert aligned == size * (8 + 2 * HOST.element + ACCELERATOR_HOST.table.narrow)
    more = (ACCELERATOR_HOST.element - HOST.element) * size
    assert times.network(sums("!row")) - aligned == more
    floats = (ACCELERATOR_HOST.element - ACCELERATOR_HOST.table.narrow) * size
    assert times.network(sums("!map", "f32")) - aligned == floats


def test_a_depthwise_layer_on_the_host_is_hardly_slower() -> None:
    text = """
    !map = tensor<1x4x4x8xf32>
    func.func @main(%x: !map) -> !map {
      %w = graph.constant dense<1.0> : tensor<8x3x3x1xf32> : tensor<8x3x3x1xf32>
      %0 = graph.conv2d %x, %w {groups = 8 : i64, padding = array<i64: 1, 1, 1, 1>}
          : (!map, tensor<8x3x3x1xf32>) -> !map
      func.return %0 : !map
    }"""
    main, times = main_function(parse_text(load_context(), text, "m.mlir")), TimeModel(narrow=True)
    size, host = 4 * 4 * 8, ACCELERATOR_HOST
    more = size * (host.element / 2 + 9 * host.unshared * host.wider_unshared)
    assert times.widening(main.body.block.args[0]) == pytest.approx(more)
    assert more < times.network(main) / 3


def test_float_layers_are_read_in_16_bits(tmp_path: Path) -> None:
    module, data = chain(tmp_path, 0.003, 64.0)
    quantize = QuantizePass(data, recipe=("none",), int16=("*",), float=("first",))
    quantize.apply(load_context(), module)
    ops = list(main_function(module).body.block.ops)
    (second,) = (op for op in ops if isinstance(op, graph.MatmulOp) and op.is_quantized)
    assert isinstance(second.input.owner, graph.QuantizeOp)
    element = graph.quantized_element(second.input)
    assert element is not None and element.storage.width.data == 16


ROWS = """
!rows = tensor<16x8xf32>
func.func @main(%x: !rows) -> !rows {
  %u = graph.constant dense<UNIT> : tensor<8x8xf32> : tensor<8x8xf32>
  %w = graph.constant dense<"WEIGHTS"> : tensor<8x8xf32> : tensor<8x8xf32>
  %s = graph.constant dense<1.0> : tensor<8xf32> : tensor<8xf32>
  %0 = graph.matmul %x, %u : (!rows, tensor<8x8xf32>) -> !rows
  %1 = graph.normalize %0 scale %s : tensor<8xf32> {epsilon = 1.0e-6 : f32, centred = true}
      : !rows -> !rows
  %2 = graph.matmul %1, %w : (!rows, tensor<8x8xf32>) -> !rows
  func.return %2 : !rows
}
"""


@pytest.mark.parametrize("centre", [0.0, 0.3])
def test_nearly_constant_rows_are_normalized(
    centre: float, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The noise is bounded: the estimate was -17 dB with 25 dB measured, with a warning."""
    random = np.random.default_rng(0)
    weights = random.normal(0, 0.4, (8, 8)).astype("<f4").tobytes().hex().upper()
    text = ROWS.replace("UNIT", str(np.eye(8).tolist())).replace("WEIGHTS", f"0x{weights}")
    module, samples = (
        parse_text(load_context(), text, "rows.mlir"),
        random.normal(0, 1, (40, 16, 8)),
    )
    samples[:, :4] = centre + 1e-4 * samples[:, :4]
    save_arrays(str(tmp_path / "c.npz"), {"input0": samples[:32].astype(np.float32)})
    quantized = module.clone()
    QuantizePass(str(tmp_path / "c.npz"), target="c", budget=0.1).apply(load_context(), quantized)
    assert "warning" not in capfd.readouterr().err
    noise = stored_noise(main_function(quantized))
    judged = [{"input0": sample.astype(np.float32)} for sample in samples[32:]]
    reached = output_ratio(module, quantized, judged)
    assert abs(noise["after"] - reached) < 3 and abs(noise["measured"] - reached) < 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--int16", "frist"), "no layer is named 'frist'; did you mean 'first'?"),
        (("--mixed", "int16"), "--mixed was removed: 16-bit values are chosen automatically"),
        (("--mixed=auto",), "within --budget; --float names layers"),
        (("--target-sqnr", "30"), "--target-sqnr was removed: raise --budget, or name layers by"),
        (("--budget", "-1"), "--budget: expected a number of at least 0, got '-1'"),
        (("--budget", "nan"), "got 'nan'"),
        (("--budget", "much"), "--budget"),
        (("--quantize", "none", "--int16", "first"), "add --quantize int8"),
        (("--quantize", "none", "--budget", "0.2"), "add --quantize int8"),
    ],
)
def test_wrong_usage(tool: Tool, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    (tmp_path / "n.mlir").write_text(CHAIN.replace("SMALL", "0.5").replace("LARGE", "2.0"))
    quantize = () if "--quantize" in options else ("--quantize", "int8")
    done = tool("ceras-compile", "n.mlir", "-o", "out", "--target", "c", *quantize, *options)
    assert (done.status, done.stdout) == (2, "")
    assert message in done.stderr and not (tmp_path / "out").exists()


def test_long_sums_of_16_bits_have_coarser_weights() -> None:
    random = np.random.default_rng(0)
    weights = random.choice([-1.0, 1.0, 0.75], (2, 4096)).astype(np.float32)
    network = Network([((1, 4096), f32)])
    product = network.add(
        graph.MatmulOp(network.inputs[0], network.constant(weights), result_element=f32)
    )
    module = network.module(product)
    for op in (*main_function(module).body.block.ops,):
        for name in [name for name in op.attributes if name.startswith("mem.")]:
            del op.attributes[name]
    narrow, wide = module.clone(), module.clone()
    set_attribute(main_function(wide).body.block.args[0], PRECISION, StringAttr("i16"))
    bounds: list[int] = []
    for quantized in (narrow, wide):
        QuantizePass().apply(load_context(), quantized)
        ((op, bound),) = accumulator_bounds(quantized)
        assert isinstance(op, graph.MatmulOp)
        bounds.append(bound)
    # 4096 products of 64 (or 48) and 2^15 exceed 32 bits: 16 (or 12) and 2^15 do not.
    assert bounds[0] > 4096 * 48 * 2**7 and 2**30 < bounds[1] < 2**31
    sample = {"input0": random.uniform(0, 1, (1, 4096)).astype(np.float32)}
    real, stored = (np.asarray(run(m, sample)["output0"], float) for m in (module, wide))
    step = graph.scale_of(next(o for o in wide.walk() if isinstance(o, graph.MatmulOp)).result)
    # These weights are exact with four bits less, and int16 hardly rounds the input.
    assert np.abs(stored - real).max() <= step * 0.51


# A classifier of words: most of the time is for the maximum of rows, in float.
WORDS = """
func.func @main(%i: tensor<64xi64> {graph.name = "i"}) -> (tensor<1x2xf32> {graph.name = "y"}) {
  %t = graph.constant dense<T> : tensor<8x4xf32> : tensor<8x4xf32>
  %w = graph.constant dense<W> : tensor<2x4xf32> : tensor<2x4xf32>
  %r = graph.take %t[%i] {axis = 0 : i64}
    : (tensor<8x4xf32>, tensor<64xi64>) -> tensor<64x4xf32>
  %m = graph.reduce max %r {axes = array<i64: 0>} : (tensor<64x4xf32>) -> tensor<1x4xf32>
  %y = graph.matmul %m, %w : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
"""


def test_the_result_of_a_small_layer_behind_floats_has_16_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "c.npz", i=rng.integers(0, 8, (32, 64)))
    text = WORDS.replace("<T>", f"<{rng.normal(size=(8, 4)).tolist()}>")
    text = text.replace("<W>", f"<{rng.normal(size=(2, 4)).tolist()}>")
    module = parse_text(load_context(), text, "text")
    QuantizePass(calibration=str(tmp_path / "c.npz"), target="c").apply(load_context(), module)
    assert "tensor<1x2x!quant.uniform<i16" in str(module)
