"""Compare linear models and features of ONNX-ML with ONNX Runtime; use scikit-learn models."""

from collections.abc import Sequence
from importlib import import_module
from io import BytesIO

import numpy as np
import pytest
from c_harness import compiled, place
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx_models import run_onnxruntime
from tree_models import assert_close, ml_model, ml_node

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import TensorInfo, network_outputs
from ceras_ir.network.function import main_function, output_labels
from ceras_ir.support.diagnostics import InputError, UnsupportedError

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def rows(seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(20, 3)).astype(np.float32)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("classes", [1, 2, 4])
def test_linear_classifier(post: str, classes: int):
    rng, x = np.random.default_rng(1), rows()
    node = ml_node(
        "LinearClassifier",
        ["x"],
        ["label", "p"],
        coefficients=rng.normal(size=3 * classes).tolist(),
        intercepts=rng.normal(size=classes).tolist(),
        classlabels_ints=[5, 2, 9, 4][: max(2, classes)],
        post_transform=post,
        multi_class=1,
    )
    proto = ml_model([node], x.shape, {"label": INT64, "p": FLOAT})
    got, expected = run(import_model(proto), {"x": x}), run_onnxruntime(proto, {"x": x})
    np.testing.assert_array_equal(got["label"], expected["label"])
    assert_close(got["p"], expected["p"])
    assert len(set(got["label"].tolist())) > 1


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("biased", [False, True])
def test_linear_regressor(targets: int, biased: bool):
    rng, x = np.random.default_rng(2), rows()
    bias = {"intercepts": rng.normal(size=targets).tolist()} if biased else {}
    weights = rng.normal(size=3 * targets).tolist()
    node = ml_node("LinearRegressor", ["x"], ["y"], coefficients=weights, targets=targets, **bias)
    proto = ml_model([node], x.shape, {"y": FLOAT})
    got = run(import_model(proto), {"x": x})["y"]
    assert_close(got, run_onnxruntime(proto, {"x": x})["y"])


FEATURES = [
    ("Scaler", {"offset": [1.0, -2.0, 0.5], "scale": [0.5, 2.0, 3.0]}),
    ("Scaler", {"offset": [1.0], "scale": [0.5]}),
    ("Normalizer", {"norm": "MAX"}),
    ("Normalizer", {"norm": "L1"}),
    ("Normalizer", {"norm": "L2"}),
    ("Binarizer", {"threshold": 0.25}),
    ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": 0.0}),
    ("Imputer", {"imputed_value_floats": [7.0], "replaced_value_float": float("nan")}),
    ("FeatureVectorizer", {"inputdimensions": [3]}),
]


@pytest.mark.parametrize(("operator", "attributes"), FEATURES)
def test_features(operator: str, attributes: dict[str, object]):
    x = rows(3)
    x[0], x[1, 1] = 0, 0
    if operator == "Imputer":
        x[2, 0] = np.nan
    proto = ml_model([ml_node(operator, ["x"], ["y"], **attributes)], x.shape, {"y": FLOAT})
    got = run(import_model(proto), {"x": x})["y"]
    assert_close(got, run_onnxruntime(proto, {"x": x})["y"])


def test_whole_numbers_become_floats():
    x = np.arange(12).reshape(4, 3).astype(np.int64)
    node = ml_node("Scaler", ["x"], ["y"], offset=[1.0], scale=[0.5])
    proto = ml_model([node], x.shape, {"y": FLOAT}, dtype=INT64)
    got = run(import_model(proto), {"x": x})["y"]
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x})["y"])


@pytest.mark.parametrize("indices", [[1], [0, 2], [2, 0, 1]])
def test_chosen_columns(indices: Sequence[int]):
    x = rows(4)
    at = numpy_helper.from_array(np.array(indices, np.int64), "at")
    node = ml_node("ArrayFeatureExtractor", ["x", "at"], ["y"])
    proto = ml_model([node], x.shape, {"y": FLOAT}, constants=[at])
    got = run(import_model(proto), {"x": x})["y"]
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x})["y"])


@pytest.mark.parametrize("text", [False, True])
def test_labels_chosen_by_a_computed_index(text: bool):
    x = rows(5)
    labels = np.array(["a", "b", "c"], np.str_) if text else np.array([4, 2, 7], np.int64)
    nodes = [
        helper.make_node("ArgMax", ["x"], ["best"], axis=1, keepdims=0),
        ml_node("ArrayFeatureExtractor", ["labels", "best"], ["chosen"]),
        helper.make_node("Reshape", ["chosen", "shape"], ["flat"]),
        helper.make_node("Cast", ["flat"], ["y"], to=TensorProto.STRING if text else INT64),
        helper.make_node("Identity", ["best"], ["index"]),
    ]
    constants = [
        numpy_helper.from_array(labels, "labels"),
        numpy_helper.from_array(np.array([-1], np.int64), "shape"),
    ]
    kinds = {"y": TensorProto.STRING if text else INT64, "index": INT64}
    proto = ml_model(nodes, x.shape, kinds, constants=constants)
    module = import_model(proto)
    got, expected = run(module, {"x": x}), run_onnxruntime(proto, {"x": x})
    found = labels[np.asarray(got["y"], np.int64)] if text else got["y"]
    assert found.tolist() == expected["y"].tolist()
    np.testing.assert_array_equal(got["index"], expected["index"])
    # The index remains a number, even if a consumer uses it as a label.
    assert output_labels(main_function(module)) == [("a", "b", "c") if text else (), ()]


@pytest.mark.parametrize("text", [False, True])
def test_label_encoder(text: bool):
    x = np.array([[3, 1, 2], [9, 3, 1]], np.int64)
    values = {"values_strings": ["x", "y", "z"]} if text else {"values_int64s": [30, 10, 20]}
    values |= {"default_string": "none"} if text else {"default_int64": -5}
    node = ml_node("LabelEncoder", ["x"], ["y"], keys_int64s=[3, 1, 2], **values)
    kind = TensorProto.STRING if text else INT64
    proto = ml_model([node], x.shape, {"y": kind}, dtype=INT64)
    module = import_model(proto)
    got, expected = run(module, {"x": x})["y"], run_onnxruntime(proto, {"x": x})["y"]
    if text:
        names = output_labels(main_function(module))[0]
        assert names == ("x", "y", "z", "none")
        assert [[names[i] for i in row] for row in got.tolist()] == expected.tolist()
    else:
        assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("real_keys", [False, True])
@pytest.mark.parametrize("real_values", [False, True])
def test_label_encoder_of_reals(real_keys: bool, real_values: bool):
    """Isolation forests map leaves to the depth of the leaf; keys need not be sorted."""
    x = np.array([[3, 1, 2], [9, 3, -1]], np.float32 if real_keys else np.int64)
    node = ml_node(
        "LabelEncoder",
        *(["x"], ["y"]),
        **({"keys_floats": [3.0, 1.0, 2.0]} if real_keys else {"keys_int64s": [3, 1, 2]}),
        **({"values_floats": [0.5, 2.0, 0.25]} if real_values else {"values_int64s": [4, 9, 7]}),
        **({"default_float": 1.5} if real_values else {"default_int64": 8}),
    )
    kind = FLOAT if real_values else INT64
    proto = ml_model([node], x.shape, {"y": kind}, dtype=FLOAT if real_keys else INT64)
    got, expected = run(import_model(proto), {"x": x})["y"], run_onnxruntime(proto, {"x": x})["y"]
    assert got.tolist() == expected.tolist()


def test_names_are_in_the_header_and_in_the_manifest():
    x = rows()
    names = ["one", 'a "b"', "é"]
    node = ml_node(
        "LinearClassifier",
        ["x"],
        ["label", "p"],
        coefficients=[1.0] * 9,
        intercepts=[0.0] * 3,
        classlabels_strings=names,
    )
    kinds = {"label": TensorProto.STRING, "p": FLOAT}
    module = place(import_model(ml_model([node], x.shape, kinds)))
    (header,) = (file for file in emit(module, COptions()) if file.path == "model.h")
    text = BytesIO()
    header.write(text)
    assert rb'#define MODEL_LABEL_LABELS {"one", "a \042b\042", "\303\251"}' in text.getvalue()
    info = network_outputs(main_function(module))[0]
    assert info.labels == tuple(names)
    assert TensorInfo.from_json(info.to_json()) == info
    assert compiled(module).run({"x": x})["label"].tolist() == [0] * len(x)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (ml_node("CategoryMapper", ["x"], ["y"]), "unsupported.*encode text in the application"),
        (ml_node("DictVectorizer", ["x"], ["y"]), "unsupported.*encode text in the application"),
        (ml_node("Scaler", ["x"], ["y"], offset=[1.0, 2.0]), "'offset' has 2 numbers"),
        (ml_node("Normalizer", ["x"], ["y"], norm="L3"), "must be one of MAX, L1, L2, got 'L3'"),
        (ml_node("Imputer", ["x"], ["y"]), "0 values for shape"),
        (ml_node("LinearRegressor", ["x"], ["y"], coefficients=[1.0]), "1 coefficients and 0"),
        (
            ml_node("LinearRegressor", ["x"], ["y"], coefficients=[1.0] * 3, post_transform="X"),
            "unsupported.*NONE, LOGISTIC or SOFTMAX; got 'X'",
        ),
        (
            helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING),
            "conversion between numbers and text",
        ),
    ],
)
def test_what_is_wrong_is_named(node: object, message: str):
    with pytest.raises(InputError, match=message):
        import_model(ml_model([node], (2, 3), {"y": FLOAT}))  # type: ignore[list-item]


def test_constants_that_are_text_are_not_computed_with():
    text = numpy_helper.from_array(np.array(["a", "b", "c"]), "text")
    nodes = [helper.make_node("Concat", ["text", "text"], ["twice"], axis=0)]
    nodes += [helper.make_node("Add", ["x", "text"], ["y"])]
    with pytest.raises(UnsupportedError, match="'text' has elements of type"):
        import_model(ml_model(nodes, (2, 3), {"y": FLOAT}, constants=[text]))


def test_models_without_the_operator_set_of_onnx():
    """XGBoost's converter names only ai.onnx.ml; refusals state the reason."""
    node = ml_node("Scaler", ["x"], ["y"], offset=[1.0], scale=[0.5])
    proto, x = ml_model([node], (20, 3), {"y": FLOAT}), rows()
    del proto.opset_import[0]
    assert [entry.domain for entry in proto.opset_import] == ["ai.onnx.ml"]
    got = run(import_model(proto), {"x": x})["y"]
    assert_close(got, run_onnxruntime(proto, {"x": x})["y"])
    proto.graph.node[0].op_type = "DictVectorizer"
    with pytest.raises(UnsupportedError, match="DictVectorizer: not an operator"):
        import_model(proto)


def test_one_class_is_refused():
    node = ml_node("LinearClassifier", ["x"], ["y"], coefficients=[1.0] * 3, classlabels_ints=[0])
    with pytest.raises(UnsupportedError, match="a single class"):
        import_model(ml_model([node], (2, 3), {"y": INT64}))


MODELS = (
    *("AdaBoostClassifier", "BaggingClassifier", "DecisionTreeClassifier", "ExtraTreesClassifier"),
    *(
        "GaussianNB",
        "GradientBoostingClassifier",
        "GradientBoostingRegressor",
        "KMeans",
        "LinearSVC",
    ),
    *("LogisticRegression", "MLPClassifier", "RandomForestClassifier", "RandomForestRegressor"),
    *("Ridge", "SGDClassifier"),
)


@pytest.mark.slow
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_models_of_scikit_learn(name: str, text: bool):
    """Train models here, convert them with skl2onnx, and run the interpreter and C."""
    for package in ("sklearn", "skl2onnx"):
        pytest.importorskip(package)
    base, data, pipeline, scaling, utils = (
        import_module(f"sklearn.{part}")
        for part in ("base", "datasets", "pipeline", "preprocessing", "utils")
    )
    estimator = dict(utils.all_estimators())[name]()
    if text and not base.is_classifier(estimator):
        pytest.skip("predicts numbers")
    x, y = data.load_iris(return_X_y=True)
    x = x.astype(np.float32)
    target = np.array(["setosa", "versicolor", "virginica"])[y] if text else y
    fitted = pipeline.make_pipeline(scaling.StandardScaler(), estimator).fit(x, target)
    proto = import_module("skl2onnx").to_onnx(fitted, x[:1])
    module = import_model(proto, batch=len(x))
    expected = run_onnxruntime(proto, {"X": x})
    got = compiled(place(module)).run({"X": x})
    for (key, answer), labels in zip(
        expected.items(), output_labels(main_function(module)), strict=True
    ):
        if isinstance(answer, list):
            answer = np.array([list(row.values()) for row in answer], np.float32)
        if labels:
            assert [labels[i] for i in got[key].tolist()] == answer.tolist()
        elif answer.dtype.kind == "i":
            np.testing.assert_array_equal(got[key], answer)
        else:
            assert_close(got[key], answer)
