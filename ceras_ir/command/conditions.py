"""
Fail a command if a metric is outside a limit, for continuous integration: `--fail-if "flash>64K"`.

A condition has a metric, a comparison and a limit with an optional unit. The metric is named as in
the studies of `ceras-explore`, or with other separators (`top-1`). It describes the failure:
the command ends with status 1 if a condition is met, and prints the value, the limit and the
condition. A condition that cannot be evaluated is wrong usage, because a gate that is skipped would
pass. Each command defines metrics and values.
"""

import argparse
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf, isfinite, isnan
from types import MappingProxyType

from ceras_ir.command.entry_point import shown_name
from ceras_ir.command.exit_status import report
from ceras_ir.command.help_parser import usual
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.support.diagnostics import UsageError, did_you_mean
from ceras_ir.support.figure_names import identifier, matching

FLAG = "--fail-if"

FORM = re.compile(r"(?P<metric>[^<>=]*[^<>=\s])\s*(?P<relation>[<>]=?)\s*(?P<limit>.*\S)")
LIMIT = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(?P<unit>[a-z%]*)", re.I)

RELATIONS: Mapping[str, tuple[Callable[[float, float], bool], str]] = MappingProxyType(
    {
        "<": (operator.lt, "below"),
        "<=": (operator.le, "not above"),
        ">": (operator.gt, "above"),
        ">=": (operator.ge, "not below"),
    }
)
"""The comparisons, and the words for a value that meets the condition."""


@dataclass(frozen=True)
class Quantity:
    """
    The kind of a metric, such as bytes or time: the units of a limit, and the format of a value.
    """

    units: Mapping[str, float]
    """
    The factor of each unit, in any case: `{"K": 1024, "M": 1048576}`. A limit without a unit has
    the factor 1.
    """
    form: str
    """The format string of a value, such as "{:,} bytes"."""

    def text(self, value: float) -> str:
        """Return `value` as text with the unit, for a message."""
        if value == inf:
            return "infinite"
        return self.form.format(int(value) if value == int(value) else value)


KIB, MIB = 1024, 1024**2
BYTES = Quantity({"B": 1, "K": KIB, "KiB": KIB, "M": MIB, "MiB": MIB}, "{:,} bytes")
COUNT = Quantity({"K": 1e3, "M": 1e6}, "{:,}")
MICROSECONDS = Quantity({"us": 1, "ms": 1e3, "s": 1e6}, "{:,.6g} us")
DECIBELS = Quantity({"dB": 1}, "{:.5g} dB")
SHARE = Quantity({"%": 0.01}, "{:.6g}")
NUMBER = Quantity({}, "{:,.6g}")

MIN_UNIT_SIMILARITY = 0.75
"""The similarity from which a message proposes a unit: KiB instead of KB, but not M for ms."""


@dataclass(frozen=True)
class Condition:
    """
    The parts of a condition such as `flash>64K`: the metric, the comparison, the number and the
    unit.
    """

    text: str
    metric: str
    relation: str
    number: float
    unit: str

    def limit(self, quantity: Quantity) -> float:
        """
        Return the limit in the unit of measured values: 65536 for `64K`. Raise a `UsageError` for a
        unit that `quantity` does not have.
        """
        factors = {"": 1.0, **{unit.lower(): f for unit, f in quantity.units.items()}}
        factor = factors.get(self.unit.lower())
        if factor is None:
            listed = ", ".join(quantity.units) or "none"
            names = {unit.lower(): unit for unit in quantity.units}
            near = get_close_matches(self.unit.lower(), names, 1, MIN_UNIT_SIMILARITY)
            remedy = f"write {self.number:g}{names[near[0]]}; " if near else ""
            raise _refused(
                self, f"'{self.metric}' has no unit '{self.unit}'; {remedy}units: {listed}"
            )
        return self.number * factor


@dataclass(frozen=True)
class Value:
    """
    A measured value of a metric. Several outputs or networks can have a value of the same metric.
    """

    metric: str
    """The name as an identifier, such as `top_1`."""
    number: float
    output: str = ""
    """The output; a condition on `OUTPUT: METRIC` concerns only this output."""
    network: str = ""

    @property
    def name(self) -> str:
        """
        The metric as a condition names it: `OUTPUT: METRIC`, or `METRIC` for the entire network.
        """
        return f"{self.output}: {self.metric}" if self.output else self.metric

    def __str__(self) -> str:
        return f"{self.network}: {self.name}" if self.network else self.name


def byte_count(text: str) -> int:
    """Parse a number of bytes such as `64K`, with the units of conditions."""
    found = LIMIT.fullmatch(text.strip())
    factors = {"": 1.0, **{unit.lower(): factor for unit, factor in BYTES.units.items()}}
    if found is None or (factor := factors.get(found["unit"].lower())) is None:
        raise argparse.ArgumentTypeError(f"expected bytes such as 64K or 65536, got '{text}'")
    if (count := float(found["number"]) * factor) < 1:
        raise argparse.ArgumentTypeError(f"expected at least a byte, got '{text}'")
    return int(count)


def condition(text: str) -> Condition:
    """Parse a condition such as `flash>64K`, the value of `--fail-if`."""
    found = FORM.fullmatch(text.strip())
    limit = LIMIT.fullmatch(found["limit"]) if found else None
    if found is None or limit is None:
        raise argparse.ArgumentTypeError(
            "expected a metric, one of < <= > >=, and a number with an optional unit, "
            f"such as \"flash>64K\", got '{text}'"
        )
    number = float(limit["number"])
    if not isfinite(number):
        raise argparse.ArgumentTypeError(f"the limit is too large: '{text}'")
    return Condition(text, found["metric"].strip(), found["relation"], number, limit["unit"])


CONDITION_HELP = (
    "exit with status 1 if the condition is met, after all results are written; may be repeated. "
    "A condition is a metric, one of < <= > >=, and a limit:"
)
"""The start of the help of `--fail-if`, before examples and metrics."""


def add_conditions(parser: ToolParser, metrics: str) -> None:
    """
    Add the option `--fail-if`. `metrics` is the end of the help: examples, and the metrics with
    units.
    """
    shown = metrics.replace("%", "%%")
    usual(
        parser.add_argument(
            FLAG,
            type=condition,
            action="append",
            default=[],
            metavar="CONDITION",
            help=f"{CONDITION_HELP} for example {shown}",
        )
    )


def _refused(condition: Condition, message: str) -> UsageError:
    return UsageError(f'{FLAG} "{condition.text}": {message}')


def _named(each: Condition, metrics: Mapping[str, Quantity]) -> tuple[str, Quantity]:
    """
    Return the metric that the condition `each` names, possibly by a prefix, and the quantity. A
    name that is not in `metrics` is assumed to be a metric of the user, a share from 0 to 1.
    """
    name = identifier(each.metric.rpartition(": ")[2])
    found = matching(name, metrics)
    # `agreement_drop` is not an alternative to `agreement`.
    found = [f for f in found if not any(f.startswith(f"{other}_") for other in found)]
    if len(found) > 1:
        raise _refused(each, f"'{name}' may be {' or '.join(found)}")
    return (found[0], metrics[found[0]]) if found else (name, SHARE)


def _short_names(metrics: Mapping[str, Quantity]) -> Iterator[str]:
    """
    Yield the first word of each metric if no other metric begins with it: `flash` of `flash_bytes`.
    """
    for name in metrics:
        first = name.partition("_")[0]
        if len(matching(first, metrics)) == 1:
            yield first


def check_conditions(
    conditions: Sequence[Condition],
    metrics: Mapping[str, Quantity],
    is_other: Callable[[str], bool] = lambda _: False,
) -> None:
    """
    Raise a `UsageError` for an unknown metric or unit, before the work of the command begins.
    `is_other` returns whether a name that is not in `metrics` is a metric of the user, a share from
    0 to 1.
    """
    for each in conditions:
        name, quantity = _named(each, metrics)
        if name not in metrics and not is_other(name):
            listed = ", ".join(metrics)
            near = did_you_mean(name, {*metrics, *_short_names(metrics)})
            raise _refused(each, f"unknown metric '{name}'{near} (known: {listed})")
        limit = each.limit(quantity)
        is_share = name in metrics and quantity is SHARE
        if is_share and (not -1 <= limit <= 1 or (each.relation == ">" and limit == 1)):
            remedy = "" if each.unit else f": write {each.number:g}% for percent"
            raise _refused(each, f"'{name}' is at most 1{remedy}")


def met_conditions(
    conditions: Sequence[Condition],
    values: Sequence[Value],
    metrics: Mapping[str, Quantity],
    reasons: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """
    Yield an error message for each measured value in `values` that meets a condition. Raise a
    `UsageError` for a condition on a metric without a value; `reasons` maps such metrics to the
    reason, if it is known.
    """
    values = [value for value in values if not isnan(value.number)]
    for each in conditions:
        output = each.metric.rpartition(": ")[0]
        name, quantity = _named(each, metrics)
        same = [value for value in values if value.metric == name]
        found = [value for value in same if output in ("", value.output)]
        if not found:
            listed = ", ".join(dict.fromkeys(v.name for v in same or values)) or "none"
            reason = (reasons or {}).get(name, f"measured: {listed}")
            raise _refused(each, f"'{each.metric}' was not measured in this run ({reason})")
        limit = each.limit(quantity)
        compare, words = RELATIONS[each.relation]
        for value in found:
            if compare(value.number, limit):
                yield (
                    f'{FLAG} "{each.text}": {value} = {quantity.text(value.number)}, '
                    f"{words} the limit of {quantity.text(limit)}"
                )


def print_met(tool: str, messages: Sequence[str]) -> int:
    """
    Print the messages of `met_conditions` as errors of the command `tool`. Return the exit status:
    1 if there are any, else 0.
    """
    report([f"{shown_name(tool)}: error: {message}" for message in messages])
    return 1 if messages else 0
