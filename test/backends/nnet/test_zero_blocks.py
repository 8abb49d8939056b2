"""The engine skips zero blocks of weights, without a change of any integer."""

from operator import itemgetter

import numpy as np
import pytest
from backends.nnet.drawn import INT8, INT32
from backends.nnet.networks import OTHER_PROCESSORS, agree
from graph_networks import Network
from xdsl.ir import SSAValue

from ceras_ir.backends.nnet.placement import annotate_skipped, skipped_share
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects import graph
from ceras_ir.dialects.mem import CPU
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.support.diagnostics import node_name

ASYMMETRIC = UniformType(0.5, -7)


def weights(rng: np.random.Generator, share: float, *shape: int, zero: int = 0):
    """Return random weights with a share of zero blocks of 16 filters x 16 products."""
    drawn = rng.integers(-128, 128, shape).astype(np.int8).reshape(shape[0], -1)
    for o in range(0, drawn.shape[0], 16):
        for k in range(0, drawn.shape[1], 16):
            if rng.random() < share:
                drawn[o : o + 16, k : k + 16] = zero
    return drawn.reshape(shape)


def convolution(net: Network, x: SSAValue, share: float, seed: int, device: str) -> SSAValue:
    """Return a 3x3 convolution to 40 channels, with a bias."""
    rng = np.random.default_rng(seed)
    channels = graph.shape_of(x)[3]
    plain = weights(rng, share, 40, 3, 3, channels)
    bias = rng.integers(-5000, 5000, 40).astype(np.int32)
    return net.add(
        graph.Conv2dOp(
            *(x, net.constant(plain, INT8), net.constant(bias, INT32)),
            result_element=INT8,
            padding=(1, 1, 1, 1),
            requant=RequantAttr(9),
        ),
        device,
    )


@pytest.mark.parametrize("device", [CPU, FPGA])
@pytest.mark.parametrize("share", [0.4, 0.9, 1.0])
def test_convolutions_and_products(device: str, share: float):
    """Check odd sizes: 9 x 13 and 9 x 40 products, 40 filters, and more than a K-block."""
    net = Network([((1, 7, 6, 13), ASYMMETRIC)])
    (x,) = net.inputs
    y = convolution(net, x, share, 1, device)
    z = convolution(net, y, share, 2, device)
    flat = net.add(graph.ReshapeOp(z, (1, 7 * 6 * 40)))
    rng = np.random.default_rng(3)
    wide = net.constant(weights(rng, share, 20, 7 * 6 * 40), INT8)
    last = net.add(graph.MatmulOp(flat, wide, result_element=INT8, requant=RequantAttr(10)), device)
    agree(net.module(y, last))


def test_zero_is_the_zero_point():
    """Weights on the CPU have zero points; blocks of zero points do not contribute to sums."""
    net = Network([((5, 50), INT8)])
    element = UniformType(INT8.scale, 5)
    plain = weights(np.random.default_rng(4), 0.5, 33, 50, zero=5)
    op = graph.MatmulOp(
        net.inputs[0], net.constant(plain, element), result_element=INT8, requant=RequantAttr(9)
    )
    net.add(op)
    agree(net.module(op.result))
    assert 0.2 < skipped_share(op) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("flags", OTHER_PROCESSORS, ids=itemgetter(2))
def test_other_processors(flags: tuple[str, ...]):
    net = Network([((1, 9, 8, 24), ASYMMETRIC)])
    y = convolution(net, net.inputs[0], 0.6, 5, FPGA)
    z = convolution(net, y, 0.6, 6, CPU)
    agree(net.module(y, z), flags=flags)


def test_the_share_is_of_products():
    """Blocks at the border are smaller: 4 of 20 filters, 2 of 18 products."""
    net = Network([((1, 18), INT8)])
    plain = np.ones((20, 18), np.int8)
    plain[16:, 16:] = 0
    op = graph.MatmulOp(
        net.inputs[0], net.constant(plain, INT8), result_element=INT8, requant=RequantAttr(4)
    )
    net.add(op)
    assert skipped_share(op) == 4 * 2 / (20 * 18)
    module = net.module(op.result)
    layers: list[dict[str, object]] = [{"name": node_name(op), "op": "matmul"}]
    annotate_skipped(layers, module)
    assert layers[0]["skipped_products"] == 0.0222
