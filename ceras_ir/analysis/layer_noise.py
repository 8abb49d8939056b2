"""
Where a quantized network loses precision: its layers beside the same layers in float.

Both networks carry `graph.layer = N` on their operations. Errors are measured twice: of what
really arrives (accumulated), and of one operation alone, fed with the float network's values
rounded to its operands' types (isolated). Nothing of a sample is kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.interpreter import Interpreter
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.analysis.network import input_names, main_function
from ceras_ir.analysis.quantizable import is_alias
from ceras_ir.analysis.ranges import LAYER, interval
from ceras_ir.diagnostics import node_name
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.interpreters.integer import dequantize, quantize
from ceras_ir.interpreters.network import network_functions, run

Array: TypeAlias = NDArray[np.generic]

BINS = 48
"""Bars of a histogram."""


def decibels(signal: float, noise: float) -> float:
    """Power of a signal over that of its error; infinite where there is none."""
    return float("inf") if noise == 0 else 10 * float(np.log10(max(signal, 1e-300) / noise))


@dataclass
class LayerNoise:
    """What was seen of one layer; sums over all samples."""

    name: str
    operator: str
    channels: int
    scale: float | None
    """Step of the quantized result; None where it stays float."""
    low: float = np.inf
    high: float = -np.inf
    signal: float = 0.0
    accumulated: float = 0.0
    isolated: float = 0.0
    clipped: int = 0
    elements: int = 0
    edges: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    magnitudes: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    """Largest magnitude of each channel."""

    @property
    def accumulated_ratio(self) -> float:
        return decibels(self.signal, self.accumulated)

    @property
    def isolated_ratio(self) -> float:
        return decibels(self.signal, self.isolated)

    @property
    def clipped_share(self) -> float:
        return self.clipped / max(self.elements, 1)

    @property
    def imbalance(self) -> float:
        """Octaves between the largest and the median channel that is ever non-zero."""
        used = self.magnitudes[self.magnitudes > 0]
        return float(np.log2(used.max() / np.median(used))) if used.size else 0.0

    def see(self, real: NDArray[np.float32], bounds: tuple[float, float] | None) -> None:
        """Take the float values of one sample into account."""
        self.low, self.high = min(self.low, float(real.min())), max(self.high, float(real.max()))
        if not self.edges.size:
            low, high = bounds or (self.low, self.high)
            self.edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
        self.histogram += np.histogram(real, self.edges)[0]
        peaks = np.abs(real).reshape(-1, real.shape[-1] if real.ndim else 1).max(axis=0)
        self.magnitudes = np.maximum(self.magnitudes, peaks) if self.magnitudes.size else peaks
        self.signal += _power(real)
        self.elements += real.size
        if self.scale is not None:
            # What rounds to a number that int8 holds is not clipped.
            stored = real / np.float32(self.scale)
            self.clipped += int(((stored >= 127.5) | (stored < -128.5)).sum())


def _power(array: Array) -> float:
    flat = array.reshape(-1).astype(np.float64)
    return float(np.dot(flat, flat))


def label_layers(module: ModuleOp) -> None:
    """Number the operations whose values are compared, so that both networks name them alike."""
    for number, op in enumerate(main_function(module).body.block.ops):
        if isinstance(op, GraphOperation) and not isinstance(op, graph.ConstantOp):
            op.attributes[LAYER] = IntegerAttr(number, i64)


def layer_of(op: Operation) -> int | None:
    """The number of a labelled operation."""
    label = op.attributes.get(LAYER)
    return label.value.data if isinstance(label, IntegerAttr) else None


class NoiseMeter:
    """Measures a quantized network against the float one that it was made from."""

    def __init__(self, reference: ModuleOp, quantized: ModuleOp):
        self.reference, self.quantized = reference, quantized
        self.names = input_names(main_function(quantized))
        self.layers: dict[int, LayerNoise] = {}
        self.ranges: dict[int, tuple[float, float] | None] = {}
        for op in main_function(reference).body.block.ops:
            if (number := layer_of(op)) is not None:
                self.ranges[number] = interval(op.results[0])
        for op in main_function(quantized).body.block.ops:
            number = layer_of(op)
            if number is None or number not in self.ranges or is_alias(op):
                continue
            element = graph.quantized_element(op.results[0])
            self.layers[number] = LayerNoise(
                node_name(op),
                _operator(op),
                (graph.shape_of(op.results[0]) or (1,))[-1],
                None if element is None else element.scale,
            )
        self.interpreter = Interpreter(quantized)
        for functions in network_functions():
            self.interpreter.register_implementations(functions)

    def measure(
        self, samples: Iterable[Mapping[str, Array]]
    ) -> Iterable[tuple[dict[str, Array], dict[str, Array]]]:
        """Run both networks on every sample; yields float and quantized outputs."""
        for sample in samples:
            floats: dict[int, Array] = {}

            def look(
                op: Operation, results: tuple[Array, ...], floats: dict[int, Array] = floats
            ) -> None:
                if (number := layer_of(op)) is not None:
                    floats[number] = results[0]

            expected = run(self.reference, sample, look)
            for number, layer in self.layers.items():
                layer.see(floats[number].astype(np.float32, copy=False), self.ranges[number])

            def compare(
                op: Operation,
                results: tuple[Array, ...],
                floats: dict[int, Array] = floats,
                sample: Mapping[str, Array] = sample,
            ) -> None:
                number = layer_of(op)
                if number is None or number not in self.layers:
                    return
                layer = self.layers[number]
                real = floats[number].astype(np.float32, copy=False)
                layer.accumulated += _power(_real(op.results[0], results[0]) - real)
                layer.isolated += _power(self._alone(op, floats, sample) - real)

            yield expected, run(self.quantized, sample, compare)

    def _alone(
        self, op: Operation, floats: Mapping[int, Array], sample: Mapping[str, Array]
    ) -> NDArray[np.float32]:
        """The result of one operation on the float network's values."""
        operands = tuple(self._operand(v, floats, sample) for v in op.operands)
        return _real(op.results[0], self.interpreter.run_op(op, operands)[0])

    def _operand(
        self, value: SSAValue, floats: Mapping[int, Array], sample: Mapping[str, Array]
    ) -> Array:
        source = value
        while isinstance(
            source.owner, graph.RequantizeOp | graph.QuantizeOp | graph.DequantizeOp
        ) and (layer_of(source.owner) is None):
            source = source.owner.operands[0]
        if isinstance(source, BlockArgument):
            real = np.asarray(sample[self.names[source.index]])
        elif isinstance(source.owner, graph.ConstantOp):
            return source.owner.array()
        else:
            assert isinstance(source.owner, Operation)
            number = layer_of(source.owner)
            assert number is not None, source.owner
            real = floats[number]
        element = graph.quantized_element(value)
        return real if element is None else quantize(real.astype(np.float32), element)


def _operator(op: Operation) -> str:
    """The operation's name, with its function where it has one."""
    function = op.properties.get("function") or op.attributes.get("graph.function")
    name = op.name.removeprefix("graph.")
    match op:
        case graph.LookupOp() if isinstance(function, graph.FunctionAttr):
            return function.kind.value
        case graph.Conv2dOp() if op.group_count > 1:
            return "conv2d (grouped)"
        case graph.BinaryOp() | graph.Pool2dOp():
            return f"{op.function.value} {name}"
        case _:
            return name


def _real(value: SSAValue, array: Array) -> NDArray[np.float32]:
    """What an array stands for."""
    element = graph.quantized_element(value)
    if element is None:
        return array.astype(np.float32, copy=False)
    return dequantize(array, element)
