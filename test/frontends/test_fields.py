"""Test fields of protobuf messages: storage of elements, attributes, types, shapes."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import model, node, run_onnxruntime

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UnsupportedError

X = np.array([0.5, 1], np.float32)


def stored(**fields: object) -> onnx.ModelProto:
    """Add x and an initializer of two elements with the given fields, converted to float."""
    nodes = [node("Cast", "w", "c", to=TensorProto.FLOAT), node("Add", "x c", "y")]
    proto = model(nodes, {"x": (2,)}, ["y"], infer=False, opset=21)
    proto.ir_version = 10
    proto.graph.initializer.append(TensorProto(name="w", dims=[2], **fields))  # pyright: ignore
    return proto


FLOAT16_ONE, BFLOAT16_ONE = 0x3C00, 0x3F80

VALID = {
    "float16 as bits": stored(data_type=TensorProto.FLOAT16, int32_data=[FLOAT16_ONE, 0xC000]),
    "bfloat16 as bits": stored(data_type=TensorProto.BFLOAT16, int32_data=[BFLOAT16_ONE, 0xC000]),
    "int8": stored(data_type=TensorProto.INT8, int32_data=[1, -2]),
    "int4": stored(data_type=TensorProto.INT4, int32_data=[0xE1]),
    "int64": stored(data_type=TensorProto.INT64, int64_data=[1, -2]),
    "double": stored(data_type=TensorProto.DOUBLE, double_data=[1, -2]),
    "raw": stored(data_type=TensorProto.INT16, raw_data=b"\1\0\xfe\xff"),
}


@pytest.mark.parametrize("name", VALID)
def test_storage_of_elements(name: str) -> None:
    proto = VALID[name]
    expected = X + np.array([1, -2], np.float32)
    assert (run_onnxruntime(proto, {"x": X})["y"] == expected).all()
    assert (run(import_model(proto), {"x": X})["y"] == expected).all()


def test_unsigned_elements() -> None:
    proto = stored(data_type=TensorProto.UINT32, uint64_data=[1, 2**32 - 1])
    assert run(import_model(proto), {"x": X})["y"].tolist() == [1.5, 2.0**32]


RAW = np.array([1, 2], np.float32).tobytes()

WRONG_STORAGE = {
    "int8": (stored(data_type=TensorProto.INT8, int32_data=[300, 1]), "element 300 is not in the"),
    "uint8": (stored(data_type=TensorProto.UINT8, int32_data=[1, -1]), "element -1 is not in the"),
    "uint32": (
        stored(data_type=TensorProto.UINT32, uint64_data=[1 << 63, 1]),
        "element 9223372036854775808 is not in the range of uint32",
    ),
    "bool": (stored(data_type=TensorProto.BOOL, int32_data=[2, 1]), "other than 0 and 1"),
    "raw bool": (stored(data_type=TensorProto.BOOL, raw_data=b"\2\1"), "other than 0 and 1"),
    "float16": (
        stored(data_type=TensorProto.FLOAT16, int32_data=[-1, 0]),
        "element -1 is not in the range of float16",
    ),
    "int4": (stored(data_type=TensorProto.INT4, int32_data=[0x1E1]), "element 481 is not in the"),
    "field of another type": (
        stored(data_type=TensorProto.FLOAT, double_data=[1, 2]),
        "the elements are in field double_data, expected float_data",
    ),
    "strings": (
        stored(data_type=TensorProto.FLOAT, raw_data=RAW, string_data=[b"a"]),
        "the elements are stored more than once",
    ),
    "too few": (
        stored(data_type=TensorProto.FLOAT, float_data=[1]),
        "4 bytes, expected 8 for shape [2] of float32",
    ),
    "no type": (stored(raw_data=RAW), "the element type is missing"),
}


@pytest.mark.parametrize("name", WRONG_STORAGE)
def test_wrong_storage_of_elements(name: str) -> None:
    proto, message = WRONG_STORAGE[name]
    with pytest.raises(InputError) as info:
        import_model(proto)
    assert info.value.exit_status == 1
    assert "node 'w' (initializer): error: " in str(info.value) and message in str(info.value)


def test_a_segment_of_a_tensor() -> None:
    segment = TensorProto.Segment(begin=0, end=2)
    with pytest.raises(UnsupportedError, match="unsupported segment of a tensor"):
        import_model(stored(data_type=TensorProto.FLOAT, raw_data=RAW, segment=segment))


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    proto = stored(data_type=TensorProto.FLOAT, raw_data=RAW)
    change(proto)
    return proto


def attribute(**fields: object) -> onnx.ModelProto:
    """Build Cast with another attribute `to`."""
    to = onnx.AttributeProto(name="to", **fields)  # pyright: ignore
    return changed(lambda proto: proto.graph.node[0].attribute[0].CopyFrom(to))


def also_input(data_type: int, *shape: int) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("w", data_type, shape)
    return changed(lambda proto: proto.graph.input.append(value))


def declared(shape: tuple[int, ...], field: str = "input") -> onnx.ModelProto:
    value = helper.make_tensor_value_info("x" if field == "input" else "y", 1, shape)
    return changed(lambda proto: getattr(proto.graph, field)[0].CopyFrom(value))


INT, FLOAT = onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT

WRONG = {
    "attribute without a type": (attribute(i=1), "attribute 'to' has type 0, expected 1 to 14"),
    "attribute with another value": (
        attribute(type=INT, f=1.0),
        "attribute 'to' of type INT has a value in f field, expected i",
    ),
    "attribute with two values": (
        attribute(type=INT, i=1, f=1.0),
        "attribute 'to' of type INT has a value in f, i field, expected i",
    ),
    "attribute without a graph": (
        attribute(type=onnx.AttributeProto.GRAPH),
        "attribute 'to' of type GRAPH has a value in no field, expected g",
    ),
    "initializer and input of other shapes": (
        also_input(TensorProto.FLOAT, 3),
        "has shape [2], but the input of this name is declared with [3]",
    ),
    "initializer and input of other ranks": (
        also_input(TensorProto.FLOAT, 2, 1),
        "has shape [2], but the input of this name is declared with [2, 1]",
    ),
    "initializer and input of other types": (
        also_input(TensorProto.INT64, 2),
        "is float, but the input of this name is declared as int64",
    ),
    "input without a type": (
        changed(lambda proto: proto.graph.input[0].ClearField("type")),
        "node 'x' (graph input): error: the element type is missing",
    ),
    "input without an element type": (
        changed(lambda proto: proto.graph.input[0].type.tensor_type.ClearField("elem_type")),
        "node 'x' (graph input): error: the element type is missing",
    ),
    "negative dimension": (
        declared((-3,)),
        "node 'x' (graph input): error: dimension 0 is declared as -3, expected 0 or more, or a "
        "name if it is open",
    ),
    "negative dimension of an output": (
        declared((-2,), "output"),
        "node 'y' (graph output): error: dimension 0 is declared as -2",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_field(name: str) -> None:
    proto, message = WRONG[name]
    with pytest.raises(InputError) as info:
        import_model(proto)
    assert info.value.exit_status == 1 and message in str(info.value)


def test_an_open_dimension_of_minus_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "tensor<1xf32>" in str(import_model(declared((-1,)), batch=1))
    assert capsys.readouterr().err == (
        "import: note: input 'x' is declared with dimensions of -1, which are accepted as open: "
        "['?']\n"
    )


def test_attributes_that_writers_of_proto3_omit() -> None:
    """A value of 0 or an empty list is not in the file."""
    proto = model([node("Flatten", "x", "y", axis=0)], {"x": (2, 3)}, ["y"], infer=False)
    proto.graph.node[0].attribute[0].ClearField("i")
    x = np.zeros((2, 3), np.float32)
    assert run(import_model(proto), {"x": x})["y"].shape == (1, 6)


def test_the_name_of_the_default_domain() -> None:
    """Use the name for imported operators, and for operators of constants."""
    proto = stored(data_type=TensorProto.INT8, int32_data=[1, 2])
    for each in proto.graph.node:
        each.domain = "ai.onnx"
    assert run(import_model(proto), {"x": X})["y"].tolist() == [1.5, 3]


def test_fields_that_inference_does_not_use() -> None:
    proto = stored(data_type=TensorProto.FLOAT, raw_data=RAW)
    proto.training_info.add().algorithm.name = "training"
    proto.graph.quantization_annotation.add(tensor_name="w")
    proto.graph.metadata_props.add(key="source", value="a test")
    proto.graph.node[0].metadata_props.add(key="module", value="layer")
    assert run(import_model(proto), {"x": X})["y"].tolist() == [1.5, 3]
