"""
Import malicious models: overflowing sizes, cycles, C comments in names, invalid numbers.

Each is imported, quantized and compiled to C, or rejected with a message and in time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from mutants.forked import run
from onnx import TensorProto, helper
from onnx_models import Attribute, Shape, model, node

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.driver.opt.tool import main as opt_main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it forks"),
]

INF, NAN, BIG = float("inf"), float("nan"), 1 << 40
Constants = Mapping[str, npt.ArrayLike]


def floats(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)


def longs(*values: int) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)


def one(
    op: str,
    constants: Constants | None = None,
    inputs: str = "x k",
    outputs: str = "y",
    *,
    shape: Shape = (1, 4, 4, 4),
    opset: int = 17,
    dtype: int = TensorProto.FLOAT,
    **attributes: Attribute,
) -> onnx.ModelProto:
    """Build a model of a single node, not checked by ONNX."""
    nodes = [node(op, inputs, outputs, "n", **attributes)]
    return model(nodes, {"x": shape}, ["y"], constants, opset=opset, dtype=dtype, infer=False)


def quantized(
    scale: npt.ArrayLike, point: npt.ArrayLike | None = None, **attributes: Attribute
) -> onnx.ModelProto:
    nodes = [
        node("QuantizeLinear", "x s z", "q", **attributes),
        node("DequantizeLinear", "q s z", "y", **attributes),
    ]
    return model(
        nodes,
        {"x": (1, 4)},
        ["y"],
        {"s": scale, "z": np.int8(0) if point is None else point},
        infer=False,
    )


def named(name: str) -> onnx.ModelProto:
    """Build a small network; all names are this name with a number."""
    nodes = [node("Relu", "x", "r"), node("Add", "r k", "y")]
    proto = model(nodes, {"x": (1, 4)}, ["y"], {"k": floats(1, 2, 3, 4)})
    known = {old: f"{name}{i}" for i, old in enumerate("xrky")}
    for step in proto.graph.node:
        step.name = name
        step.input[:] = [known[i] for i in step.input]
        step.output[:] = [known[o] for o in step.output]
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        value.name = known[value.name]
    del proto.graph.value_info[:]
    return proto


def edited(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    """Change a network of a single Relu."""
    proto = one("Relu", inputs="x")
    change(proto)
    return proto


def declared(*dims: int, data_type: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """Build an initializer that declares far more than it has."""
    tensor = onnx.TensorProto(name="k", dims=dims, data_type=data_type)
    return edited(lambda proto: (_reads(proto, "k"), proto.graph.initializer.append(tensor)))


def _reads(proto: onnx.ModelProto, name: str) -> None:
    proto.graph.node[0].op_type = "Add"
    proto.graph.node[0].input.append(name)


def nested(depth: int) -> onnx.ModelProto:
    """Build branches of If within branches of If."""
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "inner",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    for _ in range(depth):
        step = helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
        results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph([step], "g", [], results)
    proto = one("Relu", {"c": np.array(True)}, inputs="x")
    proto.graph.node[0].CopyFrom(graph.node[0])
    return proto


def calling(*bodies: str) -> onnx.ModelProto:
    """Build functions f0, f1 and so on, each of which calls the named function."""
    proto = one("f0", inputs="x")
    proto.graph.node[0].domain = "own"
    proto.opset_import.append(helper.make_opsetid("own", 1))
    for i, callee in enumerate(bodies):
        step = helper.make_node(callee, ["a"], ["b"], domain="own" if callee[0] == "f" else "")
        sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        proto.functions.append(helper.make_function("own", f"f{i}", ["a"], ["b"], [step], sets))
    return proto


def loop(trips: int) -> onnx.ModelProto:
    """Build a loop with this trip count."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Relu", ["v"], ["w"])],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("c", TensorProto.BOOL, []),
            info("v", TensorProto.FLOAT, None),
        ],
        [info("d", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, None)],
    )
    proto = one("Relu", {"m": np.int64(trips), "t": np.array(True)}, inputs="x")
    proto.graph.node[0].CopyFrom(helper.make_node("Loop", ["m", "t", "x"], ["y"], body=body))
    return proto


def chain(length: int, op: str = "Relu") -> onnx.ModelProto:
    """Build a chain of nodes."""
    nodes = [node(op, f"v{i}", f"v{i + 1}") for i in range(length)]
    return model(nodes, {"v0": (1, 2)}, [f"v{length}"], infer=False)


def twice(steps: int) -> onnx.ModelProto:
    """Concatenate each value to itself."""
    nodes = [node("Concat", f"v{i} v{i}", f"v{i + 1}", axis=0) for i in range(steps)]
    return model(nodes, {"v0": (1, 2)}, [f"v{steps}"], infer=False)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    # Sizes.
    "declared extents overflow": lambda: declared(1 << 32, 1 << 32),
    "declared extents beyond memory": lambda: declared(1 << 27),
    "a declared extent below zero": lambda: declared(-4, 4),
    "an element type of the future": lambda: declared(4, data_type=77),
    "4-bit elements": lambda: declared(4, data_type=TensorProto.INT4),
    "an input of 2^60 elements": lambda: one("Relu", inputs="x", shape=(1 << 20,) * 3),
    "an input of 40 dimensions": lambda: one("Relu", inputs="x", shape=(1,) * 40),
    "40 doublings": lambda: twice(40),
    "1,500 nodes in a row": lambda: chain(1500),
    "a tile of 2^40": lambda: one("Tile", {"k": longs(1, 1, 1, BIG)}),
    "an expansion to 2^40": lambda: one("Expand", {"k": longs(BIG, 4, 4, 4)}),
    "a padding of 2^40": lambda: one("Pad", {"k": longs(0, 0, 0, 0, 0, 0, 0, BIG)}),
    "a padding of -2^40": lambda: one("Pad", {"k": longs(0, 0, 0, 0, 0, 0, 0, -BIG)}),
    "a shape of 2^62": lambda: one("Reshape", {"k": longs(1 << 62, -1)}),
    "a constant of 2^40": lambda: one("ConstantOfShape", {"k": longs(BIG)}, inputs="k"),
    "a range of 10^12": lambda: one(
        "Range", {"a": np.int64(0), "b": np.int64(10**12), "c": np.int64(1)}, inputs="a b c"
    ),
    "a range with a step of zero": lambda: one(
        "Range", {"a": floats(0)[0], "b": floats(4)[0], "c": floats(0)[0]}, inputs="a b c"
    ),
    "sizes of 2^40": lambda: one("Resize", {"k": longs(1, 4, 4, BIG)}, inputs="x - - k"),
    "sizes of zero": lambda: one("Resize", {"k": longs(1, 4, 4, 0)}, inputs="x - - k"),
    "scales that are no numbers": lambda: one(
        "Resize", {"k": floats(1, 1, NAN, 1)}, inputs="x - k"
    ),
    "scales without end": lambda: one("Resize", {"k": floats(1, 1, INF, 1)}, inputs="x - k"),
    "an upsampling by 10^9": lambda: one("Upsample", {"k": floats(1, 1, 1e9, 1)}, opset=9),
    "an encoding of 2^40 classes": lambda: one(
        "OneHot",
        {"d": np.int64(BIG), "v": floats(0, 1)},
        inputs="x d v",
        dtype=TensorProto.INT64,
    ),
    "blocks of zero": lambda: one("DepthToSpace", inputs="x", blocksize=0),
    "blocks below zero": lambda: one("SpaceToDepth", inputs="x", blocksize=-2),
    "blocks of 2^31": lambda: one("DepthToSpace", inputs="x", blocksize=1 << 31),
    "a window of 2^40": lambda: one("MaxPool", inputs="x", kernel_shape=[BIG, 1]),
    "strides of 2^40": lambda: one("MaxPool", inputs="x", kernel_shape=[1, 1], strides=[BIG, 1]),
    "dilations of 2^40": lambda: one(
        "MaxPool", inputs="x", kernel_shape=[2, 2], dilations=[BIG, 1]
    ),
    "dilations of zero": lambda: one("MaxPool", inputs="x", kernel_shape=[2, 2], dilations=[0, 1]),
    "a transposed window with strides of 2^30": lambda: one(
        "ConvTranspose", {"k": np.ones((4, 1, 2, 2), np.float32)}, strides=[1 << 30, 1]
    ),
    "output padding beyond the strides": lambda: one(
        "ConvTranspose", {"k": np.ones((4, 1, 2, 2), np.float32)}, output_padding=[9, 9]
    ),
    "an output shape of 2^40": lambda: one(
        "ConvTranspose", {"k": np.ones((4, 1, 2, 2), np.float32)}, output_shape=[BIG, 4]
    ),
    "-1 groups": lambda: one("Conv", {"k": np.ones((4, 4, 1, 1), np.float32)}, group=-1),
    "2^40 groups": lambda: one("Conv", {"k": np.ones((4, 4, 1, 1), np.float32)}, group=BIG),
    "more of the greatest than there are": lambda: one("TopK", {"k": longs(9)}, outputs="y i"),
    "-1 of the greatest": lambda: one("TopK", {"k": longs(-1)}, outputs="y i"),
    "a slice from the least integer": lambda: one(
        "Slice",
        {"s": longs(-(1 << 63)), "e": longs((1 << 63) - 1), "a": longs(3), "t": longs(1 << 62)},
        inputs="x s e a t",
    ),
    "a slice backwards by the least integer": lambda: one(
        "Slice",
        {"s": longs((1 << 63) - 1), "e": longs(-(1 << 63)), "a": longs(3), "t": longs(-(1 << 63))},
        inputs="x s e a t",
    ),
    "a slice with steps of zero": lambda: one(
        "Slice",
        {"s": longs(0), "e": longs(4), "a": longs(3), "t": longs(0)},
        inputs="x s e a t",
    ),
    "a slice along an axis twice": lambda: one(
        "Slice", {"s": longs(0, 0), "e": longs(2, 2), "a": longs(3, 3)}, inputs="x s e a"
    ),
    "indices of 2^40": lambda: one("Gather", {"k": longs(BIG)}),
    "indices of -2^63": lambda: one("Gather", {"k": longs(-(1 << 63))}),
    "axes of 2^40": lambda: one("Unsqueeze", {"k": longs(BIG)}),
    "an axis twice": lambda: one("Unsqueeze", {"k": longs(1, 1)}),
    "an axis below all": lambda: one("Concat", inputs="x x", axis=-(1 << 62)),
    "parts below zero": lambda: one("Split", {"k": longs(-4, 8)}, outputs="y z"),
    "a permutation of 2^40": lambda: one("Transpose", inputs="x", perm=[BIG, 0, 1, 2]),
    "a norm in 0 groups": lambda: one(
        "GroupNormalization", {"k": floats(1)}, inputs="x k k", opset=18, num_groups=0
    ),
    "a response over an even size": lambda: one("LRN", inputs="x", size=2),
    "a response over -3": lambda: one("LRN", inputs="x", size=-3),
    "a response over 2^40": lambda: one("LRN", inputs="x", size=BIG + 1),
    # Numbers.
    "a scale of zero": lambda: quantized(floats(0)[0]),
    "a scale below zero": lambda: quantized(floats(-1)[0]),
    "a scale that is no number": lambda: quantized(floats(NAN)[0]),
    "a scale without end": lambda: quantized(floats(INF)[0]),
    "a denormal scale": lambda: quantized(floats(1e-44)[0]),
    "the greatest scale": lambda: quantized(floats(3e38)[0]),
    "a scale of integers": lambda: quantized(np.int32(1)),
    "a zero point of floats": lambda: quantized(floats(1)[0], floats(1)[0]),
    "a zero point of 64 bits": lambda: quantized(floats(1)[0], np.int64(1 << 40)),
    "three scales for four channels": lambda: quantized(floats(1, 1, 1), np.zeros(3, np.int8)),
    "scales along an axis that is not there": lambda: quantized(
        floats(1, 1, 1, 1), np.zeros(4, np.int8), axis=7
    ),
    "clipping to an empty range": lambda: one(
        "Clip", {"a": floats(4)[0], "b": floats(-4)[0]}, "x a b"
    ),
    "clipping to no number": lambda: one(
        "Clip", {"a": floats(NAN)[0], "b": floats(NAN)[0]}, "x a b"
    ),
    "a sum with infinity": lambda: one("Add", {"k": floats(INF)}),
    "a product with no number": lambda: one("Mul", {"k": floats(NAN)}),
    "a quotient by zero": lambda: one("Div", {"k": floats(0)}),
    "integers divided by zero": lambda: one(
        "Div", {"k": np.zeros(1, np.int32)}, dtype=TensorProto.INT32
    ),
    "constants divided by zero": lambda: model(
        [node("Div", "a b", "c"), node("Add", "x c", "y")],
        {"x": (1,)},
        ["y"],
        {"a": np.ones(1, np.int64), "b": np.zeros(1, np.int64)},
        infer=False,
        dtype=TensorProto.INT64,
    ),
    "the least integer by -1": lambda: one(
        "Div", {"k": np.full(1, -1, np.int32)}, dtype=TensorProto.INT32
    ),
    "integers modulo zero": lambda: one(
        "Mod", {"k": np.zeros(1, np.int32)}, dtype=TensorProto.INT32
    ),
    "a shift by 99 bits": lambda: one(
        "BitShift", {"k": np.full(1, 99, np.uint8)}, dtype=TensorProto.UINT8, direction="LEFT"
    ),
    "a power without end": lambda: one("Pow", {"k": floats(1e38)}),
    "weights beyond half of float32": lambda: one(
        "MatMul", {"k": np.full((4, 4), 3e38, np.float32)}
    ),
    "a variance of zero and no epsilon": lambda: one(
        "BatchNormalization", {"k": floats(0, 0, 0, 0)}, "x k k k k", epsilon=0.0
    ),
    "a slope that is no number": lambda: one("PRelu", {"k": floats(NAN)}),
    # Structure.
    "no nodes": lambda: edited(lambda proto: proto.graph.ClearField("node")),
    "no outputs": lambda: edited(lambda proto: proto.graph.ClearField("output")),
    "no inputs": lambda: edited(lambda proto: proto.graph.ClearField("input")),
    "no graph": lambda: edited(lambda proto: proto.ClearField("graph")),
    "no operator sets": lambda: edited(lambda proto: proto.ClearField("opset_import")),
    "an output twice": lambda: edited(
        lambda proto: proto.graph.output.append(proto.graph.output[0])
    ),
    "an input twice": lambda: edited(lambda proto: proto.graph.input.append(proto.graph.input[0])),
    "an output that is an input": lambda: edited(
        lambda proto: proto.graph.output[0].CopyFrom(proto.graph.input[0])
    ),
    "an output that is a constant": lambda: model(
        [], {"x": (1,)}, ["k"], {"k": floats(1)}, infer=False
    ),
    "a result without a name": lambda: one("Relu", inputs="x", outputs=""),
    "an operator without a name": lambda: one("", inputs="x"),
    "an operator set of 10^9": lambda: one("Relu", inputs="x", opset=10**9),
    "an operator set of -1": lambda: one("Relu", inputs="x", opset=-1),
    "a function that calls itself": lambda: calling("f0"),
    "functions that call each other": lambda: calling("f1", "f0"),
    "a function that is not there": lambda: calling("f9"),
    "300 functions deep": lambda: calling(*(f"f{i + 1}" for i in range(300)), "Relu"),
    "12 branches deep": lambda: nested(12),
    "a loop of 10^12": lambda: loop(10**12),
    "a loop of -1": lambda: loop(-1),
    "Einstein's dots": lambda: one("Einsum", inputs="x x", equation="...ij,...jk->...ik..."),
    "Einstein's nothing": lambda: one("Einsum", inputs="x", equation=""),
    "Einstein's extents differ": lambda: one("Einsum", inputs="x", equation="aaab->b"),
    "a reference outside of a function": lambda: edited(
        lambda proto: proto.graph.node[0].attribute.add(name="alpha", ref_attr_name="a", type=1)
    ),
    "an attribute twice": lambda: edited(
        lambda proto: proto.graph.node[0].attribute.extend([helper.make_attribute("axis", 1)] * 2)
    ),
    "an attribute of another type": lambda: one("Concat", inputs="x x", axis="one"),
    # Names.
    "the end of a comment": lambda: named('*/ int main(void) { return 1; } /* "'),
    "lines and backslashes": lambda: named("a\\\nb\r\n#error\t??/\n"),
    "paths": lambda: named("../../../../tmp/x/"),
    "a quotation and braces": lambda: named('"}], {%s%n'),
    "a word of C": lambda: named("int"),
    "letters of many alphabets": lambda: named("é𝄞\u202e\u0000x"),
    "100,000 letters": lambda: named("a" * 100_000),
    "nothing": lambda: named(""),
}


@pytest.mark.parametrize("case", MODELS)
def test_in_words_and_in_time(case: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(MODELS[case]().SerializeToString())
    commands: Sequence[tuple[Callable[[Sequence[str]], int], list[str]]] = (
        (opt_main, ["m.onnx", "--fuse", "--quantize", "--elide-constants", "-o", "m.mlir"]),
        (compile_main, ["m.onnx", "-o", "out", "--target", "c", "--quantize", "none"]),
    )
    for main, arguments in commands:
        outcome = run(main, arguments, tmp_path)
        assert outcome.good, f"{outcome.command}: {outcome.status}\n{outcome.errors}"
        if outcome.status:
            assert not (tmp_path / arguments[arguments.index("-o") + 1]).exists()
            lines = outcome.errors.splitlines()
            assert lines and len(lines) <= 30 and "error" in outcome.errors
