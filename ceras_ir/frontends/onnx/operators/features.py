"""Features of classical models: scaling, normalizing, choosing, joining, filling in."""

from collections.abc import Sequence
from math import isnan

import numpy as np
from xdsl.dialects.builtin import f32

from ceras_ir.dialects.graph import Binary, Compare, Function, Reduce, TakeOp
from ceras_ir.frontends.onnx.compose import Composer
from ceras_ir.frontends.onnx.emitter import Emitter, dtype_of_value, shape_of_value
from ceras_ir.frontends.onnx.node import Node
from ceras_ir.frontends.onnx.registry import operator, rule
from ceras_ir.frontends.onnx.scores import labelled
from ceras_ir.frontends.onnx.values import Constant, Value

NORMS = ("MAX", "L1", "L2")


@operator("ai.onnx.ml::Scaler")
def scaler(node: Node, emitter: Emitter) -> Value:
    """`(x - offset) * scale`, column by column or with one number for all."""
    compose = Composer(emitter)
    x = _floats(emitter, emitter.value(0))
    for name, kind in (("offset", Binary.SUB), ("scale", Binary.MUL)):
        if (numbers := node.numbers(name)) is not None:
            if len(numbers) not in (1, shape_of_value(x)[-1]):
                raise node.wrong(
                    f"attribute '{name}' has {len(numbers)} numbers for shape "
                    f"{list(shape_of_value(x))}"
                )
            x = emitter.binary(kind, x, emitter.constant(np.array(numbers, np.float32), name))
    return compose.cast(x)


@operator("ai.onnx.ml::Normalizer")
def normalizer(node: Node, emitter: Emitter) -> Value:
    """Rows divided by greatest element, sum of magnitudes, or length; by 1 where that is 0."""
    compose = Composer(emitter)
    x = _floats(emitter, emitter.value(0))
    shape = shape_of_value(x)
    norm = node.string("norm", "MAX")
    if norm not in NORMS or not shape:
        raise node.wrong(f"attribute 'norm' must be one of {', '.join(NORMS)}, got '{norm}'")
    axes = [len(shape) - 1]
    match norm:
        case "MAX":
            size = compose.reduce(Reduce.MAX, x, axes)
        case "L1":
            size = compose.reduce(Reduce.SUM, compose.unary(Function.ABS, x), axes)
        case _:
            squares = compose.reduce(Reduce.SUM, compose.mul(x, x), axes)
            size = compose.unary(Function.SQRT, squares)
    is_zero = compose.compare(Compare.EQUAL, size, compose.number(0.0))
    return compose.div(x, compose.select(is_zero, compose.number(1.0), size))


@operator("ai.onnx.ml::Binarizer")
def binarizer(node: Node, emitter: Emitter) -> Value:
    """1 above a threshold, else 0."""
    compose = Composer(emitter)
    x = _floats(emitter, emitter.value(0))
    threshold = compose.number(node.number("threshold", 0.0))
    return compose.cast(compose.compare(Compare.LESS, threshold, x))


@operator("ai.onnx.ml::Imputer")
def imputer(node: Node, emitter: Emitter) -> Value:
    """A number, or NaN, replaced by the column's number or by one for all."""
    compose = Composer(emitter)
    whole = node.has_attribute("imputed_value_int64s")
    x = emitter.value(0) if whole else _floats(emitter, emitter.value(0))
    lists = node.integers("imputed_value_int64s"), node.numbers("imputed_value_floats")
    values = lists[0] if lists[0] is not None else lists[1]
    if not values or len(values) not in (1, shape_of_value(x)[-1]):
        raise node.wrong(f"{len(values or ())} values for shape {list(shape_of_value(x))}")
    replaced = node.bound("replaced_value_float", 0.0)
    node.ignore("replaced_value_int64")
    if whole:
        replaced = node.integer("replaced_value_int64", 0)
    filler = emitter.constant(np.array(values, dtype_of_value(x)), "imputed")
    if isinstance(replaced, float) and isnan(replaced):
        return compose.select(compose.compare(Compare.EQUAL, x, x), x, filler)
    missing = compose.compare(Compare.EQUAL, x, compose.number(replaced, x))
    return compose.select(missing, filler, x)


@operator("ai.onnx.ml::FeatureVectorizer")
def feature_vectorizer(node: Node, emitter: Emitter) -> Value:
    """Operands side by side, as floats."""
    columns = [_floats(emitter, emitter.value(i)) for i in range(len(node.inputs))]
    rows = {shape_of_value(x)[0] for x in columns if len(shape_of_value(x)) == 2}
    if len(rows) != 1 or any(len(shape_of_value(x)) != 2 for x in columns):
        raise node.wrong(f"shapes {[list(shape_of_value(x)) for x in columns]}, expected columns")
    expected = node.integers("inputdimensions")
    widths = tuple(shape_of_value(x)[1] for x in columns)
    if expected is not None and expected != widths:
        raise node.wrong(f"columns {list(widths)}, inputdimensions says {list(expected)}")
    return Composer(emitter).joined(columns, 1)


@operator("ai.onnx.ml::ArrayFeatureExtractor")
def array_feature_extractor(node: Node, emitter: Emitter) -> Value:
    """Elements along the last axis at given indices; of strings, labels."""
    compose = Composer(emitter)
    x, at = emitter.value(0), emitter.value(1)
    shape = shape_of_value(x) if len(shape_of_value(x)) > 1 else (1, *shape_of_value(x))
    outer, inner = shape[:-1], shape[-1]
    count = int(np.prod(shape_of_value(at)))
    if isinstance(at, Constant):
        indices = [int(i) for i in np.asarray(at.load()).reshape(-1).tolist()]
        if any(not 0 <= i < inner for i in indices):
            raise node.wrong(f"indices {indices[:8]} of {inner} elements")
        return compose.gathered(emitter.reshaped(x, shape), len(shape) - 1, indices)
    flat = emitter.materialize(emitter.reshaped(at, (count,)))
    if isinstance(x, Constant) and x.dtype.kind == "U":
        if shape[:-1] != (1,) * len(outer):
            raise node.unsupported(f"strings of shape {list(shape)}; one list of labels is taken")
        texts = [str(text) for text in x.load().reshape(-1).tolist()]
        return emitter.named(emitter.materialize(emitter.reshaped(flat, (*outer, count))), texts)
    rows = emitter.transposed(emitter.reshaped(x, (int(np.prod(outer)), inner)), (1, 0))
    taken = emitter.emit(TakeOp(emitter.materialize(rows), flat))
    return emitter.reshaped(emitter.transposed(taken, (1, 0)), (*outer, count))


@operator("ai.onnx.ml::OneHotEncoder")
def one_hot_encoder(node: Node, emitter: Emitter) -> Value:
    """1 in the column of an element's category, 0 elsewhere; categories are integers."""
    node.flag("zeros", True)
    compose = Composer(emitter)
    categories = node.integers("cats_int64s")
    if not categories:
        raise node.unsupported("categories of text; encode them as integers in the application")
    x = emitter.value(0)
    wanted = np.array(categories, dtype_of_value(x))
    each = emitter.reshaped(x, (*shape_of_value(x), 1))
    return compose.cast(
        compose.compare(Compare.EQUAL, each, emitter.constant(wanted, "categories"))
    )


@rule("ai.onnx.ml::LabelEncoder")
def from_integers(node: Node) -> str | None:
    """keys must be integers, or the labels of a classifier"""
    for name in ("keys_floats", "keys_tensor", "values_tensor", "default_tensor", "values_floats"):
        if node.has_attribute(name):
            return f"got '{name}'; encode in the application"
    return None


@operator("ai.onnx.ml::LabelEncoder")
def label_encoder(node: Node, emitter: Emitter) -> Value:
    """Integers or labels replaced by others; values that are text are numbers of their list."""
    for name in ("default_int64", "default_string", "default_float", "classes_strings"):
        node.ignore(name)
    compose = Composer(emitter)
    value = emitter.tensor(0)
    known = emitter.labels.get(value)
    keys = (node.strings if known else node.integers)("keys_strings" if known else "keys_int64s")
    texts, numbers = node.strings("values_strings"), node.integers("values_int64s")
    values = texts or numbers
    if not keys or not values or len(keys) != len(values):
        raise node.unsupported("keys and values must be lists of integers or labels of one length")
    default: str | int = node.string("default_string", "_Unused")
    if not texts:
        default = node.integer("default_int64", -1)
    if known:
        table = dict(zip(keys, values, strict=True))
        return labelled(emitter, value, _of_one_kind([table.get(k, default) for k in known]))
    # The number of the key, or one more than the last.
    index: Value = emitter.constant(np.array(len(values), np.int64), "unknown")
    for i, key in enumerate(keys):
        same = compose.compare(Compare.EQUAL, value, compose.number(int(key), value))
        index = compose.select(same, emitter.constant(np.array(i, np.int64), "key"), index)
    return labelled(emitter, index, _of_one_kind([*values, default]))


@operator("ai.onnx.ml::ZipMap")
def zip_map(node: Node, emitter: Emitter) -> Value:
    """The tensor of scores itself, in place of a list of dictionaries."""
    node.ignore("classlabels_int64s", "classlabels_strings")
    return emitter.value(0)


def _of_one_kind(entries: Sequence[object]) -> Sequence[int] | Sequence[str]:
    texts = [e for e in entries if isinstance(e, str)]
    return texts if len(texts) == len(entries) else [e for e in entries if isinstance(e, int)]


def _floats(emitter: Emitter, value: Value) -> Value:
    return value if emitter.is_float(value) else Composer(emitter).cast(value, f32)
