"""Warn about outputs for which 8 bits are too coarse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.network.function import module_of, output_names, result_values
from ceras_ir.network.precision import NARROW
from ceras_ir.network.quantizable import quantized_operations
from ceras_ir.network.states import states_of
from ceras_ir.support.diagnostics import node_name
from ceras_ir.support.remarks import remark
from ceras_ir.transforms.quantization.rewrites.calibrated_pass import CalibratedPass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ceras_ir.transforms.quantization.analysis.quantities import Quantities

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
    Warn about each output, or quantity of an output, that has fewer than 16 different integers over
    32 samples although the float network has more, if the rounding leaves less than 30 dB.

    Outputs in 16 bits or in float are not checked. The quantities are those of the signal-to-noise
    ratio: boxes and scores that are concatenated, or channels of very different magnitudes. Changes
    no value.
    """

    name = "check-outputs"

    def improve(self, main: FuncOp) -> None:
        import numpy as np

        from ceras_ir.interpreters.network import run
        from ceras_ir.interpreters.statistics_mode import for_statistics
        from ceras_ir.transforms.quantization.analysis.quantities import quantities_of_outputs

        outputs = _narrow_outputs(main)
        if not outputs:
            return
        real: dict[str, list[NDArray[np.float64]]] = {name: [] for name in outputs}
        seen = 0
        for sample in self.data(main, "checking outputs", SAMPLES):
            if seen > MOST_ELEMENTS:
                break
            with np.errstate(all="ignore"), for_statistics():
                found = run(module_of(main), sample)
            for name, arrays in real.items():
                arrays.append(found[name].reshape(-1).astype(np.float64))
                seen += arrays[-1].size
        quantities = quantities_of_outputs(main)
        for name, value in outputs.items():
            self._check(name, value, np.stack(real[name]), quantities.get(name))

    def _check(
        self,
        name: str,
        value: SSAValue,
        real: NDArray[np.float64],
        quantities: Quantities | None,
    ) -> None:
        import numpy as np

        from ceras_ir.dialects import graph
        from ceras_ir.network.integer import dequantize, quantize
        from ceras_ir.transforms.quantization.analysis.output_noise import OutputNoise, decibels
        from ceras_ir.transforms.quantization.analysis.scale_classes import value_storage

        element = value_storage(value).element
        integers = quantize(real.astype(np.float32), element)
        noise = OutputNoise(quantities)
        for exact, stored in zip(real, dequantize(integers, element), strict=True):
            noise.add(exact, stored)
        variance = noise.signal.variance
        groups = noise.groups(variance)
        for group in np.unique(groups):
            chosen = groups == group
            squares = np.square(dequantize(integers[:, chosen], element) - real[:, chosen])
            ratio = decibels(float(variance[chosen].sum()), float(squares.sum(axis=1).mean()))
            count, exact = (len(np.unique(array[:, chosen])) for array in (integers, real))
            if count < min(FEWEST_INTEGERS, exact) and ratio < GOOD_DB:
                part = _part(chosen.reshape(graph.shape_of(value)))
                self._say(name, value, part, (count, exact, len(real)))

    def _say(self, name: str, value: SSAValue, part: str, counts: tuple[int, int, int]) -> None:
        integers, floats, samples = counts
        from ceras_ir.transforms.quantization.analysis.scale_classes import source_of

        maker = source_of(value).owner
        node = node_name(maker) if isinstance(maker, Operation) else name
        plural = "integer" if integers == 1 else "different integers"
        remark(
            f"{self.name}: warning: output '{name}'{part} has {integers} {plural} in {samples} "
            f"samples, and {floats} different numbers in float: 8 bits are too coarse; store it in "
            f"16 bits (--int16 '{node}') or compute it in float (--float '{node}'), without --io "
            "int8; or return quantities of different magnitudes as separate outputs"
        )


def _narrow_outputs(main: FuncOp) -> dict[str, SSAValue]:
    """Return the outputs that are stored in 8 bits, by name."""
    from ceras_ir.transforms.quantization.analysis.scale_classes import value_storage

    states = {state.result for state in states_of(main)}
    inside = quantized_operations(main)
    named = zip(output_names(main), result_values(main), strict=True)
    return {
        name: value
        for name, value in named
        if value.owner in inside and value not in states and value_storage(value).bits == NARROW
    }


def _part(chosen: NDArray[np.bool_]) -> str:
    """Return the indices of some elements of an output; nothing for all of them."""
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
