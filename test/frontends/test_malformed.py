"""Import broken or malicious models: an `InputError` names the node, without a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import Attribute, Shape, conv_model, mlp, model, node, residual_block
from slow_cases import first_fast

from ceras_ir.driver.compile import main as compile_main
from ceras_ir.frontends.onnx import import_file, import_model, importer
from ceras_ir.frontends.onnx.emission import values
from ceras_ir.support.diagnostics import InputError


def wrong(
    op: str,
    constants: Mapping[str, npt.ArrayLike] | None = None,
    *,
    inputs: str = "x k",
    shape: Shape = (1, 3, 8, 8),
    **attributes: Attribute,
) -> onnx.ModelProto:
    nodes = [node(op, inputs, "y", "n", **attributes)]
    return model(nodes, {"x": shape}, ["y"], constants, infer=False)


def zeros(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.zeros(shape, np.float32)


WRONG: dict[str, tuple[onnx.ModelProto, str]] = {
    "channels": (wrong("Conv", {"k": zeros(4, 2, 3, 3)}), "input of 3 channels, expected 2"),
    "group 0": (wrong("Conv", {"k": zeros(4, 3, 3, 3)}, group=0), "must divide 3 input and 4"),
    "group 2": (wrong("Conv", {"k": zeros(4, 3, 3, 3)}, group=2), "'group' must divide"),
    "huge pads": (
        wrong("Conv", {"k": zeros(4, 3, 3, 3)}, pads=[1 << 40, 0, 0, 0]),
        "attribute 'pads' must be below 2^31, got 1099511627776",
    ),
    "result too large": (
        wrong("Conv", {"k": zeros(4, 3, 1, 1)}, pads=[1 << 30, 1 << 30, 0, 0]),
        "is too large",
    ),
    "image below its window": (
        wrong(
            "Col2Im",
            {"k": np.array([2, 2]), "b": np.array([4, 4])},
            inputs="x k b",
            shape=(1, 16, 1),
        ),
        "16 rows of 1 windows for [2, 2] by [4, 4]",
    ),
    "empty window": (
        wrong(
            "Col2Im",
            {"k": np.array([2, 2]), "b": np.array([0, 4])},
            inputs="x k b",
            shape=(1, 16, 1),
        ),
        "a size of a block, stride or dilation below 1",
    ),
    "window of another rank": (
        wrong(
            "Col2Im", {"k": np.array([2, 2]), "b": np.array([4])}, inputs="x k b", shape=(1, 16, 1)
        ),
        "sizes of other lengths than 2, as [2, 2] has",
    ),
    "negative pads": (wrong("Conv", {"k": zeros(4, 3, 3, 3)}, pads=[-1, 0, 0, 0]), "integers >= 0"),
    "strides 0": (wrong("Conv", {"k": zeros(4, 3, 3, 3)}, strides=[0, 1]), "integers >= 1"),
    "three strides": (wrong("Conv", {"k": zeros(4, 3, 3, 3)}, strides=[1] * 3), "2 integers"),
    "kernel_shape": (wrong("Conv", {"k": zeros(4, 3, 3, 3)}, kernel_shape=[3, 5]), "[3, 5]"),
    "window": (wrong("Conv", {"k": zeros(4, 3, 9, 1)}), "a window of 9 does not fit an input of 8"),
    "rank": (wrong("Conv", {"k": zeros(4, 3, 3)}), "must have the same rank"),
    "bias": (
        wrong("Conv", {"k": zeros(4, 3, 1, 1), "b": zeros(3)}, inputs="x k b"),
        "bias of shape [3], expected [4]",
    ),
    "auto_pad": (wrong("Conv", {"k": zeros(4, 3, 1, 1)}, auto_pad="SAME"), "got 'SAME'"),
    "attribute type": (
        wrong("Conv", {"k": zeros(4, 3, 1, 1)}, strides=2),
        "attribute 'strides' must be a list of integers",
    ),
    "unknown attribute": (
        wrong("Relu", inputs="x", slope=2),
        "Relu has no attribute 'slope'",
    ),
    "missing operand": (wrong("Conv", inputs="x"), "operand 1 is missing, got 1 operands"),
    "reshape count": (wrong("Reshape", {"k": [5, 7]}), "has 192 elements, expected 35"),
    "reshape rest": (wrong("Reshape", {"k": [5, -1]}), "expected a multiple of 5"),
    "reshape two rests": (wrong("Reshape", {"k": [-1, -1]}), "at most a single -1"),
    "reshape copy": (wrong("Reshape", {"k": [0, 0, 0, 0, 0]}), "0 at index 4 copies no extent"),
    "reshape floats": (wrong("Reshape", {"k": zeros(2)}), "must be a list of integers"),
    "reshape huge": (wrong("Reshape", {"k": [1 << 40, -1]}), "expected a multiple of"),
    "squeeze": (wrong("Squeeze", {"k": [1]}), "has extent 3, not 1"),
    "axis": (wrong("Softmax", inputs="x", axis=4), "axis must be in [-4, 4), got 4"),
    "perm": (wrong("Transpose", inputs="x", perm=[0, 1, 2, 2]), "must order 4 dimensions"),
    "concat": (wrong("Concat", {"k": zeros(1, 3, 8, 7)}, axis=1), "differ in more than"),
    "broadcast": (wrong("Add", {"k": zeros(5)}), "do not broadcast"),
    "gemm": (wrong("Gemm", {"k": zeros(5, 4)}, shape=(2, 3)), "3 columns, expected 5"),
    "gemm rank": (wrong("Gemm", {"k": zeros(5, 4)}), "matrix expected, got shape [1, 3, 8, 8]"),
    "gemm C": (
        wrong("Gemm", {"k": zeros(3, 4), "c": zeros(3)}, inputs="x k c", shape=(2, 3)),
        "does not broadcast to [2, 4]",
    ),
    "matmul": (wrong("MatMul", {"k": zeros(5, 4)}), "8 columns, expected 5"),
    "pool window": (wrong("MaxPool", inputs="x", kernel_shape=[9, 1]), "does not fit"),
    "pool padding": (
        wrong("AveragePool", inputs="x", kernel_shape=[2, 2], pads=[2, 0, 0, 0]),
        "must be smaller than the window",
    ),
    "statistics": (
        wrong("BatchNormalization", {"k": zeros(4)}, inputs="x k k k k"),
        "scale of shape [4], expected [3]",
    ),
    "variance": (
        wrong("BatchNormalization", {"k": np.full(3, -1, np.float32)}, inputs="x k k k k"),
        "variance plus epsilon must be positive",
    ),
    "scales": (
        wrong("Resize", {"k": np.array([1, 1, 0, 1], np.float32)}, inputs="x - k"),
        "4 positive scales expected",
    ),
    "no sizes": (wrong("Resize", inputs="x"), "either scales or sizes expected"),
    "huge scales": (
        wrong("Resize", {"k": np.array([1, 1, 1e30, 1], np.float32)}, inputs="x - k"),
        "gives an extent of",
    ),
    "alpha": (wrong("LeakyRelu", inputs="x", alpha=float("nan")), "must be finite"),
    "Gemm's alpha": (wrong("Gemm", {"k": zeros(3, 4)}, shape=(2, 3), alpha=float("inf")), "finite"),
    "weights": (wrong("MatMul", {"k": np.full((8, 4), np.inf, np.float32)}), "must be finite"),
    "unknown tensor": (wrong("Relu", inputs="z"), "uses 'z', which no node or input of"),
    "own output": (wrong("Relu", inputs="y"), "the graph has a cycle"),
    "same output": (wrong("Relu", {"y": zeros(1)}, inputs="x"), "computes 'y', which exists"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_node(name: str) -> None:
    proto, text = WRONG[name]
    with pytest.raises(InputError) as info:
        import_model(proto, name="m.onnx")
    assert info.value.exit_status == 1, info.value
    (line,) = info.value.lines("?")
    assert line.startswith("m.onnx: node 'n' (") and text in line


def initializer(changed: onnx.TensorProto) -> onnx.ModelProto:
    """Build a model with an initializer that contradicts the data."""
    proto = model([node("Add", "x k", "y")], {"x": (1,)}, ["y"], {"k": zeros(2)}, infer=False)
    tensor = proto.graph.initializer[0]
    if changed.dims:
        del tensor.dims[:]
    tensor.MergeFrom(changed)
    return proto


def external(**entries: str) -> onnx.ModelProto:
    """Build a model with an initializer of 8 bytes in another file."""
    proto = initializer(onnx.TensorProto(data_location=TensorProto.EXTERNAL))
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return proto


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (
            initializer(onnx.TensorProto(dims=[3])),
            "8 bytes, expected 12 for shape [3] of float32",
        ),
        (initializer(onnx.TensorProto(dims=[1 << 40, 1 << 40])), "has more than 2^28 elements"),
        (initializer(onnx.TensorProto(dims=[-1])), "has a negative extent"),
        (initializer(onnx.TensorProto(data_type=99)), "unsupported element type element type 99"),
        (
            initializer(onnx.TensorProto(data_type=TensorProto.STRING)),
            "has 0 strings for shape [2]",
        ),
    ],
)
def test_initializer(proto: onnx.ModelProto, text: str) -> None:
    with pytest.raises(InputError) as info:
        import_model(proto)
    assert "node 'k' (initializer): error: " in str(info.value) and text in str(info.value)


def test_external_data(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    numbers = np.array([1, 2, 3, 4], np.float32)
    (folder / "data").write_bytes(numbers.tobytes())
    (tmp_path / "secret").write_bytes(numbers.tobytes())
    (folder / "link").symlink_to(tmp_path / "secret")

    def load(**entries: str) -> str:
        (folder / "m.onnx").write_bytes(external(**entries).SerializeToString())
        return str(import_file(folder / "m.onnx"))

    assert "dense<[2.000000e+00, 3.000000e+00]>" in load(location="data", offset="4", length="8")
    for entries, text in (
        ({"location": "../secret"}, "expected a path below the model's folder"),
        ({"location": str(tmp_path / "secret")}, "expected a path below the model's folder"),
        ({"location": "C:\\data"}, "expected a path below the model's folder"),
        (
            {"location": "link"},
            "external data 'link' leads out by a link, expected a path below the model's folder; "
            f"replace links by files: cp -rL {folder} COPY",
        ),
        ({"location": ""}, "expected a path below"),
        ({"location": "."}, "expected a path below"),
        ({"location": "none"}, "external data file 'none' is missing"),
        ({"location": "data", "offset": "12"}, "has 16 bytes, expected 20"),
        ({"location": "data", "offset": "-4"}, "must be a count of bytes, got '-4'"),
        ({"location": "data", "length": "4"}, "external data of 4 bytes, expected 8"),
    ):
        with pytest.raises(InputError) as info:
            load(**entries)
        assert text in str(info.value)
    with pytest.raises(InputError, match="not read from a file"):
        import_model(external(location="data"))


def test_a_cache_that_links_files(tmp_path: Path) -> None:
    """A snapshot in the cache of Hugging Face has links to files of digests in `blobs`."""
    snapshot, blobs = tmp_path / "model" / "snapshots" / "1a2b" / "onnx", tmp_path / "model/blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    (blobs / "c6ed").write_bytes(external(location="m.data").SerializeToString())
    (blobs / "b879").write_bytes(np.array([1, 2], np.float32).tobytes())
    (snapshot / "m.onnx").symlink_to("../../../blobs/c6ed")
    (snapshot / "m.data").symlink_to("../../../blobs/b879")
    assert "dense<[1.000000e+00, 2.000000e+00]>" in str(import_file(snapshot / "m.onnx"))
    (snapshot / "copy.onnx").write_bytes((blobs / "c6ed").read_bytes())
    assert "dense<[1.000000e+00, 2.000000e+00]>" in str(import_file(snapshot / "copy.onnx"))
    (tmp_path / "secret").write_bytes(bytes(8))
    (snapshot / "m.data").unlink()
    (snapshot / "m.data").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out by a link"):
        import_file(snapshot / "m.onnx")
    # The folder of the blobs is a link too.
    blobs.rename(tmp_path / "blobs")
    blobs.symlink_to(tmp_path)
    (snapshot / "m.data").unlink()
    (snapshot / "m.data").symlink_to("../../../blobs/secret")
    with pytest.raises(InputError, match="leads out by a link"):
        import_file(snapshot / "copy.onnx")


def test_a_link_that_leads_to_itself(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to("data")
    (tmp_path / "m.onnx").write_bytes(external(location="data").SerializeToString())
    with pytest.raises(InputError, match="external data file 'data' is missing"):
        import_file(tmp_path / "m.onnx")


def test_links_to_a_model_and_its_data(tmp_path: Path) -> None:
    """Both links lead to the same folder; a link only to the data does not."""
    (tmp_path / "model").mkdir()
    (tmp_path / "work").mkdir()
    data = external(location="data").SerializeToString()
    (tmp_path / "model" / "m.onnx").write_bytes(data)
    (tmp_path / "model" / "data").write_bytes(np.array([1, 2], np.float32).tobytes())
    for name in ("m.onnx", "data"):
        (tmp_path / "work" / name).symlink_to(tmp_path / "model" / name)
    assert "dense<[1.000000e+00, 2.000000e+00]>" in str(import_file(tmp_path / "work" / "m.onnx"))
    (tmp_path / "work" / "copy.onnx").write_bytes(data)
    with pytest.raises(InputError, match="leads out by a link"):
        import_file(tmp_path / "work" / "copy.onnx")


def test_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read: No such file"):
        import_file(tmp_path / "none.onnx")
    with pytest.raises(InputError, match="a folder, expected"):
        import_file(tmp_path)
    for data, text in ((b"", "empty file"), (b"# text, not a model\n" * 9, "not an ONNX model")):
        (tmp_path / "m.onnx").write_bytes(data)
        with pytest.raises(InputError, match=text):
            import_file(tmp_path / "m.onnx")


def test_constant_arithmetic_is_bounded() -> None:
    """Folding does not allocate a result that a few bytes declare."""
    for nodes, constants in (
        ([node("ConstantOfShape", "k", "c")], {"k": np.array([1 << 20, 1 << 20])}),
        ([node("Expand", "o k", "c")], {"k": np.array([1 << 40]), "o": zeros(1)}),
        ([node("Tile", "o k", "c")], {"k": np.array([1 << 40]), "o": zeros(1)}),
        ([node("Range", "a b d", "c")], dict(zip("abd", np.array([0, 1 << 40, 1]), strict=True))),
        ([node("Add", "a b", "c")], {"a": zeros(1 << 15, 1), "b": zeros(1, 1 << 15)}),
    ):  # fmt: skip
        proto = model([*nodes, node("Add", "x c", "y")], {"x": (1,)}, ["y"], constants, infer=False)
        with pytest.raises(InputError, match="too large to fold"):
            import_model(proto)


def test_a_constant_that_has_its_shape_already_expands_to_no_more() -> None:
    """Expand the states of a recurrent network with a large batch."""
    nodes = [node("Expand", "state extents", "all"), node("Add", "x all", "y")]
    constants = {"state": zeros(1, 6000, 3), "extents": np.array([1, 6000, 3])}
    assert import_model(model(nodes, {"x": (1, 6000, 3)}, ["y"], constants))


def test_nodes_look_at_their_own_operands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier, each of thousands of nodes examined all previous values."""
    looks = [0]

    class Counting(type):
        def __instancecheck__(cls, instance: object) -> bool:
            looks[0] += 1
            return isinstance(instance, values.Constant)

    class Counted(values.Constant, metaclass=Counting):
        pass

    monkeypatch.setattr(importer, "Constant", Counted)
    count = 300
    nodes = [node("Relu", f"x{i}", f"x{i + 1}") for i in range(count)]
    assert import_model(model(nodes, {"x0": (4,)}, [f"x{count}"]))
    assert looks[0] < 10 * count


def test_constant_rows_that_are_picked_count_once() -> None:
    """All rows of a table of positions are gathered."""
    rows = np.arange(1500)
    nodes = [node("Gather", "table rows", "picked"), node("Add", "x picked", "y")]
    constants = {"table": zeros(1500, 96), "rows": rows}
    proto = model(nodes, {"x": (1500, 96)}, ["y"], constants)
    assert import_model(proto)


def test_constant_arithmetic_that_fails() -> None:
    nodes = [node("Concat", "a b", "c", "n", axis=3), node("Add", "x c", "y")]
    proto = model(nodes, {"x": (1,)}, ["y"], {"a": zeros(2), "b": zeros(2)}, infer=False)
    with pytest.raises(InputError, match="node 'n' \\(Concat\\): error: cannot be evaluated: "):
        import_model(proto)


@pytest.mark.slow
@pytest.mark.parametrize("build", first_fast(2, [conv_model, lambda: mlp(4), residual_block]))
def test_broken_files(build: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    """Truncations and flipped bytes give a model or a diagnostic."""
    data = build().SerializeToString()
    source = random.Random(0)
    file = tmp_path / "m.onnx"
    step = max(1, len(data) // 150)
    cases = [data[:end] for end in range(0, len(data), step)]
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(source.randint(1, 3)):
            broken[source.randrange(len(data))] = source.randrange(256)
        cases.append(bytes(broken))
    refused = 0
    for case in cases:
        file.write_bytes(case)
        try:
            import_file(file).verify()
        except InputError as e:
            refused += 1
            assert len(e.lines("m.onnx")) <= 40
    assert refused > len(cases) // 4


def test_names_that_are_no_text(tmp_path: Path) -> None:
    data = conv_model(bias=False).SerializeToString()
    for old, new in ((b"y_conv", b"y_co\xffv"), (b"Conv", b"Co\xffv")):
        assert old in data
        (tmp_path / "m.onnx").write_bytes(data.replace(old, new))
        with pytest.raises(InputError, match="a name is not UTF-8 text"):
            import_file(tmp_path / "m.onnx")


def test_listed_numbers() -> None:
    """Read tensors with elements in list fields, as old exporters write."""
    proto = model([node("Add", "x k", "y")], {"x": (1,)}, ["y"], infer=False)
    proto.graph.initializer.append(helper.make_tensor("k", TensorProto.FLOAT, [2], [1.5, 2.5]))
    assert "1.500000e+00, 2.500000e+00" in str(import_model(proto))
    proto.graph.initializer[0].dims[0] = 3
    with pytest.raises(InputError, match="8 bytes, expected 12"):
        import_model(proto)


def test_names_do_not_fill_the_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of nodes in messages remain on a single line of bounded length."""
    for name in ("n" * 100_000, "a\nTraceback (most recent call last):\n" * 50, "\x1b[2J\r"):
        proto = model([node("Bernoulli", "x", "y", name)], {"x": (1,)}, ["y"], infer=False)
        file = tmp_path / "named.onnx"
        file.write_bytes(proto.SerializeToString())
        assert compile_main([str(file), "-o", str(tmp_path / "out"), "--target", "c"]) == 3
        (line,) = capsys.readouterr().err.splitlines()
        assert len(line) < 1000 and line.isprintable() and "export the model in eval mode" in line


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    """Build a model of a single Add, and apply `change`."""
    proto = model([node("Add", "x k", "y", "n")], {"x": (1,)}, ["y"], {"k": zeros(1)})
    change(proto)
    return proto


def import_twice(proto: onnx.ModelProto) -> None:
    proto.opset_import.add(domain="ai.onnx", version=9)


def store_twice(proto: onnx.ModelProto) -> None:
    proto.graph.initializer[0].float_data.append(2.0)


def declare(elem_type: int, *shape: int) -> Callable[[onnx.ModelProto], object]:
    value = helper.make_tensor_value_info("y", elem_type, shape)
    return lambda proto: proto.graph.output[0].CopyFrom(value)


def other_domain(proto: onnx.ModelProto) -> None:
    """Use only operators of a domain other than ONNX's."""
    proto.opset_import[0].domain = proto.graph.node[0].domain = "ai.onnx.ml"


CHANGES: dict[str, tuple[Callable[[onnx.ModelProto], object], int, str]] = {
    "nothing": (lambda proto: None, 0, ""),
    "two opsets": (import_twice, 1, "two versions of operator set 'ai.onnx' are imported"),
    "no opset": (lambda proto: proto.opset_import.pop(), 1, "no version of the operator set"),
    "no graph": (lambda proto: proto.ClearField("graph"), 1, "it has no graph"),
    "other domain": (other_domain, 3, "node 'n' (ai.onnx.ml::Add): error: unsupported ai.onnx.ml"),
    "IR version": (lambda p: setattr(p, "ir_version", 999), 3, "unsupported IR version 999"),
    "operands": (lambda p: p.graph.node[0].input.append("x"), 1, "has 3 operands, Add has at most"),
    "results": (lambda p: p.graph.node[0].output.append("z"), 1, "has 2 results, Add has at most"),
    "no more operands": (lambda p: p.graph.node[0].input.append(""), 0, ""),
    "type": (
        declare(TensorProto.INT8, 1),
        1,
        "declared as int8, but the computed type is float",
    ),
    "half": (declare(TensorProto.FLOAT16, 1), 0, ""),
    "two storages": (store_twice, 1, "node 'k' (initializer): error: the elements are stored more"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_contradicts_itself(name: str) -> None:
    change, status, text = CHANGES[name]
    proto = changed(change)
    if not status:
        import_model(proto).verify()
        return
    with pytest.raises(InputError) as info:
        import_model(proto)
    assert info.value.exit_status == status and text in str(info.value)


@pytest.mark.parametrize("shape", [[2], [1, 1]])
def test_an_output_declared_with_another_shape(
    shape: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Some exporters write such models; the computed shape is used, as in ONNX Runtime."""
    assert "-> (tensor<1xf32> {" in str(import_model(changed(declare(TensorProto.FLOAT, *shape))))
    assert capsys.readouterr().err == (
        f"import: warning: output 'y' is declared with shape {shape}, but the computed shape is "
        "[1], which is used\n"
    )


def test_an_open_batch_that_an_output_forgets() -> None:
    """PyTorch's exporter writes the traced batch although only the input is open."""
    proto = changed(declare(TensorProto.FLOAT, 1))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    assert "tensor<4xf32>" in str(import_model(proto, batch=4))
