"""
In networks of several layers, the layout remains packed between launches, and all share an image.
"""

import numpy as np
import pytest
from backends.vta_lowering.layers import (
    INT8,
    Layer,
    apply,
    check_all_levels,
    network,
    random_array,
)
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block

from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.passes.fold_packing import FoldPackingPass
from ceras_ir.dialects import mem
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.interpreters.network import Array, run
from ceras_ir.transforms.placement import PlacePass


def residual_block(channels: int = 20) -> tuple[ModuleOp, dict[str, Array], Array]:
    """Return three convolutions. The second adds the input of the first."""
    rng = np.random.default_rng(0)
    x = random_array(rng, (1, 9, 7, channels))
    zeros = np.zeros((1, 9, 7, channels), np.int8)
    pad, requant = (1, 1, 1, 1), RequantAttr(9, low=3)
    layers = [
        Layer(zeros, random_array(rng, (channels, 3, 3, channels)), padding=pad, requant=requant)
        for _ in range(3)
    ]
    block = Block(arg_types=[TensorType(INT8, x.shape)])
    first = layers[0].add_to(block, block.args[0], None)
    second = layers[1].add_to(block, first, block.args[0])
    module = network(block, layers[2].add_to(block, second, None))
    inputs: dict[str, Array] = {"input0": x}
    return module, inputs, run(module, inputs)["output0"]


@pytest.mark.slow
def test_residual_block():
    check_all_levels(*residual_block())


def test_data_is_packed_once_and_unpacked_once():
    module, _, _ = residual_block()
    apply(module, PlacePass(target="vta"), ConvertGraphToTilePass(), FoldPackingPass())
    names = [op.name for op in module.walk() if op.name.startswith("mem.")]
    assert names.count("mem.pack") == 1
    assert names.count("mem.unpack") == 1
    assert names.count("mem.launch") == 3


def test_equal_layers_share_a_kernel():
    module, _, _ = residual_block()
    apply(module, PlacePass(target="vta"), ConvertGraphToTilePass())
    kernels = {op.kernel.string_value() for op in module.walk() if isinstance(op, mem.LaunchOp)}
    assert sorted(kernels) == ["conv2d_0", "conv2d_1"]


@pytest.mark.slow
def test_same_input_same_bytes():
    images = [check_all_levels(*residual_block()) for _ in range(2)]
    assert images[0].dram().tobytes() == images[1].dram().tobytes()
    streams = [
        [launch.program.instruction_bytes(image.board) for launch in image.launches]
        for image in images
    ]
    assert streams[0] == streams[1]


def test_launches_have_their_own_micro_op_tables():
    image = check_all_levels(*residual_block())
    tables = [r for r in image.regions() if r.kind == "micro_ops"]
    assert len(tables) == 3
    ends = [image.arena_bytes, *(t.offset + t.size for t in tables)]
    assert all(end <= table.offset for end, table in zip(ends, tables, strict=False))
    assert ends[-1] <= image.size
