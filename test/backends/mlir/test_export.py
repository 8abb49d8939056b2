"""
The exported network computes the bits of the interpreter.

An evaluator of the upstream dialects in numpy, which shares nothing with the exporter, runs small
networks. IREE runs networks if it is installed.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from docstring_examples import last_block, network
from graph_networks import Array, Network, integer_normalize, integer_softmax, random_array
from onnx_random import random_network
from upstream_dialects import evaluate
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from ceras_ir.backends.mlir.export import export_module, text_of
from ceras_ir.backends.mlir.target import MlirTarget
from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs
from ceras_ir.network.function import main_function, output_names
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, all_stages, run_stages
from ceras_ir.support.diagnostics import UnsupportedError

REFUSED = {
    *("graph.recurrence", "graph.tree_ensemble", "graph.suppress", "graph.top_k", "graph.put"),
    *("graph.loop", "graph.branch", "graph.extract", "graph.cached_product"),
    *("graph.decode_frame", "graph.update", "graph.strided_matmul"),
    *("graph.block_matmul", "graph.block_take", "graph.threshold"),
}


def signless(array: Array) -> Array:
    """Return the array with signed integers of the same bits."""
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array


def has_unordered_sums(main: FuncOp) -> bool:
    """Return whether a float layer leaves the order of sums to the target."""
    layers = [op for op in main.body.block.ops if isinstance(op, graph.LinearOperation)]
    return any(not op.is_quantized and op.ordered is None for op in layers)


def check(module: ModuleOp, inputs: Sequence[Array]) -> None:
    """The evaluator and the interpreter compute the same bits."""
    main = main_function(module)
    names = [tensor.name for tensor in network_inputs(main)]
    expected = run(module, dict(zip(names, inputs, strict=True)))
    results = evaluate(export_module(module), [signless(array) for array in inputs])
    for name, result in zip(output_names(main), results, strict=True):
        wanted = signless(expected[name])
        assert result.dtype == wanted.dtype and result.shape == wanted.shape
        if has_unordered_sums(main):
            # Sums in another order differ relative to the range, as where terms cancel.
            reals = wanted.astype(np.float32)
            np.testing.assert_allclose(result, reals, rtol=0, atol=1e-5 * np.abs(reals).max())
            continue
        np.testing.assert_array_equal(result.view(np.uint8), wanted.view(np.uint8), name)


def with_random_inputs(module: ModuleOp) -> tuple[ModuleOp, list[Array]]:
    """Return a network and seeded inputs."""
    arguments = main_function(module).body.block.args
    return module, [random_array(graph.shape_of(v), graph.element_of(v), 7) for v in arguments]


OPERATIONS = [cls for cls in graph.Graph.operations if cls is not graph.ConstantOp]


@pytest.mark.parametrize("cls", OPERATIONS, ids=lambda cls: cls.name)
def test_the_example_of_each_operation(cls: type[graph.GraphOperation]) -> None:
    module = network(last_block(cls))
    if cls.name in REFUSED:
        with pytest.raises(UnsupportedError, match="unsupported by target mlir"):
            export_module(module)
        return
    if cls is graph.IntegerSoftmaxOp:
        pytest.skip("the table is no random tensor; see test_rows_of_integers")
    check(*with_random_inputs(module))


@pytest.mark.parametrize("bits", [8, 16])
def test_rows_of_integers(bits: int) -> None:
    element = UniformType(1 / 64, -3, storage=IntegerType(bits))
    shape = (5, 37)
    net = Network([(shape, element)])
    (x,) = net.inputs
    rows = [integer_normalize(net, x, centred=centred) for centred in (True, False)]
    module = net.module(*rows, integer_softmax(net, x, 0), integer_softmax(net, x, 1))
    array = random_array(shape, element, seed=3)
    array[1], array[2] = array[1, 0], element.low
    check(module, [array])


ORDERED = """
%y = graph.conv2d %x, %w bias %b : tensor<4xf32> {{ordered, padding = array<i64: 1, 0, 1, 1>,
    strides = array<i64: 2, 1>, dilations = array<i64: 1, 2>, groups = {} : i64,
    activation = #graph.function<sigmoid>}}
    : (tensor<2x5x6x4xf32>, tensor<4x3x2x{}xf32>) -> tensor<2x3x5x4xf32>
"""


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_sums_in_order(groups: int) -> None:
    check(*with_random_inputs(network(ORDERED.format(groups, 4 // groups))))


POOL = """
%y = graph.pool2d average %x {{kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>,
    padding = array<i64: 1, 1, 2, 0>, count_include_pad = {}{}}} : ({}) -> {}
"""


@pytest.mark.parametrize("included", ["true", "false"])
@pytest.mark.parametrize("storage", ["", "i8", "u8", "i16"])
def test_averages_with_padding(included: str, storage: str) -> None:
    element, requant = "f32", ""
    if storage:
        element = f"!quant.uniform<{storage}:f32, 0.5:7>"
        requant = (
            ", requant = #graph.requant<multiplier = 178956971, shift = 30, rounding = half_even, "
            "zero_point = 7, low = 0, high = 127>"
        )
    kinds = [f"tensor<1x5x4x3x{element}>", f"tensor<1x3x4x3x{element}>"]
    check(*with_random_inputs(network(POOL.format(included, requant, *kinds))))


KERNELS = {
    "two roundings per channel": """
%y = graph.matmul %x, %w {requant = #graph.requant<
    multiplier = [1288490189, 2638827907072, 1073741824], shift = 44, rounding = double_round,
    zero_point = -10, low = -100, high = 120>}
    : (tensor<9x40x!quant.uniform<i8:f32, 0.3:4>>,
       tensor<3x40x!quant.uniform<i8:f32, 0.5>>)
    -> tensor<9x3x!quant.uniform<i8:f32, 0.5:-10>>
""",
    "wide multipliers": """
%y = graph.matmul %x, %w {requant = #graph.requant<
    multiplier = [20000, 85899345920], shift = 40, rounding = half_up, low = -32768, high = 32767>}
    : (tensor<9x40x!quant.uniform<i16:f32, 0.3>>, tensor<2x40x!quant.uniform<i8:f32, 0.5>>)
    -> tensor<9x2x!quant.uniform<i16:f32, 0.5>>
""",
    "requantized addends": """
%y = graph.binary sub %x, %z {lhs_shift = 20 : i64, rhs_shift = 20 : i64,
    lhs_requant = #graph.requant<multiplier = 1073741824, shift = 31, rounding = double_round,
    low = -2147483648, high = 2147483647>,
    rhs_requant = #graph.requant<multiplier = 1288490189, shift = 32, rounding = double_round,
    low = -2147483648, high = 2147483647>,
    requant = #graph.requant<multiplier = 1342177280, shift = 50, rounding = double_round,
    zero_point = 3, low = -120, high = 120>}
    : (tensor<2x90x!quant.uniform<i8:f32, 0.5:7>>, tensor<2x90x!quant.uniform<i8:f32, 0.3:1>>)
    -> tensor<2x90x!quant.uniform<i8:f32, 0.8:3>>
""",
    "divisions": """
%y = graph.pool2d average %x {kernel = array<i64: 3, 2>, strides = array<i64: 2, 1>,
    padding = array<i64: 1, 1, 2, 0>, divides,
    requant = #graph.requant<shift = 0, rounding = half_away, zero_point = 7, low = -40, high = 90>}
    : (tensor<1x15x14x3x!quant.uniform<i8:f32, 0.5:7>>)
    -> tensor<1x8x14x3x!quant.uniform<i8:f32, 0.5:7>>
""",
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_of_tensorflow_lite(kernel: str) -> None:
    check(*with_random_inputs(network(KERNELS[kernel])))


def test_softmax_of_tensorflow_lite() -> None:
    table = np.rint(np.exp(-np.arange(256) * 0.07) * (2.0**31 - 1)).astype(np.int64).tolist()
    text = f"""
%t = graph.constant dense<{table}> : tensor<256xi32> : tensor<256x!quant.uniform<i32:f32, 1.0>>
%y = graph.fixed_point_softmax %x table %t : tensor<256x!quant.uniform<i32:f32, 1.0>>
    : tensor<5x37x!quant.uniform<i8:f32, 0.07>>
    -> tensor<5x37x!quant.uniform<i8:f32, 0.00390625:-128>>
"""
    check(*with_random_inputs(network(text)))


SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38, -3e38, 88.4, -87.4, 4194305.0, 0.5],
    np.float32,
)


def test_functions_compute_equal_bits() -> None:
    grid = np.linspace(-12, 12, 77, dtype=np.float32)
    x = np.concatenate([SPECIAL, grid, np.exp(grid), -np.exp(grid)]).astype(np.float32)
    lines = list[str]()
    functions = [f"<{f.value}{', 0.3' * len(f.facts.parameters)}>" for f in graph.Function]
    functions += ["<clip, -0.5, 2.0>", "<hard_swish, scale 0.75, offset 0.5>", "<clip, -inf, 0.0>"]
    functions.remove("<clip, 0.3, 0.3>")
    kind = f"tensor<{len(x)}xf32>"
    for i, function in enumerate(functions):
        lines.append(f"%y{i} = graph.unary {function} %x : {kind}")
    lines.append(f"%p = graph.binary pow %x, %y0 : ({kind}, {kind}) -> {kind}")
    names = ", ".join(["%p", *(f"%y{i}" for i in range(len(functions)))])
    kinds = ", ".join([kind] * (len(functions) + 1))
    body = "\n".join(lines)
    text = f"func.func @main(%x: {kind}) -> ({kinds}) {{ {body}\nfunc.return {names} : {kinds} }}"
    module = Parser(load_context(), text).parse_module()
    expected = list(run(module, {"input0": x}).values())
    for result, wanted in zip(evaluate(export_module(module), [x]), expected, strict=True):
        # The sign and the payload of NaN are not defined.
        is_nan = np.isnan(wanted)
        np.testing.assert_array_equal(np.isnan(result), is_nan)
        bits, wanted_bits = result.view(np.int32), wanted.view(np.int32)
        np.testing.assert_array_equal(bits[~is_nan], wanted_bits[~is_nan])


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_random_networks(seed: int) -> None:
    module = import_model(random_network(seed, steps=3))
    options = BuildOptions(MlirTarget(), quantize="int8", io="model" if seed % 2 else "int8")
    run_stages(load_context(), module, all_stages(options))
    main = main_function(module)
    (sample,) = synthetic_samples(main, 1, seed=seed)
    check(module, [sample[tensor.name] for tensor in network_inputs(main)])


LAYER = """
func.func @main(%x: tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:-3>> {graph.name = "pixels"})
    -> (tensor<1x4x4x2x!quant.uniform<i8:f32, 0.25>> {graph.name = "map"}) {
  %w = graph.constant dense<[[[[1, 2]]], [[[3, -4]]]]> : tensor<2x1x1x2xi8>
      : tensor<2x1x1x2x!quant.uniform<i8:f32, 0.25>>
  %c = graph.conv2d %x, %w {first.mark = 7 : i64,
      requant = #graph.requant<shift = 3, rounding = half_up, low = -3, high = 100>}
      : (tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:-3>>,
         tensor<2x1x1x2x!quant.uniform<i8:f32, 0.25>>)
      -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.25>> loc("the layer")
  func.return %c : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.25>>
}
"""


def test_locations_and_attributes_are_kept() -> None:
    text = text_of(Parser(load_context(), LAYER).parse_module())
    assert (
        'inputs = [{name = "pixels", type = "tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:-3>>"}]'
        in text
    )
    (last,) = [line for line in text.splitlines() if "ceras" in line and "func.func" not in line]
    assert 'operation = "graph.conv2d"' in last and "first.mark = 7 : i64" in last
    assert 'requant = "#graph.requant<shift = 3, rounding = half_up, low = -3, high = 100>"' in last
    products = [line for line in text.splitlines() if "linalg.conv_2d_nhwc_fhwc" in line]
    assert len(products) == 1 and 'loc("the layer"' in products[0]


@pytest.mark.skipif(shutil.which("mlir-opt-19") is None, reason="mlir-opt-19 is not installed")
def test_upstream_mlir_verifies_the_text(tmp_path: Path) -> None:
    module = import_model(random_network(4, steps=3))
    run_stages(load_context(), module, all_stages(BuildOptions(MlirTarget(), quantize="int8")))
    (tmp_path / "model.mlir").write_text(text_of(module))
    done = subprocess.run(
        ["mlir-opt-19", tmp_path / "model.mlir", "-o", "/dev/null"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:2000]
