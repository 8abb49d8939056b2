"""
Compare the layers of a quantized network with float layers, to find losses of precision.

Operations of both networks carry `graph.layer = N`. There are three errors:

1. accumulated: the error of the value in the quantized network;
2. isolated: the error of a single operation on the rounded values of the float network;
3. reaching: the isolated error at the outputs, if all following operations are float.

If a function is the only consumer of a value, elements are clipped to the bounds beyond which the
function is flat. No sample is kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.lookup import FUNCTION
from ceras_ir.dialects.quant import BYTE_BITS, UniformType
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
from ceras_ir.network.storage import EQUALIZED, LAYER, interval, weight_type
from ceras_ir.support.diagnostics import node_name, progress
from ceras_ir.transforms.quantization.analysis.function_forms import trimmed
from ceras_ir.transforms.quantization.analysis.output_noise import Moments, channel_ratios, decibels
from ceras_ir.transforms.quantization.analysis.sensitivity import SensitivityMeter, noise_at_outputs

Array: TypeAlias = NDArray[np.generic]

HISTOGRAM_BINS = 48


@dataclass
class LayerNoise:
    """The errors of a quantized layer compared with the float layer, as sums over all samples."""

    name: str
    operator: str
    channels: int
    element: UniformType | None
    """The type of the quantized result; None if it is float."""
    reference_scale: float | None = None
    """The scale of the result in the reference network; None if that is float."""
    weight_bits: int = BYTE_BITS
    """The bits of integer weights; 8 without such weights."""
    low: float = np.inf
    high: float = -np.inf
    moments: Moments = field(default_factory=Moments)
    """The moments of each channel, over samples and positions."""
    accumulated: float = 0.0
    isolated: float = 0.0
    reaching: float = 0.0
    """The noise-to-signal ratio at the outputs due to the isolated error, a mean over samples."""
    share: float | None = None
    """The share of the noise at the outputs, if it was measured."""
    clipped: int = 0
    elements: int = 0
    edges: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros(HISTOGRAM_BINS, np.int64))
    magnitudes: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    """The largest magnitude of each channel."""

    @property
    def scale(self) -> float | None:
        """The scale of the quantized result of the layer; `None` if it is float."""
        return None if self.element is None else self.element.scale

    @property
    def bits(self) -> int:
        """The width of the quantized result of the layer; 8 if it is float."""
        return 8 if self.element is None else self.element.storage.width.data

    @property
    def held(self) -> tuple[float, float] | None:
        """
        The lowest and the highest real value that the type of the quantized result can represent,
        or `None` if the result is float.
        """
        if (e := self.element) is None:
            return None
        return (e.low - e.zero_point) * e.scale, (e.high - e.zero_point) * e.scale

    @property
    def signal(self) -> float:
        """
        The signal power: the sum of squares of the float result after the mean of each channel is
        subtracted, over all samples.
        """
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
        """
        The octaves (factors of 2) between the largest magnitude of a channel and the median of the
        channels. Channels that are always zero do not count. A large number means that a scale for
        all channels is bad for most of them.
        """
        used = self.magnitudes[self.magnitudes > 0]
        return float(np.log2(used.max() / np.median(used))) if used.size else 0.0

    def add(
        self,
        real: NDArray[np.float32],
        bounds: tuple[float, float] | None,
        factors: NDArray[np.float32] | np.float32,
    ) -> None:
        """
        Add the float result `real` of the layer for a sample: range, histogram, moments, and the
        number of elements that the quantized layer would clip. `bounds` are the limits of the
        histogram, if they are known. The quantized layer stores the result divided by `factors` per
        channel.
        """
        self.low, self.high = min(self.low, float(real.min())), max(self.high, float(real.max()))
        if not self.edges.size:
            low, high = bounds or (self.low, self.high)
            self.edges = np.linspace(low, high if high > low else low + 1, HISTOGRAM_BINS + 1)
        self.histogram += np.histogram(real, self.edges)[0]
        peaks = np.abs(real).reshape(-1, real.shape[-1] if real.ndim else 1).max(axis=0)
        self.magnitudes = np.maximum(self.magnitudes, peaks) if self.magnitudes.size else peaks
        self.moments.add(real.reshape(-1, real.shape[-1] if real.ndim else 1))
        self.elements += real.size
        if self.element is not None:
            # A value that rounds to a representable integer is not clipped.
            stored = real / (np.float32(self.element.scale) * factors) + self.element.zero_point
            is_clipped = (stored >= self.element.high + 0.5) | (stored < self.element.low - 0.5)
            self.clipped += int(is_clipped.sum())


def _error(actual: NDArray[np.float32], real: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(invalid="ignore"):
        return np.where(actual == real, np.float32(0), actual - real)


def _power(array: Array) -> float:
    flat = array.reshape(-1).astype(np.float64)
    return float(np.dot(flat, flat))


def _may_be_equalized(module: ModuleOp) -> bool:
    main = main_function(module)
    return EQUALIZED in main.attributes or is_quantized(main)


def label_layers(module: ModuleOp) -> None:
    """
    Give each operation a number as an attribute. It is kept when the network is quantized, so that
    the float and the quantized form of a layer can be compared.
    """
    for number, op in enumerate(main_function(module).body.block.ops):
        if isinstance(op, graph.GraphOperation) and not isinstance(op, graph.ConstantOp):
            op.attributes[LAYER] = IntegerAttr(number, i64)


def layer_of(op: Operation) -> int | None:
    """Return the number that `label_layers` gave to the layer of an operation, or `None`."""
    label = op.attributes.get(LAYER)
    return label.value.data if isinstance(label, IntegerAttr) else None


class NoiseMeter:
    """
    Compares a quantized network with the float network from which it was created, layer by layer.
    With `aligned`, two variants of a network are compared, with layers that were matched by names.

    In variants, `equalize-channels` may have scaled channels by powers of two, which the integers
    do not show. The first sample determines these factors.
    """

    def __init__(self, reference: ModuleOp, quantized: ModuleOp, *, aligned: bool = False):
        self.reference, self.quantized = reference, quantized
        self.aligned = aligned
        self.scaled = aligned and (_may_be_equalized(reference) or _may_be_equalized(quantized))
        self.factors: dict[int, NDArray[np.float32]] = {}
        self.values: dict[int, SSAValue] = {}
        self.outputs = set(result_values(main_function(reference)))
        """The graph outputs, which have no factors."""
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
                BYTE_BITS if (weights := weight_type(op)) is None else weights.width,
            )
        self.interpreter = interpreter_of(quantized)

    def measure(
        self, samples: Iterable[Mapping[str, Array]]
    ) -> Iterable[tuple[dict[str, Array], dict[str, Array]]]:
        """
        Run both networks on each sample, add the errors of each layer, and yield the outputs of the
        float network and of the quantized network. In a network with states, samples are steps of a
        sequence, and each network keeps separate states.
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
                    and self.values[number] not in self.outputs
                ):
                    self.factors[number] = self._factors(op, real, actual)
                if number not in self.layers:
                    return
                layer, factors = self.layers[number], self.factors.get(number, np.float32(1))
                # Elements at which the next function is flat have no effect.
                value, isolated = self.values[number], self._isolated(op, floats, sample)
                real = trimmed(value, real)
                layer.accumulated += _power(_error(trimmed(value, actual * factors), real))
                layer.isolated += _power(_error(trimmed(value, isolated * factors), real))

            actual = stored.step(step, compare)
            for number, layer in self.layers.items():
                real = trimmed(self.values[number], floats[number].astype(np.float32, copy=False))
                # Masks of scores are infinite.
                real = np.where(np.isinf(real), np.float32(0), real)
                factors = self.factors.get(number, np.float32(1))
                layer.add(real, self.ranges[number], factors)
            yield expected, actual

    def measure_reach(self, steps: Iterable[Mapping[str, Array]]) -> None:
        """
        Measure, for each layer, the noise at the outputs if only this layer has a rounding error
        and the rest of the network is float. `steps` are the samples.
        """
        samples = list(with_states(self.reference, steps))
        meter = SensitivityMeter(self.reference, samples)
        quantized = {
            self.values[number]: (op, self.layers[number])
            for op in main_function(self.quantized).body.block.ops
            if (number := layer_of(op)) is not None and number in self.layers
        }
        for sample in progress(samples, "measuring noise at the outputs"):
            for value, known, weights in meter.weigh(sample):
                if value not in quantized:
                    continue
                op, layer = quantized[value]
                floats = {number: known[v] for number, v in self.values.items() if v in known}
                error = _error(self._isolated(op, floats, sample), known[value].astype(np.float32))
                layer.reaching += noise_at_outputs(weights, error) / len(samples)
        total = sum(layer.reaching for layer in self.layers.values())
        for layer in self.layers.values():
            layer.share = layer.reaching / total if total > 0 else 0.0

    def _factors(
        self, op: Operation, real: NDArray[np.float32], actual: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """
        Return the power of two by which each channel of the quantized result `actual` must be
        multiplied to compare it with the float result `real`.
        """
        if isinstance(op, graph.ReshapeOp | graph.TransposeOp):
            number = layer_of(op.input.owner) if isinstance(op.input.owner, Operation) else None
            if number in self.factors:
                moved = np.broadcast_to(self.factors[number], graph.shape_of(op.input))
                if isinstance(op, graph.ReshapeOp):
                    return moved.reshape(graph.shape_of(op.result))
                return moved.transpose(op.permutation.get_values())
        return channel_ratios(real, actual).astype(np.float32)

    def _isolated(
        self, op: Operation, floats: Mapping[int, Array], sample: Mapping[str, Array]
    ) -> NDArray[np.float32]:
        """
        Return the result of the quantized operation `op` if the operands are the rounded values of
        the float network. `floats` has the results of float layers by number, and `sample` the
        inputs.
        """
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
        """
        Return the elements of `value`, an operand in the quantized network, computed from the
        results `floats` of the layers of the float network and the inputs `sample`. `between`
        caches values that are not results of layers.
        """
        source = value
        while isinstance(source.owner, Operation) and _only_rounds(source.owner):
            source = source.owner.operands[0]
        if isinstance(source, BlockArgument):
            real = np.asarray(sample[self.names[source.index]])
            stored = graph.quantized_element(source)
            # States of a float sample are floats, independent of their storage.
            if stored is not None and real.dtype.kind != "f":
                real = dequantize(real, stored)
        elif isinstance(source.owner, graph.ConstantOp):
            return source.owner.array()
        else:
            assert isinstance(source.owner, Operation)
            if (number := layer_of(source.owner)) is None:
                # An unlabelled operation, such as a 16-bit function that is computed in float.
                if source not in between:
                    operands = [
                        self._operand(v, floats, sample, between) for v in source.owner.operands
                    ]
                    between |= zip(
                        source.owner.results,
                        self.interpreter.run_op(source.owner, tuple(operands)),
                        strict=True,
                    )
                if value is source:
                    return between[source]
                real = _unquantized(source, between[source])
            else:
                real = floats[number]
                if number in self.factors:
                    real = real.astype(np.float32, copy=False) / self.factors[number]
        element = graph.quantized_element(value)
        return real if element is None else quantize(real.astype(np.float32), element)


def _only_rounds(op: Operation) -> bool:
    """
    Return whether `op` has no layer number and only changes the storage of the operand, as a
    quantization between layers does.
    """
    if layer_of(op) is not None:
        return False
    if isinstance(op, graph.RequantizeOp):
        stored = graph.quantized_element(op.result)
        # A clamp inside the range of the storage is a function, such as ReLU.
        return stored is not None and (op.requant.low.data, op.requant.high.data) == (
            stored.low,
            stored.high,
        )
    return isinstance(op, graph.QuantizeOp | graph.DequantizeOp)


def _operator(op: Operation) -> str:
    function = op.properties.get("function") or op.attributes.get(FUNCTION)
    name = op.name.removeprefix("graph.")
    match op:
        case graph.LookupOp() | graph.UnaryOp() if isinstance(function, graph.FunctionAttr):
            return function.data.value
        case graph.Conv2dOp() if op.group_count > 1:
            return "conv2d (grouped)"
        case graph.BinaryOp() | graph.Pool2dOp():
            return f"{op.function.value} {name}"
        case _:
            return name


def _real(value: SSAValue, array: Array) -> NDArray[np.float32]:
    return _unquantized(value, array).astype(np.float32, copy=False)


def _unquantized(value: SSAValue, array: Array) -> Array:
    """Return the elements of `value` as real numbers. Indices and truth values are unchanged."""
    element = graph.quantized_element(value)
    return array if element is None else dequantize(array, element)
