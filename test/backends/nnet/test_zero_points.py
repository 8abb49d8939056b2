"""Random layers with zero points in the FPGA's circuits equal the interpreter, bit for bit."""

from operator import itemgetter

import numpy as np
import pytest
from backends.nnet.drawn import INT8, INT32, Drawn
from backends.nnet.networks import OTHER_PROCESSORS, agree
from graph_networks import Network

from ceras_ir.backends.nnet import rules
from ceras_ir.backends.nnet.rules import FPGA
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType


@pytest.mark.parametrize("seed", range(4))
def test_random_layers(seed: int):
    agree(Drawn(seed).module(30))


@pytest.mark.slow
@pytest.mark.parametrize("flags", OTHER_PROCESSORS, ids=itemgetter(2))
def test_random_layers_on_other_processors(flags: tuple[str, ...]):
    """The array has another order and other padding values for each set of instructions."""
    for seed in range(4, 8):
        agree(Drawn(seed).module(40), flags=flags)


@pytest.mark.parametrize("point", [-128, 127])
def test_constants_next_to_32_bits(point: int):
    """
    The maximum number of products of a single sign has the largest zero point; the bias adds the
    rest.
    """
    element = UniformType(0.5, point)
    net = Network([((1, 2, 1, rules.MAX_PATCH // 2), element)])
    (x,) = net.inputs
    weights = np.full((2, 2, 1, rules.MAX_PATCH // 2), -128, np.int8)
    bias = np.array([(1 << 31) - 1 - rules.MAX_PATCH * 128 * 255], np.int32)
    op = graph.Conv2dOp(
        x, net.constant(weights, INT8), net.constant(np.concatenate([bias, -bias]), INT32),
        result_element=INT8, requant=RequantAttr(24),
    )  # fmt: skip
    net.add(op, FPGA)
    # The sum is largest if all values have the maximum distance from the zero point.
    far = np.full((1, 2, 1, rules.MAX_PATCH // 2), -1 - point, np.int8)
    same = net.add(graph.Conv2dOp(
        net.constant(far, element), op.weights, op.bias, result_element=INT8,
        requant=RequantAttr(24),
    ), FPGA)  # fmt: skip
    agree(net.module(op.result, same))
