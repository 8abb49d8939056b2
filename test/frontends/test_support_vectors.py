"""Compare support vector machines with ONNX Runtime, and in C."""

import numpy as np
import onnx
import pytest
from c_harness import compiled, place
from numpy.typing import NDArray
from onnx import TensorProto
from onnx_models import Attribute, run_onnxruntime
from tree_models import ml_model, ml_node

from ceras_ir.dialects.graph import MatmulOp
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.storage import is_kept_in_float
from ceras_ir.support.diagnostics import InputError, UnsupportedError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
KINDS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def machine(kind: str, count: int, per_vector: int) -> dict[str, Attribute]:
    """Draw attributes of `count` vectors far from the origin, because squares cancel there."""
    rng = np.random.default_rng(count)
    return {
        "kernel_type": kind,
        "kernel_params": [0.4, 0.3, 2.0],
        "support_vectors": (rng.normal(size=3 * count) + 30 * (kind == "RBF")).tolist(),
        "coefficients": rng.normal(size=count * per_vector).tolist(),
    }


def rows(kind: str) -> NDArray[np.float32]:
    x = np.random.default_rng(0).normal(size=(20, 3)) + 30 * (kind == "RBF")
    return x.astype(np.float32)


def agrees(proto: onnx.ModelProto, x: NDArray[np.float32]) -> None:
    module = import_model(proto)
    expected = run_onnxruntime(proto, {"x": x})
    found = run(module, {"x": x})
    place(module)
    for got in (found, compiled(module).run({"x": x})):
        for name, value in expected.items():
            if name == "label":
                assert got[name].tolist() == value.tolist()
            else:
                assert np.allclose(got[name], value, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_regressor(kind: str, one_class: int):
    node = ml_node(
        "SVMRegressor", ["x"], ["y"], n_supports=7, rho=[0.2], one_class=one_class,
        **machine(kind, 7, 1),
    )  # fmt: skip
    x = rows(kind)
    agrees(ml_model([node], x.shape, {"y": FLOAT}), x)


def test_regressor_without_vectors():
    x = rows("LINEAR")
    node = ml_node(
        "SVMRegressor", ["x"], ["y"], rho=[0.5], coefficients=[1.0, -2.0, 0.5],
        kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0],
    )  # fmt: skip
    agrees(ml_model([node], x.shape, {"y": FLOAT}), x)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("counts", [[4, 3], [2, 4, 3], [1, 2, 3, 2]])
def test_classifier(kind: str, counts: list[int]):
    classes, every = len(counts), sum(counts)
    node = ml_node(
        "SVMClassifier", ["x"], ["label", "s"], vectors_per_class=counts,
        classlabels_ints=[5, 2, 9, 4][:classes],
        rho=np.linspace(-0.3, 0.4, classes * (classes - 1) // 2).tolist(),
        **machine(kind, every, classes - 1),
    )  # fmt: skip
    x = rows(kind)
    agrees(ml_model([node], x.shape, {"label": INT64, "s": FLOAT}), x)


@pytest.mark.parametrize("kind", ["LINEAR", "RBF"])
@pytest.mark.parametrize("counts", [[4, 3], [2, 4, 3], [1, 2, 3, 2]])
def test_probabilities(kind: str, counts: list[int]):
    """Rows are near a half, far from it, or equal to 1 in float."""
    classes, every = len(counts), sum(counts)
    pairs = classes * (classes - 1) // 2
    node = ml_node(
        "SVMClassifier", ["x"], ["label", "p"], vectors_per_class=counts,
        classlabels_ints=list(range(classes)), rho=np.linspace(-0.3, 0.4, pairs).tolist(),
        prob_a=np.linspace(-2.5, -0.5, pairs).tolist(),
        prob_b=np.linspace(0.1, -0.1, pairs).tolist(), **machine(kind, every, classes - 1),
    )  # fmt: skip
    base = rows(kind)
    x = np.concatenate([base, base[:10] * np.float32(0.01), base[:10] * np.float32(9)])
    agrees(ml_model([node], x.shape, {"label": INT64, "p": FLOAT}), x)


def test_probabilities_need_both_lists():
    node = ml_node(
        "SVMClassifier", ["x"], ["label", "p"], vectors_per_class=[4, 3], rho=[0.1],
        classlabels_ints=[0, 1], prob_a=[1.0], **machine("RBF", 7, 1),
    )  # fmt: skip
    with pytest.raises(InputError, match="1 'prob_a' and 0 'prob_b'"):
        import_model(ml_model([node], (20, 3), {"label": INT64, "p": FLOAT}))


def test_stays_float():
    node = ml_node("SVMRegressor", ["x"], ["y"], n_supports=7, rho=[0.2], **machine("RBF", 7, 1))
    module = import_model(ml_model([node], (20, 3), {"y": FLOAT}))
    products = [op for op in module.walk() if isinstance(op, MatmulOp)]
    assert [is_kept_in_float(op) for op in products] == [True, True]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"post_transform": "LOGISTIC"}, "post_transform must be NONE"),
        ({"vectors_per_class": None}, "train LinearSVC"),
    ],
)
def test_refused(more: dict[str, Attribute | None], text: str):
    every = {**machine("RBF", 7, 1), "vectors_per_class": [4, 3], "rho": [0.1], **more}
    attributes = {name: value for name, value in every.items() if value is not None}
    node = ml_node("SVMClassifier", ["x"], ["label", "s"], classlabels_ints=[0, 1], **attributes)
    with pytest.raises(UnsupportedError, match=text):
        import_model(ml_model([node], (20, 3), {"label": INT64, "s": FLOAT}))
