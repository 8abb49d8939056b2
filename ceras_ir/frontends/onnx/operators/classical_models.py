"""
Import features and linear models of ONNX-ML.

Features are scaled, normalized, selected, concatenated, encoded and imputed. Scores and labels of
all classifiers are computed here too.
"""

from collections.abc import Sequence
from math import isnan, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f32, i64

from ceras_ir.dialects.graph import ArgOp, Binary, Compare, Function, Reduce, SoftmaxOp, TakeOp
from ceras_ir.frontends.onnx.emission.emitter import Emitter
from ceras_ir.frontends.onnx.emission.registry import operator, rule
from ceras_ir.frontends.onnx.emission.values import Constant, Value, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.model.node import Node
from ceras_ir.support.options import docstring

NORMS = ("MAX", "L1", "L2")


@operator("ai.onnx.ml::Scaler")
def scaler(node: Node, emitter: Emitter) -> Value:
    """Import Scaler: `(x - offset) * scale`, with numbers for each column or for all."""
    x = _floats(emitter, emitter.value(0))
    for name, kind in (("offset", Binary.SUB), ("scale", Binary.MUL)):
        if (numbers := node.numbers(name)) is not None:
            if len(numbers) not in (1, shape_of_value(x)[-1]):
                shape = list(shape_of_value(x))
                raise node.wrong(f"attribute '{name}' has {len(numbers)} numbers for {shape}")
            x = emitter.binary(kind, x, emitter.constant(np.array(numbers, np.float32), name))
    return emitter.cast(x)


@operator("ai.onnx.ml::Normalizer")
def normalizer(node: Node, emitter: Emitter) -> Value:
    """
    Import Normalizer: divide each row by the maximum, the sum of magnitudes, or the Euclidean
    length; by 1 if that is 0.
    """
    x = _floats(emitter, emitter.value(0))
    shape = shape_of_value(x)
    norm = node.string("norm", "MAX")
    if norm not in NORMS or not shape:
        raise node.wrong(f"attribute 'norm' must be one of {', '.join(NORMS)}, got '{norm}'")
    axes = [len(shape) - 1]
    match norm:
        case "MAX":
            size = emitter.reduce(Reduce.MAX, x, axes)
        case "L1":
            size = emitter.reduce(Reduce.SUM, emitter.unary(Function.ABS, x), axes)
        case _:
            squares = emitter.reduce(Reduce.SUM, emitter.mul(x, x), axes)
            size = emitter.unary(Function.SQRT, squares)
    is_zero = emitter.compare(Compare.EQUAL, size, emitter.number(0.0))
    return emitter.div(x, emitter.select(is_zero, emitter.number(1.0), size))


@operator("ai.onnx.ml::Binarizer")
def binarizer(node: Node, emitter: Emitter) -> Value:
    """Import Binarizer: 1 for elements above the threshold, else 0."""
    x = _floats(emitter, emitter.value(0))
    threshold = emitter.number(node.number("threshold", 0.0))
    return emitter.cast(emitter.compare(Compare.LESS, threshold, x))


@operator("ai.onnx.ml::Imputer")
def imputer(node: Node, emitter: Emitter) -> Value:
    """Import Imputer: replace a number, or NaN, by the replacement for the column or for all."""
    is_integer = node.has_attribute("imputed_value_int64s")
    x = emitter.value(0) if is_integer else _floats(emitter, emitter.value(0))
    lists = node.integers("imputed_value_int64s"), node.numbers("imputed_value_floats")
    values = lists[0] if lists[0] is not None else lists[1]
    if not values or len(values) not in (1, shape_of_value(x)[-1]):
        raise node.wrong(f"{len(values or ())} values for shape {list(shape_of_value(x))}")
    replaced = node.bound("replaced_value_float", 0.0)
    node.ignore("replaced_value_int64")
    if is_integer:
        replaced = node.integer("replaced_value_int64", 0)
    filler = emitter.constant(np.array(values, dtype_of_value(x)), "imputed")
    if isinstance(replaced, float) and isnan(replaced):
        return emitter.select(emitter.compare(Compare.EQUAL, x, x), x, filler)
    missing = emitter.compare(Compare.EQUAL, x, emitter.number(replaced, x))
    return emitter.select(missing, filler, x)


@operator("ai.onnx.ml::FeatureVectorizer")
def feature_vectorizer(node: Node, emitter: Emitter) -> Value:
    """Import FeatureVectorizer: concatenate the operands as float columns."""
    columns = [_floats(emitter, emitter.value(i)) for i in range(len(node.inputs))]
    rows = {shape_of_value(x)[0] for x in columns if len(shape_of_value(x)) == 2}
    if len(rows) != 1 or any(len(shape_of_value(x)) != 2 for x in columns):
        raise node.wrong(f"shapes {[list(shape_of_value(x)) for x in columns]}, expected columns")
    expected = node.integers("inputdimensions")
    widths = tuple(shape_of_value(x)[1] for x in columns)
    if expected is not None and expected != widths:
        raise node.wrong(f"columns {list(widths)}, inputdimensions says {list(expected)}")
    return emitter.joined(columns, 1)


@operator("ai.onnx.ml::ArrayFeatureExtractor")
def array_feature_extractor(node: Node, emitter: Emitter) -> Value:
    """
    Import ArrayFeatureExtractor: select elements along the last axis. If the operand is a list of
    texts, the results are indices into this list.
    """
    x, at = emitter.value(0), emitter.value(1)
    shape = shape_of_value(x) if len(shape_of_value(x)) > 1 else (1, *shape_of_value(x))
    outer, inner = shape[:-1], shape[-1]
    count = int(np.prod(shape_of_value(at)))
    if isinstance(at, Constant):
        indices = [int(i) for i in np.asarray(at.load()).reshape(-1).tolist()]
        if any(not 0 <= i < inner for i in indices):
            raise node.wrong(f"indices {indices[:8]} of {inner} elements")
        return emitter.gathered(emitter.reshaped(x, shape), len(shape) - 1, indices)
    flat = emitter.materialize(emitter.reshaped(at, (count,)))
    if isinstance(x, Constant) and x.dtype.kind == "U":
        if shape[:-1] != (1,) * len(outer):
            raise node.unsupported(f"strings of shape {list(shape)}, expected one list of labels")
        texts = [str(text) for text in x.load().reshape(-1).tolist()]
        return emitter.named(emitter.materialize(emitter.reshaped(flat, (*outer, count))), texts)
    rows = emitter.transposed(emitter.reshaped(x, (int(np.prod(outer)), inner)), (1, 0))
    gathered = emitter.emit(TakeOp(emitter.materialize(rows), flat))
    return emitter.reshaped(emitter.transposed(gathered, (1, 0)), (*outer, count))


@operator("ai.onnx.ml::OneHotEncoder")
def one_hot_encoder(node: Node, emitter: Emitter) -> Value:
    """
    Import OneHotEncoder: 1 in the column of the category, else 0. Categories must be integers.
    """
    node.flag("zeros", True)
    categories = node.integers("cats_int64s")
    if not categories:
        raise node.unsupported("categories of text; encode them as integers in the application")
    x = emitter.value(0)
    keys = emitter.constant(np.array(categories, dtype_of_value(x)), "categories")
    each = emitter.reshaped(x, (*shape_of_value(x), 1))
    return emitter.cast(emitter.compare(Compare.EQUAL, each, keys))


@rule("ai.onnx.ml::LabelEncoder")
def from_numbers(node: Node) -> str | None:
    """keys must be numbers, or the labels of a classifier"""
    for name in ("keys_tensor", "values_tensor", "default_tensor"):
        if node.has_attribute(name):
            return f"got '{name}'; encode in the application"
    return None


@operator("ai.onnx.ml::LabelEncoder")
def label_encoder(node: Node, emitter: Emitter) -> Value:
    """
    Import LabelEncoder: map numbers or labels to other values. Results that are text are indices
    into the list of texts.
    """
    node.ignore("default_int64", "default_string", "default_float", "classes_strings")
    value = emitter.tensor(0)
    known = emitter.labels.get(value)
    numeric = node.integers("keys_int64s") or node.numbers("keys_floats")
    keys = node.strings("keys_strings") if known else numeric
    texts, reals = node.strings("values_strings"), node.numbers("values_floats")
    values = texts or reals or node.integers("values_int64s")
    if not keys or not values or len(keys) != len(values):
        raise node.unsupported("keys and values must be lists of numbers or labels of equal length")
    default: str | int | float = node.integer("default_int64", -1)
    if texts:
        default = node.string("default_string", "_Unused")
    elif reals:
        default = node.number("default_float", -0.0)
    table = dict(zip(keys, values, strict=True))
    if known:
        entries = [table.get(k, default) for k in known]
        return _replaced(emitter, value, entries)
    numbers = sorted(k for k in table if not isinstance(k, str))
    if any(map(isnan, numbers)):
        raise node.unsupported("a key that is NaN; encode in the application")
    index = _found(emitter, value, np.array(numbers, dtype_of_value(value)))
    # The order of names is that of the model.
    places = [list(table).index(number) for number in numbers]
    index = labelled(emitter, index, [*places, len(places)])
    return _replaced(emitter, index, [*table.values(), default])


def _found(emitter: Emitter, value: Value, keys: NDArray[np.generic]) -> Value:
    """
    Return the index of each element of `value` in `keys`, which are ascending, or the number of
    keys if it is not there.
    """
    shape = shape_of_value(value)
    each = emitter.reshaped(value, (prod(shape), 1))
    below = emitter.compare(Compare.LESS, emitter.constant(keys, "keys"), each)
    number = emitter.cast(emitter.reduce(Reduce.SUM, emitter.cast(below), [1]), i64)
    column = emitter.materialize(emitter.constant(keys.reshape(-1, 1), "keys"))
    flat = emitter.materialize(emitter.reshaped(number, (prod(shape),)))
    same = emitter.compare(Compare.EQUAL, emitter.emit(TakeOp(column, flat)), each)
    none = emitter.constant(np.array([keys.size], np.int64), "unknown")
    return emitter.reshaped(emitter.select(same, number, none), shape)


def _replaced(emitter: Emitter, index: Value, entries: Sequence[object]) -> Value:
    texts = [e for e in entries if isinstance(e, str)]
    numbers = [e for e in entries if isinstance(e, int)]
    if len(texts) == len(entries) or len(numbers) == len(entries):
        return labelled(emitter, index, texts or numbers)
    reals = [e for e in entries if isinstance(e, float)]
    table = emitter.constant(np.array(reals, np.float32).reshape(-1, 1), "values")
    return emitter.lookup(table, index)


@operator("ai.onnx.ml::ZipMap")
def zip_map(node: Node, emitter: Emitter) -> Value:
    """Import ZipMap: return the tensor of scores, instead of a list of dictionaries."""
    node.ignore("classlabels_int64s", "classlabels_strings")
    return emitter.value(0)


def _floats(emitter: Emitter, value: Value) -> Value:
    return value if emitter.is_float(value) else emitter.cast(value, f32)


ClassLabels: TypeAlias = Sequence[int] | Sequence[str]

SCORE_TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX")


def known_transform(node: Node) -> str | None:
    """post_transform must be NONE, LOGISTIC or SOFTMAX"""
    post = node.string("post_transform", "NONE")
    return None if post in SCORE_TRANSFORMS else f"got '{post}'; convert the model without it"


def class_labels(node: Node, integers: str) -> ClassLabels:
    """
    Return the labels of a classifier: the attribute `integers`, or the attribute
    `classlabels_strings`. A single label is an error.
    """
    numbers = node.integers(integers) or ()
    texts = node.strings("classlabels_strings") or ()
    if bool(numbers) == bool(texts):
        raise node.wrong(f"needs labels in either '{integers}' or 'classlabels_strings'")
    if len(labels := numbers or texts) < 2:
        raise node.unsupported("a single class; the label is constant, so remove the node")
    return labels


def rows_of(emitter: Emitter) -> Value:
    """Return the first operand as float rows [N, features]. A vector is a single row."""
    value = emitter.value(0)
    shape = shape_of_value(value)
    if len(shape) not in (1, 2):
        raise emitter.node.wrong(f"operand of shape {list(shape)}, expected rows of features")
    if len(shape) == 1:
        value = emitter.reshaped(value, (1, *shape))
    return value if emitter.is_float(value) else emitter.cast(value, f32)


def transformed(emitter: Emitter, scores: Value, post: str) -> Value:
    """Apply the attribute `post_transform` (`post`) to rows of scores."""
    match post:
        case "NONE":
            return scores
        case "LOGISTIC":
            return emitter.unary(Function.SIGMOID, scores)
        case "SOFTMAX":
            return emitter.emit(SoftmaxOp(emitter.materialize(scores), 1))
        case _:
            raise emitter.node.unsupported(f"{docstring(known_transform)}; got '{post}'")


def classified(
    emitter: Emitter,
    scores: Value,
    labels: ClassLabels,
    post: str,
    *,
    threshold: float = 0.0,
    total: float = 1.0,
) -> Sequence[Value]:
    """
    Return the label and the transformed scores for each row of `scores` [N, classes]. A single
    column is the score of the second of two classes, which is chosen above `threshold`. The score
    of the first class is then `total` minus this score, as in ONNX Runtime, or for LOGISTIC the
    probability of the negative score.
    """
    rows, columns = shape_of_value(scores)
    if columns > 1:
        index: Value = emitter.emit(ArgOp(Reduce.MAX, emitter.materialize(scores), 1))
        found = transformed(emitter, scores, post)
    else:
        index = emitter.cast(emitter.compare(Compare.LESS, emitter.number(threshold), scores), i64)
        is_logistic = post == "LOGISTIC"
        other: Value = emitter.sub(emitter.number(0.0 if is_logistic else total), scores)
        if is_logistic:
            other, scores = (transformed(emitter, v, post) for v in (other, scores))
        found = emitter.joined([other, scores], 1)
    return [labelled(emitter, emitter.reshaped(index, (rows,)), labels), found]


def labelled(emitter: Emitter, index: Value, labels: ClassLabels) -> Value:
    """
    Return the labels at indices that are computed at run time. Labels that are text remain indices,
    with the texts as names.
    """
    value = emitter.materialize(index)
    texts = [label for label in labels if isinstance(label, str)]
    if texts:
        return emitter.named(value, texts)
    numbers = [label for label in labels if not isinstance(label, str)]
    if numbers == list(range(len(numbers))):
        return value
    table = emitter.constant(np.array(numbers, np.int64).reshape(-1, 1), "labels")
    return emitter.lookup(table, value)


LINEAR_CLASSIFIER = "ai.onnx.ml::LinearClassifier"
LINEAR_REGRESSOR = "ai.onnx.ml::LinearRegressor"

rule(LINEAR_CLASSIFIER, LINEAR_REGRESSOR)(known_transform)


@operator(LINEAR_CLASSIFIER)
def linear_classifier(node: Node, emitter: Emitter) -> Sequence[Value]:
    """
    Import LinearClassifier: the label of each row, and the scores of the classes. Labels that are
    text become indices into the list of labels.
    """
    node.ignore("multi_class")
    labels = class_labels(node, "classlabels_ints")
    count = len(node.numbers("intercepts") or ()) or len(labels)
    if count != len(labels) and (count, len(labels)) != (1, 2):
        raise node.wrong(f"{count} intercepts for {len(labels)} labels")
    scores = _scores(node, emitter, count)
    return classified(emitter, scores, labels, node.string("post_transform", "NONE"))


@operator(LINEAR_REGRESSOR)
def linear_regressor(node: Node, emitter: Emitter) -> Value:
    """Import LinearRegressor: a sum of products, plus an intercept, for each target."""
    scores = _scores(node, emitter, node.integer("targets", 1))
    return transformed(emitter, scores, node.string("post_transform", "NONE"))


def _scores(node: Node, emitter: Emitter, count: int) -> Value:
    rows = rows_of(emitter)
    width = shape_of_value(rows)[1]
    weights, bias = node.numbers("coefficients") or (), node.numbers("intercepts")
    if len(weights) != count * width or len(bias or ()) not in (0, count):
        expected = f"{count} times {width} and {count}"
        given = f"{len(weights)} coefficients and {len(bias or ())} intercepts"
        raise node.wrong(f"{given}, expected {expected}")
    matrix = emitter.constant(np.array(weights, np.float32).reshape(count, width), "coefficients")
    added = emitter.constant(np.array(bias, np.float32), "intercepts") if bias else None
    return emitter.product(rows, matrix, added)
