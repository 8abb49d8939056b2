"""Test loops with a body in C under the sanitizers, bit for bit against the interpreter."""

from pathlib import Path

import numpy as np
import pytest
from backends.c.everywhere import BUILDS, Network, outputs_of
from c_harness import check, place
from firmware import write_files
from loop_networks import NETWORKS, inputs, recurrent
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.c.emitter import build, files_of
from ceras_ir.backends.c.machines import COptions
from ceras_ir.dialects.graph import LinearOperation, LoopOp
from ceras_ir.dialects.graph.calls import called_functions
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import UnsupportedError
from ceras_ir.transforms.graph.fuse import FusePass


def fused(name: str) -> ModuleOp:
    module = import_model(NETWORKS[name]())
    FusePass().apply(Context(), module)
    return module


@pytest.mark.parametrize("name", NETWORKS)
def test_loops_are_exact(name: str) -> None:
    for seed in (0, 1):
        check(fused(name), inputs(seed))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gcc-sanitized", "clang-sanitized", "i686", "aarch64"])
@pytest.mark.parametrize("name", NETWORKS)
def test_loops_are_exact_however_they_are_compiled(name: str, kind: str, tmp_path: Path) -> None:
    if missing := BUILDS[kind].missing:
        pytest.skip(f"needs {missing}")
    module, sample = place(fused(name)), inputs(2)
    main, expected = main_function(module), run(module, sample)
    ends = network_inputs(main), network_outputs(main)
    write_files(files_of(build(module, COptions())), tmp_path)
    network = Network(tmp_path, *ends, sample, expected, is_float=True)
    for end, array in outputs_of(network, BUILDS[kind]).items():
        np.testing.assert_array_equal(array, expected[end], err_msg=end)


def test_sums_of_a_body_are_ordered_behind_fusion() -> None:
    (body,) = called_functions(main_function(fused("recurrent")))
    linear = [op for op in body.body.block.ops if isinstance(op, LinearOperation)]
    assert [op.ordered is not None for op in linear] == [True]


def test_loops_share_the_memory_of_their_steps() -> None:
    """
    A step holds no values while another loop runs, so two loops share the bytes of a single loop.
    """
    proto = recurrent()
    other = proto.graph.node.add()
    other.CopyFrom(proto.graph.node[1])
    other.input[2] = "last"
    other.output[:] = ["end", ""]
    proto.graph.output[0].name = "end"
    one, two = (build(place(import_model(p)), COptions()) for p in (recurrent(), proto))
    assert [len(model.bodies) for model in (one, two)] == [1, 2]
    assert one.scratch_bytes == two.scratch_bytes > one.bodies[0].arena_bytes > 0


def test_bytes_of_results_are_not_returned() -> None:
    module = import_model(recurrent())
    (packed,) = (op for op in module.walk() if isinstance(op, LoopOp))
    main = main_function(module)
    end = main.body.block.last_op
    assert end is not None
    end.operands[0] = packed.result
    main.update_function_type()
    with pytest.raises(UnsupportedError, match="return extracted values"):
        build(place(module), COptions())
