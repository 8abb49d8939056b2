"""Choose the values that are stored in 16 bits, by noise and time."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isinf, isnan, nan
from typing import TYPE_CHECKING

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.network.function import (
    has_quantized_form,
    input_names,
    is_join,
    module_of,
    quantized_operations,
    states_of,
    uses_after_moves,
)
from ceras_ir.network.storage import NARROW, exponent, widen, width
from ceras_ir.support.diagnostics import UsageError, node_name, remark, shortened
from ceras_ir.support.options import out_of_range
from ceras_ir.transforms.quantization.analysis.calibration import CalibratedPass
from ceras_ir.transforms.quantization.analysis.output_noise import NOISE, note
from ceras_ir.transforms.quantization.analysis.time_model import TimeModel
from ceras_ir.transforms.quantization.set_precision import (
    Copies,
    erase_idle_copies,
    insert_copies,
    spread,
)
from ceras_ir.transforms.quantization_options import (
    DEFAULT_BUDGET,
    HOST_BUDGET,
    BudgetOptions,
    ResidualSpreadOptions,
)

if TYPE_CHECKING:
    from ceras_ir.transforms.quantization.analysis.sensitivity import (
        Array,
        Sample,
        SensitivityMeter,
    )

    Rounding = Callable[[Array], Array]

MEASURED_SAMPLES = 4
"""The maximum number of samples on which values are measured; a single sample in large networks."""

GOAL_DB = 24.0
"""The signal-to-noise ratio of the outputs from which only unnoticeable time is spent."""

UNNOTICED_SHARE = 0.01
"""The share of the time of the network that is not noticed, nor named in notes."""

MIN_EFFICIENCY, EFFICIENT_SHARE = 10.0, 0.02
"""
Above `GOAL_DB`, the minimum ratio of the share of noise that a value saves to the share of time
that it costs, and the maximum share of time of such values.
"""

MIN_USABLE_DB = 6.0
"""The signal-to-noise ratio at the outputs in decibels below which a warning is printed."""

MIN_PROMOTED_NOISE_SHARE = 0.01
"""The minimum share of the remaining noise that justifies 16 bits."""

MAX_NAMED_VALUES = 8


@dataclass
class _Candidate:
    """
    A value that is stored in 8 bits. `extra` is the additional time if it had 16 bits, in 8-bit
    products.
    """

    value: SSAValue
    name: str
    extra: float
    noise: float = 0.0


@dataclass(frozen=True)
class ChoosePrecisionPass(ResidualSpreadOptions, BudgetOptions, CalibratedPass):
    """
    Store values in 16 bits if rounding them to int8 adds most noise to the outputs.

    A single backward pass over the float network estimates the noise of each value at the outputs.
    It runs for four samples, or for one if the network has more than 10^9 multiplications. The
    noise of different values adds up. Candidates are inputs, results of integer operations, and
    float operands of integer operations. They are chosen in the order of noise saved per time
    spent:

    1. Layers with 16-bit operands take twice the time. An 8-bit accelerator (`narrow`) computes
       layers between 8 and 16 bits twice, see `split-wide`. It leaves other such layers to the CPU,
       which takes 64 times as long. Depthwise layers and functions run on the CPU anyway.
    2. If a value has layers and other consumers, such as a residual connection, the layers use an
       8-bit copy. Then 16 bits for the other consumers cost a copy, but no product.
    3. A function of a sum uses a table of 1024 entries.
    4. A value is skipped if it saves less than a hundredth of the remaining noise.
    5. From a signal-to-noise ratio of 24 dB on, or if no output varies over the samples, all
       values together may take 1% of the time. Without `narrow` the limit is 2% for values with
       a high benefit: the saved share of the noise is at least ten times the share of the time.
    6. A value with only float consumers, such as scores before a sigmoid, is chosen first if no
       layer leaves the accelerator for it, because int8 scores have ties. Without `narrow` it does
       not count in these limits.

    Finally, the noise of all stored values is measured on other samples, if there are any. This
    includes effects that the estimate omits, such as sums with terms below half a step.

    If the values take more than 1% of the time, stderr names them, their share of the noise and
    their time. A warning is printed if the measured ratio is below 6 dB. Changes no value.

    Before, with `calibration=samples.npz budget=2`:

        func.func @main(%x: tensor<1x2xf32> {graph.exponent = -7 : i64,
            graph.range = array<f32: 0.0, 1.0>}) -> tensor<1x1xf32> {
          %w = graph.constant dense<[[1.0, 100.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %x, %w {graph.exponent = 0 : i64, graph.range = array<f32: 0.0, 101.0>}
              : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }

    After:

        func.func @main(%x: tensor<1x2xf32> {graph.exponent = -7 : i64,
            graph.range = array<f32: 0.0, 1.0>}) -> tensor<1x1xf32> attributes {
            graph.stored_noise = {before = 35.5 : f32, after = 39.7 : f32, measured = 40.0 : f32}} {
          %w = graph.constant dense<[[1.0, 100.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %x, %w {graph.exponent = -7 : i64, graph.range = array<f32: 0.0, 101.0>,
              graph.precision = "i16"} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }
    """

    name = "choose-precision"

    narrow: bool = False
    """The accelerator stores only 8 bits."""
    narrow_border: bool = False
    """Keep inputs and outputs in 8 bits."""

    def __post_init__(self) -> None:
        for name, limit in out_of_range(self):
            raise UsageError(f"option '{name}' of pass '{self.name}' {limit}")

    @property
    def _budget(self) -> float:
        if self.budget is not None:
            return self.budget
        return HOST_BUDGET if self.narrow else DEFAULT_BUDGET

    @cached_property
    def _times(self) -> TimeModel:
        return TimeModel(self.narrow, self.residual_spread)

    def improve(self, main: FuncOp) -> None:
        if self._budget == 0:
            return
        copies = insert_copies(main, of_products=not self.narrow)
        self._choose(main, copies)
        erase_idle_copies(copies)
        spread(main)

    def _choose(self, main: FuncOp, copies: Copies) -> None:
        from ceras_ir.transforms.quantization.analysis.output_noise import decibels

        if not (candidates := {c.value: c for c in self._candidates(main)}):
            return
        meter, weighed, held_out = self._meter(main)
        _weigh(meter, weighed, candidates.values(), _roundings(main))
        # The noise of a copy is part of the noise of the value while both have 8 bits.
        copied = {value: candidates.pop(copy.result) for value, copy in copies.items()}
        copied = {value: copy for value, copy in copied.items() if value in candidates}
        total = sum(c.noise for c in candidates.values())
        if total == 0:
            return  # The weights of the last layer are zero.
        for value, copy in copied.items():
            candidates[value].noise -= copy.noise
        work = self._times.network(main)
        limit, spent, left, chosen = self._budget * work, 0.0, total, list[_Candidate]()
        unnoticed = UNNOTICED_SHARE * work
        inside = quantized_operations(main)
        scores = {
            value
            for value in filter(self._is_stored, candidates)
            if all(u.operation not in inside for u in uses_after_moves(value, joined=False))
        }

        def rank(candidate: _Candidate) -> tuple[bool, float]:
            return candidate.value not in scores, -candidate.noise / max(candidate.extra, 1.0)

        queue = sorted(candidates.values(), key=rank)
        while queue:
            candidate = queue.pop(0)
            # Earlier choices may have changed the time: it decreases if a table has operand and
            # result in 16 bits, and increases if a layer has both.
            known, candidate.extra = candidate.extra, self._times.widening(candidate.value)
            if candidate.extra > known:
                insort(queue, candidate, key=rank)
                continue
            is_score = candidate.value in scores
            matters = is_score or candidate.noise > MIN_PROMOTED_NOISE_SHARE * left
            is_of_layer = isinstance(candidate.value.owner, graph.LinearOperation)
            is_free = is_score and not (self.narrow and is_of_layer)
            allowed = limit
            is_noisy = meter.varies and left > 10 ** (-GOAL_DB / 10)
            if not is_free and not is_noisy:
                pays = candidate.noise * work > MIN_EFFICIENCY * left * candidate.extra
                pays = pays and not (self.narrow or _is_joined(candidate.value))
                share = (EFFICIENT_SHARE - UNNOTICED_SHARE) * pays
                allowed = min(limit, unnoticed + work * share)
            if matters and spent + candidate.extra <= allowed:
                spent, left = spent + candidate.extra, max(left - candidate.noise, 0.0)
                unnoticed += candidate.extra if is_free else 0.0
                chosen.append(candidate)
                _widen(candidate.value)
                if candidate.value in copied:
                    insort(queue, copied[candidate.value], key=rank)
        stored = [*candidates.values(), *copied.values()]
        roundings = _roundings(main)
        rounded = {c.value: roundings(c.value) for c in stored}
        measured = meter.measure(held_out, lambda v, x: rounded[v](x) if v in rounded else x)
        noises = total, left, measured
        known = noises if meter.varies else (nan, nan, nan)
        ratios = [round(decibels(1.0, noise), 1) for noise in known]
        found = dict(zip(("before", "after", "measured"), ratios, strict=True))
        note(main, NOISE, **{when: ratio for when, ratio in found.items() if not isnan(ratio)})
        if chosen and (share := spent / work) > UNNOTICED_SHARE:
            self._report_choice(chosen, total, ratios, share)
        if found["measured"] < MIN_USABLE_DB:
            for candidate in chosen:
                candidate.noise = 0.0
            if chosen:
                _weigh(meter, weighed, chosen, _roundings(main))
            self._warn(stored, found["measured"])

    def _meter(self, main: FuncOp) -> tuple[SensitivityMeter, Sequence[Sample], Sequence[Sample]]:
        """
        Return the sensitivity meter, the samples from which it estimates noise, and those on which
        noise is measured.
        """
        from ceras_ir.transforms.quantization.analysis.sensitivity import (
            MAX_MACS,
            SensitivityMeter,
            multiplications,
        )

        is_large = multiplications(main) > MAX_MACS
        samples = list(
            self.data(
                main, "weighing values", MEASURED_SAMPLES if is_large else 2 * MEASURED_SAMPLES
            )
        )
        meter, count = (
            SensitivityMeter(module_of(main), samples),
            1 if is_large else MEASURED_SAMPLES,
        )
        return meter, samples[::2][:count], samples[1::2][:count] or samples

    def _candidates(self, main: FuncOp) -> Iterator[_Candidate]:
        inside = quantized_operations(main)
        for argument, name in zip(main.body.block.args, input_names(main), strict=True):
            if not self.narrow_border and any(use.operation in inside for use in argument.uses):
                yield from self._candidate(argument, name, inside)
        for op in main.body.block.ops:
            if not isinstance(op, GraphOperation) or isinstance(op, graph.ConstantOp):
                continue
            if op not in inside:
                if any(use.operation in inside for use in op.output.uses):
                    yield from self._candidate(op.output, node_name(op), inside)
                continue
            uses = uses_after_moves(op.output, joined=False)
            is_border = self.narrow_border and any(isinstance(u.operation, ReturnOp) for u in uses)
            if (has_quantized_form(op) or is_join(op)) and not is_border:
                yield from self._candidate(op.output, node_name(op))

    def _candidate(
        self, value: SSAValue, name: str, inside: Collection[Operation] | None = None
    ) -> Iterator[_Candidate]:
        users = [use.operation for use in uses_after_moves(value, joined=True)]
        if inside is not None:
            users = [op for op in users if op in inside]
        if users and all(map(_needs_bytes, users)):
            return
        if width(value) == NARROW and exponent(value) is not None:
            yield _Candidate(value, name, self._times.widening(value))

    def _is_stored(self, value: SSAValue) -> bool:
        """Return whether the device that computes the value can compute it in 16 bits."""
        op = value.owner
        if not self.narrow:
            return True
        if isinstance(op, graph.LinearOperation):
            return op.has_single_channel_groups or self._times.splits(op)
        return isinstance(op, Block | graph.RecurrenceOp)

    def _report_choice(
        self, chosen: list[_Candidate], total: float, noise: Sequence[float], share: float
    ) -> None:
        from ceras_ir.transforms.quantization.analysis.output_noise import decibel_text

        count = "1 value" if len(chosen) == 1 else f"{len(chosen)} values"
        before, after, measured = ("none" if isinf(d) else decibel_text(d) for d in noise)
        remark(
            f"{self.name}: note: 16 bits for {count}: noise of stored values, without the rounding "
            f"of weights, estimated {before} -> {after}, measured {measured}, for {share:.1%} of "
            f"the modelled time: {_noisiest(chosen, total)}"
        )

    def _warn(self, stored: list[_Candidate], after: float) -> None:
        total = sum(c.noise for c in stored)
        remark(
            f"{self.name}: warning: int8 is too coarse for this network: the signal-to-noise ratio "
            f"of stored values is {after:.1f} dB at the outputs; use 16 bits (--int16, a larger "
            f"--budget) or floats (--float) for {_noisiest(stored, total)}"
        )


def _weigh(
    meter: SensitivityMeter,
    samples: Sequence[Sample],
    candidates: Collection[_Candidate],
    rounding: Callable[[SSAValue], Rounding],
) -> None:
    import numpy as np

    from ceras_ir.transforms.quantization.analysis.sensitivity import noise_at_outputs

    known = {c.value: (c, rounding(c.value)) for c in candidates}
    for sample in samples:
        for value, values, weights in meter.weigh(sample):
            if value in known:
                candidate, rounded = known[value]
                real = values[value].astype(np.float32)
                # Weights before exponentials may be larger than the root of the largest float.
                error = np.asarray(rounded(real), np.float64) - real
                candidate.noise += noise_at_outputs(weights, error) / len(samples)


def _roundings(main: FuncOp) -> Callable[[SSAValue], Rounding]:
    """
    Return the function that rounds an array to the storage of a value. The storage is that of the
    scale class. A maximum pooling has the scale of the result, which holds no padding.
    """
    import numpy as np

    from ceras_ir.network.integer import dequantize, quantize
    from ceras_ir.transforms.quantization.analysis.scale_classes import ScaleClasses, value_storage

    classes = ScaleClasses(quantized_operations(main), states_of(main), joined=False)

    def rounding(value: SSAValue) -> Rounding:
        known = classes.storage(value) if value in classes.root else value_storage(value)
        element = known.element
        return lambda array: dequantize(quantize(array.astype(np.float32), element), element)

    return rounding


def _noisiest(candidates: list[_Candidate], total: float) -> str:
    named = sorted(candidates, key=lambda c: -c.noise)
    names = [
        f"{shortened(c.name)} ({c.noise / total:.0%} of the noise)"
        for c in named[:MAX_NAMED_VALUES]
    ]
    if len(named) > MAX_NAMED_VALUES:
        names.append(f"{len(named) - MAX_NAMED_VALUES} more")
    return ", ".join(names)


def _needs_bytes(op: Operation) -> bool:
    """Return whether the operands of `op` must have 8 bits, as in a product of two activations."""
    return isinstance(op, graph.LinearOperation) and not isinstance(
        op.weights.owner, graph.ConstantOp
    )


def _is_joined(value: SSAValue) -> bool:
    ops = [value.owner, *(use.operation for use in uses_after_moves(value, joined=False))]
    return any(isinstance(op, Operation) and is_join(op) for op in ops)


def _widen(value: SSAValue) -> None:
    """
    Store a value in 16 bits. The operand of a function gets the exponent that the finer table
    requires.
    """
    from ceras_ir.transforms.quantization.analysis.function_forms import (
        Form,
        fit_argument,
        form_of,
        is_table,
        reads_sum,
        set_form,
    )

    for use in value.uses:
        op = use.operation
        if isinstance(op, graph.UnaryOp) and is_table(op) and reads_sum(op):
            if form_of(op) in (None, Form.TABLE):
                set_form(op, Form.TABLE16)
                fit_argument(op)
            return
    widen(value)
