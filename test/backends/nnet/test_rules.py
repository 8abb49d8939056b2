"""Refusals of the FPGA are sentences, and the limits are those of the circuits."""

import re
from pathlib import Path

import numpy as np
import pytest
from backends.nnet.drawn import function_tables
from graph_networks import Network, random_array
from xdsl.dialects.builtin import f32, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue

from ceras_ir.backends.nnet import rules
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Binary, Coordinates, Nearest, Pool, Resize
from ceras_ir.dialects.quant import RequantAttr, Rounding, UniformType

INT8, INT32 = UniformType(0.5), UniformType(0.25, storage=i32)
DOCUMENT = Path(__file__).parents[3] / "docs" / "nnet-format.md"
SHIFT = RequantAttr(4)
MEAN = RequantAttr(20, multiplier=1 << 18)
SHIFTED = UniformType(0.5, -128)
TO_EVEN = RequantAttr(20, multiplier=1 << 18, rounding=Rounding.HALF_EVEN, zero_point=-3)


def owner(value: SSAValue) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def convolution(
    *, element: UniformType = INT8, requant: RequantAttr = SHIFT, groups: int = 1,
    channels: int = 4, width: int = 8, weight_type: UniformType = INT8,
) -> Operation:  # fmt: skip
    net = Network([((1, 8, width, channels), element)])
    shape = (4, 3, 3, channels // groups)
    weights = net.constant(random_array(shape, weight_type), weight_type)
    op = graph.Conv2dOp(net.inputs[0], weights, result_element=INT8, requant=requant, groups=groups)
    return owner(net.add(op))


def pool(
    kind: Pool, element: UniformType = INT8, padding: int = 0, requant: RequantAttr = MEAN
) -> Operation:
    net = Network([((1, 8, 8, 4), element)])
    op = graph.Pool2dOp(
        kind, net.inputs[0], (2, 2), result_element=element, padding=(padding,) * 4,
        requant=None if kind is Pool.MAX else requant,
    )  # fmt: skip
    return owner(net.add(op))


def binary(kind: Binary, shape: tuple[int, ...] = (2, 3), requant: RequantAttr = SHIFT):
    net = Network([((2, 3), INT8), (shape, INT8)])
    return owner(net.add(graph.BinaryOp(kind, *net.inputs, result_element=INT8, requant=requant)))


def lookup(tables: int) -> Operation:
    net = Network([((2, tables), INT8)])
    listed = function_tables(np.random.default_rng(0), tables, None)
    return owner(net.add(graph.LookupOp(net.inputs[0], listed, INT8, range(tables))))


def transpose(rank: int, element: Attribute = INT8) -> Operation:
    net = Network([((2,) * rank, element)])
    return owner(net.add(graph.TransposeOp(net.inputs[0], range(rank))))


def joined_to_a_constant() -> Operation:
    """Return a concatenation with a constant, like the class token of a vision transformer."""
    net = Network([((1, 6, 8), INT8)])
    token = net.constant(random_array((1, 1, 8), INT8), INT8)
    return owner(net.add(graph.ConcatOp([token, net.inputs[0]], 1)))


def resize(scale: float, rounding: Nearest = Nearest.FLOOR) -> Operation:
    net = Network([((1, 2, 2, 3), INT8)])
    size, kind = int(2 * scale), Coordinates.ASYMMETRIC
    op = graph.ResizeOp(
        Resize.NEAREST, net.inputs[0], (size, 2), (scale, 1.0), kind, rounding
    )  # fmt: skip
    return owner(net.add(op))


def product_of_inputs(second: UniformType = INT8) -> Operation:
    net = Network([((2, 3), INT8), ((4, 3), second)])
    op = graph.MatmulOp(*net.inputs, result_element=INT8, requant=SHIFT)
    return owner(net.add(op))


def computed_bias() -> Operation:
    net = Network([((2, 3), INT8), ((4, 3), INT8), ((4,), INT32)])
    op = graph.MatmulOp(*net.inputs, result_element=INT8, requant=SHIFT)
    return owner(net.add(op))


def convolution_of_inputs() -> Operation:
    net = Network([((1, 8, 8, 4), INT8), ((4, 3, 3, 4), INT8)])
    op = graph.Conv2dOp(*net.inputs, result_element=INT8, requant=SHIFT)
    return owner(net.add(op))


def softmax() -> Operation:
    net = Network([((2, 3), f32)])
    return owner(net.add(graph.SoftmaxOp(net.inputs[0], 1)))


def float_add() -> Operation:
    net = Network([((2, 3), f32), ((2, 3), f32)])
    return owner(net.add(graph.BinaryOp(Binary.ADD, *net.inputs, result_element=f32)))


@pytest.mark.parametrize(
    "op",
    [
        convolution(),
        convolution(requant=RequantAttr(0, multiplier=256, low=0)),
        convolution(requant=RequantAttr(20, multiplier=[1, 1 << 28, 1 << 20, 4])),
        pool(Pool.MAX, padding=1),
        pool(Pool.AVERAGE),
        binary(Binary.ADD),
        convolution(element=SHIFTED, requant=RequantAttr(4, zero_point=127)),
        pool(Pool.MAX, SHIFTED, padding=1),
        pool(Pool.AVERAGE, SHIFTED, requant=TO_EVEN),
        binary(Binary.ADD, requant=RequantAttr(4, rounding=Rounding.HALF_EVEN, zero_point=-128)),
        convolution(groups=4),
        product_of_inputs(),
        lookup(16),
        transpose(5),
        resize(2.0),
    ],
)
def test_what_the_circuits_take(op: Operation):
    assert rules.why_not(op) is None


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (softmax(), "no circuit for graph.softmax"),
        (float_add(), "computes on int8, got float"),
        (
            convolution(element=UniformType(0.5, storage=i16)),
            "int8 with a per-tensor scale",
        ),
        (convolution(weight_type=UniformType(0.5, 3)), "weights without zero point, got 3"),
        (
            convolution(requant=RequantAttr(4, rounding=Rounding.FLOOR)),
            "or half to even, got floor",
        ),
        (convolution(requant=RequantAttr(48)), "shifts by at most 47, got 48"),
        (convolution(requant=RequantAttr(4, zero_point=128)), "a zero point of int8, got 128"),
        (convolution(requant=RequantAttr(9, multiplier=3)), "by a shift, got the multiplier 3"),
        (convolution(requant=RequantAttr(0, multiplier=512)), "left by at most 8, got 9"),
        (convolution(requant=RequantAttr(9, multiplier=[1, 2, 6, 4])), "got the multiplier 6"),
        (convolution(requant=RequantAttr(7, multiplier=[1, 1 << 16, 1, 1])), "most 8, got 9"),
        (lookup(17), "has 16 tables per layer, got 17"),
        (transpose(6), "at most 5 dimensions, got 6"),
        (transpose(4, f32), "computes on int8, got float"),
        (joined_to_a_constant(), "copies only computed values, got a constant"),
        (resize(1.5), "an integer number of times"),
        (resize(2.0, Nearest.CEIL), "an integer number of times"),
        (
            convolution(groups=2),
            "a single group, got 4 channels in 2 groups to 4",
        ),
        (convolution(channels=8192), "73728 products per output exceed the 65536"),
        (convolution(width=100, channels=1024), "rows of 307200 bytes exceed the 262144"),
        (product_of_inputs(UniformType(0.5, 7)), "weights without zero point, got 7"),
        (
            product_of_inputs(UniformType(0.5, storage=i16)),
            "int8 with a per-tensor scale",
        ),
        (computed_bias(), "requires a constant bias"),
        (convolution_of_inputs(), "requires constant weights of a convolution"),
        (pool(Pool.AVERAGE, padding=1), "padding is not counted"),
        (binary(Binary.MUL), "no circuit for an elementwise 'mul'"),
        (binary(Binary.ADD, (3,)), "adds equal shapes, got (2, 3) and (3,)"),
    ],
)
def test_what_they_do_not_take(op: Operation, reason: str):
    text = rules.why_not(op)
    assert text is not None and reason in text and "\n" not in text


def test_rules_state_the_limits_of_the_circuits():
    """
    The limits are read from the header of the circuits, and the sentences of the rules name them.
    """
    limits = {
        rules.rounds_to_nearest: rules.MAX_FPGA_SHIFT,
        rules.rescales_by_a_shift: rules.MAX_LEFT_SHIFT,
        rules.extents_fit: rules.MAX_FPGA_EXTENT,
        rules.patch_fits: rules.MAX_PATCH,
        rules.averages_have_equal_divisors: rules.MAX_FPGA_TAPS,
        rules.lines_fit: rules.MAX_LINE_BYTES,
    }
    for rule, value in limits.items():
        assert re.search(rf"\b{value}\b", rule.__doc__ or ""), rule.__name__


def test_every_rule_is_in_the_document():
    text = " ".join(DOCUMENT.read_text(encoding="utf-8").split())
    for rule in rules.FPGA_RULES:
        assert f"- {' '.join((rule.__doc__ or '?').split())} " in text


def test_floats_are_followed_once() -> None:
    """
    In a chain of 64 concatenations, each has the same producer. The number of visits must not
    multiply.
    """
    net = Network([((2, 3), INT8)])
    tables = function_tables(np.random.default_rng(0), 1, None)
    made = net.add(graph.LookupOp(net.inputs[0], tables, f32))
    moved = made
    for _ in range(64):
        moved = net.add(graph.ConcatOp([moved, made], 0))
    assert rules.why_not(owner(moved)) is None
