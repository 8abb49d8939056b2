"""Compare tree ensembles with a walk from node to node and with ONNX Runtime."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from c_harness import check
from onnx import TensorProto, helper, numpy_helper
from onnx_models import run_onnxruntime
from tree_models import (
    MODES,
    Node,
    assert_close,
    inputs_for,
    ml_model,
    ml_node,
    node_attributes,
    random_trees,
    walked,
)

from ceras_ir.dialects.graph import TreeEnsembleOp, constant_array
from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError, UnsupportedError

FEATURES = 5


def regressor(nodes: list[Node], rows: int, targets: int, **more: object) -> onnx.ModelProto:
    attributes = node_attributes(nodes, "target") | {"n_targets": targets} | more
    node = ml_node("TreeEnsembleRegressor", ["x"], ["y"], **attributes)
    return ml_model([node], (rows, FEATURES), {"y": TensorProto.FLOAT})


def classifier(nodes: list[Node], rows: int, **more: object) -> onnx.ModelProto:
    attributes = node_attributes(nodes, "class") | more
    node = ml_node("TreeEnsembleClassifier", ["x"], ["label", "p"], **attributes)
    label = TensorProto.STRING if "classlabels_strings" in more else TensorProto.INT64
    return ml_model([node], (rows, FEATURES), {"label": label, "p": TensorProto.FLOAT})


@pytest.mark.parametrize("mode", [*MODES, "all"])
@pytest.mark.parametrize("targets", [1, 3])
def test_sums_of_leaves_are_exact(mode: str, targets: int):
    modes = MODES if mode == "all" else [mode]
    nodes = random_trees(1, trees=7, depth=5, features=FEATURES, targets=targets, modes=modes)
    x = inputs_for(2, 40, FEATURES)
    proto = regressor(nodes, len(x), targets)
    got = run(import_model(proto), {"x": x})["y"]
    np.testing.assert_array_equal(got, walked(nodes, x, targets))
    assert_close(got, run_onnxruntime(proto, {"x": x})["y"])


def test_c_is_exact():
    nodes = random_trees(3, trees=9, depth=6, features=FEATURES, targets=4)
    x = inputs_for(4, 30, FEATURES)
    module = import_model(regressor(nodes, len(x), 4))
    got = check(module, {"x": x})["y"]
    np.testing.assert_array_equal(got, walked(nodes, x, 4))


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"])
def test_thresholds_may_be_infinite(mode: str):
    """Boosted trees test in this way whether a value is present."""
    nodes = [Node(0, 0, mode, 0, np.inf, 0, 1, 2)]
    nodes += [Node(0, i, weights=[(0, float(i))]) for i in (1, 2)]
    x = np.zeros((4, FEATURES), np.float32)
    x[:, 0] = [-np.inf, 3e38, np.inf, np.nan]
    got = check(import_model(regressor(nodes, len(x), 1)), {"x": x})["y"]
    np.testing.assert_array_equal(got, walked(nodes, x, 1))


@pytest.mark.parametrize("count", [100, pytest.param(40000, marks=pytest.mark.slow)])
def test_tables_have_the_narrowest_elements(count: int):
    # A comb: the children of each node are a leaf and the next node.
    nodes = [Node(0, i, "BRANCH_LEQ", 0, float(i), 0, count + i, i + 1) for i in range(count)]
    nodes[-1] = Node(0, count - 1, weights=[(0, -1.0)])
    nodes += [Node(0, count + i, weights=[(0, float(i))]) for i in range(count - 1)]
    x = np.zeros((4, FEATURES), np.float32)
    x[:, 0] = [-1, count // 2, count - 2, count]
    module = import_model(regressor(nodes, len(x), 1))
    (op,) = (op for op in module.walk() if isinstance(op, TreeEnsembleOp))
    children = constant_array(op.children)
    assert children is not None
    assert children.dtype == (np.int8 if count == 100 else np.int32)
    got = run(module, {"x": x})["y"]
    np.testing.assert_array_equal(got[:, 0], [0, count // 2, count - 2, -1])


def test_equal_leaves_are_one():
    nodes = random_trees(5, trees=20, depth=4, features=FEATURES, targets=1)
    nodes = [Node(n.tree, n.name, weights=[(0, 0.5)]) if n.mode == "LEAF" else n for n in nodes]
    module = import_model(regressor(nodes, 1, 1))
    (op,) = (op for op in module.walk() if isinstance(op, TreeEnsembleOp))
    leaves = constant_array(op.leaves)
    assert leaves is not None
    assert leaves.shape == (1, 1)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("base", [(), (0.5,), (0.1, 0.2, 0.3)])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
def test_regressors_agree_with_onnxruntime(post: str, base: tuple[float, ...], aggregate: str):
    targets = max(1, len(base))
    nodes = random_trees(6, trees=5, depth=3, features=FEATURES, targets=targets)
    x = inputs_for(7, 25, FEATURES)
    more = {"post_transform": post, "aggregate_function": aggregate}
    proto = regressor(nodes, len(x), targets, **more, **({"base_values": base} if base else {}))
    got = run(import_model(proto), {"x": x})["y"]
    if post != "NONE" and targets == 1:
        # ONNX Runtime does not transform a single target, but ONNX does.
        plain = regressor(
            nodes,
            len(x),
            1,
            **(more | {"post_transform": "NONE"}),
            **({"base_values": base} if base else {}),
        )
        sums = run_onnxruntime(plain, {"x": x})["y"]
        expected = 1 / (1 + np.exp(-sums)) if post == "LOGISTIC" else np.ones_like(sums)
    else:
        expected = run_onnxruntime(proto, {"x": x})["y"]
    assert_close(got, expected)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("votes", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers_agree_with_onnxruntime(post: str, base: bool, votes: bool, classes: int):
    targets = 1 if classes == 2 else classes
    nodes = random_trees(8, trees=6, depth=4, features=FEATURES, targets=targets)
    if votes:
        nodes = [replace(n, weights=[(t, abs(w) / 6) for t, w in n.weights]) for n in nodes]
    x = inputs_for(9, 60, FEATURES)
    labels = [7, 3, 11][:classes]
    more: dict[str, object] = {"base_values": [0.02, -0.01, 0.03][:targets]} if base else {}
    proto = classifier(nodes, len(x), post_transform=post, classlabels_int64s=labels, **more)
    got, expected = run(import_model(proto), {"x": x}), run_onnxruntime(proto, {"x": x})
    np.testing.assert_array_equal(got["label"], expected["label"])
    assert_close(got["p"], expected["p"])
    assert len(set(got["label"].tolist())) > 1


def test_doubles_are_compared_as_they_are():
    # The next float32 number above it is 0.1f, which a rounded threshold would let through.
    threshold = 0.1
    tensor = numpy_helper.from_array(np.array([threshold, 0, 0]), "v")
    nodes = [Node(0, 0, "BRANCH_LEQ", 0, 0, 0, 1, 2)]
    nodes += [Node(0, i, weights=[(0, float(i))]) for i in (1, 2)]
    attributes = node_attributes(nodes, "target") | {"nodes_values_as_tensor": tensor}
    del attributes["nodes_values"]
    x = np.full((2, FEATURES), 0.1, np.float32)
    x[1] = np.nextafter(np.float32(0.1), np.float32(0))
    assert float(x[0, 0]) > threshold > float(x[1, 0])
    node = ml_node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **attributes)
    proto = ml_model([node], x.shape, {"y": TensorProto.FLOAT})
    np.testing.assert_array_equal(run(import_model(proto), {"x": x})["y"][:, 0], [2, 1])


def test_inputs_in_doubles_are_equal_to_thresholds_in_doubles():
    tensor = numpy_helper.from_array(np.array([1.2, 0, 0]), "v")
    assert float(np.float32(1.2)) > 1.2
    nodes = [Node(0, 0, "BRANCH_LEQ", 0, 0, 0, 1, 2)]
    nodes += [Node(0, i, weights=[(0, float(i))]) for i in (1, 2)]
    attributes = node_attributes(nodes, "target") | {"nodes_values_as_tensor": tensor}
    del attributes["nodes_values"]
    x = np.full((2, FEATURES), 1.2)
    x[1] = 1.3
    node = ml_node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **attributes)
    proto = ml_model([node], x.shape, {"y": TensorProto.FLOAT})
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    np.testing.assert_array_equal(run(import_model(proto), {"x": x})["y"][:, 0], [1, 2])


@pytest.mark.parametrize("aggregate", [0, 1])
def test_tree_ensemble_of_version_5(aggregate: int):
    # x[0] <= 0 ? 1 to result 0 : (x[1] > 1 ? 2 to result 1 : 4 to result 0), and a stump.
    attributes = {
        "nodes_featureids": [0, 1, 2],
        "nodes_modes": numpy_helper.from_array(np.array([0, 3, 1], np.uint8), "m"),
        "nodes_splits": numpy_helper.from_array(np.array([0, 1, 0.5], np.float32), "s"),
        "nodes_truenodeids": [0, 1, 3],
        "nodes_trueleafs": [1, 1, 1],
        "nodes_falsenodeids": [1, 2, 4],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 1, 0, 0, 1],
        "leaf_weights": numpy_helper.from_array(np.array([1, 2, 4, 8, 16], np.float32), "w"),
        "tree_roots": [0, 2],
        "n_targets": 2,
        "aggregate_function": aggregate,
    }
    node = ml_node("TreeEnsemble", ["x"], ["y"], **attributes)
    x = inputs_for(11, 40, FEATURES)
    proto = ml_model([node], x.shape, {"y": TensorProto.FLOAT}, version=5)
    got = run(import_model(proto), {"x": x})["y"]
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x})["y"])


def test_labels_that_are_text_are_numbers_with_names():
    nodes = random_trees(12, trees=6, depth=4, features=FEATURES, targets=3)
    names = ["setosa", 'é?"', "virginica"]
    x = inputs_for(13, 30, FEATURES)
    proto = classifier(nodes, len(x), classlabels_strings=names)
    zip_map = ml_node("ZipMap", ["p"], ["z"], classlabels_strings=names)
    proto.graph.node.append(zip_map)
    proto.graph.node.append(helper.make_node("Identity", ["label"], ["text"]))
    label, scores = proto.graph.output
    label.name, scores.name = "text", "z"
    scores.ClearField("type")
    scores.type.sequence_type.elem_type.map_type.key_type = TensorProto.STRING
    value = scores.type.sequence_type.elem_type.map_type.value_type
    value.tensor_type.elem_type = TensorProto.FLOAT
    got, expected = run(import_model(proto), {"x": x}), run_onnxruntime(proto, {"x": x})
    assert [names[i] for i in got["text"]] == expected["text"].tolist()
    table = np.array([[row[name] for name in names] for row in expected["z"]], np.float32)
    assert_close(got["z"], table)


def test_text_is_not_computed_with():
    nodes = random_trees(12, trees=2, depth=2, features=FEATURES, targets=3)
    proto = classifier(nodes, 2, classlabels_strings=["a", "b", "c"])
    proto.graph.node.append(
        helper.make_node("Concat", ["label", "label"], ["text"], "join", axis=0)
    )
    proto.graph.output[0].name = "text"
    with pytest.raises(UnsupportedError, match=r"node 'join'.*on text: labels that are strings"):
        import_model(proto)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"nodes_featureids": [5, 0, 0]}, "tests feature 5 of an input of 5"),
        ({"nodes_truenodeids": [0, 0, 0]}, r"node \(0, 0\) is in no tree"),
        ({"nodes_truenodeids": [2, 0, 0]}, "each tree must have one root"),
        ({"nodes_truenodeids": [2, 0, 0], "nodes_nodeids": [0, 3, 2]}, "must have one root"),
        ({"nodes_nodeids": [0, 1, 1]}, "node 1 of tree 0 is given twice"),
        ({"nodes_values": [1.0]}, "lists of nodes are empty or differ"),
        ({"nodes_values": [float("nan"), 0.0, 0.0]}, "thresholds must be numbers"),
        ({"nodes_values": [-np.inf] * 3, "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF"]}, "below"),
        ({"target_ids": [0, 9]}, "a leaf adds to result 9 of 1"),
        ({"target_ids": [0, 1 << 30], "n_targets": (1 << 30) + 1}, "numbers are too large"),
        ({"target_weights": [1.0]}, "lists of leaves are empty or differ"),
        ({"nodes_modes": ["BRANCH_IN", "LEAF", "LEAF"]}, "unsupported.*mode 'BRANCH_IN'"),
        ({"aggregate_function": "MIN"}, "unsupported.*summed or averaged; got 'MIN'"),
        ({"post_transform": "PROBIT"}, "unsupported.*NONE, LOGISTIC or SOFTMAX; got 'PROBIT'"),
        ({"base_values": [1.0, 2.0]}, "unsupported.*2 base values for 1 results"),
    ],
)
def test_broken_trees_are_named(changed: dict[str, object], message: str):
    nodes = [Node(0, 0, "BRANCH_LEQ", 0, 0.0, 0, 1, 2)]
    nodes += [Node(0, i, weights=[(0, float(i))]) for i in (1, 2)]
    with pytest.raises(InputError, match=message):
        import_model(regressor(nodes, 1, 1, **changed))


def test_two_classes_with_weights_of_both_are_refused():
    nodes = random_trees(14, trees=2, depth=2, features=FEATURES, targets=2)
    with pytest.raises(UnsupportedError, match="runtimes return different labels"):
        import_model(classifier(nodes, 1, classlabels_int64s=[0, 1]))


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("base", [None, 0.25])
def test_two_classes_with_opposite_weights(post: str, base: float | None):
    """CatBoost writes such classifiers; with base values, ONNX Runtime swaps the classes."""
    nodes = [
        replace(leaf, weights=[(c, w if c else -w) for _, w in leaf.weights for c in (0, 1)])
        for leaf in random_trees(14, trees=5, depth=3, features=FEATURES, targets=1)
    ]
    x = inputs_for(15, 40, FEATURES)
    more: dict[str, object] = {"classlabels_int64s": [0, 1], "post_transform": post}
    if base is not None:
        more["base_values"] = [-base, base]
    proto = classifier(nodes, len(x), **more)
    found = run(import_model(proto), {"x": x})
    totals = walked(nodes, x, 2)[:, 1] + np.float32(base or 0.0)
    scores = np.stack([-totals, totals], 1)
    if post == "LOGISTIC":
        scores = 1 / (1 + np.exp(-scores))
    assert found["label"].tolist() == (totals > 0).tolist()
    assert_close(found["p"], scores)
    if base is None:
        assert found["label"].tolist() == run_onnxruntime(proto, {"x": x})["label"].tolist()
        assert_close(found["p"], run_onnxruntime(proto, {"x": x})["p"])
