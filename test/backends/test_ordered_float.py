"""Float layers of a quantized network add in a specified order, so that all targets agree."""

from collections.abc import Callable

import numpy as np
import pytest
from c_harness import check
from graph_networks import Network, random_array
from xdsl.dialects.builtin import UnitAttr, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function
from ceras_ir.targets.registry import target_names

Build = Callable[[Network, SSAValue, SSAValue], graph.LinearOperation]


def parameter(net: Network, *shape: int) -> SSAValue:
    """Return constants of several magnitudes, so that the order of a sum is visible."""
    rng = np.random.default_rng(sum(shape))
    magnitudes = 10.0 ** rng.integers(-4, 3, shape)
    values = random_array(shape, f32, 3).astype(np.float64) * magnitudes
    return net.constant(values.astype(np.float32))


def dense(net: Network, x: SSAValue, y: SSAValue) -> graph.LinearOperation:
    return graph.Conv2dOp(
        *(x, parameter(net, 8, 3, 3, 8), parameter(net, 8), y),
        result_element=f32,
        padding=(1, 1, 1, 1),
        activation=FunctionAttr(Function.SWISH),
    )


def grouped(net: Network, x: SSAValue, y: SSAValue) -> graph.LinearOperation:
    return graph.Conv2dOp(
        *(x, parameter(net, 6, 2, 3, 4), parameter(net, 6)),
        result_element=f32,
        padding=(0, 2, 1, 0),
        strides=(2, 1),
        dilations=(1, 2),
        groups=2,
    )


def depthwise(net: Network, x: SSAValue, y: SSAValue) -> graph.LinearOperation:
    return graph.Conv2dOp(
        *(x, parameter(net, 8, 3, 3, 1), parameter(net, 8), y),
        result_element=f32,
        padding=(1, 1, 1, 1),
        groups=8,
        activation=FunctionAttr(Function.CLIP, (0.0, 6.0)),
    )


def pointwise(net: Network, x: SSAValue, y: SSAValue) -> graph.LinearOperation:
    weights = parameter(net, 5, 1, 1, 8)
    return graph.Conv2dOp(x, weights, result_element=f32)


def product(net: Network, x: SSAValue, y: SSAValue) -> graph.LinearOperation:
    flat = net.add(graph.ReshapeOp(x, (6, 40)))
    return graph.MatmulOp(flat, parameter(net, 7, 40), parameter(net, 7), result_element=f32)


def network(build: Build) -> tuple[Network, SSAValue]:
    net = Network([((1, 6, 5, 8), f32), ((1, 6, 5, 8), f32)])
    op = build(net, *net.inputs)
    op.ordered = UnitAttr()
    return net, net.add(op)


@pytest.mark.parametrize("build", [dense, grouped, depthwise, pointwise, product])
def test_targets_agree(build: Build) -> None:
    if "nnet" in target_names():
        from backends.nnet.networks import agree

        net, result = network(build)
        agree(net.module(result))
    net, result = network(build)
    module = net.module(result)
    for op in main_function(module).body.block.ops:
        for name in [name for name in op.attributes if name.startswith("mem.")]:
            del op.attributes[name]
    # Contraction and vectors that the processor allows must not be visible either.
    check(module, flags=("-O3", "-march=native"))


def test_the_order_is_that_of_the_weights() -> None:
    big = np.float32(2.0**24)
    net = Network([((1, 4), f32)])
    weights = net.constant(np.array([[big, 1, 1, -big], [1, 1, big, -big]], np.float32))
    bias = net.constant(np.array([0.5, 0.5], np.float32))
    op = graph.MatmulOp(net.inputs[0], weights, bias, result_element=f32)
    op.ordered = UnitAttr()
    result = run(net.module(net.add(op)), {"input0": np.ones((1, 4), np.float32)})["output0"]
    # 2^24 + 1 is not a float32 and rounds to 2^24; 2 + 2^24 is a float32.
    assert np.asarray(result).tolist() == [[0.5, 2.5]]
