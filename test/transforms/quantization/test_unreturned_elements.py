"""Check that the padding of a max pooling is not noise, because it is never returned."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import ceras_ir as ceras
from ceras_ir.transforms.quantization.fit_inputs import fitting_step

Reals = NDArray[np.float32]

LOWEST = float(np.finfo(np.float32).min)
RNG = np.random.default_rng(7)
WEIGHTS = RNG.normal(size=(4, 3)).astype(np.float32)
CALIBRATION, TEST = (RNG.normal(size=(32, 3, 7, 7)).astype(np.float32) for _ in range(2))


def around(x: Reals, fill: float) -> Reals:
    return np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=np.float32(fill))


def expected(kind: str, x: Reals, fill: float) -> Reals:
    """Compute the output for a sample [3, 7, 7] in numpy."""
    match kind:
        case "pad":
            x = around(x, fill)
        case "slice":
            x = around(x, fill)[:, 1:, 1:]
        case "concat":
            x = np.concatenate([x, np.full((3, 7, 2), fill, np.float32)], axis=2)
        case _:
            x = np.where(np.arange(7) == 0, np.float32(fill), x)
    rows, columns = ((extent - 3) // 2 + 1 for extent in x.shape[1:])
    windows = [
        [x[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].max((1, 2)) for j in range(columns)]
        for i in range(rows)
    ]
    return np.einsum("oc,ijc->oij", WEIGHTS, np.array(windows, np.float32))


def network(kind: str, fill: float) -> onnx.ModelProto:
    """Add `fill` to the input by operator `kind`, then pool maxima, then convolve."""
    arrays: dict[str, NDArray[np.generic]] = {"w": WEIGHTS[:, :, None, None]}
    pads, value = np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.float32(fill)
    nodes: list[onnx.NodeProto] = []
    match kind:
        case "pad":
            arrays |= {"p": pads, "v": np.array(value)}
            nodes.append(helper.make_node("Pad", ["x", "p", "v"], ["t"]))
        case "slice":
            arrays |= {"p": pads, "v": np.array(value)}
            arrays |= {"s": np.array([1, 1]), "e": np.array([9, 9]), "a": np.array([2, 3])}
            nodes.append(helper.make_node("Pad", ["x", "p", "v"], ["u"]))
            nodes.append(helper.make_node("Slice", ["u", "s", "e", "a"], ["t"]))
        case "concat":
            arrays["c"] = np.full((1, 3, 7, 2), value)
            nodes.append(helper.make_node("Concat", ["x", "c"], ["t"], axis=3))
        case _:
            arrays |= {"m": (np.arange(7) == 0)[None, None, None], "v": np.array([value])}
            nodes.append(helper.make_node("Where", ["m", "v", "x"], ["t"]))
    nodes.append(
        helper.make_node("MaxPool", ["t"], ["q"], kernel_shape=[3, 3], strides=[2, 2]),
    )
    nodes.append(helper.make_node("Conv", ["q", "w"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "padded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 7, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", ["pad", "slice", "concat", "where"])
@pytest.mark.parametrize("fill", [-1e4, -1e20, LOWEST])
def test_padding_that_is_never_returned(kind: str, fill: float, tmp_path: Path) -> None:
    path = tmp_path / "padded.onnx"
    path.write_bytes(network(kind, fill).SerializeToString())
    right = np.stack([expected(kind, x, fill) for x in TEST]).astype(np.float64)
    # The pooling returns no padding, because all windows overlap the input.
    assert np.abs(right).max() < 100
    for target in [name for name in ("c", "vta") if name in ceras.target_names()]:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            quantized = ceras.load(path).quantize({"x": CALIBRATION}, target=target)
            found = quantized.run({"x": TEST})["y"].reshape(right.shape)
        assert not [str(w.message) for w in said if "warning:" in str(w.message)]
        error = np.square(found.astype(np.float64) - right).mean()
        assert 10 * np.log10(right.var(axis=0).mean() / error) > 30


@pytest.mark.parametrize("low", [-1e4, -65504, -1e20, -1e30])
def test_each_side_of_a_range_has_a_step(low: float) -> None:
    step = fitting_step(low, 3.0)
    assert step is None or -low / 254 <= step <= -low / 250
