"""
Where a quantized network loses precision: its layers beside the same layers in float.

Both networks carry `graph.layer = N` on their operations. Errors are measured of what really
arrives (accumulated); of one operation alone, fed with the float network's values rounded to its
operands' types (isolated); and what of the latter gets to the outputs when all that follows is
float (reaching). Where one function alone reads a value, what lies beyond its flat ends is cut
off before: no one sees it. Nothing of a sample is kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import UniformType
from ceras_ir.interpreters.network import Sequence, with_states
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import (
    input_names,
    is_alias,
    is_quantized,
    main_function,
    result_values,
)
from ceras_ir.network.integer import dequantize, quantize
from ceras_ir.network.storage import EQUALIZED, LAYER, interval
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.terminal import progress
from ceras_ir.transforms.quantization.analysis.function_forms import trimmed
from ceras_ir.transforms.quantization.analysis.output_noise import Moments, channel_ratios, decibels
from ceras_ir.transforms.quantization.analysis.sensitivity import SensitivityMeter, noise_at_ends

Array: TypeAlias = NDArray[np.generic]

BINS = 48
"""Bars of a histogram."""


@dataclass
class LayerNoise:
    """What was seen of one layer; sums over all samples."""

    name: str
    operator: str
    channels: int
    element: UniformType | None
    """Type of the quantized result's numbers; None where it stays float."""
    reference_scale: float | None = None
    """Step of the other network's result; None where that is float."""
    low: float = np.inf
    high: float = -np.inf
    moments: Moments = field(default_factory=Moments)
    """Of each channel, over samples and positions."""
    accumulated: float = 0.0
    isolated: float = 0.0
    reaching: float = 0.0
    """Of the isolated error, power at the outputs over that of the signal there; a mean."""
    share: float | None = None
    """Of what reaches the outputs from all layers, if that was measured."""
    clipped: int = 0
    elements: int = 0
    edges: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))
    magnitudes: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    """Largest magnitude of each channel."""

    @property
    def scale(self) -> float | None:
        """Step of the quantized result; None where it stays float."""
        return None if self.element is None else self.element.scale

    @property
    def bits(self) -> int:
        """Of the quantized result; 8 where it stays float."""
        return 8 if self.element is None else self.element.storage.width.data

    @property
    def held(self) -> tuple[float, float] | None:
        """The least and the greatest number that the quantized result can be."""
        if (e := self.element) is None:
            return None
        return (e.low - e.zero_point) * e.scale, (e.high - e.zero_point) * e.scale

    @property
    def signal(self) -> float:
        """Return the power of the reference without the mean of each channel."""
        return float(self.moments.variance.sum()) * self.moments.count

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

    def see(
        self,
        real: NDArray[np.float32],
        bounds: tuple[float, float] | None,
        factors: NDArray[np.float32] | np.float32,
    ) -> None:
        """Take the reference's values of one sample into account, `factors` of what is stored."""
        self.low, self.high = min(self.low, float(real.min())), max(self.high, float(real.max()))
        if not self.edges.size:
            low, high = bounds or (self.low, self.high)
            self.edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
        self.histogram += np.histogram(real, self.edges)[0]
        peaks = np.abs(real).reshape(-1, real.shape[-1] if real.ndim else 1).max(axis=0)
        self.magnitudes = np.maximum(self.magnitudes, peaks) if self.magnitudes.size else peaks
        self.moments.add(real.reshape(-1, real.shape[-1] if real.ndim else 1))
        self.elements += real.size
        if self.element is not None:
            # What rounds to a number that the storage holds is not clipped.
            stored = real / (np.float32(self.element.scale) * factors) + self.element.zero_point
            beyond = (stored >= self.element.high + 0.5) | (stored < self.element.low - 0.5)
            self.clipped += int(beyond.sum())


def _finite(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """`array` with 0 for infinities, as masks of scores have them."""
    return np.where(np.isinf(array), np.float32(0), array)


def _error(actual: NDArray[np.float32], real: NDArray[np.float32]) -> NDArray[np.float32]:
    """By how much `actual` differs; equal infinities do not."""
    with np.errstate(invalid="ignore"):
        return np.where(actual == real, np.float32(0), actual - real)


def _power(array: Array) -> float:
    flat = array.reshape(-1).astype(np.float64)
    return float(np.dot(flat, flat))


def _may_be_equalized(module: ModuleOp) -> bool:
    """Whether channels may have factors; in ONNX and in older text integers do not say so."""
    main = main_function(module)
    return EQUALIZED in main.attributes or is_quantized(main)


def label_layers(module: ModuleOp) -> None:
    """Number the operations whose values are compared, so that both networks name them alike."""
    for number, op in enumerate(main_function(module).body.block.ops):
        if isinstance(op, graph.GraphOperation) and not isinstance(op, graph.ConstantOp):
            op.attributes[LAYER] = IntegerAttr(number, i64)


def layer_of(op: Operation) -> int | None:
    """The number of a labelled operation."""
    label = op.attributes.get(LAYER)
    return label.value.data if isinstance(label, IntegerAttr) else None


class NoiseMeter:
    """
    Measures a quantized network against the float one that it was made from, or one variant
    against another, `aligned` by names. Channels of variants may stand for powers of two of the
    other's where `equalize-channels` has made them so, which integers do not tell: which ones, the
    first sample says.
    """

    def __init__(self, reference: ModuleOp, quantized: ModuleOp, *, aligned: bool = False):
        self.reference, self.quantized = reference, quantized
        self.aligned = aligned
        self.scaled = aligned and (_may_be_equalized(reference) or _may_be_equalized(quantized))
        self.factors: dict[int, NDArray[np.float32]] = {}
        self.values: dict[int, SSAValue] = {}
        self.returned = set(result_values(main_function(reference)))
        """What the outputs are, whose channels have no factors."""
        self.names = input_names(main_function(quantized))
        self.layers: dict[int, LayerNoise] = {}
        self.ranges: dict[int, tuple[float, float] | None] = {}
        steps: dict[int, float | None] = {}
        for op in main_function(reference).body.block.ops:
            if (number := layer_of(op)) is not None:
                self.ranges[number] = interval(op.results[0])
                self.values[number] = op.results[0]
                element = graph.quantized_element(op.results[0])
                steps[number] = None if element is None else element.scale
        for op in main_function(quantized).body.block.ops:
            number = layer_of(op)
            if number is None or number not in self.ranges or is_alias(op):
                continue
            element = graph.quantized_element(op.results[0])
            self.layers[number] = LayerNoise(
                node_name(op),
                _operator(op),
                (graph.shape_of(op.results[0]) or (1,))[-1],
                element,
                steps[number],
            )
        self.interpreter = interpreter_of(quantized)

    def measure(
        self, samples: Iterable[Mapping[str, Array]]
    ) -> Iterable[tuple[dict[str, Array], dict[str, Array]]]:
        """
        Run both networks on every sample; yields float and quantized outputs. With states samples
        are steps, in which either network goes on from what it has kept itself.
        """
        references, stored = Sequence(self.reference), Sequence(self.quantized)
        for step in samples:
            floats: dict[int, Array] = {}
            sample = {**step, **references.states}

            def look(
                op: Operation, results: tuple[Array, ...], floats: dict[int, Array] = floats
            ) -> None:
                if (number := layer_of(op)) is not None:
                    floats[number] = _unquantized(op.results[0], results[0])

            expected = references.step(sample, look)

            def compare(
                op: Operation,
                results: tuple[Array, ...],
                floats: dict[int, Array] = floats,
                sample: Mapping[str, Array] = sample,
            ) -> None:
                number = layer_of(op)
                if number is None or number not in self.ranges:
                    return
                real = floats[number].astype(np.float32, copy=False)
                actual = _real(op.results[0], results[0])
                # Indices and truth values have no scale.
                if (
                    self.scaled
                    and number not in self.factors
                    and floats[number].dtype.kind == "f"
                    and self.values[number] not in self.returned
                ):
                    self.factors[number] = self._factors(op, real, actual)
                if number not in self.layers:
                    return
                layer, factors = self.layers[number], self.factors.get(number, np.float32(1))
                # What lies where the next function is flat does not matter to anybody.
                value, alone = self.values[number], self._alone(op, floats, sample)
                real = trimmed(value, real)
                layer.accumulated += _power(_error(trimmed(value, actual * factors), real))
                layer.isolated += _power(_error(trimmed(value, alone * factors), real))

            actual = stored.step(step, compare)
            for number, layer in self.layers.items():
                real = trimmed(self.values[number], floats[number].astype(np.float32, copy=False))
                layer.see(
                    _finite(real), self.ranges[number], self.factors.get(number, np.float32(1))
                )
            yield expected, actual

    def measure_reach(self, steps: Iterable[Mapping[str, Array]]) -> None:
        """See what of the error of every layer alone gets to the outputs of the float network."""
        samples = list(with_states(self.reference, steps))
        meter = SensitivityMeter(self.reference, samples)
        quantized = {
            self.values[number]: (op, self.layers[number])
            for op in main_function(self.quantized).body.block.ops
            if (number := layer_of(op)) is not None and number in self.layers
        }
        for sample in progress(samples, "what reaches the outputs"):
            for value, known, weights in meter.weigh(sample):
                if value not in quantized:
                    continue
                op, layer = quantized[value]
                floats = {number: known[v] for number, v in self.values.items() if v in known}
                error = _error(self._alone(op, floats, sample), known[value].astype(np.float32))
                layer.reaching += noise_at_ends(weights, error) / len(samples)
        total = sum(layer.reaching for layer in self.layers.values())
        for layer in self.layers.values():
            layer.share = layer.reaching / total if total > 0 else 0.0

    def _factors(
        self, op: Operation, real: NDArray[np.float32], actual: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """What each channel of `actual` is to be multiplied by, a power of two."""
        if isinstance(op, graph.ReshapeOp | graph.TransposeOp):
            number = layer_of(op.input.owner) if isinstance(op.input.owner, Operation) else None
            if number in self.factors:
                moved = np.broadcast_to(self.factors[number], graph.shape_of(op.input))
                if isinstance(op, graph.ReshapeOp):
                    return moved.reshape(graph.shape_of(op.result))
                return moved.transpose(op.permutation.get_values())
        return channel_ratios(real, actual).astype(np.float32)

    def _alone(
        self, op: Operation, floats: Mapping[int, Array], sample: Mapping[str, Array]
    ) -> NDArray[np.float32]:
        """The result of one operation on the float network's values."""
        between: dict[SSAValue, Array] = {}
        operands = tuple(self._operand(v, floats, sample, between) for v in op.operands)
        return _real(op.results[0], self.interpreter.run_op(op, operands)[0])

    def _operand(
        self,
        value: SSAValue,
        floats: Mapping[int, Array],
        sample: Mapping[str, Array],
        between: dict[SSAValue, Array],
    ) -> Array:
        """What `value` is on the float network's values; `between` keeps those of no layer."""
        source = value
        while isinstance(source.owner, Operation) and _only_rounds(source.owner):
            source = source.owner.operands[0]
        if isinstance(source, BlockArgument):
            real = np.asarray(sample[self.names[source.index]])
            stored = graph.quantized_element(source)
            # States of a float sample are floats, whatever they are stored as.
            if stored is not None and real.dtype.kind != "f":
                real = dequantize(real, stored)
        elif isinstance(source.owner, graph.ConstantOp):
            return source.owner.array()
        else:
            assert isinstance(source.owner, Operation)
            if (number := layer_of(source.owner)) is None:
                # In between, as a function of 16 bits is, which is computed on floats.
                if source not in between:
                    operands = [
                        self._operand(v, floats, sample, between) for v in source.owner.operands
                    ]
                    between |= zip(
                        source.owner.results,
                        self.interpreter.run_op(source.owner, tuple(operands)),
                        strict=True,
                    )
                made = between[source]
                if value is source:
                    return made
                real = _unquantized(source, made)
            else:
                real = floats[number]
                if number in self.factors:
                    real = real.astype(np.float32, copy=False) / self.factors[number]
        element = graph.quantized_element(value)
        return real if element is None else quantize(real.astype(np.float32), element)


def _only_rounds(op: Operation) -> bool:
    """Whether `op` is no layer and gives the number it takes, as well as it can be stored."""
    if layer_of(op) is not None:
        return False
    if isinstance(op, graph.RequantizeOp):
        stored = graph.quantized_element(op.result)
        # Bounds inside of those of the storage are a function, such as ReLU.
        return stored is not None and (op.requant.low.data, op.requant.high.data) == (
            stored.low,
            stored.high,
        )
    return isinstance(op, graph.QuantizeOp | graph.DequantizeOp)


def _operator(op: Operation) -> str:
    """The operation's name, with its function where it has one."""
    function = op.properties.get("function") or op.attributes.get("graph.function")
    name = op.name.removeprefix("graph.")
    match op:
        case graph.LookupOp() | graph.UnaryOp() if isinstance(function, graph.FunctionAttr):
            return function.kind.value
        case graph.Conv2dOp() if op.group_count > 1:
            return "conv2d (grouped)"
        case graph.BinaryOp() | graph.Pool2dOp():
            return f"{op.function.value} {name}"
        case _:
            return name


def _real(value: SSAValue, array: Array) -> NDArray[np.float32]:
    """What an array stands for."""
    return _unquantized(value, array).astype(np.float32, copy=False)


def _unquantized(value: SSAValue, array: Array) -> Array:
    """What an array stands for; indices and truth values keep their type, as operands need them."""
    element = graph.quantized_element(value)
    return array if element is None else dequantize(array, element)
