"""
Compare real Q/DQ networks with ONNX Runtime.

Each layer differs by at most one unit, the test prints the rate of differences, and the accuracy on
real images is equal.
"""

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx_models import run_onnxruntime
from qdq_layers import layers
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.target import CTarget
from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization

SHARED = Path(__file__).parents[2] / "shared"
NETWORKS = ("resnet8", "vww", "mobilenet_v2", "mcunet_vww")
MOST_LAYERS = 12
"""The maximum number of layers to compare per network; there are more, and they are similar."""


def quantized(path: Path) -> ModuleOp:
    module = read_network(str(path))
    run_stages(load_context(), module, front_stages(BuildOptions(CTarget()).resolved(module)))
    module.verify()
    return module


def model_path(name: str) -> Path:
    path = SHARED / "models" / f"{name}_int8_qdq.onnx"
    if not path.exists():
        pytest.skip("needs ../shared")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_layers_are_one_unit_from_onnxruntime(name: str, tmp_path: Path):
    model, generator = (
        onnx.load_model_from_string(model_path(name).read_bytes()),
        np.random.default_rng(7),
    )
    for value in (*model.graph.input, *model.graph.output):
        if (first := value.type.tensor_type.shape.dim[0]).dim_param:
            first.dim_value = 1
    (image,) = model.graph.input
    shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
    whole = image.type.tensor_type.elem_type == onnx.TensorProto.INT8
    data = generator.integers(-128, 128, shape) if whole else generator.uniform(-2, 2, shape)
    pixels = data.astype(np.int8 if whole else np.float32)
    everything = list(layers(model, {image.name: pixels}))
    assert len(everything) > 10
    step = max(1, len(everything) // MOST_LAYERS)
    differing = elements = 0
    for part, inputs in everything[::step]:
        path = tmp_path / "layer.onnx"
        path.write_bytes(part.SerializeToString())
        (expected,) = run_onnxruntime(part, inputs).values()
        (actual,) = run(quantized(path), inputs).values()
        if expected.dtype == np.float32:  # A float32 result is the dequantized graph output.
            error = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
            assert error.max() <= 1e-5
            continue
        distance = np.abs(expected.astype(int) - actual.astype(int))
        assert distance.max() <= 1, [node.op_type for node in part.graph.node]
        differing += int((distance > 0).sum())
        elements += distance.size
    print(f"{name}: {differing} of {elements} differ by one ({differing / elements:.2e})")
    assert differing <= 0.001 * elements


@pytest.mark.slow
@pytest.mark.parametrize("name", first_fast(1, NETWORKS))
def test_networks_become_integer(name: str):
    module = quantized(model_path(name))
    assert carries_quantization(module)
    floats = {"graph.softmax", "graph.quantize", "graph.dequantize"}
    for op in module.walk():
        if isinstance(op, graph.GraphOperation) and op.name not in floats:
            assert op.is_quantized, op


@pytest.mark.slow
def test_resnet8_has_the_accuracy_of_onnxruntime():
    path = model_path("resnet8")
    data = np.load(SHARED / "data" / "cifar10.npz")
    images, labels = (data[key] for key in sorted(data.files, key=lambda k: -data[k].ndim))
    chosen = (images[64:164].astype(np.int16) - 128).astype(np.int8)
    reference, module = onnx.load_model_from_string(path.read_bytes()), quantized(path)
    expected: list[int] = []
    actual: list[int] = []
    for image in chosen:
        inputs: dict[str, NDArray[np.generic]] = {"input_1_int8": image[None]}
        expected.append(int(run_onnxruntime(reference, inputs)["Identity_int8"].argmax()))
        actual.append(int(run(module, inputs)["Identity_int8"].argmax()))
    right = labels[64:164].reshape(-1)
    accuracies = [(np.array(p) == right).mean() for p in (expected, actual)]
    agreeing = (np.array(expected) == np.array(actual)).mean()
    print(f"ONNX Runtime {accuracies[0]:.3f}, here {accuracies[1]:.3f}, agreeing {agreeing:.3f}")
    assert abs(accuracies[0] - accuracies[1]) <= 0.01 and agreeing >= 0.98
