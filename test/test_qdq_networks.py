"""
Real Q/DQ networks against ONNX Runtime: layer by layer at most one unit apart, the rate of
differences printed, and the same accuracy on real images.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from qdq_layers import layers, random_inputs
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.driver.context import load_context
from ceras_ir.driver.stages import BuildOptions, front_stages, read_network, run_stages
from ceras_ir.interpreters.network import run

SHARED = Path(__file__).parents[2] / "shared"
NETWORKS = ("resnet8", "vww", "mobilenet_v2", "mcunet_vww")
MOST_LAYERS = 12
"""Of each network; they are many and alike."""

onnxruntime = pytest.importorskip("onnxruntime")


def quantized(path: Path) -> ModuleOp:
    module = read_network(str(path))
    options = BuildOptions("c").resolved(module)
    assert options.is_quantized
    run_stages(load_context(), module, front_stages(options))
    module.verify()
    return module


def session(model: bytes):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options)


def model_path(name: str) -> Path:
    path = SHARED / "models" / f"{name}_int8_qdq.onnx"
    if not path.exists():
        pytest.skip("needs ../shared")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_layers_are_one_unit_from_onnxruntime(name: str, tmp_path: Path):
    everything = list(layers(model_path(name)))
    assert len(everything) > 10
    step = max(1, len(everything) // MOST_LAYERS)
    generator = np.random.default_rng(7)
    differing = elements = 0
    for model in everything[::step]:
        path = tmp_path / "layer.onnx"
        path.write_bytes(model.SerializeToString())
        inputs = random_inputs(model, generator)
        (expected,) = session(model.SerializeToString()).run(None, inputs)
        (actual,) = run(quantized(path), inputs).values()
        distance = np.abs(expected.astype(int) - actual.astype(int))
        assert distance.max() <= 1, [node.op_type for node in model.graph.node]
        differing += int((distance > 0).sum())
        elements += distance.size
    print(f"{name}: {differing} of {elements} differ by one ({differing / elements:.2e})")
    assert differing <= 0.001 * elements


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_become_integer(name: str):
    module = quantized(model_path(name))
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
    reference, module = session(path.read_bytes()), quantized(path)
    expected: list[int] = []
    actual: list[int] = []
    for image in chosen:
        inputs: dict[str, NDArray[np.generic]] = {"input_1_int8": image[None]}
        expected.append(int(reference.run(None, inputs)[0].argmax()))
        actual.append(int(run(module, inputs)["Identity_int8"].argmax()))
    right = labels[64:164].reshape(-1)
    accuracies = [(np.array(p) == right).mean() for p in (expected, actual)]
    agreeing = (np.array(expected) == np.array(actual)).mean()
    print(f"ONNX Runtime {accuracies[0]:.3f}, here {accuracies[1]:.3f}, agreeing {agreeing:.3f}")
    assert abs(accuracies[0] - accuracies[1]) <= 0.01 and agreeing >= 0.98
