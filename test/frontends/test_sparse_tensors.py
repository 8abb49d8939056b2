"""Test sparse initializers and constants: index formats, types, and invalid indices."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import model, node, run_onnxruntime

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UnsupportedError

Array = npt.NDArray[np.generic]

DENSE = np.array([[0, 0, 3, 0], [-1, 0, 0, 0], [0, 0, 0, 7]])


def sparse(
    dense: Array, data_type: int = TensorProto.FLOAT, *, is_linear: bool = True, name: str = "w"
) -> onnx.SparseTensorProto:
    places = np.argwhere(dense)
    indices = np.ravel_multi_index(tuple(places.T), dense.shape) if is_linear else places
    values = helper.make_tensor(name, data_type, [len(places)], dense[dense != 0].tolist())
    listed = helper.make_tensor("", TensorProto.INT64, indices.shape, indices.reshape(-1).tolist())
    return helper.make_sparse_tensor(values, listed, dense.shape)


def initialized(
    tensor: onnx.SparseTensorProto, nodes: tuple[onnx.NodeProto, ...] | None = None
) -> onnx.ModelProto:
    """Compute y = x + the tensor in float."""
    cast = node("Cast", "w", "c", to=TensorProto.FLOAT)
    made = [cast, node("Add", "x c", "y")] if nodes is None else list(nodes)
    proto = model(made, {"x": tuple(tensor.dims)}, ["y"], infer=False)
    proto.graph.sparse_initializer.append(tensor)
    return proto


def constant(tensor: onnx.SparseTensorProto) -> onnx.ModelProto:
    """Compute the same, with the tensor in a Constant."""
    proto = initialized(tensor)
    del proto.graph.sparse_initializer[:]
    attribute = helper.make_attribute("sparse_value", tensor)
    proto.graph.node.insert(0, onnx.NodeProto(op_type="Constant", output=["w"]))
    proto.graph.node[0].attribute.append(attribute)
    return proto


@pytest.mark.parametrize("is_linear", [True, False])
@pytest.mark.parametrize("build", [initialized, constant])
def test_index_formats(
    build: Callable[[onnx.SparseTensorProto], onnx.ModelProto], is_linear: bool
) -> None:
    proto = build(sparse(DENSE, is_linear=is_linear))
    x = np.full(DENSE.shape, 0.5, np.float32)
    assert (run_onnxruntime(proto, {"x": x})["y"] == DENSE + x).all()
    assert (run(import_model(proto), {"x": x})["y"] == DENSE + x).all()


TYPES = [
    TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT8,
    TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.INT4,
]  # fmt: skip


@pytest.mark.parametrize("data_type", TYPES)
def test_element_types(data_type: int) -> None:
    proto = initialized(sparse(DENSE, data_type))
    if data_type == TensorProto.INT4:
        proto = initialized(sparse(DENSE, data_type), INT4_NODES)
        proto.graph.initializer.append(helper.make_tensor("s", TensorProto.FLOAT, [], [1.0]))
        proto.opset_import[0].version = 21
    x = np.full(DENSE.shape, 0.5, np.float32)
    assert (run(import_model(proto), {"x": x})["y"] == DENSE + x).all()


INT4_NODES = (node("DequantizeLinear", "w s", "c"), node("Add", "x c", "y"))


def test_no_values() -> None:
    tensor = sparse(np.zeros((2, 3)))
    x = np.ones((2, 3), np.float32)
    assert (run(import_model(initialized(tensor)), {"x": x})["y"] == x).all()
    tensor.ClearField("indices")
    assert (run(import_model(initialized(tensor)), {"x": x})["y"] == x).all()


def test_a_default_of_an_input() -> None:
    """Before IR version 4 all initializers were inputs too."""
    proto = initialized(sparse(DENSE))
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, DENSE.shape))
    x = np.zeros(DENSE.shape, np.float32)
    assert (run(import_model(proto), {"x": x})["y"] == DENSE).all()


def test_the_import_equals_that_of_dense_weights() -> None:
    """Equal imports mean that all passes on zeros of weights apply."""
    proto = initialized(sparse(DENSE), (node("Add", "x w", "y"),))
    dense = initialized(sparse(DENSE), (node("Add", "x w", "y"),))
    del dense.graph.sparse_initializer[:]
    dense.graph.initializer.append(numpy_helper.from_array(DENSE.astype(np.float32), "w"))
    assert str(import_model(proto)) == str(import_model(dense))


def indexed(shape: tuple[int, ...], *indices: int) -> Callable[[onnx.SparseTensorProto], None]:
    def change(tensor: onnx.SparseTensorProto) -> None:
        tensor.indices.CopyFrom(helper.make_tensor("", TensorProto.INT64, shape, list(indices)))

    return change


def dims(*extents: int) -> Callable[[onnx.SparseTensorProto], None]:
    def change(tensor: onnx.SparseTensorProto) -> None:
        tensor.dims[:] = extents

    return change


def as_int32(tensor: onnx.SparseTensorProto) -> None:
    tensor.indices.CopyFrom(helper.make_tensor("", TensorProto.INT32, [3], [2, 4, 11]))


def as_matrix(tensor: onnx.SparseTensorProto) -> None:
    tensor.values.dims[:] = [1, 3]


WRONG: dict[str, tuple[Callable[[onnx.SparseTensorProto], None], str]] = {
    "negative": (indexed((3,), -1, 4, 11), "sparse index [-1] is outside the tensor of shape"),
    "too large": (indexed((3,), 2, 4, 12), "sparse index [12] is outside"),
    "huge": (indexed((3,), 2, 4, 2**63 - 1), "sparse index [9223372036854775807] is outside"),
    "coordinate": (indexed((3, 2), 0, 2, 0, 4, 2, 3), "sparse index [0, 4] is outside"),
    "negative coordinate": (indexed((3, 2), 0, 2, 1, -1, 2, 3), "sparse index [1, -1] is outside"),
    "unsorted": (indexed((3,), 4, 2, 11), "sparse index [2] is not above the index before it"),
    "duplicate": (indexed((3,), 2, 2, 11), "sparse index [2] is not above the index before it"),
    "unsorted coordinates": (
        indexed((3, 2), 1, 0, 0, 2, 2, 3),
        "sparse index [0, 2] is not above the index before it",
    ),
    "too few": (indexed((2,), 2, 4), "sparse indices of shape [2], expected [3] or [3, 2]"),
    "three coordinates": (indexed((3, 3), *range(9)), "sparse indices of shape [3, 3], expected"),
    "no data": (
        lambda t: t.indices.ClearField("int64_data"),
        "0 bytes, expected 24 for shape [3]",
    ),
    "no indices": (
        lambda t: t.ClearField("indices"),
        "sparse indices are undefined, expected int64",
    ),
    "int32": (as_int32, "sparse indices are int32, expected int64"),
    "values": (as_matrix, "sparse values of shape [1, 3], expected a list"),
    "too few values": (
        lambda t: t.values.float_data.__delitem__(0),
        "8 bytes, expected 12 for shape [3]",
    ),
    "negative extent": (dims(-3, 4), "shape [-3, 4] has a negative extent"),
    "huge shape": (
        dims(1 << 40, 1 << 40),
        "shape [1099511627776, 1099511627776] has more than 2^28 elements",
    ),
    "no shape": (dims(), "the shape of a sparse tensor is missing"),
}


@pytest.mark.parametrize("build", [initialized, constant])
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_sparse_tensor(
    name: str, build: Callable[[onnx.SparseTensorProto], onnx.ModelProto]
) -> None:
    change, message = WRONG[name]
    proto = build(sparse(DENSE))
    tensor = (
        proto.graph.sparse_initializer[0]
        if proto.graph.sparse_initializer
        else proto.graph.node[0].attribute[0].sparse_tensor
    )
    change(tensor)
    with pytest.raises(InputError) as info:
        import_model(proto)
    assert info.value.exit_status == 1
    assert f"node 'w' (initializer): error: {message}" in str(info.value)


def test_names_of_initializers() -> None:
    proto = initialized(sparse(DENSE))
    proto.graph.sparse_initializer.append(sparse(DENSE))
    with pytest.raises(InputError, match="two initializers are called 'w'"):
        import_model(proto)


def test_an_unsupported_element_type() -> None:
    with pytest.raises(UnsupportedError, match="unsupported element type complex64"):
        import_model(initialized(sparse(DENSE, TensorProto.COMPLEX64)))


def test_a_constant_of_two_values() -> None:
    proto = constant(sparse(DENSE))
    proto.graph.node[0].attribute.append(helper.make_attribute("value_int", 1))
    with pytest.raises(InputError, match="has 2 attributes, expected a single value"):
        import_model(proto)
