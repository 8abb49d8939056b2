"""Check that fusion keeps the float32 bits of all values, on random networks."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from onnx_random import random_network
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import input_names, main_function
from ceras_ir.network.storage import WEIGHT_EXPONENT
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.transforms.graph.branches import DistributeConcatPass
from ceras_ir.transforms.graph.fold_identities import NeutralRule
from ceras_ir.transforms.graph.fuse import (
    ActivationRule,
    ResidualRule,
    SplitActivationRule,
)
from ceras_ir.transforms.graph.fuse_functions import (
    MAX_HARD_SWISH_ERROR,
    ElementwiseRule,
    SwishToHardSwishPass,
)
from ceras_ir.transforms.quantization.observe_ranges import ObserveRangesPass
from ceras_ir.transforms.quantization.residuals import UnfuseResidualPass

Arrays = Mapping[str, npt.NDArray[np.generic]]

FUSIONS = (ElementwiseRule(), ResidualRule(), ActivationRule())


def inputs(module: ModuleOp, seed: int) -> Arrays:
    main = main_function(module)
    random = np.random.default_rng(seed)
    return {
        name: random.normal(size=graph.shape_of(value)).astype(np.float32)
        for name, value in zip(input_names(main), main.body.block.args, strict=True)
    }


def assert_same_bits(module: ModuleOp, passes: Sequence[ModulePass], seed: int) -> None:
    sample = inputs(module, seed)
    before = run(module, sample)
    for pass_ in passes:
        pass_.apply(load_context(), module)
        verify_module(module)
        after = run(module, sample)
        for name, array in before.items():
            assert array.tobytes() == after[name].tobytes(), (pass_.name, name)


@pytest.mark.parametrize("seed", range(16))
def test_fusion_and_back(seed: int) -> None:
    module = import_model(random_network(seed))
    assert_same_bits(module, (*FUSIONS, SplitActivationRule()), seed)


@pytest.mark.parametrize("seed", range(16))
def test_fusion_is_idempotent(seed: int) -> None:
    module = import_model(random_network(seed))
    for pass_ in FUSIONS:
        pass_.apply(load_context(), module)
    once = str(module)
    for pass_ in FUSIONS:
        pass_.apply(load_context(), module)
    assert str(module) == once


def test_heads_stay_apart() -> None:
    """Remove concatenations of scores in attention, except for softmax across heads."""
    gone = 0
    for seed in range(24):
        module = import_model(random_network(seed, steps=2, kinds=["attention", "binary"]))
        before = concatenations(module)
        assert_same_bits(module, (NeutralRule(), DistributeConcatPass()), seed)
        gone += before - concatenations(module)
    assert gone >= 5


def concatenations(module: ModuleOp) -> int:
    return sum(isinstance(op, graph.ConcatOp) for op in module.walk())


@pytest.mark.slow
def test_unfusing_a_residual() -> None:
    """Use accumulators so coarse that each residual must be removed."""
    unfused = 0
    for seed in range(40):
        module = import_model(random_network(seed))
        for pass_ in (*FUSIONS, SplitActivationRule()):
            pass_.apply(load_context(), module)
        ObserveRangesPass().apply(load_context(), module)
        fused = [
            op
            for op in module.walk()
            if isinstance(op, graph.LinearOperation) and op.residual is not None
        ]
        for op in fused:
            op.attributes[WEIGHT_EXPONENT] = IntegerAttr(60, i64)
        assert_same_bits(module, (UnfuseResidualPass(),), seed)
        unfused += len(fused)
        assert not any(
            isinstance(op, graph.LinearOperation) and op.residual is not None
            for op in module.walk()
        )
    assert unfused > 5


def test_what_hard_swish_costs() -> None:
    text = """
    func.func @main(%x: tensor<60001xf32>) -> tensor<60001xf32> {
      %y = graph.unary <swish> %x : tensor<60001xf32>
      func.return %y : tensor<60001xf32>
    }"""
    module = parse_text(load_context(), text, "swish.mlir")
    x = np.linspace(-30, 30, 60001, dtype=np.float32)
    before = run(module, {"input0": x})["output0"]
    SwishToHardSwishPass().apply(load_context(), module)
    after = run(module, {"input0": x})["output0"]
    error = np.abs(before.astype(np.float64) - after.astype(np.float64))
    # The documented bound holds and is reached to three digits at the documented arguments.
    assert 0.142 <= error.max() <= MAX_HARD_SWISH_ERROR + 0.0005
    assert abs(abs(float(x[error.argmax()])) - 3.0) < 0.01
