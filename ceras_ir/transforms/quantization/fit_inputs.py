"""Let the steps of inputs fit their data: scale them in float, before they are quantized."""

from dataclasses import dataclass
from math import ceil, floor, inf, ldexp, log2

import numpy as np
from xdsl.dialects.builtin import NameLoc, StringAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.exponents import GREATEST, LEAST
from ceras_ir.network.function import input_names
from ceras_ir.network.precision import NARROW, width
from ceras_ir.network.states import states_of
from ceras_ir.support.diagnostics import node_name
from ceras_ir.transforms.quantization.analysis.byte_functions import byte_values
from ceras_ir.transforms.quantization.analysis.channel_slots import layers_behind
from ceras_ir.transforms.quantization.rewrites.calibrated_pass import CalibratedPass
from ceras_ir.transforms.quantization.rewrites.channel_scales import multiply
from ceras_ir.transforms.rebuilding import replace_constant

STEPS = 255
"""Between the least and the greatest number of int8."""

WORTHWHILE = 1.1
"""How much shorter steps must become to be worth a multiplication for each element."""

CLIPPED = 1 / 64
"""Share of the range that may lie beyond the last number of a power of two that serves."""

REASON = "divides an input by the step that fits its data"

MARGIN = 1 + 1e-5
"""What keeps the ends of the range inside after float has rounded them."""


@dataclass(frozen=True)
class FitInputsPass(CalibratedPass):
    """
    Divide inputs by a step at which their observed values, and zero, fill all 256 numbers of int8.
    The weights of the layers that read them are multiplied by it. Scales stay powers of two. Data
    that came in 8 bits, such as images and spectra, are then stored as they were.

    This costs one float multiplication per input element. An input is left if its steps would not
    become shorter by at least a tenth, if it has 16 bits, or if anything reads it but convolutions
    and matrix products with constant weights (moves in between are allowed). Such an input needs
    `choose-zero-points` to fit. Without data nothing is done.

    What is computed of single pixels of a uint8 image counts as an input whose range is that of all
    256 bytes. There the multiplication is free, because `tabulate-pixels` makes a table of all.
    """

    name = "fit-inputs"

    def improve(self, main: FuncOp) -> None:
        names = dict(zip(main.body.block.args, input_names(main), strict=True))
        # A state has the scale in which the network makes it.
        kept = {state.argument for state in states_of(main)}
        readers = {
            value: layers
            for value in names
            if value not in kept
            and width(value) == NARROW
            and (layers := layers_behind(main, value))
        }
        self._fit_pixels(main)
        if not readers:
            return
        low, high = dict.fromkeys(readers, 0.0), dict.fromkeys(readers, 0.0)
        for sample in self.data(main):
            for value in readers:
                seen = sample[names[value]]
                low[value] = min(low[value], float(seen.min()))
                high[value] = max(high[value], float(seen.max()))
        for value, layers in readers.items():
            step = fitting_step(low[value], high[value])
            if step is not None:
                _divide(value, layers, step, names[value])

    def _fit_pixels(self, main: FuncOp) -> None:
        for value, function in byte_values(list(main.body.block.ops)).items():
            if width(value) != NARROW or not (layers := layers_behind(main, value)):
                continue
            reals = function.evaluate().astype(np.float64)
            low, high = min(float(reals.min()), 0.0), max(float(reals.max()), 0.0)
            # The division is free: nothing needs to be clipped to save it.
            step = fitting_step(low, high, 0.0)
            if step is not None:
                _divide(value, layers, step, node_name(function.steps[-1]))


def fitting_step(low: float, high: float, clipped: float = CLIPPED) -> float | None:
    """
    The step at which 256 numbers hold a range around zero; None if a power of two serves, beyond
    which lies `clipped` of the range at most.
    """
    extent = high - low
    # Beyond them neither a step nor one over it is a normal float32 number.
    if not ldexp(STEPS, LEAST) < extent < ldexp(1.0, GREATEST):
        return None
    below = -low / extent * STEPS
    step = min(max(_part(-low, n), _part(high, STEPS - n)) for n in (floor(below), ceil(below)))
    power = ldexp(1.0, ceil(log2(step * (1 - clipped))))
    return step * MARGIN if power > WORTHWHILE * step else None


def _part(extent: float, steps: int) -> float:
    return extent / steps if steps > 0 else (inf if extent > 0 else 0.0)


def _divide(value: SSAValue, layers: list[graph.LinearOperation], step: float, name: str) -> None:
    location = NameLoc(StringAttr(name), UnknownLoc())
    multiply(value, np.array(1 / step, np.float32), REASON, location)
    for layer in layers:
        weights = graph.known_array(layer.weights)
        replace_constant(layer, layer.weights, weights.astype(np.float32) * np.float32(step))
