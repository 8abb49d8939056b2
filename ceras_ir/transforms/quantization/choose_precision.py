"""Find the few values that need 16 bits, and cost little to have them."""

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
from ceras_ir.support.diagnostics import UsageError, node_name, remark
from ceras_ir.support.options import out_of_range
from ceras_ir.support.terminal import shortened
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

MEASURED = 4
"""On how many samples values are measured at most; one of large networks."""

GOAL = 24.0
"""
The signal-to-noise ratio of the ends, in decibels, from which a noticeable time is not spent on the
noise of stored values.
"""

CHEAP = 0.01
"""Share of the network's time that is not noticed: notes leave it out, reports list all layers."""

WORTH, WORTH_SHARE = 10.0, 0.02
"""
From `GOAL` on, how many times its share of the time the share of the noise is that a value must
save to be noticed, and the share of the time that all may take with those.
"""

DOUBTFUL = 6.0
"""Decibels at the ends below which the noise is half as large as the outputs, or larger."""

NOTABLE = 0.01
"""Share of the noise that is left below which a value is not worth 16 bits."""

NAMED = 8
"""The number of values that the note names."""


@dataclass
class _Candidate:
    """A value in 8 bits; `extra` is what 16 would take more, in products of 8 bits."""

    value: SSAValue
    name: str
    extra: float
    noise: float = 0.0


@dataclass(frozen=True)
class ChoosePrecisionPass(ResidualSpreadOptions, BudgetOptions, CalibratedPass):
    """
    Store in 16 bits the values whose rounding to int8 adds most noise to the outputs. Values are
    taken in the order of noise saved per time spent. Functions of sums read theirs by tables of
    1024 entries.

    One backward pass over the float network estimates the noise that every value makes at the
    outputs. It runs for four samples, or for one if the network has more than 10^9 multiplications.
    Contributions are taken to add; errors of neighbours in one channel are taken as they are, since
    plain parts of an image are rounded alike.

    Values are inputs, what integers compute, and what floats compute for integers to read.

    Where products and others read a value, as a residual, products read a copy of it in 8 bits:
    16 bits for the others cost that copy and no product.

    1. Products that read 16 bits take twice the time. An accelerator of 8 bits (`narrow`) computes
       layers that make 16 bits of 8, or 8 of 16, twice, see `split-wide`.
       Others it leaves to the CPU, where they take 64 times as long. Depthwise
       layers and functions are there already.
    2. A value is not taken if it saves less than a hundredth of the noise that is left.
    3. From a signal-to-noise ratio of 24 dB, or if the ratio is unknown because no output varies
       over the samples, all together may take 1% of the time. But for
       accelerators of 8 bits it is 2% where each saves ten times as large a share of the noise that
       is left as its own share of the time.
    4. What only floats or the caller read, as scores before a sigmoid or what a recurrent layer
       reads, is taken first where no layer leaves its device for it: steps of int8 are ties
       between scores. But for accelerators of 8 bits it costs next to nothing and is taken besides
       those shares.

    Last, the noise of all stored values, 8 or 16 bits, is measured on as many other samples if
    there are any. The measurement includes effects that the estimate omits, such as sums with terms
    smaller than half a step.

    If they take more than 1% of the time, stderr names the values, their share of the noise and
    their time. A warning says so if less than 6 dB are left, as measured. Changes no value.
    """

    name = "choose-precision"

    narrow: bool = False
    """The accelerator stores 8 bits only."""
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
        meter, weighed, others = self._meter(main)
        _weigh(meter, weighed, candidates.values(), _roundings(main))
        # A copy makes the noise of its value as long as both have 8 bits, as ends may have to.
        behind = {value: candidates.pop(copy.result) for value, copy in copies.items()}
        behind = {value: copy for value, copy in behind.items() if value in candidates}
        total = sum(c.noise for c in candidates.values())
        if total == 0:
            return  # A last layer of zeros hides all.
        for value, copy in behind.items():
            candidates[value].noise -= copy.noise
        work = self._times.network(main)
        limit, spent, left, chosen = self._budget * work, 0.0, total, list[_Candidate]()
        unnoticed = CHEAP * work
        inside = quantized_operations(main)
        ends = {v for v in candidates if self._is_stored(v) and _only_read_in_float(v, inside)}

        def rank(candidate: _Candidate) -> tuple[bool, float]:
            return candidate.value not in ends, -candidate.noise / max(candidate.extra, 1.0)

        queue = sorted(candidates.values(), key=rank)
        while queue:
            candidate = queue.pop(0)
            # What was chosen before may have made it cheaper, since one table reads and makes 16
            # bits; or dearer, where a layer reads and makes them.
            known, candidate.extra = candidate.extra, self._times.widening(candidate.value)
            if candidate.extra > known:
                insort(queue, candidate, key=rank)
                continue
            is_end = candidate.value in ends
            matters = is_end or candidate.noise > NOTABLE * left
            is_free = is_end and not (self.narrow and _is_of_layer(candidate.value))
            room = limit
            is_noisy = meter.varies and left > 10 ** (-GOAL / 10)
            if not is_free and not is_noisy:
                pays = candidate.noise * work > WORTH * left * candidate.extra
                pays = pays and not (self.narrow or _is_joined(candidate.value))
                room = min(limit, unnoticed + (WORTH_SHARE - CHEAP) * work * pays)
            if matters and spent + candidate.extra <= room:
                spent, left = spent + candidate.extra, max(left - candidate.noise, 0.0)
                unnoticed += candidate.extra if is_free else 0.0
                chosen.append(candidate)
                _widen(candidate.value)
                if candidate.value in behind:
                    insort(queue, behind[candidate.value], key=rank)
        stored = [*candidates.values(), *behind.values()]
        noises = total, left, _measured(meter, others, stored, _roundings(main))
        known = noises if meter.varies else (nan, nan, nan)
        ratios = [round(decibels(1.0, noise), 1) for noise in known]
        found = dict(zip(("before", "after", "measured"), ratios, strict=True))
        note(main, NOISE, **{when: ratio for when, ratio in found.items() if not isnan(ratio)})
        if chosen and (share := spent / work) > CHEAP:
            self._say(chosen, total, ratios, share)
        if found["measured"] < DOUBTFUL:
            for candidate in chosen:
                candidate.noise = 0.0
            if chosen:
                _weigh(meter, weighed, chosen, _roundings(main))
            self._doubt(stored, found["measured"])

    def _meter(self, main: FuncOp) -> tuple[SensitivityMeter, Sequence[Sample], Sequence[Sample]]:
        """What weighs values of a network, the samples that it weighs them on, and others."""
        from ceras_ir.transforms.quantization.analysis.sensitivity import (
            LARGE,
            SensitivityMeter,
            multiplications,
        )

        is_large = multiplications(main) > LARGE
        samples = list(self.data(main, "weighing values", MEASURED if is_large else 2 * MEASURED))
        meter, count = SensitivityMeter(module_of(main), samples), 1 if is_large else MEASURED
        return meter, samples[::2][:count], samples[1::2][:count] or samples

    def _candidates(self, main: FuncOp) -> Iterator[_Candidate]:
        """Inputs, and what is computed or joined, that integers store or read in 8 bits."""
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
            ends = self.narrow_border and any(isinstance(u.operation, ReturnOp) for u in uses)
            if (has_quantized_form(op) or is_join(op)) and not ends:
                yield from self._candidate(op.output, node_name(op))

    def _candidate(
        self, value: SSAValue, name: str, inside: Collection[Operation] | None = None
    ) -> Iterator[_Candidate]:
        """A value, if there are readers of 16 bits: of those `inside` where floats make it."""
        readers = [use.operation for use in uses_after_moves(value, joined=True)]
        if inside is not None:
            readers = [op for op in readers if op in inside]
        if readers and all(map(_reads_bytes, readers)):
            return
        if width(value) == NARROW and exponent(value) is not None:
            yield _Candidate(value, name, self._times.widening(value))

    def _is_stored(self, value: SSAValue) -> bool:
        """Whether 16 bits of a value are made where 8 would be: by the host, or by two layers."""
        op = value.owner
        if not self.narrow:
            return True
        if isinstance(op, graph.LinearOperation):
            return op.has_single_channel_groups or self._times.splits(op)
        return isinstance(op, Block | graph.RecurrenceOp)

    def _say(
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

    def _doubt(self, stored: list[_Candidate], after: float) -> None:
        total = sum(c.noise for c in stored)
        remark(
            f"{self.name}: warning: int8 hardly computes this network: stored values leave "
            f"{after:.1f} dB of signal to noise at the outputs; give 16 bits (--int16, a larger "
            f"--budget) or floats (--float) to {_noisiest(stored, total)}"
        )


def _weigh(
    meter: SensitivityMeter,
    samples: Sequence[Sample],
    candidates: Collection[_Candidate],
    rounding: Callable[[SSAValue], Rounding],
) -> None:
    """Estimate the noise that each candidate makes at the ends."""
    import numpy as np

    from ceras_ir.transforms.quantization.analysis.sensitivity import noise_at_ends

    known = {c.value: (c, rounding(c.value)) for c in candidates}
    for sample in samples:
        for value, values, weights in meter.weigh(sample):
            if value in known:
                candidate, rounded = known[value]
                real = values[value].astype(np.float32)
                # Weights behind exponentials may be larger than the root of all floats.
                error = np.asarray(rounded(real), np.float64) - real
                candidate.noise += noise_at_ends(weights, error) / len(samples)


def _measured(
    meter: SensitivityMeter,
    samples: Sequence[Sample],
    candidates: Collection[_Candidate],
    rounding: Callable[[SSAValue], Rounding],
) -> float:
    """The noise that all of them together make at the ends."""
    known = {c.value: rounding(c.value) for c in candidates}

    def stored(value: SSAValue, array: Array) -> Array:
        return known[value](array) if value in known else array

    return meter.measure(samples, stored)


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
    """The values that make most of the noise `total`, and their shares."""
    named = sorted(candidates, key=lambda c: -c.noise)
    names = [f"{shortened(c.name)} ({c.noise / total:.0%} of the noise)" for c in named[:NAMED]]
    if len(named) > NAMED:
        names.append(f"{len(named) - NAMED} more")
    return ", ".join(names)


def _reads_bytes(op: Operation) -> bool:
    """Whether an operation reads 8 bits whatever is stored: a product of two activations."""
    return isinstance(op, graph.LinearOperation) and not isinstance(
        op.weights.owner, graph.ConstantOp
    )


def _only_read_in_float(value: SSAValue, inside: Collection[Operation]) -> bool:
    """Whether the caller and floats read a value, and none of the operations in integers do."""
    return all(use.operation not in inside for use in uses_after_moves(value, joined=False))


def _is_joined(value: SSAValue) -> bool:
    """Whether a value is joined of others or with others: 16 bits of one of them save nothing."""
    ops = [value.owner, *(use.operation for use in uses_after_moves(value, joined=False))]
    return any(isinstance(op, Operation) and is_join(op) for op in ops)


def _is_of_layer(value: SSAValue) -> bool:
    return isinstance(value.owner, graph.LinearOperation)


def _widen(value: SSAValue) -> None:
    """Store a value in 16 bits; what one function reads, at the exponent of its finer table."""
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
