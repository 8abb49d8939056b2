"""Compare networks with sizes that data decide with ONNX Runtime, and check the refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import pytest
import reference_imports
from onnx import TensorProto
from onnx_models import Array, Attribute, model, node, run_onnxruntime
from sized_chains import check

from ceras_ir import load, load_lengths
from ceras_ir.driver.verify.tool import main as verify
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.lengths import UpTo, parse_shapes
from ceras_ir.support.diagnostics import InputError, UnsupportedError, UsageError

INT64 = TensorProto.INT64
HEIGHT, WIDTH, SIDE = 24, 20, 32
WEIGHTS = np.random.default_rng(0).normal(0, 0.2, (4, 3, 3, 3)).astype(np.float32)


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    integers: Sequence[str] = (),
    outputs: Sequence[str] = ("y",),
    **constants: object,
) -> onnx.ModelProto:
    """Build a model with float inputs; the inputs in `integers` are i64."""
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    proto = model(nodes, inputs, outputs, arrays, opset=18, infer=False)
    for value in proto.graph.input:
        if value.name in integers:
            value.type.tensor_type.elem_type = INT64
    return proto


def letterbox() -> onnx.ModelProto:
    """Scale an image to fit a square, and pad it to the square."""
    return network(
        [
            node("Mul", "sides scale", "scaled"),
            node("Floor", "scaled", "floor"),
            node("Cast", "floor", "size", to=INT64),
            node("Concat", "outer size", "sizes", axis=0),
            node("Resize", "x - - sizes", "fitted", mode="linear"),
            node("Sub", "square size", "rest"),
            node("Div", "rest two", "before"),
            node("Sub", "rest before", "after"),
            node("Concat", "zeros before zeros after", "pads", axis=0),
            node("Pad", "fitted pads gray", "padded"),
            node("Conv", "padded w", "y", strides=[2, 2]),
        ],
        {"x": (1, 3, HEIGHT, WIDTH), "scale": (1,)},
        sides=np.array([HEIGHT, WIDTH], np.float32),
        outer=[1, 3],
        square=[SIDE, SIDE],
        two=[2],
        zeros=[0, 0],
        gray=np.float32(0.447),
        w=WEIGHTS,
    )


LETTERBOX = {"fitted": f"1x3x0..{SIDE}x0..{SIDE}", "padded": f"1x3x{SIDE}x{SIDE}"}


def crop(mode: str = "linear", **attributes: str) -> onnx.ModelProto:
    """Cut a box out of an image, and resize it to a fixed size."""
    return network(
        [
            node("Slice", "x start end axes", "box"),
            node("Resize", "box - - sizes", "small", mode=mode, **attributes),
            node("Conv", "small w", "y"),
        ],
        {"x": (1, 3, HEIGHT, WIDTH), "start": (2,), "end": (2,)},
        ("start", "end"),
        axes=[2, 3],
        sizes=[1, 3, 9, 11],
        w=WEIGHTS,
    )


CROP = {"box": f"1x3x0..{HEIGHT}x0..{WIDTH}"}
BOXES = [((0, 0), (24, 20)), ((3, 4), (4, 6)), ((-20, -9), (-1, 99)), ((23, 19), (24, 20))]
EMPTY = ((5, 5), (5, 3))


def padded() -> onnx.ModelProto:
    """Pad an image by run-time amounts before a convolution; the result is a graph output."""
    return network(
        [node("Pad", "x pads", "padded"), node("Conv", "padded w", "y", pads=[1, 1, 1, 1])],
        {"x": (1, 3, 6, 7), "pads": (8,)},
        ("pads",),
        w=WEIGHTS,
    )


def rows(operator: str, **attributes: int) -> onnx.ModelProto:
    """Reduce the valid rows of a sequence."""
    operands = "valid" if operator == "Softmax" else "valid axis"
    return network(
        [
            node("Slice", "x zero length one", "valid"),
            node(operator, operands, "y", **attributes),
        ],
        {"x": (1, 7, 5), "length": (1,)},
        ("length",),
        zero=[0],
        one=[1],
        axis=[1],
    )


def stated(shapes: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    return {name: parse_shapes(text)[0] for name, text in shapes.items()}


def image(*shape: int) -> Array:
    return np.random.default_rng(3).normal(0, 1, shape).astype(np.float32)


def agrees(proto: onnx.ModelProto, shapes: Mapping[str, str], inputs: Mapping[str, Array]) -> None:
    """Compare all outputs, and their extents, with ONNX Runtime."""
    results, expected = run(import_model(proto, shapes=stated(shapes)), inputs), {}
    expected = run_onnxruntime(proto, dict(inputs))
    for name, array in expected.items():
        actual = cast("Array", results[name])
        if (shape := results.get(f"{name}_shape")) is not None:
            assert tuple(shape) == array.shape
            whole = np.zeros(actual.shape, array.dtype)
            whole[tuple(map(slice, array.shape))] = array
            array = whole
        np.testing.assert_allclose(actual, array, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [0.05, 0.5, 0.77, 1.0, 1.3])
def test_letterbox(scale: float) -> None:
    inputs = {"x": image(1, 3, HEIGHT, WIDTH), "scale": np.array([scale], np.float32)}
    module = import_model(letterbox(), shapes=stated(LETTERBOX))
    assert run(module, inputs)["y"].shape == (1, 4, 15, 15)
    agrees(letterbox(), LETTERBOX, inputs)


@pytest.mark.parametrize("box", BOXES)
def test_crop(box: tuple[Sequence[int], Sequence[int]]) -> None:
    start, end = map(np.array, box)
    agrees(crop(), CROP, {"x": image(1, 3, HEIGHT, WIDTH), "start": start, "end": end})


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("where", ["half_pixel", "asymmetric", "align_corners"])
def test_ties_of_nearest(rounding: str, where: str) -> None:
    """From 2, 22 and 18 to 11 and 9 elements, coordinates are between two elements."""
    attributes = {"nearest_mode": rounding, "coordinate_transformation_mode": where}
    for height, width in ((18, 11), (2, 2), (1, 5)):
        inputs = {"start": np.array([0, 0]), "end": np.array([height, width])}
        proto = crop("nearest", **attributes)
        agrees(proto, CROP, {"x": image(1, 3, HEIGHT, WIDTH), **inputs})


@pytest.mark.parametrize("pads", [(0,) * 4, (1, 2, 3, 0), (2, 2, 2, 2), (-1, 0, -2, 1)])
def test_pads_before_a_convolution(pads: Sequence[int]) -> None:
    top, left, bottom, right = pads
    operand = np.array([0, 0, top, left, 0, 0, bottom, right])
    agrees(padded(), {"padded": "1x3x0..11x0..12"}, {"x": image(1, 3, 6, 7), "pads": operand})


@pytest.mark.parametrize("opset", [18, 19])
@pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 2), (3, 4), (9, 8)])
@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 3], "dilations": [2, 1]}),
        ("AveragePool", {"kernel_shape": [2, 3], "strides": [2, 3]}),
        (
            "AveragePool",
            {
                "kernel_shape": [4, 4],
                "strides": [3, 4],
                "pads": [1] * 4,
                "count_include_pad": 1,
            },
        ),
    ],
)
def test_poolings_below_the_kernel(
    operator: str, attributes: Mapping[str, Attribute], size: tuple[int, int], opset: int
) -> None:
    """A window that exceeds the input is counted as in a pooling of a static shape."""
    pooling = node(operator, "box", "y", **attributes)
    proto = network(
        [node("Slice", "x start end axes", "box"), pooling],
        {"x": (1, 2, 9, 8), "end": (2,)},
        ("end",),
        start=[0, 0],
        axes=[2, 3],
    )
    proto.opset_import[0].version = opset
    inputs = {"x": image(1, 2, 9, 8), "end": np.array(size)}
    try:
        run_onnxruntime(proto, inputs)
    except Exception as error:  # ONNX Runtime raises exceptions of its own.
        assert "dimension is negative" in str(error)
    else:
        agrees(proto, {"box": "1x2x0..9x0..8"}, inputs)


@pytest.mark.parametrize("length", [1, 3, 7, -2, 100])
@pytest.mark.parametrize(
    "operator", ["ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2", "Softmax"]
)
def test_valid_rows(operator: str, length: int) -> None:
    attributes = {"axis": 1} if operator == "Softmax" else {"keepdims": 0}
    inputs = {"x": image(1, 7, 5), "length": np.array([length])}
    agrees(rows(operator, **attributes), {"valid": "1x0..7x5"}, inputs)


@pytest.mark.parametrize(
    ("operator", "expected"), [("ReduceMean", 0), ("ReduceSum", 0), ("ReduceMax", -np.inf)]
)
def test_no_rows(operator: str, expected: float) -> None:
    module = import_model(rows(operator), shapes=stated({"valid": "1x0..7x5"}))
    results = run(module, {"x": image(1, 7, 5), "length": np.array([0])})
    assert (results["y"] == expected).all() and results["y"].shape == (1, 1, 5)


def test_an_empty_box_is_finite() -> None:
    module = import_model(crop(), shapes=stated(CROP))
    start, end = map(np.array, EMPTY)
    y = run(module, {"x": image(1, 3, HEIGHT, WIDTH), "start": start, "end": end})["y"]
    assert np.isfinite(y).all()


def test_a_result_is_cut_at_the_maximum() -> None:
    """The elements within the maximum are those of ONNX Runtime, and the extents are clamped."""
    proto = network([node("Resize", "x - scales", "y")], {"x": (1, 2, 5, 4), "scales": (4,)})
    inputs = {"x": image(1, 2, 5, 4), "scales": np.array([1, 1, 2.3, 1.5], np.float32)}
    with reference_imports.suspended():
        results = run(import_model(proto, shapes=stated({"y": "0..1x0..2x0..8x0..9"})), inputs)
    whole = run_onnxruntime(proto, inputs)["y"]
    assert whole.shape == (1, 2, 11, 6) and list(results["y_shape"]) == [1, 2, 8, 6]
    found = cast("Array", results["y"])
    np.testing.assert_allclose(found[..., :6], whole[:, :, :8], rtol=1e-6)
    assert not found[..., 6:].any()


@pytest.mark.parametrize("length", [2, 4, 6])
def test_a_number_is_filled_with_zeros(length: int) -> None:
    proto = network(
        [node("Slice", "x zero length", "y")],
        {"x": (7, 3), "length": (1,)}, ("length",), zero=[0],
    )  # fmt: skip
    inputs = {"x": image(7, 3), "length": np.array([length])}
    with reference_imports.suspended():
        results = run(import_model(proto, shapes=stated({"y": "4x3"})), inputs)
    expected = np.zeros((4, 3), np.float32)
    expected[: min(length, 4)] = inputs["x"][: min(length, 4)]
    assert list(results) == ["y"] and np.array_equal(results["y"], expected)


def test_equal_sums_are_a_static_shape() -> None:
    """Pads of 9 minus the extent give 9: the result needs no statement and no mask."""
    proto = network(
        [
            node("Slice", "x zero length", "valid"),
            node("Shape", "valid", "count"),
            node("Sub", "nine count", "rest"),
            node("Concat", "zero rest", "pads", axis=0),
            node("Pad", "valid pads", "y"),
        ],
        {"x": (7,), "length": (1,)}, ("length",), zero=[0], nine=[9],
    )  # fmt: skip
    module = import_model(proto, shapes={"valid": (UpTo(7),)})
    for length in (0, 3, 7):
        inputs = {"x": image(7), "length": np.array([length])}
        results, expected = run(module, inputs), run_onnxruntime(proto, inputs)
        assert list(results) == ["y"] and np.array_equal(results["y"], expected["y"])


@pytest.mark.parametrize("first", range(0, 32, 4))
def test_random_chains(first: int) -> None:
    found = [check(seed, count=3) for seed in range(first, first + 4)]
    assert any(found)


NETWORKS = {
    "letterbox": (letterbox(), LETTERBOX, {"scale": np.array([[1.2], [0.4]], np.float32)}),
    "crop": (
        crop(),
        CROP,
        {"start": np.array([[2, 3], [0, 0]]), "end": np.array([[9, 9], [20, 20]])},
    ),
    "pads": (
        padded(),
        {"padded": "1x3x0..11x0..12"},
        {"pads": np.array([[0, 0, 1, 2, 0, 0, 2, 1], [0] * 8])},
    ),
    "rows": (rows("ReduceMean"), {"valid": "1x0..7x5"}, {"length": np.array([[3], [7]])}),
}  # fmt: skip


@pytest.mark.parametrize("quantize", ["none", "int8"])
@pytest.mark.parametrize("name", NETWORKS)
def test_verify(
    name: str, quantize: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """All levels and C are equal, in float and in int8, and the import agrees with ONNX Runtime."""
    proto, shapes, small = NETWORKS[name]
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    (shape,) = (v.type.tensor_type.shape for v in proto.graph.input if v.name == "x")
    x = image(2, *(d.dim_value for d in shape.dim[1:]))
    np.savez(tmp_path / "in.npz", allow_pickle=False, x=x, **small)
    options = [f"--shape={key}={text}" for key, text in shapes.items()]
    files = ["--inputs", str(tmp_path / "in.npz"), "--calibrate", str(tmp_path / "in.npz")]
    arguments = [str(tmp_path / "m.onnx"), *files, *options, "--quantize", quantize]
    assert verify([*arguments, "--targets", "c"]) == 0
    out = capfd.readouterr().out
    assert "as ONNX Runtime" in out and "exact" in out and "differ" not in out


def test_verify_the_mean_of_an_empty_resize(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The mean of no elements is NaN in the reference, and is not compared."""
    proto = network(
        [
            node("Slice", "x start end axes", "box"),
            node("Resize", "box - scales", "larger", mode="linear"),
            node("GlobalAveragePool", "larger", "y"),
        ],
        {"x": (1, 3, 6, 7), "end": (2,)},
        ("end",),
        start=[0, 0],
        axes=[2, 3],
        scales=np.array([1, 1, 1.5, 0.7], np.float32),
    )
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    path = tmp_path / "in.npz"
    np.savez(path, allow_pickle=False, x=image(1, 3, 6, 7), end=np.array([[0, 0]]))
    options = ["--shape=box=1x3x0..6x0..7", "--quantize=none", "--targets=c"]
    assert verify([str(tmp_path / "m.onnx"), "--inputs", str(path), *options]) == 0
    out, err = capfd.readouterr()
    assert "3 elements without a bound" in out and "inf" not in out and not err


def test_the_python_interface_takes_texts(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(crop().SerializeToString())
    found = load(tmp_path / "m.onnx", shapes=CROP)
    assert [v.name for v in found.outputs] == ["y"]
    with pytest.raises(UsageError, match="several lengths; use load_lengths"):
        load(tmp_path / "m.onnx", shapes={"x": "1x3x24..25x20"})
    with pytest.raises(UsageError, match="shapes of 'x': expected NAME=1x3x224x224"):
        load(tmp_path / "m.onnx", shapes={"x": "one"})


def message(proto: onnx.ModelProto, shapes: Mapping[str, str], error: type[InputError]) -> str:
    with pytest.raises(error) as info:
        import_model(proto, shapes=stated(shapes))
    return "\n".join(info.value.lines("m"))


def test_all_nodes_without_a_maximum_are_reported() -> None:
    found = message(letterbox(), {}, UnsupportedError)
    for name, extents in (("fitted", "0..24x0..20"), ("padded", "0..24x0..20")):
        assert f"the shape of '{name}' depends on data: '" in found
        assert f"for example with --shape {name}=1x3x{extents} (a number n instead of" in found
    assert "or fix input 'scale' with --set" in found and "graph input" not in found


def sequence() -> onnx.ModelProto:
    """Return the sum of the valid rows of a sequence with an open length."""
    return network(
        [node("Slice", "x zero n one", "rows"), node("ReduceSum", "rows one", "y")],
        {"x": (1, "T", 5), "n": (1,)},
        ("n",),
        zero=[0],
        one=[1],
    )


def test_the_proposed_maximum_is_that_of_the_largest_length(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(sequence().SerializeToString())
    with pytest.raises(UnsupportedError, match=r"--shape rows=1x0\.\.64x5 "):
        load_lengths(tmp_path / "m.onnx", {"x": "1x16..64:16x5"})
    # The maximum of each length can be given; the length is that of the input.
    rows = "1x0..16x5,1x0..32x5"
    found = load_lengths(tmp_path / "m.onnx", {"rows": rows, "x": "1x16x5,1x32x5"})
    assert "16, 32" in repr(found)


@pytest.mark.parametrize("text", ["1x0..8x5,1x0..16x5", "1x8..9x5"])
def test_lengths_of_an_inner_value(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(sequence().SerializeToString())
    with pytest.raises(UsageError, match=r"'rows' is inside the network.*: write 0\.\.N"):
        load_lengths(tmp_path / "m.onnx", {"x": "1x16x5", "rows": text})


@pytest.mark.parametrize(
    ("shapes", "error", "expected"),
    [
        ({"box": "1x3x9"}, UnsupportedError, "--shape box=1x3x9 does not fit the shape of 'box'"),
        ({"box": "1x4x9x9"}, UnsupportedError, "state for example --shape box=1x3x0..24x0..20"),
        ({**CROP, "small": "1x3x9x11"}, InputError, "--shape small: the shape of 'small' is not"),
        ({**CROP, "x": "1x3x24x0..20"}, InputError, "0..20 is the maximum of a value inside the"),
        ({"bix": "1x3x0..9"}, InputError, "no value named 'bix' inside the network; did you mean"),
    ],
)  # fmt: skip
def test_wrong_statements(
    shapes: Mapping[str, str], error: type[InputError], expected: str
) -> None:
    assert expected in message(crop(), shapes, error)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("Det", "v", "y")], "of 'v', which has extents that data decide"),
        ([node("CumSum", "v zero", "y")], "of 'v', which has extents that data decide"),
        ([node("Squeeze", "v", "y")], "without axes, of 'v', which has extents"),
        ([node("ArgMax", "v", "y", axis=1, select_last_index=1)], "with select_last_index, of 'v'"),
        ([node("LayerNormalization", "v s", "y", axis=1)], "of 'v', which has extents"),
        ([node("MatMul", "v q", "y")], "of 'v' and 'q', which has extents"),
        (
            [node("Resize", "v - s", "y", mode="cubic")],
            "mode cubic of 'v', which has extents that data decide; resize to a fixed size",
        ),
        ([node("Slice", "x zero n n", "y")], "axes and steps must be constants; 'n' is computed"),
        ([node("Slice", "x big n", "y")], "a result without elements, whatever the data"),
    ],
)  # fmt: skip
def test_refusals(nodes: Sequence[onnx.NodeProto], expected: str) -> None:
    proto = network(
        [node("Slice", "x zero n one", "v"), *nodes],
        {"x": (1, 7, 7), "n": (1,)},
        ("n",),
        zero=[0],
        one=[1],
        big=[9],
        s=np.ones(3, np.float32),
        q=np.ones(3, np.float32),
    )
    with pytest.raises(InputError) as info:
        import_model(proto, shapes=stated({"v": "1x0..7x7"}))
    assert expected in str(info.value)
