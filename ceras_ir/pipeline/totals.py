"""
Name the totals of `report.json` as flat figures, as expressions and conditions use them.

The JSON schemas declare the names and the units before a network is compiled.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from xdsl.utils.hints import isa

from ceras_ir.pipeline.schema import Schema, schema
from ceras_ir.support.figure_names import identifier
from ceras_ir.targets.protocol import Target


def declares_report(target: type[Target]) -> bool:
    """Return whether a target adds entries to the JSON schema of `report.json`."""
    return any("report" in cls.schema_parts() for cls in _with_bases(target))


def total_units(targets: Sequence[type[Target]]) -> dict[str, str]:
    """
    Return the unit of each total that the JSON schemas of `targets` declare: flat name -> unit.
    """
    found = schema("report", list(chain(*map(_with_bases, targets))))
    units: dict[str, str] = {}
    for name, rule in _properties(_properties(found).get("totals")).items():
        rules = _properties(rule)
        named = {f"{name}_{key}": each for key, each in rules.items()} if rules else {name: rule}
        for key, each in named.items():
            if isa(each, Schema) and isinstance(unit := each.get("unit"), str):
                units[identifier(key)] = unit
    return units


def _with_bases(target: type[Target]) -> list[type[Target]]:
    # A target can add totals in addition to those of its base class.
    return [cls for cls in target.__mro__ if issubclass(cls, Target)]


def _properties(rule: object) -> Schema:
    inner = rule.get("properties") if isa(rule, Schema) else None
    return inner if isa(inner, Schema) else {}


def total_figures(report: Mapping[str, object]) -> dict[str, float]:
    """
    Return the numbers in the entry `totals` of a report by flat name, such as
    `regions_sram_peak_bytes`.
    """
    totals = report.get("totals")
    found: dict[str, float] = {}
    if isa(totals, dict[str, object]):
        for name, value in totals.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[identifier(name)] = float(value)
            elif isa(value, dict[str, int | float]):
                found |= {identifier(f"{name}_{k}"): float(v) for k, v in value.items()}
    return found


LINES = {"time": "latency_us", "stack": "stack_bytes"}
"""The totals that a target can lack, by the label of their line in the summary."""


def missing_totals(figures: Mapping[str, str]) -> dict[str, str]:
    """
    Return the reason for each total that a target does not provide. `figures` maps labels of the
    summary to the texts of the target, which give the reason.
    """
    return {total: figures[label] for label, total in LINES.items() if label in figures}
