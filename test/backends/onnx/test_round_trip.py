"""
Random networks give equal integers after `-t onnx` and an import, and in ONNX Runtime, for all
quantization schemes; averages may differ by the error of reciprocals.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx_models import Array, Attribute, model, node, run_onnxruntime
from onnx_random import random_network
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.target import CTarget
from ceras_ir.backends.onnx.export import export_model
from ceras_ir.backends.vta.target import VtaTarget
from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.graph.fuse import FusePass

ROWS = ("equalize-channels", "choose-row-exponents")
SCHEMES = {
    "plain": BuildOptions(quantize="int8", recipe=("none",)),
    "channels": BuildOptions(quantize="int8", recipe=("equalize-channels",)),
    "rows": BuildOptions(quantize="int8", recipe=ROWS, silu="table16"),
    "table16": BuildOptions(quantize="int8", recipe=("none",), silu="table16"),
    "hardswish": BuildOptions(quantize="int8", recipe=("none",), silu="hardswish"),
    "float-silu": BuildOptions(quantize="int8", recipe=("none",), silu="float"),
}
MIXED = ("both", "int16", "float")


def compiled(proto: onnx.ModelProto, options: BuildOptions) -> ModuleOp:
    module = import_model(proto)
    run_stages(load_context(), module, front_stages(options.resolved(module)))
    return module


def layers(proto: onnx.ModelProto) -> list[str]:
    """Return the names of operations with arithmetic, which may have a different precision."""
    module = import_model(proto)
    FusePass().apply(load_context(), module)
    kinds = (graph.Conv2dOp, graph.MatmulOp, graph.BinaryOp, graph.Pool2dOp, graph.UnaryOp)
    ops = main_function(module).body.block.ops
    return list(dict.fromkeys(node_name(op) for op in ops if isinstance(op, kinds)))


def same_again(module: ModuleOp) -> tuple[onnx.ModelProto, list[dict[str, Array]]]:
    """
    Return the model of `module` and inputs, after a check that imports of the model give equal
    results, also for targets that only shift.
    """
    proto = export_model(module, "network")
    imported = [compiled(proto, BuildOptions(target)) for target in (CTarget(), VtaTarget())]
    samples = list(synthetic_samples(main_function(module), 2, seed=5))
    for sample in samples:
        for name, expected in run(module, sample).items():
            for again in imported:
                found = run(again, sample)[name]
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)
    return proto, samples


@pytest.mark.parametrize("seed", [11, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scheme", first_fast(1, SCHEMES))
def test_schemes(scheme: str, seed: int) -> None:
    module = compiled(random_network(seed, steps=7), SCHEMES[scheme])
    proto, samples = same_again(module)
    for sample in samples:
        expected = run(module, sample)
        found = run_onnxruntime(proto, sample)
        for name, array in expected.items():
            # Results after a float operation such as softmax are as exact as the operation.
            assert np.abs(found[name] - np.asarray(array, np.float32)).max() <= 1e-6


@pytest.mark.parametrize("seed", [6, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", first_fast(1, MIXED))
def test_layers_in_16_bits_and_in_float(kind: str, seed: int) -> None:
    proto = random_network(seed, steps=7)
    names = layers(proto)
    in_float = tuple(names[1::3]) if kind != "int16" else ()
    int16 = tuple(names[0::2] if kind == "int16" else names[2::3]) if kind != "float" else ()
    options = BuildOptions(quantize="int8", recipe=("none",), int16=int16, float=in_float)
    same_again(compiled(proto, options))


AVERAGES: dict[str, dict[str, Attribute]] = {
    "6": {"kernel_shape": [3, 2]},
    "padding": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    "padding included": {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1},
    "powers of two": {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]},
    "large": {"kernel_shape": [12, 15]},
}


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("case", AVERAGES)
def test_ties_of_averages(case: str, bits: int) -> None:
    """Small integers make several averages ties."""
    shape = (1, 16, 12, 15)
    proto = model([node("AveragePool", "x", "y", **AVERAGES[case])], {"x": shape}, ["y"])
    int16 = ("*",) if bits == 16 else ()
    options = BuildOptions(quantize="int8", recipe=("none",), int16=int16, io="int8")
    options = replace(options, observer="mse")
    module = compiled(proto, options)
    exported, _ = same_again(module)
    random = np.random.default_rng(7)
    limit = 4 if bits == 8 else 1000
    stored = random.integers(-limit, limit, shape)
    # Half of the elements are 3, or -3: ties of the largest window.
    stored[:, :2] = (np.arange(180).reshape(12, 15) % 2) * np.array([3, -3])[:, None, None]
    sample = {"x": stored.astype(f"int{bits}")}
    (expected,) = run(module, sample).values()
    (found,) = run_onnxruntime(exported, sample).values()
    np.testing.assert_array_equal(found, expected)
    (plain,) = run_onnxruntime(export_model(module, "network", exact=False), sample).values()
    assert bits == 16 or (plain != expected).any()
