"""
Train a keyword spotter with 3-bit weights and activations, and compare the integers with ONNX
Runtime, which executes the form with QuantizeLinear and Clip, and with `qonnx` if it is installed.

Two random convolutions with batch normalization compute features of synthetic words. Ridge
regression trains the last layer. The weights are then rounded to 3 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from c_harness import check
from narrow_networks import QONNX, Real, convolve
from onnx import TensorProto, helper
from onnx_models import Array, model, node, run_onnxruntime
from trained_data import WORDS, words

from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.targets.registry import find_target

BITS, LAST = 3, 3
"""The bits of weights and activations, and the highest integer of weights."""
TRAINED, TESTED = 600, 100
MIN_CORRECT = 0.75
"""The share of words that the network must recognize; 1 of 12 is chance."""
POOL = (2, 4)


@dataclass
class _Writer:
    """The nodes of the network, in QONNX or with QuantizeLinear, Clip and DequantizeLinear."""

    in_qonnx: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    tensors: dict[str, npt.ArrayLike] = field(default_factory=dict[str, npt.ArrayLike])

    def add(
        self, operator: str, operands: str, constants: Sequence[Array] = (), **more: Any
    ) -> str:
        name = f"v{len(self.nodes)}"
        for i, array in enumerate(constants):
            operands += f" {name}_{i}"
            self.tensors[f"{name}_{i}"] = array
        made = node(operator, operands, name, **more)
        made.domain = QONNX if operator == "Quant" else ""
        self.nodes.append(made)
        return name

    def activation(self, value: str, scale: float, bits: int, *, signed: bool) -> str:
        size = np.float32(scale)
        if self.in_qonnx:
            more = [np.array(a, np.float32) for a in (size, 0, bits)]
            return self.add("Quant", value, more, signed=int(signed), narrow=0)
        dtype = np.int8 if signed else np.uint8
        stored = self.add("QuantizeLinear", value, [np.array(size), np.zeros((), dtype)])
        if bits < 8:
            ends = [np.array(end, dtype) for end in (0, (1 << bits) - 1)]
            stored = self.add("Clip", stored, ends)
        return self.add("DequantizeLinear", stored, [np.array(size), np.zeros((), dtype)])

    def weights(self, integers: Array, scale: Array) -> str:
        if self.in_qonnx:
            real = (integers * scale).astype(np.float32)
            more = [real, scale, np.float32(0), np.float32(BITS)]
            return self.add("Quant", "", [np.asarray(a) for a in more], signed=1, narrow=1)
        ends = [np.array(end, np.int8) for end in (-LAST, LAST)]
        stored = self.add("Clip", "", [integers.astype(np.int8), *ends])
        zeros = np.zeros(scale.size, np.int8)
        return self.add("DequantizeLinear", stored, [scale.reshape(-1), zeros], axis=0)


@dataclass
class Spotter:
    """The trained parameters."""

    x_scale: float
    integers: list[Array] = field(default_factory=list[Array])
    scales: list[Array] = field(default_factory=list[Array])
    norms: list[list[Array]] = field(default_factory=list[list[Array]])
    """Factor, offset, mean and variance of batch normalization, by channel."""
    steps: list[float] = field(default_factory=list[float])
    """The scale of each activation."""

    def features(self, x: Array) -> Real:
        """Return the pooled activations, [n, features], in float64."""
        value = self.x_scale * np.clip(np.rint(x / self.x_scale), -128, 127)
        for layer, norm in enumerate(self.norms):
            sums = self.sums(value, layer)
            factor, offset, mean, variance = (a[:, None, None] for a in norm)
            value = np.maximum(factor * (sums - mean) / np.sqrt(variance + 1e-5) + offset, 0)
            value = self.steps[layer] * np.minimum(np.rint(value / self.steps[layer]), 7)
        n, c, h, w = value.shape
        value = value[:, :, : h // POOL[0] * POOL[0], : w // POOL[1] * POOL[1]]
        value = value.reshape(n, c, h // POOL[0], POOL[0], w // POOL[1], POOL[1])
        return value.mean(axis=(3, 5)).reshape(n, -1)

    def sums(self, value: Real, layer: int) -> Real:
        real = self.integers[layer] * self.scales[layer]
        return convolve(value, real.astype(np.float64), 2, 1, (1, 1, 1, 1), 1)

    def model(self, *, in_qonnx: bool) -> onnx.ModelProto:
        w = _Writer(in_qonnx)
        value = w.activation("x", self.x_scale, 8, signed=True)
        for layer, norm in enumerate(self.norms):
            weights = w.weights(self.integers[layer], self.scales[layer])
            more: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
            value = w.add("Conv", f"{value} {weights}", **more)
            value = w.add("Relu", w.add("BatchNormalization", value, norm))
            value = w.activation(value, self.steps[layer], BITS, signed=False)
        value = w.add("AveragePool", value, kernel_shape=list(POOL), strides=list(POOL))
        value = w.activation(w.add("Flatten", value), self.steps[2], 8, signed=True)
        weights = w.weights(self.integers[2], self.scales[2])
        value = w.add("Gemm", f"{value} {weights}", transB=1)
        w.nodes[-1].output[0] = "scores"
        w.activation("scores", self.steps[3], 8, signed=True)
        w.nodes[-1].output[0] = "y"
        domains = {QONNX: 1} if in_qonnx else None
        shape = (1, 1, 40, 64)
        made = model(w.nodes, {"x": shape}, ["y"], w.tensors, infer=False, domains=domains)
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, WORDS))
        made.graph.output[0].CopyFrom(result)
        return made


def rounded(real: Real) -> tuple[Array, Array]:
    """Return weights as integers of 3 bits, with a scale for each output channel."""
    axes = tuple(range(1, real.ndim))
    scale = (np.abs(real).max(axis=axes, keepdims=True) / LAST).astype(np.float32)
    return np.clip(np.rint(real / scale), -LAST, LAST), scale


def trained() -> tuple[Spotter, Array]:
    """Return the network, and the inputs of the test."""
    rng = np.random.default_rng(0)
    x, labels = words(rng, TRAINED + TESTED)
    x -= x.mean(axis=(1, 2, 3), keepdims=True)
    x = (x / x.std()).astype(np.float32)
    net = Spotter(float(np.float32(np.abs(x).max() / 127)))
    value = x[:TRAINED].astype(np.float64)
    for inputs, outputs in ((1, 16), (16, 32)):
        integers, scale = rounded(rng.normal(size=(outputs, inputs, 3, 3)))
        net.integers.append(integers)
        net.scales.append(scale)
        sums = net.sums(value, len(net.norms))
        factor = rng.uniform(0.7, 1.3, outputs) * np.where(rng.random(outputs) < 0.2, -1, 1)
        moments = sums.mean(axis=(0, 2, 3)), sums.var(axis=(0, 2, 3))
        offset = rng.normal(0, 0.3, outputs)
        net.norms.append([a.astype(np.float32) for a in (factor, offset, *moments)])
        net.steps.append(float(np.float32(2.5 / 7)))
        mean, variance = (a[:, None, None] for a in moments)
        value = factor[:, None, None] * (sums - mean) / np.sqrt(variance) + offset[:, None, None]
        value = np.minimum(np.maximum(value, 0), 2.5)
    found = net.features(x)
    # Averages of eight activations are multiples of an eighth, which are no ties.
    net.steps.append(net.steps[-1] / 8)
    known, wanted = found[:TRAINED], 2.0 * np.eye(WORDS)[labels[:TRAINED]] - 1
    moment = known.T @ known + 30.0 * np.eye(known.shape[1])
    real = np.linalg.solve(moment, known.T @ wanted).T.astype(np.float64)
    integers, scale = rounded(real)
    net.integers.append(integers)
    net.scales.append(scale)
    scores = found @ (integers * scale).T
    net.steps.append(float(np.float32(np.abs(scores).max() / 127)))
    correct = scores[TRAINED:].argmax(axis=1) == labels[TRAINED:]
    assert correct.mean() >= MIN_CORRECT
    return net, x[TRAINED : TRAINED + 16]


def test_both_forms_equal_onnx_runtime():
    net, inputs = trained()
    models = [net.model(in_qonnx=True), net.model(in_qonnx=False)]
    expected = [run_onnxruntime(models[1], {"x": x})["y"] for x in inputs[:, None]]
    for proto in models:
        module = import_model(proto)
        run_stages(load_context(), module, front_stages(BuildOptions(find_target("c")(), "int8")))
        ops = list(main_function(module).body.block.ops)
        assert sum(isinstance(op, graph.ThresholdOp) for op in ops) == 2
        layers = [op for op in ops if isinstance(op, graph.LinearOperation)]
        assert [graph.stored_element(op.weights).width for op in layers] == [BITS] * 3
        results = [run(module, {"x": x})["y"] for x in inputs[:, None]]
        np.testing.assert_array_equal(results, expected)
        check(module, {"x": inputs[:1]})


def test_import_equals_qonnx():
    pytest.importorskip("qonnx", reason="compares with pip's qonnx")
    net, inputs = trained()
    proto = net.model(in_qonnx=True)
    wrapper = import_module("qonnx.core.modelwrapper").ModelWrapper(proto)
    shaped = wrapper.transform(import_module("qonnx.transformation.infer_shapes").InferShapes())
    module = import_model(proto)
    for x in inputs[:, None]:
        expected = import_module("qonnx.core.onnx_exec").execute_onnx(shaped, {"x": x})["y"]
        np.testing.assert_array_equal(run(module, {"x": x})["y"], expected)
