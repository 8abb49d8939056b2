"""
Check that masks and zeros survive each pass that keeps the layer. The verifier compares zeros with
masks; these tests check that no pass drops a mask.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_random import random_network
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.dialects.sparse import MASK, MaskAttr
from ceras_ir.frontends.onnx import import_model
from ceras_ir.network.function import input_names, main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.memory.reorder_for_memory import ReorderForMemoryPass
from ceras_ir.transforms.pass_kinds import flatten
from ceras_ir.transforms.placement import PlacePass
from ceras_ir.transforms.pruning.prune import PrunePass
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization_options import OPTIONAL_PASSES


def masked(module: ModuleOp) -> list[graph.LinearOperation]:
    """Return the layers that have a mask."""
    return [op for op in module.walk() if isinstance(op, graph.LinearOperation) and mask_of(op)]


def mask_of(op: graph.LinearOperation) -> MaskAttr | None:
    mask = op.attributes.get(MASK)
    return mask if isinstance(mask, MaskAttr) else None


def calibration(module: ModuleOp, folder: str, seed: int) -> str:
    """Write a file of samples."""
    main, random = main_function(module), np.random.default_rng(seed)
    arrays = {
        name: random.normal(size=(4, *graph.shape_of(value)[1:])).astype(np.float32)
        for name, value in zip(input_names(main), main.body.block.args, strict=True)
    }
    path = Path(folder) / "data.npz"
    np.savez(path, allow_pickle=False, **arrays)
    return str(path)


def hold(module: ModuleOp, passes: list[ModulePass]) -> None:
    """Run passes. After each pass, the same layers have masks, and masked weights are zero."""
    kept = sorted(mask.kept.data for op in masked(module) if (mask := mask_of(op)))
    for pass_ in passes:
        for inner in flatten(pass_):
            inner.apply(load_context(), module)
            verify_module(module)
            left = sorted(mask.kept.data for op in masked(module) if (mask := mask_of(op)))
            assert left == kept, inner.name


@pytest.mark.slow
@pytest.mark.parametrize("early", [False, True], ids=["fused", "as imported"])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 1 << 20),
    pruning=st.sampled_from(
        [
            PrunePass("filter", sparsity=0.7),
            PrunePass(sparsity=0.5),
            PrunePass("block", block="4x1", sparsity=0.6),
            PrunePass("nm", pattern="1:4"),
            PrunePass("global", sparsity=0.8),
        ]
    ),
)
def test_passes_keep_masks(early: bool, seed: int, pruning: PrunePass):
    check(early, seed, pruning)


def test_passes_keep_masks_of_one_network():
    check(early=True, seed=5, pruning=PrunePass("filter", sparsity=0.7))


def check(early: bool, seed: int, pruning: PrunePass) -> None:
    """Import, fuse, prune, quantize with all passes, place and plan a network."""
    module = import_model(random_network(seed))
    fusing: list[ModulePass] = [FusePass()]
    if not early:
        hold(module, fusing)
    pruning.apply(load_context(), module)
    verify_module(module)
    with TemporaryDirectory() as folder:
        quantizing = QuantizePass(
            calibration(module, folder, seed), recipe=tuple(sorted(OPTIONAL_PASSES))
        )
        later = [quantizing, PlacePass(), ReorderForMemoryPass(), AllocateBlocksPass()]
        hold(module, [*(fusing if early else []), *later])
