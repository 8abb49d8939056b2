"""Grouped and depthwise convolutions run as groups of 16-channel blocks."""

import numpy as np
import pytest
from backends.vta_lowering.layers import Layer, apply, check_all_levels, random_array
from slow_cases import slow

from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.rules.admission import VTA
from ceras_ir.backends.vta.rules.channel_constants import block_groups, groups_together
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.transforms.placement import PlacePass

CASES = [
    # groups, input channels, output channels, merged groups of the convolution, groups of blocks
    (32, 32, 32, 16, 2),
    (24, 24, 24, 16, 2),
    (8, 8, 16, 8, 1),
    (4, 64, 128, 1, 4),
    (2, 32, 16, 2, 1),
    (3, 48, 24, 3, 1),
    (20, 20, 40, 20, 1),
    (32, 32, 64, 16, 2),
]


def grouped(groups: int, inputs: int, outputs: int, size: int = 7) -> Layer:
    rng = np.random.default_rng(groups + inputs)
    return Layer(
        random_array(rng, (1, size, size, inputs)),
        random_array(rng, (outputs, 3, 3, inputs // groups)),
        rng.integers(-2000, 2000, outputs).astype(np.int32),
        random_array(rng, (1, size, size, outputs)),
        padding=(1, 1, 1, 1),
        residual_shift=5,
        requant=RequantAttr(7),
        groups=groups,
    )


@pytest.mark.parametrize(
    ("groups", "inputs", "outputs", "together", "blocks"),
    [*CASES[:3], *(slow(*c) for c in CASES[3:])],
)
def test_every_level(groups: int, inputs: int, outputs: int, together: int, blocks: int):
    layer = grouped(groups, inputs, outputs)
    module = layer.module()
    conv = next(op for op in module.walk() if isinstance(op, graph.Conv2dOp))
    assert (groups_together(conv, 16), block_groups(conv, 16)) == (together, blocks)
    check_all_levels(module, layer.inputs, layer.expected())


def test_where_it_pays():
    """
    A small layer does not justify the transfers. A large layer runs on VTA, as the board predicts.
    """
    for size, device in ((1, mem.CPU), (14, VTA)):
        module = grouped(32, 32, 32, size).module()
        apply(module, PlacePass(target="vta", board="tsim"))
        conv = next(op for op in module.walk() if isinstance(op, graph.Conv2dOp))
        assert mem.device_of(conv) == device, conv.attributes
    assert load_board("tsim").clock == 333
