"""Check that a run in a single byte array detects invalid memory plans."""

from typing import Literal

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.irdl import traits_def
from xdsl.parser import Parser
from xdsl.traits import OpTrait

from ceras_ir.dialects.graph import Pool2dOp
from ceras_ir.dialects.graph.attributes import Elementwise, MayOverwrite
from ceras_ir.dialects.mem import BLOCK, BlockAttr
from ceras_ir.interpreters.network import run, run_in_arena
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.support.diagnostics import Finding, node_name
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.transforms.memory.check_blocks import check_plan
from ceras_ir.transforms.memory.liveness import analyse

CTX = load_context()


def network() -> ModuleOp:
    """Build two branches, a reshape and a value with three consumers."""
    return Parser(
        CTX,
        """
        func.func @main(%x: tensor<1x4xf32>) -> tensor<1x8xf32> {
          %a = graph.unary <relu> %x : tensor<1x4xf32>
          %b = graph.binary add %a, %x : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
          %r = graph.reshape %b : (tensor<1x4xf32>) -> tensor<4xf32>
          %c = graph.unary <sigmoid> %a : tensor<1x4xf32>
          %d = graph.binary mul %c, %r : (tensor<1x4xf32>, tensor<4xf32>) -> tensor<1x4xf32>
          %e = graph.binary add %d, %a : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
          %f = graph.concat %d, %e {axis = 1 : i64}
            : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
          func.return %f : tensor<1x8xf32>
        }""",
    ).parse_module()


INPUT = {"input0": np.array([[1.0, -2.0, 3.0, 0.5]], np.float32)}


@pytest.mark.parametrize("strategy", ["offsets", "colouring"])
@pytest.mark.parametrize("io", [False, True])
def test_a_plan_changes_no_value(strategy: Literal["offsets", "colouring"], io: bool):
    module = network()
    expected = run(module, INPUT)["output0"]
    AllocateBlocksPass(strategy=strategy, io=io).apply(CTX, module)
    module.verify()
    assert np.array_equal(run_in_arena(module, INPUT)["output0"], expected)


def test_the_peak_is_the_lower_bound_here():
    liveness = analyse(main_function(network()), include_io=True)
    # The live values are %d and %e of 16 bytes and %f of 32; before that %a, %r, %c and %d.
    assert liveness.lower_bound() == 64


def test_two_reshapes_of_one_value_are_the_same_bytes():
    module = Parser(
        CTX,
        """
        func.func @main(%x: tensor<1x4xf32>) -> tensor<4xf32> {
          %a = graph.unary <relu> %x : tensor<1x4xf32>
          %r = graph.reshape %a : (tensor<1x4xf32>) -> tensor<4xf32>
          %s = graph.reshape %a : (tensor<1x4xf32>) -> tensor<4x1xf32>
          %u = graph.unary <exp> %r : tensor<4xf32>
          %t = graph.reshape %s : (tensor<4x1xf32>) -> tensor<4xf32>
          %d = graph.binary add %t, %u : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
          func.return %d : tensor<4xf32>
        }""",
    ).parse_module()
    expected = run(module, INPUT)["output0"]
    AllocateBlocksPass().apply(CTX, module)
    assert np.array_equal(run_in_arena(module, INPUT)["output0"], expected)


def test_a_bad_plan_is_found_and_computes_something_else():
    module = network()
    expected = run(module, INPUT)["output0"]
    AllocateBlocksPass().apply(CTX, module)
    main = main_function(module)
    relu, add, *_ = main.body.block.ops
    clash = relu.attributes[BLOCK]
    assert isinstance(clash, BlockAttr)
    add.attributes[BLOCK] = clash
    findings = check_plan(main)
    assert any("was overwritten before it was read" in f.message for f in findings)
    assert not np.array_equal(run_in_arena(module, INPUT)["output0"], expected)
    # An addition may write exactly over an operand of equal shape, but not at an offset.
    for further in (4, 15):
        add.attributes[BLOCK] = BlockAttr(7, clash.offset.data + further, clash.size.data)
        overlap = "result overlaps an operand it reads"
        assert Finding(node_name(add), add.name, overlap) in check_plan(main)


def test_a_block_outside_the_arena_is_found():
    module = network()
    AllocateBlocksPass().apply(CTX, module)
    main = main_function(module)
    first = next(iter(main.body.block.ops))
    first.attributes[BLOCK] = BlockAttr(9, 1 << 20, 8)
    assert {f.message for f in check_plan(main)} >= {
        "16 bytes in a block of 8",
        f"bytes to {(1 << 20) + 8} in an arena of 48",
    }
    first.attributes[BLOCK] = BlockAttr(9, 2, 16)
    assert any("offset 2 is not aligned to 16" in f.message for f in check_plan(main))


@pytest.mark.parametrize("listed", [(Elementwise(), MayOverwrite()), (MayOverwrite(),)])
def test_a_window_that_claims_to_overwrite_its_operand_is_found(
    monkeypatch: pytest.MonkeyPatch, listed: tuple[OpTrait, ...]
):
    """The checker trusts the first trait; bytes in the arena trust neither."""
    module = Parser(
        CTX,
        """
        func.func @main(%x: tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> {
          %a = graph.unary <relu> %x : tensor<1x8x8x4xf32>
          %p = graph.pool2d max %a {kernel = array<i64: 3, 3>, padding = array<i64: 1, 1, 1, 1>}
            : (tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>
          %y = graph.unary <tanh> %p : tensor<1x8x8x4xf32>
          func.return %y : tensor<1x8x8x4xf32>
        }""",
    ).parse_module()
    image = {"input0": np.random.default_rng(0).normal(size=(1, 8, 8, 4)).astype(np.float32)}
    expected = run(module, image)["output0"]
    monkeypatch.setattr(Pool2dOp, "traits", traits_def(*listed))
    if len(listed) == 1:
        with pytest.raises(AssertionError, match="result overlaps an operand it reads"):
            AllocateBlocksPass().apply(CTX, module)
        return
    AllocateBlocksPass().apply(CTX, module)
    assert check_plan(main_function(module)) == []
    assert not np.array_equal(run_in_arena(module, image)["output0"], expected)
