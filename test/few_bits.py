"""Quantize networks to few bits, and compare the integers of layers with exact fractions."""

from pathlib import Path

import numpy as np
import pytest
from onnx_random import random_network
from quantized_by_hand import trace, wrong_elements
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx import import_file, import_model
from ceras_ir.network.function import input_names, main_function, quantized_layers
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.pass_options import build
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.quantization.quantize import QuantizePass

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
MODEL, CALIBRATION = str(DIGITS / "digits.onnx"), str(DIGITS / "digits_calibration.npz")


def quantized(module: ModuleOp, options: str) -> ModuleOp:
    """Quantize `module` with `options` of the pass as text."""
    ctx = load_context()
    FusePass().apply(ctx, module)
    build(QuantizePass, f"tail=int8 {options}").apply(ctx, module)
    verify_module(module)
    return module


def digits(options: str) -> ModuleOp:
    return quantized(import_file(MODEL), f"calibration={CALIBRATION} {options}")


def integer_layers(module: ModuleOp) -> list[graph.LinearOperation]:
    return [
        op
        for op in main_function(module).body.block.ops
        if isinstance(op, graph.LinearOperation) and op.is_quantized
    ]


def expect_exact_layers(seed: int, options: str) -> None:
    """Compare the layers of a random network, quantized with `options`, with exact fractions."""
    network = import_model(random_network(seed))
    if not quantized_layers(main_function(network)):
        pytest.skip("the network has no layers")
    module = quantized(network, options)
    main, random = main_function(module), np.random.default_rng(seed)
    sample = {
        name: random.uniform(-2, 2, graph.shape_of(value)).astype(np.float32)
        for name, value in zip(input_names(main), main.body.block.args, strict=True)
    }
    values = trace(module, sample)
    for op in integer_layers(module):
        assert list(wrong_elements(op, values, 12, seed)) == []
