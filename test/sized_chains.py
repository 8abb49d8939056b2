"""
Build random chains of operators with sizes that data decide, and compare the import with ONNX
Runtime.

    python test/sized_chains.py [FIRST] [LAST]

imports a chain for each seed from FIRST to LAST, by default 0 to 300, with the maxima that ONNX
Runtime reaches for random inputs, and prints the number of chains and samples that agree.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from ceras_ir.frontends.onnx import import_model
from ceras_ir.interpreters.network import run
from ceras_ir.network.lengths import UpTo, parse_shapes
from ceras_ir.support.diagnostics import UnsupportedError

Array = NDArray[Any]
Input = tuple[int, Sequence[int], tuple[float, float]]
"""The type, the shape, and the range of an input."""

# As Any, because the runtime has no type stubs.
ort: Any = import_module("onnxruntime")
DECIDES = ("Slice", "Pad", "Resize")


@dataclass
class Chain:
    """A model in construction: each method appends an operator to the last value."""

    random: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    inputs: dict[str, Input] = field(default_factory=dict[str, Input])
    last: str = "x"
    rank: int = 4
    channels: int | None = 3

    def constant(self, value: object, kind: type | None = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def input(self, kind: int, count: int, low: float, high: float) -> str:
        name = f"v{len(self.inputs)}"
        self.inputs[name] = kind, (count,), (low, high)
        return name

    def add(self, operator: str, *operands: str, **attributes: Any) -> None:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, operands, [name], name, **attributes))
        self.last = name

    def axes(self) -> list[int]:
        spatial = [2, 3] if self.rank == 4 else list(range(self.rank))
        return [a for a in spatial if self.random.random() < 0.7] or spatial[:1]

    def slice(self) -> None:
        axes = self.axes()
        steps = [int(self.random.choice([1, 1, 1, 2, -1, -2, 3])) for _ in axes]
        n = len(axes)
        bounds = [
            self.input(TensorProto.INT64, n, -9, 12)
            if self.random.random() < 0.7
            else self.constant(self.random.integers(-9, 12, n))
            for _ in range(2)
        ]
        if self.random.random() < 0.3:
            bounds[0] = self.constant([0] * n, np.int64)
        self.add("Slice", self.last, *bounds, self.constant(axes), self.constant(steps))

    def pad(self) -> None:
        axes, mode = self.axes(), str(self.random.choice(["constant", "edge", "wrap", "reflect"]))
        low = -1 if self.random.random() < 0.3 else 0
        n = 2 * len(axes)
        pads = (
            self.input(TensorProto.INT64, n, low, 4)
            if self.random.random() < 0.7
            else self.constant(self.random.integers(low, 4, n))
        )
        value = self.constant(np.float32(0.5)) if mode == "constant" else ""
        self.add("Pad", self.last, pads, value, self.constant(axes), mode=mode)

    def resize(self) -> None:
        axes = self.axes()
        mode = str(self.random.choice(["nearest", "linear"]))
        where = str(
            self.random.choice(
                ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                 "half_pixel_symmetric"]
            )
        )  # fmt: skip
        attributes: dict[str, object] = {"mode": mode, "axes": axes}
        attributes["coordinate_transformation_mode"] = where
        if mode == "nearest":
            # Rounding of float32 decides floors of symmetric coordinates, also of fixed sizes.
            rounds = where == "half_pixel_symmetric"
            modes = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
            attributes["nearest_mode"] = str(self.random.choice(modes[:2] if rounds else modes))
        is_computed = self.random.random() < 0.7
        if self.random.random() < 0.5 and where != "align_corners":
            scales = (
                self.input(TensorProto.FLOAT, len(axes), 0.2, 3)
                if is_computed
                else self.constant(self.random.uniform(0.4, 3, len(axes)).astype(np.float32))
            )
            self.add("Resize", self.last, "", scales, **attributes)
            return
        sizes = (
            self.input(TensorProto.INT64, len(axes), 1, 17)
            if is_computed
            else self.constant(self.random.integers(1, 17, len(axes)))
        )
        if self.random.random() < 0.3:
            attributes["keep_aspect_ratio_policy"] = str(
                self.random.choice(["not_larger", "not_smaller"])
            )
        self.add("Resize", self.last, "", "", sizes, **attributes)

    def elementwise(self) -> None:
        before = self.last
        match int(self.random.integers(0, 6)):
            case 0:
                self.add(str(self.random.choice(["Relu", "Sigmoid", "Tanh", "Abs"])), before)
            case 1:
                self.add("Mul", before, self.constant(np.float32(self.random.uniform(0.5, 2))))
            case 2:
                self.add("Relu", before)
                self.add("Sub", before, self.last)
            case 3:
                limits = (self.constant(np.float32(v)) for v in (-0.7, 0.8))
                self.add("Clip", before, *limits)
            case 4:
                self.add("Greater", before, self.constant(np.float32(0.1)))
                self.add("Where", self.last, before, self.constant(np.float32(-1)))
            case _:
                self.add("ReduceMax", before, self.constant([self.rank - 1]), keepdims=1)
                self.add("Add", before, self.last)

    def move(self) -> None:
        match int(self.random.integers(0, 4)):
            case 0:
                order = [0, 1, 3, 2] if self.rank == 4 else [*range(self.rank)][::-1]
                self.add("Transpose", self.last, perm=order)
            case 1:
                before = self.last
                self.add("Relu", before)
                axis = self.rank - 1 - int(self.random.integers(0, 2))
                self.add("Concat", before, self.last, axis=axis)
            case 2:
                axis = int(self.random.integers(-1, 2)) % self.rank
                self.add("Unsqueeze", self.last, self.constant([axis]))
                self.add("Squeeze", self.last, self.constant([axis]))
            case _:
                before = self.last
                self.add("Shape", before, start=-1)
                self.add("Sub", self.last, self.constant([1]))
                self.add(
                    "Slice", before, self.constant([0]), self.last, self.constant([self.rank - 1])
                )

    def window(self) -> None:
        if self.rank != 4 or self.channels is None:
            return
        kernel = [int(k) for k in self.random.integers(1, 4, 2)]
        strides = [int(s) for s in self.random.integers(1, 3, 2)]
        pads = [int(self.random.integers(0, k)) for k in (*kernel, *kernel)]
        match int(self.random.integers(0, 3)):
            case 0:
                dilations = [int(d) for d in self.random.integers(1, 3, 2)]
                weights = self.random.normal(0, 0.4, (4, self.channels, *kernel))
                self.add(
                    "Conv", self.last, self.constant(weights.astype(np.float32)),
                    strides=strides, pads=pads, dilations=dilations,
                )  # fmt: skip
                self.channels = 4
            case 1:
                self.add("MaxPool", self.last, kernel_shape=kernel, strides=strides, pads=pads)
            case _:
                self.add(
                    "AveragePool", self.last, kernel_shape=kernel, strides=strides, pads=pads,
                    count_include_pad=1,
                )  # fmt: skip

    def reduce(self) -> None:
        kinds = ["ReduceMean", "ReduceMax", "ReduceSum", "ReduceMin", "ReduceL2", "ReduceLogSumExp"]
        match int(self.random.integers(0, 4)):
            case 0:
                self.add("Softmax", self.last, axis=-int(self.random.integers(1, 3)))
            case 1:
                axes = [self.rank - 1, *([self.rank - 2] * int(self.random.integers(0, 2)))]
                keep = int(self.random.integers(0, 2))
                self.add(
                    str(self.random.choice(kinds)), self.last, self.constant(axes), keepdims=keep
                )
                self.rank -= 0 if keep else len(axes)
            case 2:
                self.add("Gather", self.last, self.constant([-1, 0]), axis=self.rank - 1)
            case _:
                self.add("LogSoftmax", self.last, axis=-1)


def chain_of(seed: int) -> tuple[onnx.ModelProto, Chain]:
    """Return a random model with an output, and the inputs that decide sizes."""
    random = np.random.default_rng(seed)
    chain = Chain(random)
    if random.random() < 0.3:
        chain.rank, chain.channels = 2, None
    shape = (1, 3, 9, 7) if chain.rank == 4 else (9, 7)
    getattr(chain, str(random.choice(["slice", "pad", "resize"])))()
    kinds = ["slice", "pad", "resize", "elementwise", "elementwise", "move", "window", "reduce"]
    for _ in range(int(random.integers(1, 5))):
        if chain.rank >= 2:
            getattr(chain, str(random.choice(kinds)))()
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    values += [helper.make_tensor_value_info(n, k, s) for n, (k, s, _) in chain.inputs.items()]
    output = helper.make_tensor_value_info(chain.last, TensorProto.FLOAT, None)
    graph = helper.make_graph(chain.nodes, "chain", values, [output], chain.constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return proto, chain


def samples_of(chain: Chain, count: int) -> list[dict[str, Array]]:
    shape = (1, 3, 9, 7) if chain.channels is not None else (9, 7)
    found: list[dict[str, Array]] = []
    for _ in range(count):
        sample: dict[str, Array] = {"x": chain.random.normal(0, 1, shape).astype(np.float32)}
        for name, (kind, extents, (low, high)) in chain.inputs.items():
            if kind == TensorProto.INT64:
                sample[name] = chain.random.integers(int(low), int(high), extents)
            else:
                sample[name] = chain.random.uniform(low, high, extents).astype(np.float32)
        found.append(sample)
    return found


class Runtime:
    """ONNX Runtime without optimizations, with the results of all nodes that decide sizes."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.resized = [
            (n.input[0], n.output[0]) for n in proto.graph.node if n.op_type == "Resize"
        ]
        self.output = proto.graph.output[0].name
        self.names = [n.output[0] for n in proto.graph.node if n.op_type in DECIDES]
        self.names += [name for name, _ in self.resized if name != "x"]
        extended = onnx.ModelProto()
        extended.CopyFrom(proto)
        inner = [onnx.ValueInfoProto(name=n) for n in dict.fromkeys(self.names) if n != self.output]
        extended.graph.output.extend(inner)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        self.session = ort.InferenceSession(
            extended.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, sample: Mapping[str, Array]) -> dict[str, Array] | None:
        """
        Return the results by name, or `None` if ONNX Runtime refuses the sample, or copies the
        operand of a Resize: it does so if the size is unchanged, even if the scale is not 1.
        """
        names = list(dict.fromkeys([self.output, *self.names]))
        try:
            results = dict(zip(names, self.session.run(names, sample), strict=True))
        except Exception:  # ONNX Runtime raises exceptions of its own.
            return None
        known = {**sample, **results}
        copies = any(known[a].shape == known[b].shape for a, b in self.resized)
        return None if copies else results


def proposed(proto: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """Return the maxima that the refusal of a model proposes; empty if it is not refused."""
    try:
        import_model(proto)
    except UnsupportedError as error:
        found = re.findall(r"--shape (\w+)=([\dx.]+)", str(error))
        if not found:
            raise
        return {name: parse_shapes(shape)[0] for name, shape in found}
    return {}


def check(seed: int, count: int = 6) -> int | None:
    """
    Compare a chain with ONNX Runtime on random samples. Return the number of compared samples, or
    `None` if ONNX Runtime computes none or the import refuses the chain.
    """
    proto, chain = chain_of(seed)
    try:
        runtime = Runtime(proto)
    except Exception:  # ONNX Runtime raises exceptions of its own.
        return None
    pairs = [(s, r) for s in samples_of(chain, count) if (r := runtime.run(s)) is not None]
    # ONNX does not define reductions of no elements.
    pairs = [(s, r) for s, r in pairs if np.isfinite(r[runtime.output]).all()]
    if not pairs:
        return None
    try:
        shapes = proposed(proto)
        for name, shape in shapes.items():
            seen = [result[name].shape for _, result in pairs]
            shapes[name] = tuple(
                UpTo(max(*extents, 1) + int(chain.random.integers(0, 3)))
                if isinstance(n, UpTo)
                else n
                for n, *extents in zip(shape, *seen, strict=True)
            )
        module = import_model(proto, shapes=shapes)
    except UnsupportedError as error:
        print(f"seed {seed}: {str(error)[:150]}")
        return None
    for sample, expected in pairs:
        results = run(module, sample)
        compare(f"seed {seed}", results, runtime.output, expected[runtime.output])
    return len(pairs)


def compare(title: str, results: Mapping[str, Array], name: str, expected: Array) -> None:
    """Compare an output, and its extents, with the output of ONNX Runtime."""
    actual = results[name]
    if (shape := results.get(f"{name}_shape")) is not None:
        assert tuple(shape) == expected.shape, f"{title}: {shape}, expected {expected.shape}"
        inside = tuple(slice(0, n) for n in expected.shape)
        rest = actual.copy()
        rest[inside] = 0
        assert not rest.any(), f"{title}: elements outside of the extents"
        actual = actual[inside]
    assert actual.shape == expected.shape, f"{title}: {actual.shape}, expected {expected.shape}"
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4, err_msg=title)


def main() -> None:
    first, last = (int(n) for n in (*sys.argv[1:], *("0", "300")[len(sys.argv) - 1 :]))
    chains = samples = 0
    for seed in range(first, last):
        try:
            found = check(seed)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__} {str(error)[:600]}")
            continue
        if found is not None:
            chains, samples = chains + 1, samples + found
    print(f"{chains} chains agree on {samples} samples")


if __name__ == "__main__":
    main()
