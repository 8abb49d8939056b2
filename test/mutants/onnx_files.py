"""
Create structured mutants of ONNX models.

A mutant has one to three changes to the nodes, attributes, types, shapes, initializers or operator
sets of a valid network.
"""

from collections.abc import Callable, Sequence
from functools import cache
from random import Random

import numpy as np
import onnx
from google.protobuf.message import Message
from mutants.ir import EXTENTS, FLOATS, INTEGERS, WORDS
from onnx import AttributeProto, TensorProto
from onnx_models import conv_model, gemm_model, mlp, model, node, pool_model, residual_block
from onnx_random import random_network

LISTS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


@cache
def sources() -> tuple[bytes, ...]:
    """Return float and quantized networks that use many different operators."""
    made = [
        conv_model(),
        gemm_model(),
        pool_model("MaxPool"),
        mlp(3),
        residual_block(),
        _quantized(),
    ]
    made += [random_network(seed) for seed in range(40)]
    return tuple(proto.SerializeToString() for proto in made)


def _quantized() -> onnx.ModelProto:
    """Build a convolution and a product between QuantizeLinear and DequantizeLinear."""
    random = np.random.default_rng(0)
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("Conv", "d k", "c", pads=[1, 1, 1, 1]),
        node("QuantizeLinear", "c t z", "r"),
        node("DequantizeLinear", "r t z", "e"),
        node("Flatten", "e", "f"),
        node("Gemm", "f w b", "g", alpha=0.5),
        node("Softmax", "g", "y"),
    ]
    constants = {
        "s": np.float32(0.05),
        "t": np.float32(0.1),
        "z": np.int8(3),
        "k": random.normal(size=(4, 2, 3, 3)).astype(np.float32),
        "w": random.normal(size=(64, 5)).astype(np.float32),
        "b": random.normal(size=5).astype(np.float32),
    }
    return model(nodes, {"x": (1, 2, 4, 4)}, ["y"], constants)


def mutant(seed: int) -> bytes:
    """Return the file of mutant number `seed`."""
    random = Random(seed)
    proto = onnx.ModelProto.FromString(random.choice(sources()))
    for _ in range(random.randint(1, 3)):
        random.choice(CHANGES)(random, proto)
    return proto.SerializeToString()


def _pick(random: Random, items: Sequence[Message]) -> Message | None:
    return random.choice(list(items)) if len(items) else None


def change_attribute(random: Random, proto: onnx.ModelProto) -> None:
    owners = [n for n in proto.graph.node if n.attribute]
    if not owners:
        return
    attribute = random.choice(random.choice(owners).attribute)
    match random.randrange(8):
        case 0:
            kinds = AttributeProto.AttributeType.values()
            attribute.type = random.choice(kinds)  # pyright: ignore
        case 1:
            attribute.name = random.choice(("axis", "pads", "strides", "alpha", "to", *WORDS))
        case 2 if len(attribute.ints):
            attribute.ints.pop()
        case 3:
            attribute.ints.append(random.choice(INTEGERS))
        case 4 if len(attribute.ints):
            attribute.ints[random.randrange(len(attribute.ints))] = random.choice(INTEGERS)
        case 5:
            attribute.s = random.choice(WORDS).encode() + random.choice((b"", b"\xff"))
        case _:
            attribute.i, attribute.f = random.choice(INTEGERS), random.choice(FLOATS)


def add_attribute(random: Random, proto: onnx.ModelProto) -> None:
    owner = random.choice(proto.graph.node)
    name = random.choice(("axis", "axes", "pads", "auto_pad", "group", "keepdims", "alpha", "perm"))
    value: object = random.choice((1, -1, 0.5, "SAME_UPPER", [0, 1], [1, 1, 1, 1], float("inf")))
    owner.attribute.append(onnx.helper.make_attribute(name, value))


def change_node(random: Random, proto: onnx.ModelProto) -> None:
    nodes = proto.graph.node
    index = random.randrange(len(nodes))
    chosen = nodes[index]
    names = [n for other in nodes for n in (*other.input, *other.output)] + ["", "nothing"]
    match random.randrange(8):
        case 0:
            chosen.op_type = random.choice([n.op_type for n in nodes] + list(OPERATORS))
        case 1 if len(chosen.input):
            chosen.input[random.randrange(len(chosen.input))] = random.choice(names)
        case 2 if len(chosen.input):
            chosen.input.pop()
        case 3:
            chosen.input.append(random.choice(names))
        case 4:
            chosen.output.append(random.choice(names))
        case 5:
            chosen.domain = random.choice(("ai.onnx", "ai.onnx.ml", "com.microsoft", "x"))
        case 6 if len(nodes) > 1:
            del nodes[index]
        case _:
            nodes.insert(random.randrange(len(nodes)), chosen)


OPERATORS = (
    *("Conv", "Gemm", "MatMul", "Add", "Relu", "Reshape", "Transpose", "Concat", "Softmax", "Clip"),
    *(
        "Gather",
        "Slice",
        "Split",
        "Pad",
        "Resize",
        "Cast",
        "ReduceMean",
        "ArgMax",
        "Where",
        "Expand",
    ),
    *("QuantizeLinear", "DequantizeLinear", "QLinearConv", "ConvInteger", "Einsum", "If", "Loop"),
    *("BatchNormalization", "LayerNormalization", "ConvTranspose", "LRN", "DepthToSpace", "Range"),
    *("Constant", "ConstantOfShape", "Shape", "Size", "OneHot", "Tile", "TopK", "Identity", "Sum"),
)


def change_initializer(random: Random, proto: onnx.ModelProto) -> None:
    tensor = _pick(random, proto.graph.initializer)
    if not isinstance(tensor, TensorProto):
        return
    match random.randrange(8):
        case 0 if len(tensor.dims):
            tensor.dims[random.randrange(len(tensor.dims))] = random.choice(EXTENTS)
        case 1:
            tensor.dims.append(random.choice(EXTENTS))
        case 2:
            tensor.data_type = random.choice((*range(25), 99))
        case 3:
            tensor.raw_data = tensor.raw_data[: random.randrange(len(tensor.raw_data) + 1)]
        case 4:
            getattr(tensor, random.choice(LISTS)).append(1)
        case 5:
            numbers = np.frombuffer(tensor.raw_data[: len(tensor.raw_data) // 4 * 4], np.float32)
            if len(numbers):
                numbers = numbers.copy()
                numbers[random.randrange(len(numbers))] = random.choice(FLOATS)
                tensor.raw_data = numbers.tobytes()
        case 6:
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=random.choice((*WORDS, "mutant.onnx")))
        case _:
            proto.graph.initializer.append(tensor)


def change_end(random: Random, proto: onnx.ModelProto) -> None:
    ends = random.choice((proto.graph.input, proto.graph.output))
    value = _pick(random, ends)
    if not isinstance(value, onnx.ValueInfoProto):
        return
    kind = value.type.tensor_type
    match random.randrange(7):
        case 0:
            kind.elem_type = random.choice((*range(25), 99))
        case 1 if kind.shape.dim:
            random.choice(kind.shape.dim).dim_value = random.choice(EXTENTS)
        case 2 if kind.shape.dim:
            random.choice(kind.shape.dim).dim_param = random.choice(WORDS)
        case 3:
            kind.shape.dim.add(dim_value=random.choice(EXTENTS))
        case 4:
            kind.ClearField("shape")
        case 5:
            value.name = random.choice(WORDS)
        case _:
            ends.append(value)


def change_header(random: Random, proto: onnx.ModelProto) -> None:
    match random.randrange(5):
        case 0:
            proto.ir_version = random.choice((0, 3, 10, 999))
        case 1:
            proto.opset_import.add(domain=random.choice(("", "ai.onnx", "x")), version=12)
        case 2:
            proto.opset_import[0].version = random.choice((-1, 0, 1, 6, 7, 11, 13, 18, 21, 28, 99))
        case 3:
            proto.opset_import[0].domain = random.choice(("ai.onnx.ml", "x"))
        case _:
            function = proto.functions.add(domain="", name=proto.graph.node[0].op_type)
            function.node.append(proto.graph.node[0])


CHANGES: tuple[Callable[[Random, onnx.ModelProto], None], ...] = (
    change_attribute,
    change_attribute,
    add_attribute,
    change_node,
    change_node,
    change_initializer,
    change_initializer,
    change_end,
    change_header,
)
