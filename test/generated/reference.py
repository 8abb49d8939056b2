"""
Compute references without code of the compiler, and the bound within which a result is correct.

1. `runtime` is ONNX Runtime without optimizations, in float32.
2. `Evaluator` is ONNX's reference implementation with all floats in float64. Results of an
   operator outside the range of float32 become infinite or 0, as they would in float32.
3. The bound of a float is computed. The evaluator runs again, and rounds the result of each
   operator to float32 after a random change of the size of the rounding error of that operator
   (`ROUNDINGS` units in the last place, or the root of the number of summands). A result that is
   exact in float32 is not changed, so that ties and comparisons of exact numbers count.
   The maximum deviation of these runs from the exact run, times `GAIN`, is the bound.
4. An integer or boolean has to be equal to that of the exact run, unless a run with changes has a
   different result: then the float that decides is within the bound of a tie. QuantizeLinear always
   changes its operand, so that an integer may be off by 1 near a tie, but not elsewhere.
5. A constant bias may change by `MAX_BIAS_ERROR` of the quantized result, as
   docs/quantized-import.md states. Networks have such biases if their scale is not that of the
   products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from generated.builder import Array, Case
from generated.definitions import DEFINITIONS, spread
from generated.noise import TINY, UNIT, Noise, current, in_range, is_exact, using
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ceras_ir.driver.verify.unsigned_weights import with_unsigned_weights

GAIN = 8.0
BASIC = frozenset(
    {"Add", "Sub", "Mul", "Div", "Sqrt", "Cast", "DequantizeLinear", "Reciprocal", "Neg", "Mod"}
)
ROUNDINGS = 4.0
"""The allowed error of a function, in half units in the last place."""

MAX_BIAS_ERROR = 2.0**-5
"""The allowed change of a constant bias, in units of the result of QuantizeLinear."""

KEEPS_BIAS = frozenset(
    {"Relu", "Clip", "Add", "Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}
)
"""Operators that a layer contains after the bias."""

SUMS = frozenset(
    {
        *("MatMul", "Gemm", "Conv", "Einsum", "ReduceMean", "ReduceSum", "ReduceL1", "ReduceL2"),
        *("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "ReduceProd", "Softmax", "CumSum"),
        *("LogSoftmax", "LayerNormalization", "RMSNormalization", "Attention", "AveragePool"),
        *("GlobalAveragePool", "LSTM", "GRU", "RNN", "RotaryEmbedding", "Sum", "Mean", "Scaler"),
        *("LinearRegressor", "LinearClassifier", "SVMRegressor"),
        *("Normalizer", "QLinearConv", "QLinearMatMul", "DynamicQuantizeLinear"),
    }
)
"""Operators that compute sums; the operands of these are changed too."""


EXPONENTIALS = frozenset({"Exp", "Sigmoid", "Softplus", "Softmax", "Pow", "Mish", "Swish"})
"""Functions that may return 0 instead of a subnormal number."""


class Evaluator(ReferenceEvaluator):
    """Run ONNX's reference implementation, and change each float result of an operator."""

    biased: frozenset[str] = frozenset()
    """The tensors of the main graph that `with_bias` found."""

    def run(
        self, output_names: Any, feed_inputs: Any, attributes: Any = None, *_: Any, **__: Any
    ) -> Any:
        own: Any = self
        results: dict[str, Any] = {"": None, **own.rt_inits_, **feed_inputs}
        for node in own.rt_nodes_:
            given = [results[name] for name in node.input]
            linked: dict[str, Any] = {}
            if node.has_linked_attribute and attributes:
                linked["linked_attributes"] = attributes
            if node.need_context():
                made = node.run(*given, context=results, **linked)
            else:
                made = self.computed(node, given, linked)
            results.update(zip(node.output, made, strict=False))
        names: Any = output_names or self.output_names
        return [results[name] for name in names]

    def computed(self, node: Any, given: Sequence[Any], linked: Mapping[str, Any]) -> list[Any]:
        """Compute the results of an operator."""
        op, noise = node.onnx_node.op_type, current()
        if op == "QuantizeLinear":
            error = MAX_BIAS_ERROR if node.onnx_node.input[0] in self.biased else 0.0
            return [quantized(node.onnx_node, given, noise, error)]
        exact = [wide(a) for a in node.run(*given, **linked)]
        if noise is None:
            return exact
        if op in SUMS or op == "Pow":
            terms = max((np.size(a) for a in given if a is not None), default=1)
            # A power is correct if it is the power of operands within a rounding.
            size = ROUNDINGS if op == "Pow" else np.sqrt(min(terms, 64))
            near = 1.0 if op == "Pow" else size
            moved = [noise.changed(a, near) if is_float(a) else a for a in given]
            other = [wide(a) for a in node.run(*moved, **linked)]
            if op == "DynamicQuantizeLinear":
                return other
        else:
            size, other = 1.0 if op in BASIC else ROUNDINGS, exact
        found = [
            np.where(is_exact(a) & (op != "Pow"), a, noise.changed(o, size)) if is_float(a) else o
            for a, o in zip(exact, other, strict=True)
        ]
        return [noise.flushed(a) for a in found] if op in EXPONENTIALS else found


def is_float(array: Any) -> bool:
    return getattr(array, "dtype", None) == np.float64


def wide(array: Any) -> Array:
    """Convert floats to float64, limited to the range of float32."""
    values = np.asarray(array)
    if values.dtype.kind == "f":
        return in_range(values.astype(np.float64))
    return values


def with_bias(model: onnx.ModelProto) -> frozenset[str]:
    """Return the results of layers that have a constant bias."""
    constants = {tensor.name for tensor in model.graph.initializer}
    products, found = set[str](), set[str]()
    for node in model.graph.node:
        op, given = node.op_type, list(node.input)
        if op in ("Constant", "DequantizeLinear") and constants.issuperset(filter(None, given)):
            constants.update(node.output)
        elif op in ("Conv", "Gemm", "MatMul"):
            (found if constants.issuperset(given[2:3]) and given[2:] else products).update(
                node.output
            )
        elif op in KEEPS_BIAS:
            if not found.isdisjoint(given):
                found.update(node.output)
            elif not products.isdisjoint(given):
                is_bias = op == "Add" and not constants.isdisjoint(given)
                (found if is_bias else products).update(node.output)
    return frozenset(found)


def quantized(
    node: onnx.NodeProto, given: Sequence[Any], noise: Noise | None, error: float = 0.0
) -> Array:
    """
    Compute saturate(round_half_even(x / scale) + zero point), as QuantizeLinear is defined.

    With noise, the quotient changes by up to `error`, and by rounding errors.
    """
    found = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    x, scale, *rest = given
    kind = helper.tensor_dtype_to_np_dtype(found.get("output_dtype") or TensorProto.UINT8)
    zero = rest[0] if rest and rest[0] is not None else np.zeros(np.shape(scale), kind)
    axis, block = found.get("axis", 1), found.get("block_size", 0)
    scale, shift = (spread(np.asarray(a), x.shape, axis, block) for a in (scale, zero))
    quotient = x / scale
    if noise is not None:
        quotient = noise.changed(noise.moved(quotient, error), ROUNDINGS)
    name = zero.dtype.name
    low, high = {"int4": (-8, 7), "uint4": (0, 15)}.get(name) or (
        np.iinfo(zero.dtype).min,
        np.iinfo(zero.dtype).max,
    )
    steps = np.rint(np.clip(quotient, -(2.0**40), 2.0**40)) + shift.astype(np.int64)
    return np.clip(steps, low, high).astype(np.int64).astype(zero.dtype)


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with float64 in place of float32, also in the bodies of loops."""
    other = onnx.ModelProto()
    other.CopyFrom(model)
    _widen(other.graph)
    return other


def _widen(graph: onnx.GraphProto) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                _widen(attribute.g)
            elif attribute.type == AttributeProto.TENSOR and node.op_type == "Constant":
                _widen_tensor(attribute.t)
            elif attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type == TensorProto.FLOAT:
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


Results = list[dict[str, Array]]
"""The outputs of each sample."""


def in_order(case: Case, run: Any) -> Results:
    """Run the samples of a case in order with `run`, and pass the states to the next sample."""
    shapes = {
        v.name: (
            [d.dim_value for d in v.type.tensor_type.shape.dim],
            helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type),
        )
        for v in case.model.graph.input
    }
    kept = {name: np.zeros(*shapes[name]) for name in case.states}
    names = [o.name for o in case.model.graph.output]
    found: Results = []
    for sample in case.samples:
        results = dict(zip(names, run({**sample, **kept}), strict=True))
        kept = {name: results[after] for name, after in case.states.items()}
        found.append({name: np.asarray(a) for name, a in results.items()})
    return found


def runtime(case: Case) -> Results:
    """Run ONNX Runtime without optimizations."""
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = ort.InferenceSession(
        with_unsigned_weights(case.model).SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )

    def run(feed: Mapping[str, Array]) -> Any:
        return session.run(None, dict(feed))

    return in_order(case, run)


class Exact:
    """Hold the results in float64, and the runs with changes that bound the correct results."""

    def __init__(self, case: Case):
        self.case = case
        self.evaluator = Evaluator(widened(case.model), new_ops=DEFINITIONS)
        self.evaluator.biased = with_bias(case.model)
        self.results = self._run(None)
        self.changed: list[Results] = []
        for sign in (0.0, 0.0, 0.0, 1.0, -1.0):
            self.add(sign)

    def _run(self, noise: Noise | None) -> Results:
        def run(feed: Mapping[str, Array]) -> Any:
            wide_feed = {
                k: a.astype(np.float64) if a.dtype == np.float32 else a for k, a in feed.items()
            }
            return self.evaluator.run(None, wide_feed)

        with using(noise):
            return in_order(self.case, run)

    def add(self, sign: float = 0.0) -> None:
        """Add a run with changes."""
        self.changed.append(self._run(Noise(len(self.changed), sign)))

    def check(self, results: Results) -> list[Difference]:
        """List the elements outside the bounds, after up to 40 runs with changes."""
        found = self._differences(results)
        while found and len(self.changed) < 40:
            self.add()
            found = self._differences(results)
        return found

    def _differences(self, results: Results) -> list[Difference]:
        found: list[Difference] = []
        for at, got in enumerate(results):
            for name, array in got.items():
                text = self._difference(np.asarray(array), at, name)
                if text:
                    found.append(Difference(at, name, text))
        return found

    def _difference(self, got: Array, at: int, name: str) -> str:
        return difference(got, self.results[at][name], [run[at][name] for run in self.changed])

    def allows(self, results: Results, other: Results, at: int, name: str) -> bool:
        """
        Return whether an output is within the bounds, except for elements near those of `other`.

        An element that is equal to the element of `other`, or nearly so, counts as correct.
        """
        got, exact = np.array(results[at][name]), self.results[at][name]
        given = np.asarray(other[at][name])
        if got.shape != given.shape or got.shape != exact.shape:
            return got.shape == given.shape and np.array_equal(got, given)
        with np.errstate(all="ignore"):
            near = np.abs(got.astype(np.float64) - given) <= 1e-6 * np.abs(given)
        alike = near | (got == given) | ((got != got) & (given != given))
        return not self._difference(np.where(alike, exact, got), at, name)


@dataclass(frozen=True)
class Difference:
    """A result that is wrong."""

    sample: int
    output: str
    text: str

    def __str__(self) -> str:
        return f"output '{self.output}' of sample {self.sample}: {self.text}"


def difference(got: Array, exact: Array, others: Sequence[Array]) -> str:
    """Describe the error of an output; empty if the output is correct."""
    if any(o.shape != exact.shape for o in others):
        return ""
    if got.shape != exact.shape:
        return f"shape {got.shape}, expected {exact.shape}"
    if exact.dtype != np.float64:
        return _integer_difference(got, exact, others)
    low, high = exact, exact
    for other in others:
        low, high = np.fmin(low, other), np.fmax(high, other)
    undecided = np.zeros(exact.shape, bool)
    for other in others:
        undecided |= np.isfinite(other) != np.isfinite(exact)
    with np.errstate(all="ignore"):
        spread_ = np.maximum(high - exact, exact - low)
        bound = GAIN * np.maximum(spread_, UNIT * np.maximum(np.abs(exact), TINY))
        wrong = ~(np.abs(got - exact) <= bound)
    alike = (np.isnan(got) & np.isnan(exact)) | (got == exact)
    wrong &= ~alike & ~undecided
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} floats differ, first at {at}: {got[at]!r}, "
        f"expected {exact[at]!r} within {bound[at]:.3g}"
    )


def _integer_difference(got: Array, exact: Array, others: Sequence[Array]) -> str:
    kind = np.int64 if exact.dtype != np.uint64 else np.uint64
    given, want = got.astype(kind), exact.astype(kind)
    low, high = want, want
    for other in others:
        low, high = np.minimum(low, other.astype(kind)), np.maximum(high, other.astype(kind))
    wrong = (given < low) | (given > high)
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} integers differ, first at {at}: "
        f"{given[at]}, expected {want[at]}"
    )
