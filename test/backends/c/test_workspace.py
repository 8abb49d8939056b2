"""Test that workspaces use bytes that hold no value for this layer or later layers."""

import numpy as np
import pytest
from c_harness import Values, check, constant, make_network, place
from slow_cases import first_fast
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.hints import isa

from ceras_ir.backends.c.emitter import build
from ceras_ir.backends.c.machines import COptions
from ceras_ir.dialects.graph import Conv2dOp
from ceras_ir.dialects.mem import block_of
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.pipeline.report import memory_plan
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.memory.liveness import analyse, steps

Q = UniformType(0.5)


def hourglass() -> ModuleOp:
    """Return wide, narrow and wide maps, with a branch around them."""
    rng = np.random.default_rng(0)

    def conv(
        x: SSAValue, outputs: int, taken: int, stride: int = 1, skip: SSAValue | None = None
    ) -> SSAValue:
        weights = rng.integers(-128, 128, (outputs, 3, 3, taken)).astype(np.int8)
        return Conv2dOp(
            x, constant(weights, Q), None, skip, result_element=Q, strides=(stride, stride),
            padding=[1, 1, 1, 1], requant=RequantAttr(9),
            residual_shift=None if skip is None else 2,
        ).result  # fmt: skip

    def body(x: SSAValue) -> Values:
        wide = conv(x, 32, 4)
        narrow = conv(conv(conv(conv(wide, 8, 32, 2), 64, 8, 4), 64, 64), 8, 64)
        side = conv(conv(x, 8, 4, 2), 8, 8, 4)
        return [conv(conv(side, 8, 8, 1, narrow), 16, 8)]

    return make_network([(Q, (1, 24, 24, 4))], body)


OPTIONS = [
    COptions(workspace=1 << 14),
    COptions(workspace=0, vectors=False),
    COptions(workspace=1 << 13, vectors=False, dsp=True),
]


@pytest.mark.parametrize("options", OPTIONS, ids=["hosts", "small", "smlad"])
def test_no_live_byte_is_touched(options: COptions):
    module = place(hourglass())
    model = build(module, options)
    order = steps(model.program.main)
    assert model.workspaces
    for index, arena in model.workspaces.items():
        at = arena.offset
        end = at + model.layers[index].scratch_bytes
        assert end <= model.arena_bytes
        assert order[index] is model.layers[index].op
        for buffer in analyse(model.program.main).buffers:
            if not buffer.lower <= index < buffer.upper:
                continue
            for value in buffer.values:
                if (block := block_of(value)) is not None:
                    start = block.offset.data
                    assert end <= start or start + buffer.size <= at, (index, buffer)


@pytest.mark.parametrize("options", OPTIONS, ids=["hosts", "small", "smlad"])
def test_the_memory_plan_of_the_report_has_the_workspaces(options: COptions):
    module = place(hourglass())
    model = build(module, options)
    plan = memory_plan(module, model.added_buffers)
    assert plan is not None
    buffers = plan["buffers"]
    assert isa(buffers, list[dict[str, object]])
    added = [b for b in buffers if b.get("kind") == "workspace"]
    order = steps(model.program.main)
    names = {i: node_name(op) for i, op in enumerate(order) if model.layers[i].scratch_bytes}
    assert {b["first_step"]: b["name"] for b in added} == names
    assert [b["size"] for b in added] == [model.layers[i].scratch_bytes for i in names]
    ends = [int(str(b["offset"])) + int(str(b["size"])) for b in buffers]
    assert max(ends) == plan["size"] == model.arena_bytes > model.program.arena_bytes
    assert plan["value_bytes"] == model.program.arena_bytes


def test_gaps_are_used():
    """The workspaces after the plan are smaller than the largest workspace."""
    model = build(place(hourglass()), OPTIONS[1])
    assert model.arena_bytes < model.program.arena_bytes + model.scratch_bytes


@pytest.mark.parametrize("options", first_fast(2, OPTIONS), ids=["hosts", "small", "smlad"])
def test_results_are_the_interpreters(options: COptions):
    check(hourglass(), options=options)
