"""Compare the decisions about outputs with programs that share no part with the pass."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from c_harness import check, make_network
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import main_function, output_labels, output_names
from ceras_ir.pipeline.verification import verify_module
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.transforms.graph.decode_outputs import DecodeOutputsPass

ABS = FunctionAttr(Function.ABS)

Floats = NDArray[Any]


def network(*shapes: Sequence[int]) -> ModuleOp:
    """Return a network that returns its inputs, as `output0` and so on."""

    def build(*values: SSAValue) -> list[SSAValue]:
        return [graph.UnaryOp(value, ABS).result for value in values]

    return make_network([(f32, tuple(shape)) for shape in shapes], build)


def decoded(module: ModuleOp, **options: object) -> ModuleOp:
    DecodeOutputsPass(**options).apply(Context(), module)  # type: ignore[arg-type]
    verify_module(module)
    return module


def results(module: ModuleOp, *arrays: Floats) -> dict[str, Floats]:
    """Return the outputs of the interpreter, which C equals."""
    inputs = {f"input{i}": array for i, array in enumerate(arrays)}
    check(module, inputs)
    return run(module, inputs)


@pytest.mark.parametrize("shape", [(10,), (1, 10), (3, 10), (2, 3, 4)])
def test_top(shape: tuple[int, ...]) -> None:
    """Ties are ordered by class, and each row has its classes."""
    random = np.random.default_rng(len(shape))
    module = decoded(network(shape), count=4)
    assert output_names(main_function(module)) == ["output0_classes", "output0_scores"]
    for array in (random.random(shape, np.float32), np.zeros(shape, np.float32)):
        array.flat[1] = array.flat[3]
        order = np.argsort(-array, axis=-1, kind="stable")[..., :4]
        found = results(module, array)
        np.testing.assert_array_equal(found["output0_classes"], order)
        expected = np.take_along_axis(array, order, -1)
        np.testing.assert_array_equal(found["output0_scores"], expected)


def text_of(scores: Floats, blank: int) -> list[int]:
    return [c for c, _ in groupby(scores.argmax(-1).tolist()) if c != blank]


@pytest.mark.parametrize(
    ("shape", "blank"),
    [((1, 12, 4), 0), ((3, 9, 3), 2), ((11, 1, 5), -1), ((7, 3), 0), ((1, 3), 1)],
)
def test_ctc(shape: tuple[int, ...], blank: int) -> None:
    """Repetitions end at a blank; ties take the first class; the rest is -1."""
    module = decoded(network(shape), kind="ctc", blank=blank)
    classes = shape[-1]
    batch, steps = (shape[0], shape[1]) if len(shape) == 3 and shape[1] > 1 else (1, shape[0])
    for seed in range(6):
        array = np.random.default_rng(seed).integers(0, 3, shape).astype(np.float32)
        if seed == 5:
            array[...] = 0
        found = results(module, array)
        rows = array.reshape(batch, steps, classes)
        texts = [text_of(each, blank % classes) for each in rows]
        expected = [text + [-1] * (steps - len(text)) for text in texts]
        np.testing.assert_array_equal(found["output0_symbols"], expected)
        np.testing.assert_array_equal(found["output0_length"], [len(text) for text in texts])


def suppressed(boxes: Floats, scores: Floats, most: int, overlap: float, least: float) -> Floats:
    """Return ONNX's rows of image, class, box; `boxes` [1, N, 4] and `scores` [1, C, N]."""
    names = ["boxes", "scores", "most", "overlap", "least"]
    kinds = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, *[TensorProto.FLOAT] * 2]
    node = helper.make_node("NonMaxSuppression", names, ["rows"])
    inputs = [helper.make_tensor_value_info(n, k, None) for n, k in zip(names, kinds, strict=True)]
    rows = helper.make_tensor_value_info("rows", TensorProto.INT64, None)
    proto = helper.make_model(
        helper.make_graph([node], "g", inputs, [rows]), opset_imports=[helper.make_opsetid("", 17)]
    )
    values = [
        boxes, scores, np.array([most]), np.array([overlap], np.float32),
        np.array([least], np.float32),
    ]  # fmt: skip
    feeds = dict(zip(names, values, strict=True))
    (found,) = cast("list[Any]", ReferenceEvaluator(proto).run(None, feeds))  # pyright: ignore[reportUnknownMemberType]
    return np.asarray(found)


def detected(
    boxes: Floats, scores: Floats, most: int, overlap: float, least: float
) -> dict[str, Floats]:
    """Return the expected outputs for boxes [N, 4] of x0, y0, x1, y1 and scores [N, C]."""
    turned = np.ascontiguousarray(scores.T)[None]
    rows = suppressed(boxes[None, :, [1, 0, 3, 2]], turned, most, overlap, least)
    # Equal scores are in the order of ONNX's rows.
    best = sorted(rows.tolist(), key=lambda row: -scores[row[2], row[1]])[:most]
    count = len(best)
    found = {
        "boxes": np.zeros((most, 4), np.float32),
        "scores": np.zeros(most, np.float32),
        "classes": np.full(most, -1, np.int64),
        "count": np.array([count], np.int64),
    }
    for i, (_, category, box) in enumerate(best):
        found["boxes"][i] = boxes[box]
        found["scores"][i] = scores[box, category]
        found["classes"][i] = category
    return found


def scene(seed: int, boxes: int = 30, classes: int = 3) -> tuple[Floats, Floats]:
    """Return middles, sizes [N, 4] in sixteenths, which halves keep exact, and scores [N, C]."""
    random = np.random.default_rng(seed)
    places = random.integers(16, 160, (boxes, 4)).astype(np.float32) / 8
    scores = random.integers(0, 17, (boxes, classes)).astype(np.float32) / 16
    return places, scores


def corners_of(places: Floats) -> Floats:
    middle, half = places[:, :2], places[:, 2:] / 2
    return np.concatenate([middle - half, middle + half], 1)


@pytest.mark.parametrize(
    "layout", ["rows", "columns", "objectness", "apart", "yxyx", "planes", "background"]
)
def test_boxes(layout: str) -> None:
    """All layouts of a detector give the same boxes; there may be none, or more than are kept."""
    most, overlap, least = 6, 0.3, 0.4
    options: dict[str, object] = {"count": most, "overlap": overlap, "least": least}
    shapes: list[tuple[int, ...]] = {
        "rows": [(1, 30, 7)],
        "columns": [(1, 7, 30)],
        "objectness": [(1, 30, 8)],
        "background": [(1, 30, 8)],
        "planes": [(1, 4, 30), (1, 3, 30)],
    }.get(layout, [(1, 30, 4), (1, 30, 3)])
    options |= {layout: True} if layout in ("objectness", "background") else {}
    if len(shapes) == 2:
        options |= {"boxes": "output0", "scores": "output1"}
    options |= {"corners": "xyxy"} if layout == "apart" else {}
    options |= {"corners": "yxyx"} if layout == "yxyx" else {}
    module = decoded(network(*shapes), kind="boxes", **options)
    assert output_names(main_function(module)) == ["boxes", "scores", "classes", "count"]
    for seed in range(8):
        places, scores = scene(seed)
        # Coordinates are not negative, because the network returns absolute values.
        places[:, :2] += 16
        scores = scores * (0.0, 0.3, 1.0)[min(seed, 2)]
        corners = corners_of(places)
        arrays = {
            "rows": [np.concatenate([places, scores], 1)],
            "columns": [np.concatenate([places, scores], 1).T],
            "objectness": [np.concatenate([places, np.full((30, 1), 0.5), scores * 2], 1)],
            "background": [np.concatenate([places, np.ones((30, 1)), scores], 1)],
            "apart": [corners, scores],
            "yxyx": [corners[:, [3, 2, 1, 0]], scores],
            "planes": [places.T, scores.T],
        }[layout]
        found = results(module, *(np.ascontiguousarray(a[None], np.float32) for a in arrays))
        expected = detected(corners, scores.astype(np.float32), most, overlap, least)
        if layout == "background":
            expected["classes"] += expected["classes"] >= 0
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=f"{name}, seed {seed}")


def test_labels_are_part_of_the_interface(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("cat\ndog\n\n")
    main = main_function(decoded(network((1, 2)), count=1, labels=str(tmp_path / "labels.txt")))
    assert output_labels(main) == [("cat", "dog"), ()]
    with pytest.raises(InputError, match="2 labels for 3 classes of output 'output0'"):
        decoded(network((1, 3)), labels=str(tmp_path / "labels.txt"))


def test_other_outputs_remain() -> None:
    module = decoded(network((1, 4), (1, 5)), scores="output1", count=2)
    names = ["output0", "output1_classes", "output1_scores"]
    assert output_names(main_function(module)) == names


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ([(1, 4)], {"count": 5}, r"count must be in \[1, 4\] for output 'output0' of \[1, 4\]"),
        ([(1, 4)], {"count": -1}, "count must be positive"),
        ([(1, 4)], {"scores": "outptu0"}, "no output 'outptu0'; did you mean 'output0'"),
        ([(1, 4), (1, 4)], {}, "outputs output0, output1: name one with scores=output0"),
        ([(1, 4)], {"blank": 1}, "--decode top: blank has no effect"),
        ([(4,)], {"kind": "ctc"}, r"output 'output0' must be \[batch, time, classes\]"),
        ([(1, 3, 4)], {"kind": "ctc", "blank": 4}, "blank must be one of 4 classes"),
        ([(1, 9, 4)], {"kind": "boxes"}, "a box has 4 values, expected 4 and scores"),
        ([(2, 9, 6)], {"kind": "boxes"}, "of a single image"),
        ([(1, 9, 6)], {"kind": "boxes", "least": float("nan")}, "must be finite"),
        (
            [(1, 8, 4), (1, 9, 3)],
            {"kind": "boxes", "boxes": "output0", "scores": "output1"},
            r"boxes of \[1, 8, 4\] do not fit",
        ),
    ],
)
def test_mistakes(shapes: list[tuple[int, ...]], options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        decoded(network(*shapes), **options)
