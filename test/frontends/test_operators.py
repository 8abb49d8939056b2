"""Import and run single operators and attributes, and compare with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from math import erfc

import numpy as np
import onnx
import pytest
from onnx_compare import agree
from onnx_models import (
    Array,
    conv_model,
    gemm_model,
    model,
    node,
    norm_parameters,
    pool_model,
    run_onnxruntime,
    weights,
)
from xdsl.context import Context

from ceras_ir.dialects.graph import Function, UnaryOp
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import UnsupportedError
from ceras_ir.transforms.graph.fuse_functions import ElementwiseRule

Build = Callable[[], onnx.ModelProto]
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

IMAGE = (1, 3, 7, 9)


def floats(*shape: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def unary(op: str, opset: int = 13, **attributes: float) -> onnx.ModelProto:
    return model([node(op, "x", "y", **attributes)], {"x": IMAGE}, ["y"], opset=opset)


def binary(
    op: str, shape: tuple[int, ...], *, swap: bool = False, x: tuple[int, ...] = IMAGE
) -> onnx.ModelProto:
    operands = "k x" if swap else "x k"
    return model([node(op, operands, "y")], {"x": x}, ["y"], {"k": floats(*shape)})


def computed_conv(
    weights: tuple[int, ...],
    operator: str = "Conv",
    *,
    bias: int = 0,
    **attributes: int | list[int],
) -> onnx.ModelProto:
    """Build a convolution of 4 channels with weights as an input, and an optional bias."""
    inputs = {"x": (2, 4, 7, 6)[: len(weights)], "w": weights}
    conv = node(operator, "x w b" if bias else "x w", "y", **attributes)
    return model([conv], inputs, ["y"], {"b": floats(bias)} if bias else {})


def conv(rank: int, **attributes: int | str | list[int]) -> onnx.ModelProto:
    """Convolve channels 4 -> 6 in two groups over `rank` dimensions, between transposes."""
    extents = (9, 8)[:rank]
    tensors = {"w": weights(np.random.default_rng(0), 6, 2, *(3, 2)[:rank]), "b": floats(6)}
    nodes = [node("Relu", "x", "r"), node("Conv", "r w b", "y", group=2, **attributes)]
    return model(nodes, {"x": (2, 4, *extents)}, ["y"], tensors)


def matmul(left: tuple[int, ...], right: tuple[int, ...]) -> onnx.ModelProto:
    return model([node("MatMul", "x w", "y")], {"x": left}, ["y"], {"w": floats(*right)})


def batch_norm(shape: tuple[int, ...], opset: int = 15) -> onnx.ModelProto:
    names: list[str] = ["scale", "bias", "mean", "var"]
    tensors = dict(zip(names, norm_parameters(np.random.default_rng(0), shape[1]), strict=True))
    nodes = [node("BatchNormalization", "x scale bias mean var", "y", epsilon=1e-3)]
    return model(nodes, {"x": shape}, ["y"], tensors, opset=opset)


def layout(
    op: str, shape: tuple[int, ...], constant: Array | list[int] | None = None, opset: int = 13,
    **attributes: int | list[int],
) -> onnx.ModelProto:  # fmt: skip
    tensors = {} if constant is None else {"k": np.asarray(constant)}
    operands = "x" if constant is None else "x k"
    nodes = [node(op, operands, "y", **attributes)]
    return model(nodes, {"x": shape}, ["y"], tensors, opset=opset)


def resize(
    scales: list[float], opset: int = 13, *, shape: tuple[int, ...] = IMAGE, **attributes: str
) -> onnx.ModelProto:
    constant = np.array(scales, np.float32)
    operands = "x s" if opset < 11 else "x - s"
    return model(
        [node("Resize", operands, "y", **attributes)],
        {"x": shape},
        ["y"],
        {"s": constant},
        opset=opset,
    )


def resize_to(
    sizes: list[int], *, shape: tuple[int, ...] = IMAGE, **attributes: str
) -> onnx.ModelProto:
    nodes = [node("Resize", "x - - s", "y", **attributes)]
    return model(nodes, {"x": shape}, ["y"], {"s": np.array(sizes)})


MODELS: dict[str, Build] = {
    # Convolutions.
    "conv plain": conv_model,
    "conv without bias": lambda: conv_model(bias=False),
    "conv depthwise": lambda: conv_model((1, 6, 9, 9), 12, group=6, dilations=[2, 1]),
    "conv grouped": lambda: conv_model((2, 6, 9, 9), 4, group=2, strides=[2, 3]),
    "conv asymmetric": lambda: conv_model(pads=[0, 1, 2, 3], strides=[1, 2]),
    "conv pad beyond kernel": lambda: conv_model(kernel=(1, 1), pads=[2, 0, 0, 3]),
    "conv 1x1": lambda: conv_model(kernel=(1, 1)),
    "conv of the whole": lambda: conv_model((1, 3, 4, 5), kernel=(4, 5)),
    **{
        f"conv {auto} stride {s} kernel {k}": (
            lambda auto=auto, s=s, k=k: conv_model(
                (1, 2, 8, 7), kernel=(k, 3), strides=[s, 2], auto_pad=auto
            )
        )
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID")
        for s, k in ((1, 2), (2, 3), (3, 2), (3, 1))
    },
    "conv of computed weights": lambda: computed_conv(
        (5, 4, 3, 2), bias=5, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2]
    ),
    "conv of computed groups": lambda: computed_conv((6, 2, 2, 3), bias=6, group=2),
    "conv of computed taps": lambda: computed_conv((4, 1, 3, 3), bias=4, group=4, pads=[1] * 4),
    "conv of computed taps twice": lambda: computed_conv((8, 1, 3), group=4),
    "transposed conv of computed weights": lambda: computed_conv(
        (4, 3, 4, 3), "ConvTranspose", bias=3, strides=[2, 1], pads=[1, 0, 2, 1], dilations=[1, 2]
    ),
    "transposed conv of computed groups": lambda: computed_conv(
        (4, 2, 3), "ConvTranspose", strides=[3], output_padding=[1], group=2
    ),
    "conv 1-D": lambda: conv(1, strides=[2], pads=[1, 2], dilations=[2]),
    "conv 2-D": lambda: conv(2, strides=[2, 1], pads=[1, 2, 0, 1]),
    "conv 1-D same": lambda: conv(1, auto_pad="SAME_LOWER", strides=[2]),
    # Matrix products.
    "gemm": gemm_model,
    "gemm transA": lambda: gemm_model(trans_a=True, trans_b=False, batch=2),
    "gemm scaled": lambda: gemm_model(alpha=0.5, beta=2.0, batch=3),
    "gemm beta 0": lambda: gemm_model(beta=0.0),
    "gemm without C": lambda: gemm_model(bias=None, alpha=-1.5),
    "gemm row C": lambda: gemm_model(bias=(1, -1), batch=4),
    "gemm scalar C": lambda: gemm_model(bias=(), beta=0.5),
    "gemm one C": lambda: gemm_model(bias=(1,), batch=2),
    "gemm column C": lambda: gemm_model(bias=(2, 1), batch=2),
    "gemm full C": lambda: gemm_model(bias=(2, -1), batch=2, beta=3.0),
    "gemm symbolic batch": lambda: gemm_model(batch="N"),
    "gemm computed C": lambda: model(
        [node("Gemm", "x w c", "y", transB=1, beta=0.25, alpha=2.0)],
        {"x": (2, 4), "c": (2, 3)},
        ["y"],
        {"w": floats(3, 4)},
    ),
    "gemm computed B": lambda: model(
        [node("Gemm", "x w", "y", alpha=0.5)], {"x": (2, 4), "w": (4, 3)}, ["y"]
    ),
    "matmul": lambda: matmul((2, 4), (4, 3)),
    "matmul batch": lambda: matmul((2, 3, 5, 4), (4, 6)),
    "matmul unit batch": lambda: matmul((2, 5, 4), (1, 4, 6)),
    "matmul more rank": lambda: matmul((5, 4), (1, 1, 4, 6)),
    "matmul large batch": lambda: matmul((3, 400, 2, 3), (400, 3, 2)),
    "matmul vector": lambda: matmul((4,), (4, 3)),
    "matmul by vector": lambda: matmul((2, 5, 4), (4,)),
    "matmul dot": lambda: matmul((4,), (4,)),
    "matmul constant first": lambda: model(
        [node("MatMul", "w x", "y")], {"x": (4, 3)}, ["y"], {"w": floats(2, 4)}
    ),
    # Normalization.
    "batch norm 2": lambda: batch_norm((2, 5)),
    "batch norm 3": lambda: batch_norm((1, 4, 6)),
    "batch norm 4": lambda: batch_norm(IMAGE),
    "batch norm 5": lambda: batch_norm((1, 3, 2, 4, 5)),
    "batch norm opset 7": lambda: batch_norm(IMAGE, 7),
    # Functions.
    **{
        op: (lambda op=op: unary(op, 14))
        for op in ("Exp", "HardSigmoid", "HardSwish", "LeakyRelu", "Neg", "Relu", "Sigmoid", "Tanh")
    },
    "leaky relu slope": lambda: unary("LeakyRelu", alpha=0.3),
    "hard sigmoid slope": lambda: unary("HardSigmoid", alpha=0.4, beta=0.1),
    "clip opset 6": lambda: unary("Clip", 10, min=-0.5, max=1.0),
    "clip opset 6 min": lambda: unary("Clip", 10, min=0.0),
    "clip none": lambda: unary("Clip"),
    "clip operands": lambda: model(
        [node("Clip", "x - h", "y")], {"x": IMAGE}, ["y"], {"h": np.array(0.5, np.float32)}
    ),
    # Arithmetic.
    **{
        f"{op} {list(shape)}{' swapped' if swap else ''}": (
            lambda op=op, shape=shape, swap=swap: binary(op, shape, swap=swap)
        )
        for op in ("Add", "Sub", "Mul")
        for shape in ((), (1,), (9,), (3, 1, 1), (1, 3, 1, 1), (7, 1), IMAGE, (2, 1, 1, 1))
        for swap in (False, True)
    },
    "add broadcasts the input": lambda: binary("Add", (2, 3, 4), x=(3, 1)),
    "div": lambda: binary("Div", (3, 1, 1)),
    "sum": lambda: model([node("Sum", "x x z", "y")], {"x": IMAGE, "z": (1, 3, 1, 1)}, ["y"]),
    # Softmax.
    "softmax last": lambda: layout("Softmax", IMAGE, axis=-1),
    "softmax channels": lambda: layout("Softmax", IMAGE, axis=1),
    "softmax old": lambda: layout("Softmax", IMAGE, opset=11),
    "softmax old axis 2": lambda: layout("Softmax", IMAGE, opset=11, axis=2),
    "softmax old rows": lambda: layout("Softmax", (3, 5), opset=7),
    # Pooling.
    "max pool": lambda: pool_model(strides=[2, 2], pads=[1, 0, 0, 1]),
    "max pool dilated": lambda: pool_model(dilations=[2, 3], pads=[1, 1, 1, 1]),
    "average padded": lambda: pool_model("AveragePool", kernel=(3, 3), pads=[1, 2, 0, 1]),
    "average counts padding": lambda: pool_model(
        "AveragePool", kernel=(3, 3), pads=[1, 2, 0, 1], count_include_pad=1
    ),
    **{
        f"{op} {auto} stride {s}": (
            lambda op=op, auto=auto, s=s: pool_model(
                op, (1, 2, 8, 7), (3, 2), strides=[s, s], auto_pad=auto
            )
        )
        for op in ("MaxPool", "AveragePool")
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID")
        for s in (1, 2, 3)
    },
    **{
        f"{op} ceil {size} {kernel}/{stride} pads {pad}": (
            lambda op=op, size=size, kernel=kernel, stride=stride, pad=pad: pool_model(
                op,
                (1, 2, size, size),
                (kernel, kernel),
                strides=[stride, stride],
                pads=[pad] * 4,
                ceil_mode=1,
            )
        )
        for op in ("MaxPool", "AveragePool")
        for size, kernel, stride, pad in (
            (8, 3, 2, 0), (8, 3, 2, 1), (7, 2, 2, 0), (7, 2, 3, 1), (6, 1, 4, 0), (5, 3, 3, 1),
        )
    },
    "average 1-D": lambda: pool_model("AveragePool", (1, 3, 8), (3,), strides=[2], pads=[1, 0]),
    "max 1-D": lambda: pool_model("MaxPool", (2, 3, 8), (2,)),
    "global average": lambda: pool_model("GlobalAveragePool"),
    "global average 1-D": lambda: pool_model("GlobalAveragePool", (2, 3, 8)),
    "global max": lambda: pool_model("GlobalMaxPool"),
    # Layout.
    "reshape copies": lambda: layout("Reshape", (2, 3, 4), [0, -1]),
    "reshape allowzero": lambda: layout("Reshape", (2, 3, 4), [4, 6], 14, allowzero=1),
    "flatten": lambda: layout("Flatten", IMAGE),
    "flatten 0": lambda: layout("Flatten", IMAGE, axis=0),
    "flatten -1": lambda: layout("Flatten", IMAGE, axis=-1),
    "flatten 4": lambda: layout("Flatten", IMAGE, axis=4),
    "squeeze all": lambda: layout("Squeeze", (1, 3, 1, 4)),
    "squeeze some": lambda: layout("Squeeze", (1, 3, 1, 4), [-2]),
    "squeeze attribute": lambda: layout("Squeeze", (1, 3, 1, 4), opset=11, axes=[0, 2]),
    "unsqueeze": lambda: layout("Unsqueeze", (3, 4), [0, -1]),
    "unsqueeze attribute": lambda: layout("Unsqueeze", (3, 4), opset=11, axes=[0, 3]),
    "transpose": lambda: layout("Transpose", (2, 3, 4)),
    "transpose perm": lambda: layout("Transpose", IMAGE, perm=[2, 0, 3, 1]),
    "transpose nothing": lambda: layout("Transpose", (1, 5, 1, 4), perm=[2, 1, 0, 3]),
    "concat channels": lambda: model(
        [node("Concat", "x z x", "y", axis=1)], {"x": IMAGE, "z": (1, 2, 7, 9)}, ["y"]
    ),
    "slice to a constant without end": lambda: model(
        [
            node("Constant", "", "s", value_ints=[1]),
            node("Constant", "", "e", value_ints=[2**63 - 1]),
            node("Slice", "x s e", "y"),
        ],
        {"x": (4, 3)},
        ["y"],
    ),
    "concat constant": lambda: model(
        [node("Concat", "x k", "y", axis=-1)], {"x": (2, 3)}, ["y"], {"k": floats(2, 2)}
    ),
    "identity": lambda: model([node("Identity", "x", "y")], {"x": IMAGE}, ["y"]),
    "dropout": lambda: model([node("Dropout", "x", "y")], {"x": IMAGE}, ["y"]),
    "dropout ratio": lambda: unary("Dropout", 10, ratio=0.4),
    # Resampling.
    **{
        f"resize {mode} {where}": (
            lambda mode=mode, where=where: resize(
                [1, 1, 2, 3], mode=mode, coordinate_transformation_mode=where
            )
        )
        for mode in ("nearest", "linear")
        for where in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    },
    **{
        f"resize nearest {rounding} {sizes}": (
            lambda rounding=rounding, sizes=sizes: resize_to(
                sizes,
                mode="nearest",
                nearest_mode=rounding,
                coordinate_transformation_mode="asymmetric",
            )
        )
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        for sizes in ([1, 3, 4, 5], [1, 3, 14, 27])
    },
    # 8 / (16/14) and 9 / (18/14) are 7, but not in float32, or not in double.
    **{
        f"resize nearest 14 to {size}": (
            lambda size=size: resize_to(
                [1, 3, 7, size],
                shape=(1, 3, 7, 14),
                mode="nearest",
                nearest_mode="floor",
                coordinate_transformation_mode="asymmetric",
            )
        )
        for size in (16, 18)
    },
    **{
        f"resize nearest as TensorFlow {scales}": (
            lambda scales=scales: resize(
                [1, 1, *scales],
                mode="nearest",
                nearest_mode="floor",
                coordinate_transformation_mode="tf_half_pixel_for_nn",
            )
        )
        for scales in ([2, 3], [0.5, 1.5])
    },
    "resize down": lambda: resize([1, 1, 0.5, 0.25], mode="linear"),
    "resize opset 10": lambda: resize([1, 1, 2, 2], 10, mode="nearest"),
    "resize opset 10 linear": lambda: resize([1, 1, 2, 2], 10, mode="linear"),
    "resize NHWC": lambda: resize([1, 2, 2, 1], mode="nearest"),
    "resize one dimension": lambda: resize([1, 1, 2], shape=(1, 3, 8), mode="linear"),
    "resize by 1": lambda: resize([1, 1, 1, 1], mode="linear"),
    "resize to corners": lambda: resize_to(
        [1, 3, 10, 13], mode="linear", coordinate_transformation_mode="align_corners"
    ),
    "upsample": lambda: model(
        [node("Upsample", "x s", "y", mode="nearest")],
        {"x": IMAGE},
        ["y"],
        {"s": np.array([1, 1, 2, 3], np.float32)},
        opset=9,
    ),
}  # fmt: skip


EQUATIONS: dict[str, tuple[tuple[int, ...], ...]] = {
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "bhid,bhjd->bhij": ((1, 2, 3, 4), (1, 2, 5, 4)),
    "ij,kj": ((3, 4), (5, 4)),
    "bnc,cd->dbn": ((2, 3, 4), (4, 5)),
    "i,j->ji": ((3,), (4,)),
    "nchw->nhc": ((1, 3, 4, 5),),
    "abc,ade->b": ((2, 3, 4), (2, 5, 6)),
    "ab,ab->": ((3, 4), (3, 4)),
    "ij->ji": ((3, 4),),
    "i->": ((3,),),
    "bi,bj->bij": ((2, 3), (2, 4)),
    "nld,ndv,nl->nlv": ((1, 3, 4), (1, 4, 5), (1, 3)),
    "a,ab,b": ((3,), (3, 4), (4,)),
    "...ij,...jk->...ik": ((2, 1, 3, 4), (1, 5, 4, 2)),
    "...i,i...": ((2, 3), (3, 2)),
    "i...->...": ((3, 2, 4),),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einstein_sums(equation: str) -> None:
    names: list[str] = ["x", "z", "w"][: len(EQUATIONS[equation])]
    inputs = dict(zip(names, EQUATIONS[equation], strict=True))
    einsum = node("Einsum", " ".join(names), "y", equation=equation)
    agree(model([einsum], inputs, ["y"]))


def test_a_scalar_stays_one() -> None:
    module = import_model(model([node("Einsum", "x", "y", equation="->")], {"x": ()}, ["y"]))
    assert run(module, {"x": np.array(3, np.float32)})["y"].shape == ()


@pytest.mark.parametrize("p", [1, 2])
def test_a_vector_of_zeros_has_the_norm_one(p: int) -> None:
    x = np.array([[0, 0, 0], [3, -4, 0], [1e-30, 0, 0]][: 4 - p], np.float32)
    agree(model([node("LpNormalization", "x", "y", p=p)], {"x": x.shape}, ["y"]), {"x": x})


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 0, 0]])
def test_a_pool_of_powers_that_hangs_over_has_fewer(p: int, pads: list[int]) -> None:
    pool = node(
        "LpPool", "x", "y", p=p, kernel_shape=[3, 2], strides=[2, 2], pads=pads, ceil_mode=1
    )
    # Not inferred: onnx's inference does not know ceil_mode of this operator.
    proto = model([pool], {"x": (1, 2, 4, 5)}, ["y"], opset=18, infer=False)
    agree(proto)


def test_default_attributes_may_be_written_out() -> None:
    mean = node("ReduceMean", "x a", "y", keepdims=1, noop_with_empty_axes=0)
    agree(model([mean], {"x": IMAGE}, ["y"], {"a": np.array([2, 3])}, opset=18))


UNREDUCED: dict[str, Callable[[Floats], Floats]] = {
    **dict.fromkeys(("Sum", "Mean", "Max", "LogSumExp"), lambda x: x),
    **dict.fromkeys(("L1", "L2"), np.abs),
    "SumSquare": np.square,
    "LogSum": np.log,
}
"""Reductions without a reduced axis."""


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("kind", UNREDUCED)
def test_a_reduction_along_no_axes(kind: str, keep: int):
    # ONNX Runtime returns the operand of some; ONNX specifies the rest of the formula.
    reduce = node(f"Reduce{kind}", "x", "y", keepdims=keep, noop_with_empty_axes=1)
    x = np.abs(floats(2, 3)) if kind == "LogSum" else floats(2, 3)
    found = run(import_model(model([reduce], {"x": (2, 3)}, ["y"], opset=18)), {"x": x})["y"]
    assert np.allclose(found, UNREDUCED[kind](x), atol=1e-6)


def test_logarithms_of_sums_of_infinities() -> None:
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 1], [inf, inf], [-inf, inf], [-inf, 2], [3e38, -3e38]])
    reduce = node("ReduceLogSumExp", "x a", "y", keepdims=0)
    proto = model([reduce], {"x": (6, 2)}, ["y"], {"a": np.array([1])}, opset=18)
    found = run(import_model(proto), {"x": x.astype(np.float32)})["y"]
    assert np.array_equal(found, np.array([-inf, inf, inf, inf, 2, 3e38], np.float32))


def test_same_padding_of_a_dilated_window() -> None:
    # ONNX Runtime refuses this; in ONNX, the padding preserves the extents.
    same = conv_model(auto_pad="SAME_LOWER", dilations=[2, 3])
    explicit = conv_model(pads=[2, 3, 2, 3], dilations=[2, 3])
    assert str(import_model(same)) == str(import_model(explicit))


@pytest.mark.parametrize("name", MODELS)
def test_operator(name: str) -> None:
    agree(MODELS[name]())


def test_keras_gelu_as_tf2onnx_leaves_it() -> None:
    """The form is `0.5 x erfc(-x / sqrt 2)`, which ONNX Runtime does not run."""
    nodes = [
        node("Neg", "x", "n"),
        node("Mul", "n root", "a"),
        node("Erfc", "a", "e"),
        node("Mul", "x half", "h"),
        node("Mul", "h e", "y"),
    ]
    constants = {"root": np.array(0.5**0.5, np.float32), "half": np.array(0.5, np.float32)}
    module = import_model(model(nodes, {"x": (1, 99)}, ["y"], constants, infer=False))
    x = np.linspace(-6, 6, 99, dtype=np.float32)[None]
    expected = [0.5 * v * erfc(-v * 0.5**0.5) for v in x[0].tolist()]
    assert np.allclose(run(module, {"x": x})["y"][0], expected, rtol=1e-6, atol=1e-6)
    ElementwiseRule().apply(Context(), module)
    kinds = [op.function.data for op in module.walk() if isinstance(op, UnaryOp)]
    assert kinds == [Function.GELU]


def test_nodes_need_no_order() -> None:
    """ONNX Runtime's converter to float16 appends casts, so branches use later results."""
    branches: dict[str, onnx.GraphProto] = {}
    for name, op in (("then", "Neg"), ("else", "Exp")):
        result = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3])
        branch = onnx.helper.make_graph([node(op, "first", name)], name, [], [result])
        branches[f"{name}_branch"] = branch
    nodes = [
        node("Sin", "x", "first"),
        node("Abs", "x", "a"),
        node("Relu", "a", "b"),
        node("If", "c", "i", **branches),
        node("Add", "b i", "y"),
    ]
    proto = model(nodes, {"x": (3,)}, ["y"], {"c": np.array(True)})
    proto.graph.node.reverse()
    agree(proto)


@pytest.mark.parametrize("bounds", [{"min": 0.0}, {"max": 6.0}, {}], ids=str)
def test_clip_before_opset_11_has_finite_bounds(bounds: dict[str, float]) -> None:
    proto = model([node("Clip", "x", "y", **bounds)], {"x": (4,)}, ["y"], opset=10)
    x = np.array([np.inf, -np.inf, -1.5, 7.0], np.float32)
    expected = run_onnxruntime(proto, {"x": x})["y"]
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(run(import_model(proto), {"x": x})["y"], expected)


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32"])
@pytest.mark.parametrize(("left", "right"), [((3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 2))])
def test_products_of_integers_wrap_around(
    kind: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    rng, bound = np.random.default_rng(0), 1 << 30
    x, w = (rng.integers(0, bound, shape).astype(kind) for shape in (left, right))
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    proto = model([node("MatMul", "x w", "y")], {"x": left}, ["y"], {"w": w}, infer=False)
    proto.graph.input[0].type.tensor_type.elem_type = element
    proto.graph.output[0].type.tensor_type.elem_type = element
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run(import_model(proto), {"x": x})["y"], x @ w)


def test_large_products_of_integers_are_refused() -> None:
    w = np.ones((2000, 2000), np.int32)
    proto = model([node("MatMul", "x w", "y")], {"x": (8, 2000)}, ["y"], {"w": w}, infer=False)
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    with pytest.raises(UnsupportedError, match="insert a Cast to float"):
        import_model(proto)


@pytest.mark.parametrize("bias", [(5,), (1, 1, 5)])
def test_a_product_of_a_batch_of_one(bias: tuple[int, ...]) -> None:
    """ONNX has matrices only, but exporters write an additional dimension of 1."""
    w, c = floats(4, 5), floats(*bias)
    constants = {"w": w, "c": c}
    proto = model([node("Gemm", "x w c", "y")], {"x": (1, 3, 4)}, ["y"], constants, infer=False)
    x = floats(1, 3, 4, seed=2)
    found = run(import_model(proto), {"x": x})["y"].astype(np.float64)
    np.testing.assert_allclose(found, x @ w + c, rtol=1e-5)
