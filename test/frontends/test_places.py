"""Compare scattering, sampling, spectra and suppression with ONNX's reference, and in C."""

from typing import Any

import numpy as np
import onnx_models as om
import pytest
from c_harness import check
from onnx.reference import ReferenceEvaluator

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError

RNG = np.random.default_rng(5)
X = RNG.normal(0, 1, (2, 3, 5, 4)).astype(np.float32)
TABLE = RNG.normal(0, 1, (5, 4)).astype(np.float32)
ROWS = RNG.normal(0, 1, (3, 4)).astype(np.float32)
TWICE = np.array([[1, -1], [3, 0], [1, 3]], np.int64)
GRID = RNG.uniform(-1.3, 1.3, (2, 3, 6, 2)).astype(np.float32)
SIGNAL = RNG.normal(0, 1, (2, 40, 1)).astype(np.float32)
REGIONS = np.array([[0.2, 0.1, 3.1, 4.2], [1, 1, 2.5, 3], [-3, 0, 9, 7]], np.float32)
BOXES = np.concatenate([p := RNG.uniform(0, 4, (2, 12, 2)), p + RNG.uniform(1, 3, p.shape)], 2)
SCORES = RNG.uniform(0, 1, (2, 3, 12)).astype(np.float32)

CASES: dict[str, tuple[str, dict[str, om.Array], dict[str, Any], dict[str, Any]]] = {
    **{
        f"scatter {kind}": (
            "ScatterElements",
            {"a": TABLE, "b": np.array([[0, -1, 2], [0, 2, 2]]), "c": ROWS[:2, :3]},
            {},
            {"axis": 0, "reduction": kind},
        )
        for kind in ("none", "add", "mul", "min", "max")
    },
    "scatter rows": ("ScatterND", {"a": TABLE, "b": TWICE[:, :1], "c": ROWS}, {}, {}),
    **{
        f"{operator} nothing": (
            operator,
            {"a": TABLE},
            {"b": np.zeros((0, n), np.int64), "c": np.zeros(updates, np.float32)},
            {},
        )
        for operator, n, updates in (("ScatterND", 2, (0,)), ("ScatterElements", 4, (0, 4)))
    },
    "add points": (
        "ScatterND",
        {"a": TABLE, "b": TWICE, "c": ROWS[:, 0]},
        {},
        {"reduction": "add"},
    ),
    **{
        f"grid {mode} {padding} {corners}": (
            "GridSample",
            {"a": X, "b": GRID},
            {},
            {"mode": mode, "padding_mode": padding, "align_corners": corners},
        )
        for mode in ("linear", "nearest", "cubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (0, 1)
    },
    "spectrum": ("DFT", {"a": SIGNAL}, {"b": 32, "c": 1}, {"onesided": 1}),
    "inverse": ("DFT", {"a": RNG.normal(0, 1, (3, 6, 2)).astype("f4")}, {"c": 1}, {"inverse": 1}),
    "frames": ("STFT", {"a": SIGNAL}, {"b": 8, "c": np.hanning(16).astype(np.float32)}, {}),
    **{
        f"regions {mode}": (
            "RoiAlign",
            {"a": X, "b": REGIONS, "c": np.array([0, 1, 1], np.int64)},
            {},
            {"mode": mode, "sampling_ratio": 2, "output_height": 2, "output_width": 3},
        )
        for mode in ("avg", "max")
    },
    "moved taps": (
        "DeformConv",
        {
            "a": X,
            "b": RNG.normal(0, 1, (4, 3, 2, 3)).astype("f4"),
            "c": RNG.normal(0, 2, (2, 12, 4, 2)).astype("f4"),
        },
        {},
        {},
    ),
    "moved taps of groups": (
        "DeformConv",
        {
            "a": RNG.normal(0, 1, (1, 6, 7, 6)).astype("f4"),
            "c": RNG.normal(0, 2, (1, 48, 4, 4)).astype("f4"),
            "e": RNG.uniform(0, 1, (1, 24, 4, 4)).astype("f4"),
        },
        {"b": RNG.normal(0, 1, (4, 3, 4, 3)).astype("f4"), "d": RNG.normal(0, 1, 4).astype("f4")},
        {
            "group": 2,
            "offset_group": 2,
            "strides": [2, 1],
            "dilations": [1, 2],
            "pads": [2, 1, 1, 1],
            "kernel_shape": [4, 3],
        },
    ),
    "suppression": (
        "NonMaxSuppression",
        {"a": BOXES.astype(np.float32), "b": SCORES},
        {"c": np.array([4]), "d": np.array([0.3], "f4"), "e": np.array([0.35], "f4")},
        {},
    ),
}


def _model(name: str) -> tuple[Any, dict[str, om.Array], om.Array]:
    """Return the network, the inputs, and the results of ONNX's evaluator."""
    operator, given, constants, attributes = CASES[name]
    arrays = {key: np.asarray(value) for key, value in constants.items()}
    known = {**given, **arrays}
    inputs = " ".join(key if key in known else "-" for key in "abcde"[: ord(max(known)) - 96])
    model = om.model(
        [om.node(operator, inputs, "y", **attributes)],
        {key: array.shape for key, array in given.items()},
        ["y"],
        arrays,
        opset=20,
        infer=False,
    )
    for value in model.graph.input:
        value.type.tensor_type.elem_type = 1 if given[value.name].dtype == np.float32 else 7
    evaluator: Any = ReferenceEvaluator(model)
    (expected,) = evaluator.run(None, given)
    model.graph.output[0].type.tensor_type.elem_type = 7 if operator == "NonMaxSuppression" else 1
    return import_model(model), given, np.asarray(expected)


FAST = {"grid linear zeros 0", "grid cubic reflection 0", "scatter add", "scatter none", "frames"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FAST else pytest.mark.slow)
        if name.partition(" ")[0] in ("grid", "scatter", "frames", "spectrum", "regions")
        else name
        for name in sorted(CASES)
    ],
)
def test_what_onnx_says(name: str):
    module, given, expected = _model(name)
    found: om.Array = run(module, given)["y"]
    if name == "suppression":
        assert (found[len(expected) :] == -1).all()
        found = found[: len(expected)]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.sample(20)
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES))
def test_c_says_the_same(name: str):
    module, given, _ = _model(name)
    # Sums of products are added in another order.
    sums = CASES[name][0] in ("DeformConv", "DFT", "STFT")
    check(module, given, tolerance=1e-5 if sums else 0.0)


def test_how_many_boxes_there_are_is_the_models_word():
    _, given, constants, _ = CASES["suppression"]
    model = om.model(
        [om.node("NonMaxSuppression", "a b c d e", "y")],
        {key: array.shape for key, array in given.items()},
        ["y"],
        constants,
        opset=20,
        infer=False,
    )
    model.graph.output[0].type.tensor_type.elem_type = 7
    for extent in (5, 3):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = extent
    assert run(import_model(model), given)["y"].shape == (5, 3)


@pytest.mark.parametrize(
    ("weights", "offsets", "groups", "text"),
    [
        ((4, 3, 2, 3), (2, 12, 4, 3), 1, "offsets of shape"),
        ((4, 3, 2, 3), (2, 12, 4, 2), 2, "2 groups of 3, with offsets for 1"),
        ((4,), (2, 12, 4, 2), 1, "expected two spatial dimensions"),
    ],
)
def test_moved_taps_fit_their_input(
    weights: tuple[int, ...], offsets: tuple[int, ...], groups: int, text: str
):
    shapes = {"a": X.shape, "b": weights, "c": offsets}
    node = om.node("DeformConv", "a b c", "y", group=groups)
    with pytest.raises(InputError, match=text):
        import_model(om.model([node], shapes, ["y"], opset=20, infer=False))
