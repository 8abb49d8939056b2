"""
Search the values of a network that are stored in 16 bits.

Values are proposed by estimates of noise, but measurements decide. Each measurement uses samples
on which no earlier choice depends, until there are no more.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isnan, log10

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.network.function import quantized_operations, states_of
from ceras_ir.network.integer import rounded_to
from ceras_ir.network.storage import widen
from ceras_ir.transforms.quantization.analysis.function_forms import (
    Form,
    fit_argument,
    form_of,
    is_table,
    reads_sum,
    set_form,
)
from ceras_ir.transforms.quantization.analysis.output_noise import mean_share
from ceras_ir.transforms.quantization.analysis.scale_classes import ScaleClasses, value_storage
from ceras_ir.transforms.quantization.analysis.sensitivity import (
    Array,
    Sample,
    SensitivityMeter,
    noise_at_outputs,
)
from ceras_ir.transforms.quantization.analysis.time_model import TimeModel

Rounding = Callable[[Array], Array]

MAX_DISAGREEMENT_DB = 3.0
"""The difference of estimate and measurement from which values are measured separately."""

MAX_ISOLATED, ISOLATED_SAMPLES = 16, 2
"""
The maximum number of values with the best estimates that are measured separately at a time,
and the number of samples.
"""

BATCH_GAIN = 4.0
"""The predicted factor by which a batch reduces the noise."""

MIN_GAIN = 1.02
"""The minimum measured factor, 0.1 dB, by which a batch must reduce the noise."""

MAX_FAILURES = 2
"""The number of consecutive batches without benefit after which they are undone."""

ALL_CHOSEN = "all values with noise have 16 bits"
GOAL_MET = "the goal is met"


@dataclass
class Candidate:
    """
    A value in 8 bits that may get 16 bits. `extra` is the additional time for 16 bits, in units of
    an 8-bit product. `noise` is the noise-to-signal ratio at the outputs due to rounding the value
    to 8 bits.
    """

    value: SSAValue
    name: str
    extra: float
    noise: float = 0.0


@dataclass
class Limits:
    """The limits of a search for values with 16 bits. Times are in units of an 8-bit product."""

    time: float
    """The maximum additional time."""
    free_time: float
    """The additional time that may be spent although all goals are met."""
    goals: Mapping[SSAValue, float]
    """The noise-to-signal ratio of each output that is good enough."""

    @property
    def is_infinite(self) -> bool:
        return self.time == inf


@dataclass
class Search:
    """
    A search for the values that get 16 bits. `candidates` are the values that may be chosen.
    `copied` has 8-bit copies of values, which layers use; if the value is chosen, the copy becomes
    a candidate.
    """

    main: FuncOp
    meter: SensitivityMeter
    times: TimeModel
    limits: Limits
    candidates: Mapping[SSAValue, Candidate]
    copied: Mapping[SSAValue, Candidate]
    first: Collection[SSAValue]
    """The values that are chosen first."""
    judged: Sequence[Sample] = ()
    """
    The samples on which a goal must also be met, and on which both ratios of the note are measured;
    by default those of the last measurement.
    """
    separate: set[SSAValue] = field(default_factory=set[SSAValue])
    """The values that were measured separately."""
    chosen: list[Candidate] = field(default_factory=list[Candidate])
    spent: float = 0.0
    before: float = 0.0
    """The noise-to-signal ratio of the outputs before the search, measured."""
    measured: float = 0.0
    """The noise-to-signal ratio of the outputs for the chosen values, measured."""
    predicted: float = 0.0
    """The noise-to-signal ratio of the outputs for the chosen values, estimated."""
    reason: str = ""
    """The reason to stop."""
    confirmed: int | None = None
    """The number of chosen values in the last measurement on the samples `judged`."""

    def run(self, chunks: Sequence[Sequence[Sample]]) -> None:
        """
        Choose values. Each group of samples in `chunks` is used for a single measurement, so that
        no measurement uses samples on which a choice depends. A single group is used for all
        measurements.
        """
        pending, initial = [*self.candidates.values()], _Attributes(self.main)
        shares = self._shares(chunks[0])
        self.before = self.measured = mean_share(shares.values())
        if self._take(pending, inf, self.limits.time):  # Only the values of `first`.
            self.limits.free_time += self.spent
            shares = self._shares(chunks[0])
            self.measured = mean_share(shares.values())
        self.reason = self._search(pending, shares, chunks)
        if not self.limits.is_infinite:
            self._take(pending, -inf, self.limits.free_time)
        self.predicted = sum(c.noise for c in pending)
        if self.chosen:
            judged = self.judged or chunks[-1]
            if self.confirmed != len(self.chosen):
                self.measured = mean_share(self._shares(judged).values())
            self.before = mean_share(self._former_shares(initial, judged).values())

    def _search(
        self,
        pending: list[Candidate],
        shares: Mapping[SSAValue, float],
        chunks: Sequence[Sequence[Sample]],
    ) -> str:
        """
        Choose batches of values from `pending` until the goal is met or no further choice helps.
        `shares` has the present noise-to-signal ratio of each output. Return the reason to stop, a
        text for the user.
        """
        enough, failures, best = mean_share(self.limits.goals.values()), 0, _Choice(self, pending)
        reason = ""
        for samples, following in list(pairwise(chunks)) or [(chunks[0], chunks[0])]:
            if self._is_good(shares):
                break
            self._correct(pending, samples)
            aim = enough if following is chunks[-1] else max(enough, self.measured / BATCH_GAIN)
            if not self._take(pending, aim, self.limits.time):
                is_full = any(c.noise > 0 for c in pending)
                reason = "no other value fits in --budget" if is_full else ALL_CHOSEN
                break
            measuring = following
            shares = self._shares(measuring)
            if self.judged and self._is_good(shares):
                measuring, self.confirmed = self.judged, len(self.chosen)
                shares = self._shares(measuring)
            self.measured = mean_share(shares.values())
            if self._is_better(best, measuring):
                best, failures = _Choice(self, pending), 0
                continue
            # Values of the same information hide each other until the last of them is chosen.
            failures += 1
            if failures == MAX_FAILURES:
                break
        if failures:
            best.restore(self, pending)
            return "16 bits for other values have no measured benefit"
        return GOAL_MET if self._is_good(shares) else reason or "no samples are left"

    def _is_better(self, best: _Choice, samples: Sequence[Sample]) -> bool:
        """
        Return whether the present choice has at least `MIN_GAIN` times less noise than the choice
        `best`. If this is not clear, `best` is measured again on the same samples.
        """
        if self.measured * MIN_GAIN < best.measured:
            return True
        # Samples differ: measure the former choice on the same samples.
        former = mean_share(self._former_shares(best.attributes, samples).values())
        return self.measured * MIN_GAIN < former

    def _former_shares(
        self, attributes: _Attributes, samples: Sequence[Sample]
    ) -> dict[SSAValue, float]:
        """Return the measured noise-to-signal ratio of each output for a former choice."""
        present = _Attributes(self.main)
        attributes.restore()
        former = self._shares(samples)
        present.restore()
        return former

    def _is_good(self, shares: Mapping[SSAValue, float]) -> bool:
        return all(
            isnan(share) or share <= self.limits.goals[output] for output, share in shares.items()
        )

    def _shares(self, samples: Sequence[Sample]) -> dict[SSAValue, float]:
        """
        Return the measured noise-to-signal ratio of each output on `samples`, with all stored
        values rounded to the present bits.
        """
        roundings = rounding_of(self.main)
        known = {c.value: roundings(c.value) for c in self.stored}
        return self.meter.shares(samples, lambda v, x: known[v](x) if v in known else x)

    @property
    def stored(self) -> list[Candidate]:
        """The values and the 8-bit copies of values that may be chosen or are chosen."""
        return [*self.candidates.values(), *self.copied.values()]

    def _correct(self, pending: list[Candidate], samples: Sequence[Sample]) -> None:
        """
        Multiply the estimated noise of the values `pending` by a factor, so that the sum is the
        measured noise. If both differ by 3 dB or more, the values with the best estimates are
        measured separately.
        """
        estimated = sum(c.noise for c in pending)
        if not (estimated > 0 and 0 < self.measured < inf):
            return
        factor = self.measured / estimated
        if abs(10 * log10(factor)) < MAX_DISAGREEMENT_DB:
            for candidate in pending:
                candidate.noise *= factor
            return
        roundings = rounding_of(self.main)
        ranked = sorted(pending, key=self._rank)
        best = [c for c in ranked if c.value not in self.separate][:MAX_ISOLATED]
        used = samples[:ISOLATED_SAMPLES]
        found = self.meter.isolated(used, {c.value: roundings(c.value) for c in best})
        before, after = sum(c.noise for c in best), sum(found.values())
        factor = after / before if before > 0 and 0 < after < inf else factor
        for candidate in pending:
            if candidate.value in found:
                candidate.noise = found[candidate.value]
            elif candidate.value not in self.separate:
                candidate.noise *= factor
        self.separate.update(found)

    def _rank(self, candidate: Candidate) -> tuple[bool, float]:
        return candidate.value not in self.first, -candidate.noise / max(candidate.extra, 1.0)

    def _take(self, pending: list[Candidate], aim: float, limit: float) -> list[Candidate]:
        """
        Choose values, the value with the most noise per time first, until the predicted noise at
        the outputs is at most `aim`. The additional time of all choices is at most `limit`. Return
        the chosen values, which are removed from `pending`.
        """
        queue, taken = sorted(pending, key=self._rank), list[Candidate]()
        predicted = self.measured
        while queue and (not predicted <= aim or queue[0].value in self.first):
            candidate = queue.pop(0)
            # Earlier choices may have changed the time: it decreases if a table has operand and
            # result in 16 bits, and increases if a layer has both.
            known, candidate.extra = candidate.extra, self.times.widening(candidate.value)
            if candidate.extra > known:
                insort(queue, candidate, key=self._rank)
                continue
            if candidate.noise <= 0 or self.spent + candidate.extra > limit:
                continue
            self.spent += candidate.extra
            predicted -= candidate.noise
            pending.remove(candidate)
            taken.append(candidate)
            widen_stored(candidate.value, self.times)
            if (copy := self.copied.get(candidate.value)) is not None:
                pending.append(copy)
                insort(queue, copy, key=self._rank)
        self.chosen += taken
        return taken


def run_until_met(searches: Sequence[Search], chunks: Sequence[Sequence[Sample]]) -> Search:
    """
    Run searches with increasing limits on the same network until one meets the goal. If none does,
    keep the choice of the first search. Return the search whose choice the network has.
    """
    main = searches[0].main
    initial, first = _Attributes(main), _Attributes(main)
    for number, search in enumerate(searches):
        initial.restore()
        search.run(chunks)
        if search.reason == GOAL_MET:
            return search
        if number == 0:
            first = _Attributes(main)
    first.restore()
    return searches[0]


class _Attributes:
    """A copy of the attributes of all operations and arguments of a function, to restore them."""

    def __init__(self, main: FuncOp) -> None:
        self.main, self.arguments = main, main.arg_attrs
        self.known: list[tuple[Operation, dict[str, Attribute]]] = [
            (op, dict(op.attributes)) for op in main.body.block.ops
        ]

    def restore(self) -> None:
        """Give all operations the attributes that they had."""
        self.main.arg_attrs = self.arguments
        for op, attributes in self.known:
            op.attributes = dict(attributes)


class _Choice:
    """The state of a search: the values that are chosen at a time, and the measured noise."""

    def __init__(self, search: Search, pending: Sequence[Candidate]) -> None:
        self.attributes, self.measured = _Attributes(search.main), search.measured
        self.spent, self.chosen, self.pending = search.spent, list(search.chosen), list(pending)

    def restore(self, search: Search, pending: list[Candidate]) -> None:
        """
        Return the search to this state. Values that were chosen later get an estimated noise of 0,
        because measurements showed no benefit.
        """
        self.attributes.restore()
        for candidate in search.chosen[len(self.chosen) :]:
            candidate.noise = 0.0
        search.spent, search.chosen, search.measured = self.spent, self.chosen, self.measured
        pending[:] = self.pending


def weigh(
    meter: SensitivityMeter,
    samples: Sequence[Sample],
    candidates: Collection[Candidate],
    rounding: Callable[[SSAValue], Rounding],
) -> None:
    """
    Estimate, for each candidate, the noise-to-signal ratio at the outputs due to rounding the
    value, and add it to `noise`. `rounding` returns the function that rounds a value.
    """
    known = {c.value: (c, rounding(c.value)) for c in candidates}
    for sample in samples:
        for value, values, weights in meter.weigh(sample):
            if value in known:
                candidate, rounded = known[value]
                real = values[value].astype(np.float32)
                # Weights before exponentials may be larger than the root of the largest float.
                error = np.asarray(rounded(real), np.float64) - real
                candidate.noise += noise_at_outputs(weights, error) / len(samples)


def rounding_of(main: FuncOp) -> Callable[[SSAValue], Rounding]:
    """
    Return a function of a value, which returns another function: it rounds an array to the storage
    of the value. The storage is that of the scale class (values with a common scale).
    """
    classes = ScaleClasses(quantized_operations(main), states_of(main), joined=False)

    def rounding(value: SSAValue) -> Rounding:
        known = classes.storage(value) if value in classes.root else value_storage(value)
        element = known.element
        return lambda array: rounded_to(array.astype(np.float32, copy=False), element)

    return rounding


def widen_stored(value: SSAValue, times: TimeModel) -> None:
    """
    Mark a value to be stored in 16 bits. If it is the operand of a function that becomes a table,
    the function gets the form for 16-bit operands, and the value the scale that it requires.
    """
    for use in value.uses:
        op = use.operation
        if isinstance(op, graph.UnaryOp) and is_table(op) and reads_sum(op):
            if form_of(op) in (None, Form.TABLE):
                set_form(op, times.fine_form(op))
                fit_argument(op)
            return
    widen(value)
