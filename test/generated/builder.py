"""
Build a random model at one operator set, with the spelling of that operator set.

`Builder` tracks the shape and the element type of each value, so that a family of networks can
choose operators that fit. Methods such as `clip` or `squeeze` write attributes or operands, as the
operator set requires. The classes do not depend on the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[Any]
"""An array of the element type that the model declares."""

DType = npt.DTypeLike | None
Result = tuple[Sequence[int] | None, DType]
"""Shape and type of the result of a node; None for the broadcast shape and the first type."""

Attributes = dict[str, Any]
"""Attributes that a node may lack."""

Attribute = int | float | str | Sequence[int] | Sequence[float] | Sequence[str]
Sampler = Callable[[np.random.Generator, tuple[int, ...], int], Array]
"""A function from a generator, a shape and the index of the sample to the values of an input."""

Choice = TypeVar("Choice")

FLOAT = np.dtype(np.float32)
INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)


class Unfit(Exception):
    """The error that an operator set has no spelling for the request of a family."""


@dataclass(frozen=True)
class Value:
    """A tensor of the network."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class Case:
    """A model, the samples that it runs on in order, and samples for calibration."""

    model: onnx.ModelProto
    samples: Sequence[Mapping[str, Array]]
    calibration: Sequence[Mapping[str, Array]]
    states: Mapping[str, str] = field(default_factory=dict[str, str])
    """Inputs that are outputs of the previous sample; they are zero for the first sample."""
    comes_quantized: bool = False


class Builder:
    """The network so far."""

    def __init__(self, random: np.random.Generator, opset: int):
        self.random, self.opset = random, opset
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []
        self.inputs: list[tuple[Value, Sampler]] = []
        self.outputs: list[Value] = []
        self.states: dict[str, str] = {}
        self.domains: dict[str, int] = {}
        self.functions: list[onnx.FunctionProto] = []
        self._names = 0

    # Choices.

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def pick(self, *choices: Choice) -> Choice:
        return choices[int(self.random.integers(len(choices)))]

    def size(self, low: int, high: int) -> int:
        """Draw an integer from `low` to `high`, both included."""
        return int(self.random.integers(low, high + 1))

    def since(self, version: int) -> None:
        """Raise Unfit if the operator set is older than `version`."""
        if self.opset < version:
            raise Unfit(f"needs operator set {version}, got {self.opset}")

    # Values.

    def name(self, prefix: str = "v") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def input(
        self, shape: Sequence[int], sampler: Sampler, dtype: npt.DTypeLike = FLOAT, name: str = ""
    ) -> Value:
        value = Value(name or self.name("x"), tuple(shape), np.dtype(dtype))
        self.inputs.append((value, sampler))
        return value

    def constant(self, array: npt.ArrayLike, dtype: npt.DTypeLike = FLOAT) -> Value:
        """Add an initializer or a node Constant."""
        values = np.asarray(array, dtype)
        name = self.name("k")
        tensor = numpy_helper.from_array(values, name)
        # Before operator set 9, a node Constant is float.
        if self.chance(0.25) and (self.opset >= 9 or values.dtype == FLOAT):
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.tensors.append(tensor)
        return Value(name, values.shape, values.dtype)

    def integers(self, *values: int) -> Value:
        """Add a vector of int64."""
        return self.constant(np.array(values, np.int64), np.int64)

    def weights(self, *shape: int, gain: float = 1.0) -> Value:
        """Add normal values; sums over all dimensions but the last keep the variance."""
        count = max(1, prod(shape[:-1]) if len(shape) > 1 else 1)
        values = self.random.normal(0, gain / np.sqrt(count), shape)
        return self.constant(values)

    def emit(
        self,
        op: str,
        *operands: Value | None,
        shape: Sequence[int] | None = None,
        dtype: DType = None,
        domain: str = "",
        **attributes: Attribute | onnx.GraphProto | onnx.TensorProto,
    ) -> Value:
        """Append a node with a single result; default: the broadcast shape and the first type."""
        return self.emit_all(op, operands, [(shape, dtype)], domain=domain, **attributes)[0]

    def emit_all(
        self,
        op: str,
        operands: Sequence[Value | None],
        results: Sequence[Result],
        *,
        domain: str = "",
        **attributes: Attribute | onnx.GraphProto | onnx.TensorProto,
    ) -> list[Value]:
        """Append a node with several results."""
        given = [v for v in operands if v is not None]
        made = [
            Value(
                self.name(),
                np.broadcast_shapes(*(v.shape for v in given)) if shape is None else tuple(shape),
                given[0].dtype if dtype is None else np.dtype(dtype),
            )
            for shape, dtype in results
        ]
        names = ["" if v is None else v.name for v in operands]
        node = helper.make_node(op, names, [v.name for v in made], made[0].name, domain=domain)
        # make_node sorts attributes, and converts those that have no matching type in ONNX.
        node.attribute.extend(helper.make_attribute(k, v) for k, v in sorted(attributes.items()))
        self.nodes.append(node)
        if domain:
            self.domains.setdefault(domain, 1)
        return made

    # Subgraphs.

    def body(
        self, inputs: Sequence[Value], build: Callable[[], Sequence[Value]]
    ) -> tuple[onnx.GraphProto, list[Value]]:
        """Build a graph of the nodes that `build` appends; they may use values from outside."""
        kept, self.nodes = self.nodes, []
        tensors, self.tensors = self.tensors, []
        results = list(build())
        # Each result of a body needs a producer in the body.
        results = [self.emit("Identity", value, shape=value.shape) for value in results]
        graph = helper.make_graph(
            self.nodes, self.name("body"), [*map(info, inputs)], [*map(info, results)], self.tensors
        )
        self.nodes, self.tensors = kept, tensors
        return graph, results

    def argument(self, shape: Sequence[int], dtype: npt.DTypeLike = FLOAT) -> Value:
        """Name an input of a body."""
        return Value(self.name("a"), tuple(shape), np.dtype(dtype))

    # Outputs and the finished case.

    def output(self, value: Value, name: str = "") -> Value:
        result = Value(name or self.name("y"), value.shape, value.dtype)
        self.nodes.append(helper.make_node("Identity", [value.name], [result.name], result.name))
        self.outputs.append(result)
        return result

    def case(self, *, samples: int = 3, comes_quantized: bool = False) -> Case:
        """Build and check the model, and draw the samples."""
        graph = helper.make_graph(
            self.nodes,
            "generated",
            [info(value) for value, _ in self.inputs],
            [info(value) for value in self.outputs],
            self.tensors,
        )
        opsets = [helper.make_opsetid(k, v) for k, v in {"": self.opset, **self.domains}.items()]
        model = helper.make_model(graph, opset_imports=opsets, functions=self.functions)
        known = [o for o in opsets if o.domain in ("", "ai.onnx.ml")]
        model.ir_version = max(8, helper.find_min_ir_version_for(known))
        onnx.checker.check_model(model, full_check=True)  # pyright: ignore[reportUnknownMemberType]
        kept = {v.name for v, _ in self.inputs} - set(self.states)

        def draw(index: int) -> dict[str, Array]:
            drawn = {v: sample(self.random, v.shape, index) for v, sample in self.inputs}
            return {v.name: np.asarray(a, v.dtype) for v, a in drawn.items() if v.name in kept}

        return Case(
            model,
            [draw(index) for index in range(samples)],
            [draw(0) for _ in range(16)],
            dict(self.states),
            comes_quantized,
        )


def info(value: Value) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(value.name, kind, value.shape)


# Inputs.

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 1e-3, 1e-7, 1e-12, -1e-12, 1e-38)
FAR = (2.0**-149, -(2.0**-149), 1e-42, 1e30, -1e30, 3e38, -3e38, 1e10, -1e5, 100.0, -100.0)


def normal(random: np.random.Generator, shape: tuple[int, ...], index: int) -> Array:
    """Draw normal values, then also zeros and ties, then also special values."""
    values = random.normal(size=shape)
    if index == 1:
        values = np.where(random.random(shape) < 0.3, np.round(values * 2) / 2, values)
    if index >= 2:
        values = np.where(random.random(shape) < 0.4, random.choice(SPECIAL, shape), values)
    return values


def extreme(random: np.random.Generator, shape: tuple[int, ...], index: int) -> Array:
    """Draw normal values; then magnitudes of all binades; then special and extreme values."""
    if index == 0:
        return random.normal(size=shape)
    values = random.normal(size=shape) * 2.0 ** random.integers(-140, 120, shape)
    special = random.choice(SPECIAL + FAR, shape)
    return values if index == 1 else np.where(random.random(shape) < 0.7, special, values)


def bits(random: np.random.Generator, shape: tuple[int, ...], index: int) -> Array:
    return random.random(shape) < (0.5, 0.1, 1.0)[min(index, 2)]


def below(limit: int, low: int = 0) -> Sampler:
    """Draw integers from `low` to below `limit`, with frequent bounds."""

    def sample(random: np.random.Generator, shape: tuple[int, ...], index: int) -> Array:
        values = random.integers(low, limit, shape)
        ends = random.choice([low, limit - 1, min(max(low, 0), limit - 1)], shape)
        return np.where(random.random(shape) < 0.2 * index, ends, values)

    return sample


def whole_range(dtype: npt.DTypeLike) -> Sampler:
    """Draw small integers, then all integers of a type with frequent extremes."""
    limits = np.iinfo(np.dtype(dtype).name)

    def sample(random: np.random.Generator, shape: tuple[int, ...], index: int) -> Array:
        low = max(limits.min, -9)
        if index == 0:
            return random.integers(low, 10, shape).astype(dtype)
        kind: Any = np.uint64 if limits.max > 2**63 else np.int64
        values = random.integers(limits.min, limits.max, shape, kind, endpoint=True)
        ends = random.choice(np.array([limits.min, limits.max, 0, 1, limits.max - 1], kind), shape)
        return np.where(random.random(shape) < 0.4, ends, values).astype(dtype)

    return sample


def elem_type(dtype: npt.DTypeLike) -> int:
    """Return the number of an element type in ONNX."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


UNDEFINED = TensorProto.UNDEFINED
