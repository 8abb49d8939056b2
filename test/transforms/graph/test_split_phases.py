"""`split-phases`: a transposed convolution without the zeros between its elements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.driver.differences import relative_difference
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.graph.split_phases import LEAST_OUTPUTS, SplitPhasesPass

Pair = tuple[int, int]


FEW, MANY = 3, LEAST_OUTPUTS + 1


def transposed(
    size: Pair,
    kernel: Pair,
    strides: Pair,
    pads: tuple[int, int, int, int],
    extra: Pair = (0, 0),
    outputs: int = FEW,
) -> ModuleOp:
    """Two channels become some, with a bias and a relu."""
    random = np.random.default_rng(0)
    weights = random.normal(size=(2, outputs, *kernel)).astype(np.float32)
    bias = random.normal(size=outputs).astype(np.float32)
    nodes = [
        helper.make_node(
            "ConvTranspose",
            ["x", "w", "b"],
            ["z"],
            strides=strides,
            pads=pads,
            output_padding=extra,
        ),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    body = helper.make_graph(
        nodes,
        "transposed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, *size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    return import_model(helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)]))


def products(module: ModuleOp) -> int:
    return sum(op.macs for op in module.walk() if isinstance(op, graph.LinearOperation))


def judge(module: ModuleOp, size: Pair) -> None:
    """The same numbers but for the order of sums, and no zeros between elements."""
    x = {"x": np.random.default_rng(1).normal(size=(1, 2, *size)).astype(np.float32)}
    (expected,) = run(module, x).values()
    SplitPhasesPass().apply(load_context(), module)
    verify_module(module)
    assert not any(isinstance(op, graph.PadOp) and any(op.interior.get_values())
                   for op in module.walk())  # fmt: skip
    (found,) = run(module, x).values()
    assert relative_difference(found, expected) < 1e-5


sides = st.tuples(st.integers(1, 5), st.integers(1, 5))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_output_is_the_same(data: st.DataObject):
    size, kernel = data.draw(sides), data.draw(sides)
    strides = data.draw(sides.filter(lambda s: s != (1, 1)))
    pads = [data.draw(st.integers(0, min(k - 1, 2))) for k in kernel * 2]
    extra = [data.draw(st.integers(0, s - 1)) for s in strides]
    left = [
        (n - 1) * s + k + e - pads[i] - pads[i + 2]
        for i, (n, s, k, e) in enumerate(zip(size, strides, kernel, extra, strict=True))
    ]
    if min(left) < 1 or min(k - 1 - p for k, p in zip(kernel * 2, pads, strict=True)) < 0:
        return
    top, left_pad, bottom, right = pads
    module = transposed(
        size,
        kernel,
        strides,
        (top, left_pad, bottom, right),
        (extra[0], extra[1]),
        data.draw(st.sampled_from((FEW, MANY))),
    )
    if any(isinstance(op, graph.SliceOp) for op in module.walk()):
        return  # A border that cuts elements off stands between.
    judge(module, size)


@pytest.mark.parametrize(
    ("kernel", "strides", "outputs", "share", "convolutions"),
    [
        ((2, 2), (2, 2), FEW, 4, 1),
        ((4, 4), (2, 2), MANY, 4, 1),
        ((3, 3), (2, 2), FEW, 2, 1),
        ((3, 3), (2, 2), MANY, 3.5, 4),
        ((3, 4), (2, 2), MANY, 3.5, 2),
        ((5, 5), (3, 3), MANY, 8, 4),
        ((2, 2), (3, 3), MANY, 3.5, 1),
        ((1, 16), (1, 8), FEW, 6, 1),
    ],
    ids=str,
)
def test_products_that_are_left(
    kernel: Pair, strides: Pair, outputs: int, share: float, convolutions: int
):
    module = transposed((8, 8), kernel, strides, (0, 0, 0, 0), outputs=outputs)
    fused = module.clone()
    FusePass().apply(load_context(), fused)
    assert products(module) >= share * products(fused)
    assert sum(isinstance(op, graph.Conv2dOp) for op in fused.walk()) == convolutions
    assert not any(isinstance(op, graph.UnaryOp) for op in fused.walk())
