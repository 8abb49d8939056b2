"""
Compare scales that a model computes at run time, and single operators, with ONNX Runtime.

`quantize_dynamic` writes such models. C computes equal values.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compare import agree, compare
from onnx_models import (
    Array,
    conv_model,
    gemm_model,
    model,
    node,
    random_inputs,
    run_onnxruntime,
)
from slow_cases import first_fast, slow

from ceras_ir.backends.c.target import CTarget
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.build import build, open_folder
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.support.diagnostics import InputError

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)
OPERANDS: dict[str, Array] = {
    "w": RNG.integers(-128, 128, (40, 6)).astype(np.int8),
    "ws": RNG.uniform(0.01, 0.1, 6).astype(np.float32),
    "wz": RNG.integers(-9, 9, 6).astype(np.int8),
    "b": RNG.normal(size=6).astype(np.float32),
}


def quantized_dynamically(proto: onnx.ModelProto, folder: Path, **options: object):
    """Quantize a float model by ONNX Runtime's quantizer."""
    quantization: Any = import_module("onnxruntime.quantization")
    source, target = folder / "float.onnx", folder / "dynamic.onnx"
    source.write_bytes(proto.SerializeToString())
    kinds = ["MatMul", "Gemm", "Conv"]
    quantization.quantize_dynamic(source, target, op_types_to_quantize=kinds, **options)
    return onnx.load_model_from_string(target.read_bytes())


def two_convolutions() -> onnx.ModelProto:
    proto = conv_model((1, 4, 9, 8), 8, kernel=(3, 2), pads=[1, 0, 2, 1], activation="Relu")
    weights = RNG.normal(size=(6, 8, 3, 3)).astype(np.float32)
    last = proto.graph.output[0]
    proto.graph.initializer.append(numpy_helper.from_array(weights, "second"))
    proto.graph.node.append(node("Conv", f"{last.name} second", "z", strides=[2, 1]))
    last.CopyFrom(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    return proto


def microsoft(op: str, operands: str, **attributes: int) -> onnx.ModelProto:
    proto = model([node(op, operands, "y")], {"x": (3, 40)}, ["y"], OPERANDS, infer=False)
    proto.graph.node[0].domain = "com.microsoft"
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return proto


def steps_of_computed_scales() -> onnx.ModelProto:
    """Build QuantizeLinear and DequantizeLinear with scales of DynamicQuantizeLinear."""
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("QuantizeLinear", "r s z", "p"),
        node("DequantizeLinear", "p s z", "y"),
        node("DequantizeLinear", "q s z", "u"),
    ]
    nodes.insert(1, node("Mul", "x k", "r"))
    return model(nodes, {"x": (3, 5)}, ["y", "u"], {"k": 1.3})


def integer_outputs() -> onnx.ModelProto:
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q w z wz", "y"),
    ]
    return model(nodes, {"x": (3, 40)}, ["y", "q", "s", "z"], OPERANDS)


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "convolutions": two_convolutions,
    "gemm": gemm_model,
    "matmul": lambda: model(
        [node("MatMul", "x w", "y")],
        {"x": (2, 3, 40)},
        ["y"],
        {"w": RNG.normal(size=(40, 6)).astype(np.float32)},
    ),
}
OPERATORS: dict[str, Callable[[], onnx.ModelProto]] = {
    "DynamicQuantizeMatMul": lambda: microsoft("DynamicQuantizeMatMul", "x w ws wz b"),
    "DynamicQuantizeMatMul without bias": lambda: microsoft("DynamicQuantizeMatMul", "x w ws"),
    "computed scales": steps_of_computed_scales,
    "integers": integer_outputs,
}


def check(proto: onnx.ModelProto, inputs: dict[str, Array], folder: Path | None) -> None:
    """Compare the interpreter with ONNX Runtime, and with a folder, the bits of C."""
    expected = run_onnxruntime(proto, inputs)
    module = import_model(proto)
    options = BuildOptions(CTarget()).resolved(module)
    reference = module.clone()
    run_stages(load_context(), reference, front_stages(options))
    for op in reference.walk():  # Integers remain integers.
        assert not isinstance(op, graph.LinearOperation) or op.is_quantized
    actual: dict[str, Array] = dict(run(reference, inputs))
    for name, array in expected.items():
        assert actual[name].dtype == array.dtype
        assert np.abs(actual[name] - array).max() <= 1e-6 * np.abs(array).max(), name
    if folder is None:
        return
    write_artefacts(folder, build(module, options).files())
    (compiled,) = open_folder(folder).run([inputs])
    for name, array in actual.items():
        np.testing.assert_array_equal(compiled[name], array, err_msg=name)


@pytest.mark.parametrize("per_channel", first_fast(1, (True, False)))
@pytest.mark.parametrize("signed", first_fast(1, (False, True)))
@pytest.mark.parametrize("name", first_fast(1, NETWORKS))
def test_network(name: str, signed: bool, per_channel: bool, tmp_path: Path):
    types: Any = import_module("onnxruntime.quantization")
    kind = types.QuantType.QInt8 if signed else types.QuantType.QUInt8
    proto = NETWORKS[name]()
    value = proto.graph.input[0]
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    inputs: dict[str, Array] = {value.name: RNG.normal(0.3, 1, shape).astype(np.float32)}
    dynamic = quantized_dynamically(proto, tmp_path, weight_type=kind, per_channel=per_channel)
    assert any(n.op_type == "DynamicQuantizeLinear" for n in dynamic.graph.node)
    check(dynamic, inputs, tmp_path / "out" if signed == per_channel else None)


@pytest.mark.parametrize("low,high", [(-3, 2), slow(0.5, 2), slow(-2, -0.5), slow(0, 0)])
@pytest.mark.parametrize("name", first_fast(1, OPERATORS))
def test_operator(name: str, low: float, high: float, tmp_path: Path):
    proto = OPERATORS[name]()
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(3).uniform(low, high, shape).astype(np.float32)
    check(proto, {"x": x}, tmp_path / "out" if low == -3 else None)


@pytest.mark.parametrize("storage", [np.int8, np.uint8])
def test_rows_of_a_quantized_table(storage: type[np.integer[Any]]) -> None:
    """In an embedding, the quantizer gathers integers and then converts them to floats."""
    nodes = [node("Gather", "table ids", "rows"), node("DequantizeLinear", "rows s z", "y")]
    table = np.arange(12).reshape(4, 3).astype(storage)
    tensors = {"table": table, "s": np.array(0.25, np.float32), "z": np.array(7, storage)}
    proto = model(nodes, {"ids": (1, 2)}, ["y"], tensors, dtype=TensorProto.INT64)
    agree(proto, {"ids": np.array([[3, 1]])})


def static_integers(kind: str) -> onnx.ModelProto:
    """An early quantizer of ONNX Runtime writes QuantizeLinear, sums of integers, a factor."""
    random = np.random.default_rng(2)
    shape, weights = ((1, 3, 6, 5), (4, 3, 3, 3)) if kind == "ConvInteger" else ((5, 40), (40, 6))
    operands = {
        "w": random.integers(0, 256, weights).astype(np.uint8),
        "wz": np.array(125, np.uint8),
        "xs": np.array(0.05, np.float32),
        "xz": np.array(113, np.uint8),
        "scale": np.array(0.05 * 0.0078, np.float32),
    }
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"),
        node(kind, "q w xz wz", "sums"),
        node("Cast", "sums", "counts", to=TensorProto.FLOAT),
        node("Mul", "counts scale", "y"),
    ]
    return model(nodes, {"x": shape}, ["y"], operands)


@pytest.mark.parametrize("kind", ["ConvInteger", "MatMulInteger"])
def test_integers_of_a_constant_scale_are_multiplied_as_integers(kind: str) -> None:
    proto = static_integers(kind)
    module = agree(proto)
    run_stages(load_context(), module, front_stages(BuildOptions(CTarget()).resolved(module)))
    (layer,) = (op for op in module.walk() if isinstance(op, graph.LinearOperation))
    assert None not in (graph.quantized_element(layer.input), graph.quantized_element(layer.output))
    x = random_inputs(proto)
    compare(run(module, x), run_onnxruntime(proto, x))


@pytest.mark.parametrize(("scale", "point"), [(0.02, 113), (0.05, 100), (0.07, 3)])
def test_integers_are_read_by_another_scale(scale: float, point: int) -> None:
    """The integers are equal: the types of QuantizeLinear and DequantizeLinear may differ."""
    operands = {
        "s": np.array(0.05, np.float32),
        "z": np.array(113, np.uint8),
        "t": np.array(scale, np.float32),
        "p": np.array(point, np.uint8),
    }
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q t p", "y")]
    agree(model(nodes, {"x": (3, 40)}, ["y"], operands))


@pytest.mark.parametrize("to", [TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT8])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_cast_of_quantized_numbers_gives_their_integers(to: int, per_channel: bool) -> None:
    """Use all values of int8, with zero points and scales that are rounded to float32."""
    scales, points = np.array([0.03, 0.7, 1], np.float32), np.array([3, -128, 0], np.int8)
    if not per_channel:
        scales, points = scales[0], points[0]
    nodes = [node("QuantizeLinear", "x s z", "q", axis=1), node("Cast", "q", "y", to=to)]
    proto = model(nodes, {"x": [300, 3]}, ["y"], {"s": scales, "z": points})
    x = np.broadcast_to((np.arange(300)[:, None] - 150 - points) * scales, (300, 3))
    module = import_model(proto)
    inputs = {"x": x.astype(np.float32)}
    np.testing.assert_array_equal(run(module, inputs)["y"], run_onnxruntime(proto, inputs)["y"])


BOUNDED = {
    "Clip both": ("Clip", "q low high"),
    "Clip above": ("Clip", "q  high"),
    "Clip empty": ("Clip", "q high low"),
    "Clip nothing": ("Clip", "q"),
    "Relu": ("Relu", "q"),
    "Max": ("Max", "q low"),
    "Min": ("Min", "high q"),
}
"""Operators that clamp integers, and their operands."""


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("moved", [False, True])
def test_integers_of_quantized_numbers_are_bounded(name: str, moved: bool) -> None:
    """Brevitas exports values of few bits in this form: Clip between Q and DQ."""
    operator, operands = BOUNDED[name]
    constants = {
        "s": np.array(0.03, np.float32),
        "z": np.array(-5, np.int8),
        "low": np.array(-8, np.int8),
        "high": np.array(7, np.int8),
    }
    source = [node("QuantizeLinear", "x s z", "r" if moved else "q")]
    if moved:
        source.append(node("Transpose", "r", "q"))
    bounded = helper.make_node(operator, operands.split(" "), ["b"])
    proto = model([*source, bounded, node("DequantizeLinear", "b s z", "y")],
                  {"x": [3, 400]}, ["y"], constants, opset=14)  # fmt: skip
    inputs = {"x": np.linspace(-5, 5, 1200, dtype=np.float32).reshape(3, 400)}
    expected = run_onnxruntime(proto, inputs)["y"]
    np.testing.assert_array_equal(run(import_model(proto), inputs)["y"], expected)


def test_bounds_on_integers_are_in_the_epilogue() -> None:
    """With four bits after a ReLU, the layer computes in integers."""
    constants = {
        "s": np.array(0.25, np.float32),
        "z": np.array(0, np.uint8),
        "high": np.array(15, np.uint8),
        "w": np.array([[3, -7], [5, 2]], np.int8),
        "t": np.array(0.1, np.float32),
    }
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w t", "v"),
        node("MatMul", "d v", "m"),
        node("Relu", "m", "r"),
        node("QuantizeLinear", "r s z", "p"),
        helper.make_node("Clip", ["p", "", "high"], ["c"]),
        node("DequantizeLinear", "c s z", "y"),
    ]
    module = import_model(model(nodes, {"x": [3, 2]}, ["y"], constants))
    run_stages(load_context(), module, front_stages(BuildOptions(CTarget()).resolved(module)))
    (product,) = (op for op in module.walk() if isinstance(op, graph.MatmulOp))
    assert product.requant is not None
    assert product.requant.high.data - product.requant.low.data == 15


def test_a_scale_of_an_infinite_range_says_what_to_do() -> None:
    """ONNX Runtime's quantizer writes this for a mask of -inf."""
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")]
    constants = {"s": np.array(np.inf, np.float32), "z": np.array(0, np.uint8)}
    with pytest.raises(InputError, match=r"finite, got inf: .*--calibrate, .* mask of finite"):
        import_model(model(nodes, {"x": (2,)}, ["y"], constants))
