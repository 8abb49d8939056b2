"""Each rule of VTA names the reason and the remedy, and placement leaves such layers on the CPU."""

import numpy as np
import pytest
from backends.vta_lowering.layers import INT8, Layer, apply, network, random_array
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Block

from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
from ceras_ir.backends.vta.rules.admission import ADMISSION_RULES, VTA, why_not
from ceras_ir.dialects import graph, mem
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType
from ceras_ir.support.diagnostics import UnsupportedError
from ceras_ir.transforms.placement import PlacePass

RNG = np.random.default_rng(0)


def linear(module: ModuleOp) -> graph.LinearOperation:
    return next(op for op in module.walk() if isinstance(op, graph.LinearOperation))


def conv(
    *,
    element: UniformType = INT8,
    weights: UniformType = INT8,
    groups: int = 1,
    requant: RequantAttr | None = None,
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    size: int = 6,
    window: int = 3,
    dilation: int = 1,
    constant: bool = True,
) -> ModuleOp:
    weights_type = TensorType(weights, (4, window, window, 4 // groups))
    block = Block(arg_types=[TensorType(element, (1, size, size, 4)), weights_type])
    stored = graph.ConstantOp.from_array(random_array(RNG, weights_type.get_shape()), weights)
    block.add_op(stored)
    op = graph.Conv2dOp(
        block.args[0],
        stored.result if constant else block.args[1],
        result_element=INT8,
        groups=groups,
        padding=padding,
        dilations=(dilation, dilation),
        requant=requant or RequantAttr(7),
    )
    block.add_op(op)
    return network(block, op.result)


def test_allowed():
    assert why_not(linear(conv())) is None


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (conv(weights=UniformType(0.5, 3)), "no zero point of weights, got 3"),
        (conv(constant=False), "needs constant weights"),
        (conv(requant=RequantAttr(7, multiplier=3)), "multiplier of 3"),
        (conv(requant=RequantAttr(40)), "by at most 31, got 40"),
        (conv(requant=RequantAttr(7, rounding=Rounding.HALF_EVEN)), "got half_even"),
        (conv(requant=RequantAttr(0, multiplier=1 << 20)), "which the sum may exceed"),
        (conv(padding=(3, 0, 0, 0)), "padding smaller than the window"),
        (conv(padding=(16, 0, 0, 0), dilation=9, size=20), "16 vectors of padding at the top"),
        (conv(window=33, size=33), "1089 elements of wgt, the board has 1024"),
    ],
)
def test_refused(module: ModuleOp, reason: str):
    message = why_not(linear(module))
    assert message is not None and reason in message
    assert message.startswith("VTA") and "\n" not in message


def test_float_is_refused():
    block = Block(arg_types=[TensorType(f32, (2, 3)), TensorType(f32, (4, 3))])
    op = graph.MatmulOp(block.args[0], block.args[1], result_element=f32)
    block.add_op(op)
    message = why_not(op)
    assert message is not None and "quantize the network" in message


def test_other_operations_are_refused():
    block = Block(arg_types=[TensorType(INT8, (2, 3))])
    op = graph.ReshapeOp(block.args[0], (3, 2))
    block.add_op(op)
    message = why_not(op)
    assert message is not None and message.startswith("VTA runs convolutions, matrix products")


def test_every_rule_is_documented():
    assert all(rule.__doc__ for rule in ADMISSION_RULES)


def test_placement_keeps_the_reason():
    module = conv(requant=RequantAttr(40))
    apply(module, PlacePass(target="vta"))
    op = linear(module)
    assert mem.device_of(op) == mem.CPU
    assert "by at most 31" in str(op.attributes[mem.REASON])


def test_conversion_refuses_what_was_placed_by_hand():
    module = conv(requant=RequantAttr(40))
    linear(module).attributes[mem.DEVICE] = mem.DeviceAttr(VTA)
    with pytest.raises(UnsupportedError, match=r"unsupported on VTA: .*by at most 31"):
        ConvertGraphToTilePass().apply(Context(), module)


def test_a_bias_that_could_overflow_is_refused():
    bias = np.full(3, 2**31 - 1, np.int32)
    layer = Layer(random_array(RNG, (2, 3)), random_array(RNG, (3, 3)), bias)
    message = why_not(linear(layer.module()))
    assert message is not None and "32 bits" in message
