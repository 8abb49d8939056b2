"""Give each function the cheapest form whose noise does not matter, by measuring."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from ceras_ir.dialects import graph
from ceras_ir.network.function import main_function
from ceras_ir.network.precision import NARROW, set_width
from ceras_ir.network.quantizable import is_quantized
from ceras_ir.network.ranges import set_exponent
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.quantization.analysis.function_forms import (
    Form,
    argument_exponent,
    form_of,
    set_form,
)
from ceras_ir.transforms.quantization.set_silu import LAYERS, SILU, chosen_silu

if TYPE_CHECKING:
    from ceras_ir.transforms.quantization.analysis.form_noise import FormMeter, Forms

SHARE = 0.05
"""Of the noise without them: what tables on int8 may add to it together."""

MOST = 1_000_000_000_000
"""Multiplications that measuring may take, about a minute: with more, tables are on int8."""


@dataclass(frozen=True)
class ChooseFormsPass(ModulePass):
    """
    Measure, function by function, the noise that its `graph.form` and that a table on int8 in its
    place put on the outputs of a calibrated float network, on the first samples of
    `calibration=FILE.npz` (8, fewer of large networks), and write "table" on those where that
    does not matter; where measuring would take minutes, on all. Runs before `fit-functions`,
    while exponents are those of int8.

    Tables take less time than tables on 16 bits, as much less as the function has elements; so
    those that save most for their noise are taken, until all together add a twentieth to the noise
    of the network whose values, but for arguments of functions, are in int8. Shifts take no more
    time than tables where they are offered: they stay unless tables save as much noise.

    What came out, and the signal to noise with it and without, before weights are rounded, is
    said on stderr. With `when-chosen` it runs only if `graph.silu` on the function is "layers".
    Changes no value.
    """

    name = "choose-forms"

    calibration: str | None = None
    when_chosen: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        chosen = chosen_silu(main) == LAYERS
        if is_quantized(main) or (self.when_chosen and not chosen):
            return
        if self.calibration is None:
            if self.when_chosen:
                return
            raise UsageError("choose-forms needs data to measure on: add calibration=FILE.npz")
        from ceras_ir.transforms.quantization.analysis.calibration import calibration_samples
        from ceras_ir.transforms.quantization.analysis.form_noise import FormMeter
        from ceras_ir.transforms.quantization.analysis.sensitivity import (
            affordable_samples,
            multiplications,
        )

        functions = [f for f in main.body.block.ops if isinstance(f, graph.UnaryOp)]
        forms = {f: form for f in functions if (form := form_of(f)) is not None}
        offered = {f: form for f, form in forms.items() if form in (Form.TABLE16, Form.SHIFTS)}
        if not offered:
            return
        count = affordable_samples(main, len(offered))
        samples = list(calibration_samples(op, self.calibration, count, "reading"))
        meter = FormMeter(op, samples)
        measurable = multiplications(main) * len(offered) // 2 <= MOST
        ours = _cheapest(meter, offered, measurable=measurable)
        for function, form in ours.items():
            set_form(function, form)
            exponent = argument_exponent(function, form)
            if form is Form.TABLE and exponent is not None:
                set_width(function.input, NARROW)
                set_exponent(function.input, exponent)
        kinds = set(ours.values())
        if chosen and len(kinds) == 1 and Form.SHIFTS not in kinds:
            main.attributes[SILU] = StringAttr(kinds.pop().value)
        self._say(meter, offered, ours)

    def _say(self, meter: FormMeter, offered: Forms, ours: Forms) -> None:
        from ceras_ir.transforms.quantization.analysis.layer_noise import decibels

        counts = Counter(ours.values())
        spread = ", ".join(f"{form.value} for {counts[form]}" for form in Form if counts[form])
        all_tables = dict.fromkeys(offered, Form.TABLE)
        finest, got, least = (decibels(1.0, meter.together(f)) for f in (offered, ours, all_tables))
        print(
            f"{self.name}: note: {spread} of {len(offered)} functions: before weights are rounded "
            f"{got:.1f} dB ({finest:.1f} dB as offered, {least:.1f} dB with table for all, on "
            f"{len(meter.samples)} samples)",
            file=sys.stderr,
        )


def _cheapest(meter: FormMeter, offered: Forms, *, measurable: bool) -> Forms:
    """The form of every function, a table on int8 where that does not matter."""
    fine = [op for op, form in offered.items() if form is Form.TABLE16]
    tables = dict.fromkeys(fine, Form.TABLE)
    if not measurable:
        return {**offered, **tables}
    least = meter.together(offered)
    if len(fine) == len(offered) and meter.together(tables) <= (1 + SHARE) * least:
        return tables
    alone = meter.alone(offered)
    enough = SHARE * least / len(offered)
    worse = [op for op, noise in alone.items() if noise.offered - noise.table > enough]
    ours = {**offered, **dict.fromkeys(worse, Form.TABLE)}
    least = meter.together(ours) if worse else least
    fine.sort(key=lambda op: alone[op].table / prod(graph.shape_of(op.result)))
    sums = list(accumulate(alone[op].table for op in fine))
    return ours | dict.fromkeys(fine[: bisect_right(sums, SHARE * least)], Form.TABLE)
