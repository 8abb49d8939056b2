"""Compare random attributes and random networks with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_compare import agree, compare
from onnx_models import conv_model, model, node, pool_model, random_inputs, run_onnxruntime
from onnx_random import STEPS, random_network
from slow_cases import first_fast
from xdsl.context import Context

from ceras_ir.dialects.graph import BinaryOp, Conv2dOp
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.transforms.graph.affine_backward import BatchNormRule

FEW = settings(max_examples=60, derandomize=True)


@pytest.mark.slow
@FEW
@given(st.data())
def test_conv(data: st.DataObject) -> None:
    group = data.draw(st.integers(1, 3), "group")
    inputs, outputs = (group * data.draw(st.integers(1, 3)) for _ in range(2))
    kernel = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)), "kernel")
    dilations = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 2)), "dilations")
    pads = data.draw(st.lists(st.integers(0, 3), min_size=4, max_size=4), "pads")
    size = [
        max((kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[i + 2], 1)
        + data.draw(st.integers(0, 5))
        for i in range(2)
    ]
    strides = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)), "strides")
    agree(
        conv_model(
            (data.draw(st.integers(1, 2), "batch"), inputs, *size),
            outputs,
            kernel,
            group=group,
            strides=strides,
            pads=pads,
            dilations=dilations,
            bias=data.draw(st.booleans(), "bias"),
        )
    )


@pytest.mark.slow
@FEW
@given(st.data())
def test_pool(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(["MaxPool", "AveragePool"]), "op")
    kernel = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)), "kernel")
    pads = [data.draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)]
    size = [kernel[i] + data.draw(st.integers(0, 6)) for i in range(2)]
    ceil = data.draw(st.integers(0, 1), "ceil")
    counts = None
    if op == "AveragePool" and not ceil:
        counts = data.draw(st.integers(0, 1), "count_include_pad")
    agree(
        pool_model(
            op,
            (1, 2, *size),
            kernel,
            strides=data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)), "strides"),
            pads=pads,
            ceil_mode=ceil,
            count_include_pad=counts,
        )
    )


@pytest.mark.slow
@FEW
@given(st.permutations([1, 2, 3, 4, 6]), st.permutations(range(5)), st.data())
def test_reshape_between_transposes(
    shape: list[int], order: list[int], data: st.DataObject
) -> None:
    """Merge neighbors and split them again, in any layout."""
    moved = [shape[i] for i in order]
    cut = data.draw(st.integers(1, 4), "cut")
    merged = [int(np.prod(moved[:cut])), int(np.prod(moved[cut:]))]
    if data.draw(st.booleans(), "neighbours"):
        merged = [*moved[: cut - 1], moved[cut - 1] * moved[cut], *moved[cut + 1 :]]
    back = data.draw(st.permutations(range(len(merged))), "back")
    nodes = [
        node("Transpose", "x", "t", perm=order),
        node("Relu", "t", "r"),
        node("Reshape", "r s", "m"),
        node("Transpose", "m", "u", perm=back),
        node("Reshape", "u f", "y"),
    ]
    agree(model(nodes, {"x": shape}, ["y"], {"s": np.array(merged), "f": np.array(moved)}))


@pytest.mark.slow
@FEW
@given(st.data())
def test_resize(data: st.DataObject) -> None:
    modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    size = data.draw(st.tuples(st.integers(2, 7), st.integers(2, 7)), "size")
    # Ratios that are exact in binary, or ties would be decided by rounding.
    ratios = [data.draw(st.sampled_from([1, 2, 3, 4])) for _ in range(2)]
    resize = node(
        "Resize",
        "x - - s",
        "y",
        mode=data.draw(st.sampled_from(["nearest", "linear"]), "mode"),
        coordinate_transformation_mode=data.draw(st.sampled_from(modes), "coordinates"),
    )
    sizes = np.array([1, 2, size[0] * ratios[0], size[1] * ratios[1]])
    agree(model([resize], {"x": (1, 2, *size)}, ["y"], {"s": sizes}))


@pytest.mark.parametrize("seed", first_fast(20, range(60)))
def test_network(seed: int) -> None:
    """Compare random networks, before and after batch norms are folded."""
    proto = random_network(seed, kinds=[*STEPS, "head"])
    module = agree(proto, inputs := random_inputs(proto, seed))
    BatchNormRule().apply(Context(), module)
    module.verify()
    compare(run(module, inputs), run_onnxruntime(proto, inputs))


def test_fold_batch_norm_leaves_no_product() -> None:
    proto = conv_model(bias=False)
    proto.graph.node[0].output[0] = "c"
    names = ["s", "b", "m", "v"]
    proto.graph.node.append(node("BatchNormalization", "c s b m v", "y"))
    values = np.array([[1, 2, -1, 0.5], [1, 0, 0, 1], [0, 1, 0, -1], [1, 1, 2, 4]], np.float32)
    tensors = model([], {}, [], dict(zip(names, values, strict=True)), infer=False)
    proto.graph.initializer.extend(tensors.graph.initializer)
    module = import_model(proto)
    BatchNormRule().apply(Context(), module)
    inputs = random_inputs(proto)
    compare(run(module, inputs), run_onnxruntime(proto, inputs))
    kinds = [type(op) for op in module.walk()]
    assert kinds.count(BinaryOp) == 0 and kinds.count(Conv2dOp) == 1
