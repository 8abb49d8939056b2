"""Choose the values that are stored in 16 bits, by measured noise and time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import inf, isinf, isnan, nan

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import graph
from ceras_ir.dialects.graph.operation import GraphOperation
from ceras_ir.network.function import (
    has_quantized_form,
    input_names,
    is_join,
    module_of,
    quantized_operations,
    uses_after_moves,
)
from ceras_ir.network.storage import NARROW, exponent, width
from ceras_ir.support.diagnostics import UsageError, node_name, remark, shortened
from ceras_ir.support.options import out_of_range
from ceras_ir.transforms.quantization.analysis.calibration import CalibratedPass
from ceras_ir.transforms.quantization.analysis.output_kinds import kind_of
from ceras_ir.transforms.quantization.analysis.output_noise import (
    NOISE,
    decibel_text,
    decibels,
    note,
)
from ceras_ir.transforms.quantization.analysis.precision_search import (
    Candidate,
    Limits,
    Search,
    rounding_of,
    run_until_met,
    weigh,
)
from ceras_ir.transforms.quantization.analysis.sensitivity import (
    Sample,
    SensitivityMeter,
    multiplications,
)
from ceras_ir.transforms.quantization.analysis.time_model import TimeModel
from ceras_ir.transforms.quantization.set_precision import (
    Copies,
    erase_idle_copies,
    insert_copies,
    spread,
)
from ceras_ir.transforms.quantization_options import (
    DEFAULT_BUDGET,
    UNLIMITED_BUDGET,
    BudgetOptions,
    NarrowOptions,
    ResidualSpreadOptions,
)

CHUNKS = 6
"""The number of groups of samples: one for estimates, and one for each measurement."""

MAX_CHUNK_SAMPLES, MAX_CHUNK_MACS = 4, 400_000_000
"""The maximum number of samples in a group, and the multiplications of a group."""

MAX_CHEAP_SAMPLES, MAX_CHEAP_MACS = 10, 60_000_000
"""The same for networks with few multiplications, whose groups can be larger."""

UNNOTICED_SHARE = 0.01
"""The share of the time of the network that is not noticed, nor named in notes."""

MIN_USABLE_DB = 6.0
"""The signal-to-noise ratio at the outputs in decibels below which a warning is printed."""

MAX_NAMED_VALUES = 8


@dataclass(frozen=True)
class ChoosePrecisionPass(NarrowOptions, ResidualSpreadOptions, BudgetOptions, CalibratedPass):
    """
    Store values in 16 bits if rounding them to int8 adds most noise to the outputs.

    Candidates are inputs, results of integer operations, and float operands of integer operations.
    A backward pass over the float network estimates the noise of each value at the outputs. Values
    are proposed in batches, in the order of noise saved per time spent. The noise after each batch
    is measured on samples on which no earlier choice depends:

    1. If estimates and measurement differ by 3 dB, the best values are measured separately.
    2. Two batches without measured benefit are undone.
    3. The search stops if each output has the goal of its kind (`goal`, see `output_kinds.py`) on
       all samples of measurements, if no value fits in the budget, or if no samples are left.
    4. The search continues below the goal while all values together take 1% of the time.
    5. A budget of 1 or more sets no limit and no goal. The default is 0.1, or 0.5 without `narrow`
       if an output is an image or sound and this meets the goal.

    The time of a value in 16 bits includes its consumers. Layers with 16-bit operands take twice
    the time. An 8-bit accelerator (`narrow`) computes layers between 8 and 16 bits twice, see
    `split-wide`. It leaves other such layers, additions and poolings to the CPU, which takes 64
    times as long. If a value has layers and other consumers, such as a residual connection, the
    layers use an 8-bit copy. A function of a sum uses a table of 1024 entries, or on a host floats
    if it has a slope per channel.

    Without `narrow`, a value with only float consumers, such as scores before a sigmoid, is chosen
    first, because int8 scores have ties.

    If the values take more than 1% of the time, or a goal is given, stderr names them, the kinds of
    the outputs and the reason to stop. A warning is printed if the measured ratio is below 6 dB.
    Changes no value.

    Before, with `calibration=samples.npz budget=0.6`:

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
            graph.stored_noise = {before = 38.2 : f32, after = 40.6 : f32, measured = 42.2 : f32}} {
          %w = graph.constant dense<[[1.0, 100.0]]> : tensor<1x2xf32> : tensor<1x2xf32>
          %y = graph.matmul %x, %w {graph.exponent = -7 : i64, graph.range = array<f32: 0.0, 101.0>,
              graph.precision = "i16"} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x1xf32>
          func.return %y : tensor<1x1xf32>
        }
    """

    name = "choose-precision"

    narrow_border: bool = False
    """Keep inputs and outputs in 8 bits."""

    def __post_init__(self) -> None:
        for name, limit in out_of_range(self):
            raise UsageError(f"option '{name}' of pass '{self.name}' {limit}")

    def _budgets(self, main: FuncOp, outputs: Iterable[SSAValue]) -> list[float]:
        """
        Return the shares of the time that 16-bit values may add, in the order in which they are
        tried; `inf` means no limit.
        """
        if self.budget is not None:
            return [self.budget if self.budget < UNLIMITED_BUDGET else inf]
        more = max((kind_of(main, value).budget for value in outputs), default=DEFAULT_BUDGET)
        return [DEFAULT_BUDGET, *([more] if more > DEFAULT_BUDGET and not self.narrow else [])]

    @cached_property
    def _times(self) -> TimeModel:
        return TimeModel(self.narrow, self.residual_spread)

    def improve(self, main: FuncOp) -> None:
        if self.budget == 0:
            return
        copies = insert_copies(main, of_products=not self.narrow)
        self._choose(main, copies)
        erase_idle_copies(copies)
        spread(main)

    def _choose(self, main: FuncOp, copies: Copies) -> None:
        if not (candidates := {c.value: c for c in self._candidates(main)}):
            return
        meter, chunks = self._meter(main)
        weigh(meter, chunks[0], candidates.values(), rounding_of(main))
        # The noise of a copy is part of the noise of the value while both have 8 bits.
        copied = {value: candidates.pop(copy.result) for value, copy in copies.items()}
        copied = {value: copy for value, copy in copied.items() if value in candidates}
        if sum(c.noise for c in candidates.values()) == 0:
            return  # The weights of the last layer are zero.
        for value, copy in copied.items():
            # Both are estimates, and their difference can be negative.
            candidates[value].noise = max(candidates[value].noise - copy.noise, 0.0)
        work, goals = self._times.network(main), self._goals(main, meter)
        inside = quantized_operations(main)
        scores = {
            value
            for value in candidates
            if not self.narrow
            and all(u.operation not in inside for u in uses_after_moves(value, joined=False))
        }
        used = max(MAX_CHUNK_MACS // max(multiplications(main), 1), len(chunks[-1]))
        judged = list(chain.from_iterable(chunks[1:]))[:used]
        searches = [
            Search(
                main,
                meter,
                self._times,
                Limits(
                    budget * work,
                    UNNOTICED_SHARE * work,
                    {v: 0.0 if isinf(budget) else 10 ** (-d / 10) for v, d in goals.items()},
                ),
                {value: replace(candidate) for value, candidate in candidates.items()},
                {value: replace(candidate) for value, candidate in copied.items()},
                scores,
                judged,
            )
            for budget in self._budgets(main, meter.outputs)
        ]
        search = run_until_met(searches, chunks[1:])
        noises = search.before, search.predicted, search.measured
        known = noises if meter.varies else (nan, nan, nan)
        ratios = [round(decibels(1.0, noise), 1) for noise in known]
        found = dict(zip(("before", "after", "measured"), ratios, strict=True))
        note(main, NOISE, **{when: ratio for when, ratio in found.items() if not isnan(ratio)})
        share = search.spent / work
        if (search.chosen and share > UNNOTICED_SHARE) or self.goal is not None:
            self._report_choice(main, search, ratios, share)
        if found["measured"] < MIN_USABLE_DB:
            for candidate in search.chosen:
                candidate.noise = 0.0
            if search.chosen:
                weigh(meter, chunks[0], search.chosen, rounding_of(main))
            self._warn(search.stored, found["measured"])

    def _meter(self, main: FuncOp) -> tuple[SensitivityMeter, Sequence[Sequence[Sample]]]:
        """
        Return the meter of noise at the outputs, and groups of samples: a group for estimates, and
        a group for each measurement. If there are few samples, they are used for both.
        """
        macs = max(multiplications(main), 1)
        size = max(
            min(MAX_CHUNK_MACS // macs, MAX_CHUNK_SAMPLES),
            min(MAX_CHEAP_MACS // macs, MAX_CHEAP_SAMPLES),
            1,
        )
        samples = list(self.data(main, "weighing values", size * CHUNKS))
        size = min(size, max(len(samples) // CHUNKS, MAX_CHUNK_SAMPLES))
        count = max(min(CHUNKS, len(samples) // size), 1)
        chunks = [samples[i::count][:size] for i in range(count)]
        return SensitivityMeter(module_of(main), samples), chunks if count > 1 else chunks * 2

    def _goals(self, main: FuncOp, meter: SensitivityMeter) -> dict[SSAValue, float]:
        """Return, for each output, the signal-to-noise ratio in dB that is good enough."""
        if self.goal is not None:
            return dict.fromkeys(meter.outputs, self.goal)
        return {value: kind_of(main, value).goal for value in meter.outputs}

    def _candidates(self, main: FuncOp) -> Iterator[Candidate]:
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
    ) -> Iterator[Candidate]:
        users = [use.operation for use in uses_after_moves(value, joined=True)]
        if inside is not None:
            users = [op for op in users if op in inside]
        if users and all(map(_needs_bytes, users)):
            return
        if width(value) == NARROW and exponent(value) is not None:
            yield Candidate(value, name, self._times.widening(value))

    def _report_choice(
        self, main: FuncOp, search: Search, noise: Sequence[float], share: float
    ) -> None:
        chosen = search.chosen
        count = "1 value" if len(chosen) == 1 else f"{len(chosen) or 'no'} values"
        before, _, measured = ("none" if isinf(d) else decibel_text(d) for d in noise)
        goals = {
            f"{kind_of(main, value).text}: {goal:g} dB"
            for value, goal in self._goals(main, search.meter).items()
        }
        goal = "no goal" if search.limits.is_infinite else f"goal {', '.join(sorted(goals))}"
        ratios = f"{before} -> {measured}" if chosen else measured
        cost = f", for {share:.1%} of the modelled time: {_noisiest(chosen)}" if chosen else ""
        remark(
            f"{self.name}: note: 16 bits for {count}: noise of stored values, without the rounding "
            f"of weights, measured {ratios} ({goal}; {search.reason}){cost}"
        )

    def _warn(self, stored: list[Candidate], after: float) -> None:
        remark(
            f"{self.name}: warning: int8 is too coarse for this network: the signal-to-noise ratio "
            f"of stored values is {after:.1f} dB at the outputs; use 16 bits (--int16, a larger "
            f"--budget) or floats (--float) for {_noisiest(stored)}"
        )


def _noisiest(candidates: list[Candidate]) -> str:
    total = sum(c.noise for c in candidates)
    named = sorted(candidates, key=lambda c: -c.noise)
    names = [
        f"{shortened(c.name)} ({c.noise / total if total else 0:.0%} of the noise)"
        for c in named[:MAX_NAMED_VALUES]
    ]
    if len(named) > MAX_NAMED_VALUES:
        names.append(f"{len(named) - MAX_NAMED_VALUES} more")
    return ", ".join(names)


def _needs_bytes(op: Operation) -> bool:
    """
    Return whether the operands of `op` must have 8 bits, because it is a product of two
    activations.
    """
    return isinstance(op, graph.LinearOperation) and not isinstance(
        op.weights.owner, graph.ConstantOp
    )
