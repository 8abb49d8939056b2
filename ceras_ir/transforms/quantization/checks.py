"""
Check the scales and zero points of a quantized network, and the resolution of outputs.

`check-scales` shares no code with the passes that choose scales.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import scale_of
from ceras_ir.dialects.graph.normalization import FRACTION_BITS, RECIPROCAL_BITS
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.network.function import (
    module_of,
    output_names,
    quantized_operations,
    result_values,
    states_of,
)
from ceras_ir.network.storage import NARROW, exponent
from ceras_ir.support.diagnostics import Finding, InputError, node_name, remark
from ceras_ir.transforms.quantization.analysis.calibration import CalibratedPass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.interpreters.batches import Batch
    from ceras_ir.network.storage import Storage
    from ceras_ir.transforms.quantization.analysis.output_noise import Quantities

    Array = NDArray[np.generic]


T = TypeVar("T")
U = TypeVar("U")

TOLERANCE = 2.0**-22
"""The relative tolerance of scales. Multipliers of 31 bits are far more exact."""
ALL_VANISH = 2.0**-32
"""The factor at which all sums of 32 bits become zero."""
SUM_BITS = 32
"""The bits of sums of products."""
PRODUCT_BITS = 28
"""The bits of an addend and its multiplier, so that a sum of two products fits 32 bits."""


@dataclass(frozen=True)
class CheckScalesPass(ModulePass):
    """
    Refuse a quantized network with requantizations that contradict the scales and zero points of
    the types.

    1. Each requantization converts the scale of the accumulator to that of the result, and adds the
       zero point of the result.
    2. Biases and residuals have the scale of the accumulator.
    3. Addends have the same scale.

    Changes nothing.

    Before:

        !x = tensor<4x!quant.uniform<i8:f32, 1.0>>
        !y = tensor<4x!quant.uniform<i8:f32, 4.0>>
        #r = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>
        %y = graph.requantize %x {requant = #r} : (!x) -> !y loc("y")

    Message:

        node 'y' (graph.requantize): error: the requantized accumulator has scale 2.0, but the
            result has 4.0
    """

    name = "check-scales"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        findings = [
            Finding(node_name(inner), inner.name, message)
            for inner in op.walk()
            for message in _contradictions(inner)
        ]
        if findings:
            raise InputError(findings)


def _contradictions(op: Operation) -> Iterator[str]:
    if isinstance(op, graph.GraphOperation) and "requant" in op.properties:
        weights = op.weights if isinstance(op, graph.LinearOperation) else None
        values = [v for v in (*op.data_operands, *op.results) if v is not weights]
        stored = [e for e in map(graph.quantized_element, values) if e is not None]
        # `graph.threshold` compares sums of each channel.
        is_sum = weights is not None and stored[-1].width == SUM_BITS
        if any(e.is_per_axis for e in (stored[:-1] if is_sum else stored)):
            yield "activations must have a single scale; only constants have per-channel scales"
            return
    yield from _misplaced(op)
    match op:
        case graph.LinearOperation(requant=RequantAttr() as requant):
            (input,) = _scales(op.input)
            accumulators = [input * weights for weights in _scales(op.weights)]
            if op.bias is not None:
                for bias, accumulator in _pairs(_scales(op.bias), accumulators):
                    yield from _differ("bias", bias, "the accumulator", accumulator)
            if op.residual is not None:
                residuals = [scale_of(op.residual) / 2**shift for shift in op.residual_shifts]
                for aligned, accumulator in _pairs(residuals, accumulators):
                    yield from _differ("shifted residual", aligned, "the accumulator", accumulator)
            if op.table is not None:
                # The type does not specify the scale of a table operand.
                return
        case graph.BinaryOp(requant=RequantAttr() as requant):
            if op.function is not graph.Binary.MUL and op.multipliers != (1, 1):
                yield from _misaligned(op, requant)
                return
            lhs, rhs = scale_of(op.lhs) / 2 ** op.shifts[0], scale_of(op.rhs) / 2 ** op.shifts[1]
            if op.addends is not None:
                lhs, rhs = (
                    scale / (addend.multiplier.data / 2**addend.shift.data)
                    for scale, addend in zip((lhs, rhs), op.addends, strict=True)
                )
            if op.function is graph.Binary.MUL:
                accumulators = [lhs * rhs]
            else:
                accumulators = [lhs]
                yield from _differ("shifted lhs", lhs, "the shifted rhs", rhs)
        case graph.Pool2dOp(divides=UnitAttr()):
            return  # Operand and result have the same type.
        case graph.Pool2dOp(requant=RequantAttr() as requant):
            accumulators = [scale_of(op.input) / prod(op.kernel.get_values())]
        case graph.RequantizeOp(requant=requant) | graph.ShiftSwishOp(requant=requant):
            accumulators = [scale_of(op.input)]
        case graph.IntegerSoftmaxOp(requant=requant):
            accumulators = [2.0**-RECIPROCAL_BITS]
        case graph.IntegerNormalizeOp(requant=requant):
            accumulators = [scale_of(op.scale) * 2.0**-FRACTION_BITS]
            yield from _differ("bias", scale_of(op.bias), "the accumulator", accumulators[0])
        case _:
            return
    coarse = 0.0
    if isinstance(op, graph.BinaryOp) and op.function is not graph.Binary.MUL:
        # Multipliers may have been rounded to powers of two within their width.
        coarse = 2.0 ** (graph.stored_element(op.lhs).storage.width.data - PRODUCT_BITS)
    unit = 2.0**-requant.shift.data
    # From the factor `saturating` on, all values but zero saturate; up to `vanishing`, all are
    # zero.
    saturating, vanishing = 2.0**30, 0.0
    if isinstance(op, graph.Pool2dOp):
        bits, result_bits = (
            graph.stored_element(v).storage.width.data for v in (op.input, op.result)
        )
        saturating = 2.0 ** (result_bits + 1)
        vanishing = 0.499 / 2.0**bits / prod(op.kernel.get_values())
    factors = list(_pairs(requant.multipliers, accumulators))
    for (multiplier, accumulator), result in _pairs(factors, _scales(op.results[0])):
        factor = multiplier * unit
        scale = accumulator / factor
        # Integers below 2^30 become zero by a shift of 31 or more, and a factor of 2^30 saturates
        # all values but zero. Shifters have no longer shifts, and multipliers only an additional
        # bit.
        vanishes = requant.shift.data == 31 and not isinstance(op, graph.LinearOperation)
        vanishes |= factor <= vanishing or factor <= ALL_VANISH
        if (vanishes and scale < result) or (factor >= saturating and scale > result):
            continue
        # Multipliers are integers, and channels of small scales have small multipliers.
        slack = 0.0 if multiplier == 1 and not requant.is_per_channel else result * unit
        slack = max(slack / factor, coarse * result)
        yield from _differ("requantized accumulator", scale, "the result", result, slack)


def _misplaced(op: Operation) -> Iterator[str]:
    """
    Yield an error message if the zero point that a requantization adds differs from the type of the
    result.
    """
    requant = op.properties.get("requant")
    if not isinstance(requant, RequantAttr):
        return
    if isinstance(op, graph.LinearOperation) and op.table is not None:
        return  # The type does not specify the zero point of a table operand.
    added = requant.zero_point.data
    expected = {point.data for point in graph.stored_element(op.results[0]).zero_points}
    for point in sorted(expected - {added}):
        yield f"the requantization adds zero point {added}, but the result has {point}"


def _misaligned(op: graph.BinaryOp, requant: RequantAttr) -> Iterator[str]:
    unit, result = requant.multiplier.data / 2.0**requant.shift.data, scale_of(op.result)
    for name, value, factor in zip(("lhs", "rhs"), (op.lhs, op.rhs), op.factors, strict=True):
        scale = factor * unit * result
        yield from _differ(
            f"multiplied {name}", scale, "the operand", scale_of(value), result * unit
        )


def _scales(value: SSAValue) -> list[float]:
    return [scale.data for scale in graph.stored_element(value).scales]


def _pairs(first: Sequence[T], second: Sequence[U]) -> Iterator[tuple[T, U]]:
    """
    Yield the pairs of entries of both lists for each channel. A list with a single entry applies to
    all channels.
    """
    count = max(len(first), len(second))
    return ((first[i % len(first)], second[i % len(second)]) for i in range(count))


def _differ(name: str, scale: float, of: str, expected: float, slack: float = 0.0) -> Iterator[str]:
    if abs(scale - expected) > max(TOLERANCE * expected, slack):
        yield f"the {name} has scale {scale}, but {of} has {expected}"


MAX_SAMPLE_ELEMENTS = 1 << 24
"""The number of elements of all samples after which no other sample is included."""

MIN_INTEGERS = 16
"""The number of different integers below which an output is reported."""

FIRST_SAMPLES = 4
"""The number of samples that usually show enough integers."""

GOOD_DB = 30.0
"""The signal-to-noise ratio from which few integers are sufficient, as for 0 and 1."""


@dataclass(frozen=True)
class CheckOutputsPass(CalibratedPass):
    """
    Warn about each output, or quantity of an output, with too few different integers.

    The warning is printed for less than 16 different values over 32 samples and less than 30 dB, if
    the float network has more different values.

    An output is a stored value, in 8 or 16 bits, or a float function of stored values. Examples are
    1013 with a deviation of 0.5, or the exponential of such a value. The quantities are those of
    the signal-to-noise ratio: boxes and scores that are concatenated, or channels of very different
    magnitudes. Changes no value.

    Before, with `calibration=samples.npz`:

        !t = tensor<1xf32>
        func.func @main(%x: !t {graph.exponent = -7}) -> !t {
          %c = graph.constant dense<1012.0> : !t : !t
          %y = graph.binary add %x, %c {graph.exponent = 3} : (!t, !t) -> !t loc("y")
          func.return %y : !t
        }

    Message:

        check-outputs: warning: output 'output0' has 1 integer in 32 samples, and 32 different
            values in float: 8 bits are too coarse; store it in 16 bits (--int16 'y') or
            compute it in float (--float 'y'), without --io int8; or return quantities of different
            magnitudes as separate outputs
    """

    name = "check-outputs"

    def improve(self, main: FuncOp) -> None:
        import numpy as np

        from ceras_ir.transforms.quantization.analysis.kept_run import SHARED_SAMPLES, last_run
        from ceras_ir.transforms.quantization.analysis.output_noise import quantities_of_outputs

        rounded = _RoundedNetwork(main)
        sources = _sources_of_outputs(main, rounded.storages)
        if not sources:
            return
        count = 0
        pairs: dict[str, list[tuple[Array, Array]]] = {name: [] for name in sources}

        def data() -> Iterator[Mapping[str, Array]]:
            return self.data(main, "checking outputs", SHARED_SAMPLES)

        run = last_run(module_of(main), data)
        for found in rounded.outputs(data(), {} if run is None else run.values(main)):
            if count > MAX_SAMPLE_ELEMENTS:
                break
            for name, known in pairs.items():
                known.append(found[name])
                count += found[name][0].size
        quantities = quantities_of_outputs(main)
        results = dict(zip(output_names(main), result_values(main), strict=True))
        for name, stored in sources.items():
            exact, actual = (
                np.stack([pair[i].reshape(-1) for pair in pairs[name]]).astype(np.float64)
                for i in (0, 1)
            )
            for part, counts in _coarse(results[name], exact, actual, quantities.get(name)):
                remark(f"{self.name}: warning: {_text(name, part, counts, stored)}")


class _RoundedNetwork:
    """
    Runs a float network twice: exactly, and with rounding of the stored values that float
    operations use or that are returned to the caller.
    """

    def __init__(self, main: FuncOp):
        from ceras_ir.interpreters.batches import Batches
        from ceras_ir.transforms.quantization.analysis.scale_classes import (
            source_of,
            value_storage,
        )

        self.main, self.inside = main, quantized_operations(main)
        self.batches = Batches(module_of(main))
        self.storages: dict[SSAValue, Storage] = {
            v: value_storage(v)
            for v in (result for op in self.inside for result in op.results)
            if any(use.operation not in self.inside for use in v.uses)
            and exponent(source_of(v)) is not None
        }

    def outputs(
        self,
        samples: Iterable[Mapping[str, Array]],
        given: Mapping[SSAValue, Sequence[Array]],
    ) -> Iterator[dict[str, tuple[Array, Array]]]:
        """
        Yield, for each sample, the elements of each graph output without and with rounding of
        stored values. `given` has the elements of values that are known for each sample.
        """
        import numpy as np

        from ceras_ir.interpreters.float_functions import for_statistics

        named = list(zip(output_names(self.main), result_values(self.main), strict=True))
        results = {value for _, value in named}
        start = 0
        for batch in self.batches.divided(samples):
            part = slice(start, start := start + len(batch))
            known = {value: np.stack(arrays[part]) for value, arrays in given.items()}
            exact: dict[SSAValue, Batch] = {}
            rounded: dict[SSAValue, Batch] = {}
            found: dict[SSAValue, tuple[Batch, Batch]] = {}
            with np.errstate(all="ignore"), for_statistics():
                for op, value, elements in self.batches.run(batch, exact, known):
                    for unused in rounded.keys() - exact.keys():
                        del rounded[unused]
                    if op is not None:
                        self._round(op, value, exact, rounded, len(batch))
                    if value in results:
                        found[value] = elements, rounded.get(value, elements)
            for n in range(len(batch)):
                pairs = ((name, found[value]) for name, value in named)
                yield {name: (plain.of(n), stored.of(n)) for name, (plain, stored) in pairs}

    def _round(
        self,
        op: Operation,
        value: SSAValue,
        exact: Mapping[SSAValue, Batch],
        rounded: dict[SSAValue, Batch],
        samples: int,
    ) -> None:
        """
        Add the result of an operation to `rounded` if it is stored or depends on rounded values.
        """
        from ceras_ir.network.integer import rounded_to

        if (storage := self.storages.get(value)) is not None:
            element, array = storage.element, exact[value].array
            stored = rounded_to(array.astype("f4", copy=False), element)
            rounded[value] = exact[value]._replace(array=stored)
        elif op not in self.inside and any(v in rounded for v in op.operands):
            operands = [rounded.get(v, exact[v]) for v in op.operands]
            (rounded[value],) = self.batches.apply(op, operands, samples)


def _sources_of_outputs(
    main: FuncOp, storages: Mapping[SSAValue, Storage]
) -> dict[str, dict[SSAValue, Storage]]:
    """
    Return, for each graph output, the stored values from which float operations compute it, with
    the storage of each. Outputs without such values and states are omitted.
    """
    states = {state.result for state in states_of(main)}
    named = zip(output_names(main), result_values(main), strict=True)
    found = {
        name: {v: storages[v] for v in _sources(value, storages)}
        for name, value in named
        if value not in states
    }
    return {name: sources for name, sources in found.items() if sources}


def _sources(value: SSAValue, storages: Collection[SSAValue]) -> list[SSAValue]:
    values = [value]
    for each in values:
        if each not in storages and isinstance(each.owner, Operation):
            values += [v for v in each.owner.operands if v not in values]
    return [v for v in values if v in storages]


def _coarse(
    value: SSAValue,
    real: NDArray[np.float64],
    stored: NDArray[np.float64],
    quantities: Quantities | None,
) -> Iterator[tuple[str, tuple[int, int, int]]]:
    import numpy as np

    from ceras_ir.dialects import graph
    from ceras_ir.network.distinct import distinct
    from ceras_ir.transforms.quantization.analysis.output_noise import OutputNoise, decibels

    noise = OutputNoise(quantities)
    for exact, rounded in zip(real, stored, strict=True):
        noise.add(exact, rounded)
    variance = noise.signal.variance
    groups = noise.groups(variance)
    for group in distinct(groups):
        chosen = groups == group
        if len(distinct(stored[:FIRST_SAMPLES, chosen])) >= MIN_INTEGERS:
            continue  # More samples have no fewer integers.
        with np.errstate(all="ignore"):
            squares = np.square(stored[:, chosen] - real[:, chosen])
        ratio = decibels(float(variance[chosen].sum()), float(squares.sum(axis=1).mean()))
        count, exact = (len(distinct(array[:, chosen])) for array in (stored, real))
        if count < min(MIN_INTEGERS, exact) and ratio < GOOD_DB:
            yield _part(chosen.reshape(graph.shape_of(value))), (count, exact, len(real))


def _text(
    name: str, part: str, counts: tuple[int, int, int], stored: Mapping[SSAValue, Storage]
) -> str:
    from ceras_ir.transforms.quantization.analysis.scale_classes import source_of

    integers, floats, samples = counts
    makers = {source_of(value).owner: None for value in stored}
    nodes = ",".join(node_name(op) if isinstance(op, Operation) else name for op in makers)
    bits = min(storage.bits for storage in stored.values())
    wider = f"store it in 16 bits (--int16 '{nodes}') or " if bits <= NARROW else ""
    plural = "integer" if integers == 1 else "different integers"
    return (
        f"output '{name}'{part} has {integers} {plural} in {samples} samples, and {floats} "
        f"different values in float: {bits} bits are too coarse; {wider}compute it in float "
        f"(--float '{nodes}'), without --io int8; or return quantities of different magnitudes as "
        "separate outputs"
    )


def _part(chosen: NDArray[np.bool_]) -> str:
    """
    Return the smallest slice that contains all elements at which `chosen` is true as text, such as
    `[0:2, :]`. Return an empty text if all are true.
    """
    import numpy as np

    if chosen.all():
        return ""
    ranges: list[str] = []
    for axis, extent in enumerate(chosen.shape):
        other_axes = tuple(i for i in range(chosen.ndim) if i != axis)
        indices = np.flatnonzero(np.any(chosen, axis=other_axes))
        first, last = int(indices[0]), int(indices[-1]) + 1
        ranges.append(":" if (first, last) == (0, extent) else f"{first}:{last}")
    return f"[{', '.join(ranges)}]"
