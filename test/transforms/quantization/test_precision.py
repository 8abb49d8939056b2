"""Layers in 16 bits and in float: random networks, every operation, every target."""

import re
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.networks import Network
from conftest import Tool
from onnx_random import random_network
from quantized_by_hand import trace, wrong_elements
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32

from ceras_ir.backends.c.target import CTarget
from ceras_ir.backends.nnet.target import NnetTarget
from ceras_ir.backends.vta.target import VtaTarget
from ceras_ir.data.samples import load_samples, save_arrays
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.driver.verify.levels import Verification
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import input_names, main_function
from ceras_ir.network.precision import PRECISION
from ceras_ir.network.ranges import set_attribute
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.options import BuildOptions
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.analysis.output_noise import output_ratio
from ceras_ir.transforms.quantization.analysis.sensitivity import Sensitivity
from ceras_ir.transforms.quantization.calibrate import CalibratePass
from ceras_ir.transforms.quantization.choose_precision import ChoosePrecisionPass
from ceras_ir.transforms.quantization.prove_accumulators import accumulator_bounds
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization.trials.precision_trials import PrecisionTrials, keep

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
    """A fused random network, some of whose operations and inputs keep more than int8."""
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


@pytest.mark.parametrize("seed", range(16))
def test_one_rounding_at_most(seed: int) -> None:
    module = marked(seed)
    QuantizePass().apply(load_context(), module)
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
@pytest.mark.parametrize("seed", range(4))
def test_targets_are_exact(seed: int) -> None:
    verification = Verification(marked(seed), BuildOptions(CTarget(), quantize="int8"), None, 2)
    verdicts = list(verification.run([CTarget(), NnetTarget(), VtaTarget()]))
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


def test_the_layer_that_int8_hurts_is_found(tmp_path: Path) -> None:
    module, data = chain(tmp_path, 0.015625, 64.0)
    CalibratePass(data).apply(load_context(), module)
    ChoosePrecisionPass("int16", data, budget=1).apply(load_context(), module)
    assert precisions(module) == {"first": "i16"}


def test_float_is_for_weights(tmp_path: Path) -> None:
    # 0.003 is no multiple of 2^-6, the step of weights up to 1.
    module, data = chain(tmp_path, 0.003, 64.0)
    CalibratePass(data).apply(load_context(), module)
    ChoosePrecisionPass("float", data, budget=1).apply(load_context(), module)
    assert precisions(module) == {"first": "f32"}


def test_no_more_layers_than_the_target_takes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    counts: list[int] = []
    for target in (5.0, 25.0, 90.0):
        module, data = chain(tmp_path, 0.015625, 16.0)
        CalibratePass(data).apply(load_context(), module)
        ChoosePrecisionPass("int16", data, target_sqnr=target).apply(load_context(), module)
        counts.append(len(precisions(module)))
    text = capfd.readouterr().err
    assert counts[0] <= counts[1] <= counts[2] and counts[0] < counts[2]
    assert "90 dB are not reached" in text and "25 dB are not reached" not in text


def test_float_layers_are_read_in_16_bits(tmp_path: Path) -> None:
    module, data = chain(tmp_path, 0.003, 64.0)
    QuantizePass(data, recipe="plain", int16=("*",), float=("first",)).apply(load_context(), module)
    ops = list(main_function(module).body.block.ops)
    (second,) = (op for op in ops if isinstance(op, graph.MatmulOp) and op.is_quantized)
    assert isinstance(second.input.owner, graph.QuantizeOp)
    element = graph.quantized_element(second.input)
    assert element is not None and element.storage.width.data == 16


def test_auto_takes_float_for_weights_and_16_bits_for_values(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Weights of 0.003 are lost in int8, and so are the small channels that they make.
    chosen: list[dict[str, str]] = []
    for target in (5.0, 14.0, 50.0):
        module, data = chain(tmp_path, 0.003, 64.0)
        CalibratePass(data).apply(load_context(), module)
        ChoosePrecisionPass("auto", data, target_sqnr=target).apply(load_context(), module)
        chosen.append(precisions(module))
    assert chosen[0] == {} and chosen[2]["second"] == "f32,i16"
    assert chosen[1] == {"first": "f32,i16"}
    text = capfd.readouterr().err
    assert "int16 for 0 of 4 values, float for 0 of 2 layers" in text
    assert "float first (4" in text and "int16 first (4" in text and "not reached" not in text


@pytest.mark.parametrize("target", [14.0, 25.0])
def test_a_trial_says_what_quantizing_gives(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], target: float
) -> None:
    module, data = chain(tmp_path, 0.003, 64.0)
    QuantizePass(data, recipe="plain", mixed="auto", target_sqnr=target).apply(
        load_context(), (quantized := module.clone())
    )
    found = re.search(r"-> ([0-9.]+) dB on 8 samples", capfd.readouterr().err)
    # Trials round weights as 8 samples say, and are judged by the 8 that follow.
    samples = list(load_samples(data, module))[8:16]
    measured = output_ratio(module, quantized, samples)
    assert found is not None and float(found[1]) == round(measured, 1) >= target


def test_weights_are_those_that_wide_values_leave_room_for(tmp_path: Path) -> None:
    """4096 products of 16 bits fit 32 bits only with coarser weights."""
    random = np.random.default_rng(0)
    network = Network([((1, 4096), f32)])
    weights = network.constant(random.normal(size=(2, 4096)).astype(np.float32))
    product = network.add(graph.MatmulOp(network.inputs[0], weights, result_element=f32))
    module = network.module(product)
    for op in (*main_function(module).body.block.ops,):
        for name in [name for name in op.attributes if name.startswith("mem.")]:
            del op.attributes[name]
    data = tmp_path / "data.npz"
    save_arrays(str(data), {"input0": random.normal(size=(4, 4096)).astype(np.float32)})
    CalibratePass(str(data)).apply(load_context(), module)
    samples = list(load_samples(str(data), module))
    (argument,) = main_function(module).body.block.args
    steps: list[float] = []
    for wide in ((), (argument,)):
        trials = PrecisionTrials(load_context(), module, str(data), 4, samples, wide)
        (stored,) = trials.in_int8.weights.values()
        steps.append(float(np.abs(stored[stored != 0]).min()))
    assert steps[1] >= 2 * steps[0]
    judged = trials.noise([Sensitivity("input", argument, 0, in_float=False)])
    keep(argument, in_float=False)
    QuantizePass(str(data), recipe="plain").apply(load_context(), (quantized := module.clone()))
    measured = 10 ** (-output_ratio(module, quantized, samples) / 10)
    assert measured == pytest.approx(judged, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--int16", "frist"), "no layer is named 'frist'; did you mean 'first'?"),
        (("--mixed", "int16"), "mixed needs data to measure on"),
        (("--budget", "2"), "budget and target-sqnr bound mixed"),
        (("--mixed", "auto", "--target-sqnr", "nan"), "must be above 0 and at most 300"),
        (("--mixed", "auto", "--target-sqnr", "1e9"), "must be above 0 and at most 300"),
        (("--quantize", "none", "--int16", "first"), "add --quantize int8"),
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
