"""Warn about outputs for which the stored integers are too coarse."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.network.function import module_of, output_names, result_values, states_of
from ceras_ir.network.quantizable import quantized_operations
from ceras_ir.network.storage import NARROW, exponent
from ceras_ir.support.diagnostics import node_name, remark
from ceras_ir.transforms.quantization.rewrites.calibrated_pass import CalibratedPass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.network.storage import Storage
    from ceras_ir.transforms.quantization.analysis.quantities import Quantities

    Array = NDArray[np.generic]

SAMPLES = 32
"""The number of samples on which integers are counted."""

MOST_ELEMENTS = 1 << 24
"""The number of elements of all samples after which no other sample is included."""

FEWEST_INTEGERS = 16
"""The number of different integers below which an output is reported."""

GOOD_DB = 30.0
"""The signal-to-noise ratio from which few integers are sufficient, as for 0 and 1."""


@dataclass(frozen=True)
class CheckOutputsPass(CalibratedPass):
    """
    Warn about each output, or quantity of an output, that is stored in too few integers.

    These are fewer than 16 different numbers over 32 samples, although the float network has more,
    if the rounding leaves less than 30 dB.

    An output is a stored value, in 8 or 16 bits, or a float function of stored values. Examples:
    1013 with a deviation of 0.5, or the exponential of such a value. The quantities are the same as
    in the signal-to-noise ratio: boxes and scores that are concatenated, or channels of very
    different magnitudes. Changes no value.
    """

    name = "check-outputs"

    def improve(self, main: FuncOp) -> None:
        import numpy as np

        from ceras_ir.transforms.quantization.analysis.quantities import quantities_of_outputs

        rounded = _Rounded(main)
        sources = _sources_of_outputs(main, rounded.storages)
        if not sources:
            return
        seen = 0
        pairs: dict[str, list[tuple[Array, Array]]] = {name: [] for name in sources}
        for sample in self.data(main, "checking outputs", SAMPLES):
            if seen > MOST_ELEMENTS:
                break
            found = rounded.outputs(sample)
            for name, known in pairs.items():
                known.append(found[name])
                seen += found[name][0].size
        quantities = quantities_of_outputs(main)
        results = dict(zip(output_names(main), result_values(main), strict=True))
        for name, stored in sources.items():
            exact, actual = (
                np.stack([pair[i].reshape(-1) for pair in pairs[name]]).astype(np.float64)
                for i in (0, 1)
            )
            for part, counts in _coarse(results[name], exact, actual, quantities.get(name)):
                remark(f"{self.name}: warning: {_text(name, part, counts, stored)}")


class _Rounded:
    """A network with and without the rounding of the stored values that floats or callers use."""

    def __init__(self, main: FuncOp):
        from ceras_ir.interpreters.registry import interpreter_of
        from ceras_ir.transforms.quantization.analysis.scale_classes import (
            source_of,
            value_storage,
        )

        self.main, self.inside = main, quantized_operations(main)
        self.interpreter = interpreter_of(module_of(main))
        values = [v for op in self.inside for v in op.results if self._is_used_outside(v)]
        self.storages: dict[SSAValue, Storage] = {
            v: value_storage(v) for v in values if exponent(source_of(v)) is not None
        }

    def _is_used_outside(self, value: SSAValue) -> bool:
        return any(use.operation not in self.inside for use in value.uses)

    def outputs(self, sample: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """Return each output on a sample, without and with rounding."""
        import numpy as np

        from ceras_ir.interpreters.float_functions import for_statistics
        from ceras_ir.interpreters.network import check_inputs

        block = self.main.body.block
        exact: dict[SSAValue, Array] = dict(
            zip(block.args, check_inputs(self.main, sample), strict=True)
        )
        rounded: dict[SSAValue, Array] = {}
        last = {value: op for op in block.ops for value in op.operands}
        with np.errstate(all="ignore"), for_statistics():
            for op in block.ops:
                if op.results:
                    self._compute(op, exact, rounded)
                    for value in {v for v in op.operands if last[v] is op}:
                        del exact[value]
                        rounded.pop(value, None)
        named = zip(output_names(self.main), result_values(self.main), strict=True)
        return {name: (exact[v], rounded.get(v, exact[v])) for name, v in named}

    def _compute(
        self, op: Operation, exact: dict[SSAValue, Array], rounded: dict[SSAValue, Array]
    ) -> None:
        """Compute an operation; `rounded` gets the result if it differs from that of `exact`."""
        from ceras_ir.network.integer import dequantize, quantize

        (result,) = op.results
        operands = tuple(exact[v] for v in op.operands)
        exact[result] = self.interpreter.run_op(op, operands)[0]
        if (storage := self.storages.get(result)) is not None:
            element = storage.element
            rounded[result] = dequantize(quantize(exact[result].astype("f4"), element), element)
        elif op not in self.inside and any(v in rounded for v in op.operands):
            operands = tuple(rounded.get(v, exact[v]) for v in op.operands)
            rounded[result] = self.interpreter.run_op(op, operands)[0]


def _sources_of_outputs(
    main: FuncOp, storages: Mapping[SSAValue, Storage]
) -> dict[str, dict[SSAValue, Storage]]:
    """Return the stored values that floats compute each output from, or that it is."""
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
    """Yield the indices of each coarse quantity, the counts of its numbers and the samples."""
    import numpy as np

    from ceras_ir.dialects import graph
    from ceras_ir.transforms.quantization.analysis.output_noise import OutputNoise, decibels

    noise = OutputNoise(quantities)
    for exact, rounded in zip(real, stored, strict=True):
        noise.add(exact, rounded)
    variance = noise.signal.variance
    groups = noise.groups(variance)
    for group in np.unique(groups):
        chosen = groups == group
        with np.errstate(all="ignore"):
            squares = np.square(stored[:, chosen] - real[:, chosen])
        ratio = decibels(float(variance[chosen].sum()), float(squares.sum(axis=1).mean()))
        count, exact = (len(np.unique(array[:, chosen])) for array in (stored, real))
        if count < min(FEWEST_INTEGERS, exact) and ratio < GOOD_DB:
            yield _part(chosen.reshape(graph.shape_of(value))), (count, exact, len(real))


def _text(
    name: str, part: str, counts: tuple[int, int, int], stored: Mapping[SSAValue, Storage]
) -> str:
    """Return the warning about a part of an output, and the remedies."""
    from ceras_ir.transforms.quantization.analysis.scale_classes import source_of

    integers, floats, samples = counts
    makers = {source_of(value).owner: None for value in stored}
    nodes = ",".join(node_name(op) if isinstance(op, Operation) else name for op in makers)
    bits = min(storage.bits for storage in stored.values())
    wider = f"store it in 16 bits (--int16 '{nodes}') or " if bits == NARROW else ""
    plural = "integer" if integers == 1 else "different integers"
    return (
        f"output '{name}'{part} has {integers} {plural} in {samples} samples, and {floats} "
        f"different numbers in float: {bits} bits are too coarse; {wider}compute it in float "
        f"(--float '{nodes}'), without --io int8; or return quantities of different magnitudes as "
        "separate outputs"
    )


def _part(chosen: NDArray[np.bool_]) -> str:
    """Return the indices of some elements of an output; empty text for all elements."""
    import numpy as np

    if chosen.all():
        return ""
    ranges: list[str] = []
    for axis, extent in enumerate(chosen.shape):
        others = tuple(i for i in range(chosen.ndim) if i != axis)
        indices = np.flatnonzero(np.any(chosen, axis=others))
        first, last = int(indices[0]), int(indices[-1]) + 1
        ranges.append(":" if (first, last) == (0, extent) else f"{first}:{last}")
    return f"[{', '.join(ranges)}]"
